# Which pages are admitted: a page that is looked at twice in one stay in shared buffers was evicted once at most; what
# is in force, and what the view shows.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# So large that what other pages leave behind does not push out what is remembered of this one.
my $node = fc_new_node('main', size => '64MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\n");

$node->safe_psql('postgres', q{
	CREATE TABLE t (v text);
	INSERT INTO t VALUES ('one page');
	CREATE UNLOGGED TABLE uncached (v text);
	ALTER TABLE uncached ALTER v SET STORAGE PLAIN;
	INSERT INTO uncached SELECT repeat('x', 5000) FROM generate_series(1, 1024);
	CREATE FUNCTION usage() RETURNS int AS $$
		SELECT usagecount FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0
	$$ LANGUAGE sql;
	CREATE FUNCTION touch() RETURNS void AS $$ BEGIN PERFORM 1 FROM t WHERE ctid = '(0,1)'; END $$ LANGUAGE plpgsql;
	-- so few pages that the writer can follow, of which there are more than buffers
	CREATE FUNCTION step(n int) RETURNS void AS $$
	BEGIN
		FOR i IN 0 .. 7 LOOP
			PERFORM 1 FROM uncached WHERE ctid = format('(%s,1)', (n * 8 + i) % 1024)::tid;
		END LOOP;
	END $$ LANGUAGE plpgsql;
	VACUUM t;
	CHECKPOINT;
});

my $session = $node->background_psql('postgres');

sub ask { return $session->query_safe($_[0]) }

sub set_admission
{
	my ($value) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.admission = $value\n");
	$node->reload;
	1 until ask('SHOW pg_flashcache.admission') eq $value;
	fc_writer_round($session);
	return;
}

# Nothing on flash, and nothing remembered.
sub purge
{
	foreach my $on ('off', 'on')
	{
		$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $on\n");
		$node->reload;
		fc_wait_state($node, $on eq 'on' ? 'active' : 'disabled');
	}
	fc_evict($node, 't');
	return;
}

sub on_flash { return fc_in_flash($node, 't') }

# Reads other pages until that of t has this usage count, or is gone: ''. The writer sees each of the frames on the way.
my $steps = 0;

sub is_brought_to
{
	my ($usage, $name) = @_;
	my $is;
	for (1 .. 500)
	{
		$is = ask('SELECT usage()');
		last if $is eq $usage || $is eq '';
		ask('SELECT step(' . $steps++ . ')');
		fc_writer_round($session);
	}
	is($is, $usage, $name);
	return;
}

# The page gets cold, the writer looks at it, and somebody uses it again: it stays.
sub is_looked_at
{
	my ($name) = @_;
	is_brought_to(0, "$name: the page gets cold, and stays");
	fc_writer_round($session);
	ask('SELECT touch()');
	is(ask('SELECT usage()'), 1, "$name: it is used again");
	return;
}

# The writer sees it leave the pool, or has it handed over.
sub is_evicted
{
	my ($name) = @_;
	is_brought_to('', "$name: it is evicted");
	fc_writer_round($session);
	return;
}

ask('SELECT usage(), touch(), step(0)');
purge();
set_admission('all');
ask('SELECT touch()');
is_looked_at('all');
is(on_flash(), 1, 'all: a look is enough');

purge();
set_admission('reuse');
ask('SELECT touch()');
is_looked_at("reuse, look $_") foreach 1 .. 3;
is(on_flash(), 0, 'reuse: three looks are not a second eviction');
is_evicted('reuse, first eviction');
is(on_flash(), 0, 'reuse: nor is the one eviction after them');
ask('SELECT touch()');
is_evicted('reuse, second eviction');
is(on_flash(), 1, 'reuse: the second eviction is');

# It was looked at when it was clean, and is then changed and handed over when it is evicted: one eviction.
purge();
set_admission('reuse');
ask('SELECT touch()');
is_looked_at('changed');
ask($_) foreach 'BEGIN', 'SELECT 1 FROM t FOR UPDATE', 'ROLLBACK';
is_evicted('changed');
is(on_flash(), 0, 'changed: a look and a hand-over are not two evictions');
ask('SELECT touch()');
is_evicted('changed, again');
is(on_flash(), 1, 'changed: that is the second one');

# What is in force.
sub shown { return ask(q{SELECT string_agg(candidate, ' ' ORDER BY candidate) FILTER (WHERE in_force), string_agg(candidate, ' ') FILTER (WHERE chosen) FROM pg_flashcache_admission}) }

is(shown(), '|page', 'reuse: none of the candidates is in force');
foreach my $candidate ('all', 'ghost_half', 'ghost', 'ghost_two', 'page', 'region')
{
	set_admission($candidate);
	is(shown(), "$candidate|page", "$candidate: is in force");
}
set_admission('auto');
is(shown(), 'page|page', 'auto: by page as long as nothing is known');
$session->quit;

is( $node->safe_psql('postgres', q{
	SELECT count(*), count(DISTINCT sampled_reads), bool_and(sampled_reads > 0), bool_and(hit_ratio BETWEEN 0 AND 1), bool_and(writes_per_read >= 0)
	FROM pg_flashcache_admission}), '6|1|t|t|t', 'the view has what was sampled');

is({ fc_stat($node, 'verify_failures') }->{verify_failures}, 0, 'nothing stale');
$node->stop;
done_testing();


# pg_stat_flashcache_statements: what each statement has read, to the last page, also where it fails, is fetched in parts, calls
# others or has parallel workers; who sees what; little used ones make room; who asks for query identifiers, and who does not.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '4MB', buffers => '2MB', conf => <<'END');
shared_preload_libraries = 'pg_stat_statements,pg_flashcache'
pg_flashcache.verify = off
pg_stat_statements.track = 'all'
checkpoint_timeout = 1h
max_parallel_workers_per_gather = 0
enable_seqscan = off
enable_bitmapscan = off
END
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_prewarm;
	CREATE EXTENSION pg_stat_statements;
	CREATE ROLE reader LOGIN;
	CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
	CREATE TABLE t (id int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, repeat('x', 5000) FROM generate_series(1, 40) n;
	CREATE INDEX i ON t (id DESC);
	CREATE TABLE u AS TABLE t;
	GRANT SELECT ON t TO reader;
	VACUUM ANALYZE;
	CREATE FUNCTION fails(n int) RETURNS bool LANGUAGE plpgsql AS
		'BEGIN IF n = 20 THEN RAISE EXCEPTION ''enough''; END IF; RETURN true; END';
	CREATE FUNCTION measure(query text, OUT hits bigint, OUT disk_reads bigint) LANGUAGE plpgsql AS $$
	DECLARE a pg_stat_flashcache_session; b pg_stat_flashcache_session;
	BEGIN
		SELECT * INTO a FROM pg_stat_flashcache_session;
		EXECUTE query;
		SELECT * INTO b FROM pg_stat_flashcache_session;
		hits := b.hits - a.hits;
		disk_reads := b.disk_reads - a.disk_reads;
	END $$;
});

# of(text, top level): calls, hits and pages from disk of the statements with such a text.
sub of
{
	my ($like, $toplevel) = @_;
	$toplevel //= 'true';
	return split /\|/, $node->safe_psql('postgres', qq{SELECT coalesce(sum(calls), 0), coalesce(sum(hits), 0), coalesce(sum(disk_reads), 0)
		FROM pg_stat_flashcache_statements WHERE toplevel = $toplevel AND query LIKE '$like' AND query NOT LIKE '%pg_stat_flashcache_statements%'});
}

# fresh(): the table is on flash and not in shared buffers, and nothing has been counted.
sub fresh
{
	fc_to_flash($node, 't');
	$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
	return;
}

# A session that knows all catalogs that it needs: so a statement reads nothing but what it is about.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $sum     = 'SELECT sum(length(v)) FROM t WHERE id > 0';
my $sum_is  = 'SELECT sum(length(v)) FROM t WHERE id > $1';
$session->query($_) foreach $sum, "SELECT * FROM measure('$sum')", "SELECT * FROM measure('$sum')";

fresh();
my @own = split /\|/, $session->query_safe("SELECT * FROM measure('$sum')");
cmp_ok($own[0], '>=', 40, 'the table is read from flash');
# Planning is not the executor's: that may have read the first page of the index.
my @nested = of($sum_is, 'false');
is($nested[0], 1, 'a statement that another one calls: one call');
cmp_ok($nested[1], '>=', 40, 'it has read the table');
cmp_ok($nested[1], '<=', $own[0], 'no more than the session says');
cmp_ok($nested[2], '<=', $own[1], 'nor from disk');
my @top = of('SELECT % FROM measure(%');
is($top[0], 1, 'the one that called it: one call');
cmp_ok($top[1], '>=', $nested[1], 'with what it called');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_flashcache_statements s JOIN pg_stat_statements p USING (userid, dbid, queryid, toplevel)
	WHERE s.query = p.query AND read_time_us > 0 AND s.query LIKE '%FROM measure(%'}), 1, 'identifiers and texts are those of pg_stat_statements');

fresh();
$session->query($sum) for 1 .. 3;
my @thrice = of($sum_is);
is($thrice[0], 3, 'three calls of the client\'s own');
cmp_ok($thrice[1] + $thrice[2], '>=', 40, 'with their reads');

# It fails after 20 rows.
fresh();
$session->query('SELECT sum(length(v)) FROM t WHERE id > 0 AND fails(41 - id)');
$session->{stderr} = '';
# It has no text: pg_stat_statements does not count those that fail.
my @failed = split /\|/, $node->safe_psql('postgres', q{SELECT sum(calls), sum(hits), sum(disk_reads) FROM pg_stat_flashcache_statements
	WHERE toplevel AND query IS NULL AND hits + disk_reads >= 19});
is($failed[0], 1, 'a statement that fails is counted');
cmp_ok($failed[1] + $failed[2], '>=', 19, 'with what it had read');
cmp_ok($failed[1] + $failed[2], '<', 40, 'no more');

# In parts, with another statement in between.
fresh();
$session->query($_) foreach 'BEGIN', 'DECLARE c CURSOR FOR SELECT v FROM t WHERE id > 0', 'FETCH 10 FROM c', $sum, 'FETCH 10 FROM c', 'COMMIT';
my @fetch = of('FETCH%');
is($fetch[0], 2, 'a cursor: two fetches');
cmp_ok($fetch[1] + $fetch[2], '>=', 10, 'with what they read');
cmp_ok($fetch[1] + $fetch[2], '<', 30, 'not with what was read in between');

# By parallel workers alone.
fresh();
$session->query("SET $_") foreach 'enable_seqscan = on', 'enable_indexscan = off', 'parallel_setup_cost = 0', 'parallel_tuple_cost = 0', 'min_parallel_table_scan_size = 0',
  'parallel_leader_participation = off', 'max_parallel_workers_per_gather = 2';
$session->query('SELECT sum(length(v) + 1) FROM t');
my @parallel = of('SELECT sum(length(v) + $1) FROM t');
is($parallel[0], 1, 'parallel workers: one call');
cmp_ok($parallel[1] + $parallel[2], '>=', 40, 'has what they read');
$session->quit;

# What the cache does not have: a new file.
$node->safe_psql('postgres', 'VACUUM FULL u; SELECT pg_flashcache_reset_stats(); SET enable_seqscan = on; SELECT max(v) FROM u');
my ($of_u, $missed) = split /\|/, $node->safe_psql('postgres', q{SELECT hits + misses, misses > 0 FROM pg_stat_flashcache_statements
	WHERE query = 'SELECT max(v) FROM u'});
is($of_u, $node->safe_psql('postgres', q{SELECT pg_relation_size('u') / 8192}), 'hits and misses are all the pages');
is($missed, 't', 'some of which flash did not have');

# Who sees what.
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats(); SET ROLE reader; SELECT count(v) FROM t');
$node->safe_psql('postgres', 'SELECT count(id) FROM t');
my $seen = q{SELECT string_agg(query, ',' ORDER BY query) FROM pg_stat_flashcache_statements WHERE query LIKE 'SELECT count(%) FROM t'};
is($node->safe_psql('postgres', "SET ROLE reader; $seen"), 'SELECT count(v) FROM t', 'a user sees his own');
is($node->safe_psql('postgres', q{SET ROLE reader; SELECT count(*) FROM pg_stat_flashcache_statements WHERE userid <> 'reader'::regrole}), 0, 'and nothing of others');
is($node->safe_psql('postgres', q{CREATE ROLE friend IN ROLE reader; SET ROLE friend; SELECT bool_or(userid = 'reader'::regrole),
	bool_and(userid IN ('reader'::regrole, 'friend'::regrole)) FROM pg_stat_flashcache_statements}), 't|t', 'and those of a role whose privileges he has');
is($node->safe_psql('postgres', "SET ROLE monitor; $seen"), 'SELECT count(id) FROM t,SELECT count(v) FROM t', 'pg_monitor sees all');

# Off.
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
$node->safe_psql('postgres', 'SET pg_flashcache.track_statements = off; SELECT count(id) FROM t');
is((of('SELECT count(id) FROM t'))[0], 0, 'track_statements = off');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_flashcache_statements WHERE query LIKE 'SELECT pg_flashcache_reset_stats()'}), 1,
	'the reset itself was still going on');

# A text may be of any length: of what is longer, the beginning, up to a whole character.
my $long = 'SELECT ' . join(', ', (qq{count(id) AS "x\xc3\xa9"}) x 600) . ' FROM t';
my $most = 8192;
$most-- while substr($long, $most, 1) =~ /[\x80-\xbf]/;
$node->safe_psql('postgres', $long);
is($node->safe_psql('postgres', q{SELECT octet_length(query) FROM pg_stat_flashcache_statements WHERE query LIKE 'SELECT count(id) AS "x%'}), $most,
	'of a long text the beginning is shown');

# No pg_stat_statements: what is counted, what the view says, and whether EXPLAIN shows an identifier.
sub is_counted
{
	my ($options, $counted, $notice, $identifier, $name) = @_;
	local $ENV{PGOPTIONS} = $options;
	$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
	$node->safe_psql('postgres', 'SELECT 4711') for 1 .. 3;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_statement_stat(false) WHERE calls = 3'), $counted, "$name: counted");
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT count(*) > 0 FROM pg_stat_flashcache_statements');
	is($out, $counted ? 't' : 'f', "$name: the view");
	like($err, $notice, "$name: what it says");
	my $reason = $node->safe_psql('postgres', 'SELECT statements_reason FROM pg_flashcache_tracking_stat()');
	is($reason eq '' ? 1 : 0, $counted, "$name: and why");
	like($err, qr/not counted: \Q$reason\E\nHINT:/, "$name: the same") unless $counted;
	my $shown = $node->safe_psql('postgres', 'EXPLAIN (VERBOSE, COSTS OFF) SELECT 1') =~ /Query Identifier/ ? 1 : 0;
	is($shown, $identifier, "$name: the identifier in EXPLAIN");
	return;
}

my $nobody = qr/NOTICE:  statements are not counted: the server computes no query identifiers: no library has asked/;
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_flashcache'");
$node->restart;
fc_wait_active($node);
is($node->safe_psql('postgres', 'SHOW pg_flashcache.track_statements'), 'auto', 'the default');
is_counted('', 0, $nobody, 0, 'auto');
is_counted('-c compute_query_id=on', 1, qr/^$/, 1, 'auto with compute_query_id');
is_counted('-c compute_query_id=off', 0, qr/not counted: compute_query_id is off/, 0, 'auto without');
is_counted('-c pg_flashcache.track_statements=on', 0, $nobody, 0, 'on, but not at the start');
is_counted('-c compute_query_id=on -c pg_flashcache.track_statements=off', 0, qr/not counted: pg_flashcache.track_statements is off/, 1, 'off');

# Off at the start; and then a reload is enough.
$node->append_conf('postgresql.conf', 'pg_flashcache.track_statements = no');
$node->restart;
fc_wait_active($node);
is_counted('', 0, qr/track_statements is off/, 0, 'off at the start');
$node->append_conf('postgresql.conf', "pg_flashcache.track_statements = auto\ncompute_query_id = on");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('pg_flashcache.track_statements') = 'auto'") or die 'not reloaded';
is_counted('', 1, qr/^$/, 1, 'auto by a reload');

# On at the start: it asks. Few places.
$node->append_conf('postgresql.conf', <<'END');
compute_query_id = auto
pg_flashcache.track_statements = true
pg_flashcache.max_tracked_statements = 16
END
$node->restart;
fc_wait_active($node);
is_counted('', 1, qr/^$/, 1, 'on at the start');
is_counted('-c compute_query_id=regress', 1, qr/^$/, 0, 'with identifiers that are not shown');
is_counted('-c compute_query_id=off', 0, qr/compute_query_id is off/, 0, 'on at the start, without identifiers');
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
$node->safe_psql('postgres', $sum) for 1 .. 5;
my $id = $node->safe_psql('postgres', q{SELECT queryid FROM pg_stat_flashcache_statements WHERE toplevel ORDER BY hits + disk_reads DESC LIMIT 1});
is($node->safe_psql('postgres', 'SELECT count(*) > 0, count(query) FROM pg_stat_flashcache_statements'), 't|0', 'on: identifiers without pg_stat_statements, no texts');
$node->safe_psql('postgres', join '; ', map { 'SELECT ' . join ', ', (1) x $_ } 1 .. 40);
is($node->safe_psql('postgres', 'SELECT statements, max_statements, statements_given_up >= 24 FROM pg_flashcache_tracking_stat()'), '16|16|t', 'little used ones made room');
is($node->safe_psql('postgres', "SELECT calls FROM pg_stat_flashcache_statements WHERE queryid = $id"), 5, 'one that has read much did not');

fc_is_clean($node);
$node->stop;
done_testing();

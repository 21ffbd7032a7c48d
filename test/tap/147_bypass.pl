# A tablespace that is as fast as flash is read without the cache, another one beside it is not; what that means for reads,
# fills and invalidation, exactly; and the way back when its disk has become slow.
#
# A page from flash takes 2 ms here, one from the disk 8 ms or what the page cache takes. Trials go by few samples, and
# come at once.
#
# Every hit is compared with the disk. Pages are read last one first, each alone, which is no stream.
#
# Fails without: fc_bypass_fills() in is_wanted() and fc_cache_evicted() ("leaves flash");
# fc_bypass_leaves() in fc_cache_plan() ("read from disk").

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGES => 150, ROUNDS => 100 };

# What is fast here is no page cache; a trial is not given up since the machine is busy.
$ENV{FC_PAGE_CACHE_US}   = 0;
$ENV{FC_BYPASS_SAMPLES}  = 16;
$ENV{FC_BYPASS_PAUSE_MS} = 100;
$ENV{FC_BYPASS_TRIAL_MS} = 1_000_000;

my ($major) = `pg_config --version` =~ /(\d+)/;
my $node = fc_new_node('main', size => '8MB', conf => <<'END');
allow_in_place_tablespaces = on
autovacuum = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
enable_seqscan = off
END
fc_everywhere($node);
my %tag;
foreach my $table ('fast', 'slow')
{
	# outside a transaction
	$node->safe_psql('postgres', "CREATE TABLESPACE $table LOCATION ''");
	fc_table($node, 'postgres', $table, 'v1', PAGES);
	$node->safe_psql('postgres', "ALTER TABLE $table SET TABLESPACE $table; SELECT count(*) FROM $table; CHECKPOINT");
	$tag{$table} = fc_tag($node, 'postgres', $table);
}
$node->safe_psql('postgres', 'CREATE INDEX fast_tenth ON fast ((id % 10)); VACUUM ANALYZE fast');
fc_push_out($node, $tag{slow});
fc_bring($node, 'postgres', 'fast');

# All pages of these tables, one at a time.
sub drive
{
	my (@tables) = @_;
	$node->safe_psql('postgres', join ';',
		map { "SELECT count((SELECT val FROM $_ WHERE ctid = format('(%s,1)', @{[PAGES - 1]} - b)::tid)) FROM generate_series(0, @{[PAGES - 1]}) b" } @tables);
	return;
}

# Its row, without times.
sub state_of
{
	my ($tablespace) = @_;
	return $node->safe_psql('postgres',
		"SELECT state, bypasses, windows > 0 FROM pg_flashcache_tablespaces WHERE spcname = '$tablespace'");
}

sub set
{
	my ($value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.bypass = '$value'");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('pg_flashcache.bypass') = '$value'") or die;
	fc_writer_round($node);
	return;
}

# The rows of the table fast are right: 20 were changed.
sub is_right
{
	my ($name) = @_;
	return is($node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE val = @{[fc_value_sql('v2')]}), "
			  . "count(*) FILTER (WHERE val = @{[fc_value_sql('v1')]}) FROM fast"),
		'20|' . (PAGES - 20), $name);
}

# Drives until that is the state, and no trial begins any more.
sub until_state
{
	my ($state, $drive) = @_;
	for (1 .. ROUNDS)
	{
		$drive->();
		fc_failpoint($node, 'bypass_due', 'error');
		fc_writer_round($node);
		my ($is) = split /\|/, state_of('fast');
		return if $is eq $state;
		fc_failpoint($node, 'bypass_due', 'off') if $is ne 'trial';
	}
	die "it is not $state: " . $node->safe_psql('postgres', 'SELECT * FROM pg_flashcache_tablespaces');
}

# By how much the counters of the table fast, and of its tablespace, move.
sub moved
{
	my ($sub) = @_;
	my $counters = sub {
		return split /\|/, $node->safe_psql('postgres', q{
			SELECT hits, disk_reads, inserts, bypassed_reads FROM pg_stat_flashcache_relation, pg_flashcache_tablespaces
			WHERE relname = 'fast' AND spcname = 'fast'});
	};
	my @before = $counters->();
	$sub->();
	my @after = $counters->();
	return join ' ', map { $after[$_] - $before[$_] } 0 .. 3;
}

# ---- one is bypassed, the other is not ----

is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_flashcache_tablespaces WHERE windows > 0 OR since IS NOT NULL}), 0, 'off: nothing is compared');
fc_failpoint($node, 'store_read', 'delay:2000');
fc_failpoint($node, 'disk_read', 'delay:8000', $tag{slow}{rel});
set('auto');
until_state('bypassed', sub { drive('fast', 'slow') });
for (1 .. ROUNDS)
{
	last if state_of('slow') eq 'cached|0|t';
	fc_failpoint($node, 'bypass_due', 'off');
	drive('slow');
	fc_failpoint($node, 'bypass_due', 'error');
	fc_writer_round($node);
}
until_state('bypassed', sub { drive('fast') });
is(state_of('fast'), 'bypassed|1|t', 'as fast as flash: bypassed, once');
is(state_of('slow'), 'cached|0|t', 'slower: cached, though it was compared');
is($node->safe_psql('postgres', q{
	SELECT string_agg(spcname || ' ' || (disk_read_us > 1.25 * flash_read_us)::text, ', ' ORDER BY spcname)
	FROM pg_flashcache_tablespaces WHERE spcname IN ('fast', 'slow')}), 'fast false, slow true', 'the view says what was measured');

# ---- reads, fills, invalidation ----

fc_push_out($node, $tag{fast});
is(fc_tag_flash($node, $tag{fast}), PAGES, 'bypassed: its pages stay on flash');
is(moved(sub { drive('fast') }), "0 @{[PAGES]} 0 @{[PAGES]}", 'bypassed: read from disk, and not looked for');
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
drive('fast');
is($node->safe_psql('postgres', 'SELECT verdict FROM pg_stat_flashcache'), 'bypassed', 'bypassed: the verdict says so');
$node->safe_psql('postgres', "UPDATE fast SET val = @{[fc_value_sql('v2')]} WHERE id <= 10; CHECKPOINT");
is(fc_tag_flash($node, $tag{fast}), PAGES - 10, 'bypassed: what is changed leaves flash');
is(moved(sub { fc_push_out($node, $tag{fast}) }) =~ s/^(\d+) \d+ (\d+) \d+$/$1 $2/r, '0 0', 'bypassed: not filled');
$node->safe_psql('postgres', "UPDATE fast SET val = @{[fc_value_sql('v2')]} WHERE id > 10 AND id <= 20");
is(moved(sub { fc_push_out($node, $tag{fast}) }) =~ s/^(\d+) \d+ (\d+) \d+$/$1 $2/r, '0 0', 'bypassed: nor with what is evicted dirty');
is(fc_tag_flash($node, $tag{fast}), PAGES - 20, 'bypassed: which leaves flash, too');
is_right('bypassed: the rows are right');
{
	my $before = { fc_stat($node, 'hits') }->{hits};
	fc_bring($node, 'postgres', 'slow');
	drive('slow');
	cmp_ok({ fc_stat($node, 'hits') }->{hits}, '>', $before, 'the other one is filled, and read from flash');
}

# ---- back ----

fc_failpoint($node, 'disk_read', 'delay:8000');
fc_failpoint($node, 'bypass_due', 'off');
until_state('cached', sub { drive('fast') });
is(state_of('fast'), 'cached|1|t', 'its disk has become slow: cached again');
is_right('cached again: the rows are right');
fc_failpoint($node, 'disk_read', 'off');
set('off');
is(state_of('fast'), 'cached|0|f', 'off: forgotten');
fc_bring($node, 'postgres', 'fast');
is(moved(sub { drive('fast') }) =~ s/^(\d+) .* (\d+)$/$1 $2/r, "@{[PAGES]} 0", 'off: all of it is read from flash');

# ---- asynchronous reads ----

SKIP:
{
	skip 'reads are asynchronous from 18 on', 1 if $major < 18;
	fc_failpoint($node, 'bypass_due', 'off');
	set('auto');
	until_state('bypassed', sub {
		$node->safe_psql('postgres', join ';', map { "SELECT count(val) FROM fast WHERE id % 10 = $_" } 0 .. 9);
		fc_push_out($node, $tag{fast});
	});
	is(state_of('fast'), 'bypassed|1|t', 'asynchronous reads: bypassed as well');
}

fc_failpoint($node, $_, 'off') foreach 'store_read', 'bypass_due';
fc_is_clean($node);
$node->stop;
done_testing();

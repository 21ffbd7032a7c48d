
# pg_stat_flashcache_latency: each request that is timed is in one bucket; nothing is timed for the sake of this.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '4MB', buffers => '2MB', conf => <<'END');
pg_flashcache.verify = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
END
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_prewarm;
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT repeat('x', 5000) FROM generate_series(1, 40) n;
	VACUUM ANALYZE;
});

is($node->safe_psql('postgres', q{SELECT count(*), count(DISTINCT (backend_type, operation, bucket)), min(from_us), max(from_us), count(*) FILTER (WHERE to_us IS NULL)
	FROM pg_stat_flashcache_latency}), '384|384|0|4194304|16', 'a histogram for each kind of process and request');
is($node->safe_psql('postgres', q{SELECT count(*) FROM (SELECT from_us, lag(to_us) OVER (PARTITION BY backend_type, operation ORDER BY bucket) AS before
	FROM pg_stat_flashcache_latency) b WHERE before IS DISTINCT FROM from_us AND from_us > 0 OR from_us = 0 AND before IS NOT NULL}), 0, 'where a bucket ends the next one begins');

# count(process, operation): of all buckets.
sub total
{
	my ($process, $operation) = @_;
	return $node->safe_psql('postgres', qq{SELECT sum(count) FROM pg_stat_flashcache_latency WHERE backend_type = '$process' AND operation = '$operation'});
}

# In a session that knows its catalogs.  One page a request, backwards: none of them is part of a stream.
fc_to_flash($node, 't');
my $read    = q{SELECT sum(pg_prewarm('t', 'buffer', 'main', b, b)) FROM generate_series(39, 0, -1) b};
my $session = $node->background_psql('postgres');
my $both    = q{SELECT s.hits, l.n FROM pg_stat_flashcache_session s,
	(SELECT sum(count) AS n FROM pg_stat_flashcache_latency WHERE backend_type = 'client backend' AND operation = 'flash read') l};
$session->query_safe($_) foreach $both, $read, $both;
fc_to_flash($node, 't');
$session->query_safe($both) for 1 .. 2;
my @before = split /\|/, $session->query_safe($both);
$session->query_safe($read);
my @after = split /\|/, $session->query_safe($both);
cmp_ok($after[1] - $before[1], '>=', 40, '40 reads from flash');
is($after[1] - $before[1], $after[0] - $before[0], 'one for each hit');
$session->quit;
my $before;
is($node->safe_psql('postgres', q{SELECT sum(count) > 0 FROM pg_stat_flashcache_latency WHERE backend_type = 'other' AND operation = 'flash write'}), 't',
	'writes to flash are the writer\'s');
is($node->safe_psql('postgres', q{SELECT (SELECT sum(count) FROM pg_stat_flashcache_latency WHERE operation = 'flash write') = writes FROM pg_stat_flashcache}), 't',
	'as many as are counted') if $node->safe_psql('postgres', q{SELECT count(*) FROM pg_attribute WHERE attrelid = 'pg_stat_flashcache'::regclass AND attname = 'writes'});
is(total('client backend', 'flash write'), 0, 'nobody else writes');

# From disk: on 18 and later a request that others complete is not timed, whatever track_io_timing says.
fc_evict($node, 't');
$node->append_conf('postgresql.conf', "pg_flashcache.enabled = off\n" . ($node->pg_version >= 18 ? "io_method = sync\n" : ''));
$node->pg_version >= 18 ? $node->restart : $node->reload;
fc_wait_state($node, 'disabled');
# A session that knows its catalogs.  The server's own time is that of track_io_timing, and moves with it only.
$session = $node->background_psql('postgres');
my $looks = q{SELECT s.disk_reads, s.disk_read_time_us, l.n FROM pg_stat_flashcache_session s,
	(SELECT sum(count) AS n FROM pg_stat_flashcache_latency WHERE backend_type = 'client backend' AND operation = 'disk read') l};
my $its_own = q{SELECT pg_stat_force_next_flush(); SELECT pg_stat_get_db_blk_read_time((SELECT oid FROM pg_database WHERE datname = 'postgres'))};
$session->query_safe($_) foreach 'SET track_io_timing = off', $looks, $read, $looks;
foreach my $timing ('off', 'on')
{
	fc_evict($node, 't');
	$session->query_safe("SET track_io_timing = $timing");
	$session->query_safe($looks) for 1 .. 2;
	my ($server) = (split /\n/, $session->query_safe($its_own))[-1];
	my @then = split /\|/, $session->query_safe($looks);
	$session->query_safe($read);
	my @now = split /\|/, $session->query_safe($looks);
	is($now[0] - $then[0], 40, "track_io_timing = $timing: 40 pages from disk");
	is($now[2] - $then[2], 40, 'each is timed, since the cache needs that, and in one bucket');
	cmp_ok($now[1], '>', $then[1], 'the time is shown');
	$session->query_safe('SELECT 1');
	my ($later) = (split /\n/, $session->query_safe($its_own))[-1];
	is($later > $server ? 'on' : 'off', $timing, 'the times of the server itself: as it says');
}
$session->quit;
is(total('client backend', 'page cache read'), 0, 'none of them is known to be from the page cache');

$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
is($node->safe_psql('postgres', q{SELECT sum(count) FROM pg_stat_flashcache_latency WHERE operation IN ('flash read', 'flash write')}), 0, 'a reset');
$node->stop;
done_testing();

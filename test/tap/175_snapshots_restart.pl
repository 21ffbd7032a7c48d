
# A snapshot after a restart counts statements and histograms from zero, also where the counters of the cache are kept, as from
# 18 on: what had been counted before it is not subtracted.
#
# Fails without: the epoch of the sections flash_statements and flash_latency in pg_flashcache_snapshot_collect().

use strict;
use warnings;

use FlashCache;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', conf => "compute_query_id = on\nautovacuum = off\npg_flashcache.keep_stats = on");
$node->safe_psql('postgres', "CREATE TABLE t AS SELECT i, repeat('x', 1000) FROM generate_series(1, 4000) i; VACUUM t");
$node->restart;
fc_wait_active($node);

my $query = 'SELECT count(*) FROM t';
my @snapshots;
my $take = sub { push @snapshots, $node->safe_psql('postgres', 'SELECT pg_flashcache_snapshot()') };
$take->();
$node->safe_psql('postgres', $query);
my ($id) = $node->safe_psql('postgres', "EXPLAIN (VERBOSE, COSTS OFF) $query") =~ /Query Identifier: (-?\d+)/;
$take->();
$node->restart;
fc_wait_active($node);
$node->safe_psql('postgres', $query);
my $counted = 'SELECT calls, disk_reads + hits FROM pg_stat_flashcache_statements WHERE queryid';
my $now = $node->safe_psql('postgres', "$counted = $id");
like($now, qr/^1\|[1-9]\d\d/, 'statements began anew');
$take->();

my $moved = <<"END";
SELECT e -> 'moved' ->> 'calls', coalesce((e -> 'moved' ->> 'disk_reads')::bigint, 0) + coalesce((e -> 'moved' ->> 'hits')::bigint, 0)
FROM pg_flashcache_snapshot_data d, jsonb_array_elements(d.data) e
WHERE section = 'flash_statements' AND snapshot = $snapshots[2] AND e ->> 'key' LIKE '%/$id/%'
END
is($node->safe_psql('postgres', $moved), $now, 'the snapshot has all of the statement that was read since');
is($node->safe_psql('postgres', "SELECT resets \@> '{flash_statements,flash_latency}' FROM pg_flashcache_snapshots WHERE id = $snapshots[2]"),
	't', 'and says that both were reset');

$node->stop;
done_testing();

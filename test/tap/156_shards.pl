# A table whose partitions are on other servers (postgres_fdw): each shard caches what it holds, a load through the coordinator
# is read from their flash, and the coordinator's views of all nodes show it, to the page. A shard that is down shows as down.

use strict;
use warnings;

use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGES => 90;    # of each shard; no neighbours are read one after the other

my $conf        = "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nmax_parallel_workers_per_gather = 0\n";
my $coordinator = fc_new_node('coordinator', conf => $conf);
my @shards      = map { fc_new_node("shard$_", size => '16MB', conf => $conf) } 1, 2;

sub sql { return $coordinator->safe_psql('postgres', join ";\n", @_) }

# Rows of one page each.
sql('CREATE EXTENSION postgres_fdw', 'CREATE SCHEMA flash_nodes', 'CREATE EXTENSION dblink SCHEMA flash_nodes', 'CREATE TABLE orders (shard int, id int, pad text) PARTITION BY LIST (shard)');
foreach my $number (1, 2)
{
	my $shard = $shards[ $number - 1 ];
	$shard->safe_psql('postgres', q{
		CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats;
		CREATE TABLE part (shard int, id int, pad text);
		ALTER TABLE part ALTER pad SET STORAGE PLAIN;
		CREATE INDEX part_id ON part (id)});
	my ($host, $port) = ($shard->host, $shard->port);
	sql("CREATE SERVER shard$number FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'postgres')",
		"CREATE USER MAPPING FOR CURRENT_USER SERVER shard$number",
		"CREATE FOREIGN TABLE orders_$number PARTITION OF orders FOR VALUES IN ($number) SERVER shard$number OPTIONS (table_name 'part')",
		"SELECT pg_flashcache_add_node('shard$number', 'host=$host port=$port user=watcher dbname=postgres')");
}
sql("INSERT INTO orders SELECT s, g, repeat(chr(96 + s), 7000) FROM generate_series(1, 2) s, generate_series(0, @{[PAGES - 1]}) g");
foreach my $shard (@shards)
{
	$shard->safe_psql('postgres', $_) foreach 'VACUUM ANALYZE part', 'CHECKPOINT';
	is(fc_to_flash($shard, 'part'), PAGES, $shard->name . ': its part is on flash');
}

# By relation, as the coordinator shows it.
sub counted
{
	return sql(q{SELECT node, hits FROM gv_stat_flashcache_relation WHERE relname = 'part' ORDER BY node});
}

is(sql(q{SELECT node, node_state, state FROM gv_stat_flashcache ORDER BY node}), "shard1|up|active\nshard2|up|active", 'one view of all shards');
$_->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()') foreach @shards;
my $read = sql('SET enable_seqscan = off', q{
	SELECT o.shard, count(*), count(DISTINCT o.id), min(o.pad) = max(o.pad) AND min(o.pad) = repeat(chr(96 + o.shard), 7000)
	FROM generate_series(0, } . (PAGES - 1) . q{) g, generate_series(1, 2) s,
		LATERAL (SELECT * FROM orders WHERE shard = s AND id = (g * 37) % } . PAGES . q{ OFFSET 0) o
	GROUP BY 1 ORDER BY 1});
is($read, "1|@{[PAGES]}|@{[PAGES]}|t\n2|@{[PAGES]}|@{[PAGES]}|t", 'all rows come through the coordinator');
is(counted(), "shard1|@{[PAGES]}\nshard2|@{[PAGES]}", 'each page from the flash of its shard');
is(sql(q{SELECT sum(hits) FROM gv_stat_flashcache_relation WHERE relname = 'part'}), 2 * PAGES, 'and their sum is in one place');

# What is changed through the coordinator is not read from flash as it was.
sql(q{UPDATE orders SET pad = repeat('z', 7000) WHERE shard = 1 AND id = 5});
$shards[0]->safe_psql('postgres', 'CHECKPOINT');
fc_evict_all($shards[0]);
is(sql('SELECT DISTINCT left(pad, 2) FROM orders WHERE shard = 1 AND id = 5'), 'zz', 'a row that was changed');

fc_is_clean($_) foreach $coordinator, @shards;
$shards[1]->stop('fast');
is(sql(q{SELECT node, node_state, state FROM gv_stat_flashcache ORDER BY node}), "shard1|up|active\nshard2|down|", 'a shard that is down');
is(sql(q{SELECT node, node_state, relname FROM gv_stat_flashcache_relation WHERE relname = 'part' OR node_state <> 'up' ORDER BY node}),
	"shard1|up|part\nshard2|down|", 'and the others are there');
my (undef, undef, $error) = $coordinator->psql('postgres', 'SELECT count(*) FROM orders');
like($error, qr/ERROR:  could not connect to server "shard2"/, 'which postgres_fdw could not do');
done_testing();

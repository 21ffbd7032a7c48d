
# What else is new in 19 and meets the cache: WAL becomes logical, and is it no longer, while the server runs; numbers of
# sequences arrive by logical replication.

use strict;
use warnings;

use FlashCache;
use FlashCacheLoads;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGES => 40;

my ($version) = run_command([ 'pg_config', '--version' ]);
my ($major) = $version =~ /PostgreSQL (\d+)/ or die "no version in $version";
plan skip_all => "PostgreSQL $major has none of this" if $major < 19;

my $node = fc_new_node('main', size => '16MB', streaming => 1, conf => <<'END');
pg_flashcache.persistence = on
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 4
max_replication_slots = 10
END
fc_everywhere($node);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

# ---- wal_level = replica, and a logical slot ----

fc_table($node, 'postgres', 't', 'v1', PAGES);
fc_bring($node, 'postgres', 't');
my $tag = fc_tag($node, 'postgres', 't');

# Pages on flash stay there while the level changes, and over a kill -9 after that.
sub is_level
{
	my ($expected, $name) = @_;
	wait_until($node, "current_setting('effective_wal_level') = '$expected'", "effective_wal_level $expected");
	is(sql('SHOW wal_level'), 'replica', "$name: wal_level is as it was");
	fc_is_warm($node, $tag, PAGES, "$name: pages stay on flash");
	fc_is_read($node, 'postgres', 't', 'v1', PAGES, "$name: and are read from there");
	fc_push_out($node, $tag);
	fc_stamp($node);
	fc_kill_server($node);
	$node->start;
	fc_wait_active($node);
	is(sql('SHOW effective_wal_level'), $expected, "$name: kill -9: the level is the same");
	fc_is_warm($node, $tag, PAGES, "$name: kill -9: they are restored");
	fc_is_read($node, 'postgres', 't', 'v1', PAGES, "$name: kill -9: and read");
	fc_push_out($node, $tag);
	return;
}
is_level('replica', 'at first');
sql("SELECT pg_create_logical_replication_slot('s', 'test_decoding')");
is_level('logical', 'with a slot');
sql("SELECT pg_drop_replication_slot('s')");
is_level('replica', 'without it');

# ---- sequences ----

my $info = $node->connstr('postgres') =~ tr/'//dr;
sql('CREATE SEQUENCE sq; CREATE PUBLICATION p FOR ALL SEQUENCES');
sql("SELECT pg_create_logical_replication_slot('p', 'pgoutput')");
sql('CREATE DATABASE copy');
sql('CREATE SEQUENCE sq', 'copy');
sql("CREATE SUBSCRIPTION p CONNECTION '$info' PUBLICATION p WITH (slot_name = 'p', create_slot = false)", 'copy');
foreach my $round (1 .. 3)
{
	sql("SELECT setval('sq', $round * 1000)");
	fc_bring($node, 'copy', 'sq');
	fc_is_warm($node, fc_tag($node, 'copy', 'sq'), 1, "round $round: the sequence of the subscriber is on flash");
	sql('ALTER SUBSCRIPTION p REFRESH SEQUENCES', 'copy');
	$node->poll_query_until('copy', "SELECT last_value = $round * 1000 FROM sq") or die 'it is not replicated';
	fc_bring($node, 'copy', 'sq');
	is(sql('SELECT last_value FROM sq', 'copy'), $round * 1000, "round $round: and has the number that was replicated");
}
sql("ALTER SUBSCRIPTION p DISABLE; ALTER SUBSCRIPTION p SET (slot_name = NONE); DROP SUBSCRIPTION p", 'copy');

fc_is_quiet($node);
$node->stop;
done_testing();

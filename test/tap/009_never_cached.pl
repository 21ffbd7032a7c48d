
# What must never come into flash: unlogged and temporary tables, and the free space map, the visibility map and the
# initialisation fork of any.
#
# An unlogged table is emptied after a crash without anybody being told; the other forks have block numbers of their own,
# and a tag of the cache has none for the fork: block 1 of a map would be taken for block 1 of the table.
#
# Fails without: BM_PERMANENT in bufscan.c ("unlogged"); the tests of the fork number there ("maps", "init fork").

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

# More than shared buffers hold, so that pages are evicted dirty as well as clean.
my $pages = 200;
my ($primary, $standby) = fc_pair();
my @both = ($primary, $standby);

# ---- unlogged ----

fc_table($primary, 'postgres', 'u', 'v1', $pages, 'UNLOGGED');
$primary->safe_psql('postgres', q{
	CREATE UNLOGGED TABLE w (id int PRIMARY KEY, val text);
	ALTER TABLE w ALTER val SET STORAGE EXTERNAL;
	INSERT INTO w SELECT id, repeat('x', 9000) FROM generate_series(1, 300) id;
});
my $toast = $primary->safe_psql('postgres', "SELECT reltoastrelid::regclass FROM pg_class WHERE relname = 'w'");
my @unlogged = map { fc_tag($primary, 'postgres', $_) } 'u', 'w', 'w_pkey', $toast;

# Brings all pages into the pool and out again, dirty and clean.
sub churn
{
	for my $turn (1 .. 3)
	{
		$primary->safe_psql('postgres', "UPDATE w SET val = repeat('$turn', 9000) WHERE id % 3 = $turn") if $turn < 3;
		$primary->safe_psql('postgres', "SELECT pg_prewarm('$_')") foreach 'u', 'w', 'w_pkey', $toast;
		fc_push_out($primary, $_) foreach @unlogged;
	}
	return;
}
churn();
fc_is_gone($primary, $_, "unlogged: $_->{name} is not in flash") foreach @unlogged;
fc_is_read($primary, 'postgres', 'u', 'v1', $pages, 'unlogged: every page comes from disk', 'disk');

# ---- unlogged, after a crash ----

fc_kill_server($primary);
$primary->start;
fc_wait_active($primary);
is($primary->safe_psql('postgres', 'SELECT count(*) FROM u'), 0, 'unlogged: empty after a crash');
is($primary->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM w WHERE id > 0'), 0, 'unlogged: so is an index');
$primary->safe_psql('postgres', 'INSERT INTO u SELECT id, ' . fc_value_sql('v2') . " FROM generate_series(1, $pages) id; "
	. "INSERT INTO w SELECT id, repeat('y', 9000) FROM generate_series(1, 300) id");
churn();
fc_is_gone($primary, $_, "unlogged: $_->{name} is not in flash after a crash") foreach @unlogged;
fc_is_read($primary, 'postgres', 'u', 'v2', $pages, 'unlogged: new rows, from disk', 'disk');

# ---- the init fork on the standby ----

# It is logged, so replay has it in shared buffers, under the file number of the index, and permanent.
my $session = $standby->background_psql('postgres');
my $init    = 'SELECT count(*) FROM pg_buffercache WHERE relforknumber = 3 AND relfilenode = ';
# The session has what it needs by then: opening one would push the page out.
$session->query_safe($init . 1) for 1 .. 2;
$primary->safe_psql('postgres', 'CREATE UNLOGGED TABLE v (id int PRIMARY KEY)');
my $v_pkey = fc_tag($primary, 'postgres', 'v_pkey');
fc_replayed($primary, $standby);
$init .= $v_pkey->{rel};
is($session->query_safe($init), 1, 'standby: the init fork is in shared buffers');
$session->quit;
$standby->safe_psql('postgres', 'CHECKPOINT');
for (1 .. 50)
{
	last if $standby->safe_psql('postgres', $init) eq '0';
	fc_evict_all($standby);
}
is($standby->safe_psql('postgres', $init), 0, 'standby: then it is no more');
fc_is_gone($standby, $v_pkey, 'the init fork is not in flash');

# ---- an unlogged table becomes logged, and back ----

$primary->safe_psql('postgres', 'ALTER TABLE u SET LOGGED');
my $logged = fc_tag($primary, 'postgres', 'u');
fc_warm($primary, $standby, 'postgres', 'u');
fc_is_warm($_, $logged, $pages, 'set logged: in flash') foreach @both;
fc_is_read($_, 'postgres', 'u', 'v2', $pages, 'set logged: right') foreach @both;
$primary->safe_psql('postgres', 'ALTER TABLE u SET UNLOGGED');
fc_replayed($primary, $standby);
fc_is_gone($_, $logged, 'set unlogged: gone') foreach @both;
$unlogged[0] = fc_tag($primary, 'postgres', 'u');
churn();
fc_is_gone($primary, $_, "set unlogged: $_->{name} is not in flash") foreach @unlogged;
fc_is_read($primary, 'postgres', 'u', 'v2', $pages, 'set unlogged: from disk', 'disk');

# ---- temporary ----

{
	$session = $primary->background_psql('postgres');
	$session->query_safe('SET temp_buffers = 100; ' . FlashCacheMore::fc_table_sql('tmp', 'v1', $pages, 'TEMPORARY')
		  . 'ALTER TABLE tmp ADD PRIMARY KEY (id)');
	my @temporary = map { { %$logged, rel => $session->query_safe("SELECT pg_relation_filenode('$_')"), name => $_ } } 'tmp', 'tmp_pkey';
	$session->query_safe('SELECT count(val) FROM tmp; UPDATE tmp SET id = id; SELECT count(val) FROM tmp') for 1 .. 3;
	fc_is_gone($primary, $_, "temporary: $_->{name} is not in flash") foreach @temporary;
	is($session->query_safe('SELECT count(*) FROM tmp WHERE val = ' . fc_value_sql('v1')), $pages, 'temporary: the rows are right');
	$session->quit;
}

# ---- maps ----

# One page of a table with three of the one map and one of the other.
$primary->safe_psql('postgres', "CREATE TABLE f AS SELECT 1 AS id, 'x' AS val; VACUUM f; CHECKPOINT");
my $f = fc_tag($primary, 'postgres', 'f');
fc_replayed($primary, $standby);
is($primary->safe_psql('postgres', "SELECT pg_relation_size('f', 'main'), pg_relation_size('f', 'fsm'), pg_relation_size('f', 'vm')"),
	'8192|24576|8192', 'maps: a table of one page has bigger maps');
my $maps = "SELECT relforknumber, count(*) FROM pg_buffercache WHERE relfilenode = $f->{rel} AND relforknumber > 0 GROUP BY 1 ORDER BY 1";
foreach my $node (@both)
{
	# In a pool of 128 buffers the query that looks may push out what is to be seen.
	my $seen = '';
	for (1 .. 20)
	{
		$seen = $node->safe_psql('postgres', "DO \$\$BEGIN PERFORM pg_prewarm('f', 'buffer', 'fsm'), pg_prewarm('f', 'buffer', 'vm'); END\$\$; $maps");
		last if $seen eq "1|3\n2|1";
	}
	is($seen, "1|3\n2|1", $node->name . ': maps: they are in shared buffers');
	for (1 .. 50)
	{
		fc_push_out($node, $f);
		last if $node->safe_psql('postgres', $maps) eq '';
		fc_evict_all($node);
	}
	is($node->safe_psql('postgres', $maps), '', $node->name . ': maps: then they are no more');
	fc_bring($node, 'postgres', 'f');
	is($node->safe_psql('postgres', "SELECT string_agg(relblocknumber::text, ' ' ORDER BY relblocknumber) "
				. "FROM pg_flashcache_pages WHERE reldatabase = $f->{db} AND relfilenode = $f->{rel}"),
		'0', $node->name . ': maps: only the page of the table is in flash');
	is($node->safe_psql('postgres', 'SELECT id, val FROM f'), '1|x', $node->name . ': maps: and it is right');
}

fc_is_quiet(@both);
$standby->stop;
$primary->stop;
done_testing();


# Statements that give a relation a new file: the old one leaves nothing, the new one is right, and what was not touched is
# still in flash.
#
# Fails without: the relation epoch in fc_smgr_unlink.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my ($primary, $standby) = fc_pair();
my @both = ($primary, $standby);

fc_table($primary, 'postgres', 't', 'v1', $pages);
$primary->safe_psql('postgres', 'ALTER TABLE t ADD PRIMARY KEY (id)');

# Runs the statement with all relations in flash; the ones named must get new files, the others must not.
sub test_rewrite
{
	my ($sql, @rewritten) = @_;
	my %rewritten = map { $_ => 1 } @rewritten;
	my @relations = ('t', 't_pkey');
	my %size      = map { $_ => $primary->safe_psql('postgres', "SELECT pg_relation_size('$_') / 8192") } @relations;
	my %old       = map { $_ => fc_tag($primary, 'postgres', $_) } @relations;

	fc_warm($primary, $standby, 'postgres', @relations);
	foreach my $node (@both)
	{
		fc_is_warm($node, $old{$_}, $size{$_}, "$sql: $_ is in flash before") foreach @relations;
	}
	$primary->safe_psql('postgres', $sql);
	fc_replayed($primary, $standby);
	foreach my $relation (@relations)
	{
		my $moved = fc_tag($primary, 'postgres', $relation)->{rel} != $old{$relation}{rel};
		is($moved ? 1 : 0, $rewritten{$relation} // 0, "$sql: $relation " . ($rewritten{$relation} ? 'has a new file' : 'keeps its file'));
		foreach my $node (@both)
		{
			if ($rewritten{$relation})
			{
				fc_is_gone($node, $old{$relation}, "$sql: the old file of $relation is gone");
			}
			else
			{
				fc_is_warm($node, $old{$relation}, $size{$relation}, "$sql: $relation is still in flash");
			}
		}
	}
	foreach my $node (@both)
	{
		fc_is_read($node, 'postgres', 't', 'v1', $pages, "$sql: the rows are right", 'any');
		fc_bring($node, 'postgres', 't');
		fc_is_read($node, 'postgres', 't', 'v1', $pages, "$sql: from flash as well");
		is( $node->safe_psql('postgres', "SET enable_seqscan = off; SELECT count(*), sum(id) FROM t WHERE id > 0"),
			$pages . '|' . $pages * ($pages + 1) / 2,
			$node->name . ": $sql: the index is right");
	}
	return;
}

test_rewrite('VACUUM FULL t',                       't', 't_pkey');
test_rewrite('CLUSTER t USING t_pkey',              't', 't_pkey');
test_rewrite('REINDEX TABLE t',                     't_pkey');
test_rewrite('REINDEX INDEX CONCURRENTLY t_pkey',   't_pkey');
test_rewrite('ALTER TABLE t ALTER id TYPE bigint',  't', 't_pkey');
if ($primary->pg_version->major >= 19)
{
	test_rewrite("REPACK $_", 't', 't_pkey') foreach 't', 't USING INDEX t_pkey', '(CONCURRENTLY) t', '(CONCURRENTLY) t USING INDEX t_pkey';
}

# ---- a materialized view ----

$primary->safe_psql('postgres', 'CREATE MATERIALIZED VIEW m AS SELECT id, val FROM t');
my $old = fc_tag($primary, 'postgres', 'm');
fc_warm($primary, $standby, 'postgres', 'm');
cmp_ok(fc_tag_flash($_, $old), '>', 0, $_->name . ': REFRESH: the view is in flash before') foreach @both;
fc_rewrite_rows($primary, 'postgres', 't', 'v2');
$primary->safe_psql('postgres', 'REFRESH MATERIALIZED VIEW m');
fc_replayed($primary, $standby);
foreach my $node (@both)
{
	fc_is_gone($node, $old, 'REFRESH: the old file is gone');
	is($node->safe_psql('postgres', 'SELECT count(*), count(*) FILTER (WHERE val = ' . fc_value_sql('v2') . ') FROM m'),
		"$pages|$pages", $node->name . ': REFRESH: the rows are the new ones');
}

# ---- catalogs, whose files the relation map names: one of the database and one of the cluster ----

# A catalog is always being read, so not every page of it is out of shared buffers; some are.
sub test_catalog
{
	my ($catalog) = @_;
	$old = fc_tag($primary, 'postgres', $catalog);
	$primary->safe_psql('postgres', 'CHECKPOINT');
	foreach my $node (@both)
	{
		for (1 .. 50)
		{
			last if fc_tag_flash($node, $old) > 0;
			$node->safe_psql('postgres', "SELECT pg_prewarm('$catalog')");
			fc_evict_all($node);
		}
		cmp_ok(fc_tag_flash($node, $old), '>', 0, $node->name . ": $catalog is in flash");
	}
	# What initdb made: the helpers may create tables of their own at any time.
	my $count = "SELECT count(*), sum(oid::bigint) FROM $catalog WHERE oid < 16384";
	my $rows = $primary->safe_psql('postgres', $count);
	$primary->safe_psql('postgres', "VACUUM FULL $catalog");
	isnt(fc_tag($primary, 'postgres', $catalog)->{rel}, $old->{rel}, "VACUUM FULL $catalog gave it a new file");
	fc_replayed($primary, $standby);
	foreach my $node (@both)
	{
		fc_is_gone($node, $old, "VACUUM FULL $catalog: the old one is gone");
		fc_evict_all($node);
		is($node->safe_psql('postgres', $count),
			$rows, $node->name . ": VACUUM FULL $catalog: the rows are the same");
	}
	return;
}
test_catalog('pg_class');
test_catalog('pg_database');

fc_is_quiet(@both);
$standby->stop;
$primary->stop;
done_testing();


# A file number comes back: another relation, or the same one in its old tablespace, lives under a tag of which pages are
# in flash.
#
# Numbers come from a counter of 32 bits; next_oid.c sets it back, so that the statement under test gets the number that
# was just given up. Bulk builds matter most: CREATE INDEX and ALTER TABLE SET TABLESPACE write pages by extending the file
# from private memory, so no write of a buffer invalidates them one by one.
#
# Fails without: the relation epoch in fc_smgr_unlink ("leaves nothing"); that, the one in fc_smgr_create and the
# invalidation in fc_smgr_extend, all three at once (old rows and verify_failures: each of them alone is enough to be
# safe); the test for temporary relations in is_cacheable ("a temporary table of the same number").

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
# The background writer keeps files open until it notices that a checkpoint has ended. It would go on writing to the
# file that is gone: a hazard of numbers that come back which PostgreSQL leaves to the length of the counter. So are the
# I/O workers of 18, which would read from it.
my ($major) = `pg_config --version` =~ /(\d+)/;
my ($primary, $standby) = fc_pair(conf => "bgwriter_lru_maxpages = 0\n" . ($major >= 18 ? "io_method = sync\n" : ''));
$primary->safe_psql('postgres', "CREATE TABLESPACE a LOCATION ''");
$primary->safe_psql('postgres', "CREATE TABLESPACE b LOCATION ''");

# The file of a dropped relation stays, empty, until the next checkpoint, and its row in pg_class until it is vacuumed; as
# long as either is there its number is not given to another.
sub run_with_number
{
	my ($number, $sql) = @_;
	$primary->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) pg_class');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	$primary->safe_psql('postgres', fc_next_oid($primary, $number) . $sql);
	return;
}

# One test: the relation has this tag.
sub is_back
{
	my ($relation, $tag, $name) = @_;
	my $now = fc_tag($primary, 'postgres', $relation);
	is("$now->{spc}/$now->{db}/$now->{rel}", "$tag->{spc}/$tag->{db}/$tag->{rel}", "$name: the tag is in use again");
	fc_replayed($primary, $standby);
	return;
}

sub is_warm_on_both
{
	my ($tag, $count, $name) = @_;
	fc_is_warm($_, $tag, $count, "$name: all pages of the old file are in flash") foreach $primary, $standby;
	return;
}

sub is_gone_on_both
{
	my ($tag, $name) = @_;
	fc_replayed($primary, $standby);
	fc_is_gone($_, $tag, "$name: the old file leaves nothing") foreach $primary, $standby;
	return;
}

sub is_right_on_both
{
	my ($table, $label, $name) = @_;
	foreach my $node ($primary, $standby)
	{
		fc_push_out($node, fc_tag($node, 'postgres', $table));
		fc_is_read($node, 'postgres', $table, $label, $pages, "$name: the rows are right", 'any');
		fc_bring($node, 'postgres', $table);
		fc_is_read($node, 'postgres', $table, $label, $pages, "$name: from flash as well");
	}
	return;
}

# What an index says, without the table: every id once, in order.
sub index_is_right
{
	my ($ids, $name) = @_;
	foreach my $node ($primary, $standby)
	{
		is( $node->safe_psql(
				'postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; '
				  . 'SELECT count(*), count(DISTINCT id), min(id), max(id) FROM i WHERE id > 0'),
			"$ids|$ids|1|$ids",
			$node->name . ": $name");
	}
	return;
}

# ---- another table ----

fc_table($primary, 'postgres', 't', 'v1', $pages);
my $old = fc_tag($primary, 'postgres', 't');
fc_warm($primary, $standby, 'postgres', 't');
is_warm_on_both($old, $pages, 'another table');
$primary->safe_psql('postgres', 'DROP TABLE t');
is_gone_on_both($old, 'another table');
run_with_number($old->{rel}, FlashCacheMore::fc_table_sql('n', 'v2', $pages));
is_back('n', $old, 'another table');
is_right_on_both('n', 'v2', 'another table');

# ---- an index ----

$primary->safe_psql('postgres', 'CREATE TABLE i AS SELECT id FROM generate_series(1, 4000) id; '
	. 'CREATE INDEX i_old ON i (id DESC); VACUUM (FREEZE, ANALYZE) i');
$old = fc_tag($primary, 'postgres', 'i_old');
my $index_pages = $primary->safe_psql('postgres', "SELECT pg_relation_size('i_old') / 8192");
fc_warm($primary, $standby, 'postgres', 'i_old');
is_warm_on_both($old, $index_pages, 'an index');
$primary->safe_psql('postgres', 'DROP INDEX i_old');
is_gone_on_both($old, 'an index');
run_with_number($old->{rel}, 'CREATE INDEX i_new ON i (id)');
is_back('i_new', $old, 'an index');
fc_push_out($_, $old) foreach $primary, $standby;
index_is_right(4000, 'an index: every key is found once');
fc_warm($primary, $standby, 'postgres', 'i_new');
index_is_right(4000, 'an index: from flash as well');

# ---- a table and its index move to another tablespace and back ----

$primary->safe_psql('postgres', 'ALTER TABLE n SET TABLESPACE a; ALTER INDEX i_new SET TABLESPACE a');
is_gone_on_both($old, 'moved to a');
my $n_in_a = fc_tag($primary, 'postgres', 'n');
my $i_in_a = fc_tag($primary, 'postgres', 'i_new');
is_right_on_both('n', 'v2', 'moved to a');
fc_warm($primary, $standby, 'postgres', 'n', 'i_new');
is_warm_on_both($n_in_a, $pages,       'in a');
is_warm_on_both($i_in_a, $index_pages, 'in a');

$primary->safe_psql('postgres', 'ALTER TABLE n SET TABLESPACE b; ALTER INDEX i_new SET TABLESPACE b');
is_gone_on_both($_, 'moved to b') foreach $n_in_a, $i_in_a;
fc_rewrite_rows($primary, 'postgres', 'n', 'v3');
$primary->safe_psql('postgres', 'INSERT INTO i SELECT generate_series(4001, 4100)');
is_right_on_both('n', 'v3', 'in b');

run_with_number($n_in_a->{rel}, 'ALTER TABLE n SET TABLESPACE a');
is_back('n', $n_in_a, 'back in a');
run_with_number($i_in_a->{rel}, 'ALTER INDEX i_new SET TABLESPACE a');
is_back('i_new', $i_in_a, 'back in a');
fc_push_out($_, $i_in_a) foreach $primary, $standby;
is_right_on_both('n', 'v3', 'back in a');
index_is_right(4100, 'back in a: every key is found once');
fc_warm($primary, $standby, 'postgres', 'i_new');
index_is_right(4100, 'back in a: from flash as well');

# ---- a temporary table of the same number ----

# Files of temporary tables have names of their own, so one can have the number of an ordinary table in the same
# tablespace. A move gives the table a number that no entry of the catalog has.
$primary->safe_psql('postgres', 'ALTER TABLE n SET TABLESPACE pg_default');
my $n = fc_tag($primary, 'postgres', 'n');
fc_warm($primary, undef, 'postgres', 'n');
my $out = $primary->safe_psql('postgres',
	'SET temp_buffers = 100;'
	  . fc_next_oid($primary, $n->{rel})
	  . FlashCacheMore::fc_table_sql('tmp', 'v9', 400, 'TEMPORARY')
	  . "SELECT 'number', pg_relation_filenode('tmp');"
	  . "UPDATE tmp SET val = val; SELECT 'rows', count(val) FROM tmp;"
	  . "DELETE FROM tmp WHERE id > 10; VACUUM tmp; SELECT 'left', pg_relation_size('tmp') / 8192;"
	  . "TRUNCATE tmp; DROP TABLE tmp;");
like($out, qr/^number\|$n->{rel}$/m, 'a temporary table of the same number: it is the same');
like($out, qr/^rows\|400$/m,         'a temporary table of the same number: it has its own rows');
like($out, qr/^left\|10$/m,          'a temporary table of the same number: it was truncated');
fc_is_warm($primary, $n, $pages, 'a temporary table of the same number: the other one stays in flash');
fc_is_read($primary, 'postgres', 'n', 'v3', $pages, 'a temporary table of the same number: and is right');

fc_is_quiet($primary, $standby);
$standby->stop;
$primary->stop;
done_testing();

# More relations get a new file than the cache can remember until its writer has swept: those that hash to a full set take the
# others of the set with them. Nothing stale is read, and a counter tells.
#
# Fails without: `crowded` in was_invalidated (old pages of "many" count as current), the counter in invalidate.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 20;
my $node = fc_new_node('main', size => '32MB', conf => 'max_logical_replication_workers = 0');
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', $pages);
fc_bring($node, 'postgres', 't');
$node->safe_psql('postgres', join ';', map { "CREATE TABLE small_$_ AS SELECT 1 AS n" } 1 .. 300);
$node->safe_psql('postgres', "VACUUM FREEZE; CHECKPOINT");
for (1 .. 20)
{
	last if on_flash() == 300;
	$node->safe_psql('postgres', join ';', map { "SELECT * FROM small_$_" } 1 .. 300);
	fc_evict_all($node);
}
is(on_flash(), 300, 'all small tables are on flash');

# Their pages, of whatever file.
sub on_flash
{
	return $node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_flashcache_pages p JOIN pg_class c ON p.relfilenode = pg_relation_filenode(c.oid)
		WHERE relname LIKE 'small%' AND relblocknumber = 0});
}

# So many relations that one set is full for sure would be 16,385; the old file of each counts. With 8,000 it is about 40 of
# 2,048 sets.
my %writer = fc_stat($node, 'writer_pid');
my @old = split /\n/, $node->safe_psql('postgres', q{SELECT pg_relation_filenode(oid) FROM pg_class WHERE relname LIKE 'small%'});
kill 'STOP', $writer{writer_pid} or die "kill: $!";
my %moved = fc_delta($node, sub {
		$node->safe_psql('postgres', q{
			CREATE TABLE many ();
			DO $$ BEGIN FOR i IN 1 .. 8000 LOOP TRUNCATE many; COMMIT; END LOOP; END $$});
		$node->safe_psql('postgres', 'TRUNCATE ' . join ', ', map { "small_$_" } 1 .. 300);
	}, 'invalidation_overflows');
cmp_ok($moved{invalidation_overflows}, '>', 0, 'not each could be remembered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode IN (' . join(', ', @old) . ')'),
	0, 'the pages of all that were truncated are gone');
kill 'CONT', $writer{writer_pid};
fc_is_read($node, 'postgres', 't', 'v1', $pages, 'another table is read, from wherever it is', 'any');

fc_is_quiet($node);
$node->stop;
done_testing();

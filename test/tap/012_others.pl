# What is invalidated costs nobody else a page: a database that is made and dropped, and thousands of files made and removed, beside
# pages that are on flash. Buffers are large enough for all that is done, so nothing is evicted, and nothing gets old.
#
# Fails with epochs that several databases, or several relations, share.

use strict;
use warnings;

use FlashCache;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '32MB', buffers => '12MB', conf => 'max_logical_replication_workers = 0');
$node->safe_psql('postgres', "CREATE TABLE t$_ (n int, v text); ALTER TABLE t$_ ALTER v SET STORAGE PLAIN; "
	  . "INSERT INTO t$_ SELECT n, repeat('x', 5000) FROM generate_series(1, 40) n") foreach 1 .. 3;
$node->safe_psql('postgres', 'CREATE TABLE made (n int)');
fc_to_flash($node, "t$_") foreach 1 .. 3;
my $of_three = q{SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode IN
	(SELECT pg_relation_filenode(oid) FROM pg_class WHERE relname IN ('t1', 't2', 't3'))};
my $pages = $node->safe_psql('postgres', $of_three);
is($pages, 120, 'the pages of three tables are on flash');

# The number of a database that has the same hash as this one, of 256.
sub hash_of
{
	my ($h) = @_;
	$h ^= $h >> 16;
	$h = ($h * 0x85ebca6b) & 0xffffffff;
	$h ^= $h >> 13;
	$h = ($h * 0xc2b2ae35) & 0xffffffff;
	return $h ^ ($h >> 16);
}
my $here = $node->safe_psql('postgres', 'SELECT oid FROM pg_database WHERE datname = current_database()');
my $twin = 90000;
$twin++ while hash_of($twin) % 256 != hash_of($here) % 256;
$node->safe_psql('postgres', "CREATE DATABASE twin OID = $twin STRATEGY file_copy");
$node->safe_psql('postgres', 'DROP DATABASE twin');
is($node->safe_psql('postgres', $of_three), $pages, 'a database with the same hash is made and dropped: they are still there');

$node->safe_psql('postgres', 'DO $$ BEGIN FOR i IN 1 .. 5000 LOOP TRUNCATE made; COMMIT; END LOOP; END $$');
is($node->safe_psql('postgres', $of_three), $pages, '5,000 files are made and removed: they are still there');

# And what is dropped is gone; the room is free as soon as the writer has come by.
$node->safe_psql('postgres', 'DROP TABLE t1');
is($node->safe_psql('postgres', $of_three), $pages - 40, 'a table is dropped: its pages are gone, the others are there');
fc_writer_round($node);
is($node->safe_psql('postgres', 'SELECT used - (SELECT count(*) FROM pg_flashcache_pages) FROM pg_stat_flashcache'), 0,
	'and count no longer');

fc_is_clean($node);
$node->stop;
done_testing();

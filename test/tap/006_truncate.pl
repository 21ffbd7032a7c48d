
# Files become shorter, and longer again.
#
# VACUUM cuts off the tail of a table, TRUNCATE gives it a new file or, in the transaction that created it, empties the one
# it has; hash indexes grow by writing a page far behind the end, and leave zeros in between. Wherever a block comes
# back that was there before, its old content may be in flash. The transactions are kept open while the pages are
# looked at, so they are looked at by their tags.
#
# Fails without: the invalidation in fc_smgr_truncate, on the primary or in redo ("the tail is gone", "emptied in place");
# the relation epoch in fc_smgr_unlink ("the old file is gone"); the relation epoch in fc_smgr_truncate together with the
# invalidation of the gap in fc_smgr_extend (verify_failures in "a gap": each of the two alone is enough to be safe).

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my ($primary, $standby) = fc_pair();
my @both = ($primary, $standby);

# ---- VACUUM cuts off the tail, which grows again ----

my $kept = 25;
my $tail = "relblocknumber >= $kept";
fc_table($primary, 'postgres', 't', 'v1', $pages);
my $tag = fc_tag($primary, 'postgres', 't');
$primary->safe_psql('postgres', "DELETE FROM t WHERE id > $kept");
fc_warm($primary, $standby, 'postgres', 't');
is(fc_tag_flash($_, $tag, $tail), $pages - $kept, $_->name . ': before VACUUM the tail is in flash') foreach @both;
$primary->safe_psql('postgres', 'VACUUM t');
is($primary->safe_psql('postgres', "SELECT pg_relation_size('t') / 8192"), $kept, 'VACUUM has cut it off');
fc_replayed($primary, $standby);
is(fc_tag_flash($_, $tag, $tail), 0, $_->name . ': after VACUUM the tail is gone') foreach @both;
fc_is_read($_, 'postgres', 't', 'v1', $kept, 'what was kept is right', 'any') foreach @both;

$primary->safe_psql('postgres', "INSERT INTO t SELECT id, '' FROM generate_series($kept + 1, $pages) id");
fc_rewrite_rows($primary, 'postgres', 't', 'v2');
fc_replayed($primary, $standby);
foreach my $node (@both)
{
	fc_push_out($node, $tag);
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE val = '
				. fc_value_sql('v2') . ') FROM t'), "$pages|$pages|$pages", $node->name . ': grown again, the rows are right');
	fc_bring($node, 'postgres', 't');
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE val = '
				. fc_value_sql('v2') . ') FROM t'), "$pages|$pages|$pages", $node->name . ': from flash as well');
}

# ---- TRUNCATE, rolled back and committed ----

$primary->safe_psql('postgres', 'DROP TABLE t');
fc_table($primary, 'postgres', 't', 'v1', $pages);
$tag = fc_tag($primary, 'postgres', 't');
fc_warm($primary, $standby, 'postgres', 't');

# Truncates and loads the table in an open transaction, and brings pages of the new file into flash, where we can: no
# query of another session can ask for them, so what counts is that some are there.
sub truncate_and_load
{
	my ($session, $label) = @_;
	$session->query_safe("BEGIN; TRUNCATE t; INSERT INTO t SELECT id, "
		  . fc_value_sql($label) . " FROM generate_series(1, $pages) id");
	my $new = { %$tag, rel => $session->query_safe("SELECT pg_relation_filenode('t')"), name => 'the new file' };
	fc_replayed($primary, $standby);
	foreach my $node (@both)
	{
		fc_push_out($node, $new);
		cmp_ok(fc_tag_flash($node, $new), '>', 0, $node->name . ': pages of the new file are in flash');
		fc_is_warm($node, $tag, $pages, 'and all of the old one');
	}
	return $new;
}

my $session = $primary->background_psql('postgres');
my $new = truncate_and_load($session, 'v2');
$session->query_safe('ROLLBACK');
fc_replayed($primary, $standby);
foreach my $node (@both)
{
	fc_is_gone($node, $new, 'rolled back: the new file is gone');
	fc_is_warm($node, $tag, $pages, 'rolled back: the old one is still there');
	fc_is_read($node, 'postgres', 't', 'v1', $pages, 'rolled back: and right, each page from flash');
	fc_push_out($node, $tag);
}

$new = truncate_and_load($session, 'v3');
$session->query_safe('COMMIT');
fc_replayed($primary, $standby);
foreach my $node (@both)
{
	fc_is_gone($node, $tag, 'committed: the old file is gone');
	fc_is_read($node, 'postgres', 't', 'v3', $pages, 'committed: the new one is right', 'any');
	fc_bring($node, 'postgres', 't');
	fc_is_read($node, 'postgres', 't', 'v3', $pages, 'committed: from flash as well');
}

# ---- TRUNCATE in the transaction that created the table: the file is emptied in place ----

$session->query_safe('BEGIN; ' . FlashCacheMore::fc_table_sql('x', 'v1', $pages));
my $number = $session->query_safe("SELECT pg_relation_filenode('x')");
my $in_place = { %$tag, rel => $number, name => 'x' };
fc_replayed($primary, $standby);
foreach my $node (@both)
{
	fc_push_out($node, $in_place);
	cmp_ok(fc_tag_flash($node, $in_place), '>', 0, $node->name . ': before it is emptied in place its pages are in flash');
}
$session->query_safe('TRUNCATE x');
is($session->query_safe("SELECT pg_relation_filenode('x')"), $number, 'emptied in place: the file is the same');
fc_replayed($primary, $standby);
fc_is_gone($_, $in_place, 'emptied in place: none is afterwards') foreach @both;
$session->query_safe('INSERT INTO x SELECT id, ' . fc_value_sql('v2') . " FROM generate_series(1, $pages) id; COMMIT");
fc_replayed($primary, $standby);
foreach my $node (@both)
{
	fc_push_out($node, $in_place);
	fc_is_read($node, 'postgres', 'x', 'v2', $pages, 'emptied in place: the new rows are right', 'any');
	fc_bring($node, 'postgres', 'x');
	fc_is_read($node, 'postgres', 'x', 'v2', $pages, 'emptied in place: from flash as well');
}

# ---- a gap ----

# The index is filled, its pages come into flash, and it is emptied in place. Then it grows again to just over a power of
# two of buckets: room for as many more is made by writing the last page of them, and the pages in between are zeros
# on disk. What they held before is in flash, if nobody has seen to it.
my $many = 20000;
my $few  = 11000;
$session->query_safe('BEGIN; CREATE TABLE h (k int); CREATE INDEX h_k ON h USING hash (k); '
	. "INSERT INTO h SELECT generate_series(1, $many)");
my $index = { %$tag, rel => $session->query_safe("SELECT pg_relation_filenode('h_k')"), name => 'h_k' };
for (1 .. 50)
{
	my $size = $session->query_safe("SELECT pg_relation_size('h_k') / 8192");
	# Of the last pages some are zeros as well, which are never cached.
	last if fc_tag_flash($primary, $index) > $size / 2 && fc_tag_buffers($primary, $index) == 0;
	$session->query_safe("SELECT pg_prewarm('h_k')");
	$primary->safe_psql('postgres', 'CHECKPOINT');
	fc_push_out($primary, $index);
}
my %before = map { $_ => 1 } split /\n/, $primary->safe_psql('postgres',
	"SELECT relblocknumber FROM pg_flashcache_pages WHERE reldatabase = $index->{db} AND relfilenode = $index->{rel}");
fc_replayed($primary, $standby);
fc_push_out($standby, $index);
cmp_ok(fc_tag_flash($standby, $index), '>', 0, 'standby: a gap: pages of the index are in flash before');

$session->query_safe('TRUNCATE h');
is($session->query_safe("SELECT pg_relation_filenode('h_k')"), $index->{rel}, 'a gap: the index is emptied in place');
fc_replayed($primary, $standby);
fc_is_gone($_, $index, 'a gap: no page of it is in flash afterwards') foreach $standby;
# An empty index has pages, which may have come into flash by now.
cmp_ok(fc_tag_flash($primary, $index, 'relblocknumber >= 12'), '==', 0, 'primary: a gap: nor on the primary');
$session->query_safe("INSERT INTO h SELECT generate_series(1, $few)");
fc_push_out($primary, $index);
my $file = $primary->data_dir . '/' . $session->query_safe("SELECT pg_relation_filepath('h_k')");
my $content = slurp_file($file);
my @gap = grep { substr($content, $_ * 8192, 8192) eq "\0" x 8192 } 0 .. length($content) / 8192 - 1;
cmp_ok(scalar(grep { $before{$_} } @gap), '>', 8, 'a gap: zeros are where pages were that had been in flash');
# Reads every page, those of the gap too, and compares it with the disk if it comes from flash.
$session->query_safe("SELECT pg_prewarm('h_k')");
fc_is_clean($primary, 'primary: a gap: no page in it comes from flash');
$session->query_safe('COMMIT');
fc_replayed($primary, $standby);

# Every key is found once, while the index is small and after it has grown into the gap.
sub index_is_right
{
	my ($keys, $name) = @_;
	foreach my $node (@both)
	{
		is( $node->safe_psql(
				'postgres', 'SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; '
				  . "SELECT count(*), sum(h.k) FROM generate_series(0, $keys + 100) g JOIN h ON h.k = g"),
			$keys . '|' . $keys * ($keys + 1) / 2,
			$node->name . ": $name");
	}
	return;
}
index_is_right($few, 'a gap: every key is found');
$primary->safe_psql('postgres', "INSERT INTO h SELECT generate_series($few + 1, $many)");
fc_replayed($primary, $standby);
fc_push_out($_, $index) foreach @both;
index_is_right($many, 'a gap: also after the index has grown into it');

$session->quit;
fc_is_quiet(@both);
$standby->stop;
$primary->stop;
done_testing();

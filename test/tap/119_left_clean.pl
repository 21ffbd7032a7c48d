# An index page is initialised in its buffer, and then what it was for is given up: the buffer stays clean, with a page that
# the disk does not have. It must not come to flash.
#
# nbtree: the split of a leaf finds its right sibling damaged. GiST: the split of the root gets two pages from the free space
# map, and the second one is damaged. hash: the page for a new bucket is pinned by somebody, and the index is left as it is.
#
# Fails without: the LSN in fc_page_ahead_of_disk (the pages come to flash, and differ from the disk when they are read).

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant STEP => 16;

my $node = fc_new_node('main', size => '64MB', buffers => '8MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nmax_logical_replication_workers = 0");
my $source  = __FILE__ =~ s/tap\/[^\/]+$/lib\/pin.c/r;
my $library = $node->basedir . '/pin.so';
my $include = `pg_config --includedir-server`;
chomp $include;
system_or_bail('gcc', '-shared', '-fPIC', '-I', $include, '-o', $library, $source);

# Full leaves; an empty GiST index with two pages that were never used; a hash index in whose next batch of buckets one is in use.
$node->safe_psql('postgres', $_) foreach 'CREATE EXTENSION pg_prewarm',
  "CREATE FUNCTION fc_test_pin(oid, int, bigint) RETURNS void AS '$library' LANGUAGE C STRICT",
  'CREATE TABLE b AS SELECT n FROM generate_series(1, 20000) n',
  'CREATE INDEX b_i ON b (n) WITH (fillfactor = 100, deduplicate_items = off)',
  'CREATE TABLE g (p point)', 'CREATE INDEX g_i ON g USING gist (p)',
  'CREATE TABLE h (n int)', 'CREATE INDEX h_i ON h USING hash (n)';

my %file = map { $_ => $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_')") } qw(b_i g_i);
open my $fh, '>>:raw', $file{g_i} or die "$file{g_i}: $!";
print $fh "\0" x 16384;
close $fh or die "$file{g_i}: $!";
$node->safe_psql('postgres', 'VACUUM g');    # finds them

# Buckets are made several at a time, and then used one by one. The first of these is in use.
my $unused = pages('h_i') + 1;
$node->safe_psql('postgres', qq{
	DO \$\$ BEGIN
		FOR n IN 1 .. 100000 LOOP
			EXIT WHEN pg_relation_size('h_i') / 8192 > $unused;
			INSERT INTO h VALUES (n);
		END LOOP;
	END \$\$});

# b_i: 1 and 2 are leaves, 3 is the root. g_i: 0 is the root.
$node->stop;
foreach my $index (qw(b_i g_i))
{
	open $fh, '+<:raw', $file{$index} or die "$file{$index}: $!";
	seek $fh, 2 * 8192 + 12, 0;
	print $fh "\xff" x 8;    # pd_lower, pd_upper, pd_special, pd_pagesize_version
	close $fh or die "$file{$index}: $!";
}
$node->start;
fc_wait_active($node);
fc_evict_all($node);

sub pages
{
	my ($relation) = @_;
	return $node->safe_psql('postgres', "SELECT pg_relation_size('$relation') / 8192");
}

# Reads so many steps of another table; after each the writer makes a round.
my $at = 0;
my $fillers = $node->safe_psql('postgres', 'SELECT count(*) FROM fc_filler');

sub go_on
{
	my ($steps) = @_;
	my $sql = 'SET enable_seqscan = off; SET enable_bitmapscan = off;';
	for (1 .. $steps)
	{
		$sql .= "SELECT count(pad) FROM fc_filler WHERE id > $at AND id <= $at + " . STEP . ';'
		  . 'SELECT pg_flashcache_enable(); SELECT pg_flashcache_enable();';
		$at = ($at + STEP) % $fillers;
	}
	$node->safe_psql('postgres', $sql);
	return;
}

# A pool in which every page was read once makes the clock hand go round at once, to take a page as soon as it has counted it
# down. So begin half a round after the hand did that: then there is another half between the two.
sub half_a_round
{
	my $passed = 'SELECT count(*) FILTER (WHERE usagecount = 0), count(*) FILTER (WHERE usagecount < 2) FROM pg_buffercache';
	for (1 .. 1000)
	{
		my ($zero, $cold) = split /\|/, $node->safe_psql('postgres', $passed);
		return if $zero > $cold / 4 && $zero < $cold / 2;
		go_on(2);
	}
	die 'the clock hand stands still';
}

# `leave` leaves page `block` of the index behind.
sub is_left_out
{
	my ($index, $block, $leave) = @_;
	my $tag  = fc_tag($node, 'postgres', $index);
	my $page = "relblocknumber = $block";

	half_a_round();
	$leave->();
	is($node->safe_psql('postgres', "SELECT isdirty FROM pg_buffercache WHERE relforknumber = 0 AND relfilenode = $tag->{rel} AND $page"),
		'f', "$index: a page is left clean in shared buffers");
	my %moved = fc_delta($node, sub {
			for (my $i = 0; fc_tag_buffers($node, $tag, $page) > 0; $i++)
			{
				die 'it stays there' if $i == 1000;
				go_on(4);
			}
		}, 'insert_skip_not_current');
	# 19 makes the right half of a leaf elsewhere until nothing can fail any more: the buffer has zeros, which is no such page.
	my $made = $index eq 'b_i' && $node->pg_version->major >= 19 ? 0 : 1;
	is($moved{insert_skip_not_current}, $made, "$index: the writer has left it out");
	is(fc_tag_flash($node, $tag, $page), 0, "$index: it is not on flash");
	%moved = fc_delta($node, sub { $node->safe_psql('postgres', "SELECT pg_prewarm('$index', 'buffer', 'main', $block, $block)") },
		'verify_failures');
	is($moved{verify_failures}, 0, "$index: what is read is what is on disk");
	return;
}

# The statement fails.
sub fails
{
	my ($sql) = @_;
	my (undef, undef, $error) = $node->psql('postgres', $sql);
	like($error, qr/ERROR: +invalid page in block 2 of relation/, "fails: $sql");
	return;
}

is_left_out('b_i', pages('b_i'), sub { fails('INSERT INTO b VALUES (100)') });
is_left_out('g_i', 1, sub { fails('INSERT INTO g SELECT point(n, n) FROM generate_series(1, 1000) n') });
is_left_out('h_i', $unused, sub {
		my $holder = $node->background_psql('postgres');
		my $pinner = $node->background_psql('postgres');
		$holder->query_safe('SELECT pg_advisory_lock(1)');
		$pinner->query_until(qr/begun/, "\\echo begun\nSELECT fc_test_pin('h_i'::regclass, $unused, 1);\n");
		$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted})
		  or die 'nobody waits';
		$node->safe_psql('postgres', 'INSERT INTO h SELECT n FROM generate_series(1, 500) n');
		$holder->quit;
		$pinner->quit;
	});

fc_is_clean($node);
$node->stop;
done_testing();

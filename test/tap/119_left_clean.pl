# An index page is initialised in its buffer, and then an error ends what it was for: the buffer stays clean, with a page that the
# disk does not have. Here the split of a btree leaf finds its right sibling damaged.
#
# Fails without: the LSN in fc_page_ahead_of_disk (the new page comes to flash, while the disk has zeros: verify_failures).

use strict;
use warnings;

use FlashCache;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '64MB', buffers => '8MB', checksums => 0, conf => 'max_logical_replication_workers = 0');
$node->safe_psql('postgres', $_)
  foreach 'CREATE EXTENSION pg_prewarm', 'CREATE EXTENSION IF NOT EXISTS pg_buffercache',
  'CREATE UNLOGGED TABLE f (v text)', 'ALTER TABLE f ALTER v SET STORAGE PLAIN',
  q{INSERT INTO f SELECT repeat('x', 5000) FROM generate_series(1, 4096)},
  'CREATE TABLE t AS SELECT n FROM generate_series(1, 20000) n', 'CREATE INDEX i ON t (n)';
my $size = $node->safe_psql('postgres', q{SELECT pg_relation_size('i') / 8192});
my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('i')});

# On disk all leaves but the first get a wrong header. The root is block 3.
$node->stop;
open my $fh, '+<:raw', $file or die "$file: $!";
foreach my $block (2, 4 .. $size - 1)
{
	seek $fh, $block * 8192 + 12, 0;
	print $fh "\xff" x 8;    # pd_lower, pd_upper, pd_special, pd_pagesize_version
}
close $fh or die "$file: $!";
$node->start;
fc_wait_active($node);

my $error = '';
for (1 .. 20)
{
	(undef, undef, $error) = $node->psql('postgres', 'INSERT INTO t SELECT 200 FROM generate_series(1, 40)');
	last if $error;
}
like($error, qr/invalid page in block 2 /, 'the split fails');
my $new = $node->safe_psql('postgres', q{
	SELECT string_agg(relblocknumber || ' ' || isdirty, ', ') FROM pg_buffercache
	WHERE relfilenode = pg_relation_filenode('i') AND relforknumber = 0 AND relblocknumber >= } . $size);
is($new, "$size false", 'and leaves a new page, clean, in shared buffers');

# Pushes it out, in steps that the writer can follow: so many pages are read, then it makes a round.
my $rounds = 0;
my $there = "SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('i') AND relforknumber = 0 AND relblocknumber = $size";
my %moved = fc_delta($node, sub {
		while ($node->safe_psql('postgres', $there) > 0 && $rounds < 400)
		{
			my $from = 32 * $rounds++ % 4096;
			my $to = $from + 31;
			$node->safe_psql('postgres', "SELECT count(*) FROM f WHERE ctid BETWEEN '($from,1)' AND '($to,1)'");
			fc_writer_round($node);
		}
	}, 'insert_skip_not_current');
is($node->safe_psql('postgres', $there), 0, 'the page is pushed out of shared buffers');
cmp_ok($moved{insert_skip_not_current}, '>', 0, 'it was left out');
is($node->safe_psql('postgres',
		"SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('i') AND relblocknumber >= $size"),
	0, 'it is not on flash');
$node->safe_psql('postgres', "SELECT pg_prewarm('i', 'buffer', 'main', $size, $size)");
is($node->safe_psql('postgres', 'SELECT verify_failures FROM pg_stat_flashcache'), 0, 'what is read is what is on disk');

$node->stop;
done_testing();

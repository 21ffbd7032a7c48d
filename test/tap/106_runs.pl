
# Reads of several pages at a time: 17 and later ask for neighbouring pages in one request, which is split into runs from
# flash and runs from disk; 18 and later start requests and finish them later. 15 and 16 ask page by page. Whichever way,
# the counters of a scan are the same to the last digit, and so are the rows.
#
# Every hit is compared with the disk, so a scan that finds n pages in flash reads these n from disk too.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 96;
# A process may pin its share of the buffers only, and read no more than that at once.
my $node  = fc_new_node('main', size => '32MB', buffers => '16MB', conf => <<'END');
max_connections = 12
max_worker_processes = 4
max_logical_replication_workers = 0
synchronize_seqscans = off
max_parallel_workers_per_gather = 0
effective_io_concurrency = 16
END
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', $pages);
my $tag = fc_tag($node, 'postgres', 't');

# Scans the table from its first block to its last, checks the rows, and returns by how much the counters have moved. The
# session has looked at the catalogs before, by fetching nothing.
sub scan
{
	my ($settings, $label, $name, @names) = @_;
	my $which    = $settings =~ /bitmapscan = on/ ? 'WHERE id >= 0' : '';
	my $value    = fc_value_sql($label);
	my $counters = "SELECT 'counters', " . join(', ', @names) . " FROM pg_stat_flashcache;";
	my $query    = "SELECT 'rows', count(*), count(DISTINCT id), count(*) FILTER (WHERE val = $value) FROM t";

	fc_push_out($node, $tag);
	my $output = $node->safe_psql('postgres',
		"$settings $query WHERE ctid = '(0,0)'; $counters $query $which; $counters");
	my @rows = $output =~ /^rows\|(.*)$/mg;
	my @counters = map { [ split /\|/ ] } $output =~ /^counters\|(.*)$/mg;

	is($rows[1], "$pages|$pages|$pages", "$name: the rows are right");
	return map { $names[$_] => $counters[1][$_] - $counters[0][$_] } 0 .. $#names;
}

sub scans
{
	my ($settings, $label, $expected, $name) = @_;
	my %moved = scan($settings, $label, $name, sort keys %$expected);

	is_deeply(\%moved, $expected, "$name: the counters") or diag(explain(\%moved));
	return;
}

# The requests of a sequential scan, as the server counts them. It has looked at the catalogs and its statistics before.
sub requests
{
	my $io = q{SELECT pg_stat_force_next_flush();
		SELECT 'io', sum(reads) FROM pg_stat_io WHERE backend_type = 'client backend' AND object = 'relation';};

	fc_push_out($node, $tag);
	my $output = $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE ctid = '(0,0)'; $io $io SELECT count(*) FROM t; $io");
	my @reads = $output =~ /^io\|(.*)$/mg;
	return $reads[2] - $reads[1];
}

my $sequential = 'SET enable_indexscan = off; SET enable_bitmapscan = off;';

fc_warm($node, undef, 'postgres', 't');
scans($sequential, 'v1',
	{ hits => $pages, misses => 0, stream_reads => 0, verify_checks => $pages, verify_failures => 0 },
	'all pages in flash');

# A page in the middle that is damaged on the device is one miss, whether the server reads it itself then or asks again for
# what is left of its request.
{
	my ($slot) = $node->safe_psql('postgres',
		"SELECT slot FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('t') AND relblocknumber = 57");
	open my $flash, '+<:raw', fc_flash_file($node) or die "flash: $!";
	seek $flash, 65536 + $slot * 8192 + 4000, 0;
	print {$flash} 'damaged';
	close $flash or die "flash: $!";
	scans($sequential, 'v1',
		{
			hits              => $pages - 1,
			misses            => 1,
			checksum_failures => 1,
			slots_retired     => 1,
			stream_reads      => 0,
			verify_checks     => $pages - 1
		},
		'a damaged page');
	# The warning that belongs to it is out of the way then of what fc_is_clean looks for.
	$node->wait_for_log(qr/WARNING: .* has read 1 page with wrong content from flash/);
	truncate $node->logfile, 0 or die "log: $!";
	$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
	fc_warm($node, undef, 'postgres', 't');
}

# A stream is read ahead from its ninth block on, by more as it goes on: all of its pages where they are asked for one by one,
# the first ones of each request of 17 and later. No page twice.
SKIP:
{
	my %moved = scan($sequential, 'v1', 'read ahead', qw(hits prefetches));
	skip 'no io_uring here', 2 if !fc_reads_ahead();
	is($moved{hits}, $pages, 'read ahead: every page is a hit, once');
	my $least = $node->pg_version < 17 ? $pages - 9 : $pages / 3;
	ok($moved{prefetches} >= $least && $moved{prefetches} <= $pages - 9, 'read ahead: not the first pages')
	  or diag("$moved{prefetches} of $pages");
}

# A page that was read ahead and then changed is not what is asked for: it is read again, from wherever it is now. The
# cursor has fetched from the stream's first pages only when every other page further on is given a new row version; these
# go to the end, and what is left of the old ones is changed, too.
{
	my $session = $node->background_psql('postgres');
	$session->query_safe($_)
	  foreach $sequential =~ /([^;]+;)/g, 'BEGIN', 'DECLARE c CURSOR FOR SELECT id, md5(val) FROM t';
	fc_push_out($node, $tag);
	my %before = fc_stat($node, 'verify_failures', 'checksum_failures');
	my @rows = split /\n/, $session->query_safe('FETCH 12 FROM c');
	is(scalar @rows, 12, 'changed while read ahead: the stream has begun');
	$node->safe_psql('postgres', 'CREATE TABLE t_ahead AS SELECT id FROM t WHERE id % 2 = 0 AND id > 14; '
		. 'UPDATE t SET val = val WHERE id IN (SELECT id FROM t_ahead)');
	fc_evict_all($node) for 1 .. 3;    # but for the pages that the cursor holds
	push @rows, split /\n/, $session->query_safe('FETCH ALL FROM c');
	my $fetched = join "\n", sort { $a <=> $b } map { (split /\|/)[0] } @rows;
	$session->query_safe('COMMIT');
	$session->quit;
	is($fetched, join("\n", sort { $a <=> $b } split /\n/, $node->safe_psql('postgres', 'SELECT id FROM t')),
		'changed while read ahead: the rows of the snapshot');
	my %after = fc_stat($node, 'verify_failures', 'checksum_failures');
	is_deeply(\%after, \%before, 'changed while read ahead: no hit differs from the disk');
	$node->safe_psql('postgres', 'DROP TABLE t_ahead; VACUUM FULL t');
	$tag = fc_tag($node, 'postgres', 't');
	fc_warm($node, undef, 'postgres', 't');
}

# Nothing is filled under zero_damaged_pages, so what is invalidated now stays away: runs of one, two, three and more
# pages in flash, with gaps of one to nine between them.
$node->append_conf('postgresql.conf', 'zero_damaged_pages = on');
$node->reload;
my @gone = grep { $_ % 7 == 3 || $_ % 11 == 0 || ($_ >= 40 && $_ < 49) } 0 .. $pages - 1;
my $gone = join ', ', map { "'($_,1)'" } @gone;
$node->safe_psql('postgres', "UPDATE t SET val = val WHERE ctid = ANY (ARRAY[$gone]::tid[])");
$node->safe_psql('postgres', 'CHECKPOINT');
is(fc_tag_flash($node, $tag), $pages - @gone, 'the pages that were changed are not in flash any more');
scans($sequential, 'v1',
	{
		hits            => $pages - @gone,
		misses          => scalar @gone,
		stream_reads    => 0,
		verify_checks   => $pages - @gone,
		verify_failures => 0
	},
	'gaps in flash');

# Without verify a stream that has begun stays with the disk, where the page cache has all pages: what is in flash
# and not taken from there is counted as such.
$node->append_conf('postgresql.conf', 'pg_flashcache.verify = off');
$node->reload;
my %moved = scan($sequential, 'v1', 'without verify', qw(hits misses stream_reads));
is($moved{hits} + $moved{misses}, $pages, 'without verify: every page is a hit or a miss');
is($moved{hits} + $moved{stream_reads},
	$pages - @gone, 'without verify: every page in flash was taken, or left to the stream');

# Such a stream is not taken to pieces for what is on flash: past its first pages, which are no stream yet, it takes as many
# requests as without a cache. 18 and later count them.
SKIP:
{
	skip 'the server does not count requests', 2 if $node->pg_version < 18;
	my $with = requests();
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	my $without = requests();
	cmp_ok($without, '<', $pages / 4, "not taken to pieces: $without requests for $pages pages");
	cmp_ok($with, '<=', $without + 8, "not taken to pieces: $with with gaps in flash");
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
}

# A bitmap scan of the first session that wants several pages prefetches them: those on flash from there, never from disk.
# 18 does so with io_method = sync only.
SKIP:
{
	if ($node->safe_psql('postgres', "SELECT current_setting('io_method', true)") =~ /^(?:worker|io_uring)$/)
	{
		skip 'with io_method worker and io_uring the server does not prefetch', 3;
	}
	$node->safe_psql('postgres', 'CREATE INDEX t_id ON t (id); CHECKPOINT');
	my %moved = scan('SET enable_seqscan = off; SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_bitmapscan = on;',
		'v1', 'prefetched', qw(hits misses prefetches disk_reads));
	skip 'no io_uring here', 2 if !fc_reads_ahead();
	is($moved{prefetches}, $pages - @gone, 'prefetched: every page in flash is read ahead, once');
	is($moved{misses}, $moved{disk_reads}, 'prefetched: the disk is asked for the misses only');
}

fc_is_clean($node);
$node->stop;

done_testing();


# A hot standby has a cache of its own: it fills it, reads from it, and keeps it right while it replays.
#
# Fails without: the invalidation in fc_smgr_write (rows of the version before; verify_failures);
# the masking of hint bits in fc_pages_equal ("hint bits": verify_failures on the standby);

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my ($primary, $standby) = fc_pair();

# ---- each reads its own flash ----

fc_table($primary, 'postgres', 't', 'v1', $pages);
my $tag = fc_tag($primary, 'postgres', 't');
fc_replayed($primary, $standby);
fc_bring($standby, 'postgres', 't');
fc_is_warm($standby, $tag, $pages, 'all pages are in flash');
isnt(fc_flash_file($primary), fc_flash_file($standby), 'each has a file of its own');

my %idle = fc_delta($primary, sub {
	fc_is_read($standby, 'postgres', 't', 'v1', $pages, 'reads all pages from flash');
}, 'verify_checks');
# Asking for the counters is a query as well, and may read a catalog page.
cmp_ok($idle{verify_checks}, '<', $pages, 'and the primary has nothing to do with it');

# An index as well. Its meta page and the first leaf are read before, when it is planned and asked for nothing; the
# session keeps what the meta page says, and needs it no more should it be pushed out.
$primary->safe_psql('postgres', 'CREATE TABLE i AS SELECT id, id AS n FROM generate_series(1, 3000) id; '
	. 'ALTER TABLE i ADD PRIMARY KEY (id); VACUUM (ANALYZE, FREEZE) i');
fc_warm($primary, $standby, 'postgres', 'i', 'i_pkey');
foreach my $node ($primary, $standby)
{
	my $sum = sub {
		return "SELECT 'sum', count(*), sum(n) FROM i WHERE id > $_[0];";
	};
	my $counters = "SELECT 'counters', hits, misses FROM pg_stat_flashcache;";
	my $out      = $node->safe_psql(
		'postgres', qq{
		SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0;
		} . $sum->(1000000) . $counters . qq{
		SELECT 'expected', count(*) FROM pg_flashcache_pages f
		WHERE f.reldatabase = (SELECT oid FROM pg_database WHERE datname = 'postgres')
			AND (f.relfilenode = pg_relation_filenode('i')
				OR f.relfilenode = pg_relation_filenode('i_pkey') AND f.relblocknumber > 0)
			AND NOT EXISTS (SELECT FROM pg_buffercache b WHERE b.relforknumber = 0
				AND (b.reltablespace, b.reldatabase, b.relfilenode, b.relblocknumber)
					= (f.reltablespace, f.reldatabase, f.relfilenode, f.relblocknumber));
		} . $counters . $sum->(0) . $counters);
	my ($expected) = $out =~ /^expected\|(\d+)/m;
	my @counters = map { [ split /\|/ ] } $out =~ /^counters\|(.*)/mg;
	my @sums     = $out =~ /^sum\|(.*)/mg;
	cmp_ok($expected, '>', 15, $node->name . ': index scan: most pages are in flash and not in the pool');
	is("$sums[1], " . ($counters[2][0] - $counters[1][0]) . ' hits, ' . ($counters[2][1] - $counters[1][1]) . ' misses',
		'3000|' . 3000 * 3001 / 2 . ", $expected hits, 0 misses",
		$node->name . ': index scan: those and no others are hits');
}

# ---- replay changes pages that are in flash ----

fc_rewrite_rows($primary, 'postgres', 't', 'v2');
fc_replayed($primary, $standby);
fc_push_out($standby, $tag);
fc_is_read($standby, 'postgres', 't', 'v2', $pages, 'after replay the rows are the new ones', 'any');
fc_warm($primary, $standby, 'postgres', 't');
fc_is_read($primary, 'postgres', 't', 'v2', $pages, 'new rows from flash');
fc_is_read($standby, 'postgres', 't', 'v2', $pages, 'new rows from flash');

# ---- prefetching during replay ----

# Pages that a process has had read from a device.
sub device_pages
{
	my ($pid) = @_;
	return slurp_file("/proc/$pid/io") =~ /^read_bytes: (\d+)$/m ? $1 / 8192 : die "no read_bytes of process $pid";
}

# The pages have been logged in full since the last checkpoint, so the next records say only what changes, and replay
# has to read the pages. It announces them to the storage manager first, and would take "no" for "no such file".
$primary->safe_psql('postgres', 'CHECKPOINT');
fc_rewrite_rows($primary, 'postgres', 't', 'v3');
fc_replayed($primary, $standby);
fc_bring($standby, 'postgres', 't');
fc_is_warm($standby, $tag, $pages, 'all pages are in flash before replay needs them');
{
	my $session  = $standby->background_psql('postgres');
	my $counters = "SELECT hits || ' ' || misses FROM pg_stat_flashcache";
	my $prefetch = 'SELECT prefetch FROM pg_stat_recovery_prefetch';
	my $startup = $session->query_safe(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'startup'});
	$session->query_safe($_) foreach $counters, $prefetch, $counters, $prefetch;
	my @before = split / /, $session->query_safe($counters);
	my $asked  = $session->query_safe($prefetch);
	my $device  = device_pages($startup);
	# Without a catalog page read in between: the session has all it needs, and asks nothing else.
	fc_rewrite_rows($primary, 'postgres', 't', 'v4');
	fc_replayed($primary, $standby);
	my @after = split / /, $session->query_safe($counters);
	is($after[0] - $before[0], $pages, 'replay reads each page from flash');
	is($after[1] - $before[1], 0, 'and none from disk');
	is($session->query_safe($prefetch) - $asked, $pages, 'each was announced, which flash answered as well');
	$device = device_pages($startup) - $device;
  SKIP:
	{
		skip 'the kernel does not count what is read from the flash file: in memory?', 1 if $device == 0;
		is($device, $pages, 'the device was asked for each of them once');
	}
	$session->quit;
}
fc_bring($standby, 'postgres', 't');
fc_is_read($standby, 'postgres', 't', 'v4', $pages, 'what it made of them is right');

# ---- hint bits ----

# With checksums a standby sets hint bits in its pool and must not write them: a clean page that is not what the disk
# has. It is what flash gets, and the comparison with the disk has to see through it.
#
# The pages must not be in flash before somebody has looked at the rows, so the cache is off until they are on disk.
sub switch
{
	my ($enabled, $state) = @_;
	$standby->append_conf('postgresql.conf', "pg_flashcache.enabled = $enabled");
	$standby->reload;
	fc_wait_state($standby, $state);
	return;
}
switch('off', 'disabled');
fc_table($primary, 'postgres', 'hints', 'v1', $pages);
# A hint may be set when its commit, and those of the transactions next to it, are safe on the standby's own disk: so a
# checkpoint after the last of them, and no other until the rows have been looked at.
fc_replayed($primary, $standby);
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
$standby->safe_psql('postgres', 'CHECKPOINT');
my $hints = fc_tag($standby, 'postgres', 'hints');
fc_push_out($standby, $hints);
switch('on', 'active');

my $committed = 256;    # HEAP_XMIN_COMMITTED
my $count     = "SELECT count(*) FROM generate_series(0, $pages - 1) block, heap_page_items(%s) WHERE t_infomask & $committed <> 0";
my $in_pool   = sprintf $count, "get_raw_page('hints', block)";
my $on_disk   = sprintf $count, "pg_read_binary_file(pg_relation_filepath('hints'), block * 8192, 8192)";
is($standby->safe_psql('postgres', $on_disk), 0, 'standby: the disk has pages without hint bits');
for (1 .. 50)
{
	last if fc_tag_flash($standby, $hints) == $pages;
	fc_fetch($standby, 'postgres', 'hints', $pages);
	fc_push_out($standby, $hints);
}
fc_is_warm($standby, $hints, $pages, 'all pages came into flash');
my %compared = fc_delta(
	$standby,
	sub { is($standby->safe_psql('postgres', $in_pool), $pages, 'standby: flash has pages with hint bits') },
	'verify_failures');
is($compared{verify_failures}, 0, 'standby: which is no difference');
is($standby->safe_psql('postgres', $on_disk), 0, 'standby: the disk still has them without');
fc_push_out($standby, $hints);
fc_is_read($standby, 'postgres', 'hints', 'v1', $pages, 'and they are right');

# ---- restarts of the standby ----

fc_is_quiet($primary, $standby);
fc_bring($standby, 'postgres', 't');
$standby->restart;
fc_wait_active($standby);
fc_is_gone($standby, $tag, 'cold after a restart');
fc_is_read($standby, 'postgres', 't', 'v4', $pages, 'and right', 'disk');

# Its data files are behind what flash held; the WAL is replayed again from an earlier place.
fc_rewrite_rows($primary, 'postgres', 't', 'v5');
fc_replayed($primary, $standby);
fc_bring($standby, 'postgres', 't');
fc_kill_server($standby);
$standby->start;
fc_wait_active($standby);
fc_replayed($primary, $standby);
fc_bring($standby, 'postgres', 't');
fc_is_read($standby, 'postgres', 't', 'v5', $pages, 'right after a kill -9');

# ---- promotion ----

fc_is_warm($standby, $tag, $pages, 'all pages are in flash before the promotion');
$primary->stop;
$standby->promote;
fc_is_warm($standby, $tag, $pages, 'promoted: the cache is still warm');
fc_is_read($standby, 'postgres', 't', 'v5', $pages, 'promoted: and right', 'any');
# From now on hint bits are written.
fc_bring($standby, 'postgres', 't');
fc_is_read($standby, 'postgres', 't', 'v5', $pages, 'promoted: every page from flash');
fc_rewrite_rows($standby, 'postgres', 't', 'v6');
fc_bring($standby, 'postgres', 't');
fc_is_read($standby, 'postgres', 't', 'v6', $pages, 'promoted: new rows from flash');
$standby->safe_psql('postgres', 'DROP TABLE t');
fc_is_gone($standby, $tag, 'promoted: a dropped table leaves nothing');
fc_is_quiet($standby);

$standby->stop;
done_testing();

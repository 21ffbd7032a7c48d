# A cache that fills: its free slots are found wherever they are, also behind a long stretch of pages that are wanted. One that
# is full: neighbours that nobody has asked for give way to pages that are evicted for the first time, if they are on a device
# that is in use.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# 1,024 slots.
my $node = fc_new_node('main', size => '8MB',
	conf => "pg_flashcache.admission = page\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n");
fc_everywhere($node);
fc_table($node, 'postgres', $_->[0], $_->[0], $_->[1]) foreach [ 'wanted', 200 ], [ 'gone', 600 ], [ 'asked', 300 ];
$node->safe_psql('postgres', 'SELECT count(*) FROM wanted; SELECT count(*) FROM gone; SELECT count(*) FROM asked; CHECKPOINT');
fc_evict($node, $_) foreach qw(wanted gone asked);
foreach my $on ('off', 'on')
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.enabled = $on");
	$node->reload;
	fc_wait_state($node, $on eq 'on' ? 'active' : 'disabled');
}

# Pages that were hit, behind them pages whose slots are free again, and the hand is behind these.
$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('$_')") foreach qw(wanted gone);
foreach (1 .. 3)
{
	fc_fetch($node, 'postgres', 'wanted', 200);
	fc_evict($node, 'wanted');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('wanted') AND refcount >= 1}),
	200, 'pages that are wanted');
$node->safe_psql('postgres', 'DROP TABLE gone');
fc_writer_round($node);

# Behind the hand there are fewer free slots than pages; these fit into 80% of all with those that are there, some of the catalogs
# included.
my %refused = fc_delta($node, sub { is(fc_to_flash($node, 'asked'), 300, 'all pages come to flash') }, 'insert_skip_not_useful');
is($refused{insert_skip_not_useful}, 0, 'none was refused');
is(fc_in_flash($node, 'wanted'), 200, 'and none had to go');
fc_is_read($node, 'postgres', 'asked', 'asked', 300, 'they are read from there');
fc_is_clean($node);
$node->stop;

# ---- neighbours ----

# What takes less than 10 ms is of the page cache here, and what is to be of the disk is delayed by 15 ms. zero_damaged_pages is
# on while only neighbours, and pages that are loaded, are to come.
$ENV{FC_PAGE_CACHE_US} = 10_000;
$node = fc_new_node('neighbours', size => '8MB', buffers => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\npg_flashcache.admission = page\npg_flashcache.extents = off\nzero_damaged_pages = on\n"
	  . "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\n"
	  . "max_parallel_workers_per_gather = 0\n");
fc_everywhere($node);
fc_table($node, 'postgres', @$_[0, 0, 1]) foreach [ 'loaded', 1024 ], [ 'extents', 700 ], [ 'first', 60 ], [ 'second', 60 ];
$node->safe_psql('postgres', "SELECT count(*) FROM $_") foreach qw(loaded extents first second);
$node->safe_psql('postgres', 'CHECKPOINT');
fc_evict($node, $_) foreach qw(loaded extents first second);
my $control = fc_control($node);

sub set
{
	my ($setting, $value) = @_;
	$node->append_conf('postgresql.conf', "$setting = $value");
	$node->reload;
	$node->poll_query_until('postgres', "SHOW $setting", $value) or die 'no reload';
	fc_writer_round($node) for 1 .. 2;
	return;
}

sub read_extents
{
	my (@blks) = @_;
	$control->query_safe("SET enable_seqscan = off; SELECT max(id) FROM extents WHERE ctid = '($_,1)'") foreach @blks;
	return;
}

# Reads so many pages, each of which brings its seven neighbours.
sub bring_neighbours
{
	my ($extents) = @_;
	set('pg_flashcache.extents', 'on');
	fc_failpoint($control, 'disk_read', 'delay:15000');
	read_extents(map { 8 * $_ } 0 .. $extents - 1);
	fc_failpoint($control, 'disk_read', 'off');
	set('pg_flashcache.extents', 'off');
	# some are there already, and those of some pages of the catalogs come as well
	cmp_ok($node->safe_psql('postgres', 'SELECT unproven FROM pg_stat_flashcache_extents'), '>=', 6 * $extents, 'neighbours have come');
	return;
}

# The pages of a table are evicted, once.
sub evicted
{
	my ($table) = @_;
	set('zero_damaged_pages', 'off');
	my %delta = fc_delta($node, sub { $node->safe_psql('postgres', "SELECT count(*) FROM $table"); fc_push_out($node, fc_tag($node, 'postgres', $table)) },
		qw(inserts insert_skip_not_useful));
	set('zero_damaged_pages', 'on');
	return %delta;
}

# A sixth of the slots is the neighbours'. The others are no less than 80%, so the cache does not fill; a few are free.
bring_neighbours(24);
$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('loaded', last_block => 839)");
cmp_ok($node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache'), '>=', 7 * 24 + 840, 'the cache is full');
my %evicted = evicted('first');
is($evicted{insert_skip_not_useful}, 0, 'no page is refused');
cmp_ok($evicted{inserts}, '>=', 60, 'all come to flash, in place of neighbours and others that were not hit');

# So it is with one device less, but none of the neighbours is on the one that is left.
foreach my $on ('off', 'on')
{
	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $on");
	$node->reload;
	fc_wait_state($node, $on eq 'on' ? 'active' : 'disabled');
}
$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('loaded')");
is(fc_in_flash($node, 'loaded'), 1024, 'one device is full');
add($node, $node->basedir . '/second', 8 << 20);
bring_neighbours(80);
fc_failpoint($control, $_, 'error', 2) foreach qw(store_read store_open);
read_extents(map { 8 * $_ + 1 } 0 .. 79);
is(device($node, 2, 'state'), 'off', 'the other one, which has the neighbours, is off');
%evicted = evicted('second');
# Pages of the catalogs may have been evicted twice by now.
cmp_ok(fc_in_flash($node, 'loaded'), '>=', 940, 'nothing gives way to pages that were evicted once');
cmp_ok($evicted{insert_skip_not_useful}, '>=', 60, 'such pages are refused');
$control->quit;
done_testing();

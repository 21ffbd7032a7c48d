# Restored pages whose slots hold something else: K12 of src/warm.md.
#
# After a clean stop none is expected, and each counts as any page with wrong content does. After a crash some are, and
# only if they are many they all go, with a WARNING. Queries get the right rows in any case.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 1100;
my $node  = fc_new_node('main', size => '32MB',
	conf => "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', $pages);
my $tag = fc_tag($node, 'postgres', 't');

# All of the table on flash, and the log complete for the last checkpoint.
sub prepare
{
	fc_warm($node, undef, 'postgres', 't');
	fc_stamp($node);
	return;
}

# Every slot gets other bytes; the header and the log stay.
sub spoil
{
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	seek $fh, 65536, 0 or die $!;
	print $fh "\x5A" x 8192 for 1 .. 4096;
	close $fh or die $!;
	return;
}

sub rows_are_right
{
	my ($name) = @_;
	my $value = fc_value_sql('v1');
	fc_fetch($node, 'postgres', 't', $pages);
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE val = $value"), $pages, "$name: the rows are right");
	return;
}

sub persistence
{
	my ($column) = @_;
	return $node->safe_psql('postgres', "SELECT $column FROM pg_stat_flashcache_persistence");
}

# The warnings of this extension since then, but for the one of nearly every test.
sub warnings_since
{
	my ($offset) = @_;
	return grep { /WARNING:  pg_flashcache/ && !/same file system/ } split /\n/, slurp_file($node->logfile, $offset);
}

# After a clean stop.
prepare();
$node->stop;
spoil();
my $offset = -s $node->logfile;
$node->start;
$node->poll_query_until('postgres', 'SELECT loaded_at IS NOT NULL FROM pg_stat_flashcache_persistence') or die 'no log is loaded';
# Reads of the catalogs are enough for the cache to see it.
rows_are_right('clean stop');
cmp_ok(persistence('restored'), '>=', $pages, 'clean stop: all pages were restored');
$node->wait_for_log(qr/WARNING:  pg_flashcache is off: the flash device returned wrong content for 16 pages in a row/, $offset);
$node->wait_for_log(qr/WARNING:  pg_flashcache has read \d+ pages? with wrong content from flash/, $offset);
cmp_ok({ fc_stat($node, 'checksum_failures') }->{checksum_failures}, '>=', 16, 'clean stop: they count as any');
is(persistence('restored_wrong'), 0, 'clean stop: and not as expected ones');
fc_wait_active($node);
my %before = fc_stat($node, 'checksum_failures');
rows_are_right('clean stop, active again');
is({ fc_stat($node, 'checksum_failures') }->{checksum_failures}, $before{checksum_failures}, 'clean stop: none of them is left');

# After a crash.
prepare();
fc_kill_server($node);
spoil();
$offset = -s $node->logfile;
$node->start;
fc_wait_active($node);
fc_is_warm($node, $tag, $pages, 'crash: all pages are restored');
rows_are_right('crash');
$node->wait_for_log(qr/WARNING:  pg_flashcache has dropped the pages that it had restored: too many of them had wrong content/, $offset);
is(scalar warnings_since($offset), 1, 'crash: one warning');
cmp_ok(persistence('restored_wrong'), '>=', 1000, 'crash: they are counted');
is({ fc_stat($node, 'checksum_failures') }->{checksum_failures}, 0, 'crash: not as trouble of the device');
is({ fc_stat($node, 'state') }->{state}, 'active', 'crash: the cache is used');

# Memory: what persistence adds is within what is promised for 2 GB and more.
foreach my $size ('2GB', '4GB', '8GB')
{
	my $large = fc_new_node("large_$size", size => $size, wait => 0,
		conf => "pg_flashcache.persistence = on\npg_flashcache.file = '/nonexistent/flash'\n");
	$large->safe_psql('postgres', 'CREATE EXTENSION pg_flashcache');
	cmp_ok($large->safe_psql('postgres', 'SELECT (memory_bytes - 2 * 1024 * 1024) / slots::float8 FROM pg_stat_flashcache'), '<=', 42,
		"$size: at most 42 bytes a slot, and 2 MB");
	$large->stop;
}

$node->stop;
done_testing();

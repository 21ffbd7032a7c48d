# Places for the cache that only root can make: see test/lib/root-places.sh, which test.sh calls when it runs as root.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $places = $ENV{FC_PLACES};
plan skip_all => 'not run by root' if !$places;
$places = realpath($places);

my $node = fc_new_node('main', start => 0);

fc_is_refused(
	$node,
	'wrong owner',
	"$places/foreign/open", qq{"$places/foreign/open" belongs to another user},
	'Remove the file, or choose another path.',
	sub { unlink "$places/foreign/open" or die $! });

fc_is_refused(
	$node,
	'wrong owner, closed',
	"$places/foreign/flash", qq{could not open "$places/foreign/flash": Permission denied},
	q{The file and its folder must belong to the server's user.},
	sub { unlink "$places/foreign/flash" or die $! });

SKIP:
{
	skip 'no small file system could be mounted', 7 if !-e "$places/small/.is-small";
	fc_is_refused(
		$node,
		'not enough space',
		"$places/small/flash", qq{could not reserve 4259840 bytes for "$places/small/flash": No space left on device},
		'Free space on flash, or lower pg_flashcache.size.',
		undef, '4MB');
	is(-s "$places/small/flash", 0, 'not enough space: what was taken is given back');
}

SKIP:
{
	skip 'no loop device could be made', 8 if !-l "$places/device";
	my $device = readlink "$places/device";
	my $offset = fc_start_with($node, $device, '2MB');

	fc_create_sql($node);
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache'), 256, 'block device: in use');
	$node->safe_psql('postgres', 'CREATE TABLE t AS SELECT n, repeat(\'x\', 5000) AS v FROM generate_series(1, 20) n');
	my $pages = fc_to_flash($node, 't');
	my %moved = fc_delta($node, sub { $node->safe_psql('postgres', 'SELECT sum(n) FROM t') }, 'hits', 'verify_failures');
	cmp_ok($moved{hits}, '>=', $pages, 'block device: pages come from there');
	is($moved{verify_failures}, 0, 'block device: the right ones');
	$node->stop;

	# The header says that it is ours.
	fc_start_with($node, $device, '2MB');
	fc_wait_active($node);
	pass('block device: taken again');
	$node->stop;

	fc_is_refused(
		$node,
		'block device too small',
		$device, qq{block device "$device" has 4194304 bytes, 4259840 are needed},
		'Lower pg_flashcache.size.', undef, '4MB');
}

SKIP:
{
	skip 'no loop device could be mounted', 5 if !-l "$places/mounted";
	my $device = readlink "$places/mounted";

	fc_is_refused(
		$node,
		'mounted block device',
		$device, qq{could not open "$device": Device or resource busy},
		'A mounted block device cannot be used.');
}

done_testing();

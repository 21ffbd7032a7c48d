# Data directories and tablespaces of other servers: nothing in them becomes a device, neither an empty file, as a table
# without pages has one, nor a new one. What lies beside them may.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use FlashCache;
use FlashCacheDevices;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', start => 0, conf => "pg_flashcache.max_size = '16MB'\n");
my $dir  = realpath($node->basedir);

# Another server, which has ended.
my $other = PostgreSQL::Test::Cluster->new('other');
$other->init;
$other->start;
my $place = realpath($other->basedir);
my $data  = realpath($other->data_dir);
my $space = "$place/space";
mkdir $space or die $!;
chmod 0700, $space;
$other->safe_psql('postgres', 'CREATE TABLE t (n int)');
$other->safe_psql('postgres', "CREATE TABLESPACE s LOCATION '$space'");
$other->safe_psql('postgres', 'CREATE TABLE u (n int) TABLESPACE s');
my $table = "$data/" . $other->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
my $moved = $other->safe_psql('postgres', q{SELECT pg_relation_filepath('u')}) =~ s{^pg_tblspc/\d+}{$space}r;
my ($version) = $moved =~ m{^(\Q$space\E/PG_[^/]+)/};
my ($database) = $moved =~ m{/(\d+)/\d+$};
$other->stop;
is(-s $_, 0, "$_ is empty") foreach $table, $moved;
mkdir "$place/linked" or die $!;
chmod 0700, "$place/linked";
symlink "$place/linked", "$data/out" or die $!;
symlink "$data/base", "$place/in" or die $!;
symlink '../linked', "$data/relative" or die $!;

# Its WAL lies elsewhere; an empty file of it.
rename "$data/pg_wal", "$place/wal" or die $!;
symlink '../wal', "$data/pg_wal" or die $!;
my $ready = "$data/pg_wal/archive_status/000000010000000000000001.ready";
append_to_file($ready, '');
chmod 0600, $ready or die $!;

my $is_data = qq{is a data directory of PostgreSQL, or a part of one: it has a PG_VERSION};
my @refused = (
	[ 'a table without pages', $table, qq{folder "$data" $is_data} ],
	[ 'a new file in a data directory', "$data/flash", qq{folder "$data" $is_data} ],
	[ 'the same by dots', "$place/space/../pgdata/base/./../flash", qq{folder "$place/space/../pgdata" $is_data} ],
	[ 'by a link to a part of it', "$place/in/$database/flash", qq{folder "$data" $is_data} ],
	[ 'by a link out of it', "$data/out/flash", qq{folder "$data" $is_data} ],
	[ 'by a relative link out of it', "$data/relative/flash", qq{folder "$data" $is_data} ],
	[ 'an empty file of its WAL, by a relative link', $ready, qq{folder "$data" $is_data} ],
	[ 'a table in a tablespace', $moved, qq{folder "$version" is a part of a tablespace of PostgreSQL} ],
	[ 'a new file in a tablespace', "$version/flash", qq{folder "$version" is a part of a tablespace of PostgreSQL} ]);

foreach my $case (@refused[ 0, 1, 6, 7 ])
{
	my ($what, $path, $reason) = @$case;
	fc_is_refused($node, $what, $path, $reason, 'Choose a path outside all data directories and tablespaces, and restart the server.');
}

fc_start_with($node, "$dir/flash");
$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS pg_flashcache');
fc_wait_active($node);
foreach my $case (@refused)
{
	my ($what, $path, $reason) = @$case;
	my (undef, undef, $stderr) = $node->psql('postgres', "SELECT pg_flashcache_add_device('$path', 1 << 20)");
	like($stderr, qr{ERROR:  could not add the device: \Q$reason\E\nHINT:  Choose a path outside all data directories and tablespaces\.$}, "$what: not added");
}
is(devices($node, 'device'), 1, 'none of them is a device');
is(-s $_, 0, "$_ is still empty") foreach $table, $moved, $ready;
is_deeply([ grep { -e } map { "$_/flash" } $data, "$data/base/$database", "$place/linked", $version ], [], 'no file has been made');

# Beside them.
foreach my $path ("$place/beside", "$place/linked/flash", "$data/base/../../passed", "$space/flash")
{
	is($node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$path', 1 << 20)"), '', "$path: added");
	$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$path')");
}

# One that is in the list, from before there is a server.
add($node, "$place/linked/listed", 1 << 20);
append_to_file("$place/linked/PG_VERSION", "15\n");
$node->restart;
fc_wait_active($node);
wait_device_state($node, 2, 'off');
is(device($node, 2, 'reason'), qq{folder "$place/linked" $is_data}, 'in the list: refused');
like((($node->psql('postgres', "SELECT pg_flashcache_enable_device('$place/linked/listed')"))[2]),
	qr/\nHINT:  pg_flashcache_remove_device\(\), then pg_flashcache_add_device\(\) with a path outside all data directories and tablespaces\.$/, 'in the list: with a hint');
$node->stop;

done_testing();

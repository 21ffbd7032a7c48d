# Places for the cache that only root can make: see test/lib/root-places.sh, which test.sh calls when it runs as root.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use Fcntl;
use FlashCache;
use FlashCacheMore;
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
	q{If this is the cache's file, give it to the server's user (chown) and call pg_flashcache_enable(); else choose another path and restart the server.},
	sub { unlink "$places/foreign/open" or die $! });

fc_is_refused(
	$node,
	'wrong owner, closed',
	"$places/foreign/flash", qq{"$places/foreign/flash" belongs to another user},
	q{If this is the cache's file, give it to the server's user (chown) and call pg_flashcache_enable(); else choose another path and restart the server.},
	sub { unlink "$places/foreign/flash" or die $! });

# What others may have put into a folder that all may write to, and folders that are theirs.
my $owners = q{Everything on the way to the file must belong to root or to the server's user.};
fc_is_refused(
	$node,
	'planted file',
	"$places/sticky/flash", qq{"$places/sticky/flash" belongs to another user},
	q{If this is the cache's file, give it to the server's user (chown) and call pg_flashcache_enable(); else choose another path and restart the server.});
fc_is_refused(
	$node,
	'planted link',
	"$places/sticky/link/linked", qq{symbolic link "$places/sticky/link" belongs to another user}, $owners);
ok(!-e "$places/foreign/linked", 'planted link: nothing was made where it leads');
fc_is_refused(
	$node,
	'planted folder',
	"$places/sticky/folder/flash", qq{folder "$places/sticky/folder" belongs to another user}, $owners);
fc_is_refused(
	$node,
	'folder of somebody else above it',
	"$places/nobody/ours/flash", qq{folder "$places/nobody" belongs to another user}, $owners);
fc_is_refused(
	$node,
	'folder open to a group of strangers',
	"$places/strangers/flash", qq{other users may write to folder "$places/strangers"},
	'Take the right to write from the others (chmod go-w) and call pg_flashcache_enable(), or choose another folder and restart the server.');
{
	my $file = "$places/sticky/own";
	fc_start_with($node, $file);
	fc_wait_active($node);
	is(sprintf('%04o', (stat $file)[2] & 07777), '0600', 'a name of its own among them: taken');
	$node->stop;
}

# The same folder under two names.
SKIP:
{
	skip 'nothing could be mounted', 9 if !-e "$places/twins";
	my $tablespace = "$places/foreign/tablespace";
	mkdir $tablespace or die $!;
	fc_start_with($node, "$places/foreign/made");
	$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION '$tablespace'");
	$node->stop;
	fc_is_refused(
		$node,
		'inside a tablespace by another mount',
		"$places/twin/tablespace/flash", qq{"$places/twin/tablespace/flash" lies inside a tablespace},
		'Choose a path that is no tablespace, and restart the server.');
	fc_start_with($node, "$places/foreign/made");
	$node->safe_psql('postgres', 'DROP TABLESPACE ts');
	fc_wait_active($node);

	my $second = fc_odd_node('second', conf => "pg_flashcache.file = '$places/twin/made'\n");
	my $reason = qq{"$places/twin/made" is in use by another server};
	$second->wait_for_log(qr/WARNING: .* is off: /);
	is_deeply([ fc_warnings($second) ], ["pg_flashcache is off: $reason"], 'one file by two mounts: refused');
	is(fc_view($second), "off|$reason|interception", 'one file by two mounts: the view says so');
	is(fc_view($node), 'active||interception', 'one file by two mounts: the first server does not mind');
	$_->stop foreach $second, $node;
}

# Parts of the data directory under other names, by mounts: nothing above them tells.
SKIP:
{
	skip 'nothing could be mounted', 21 if !-e "$places/twins" || !-p "$places/ask";
	my $data  = realpath($node->data_dir);
	my $bind  = sub {
		my ($what, $from, $to) = @_;
		open my $fh, '>', "$places/bind" or die $!;
		print $fh "$from\n$to\n";
		close $fh;
		fc_ask($places, $what);
	};
	my $inside = 'Choose a path on local flash outside the data directory, and restart the server.';

	mkdir "$places/bound" or die $!;
	foreach my $folder ('base', 'pg_wal/archive_status')
	{
		$bind->('bind', "$data/$folder", "$places/bound");
		fc_is_refused($node, "$folder by another mount", "$places/bound/flash",
			qq{"$places/bound/flash" lies inside the data directory}, $inside);
		ok(!-e "$data/$folder/flash", "$folder by another mount: nothing was made there");
		$bind->('unbind', '', "$places/bound");
	}

	# An empty data file; and what is mounted within the data directory.
	fc_start_with($node, "$places/foreign/made");
	$node->safe_psql('postgres', 'CREATE TABLE IF NOT EXISTS empty (n int)');
	my $table = $data . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('empty')});
	$node->stop;
	open my $fh, '>', "$places/bound/file" or die $!;
	close $fh;
	$bind->('bind', $table, "$places/bound/file");
	fc_is_refused($node, 'a data file by another mount', "$places/bound/file",
		qq{"$places/bound/file" lies inside the data directory}, $inside);
	is(-s $table, 0, 'a data file by another mount: untouched');
	$bind->('unbind', '', "$places/bound/file");

	mkdir "$data/nested" or die $!;
	$bind->('bind', "$places/foreign", "$data/nested");
	fc_is_refused($node, 'mounted within the data directory', "$places/foreign/made",
		qq{"$places/foreign/made" lies inside the data directory}, $inside,
		sub { $bind->('unbind', '', "$data/nested") });
	rmdir "$data/nested" or die $!;
}

# A mount of its own is what require_mount asks for.
SKIP:
{
	skip 'no small file system could be mounted', 2 if !-e "$places/small/.is-small";
	$node->append_conf('postgresql.conf', 'pg_flashcache.require_mount = on');
	my $offset = fc_start_with($node, "$places/small/flash");
	fc_wait_active($node);
	pass('require_mount: a file on a file system of its own is taken');
	unlike(slurp_file($node->logfile, $offset), qr/@{[FC_BESIDE]}/, 'require_mount: no warning');
	$node->stop;
	unlink "$places/small/flash" or die $!;
	$node->append_conf('postgresql.conf', 'pg_flashcache.require_mount = off');
}

# As in a container whose root cannot be written to.
SKIP:
{
	skip 'nothing could be mounted', 10 if !-e "$places/readonly/flash";
	foreach my $name ('new', 'flash')
	{
		fc_is_refused(
			$node,
			"read-only file system, $name",
			"$places/readonly/$name", qq{could not open "$places/readonly/$name": Read-only file system},
			'The file system is mounted read-only.');
	}
}

SKIP:
{
	skip 'no small file system could be mounted', 19 if !-e "$places/small/.is-small";
	fc_is_refused(
		$node,
		'not enough space',
		"$places/small/flash", qq{"$places/small/flash" needs 4160 kB more, and its file system has 972 kB to spare},
		'Free space and call pg_flashcache_enable(), or lower pg_flashcache.size and restart the server: 908 kB would fit now.',
		undef, '4MB');
	is(-s "$places/small/flash", 0, 'not enough space: nothing was taken');
	fc_start_with($node, "$places/small/flash");
	fc_wait_active($node);
	$node->stop;
	my @before = (stat "$places/small/flash")[7, 12];
	fc_is_refused(
		$node,
		'no space to grow',
		"$places/small/flash", qq{"$places/small/flash" needs 3584 kB more, and its file system has 396 kB to spare},
		'Free space and call pg_flashcache_enable(), or lower pg_flashcache.size and restart the server: 908 kB would fit now.',
		undef, '4MB');
	is_deeply([ (stat "$places/small/flash")[7, 12] ], \@before, 'no space to grow: the file is as it was');

	# A file that was deleted takes its space as long as somebody has it open.
	my $file = "$places/small/flash";
	fc_start_with($node, $file, '768kB');
	fc_create_sql($node);
	fc_wait_active($node);
	$node->safe_psql('postgres', q{CREATE TABLE d AS SELECT n, repeat('x', 5000) AS v FROM generate_series(1, 5) n});
	my $idle = $node->background_psql('postgres');
	my $its  = $idle->query_safe('SELECT pg_backend_pid()');
	my $has  = sub { return scalar grep { /^\Q$file\E/ } map { readlink $_ // () } glob "/proc/$_[0]/fd/*" };
	# Of so small a cache whatever is read: catalogs, too.
	for (1 .. 50)
	{
		fc_evict_all($node);
		$idle->query_safe('SELECT count(*) FROM pg_class a JOIN pg_attribute b ON b.attrelid = a.oid');
		last if $has->($its);
	}
	is($has->($its), 1, 'deleted: a session has it open');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_write', 'error');
	$node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	fc_failpoint($node, 'store_write', 'off');
	fc_wait_state($node, 'off');
	unlink $file or die $!;
	my $cannot = sub {
		my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
		return $stderr;
	};
	like($cannot->(), qr/"\Q$file\E" needs 832 kB more, .*\nHINT:  The former file takes space as long as sessions have it open: .*lsof \+L1/,
		'deleted: an idle session has it open, and the hint says so');
	is($has->(fc_device_process($node)), 0,
		'deleted: the device process has let go of it');
	like($cannot->(), qr/\nHINT:  The former file takes space/, 'deleted: the hint stays');
	fc_evict($node, 'd');
	is($idle->query_safe('SELECT count(v) FROM d'), '5', 'deleted: the session reads');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'deleted: and then a new file is made');
	$idle->quit;
	fc_failpoint($node, 'probe_due', 'off');
	$node->stop;
}

SKIP:
{
	skip 'no loop device could be made', 26 if !-l "$places/device";
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

	# Erased on the device itself.
	my $secret = $node->safe_psql('postgres', q{SELECT md5('secret')});
	my $on_device = sub { return index(slurp_file($device), $secret) >= 0 ? 'there' : 'gone' };
	$node->safe_psql('postgres', "CREATE TABLE s AS SELECT '$secret' AS v");
	fc_to_flash($node, 's');
	$node->safe_psql('postgres', 'DROP TABLE s');
	is($on_device->(), 'there', 'block device: has a page of a dropped table');
	$node->safe_psql('postgres', 'SELECT pg_flashcache_scrub()');
	is($on_device->(), 'gone', 'block device: erased');

  SKIP:
	{
		skip 'no device nodes could be made', 4 if !-b "$places/node";
		$node->stop;
		# A node is a name: the device is the same when the node is made anew, and another one's number is another device.
		fc_start_with($node, "$places/node", '2MB');
		fc_wait_active($node);
		my %before = fc_stat($node, 'switch_offs');
		rename "$places/node",  "$places/node1" or die $!;
		rename "$places/node2", "$places/node"  or die $!;
		fc_to_flash($node, 't');
		my %after = fc_stat($node, 'state', 'switch_offs');
		is_deeply(\%after, { state => 'active', %before }, 'block device: its node is made anew, the device is the same');
		rename "$places/node",  "$places/node2" or die $!;
		rename "$places/other", "$places/node"  or die $!;
		$node->safe_psql('postgres', 'SELECT sum(n) FROM t');
		is(fc_view($node), qq{off|"$places/node" has been replaced by another file|interception},
			'block device: its node leads to another device');
		rename "$places/node", "$places/other" or die $!;
		my (undef, undef, $gone) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
		like($gone, qr/could not be enabled: block device "\Q$places\E\/node" does not exist\nHINT:  Check that the device is attached/,
			'block device: its node is gone');
		ok(!-e "$places/node", 'block device: no file is made in its place');
		$node->stop;
		fc_start_with($node, $device, '2MB');
		fc_wait_active($node);
	}

	# While the cache is disabled somebody makes a file system there.
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	my $cache = slurp_file($device);
	system_or_bail('/sbin/mkfs.ext4', '-q', '-F', $device);
	my $made = slurp_file($device);
	my (undef, undef, $refused) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	like($refused, qr/ERROR:  the flash cache could not be erased: "\Q$device\E" no longer begins with what the server wrote there\n/,
		'block device: with a file system on it, not erased');
	ok(slurp_file($device) eq $made, 'block device: the file system is untouched');
	open my $to, '+<:raw', $device or die "$device: $!";
	print $to $cache;
	close $to or die "$device: $!";
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	$node->stop;

	my $mode = (stat $device)[2] & 07777;
	chmod 0666, $device or die $!;
	fc_is_refused(
		$node,
		'block device open to all',
		$device, qq{block device "$device" is accessible to all users},
		'Use chmod o=, with a udev rule that lasts.',
		sub { chmod $mode, $device or die $! }, '2MB');

  SKIP:
	{
		skip 'no device node could be made', 4 if !-b "$places/lent";
		fc_is_refused(
			$node,
			'block device of somebody else',
			"$places/lent", qq{block device "$places/lent" belongs to another user},
			q{Give the device to the server's user, with a udev rule that lasts.}, undef, '2MB');
	}

	# The header says that it is ours.
	$offset = fc_start_with($node, $device, '2MB');
	fc_wait_active($node);
	pass('block device: taken again');

	fc_is_waited_for($node, 'block device claimed for a moment', 'store_claim', sub {
		sysopen(my $claim, $device, O_RDWR | O_EXCL) or die "$device: $!";
		return $claim;
	}, $offset);
	$node->stop;

	fc_is_refused(
		$node,
		'block device too small',
		$device, qq{block device "$device" has 4194304 bytes, 4259840 are needed},
		'Lower pg_flashcache.size, and restart the server.', undef, '4MB');
}

SKIP:
{
	skip 'no loop device could be mounted', 5 if !-l "$places/mounted";
	my $device = readlink "$places/mounted";

	fc_is_refused(
		$node,
		'mounted block device',
		$device, qq{could not open "$device": Device or resource busy},
		'A block device that is mounted, or in use by others, cannot be used (lsblk, fuser).');
}

# Huge pages, just as many as the server says that it needs; and one less.
SKIP:
{
	skip 'no huge pages could be made', 6 if !-e "$places/hugepages";
	# of which the cache alone takes more than one
	fc_start_with($node, "$places/foreign/made", '600MB');
	$node->append_conf('postgresql.conf', "huge_pages = on\nwal_buffers = 64MB");
	$node->stop;
	my ($pages) = run_command([ 'postgres', '-D', $node->data_dir, '-C', 'shared_memory_size_in_huge_pages' ]);
	my $have = sub {
		my ($n) = @_;
		unlink "$places/hugepages" or die $!;
		append_to_file("$places/hugepages", "$n\n");
		return fc_ask($places, 'hugepages');
	};
	# Another server on this machine may have taken some of them for a moment, as huge_pages = try does.
	my $start = sub {
		for (1 .. 20)
		{
			return 1 if $node->start(fail_ok => 1);
			select undef, undef, undef, 0.5;
		}
		return 0;
	};
	if (!$have->($pages) || !$start->())
	{
		fc_ask($places, 'smallpages');
		$node->append_conf('postgresql.conf', "huge_pages = try\nwal_buffers = -1");
		skip 'not enough huge pages could be made', 6;
	}
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT memory_bytes > 0 FROM pg_stat_flashcache'), 't', 'as many huge pages as the server says: active');
	$node->stop;
	fc_ask($places, 'smallpages');

	my $offset = -s $node->logfile;
	ok($have->($pages - 1), 'one huge page less: can be had');
	ok($start->(), 'one huge page less: the server starts');
	my $view = fc_view($node);
	like($view, qr/^disabled\|the kernel does not map \d+ MB of shared memory in huge pages for the server and a pg_flashcache\.size of 600 MB: /,
		'one huge page less: without the cache');
	my ($reason) = $view =~ /\|(.*)\|/;
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is disabled: $reason"], 'one huge page less: one warning');
	ok(fc_works($node), 'one huge page less: the server works');
	$node->stop;
	fc_ask($places, 'smallpages');
	$node->append_conf('postgresql.conf', "huge_pages = try\nwal_buffers = -1");
}

# A file in memory takes memory, and all of it at once: more than there is, and the kernel kills whoever needs some next.
SKIP:
{
	skip 'no limit of memory, or no file system in memory', 6 if !-e "$places/limits" || system('mountpoint', '-q', '/dev/shm') != 0;
	my $file = "/dev/shm/pg_flashcache_test_$$";
	append_to_file("$places/limited", "$$\n");
	fc_ask($places, 'limit');
	my $offset = fc_start_with($node, $file, '511MB');
	$node->wait_for_log(qr/WARNING: .* is off: .*\n.*DETAIL: .*\n.*HINT: /, $offset);
	my $view = fc_view($node);
	like($view, qr/^off\|"\Q$file\E" needs 512 MB, its file system is in memory, and there is room for \d+ MB\|interception$/,
		'more in memory than there may be: off');
	my ($reason) = $view =~ /\|(.*)\|/;
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is off: $reason"], 'more in memory than there may be: one warning');
	my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: \Q$reason\E\nHINT:  Put the file on flash, or lower pg_flashcache\.size, and restart the server\./,
		'more in memory than there may be: enable says why');
	is((stat $file)[12], 0, 'more in memory than there may be: nothing was taken');
	ok(fc_works($node), 'more in memory than there may be: the server works');
	$node->stop;
	unlink $file;
	fc_start_with($node, $file, '64MB');
	fc_wait_active($node);
	pass('as much in memory as there may be: active');
	$node->stop;
	unlink $file or die "$file: $!";
	fc_ask($places, 'unlimit');
}

done_testing();

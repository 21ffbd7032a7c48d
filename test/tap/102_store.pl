# What the store refuses, and what it makes. Each refusal: the server is up, the cache is off, one WARNING with a hint,
# and pg_flashcache_enable() brings the cache back once the cause has been mended.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use Fcntl qw(:flock);
use File::Path qw(make_path);
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', start => 0);
my $dir  = realpath($node->basedir) . '/place';
my $data = $node->data_dir;
mkdir $dir or die "$dir: $!";

sub write_file
{
	my ($path, $bytes) = @_;
	open my $fh, '>:raw', $path or die "$path: $!";
	print $fh $bytes;
	close $fh or die "$path: $!";
	return;
}

sub set
{
	my ($line) = @_;
	$node->append_conf('postgresql.conf', "$line\n");
	$node->reload;
	return;
}

sub open_files
{
	my ($pid) = @_;
	opendir(my $dir, "/proc/$pid/fd") or die "/proc/$pid/fd: $!";
	my @files = sort map { (readlink("/proc/$pid/fd/$_") // '') =~ s/^socket:.*/socket/r } grep { /^\d/ } readdir $dir;
	closedir $dir;
	return @files;
}

# The file it makes.
{
	my $file = "$dir/made";

	fc_start_with($node, $file);
	fc_create_sql($node);
	fc_wait_active($node);
	my @stat = stat $file;
	is(sprintf('%04o', $stat[2] & 07777), '0600', 'the file is made with mode 0600');
	is($stat[7], 64 * 8192 + 65536, 'as long as its slots and the header');
	ok($stat[12] * 512 >= $stat[7], 'and has all its blocks');
	$node->stop;

	fc_start_with($node, $file, '1MB');
	fc_wait_active($node);
	is(-s $file, 128 * 8192 + 65536, 'a larger cache: the file has grown');
	is($node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache'), 128, 'and so has the cache');
	$node->stop;

	fc_start_with($node, $file);
	fc_wait_active($node);
	is(-s $file, 64 * 8192 + 65536, 'a smaller one: it has shrunk');

	# What touches the file is a process that has nothing else of the server's, so that nobody has to wait for it.
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $device = fc_device_process($node);
	is_deeply([ open_files($device) ], [ '/dev/null', '/dev/null', '/dev/null', $file, 'socket' ], 'device process: all that it has open');
	# H6
	my ($number) = grep { (readlink("/proc/$device/fd/$_") // '') eq $file } 0 .. 20;
	my ($flags)  = slurp_file("/proc/$device/fdinfo/$number") =~ /^flags:\s+([0-7]+)$/m or die 'no flags';
	ok(oct($flags) & 01000000, 'device process: reading updates no time of access');
	is(scalar(grep { $_ eq $file } open_files($writer)), 0, 'device process: the writer does not have the file open');
	is(readlink("/proc/$device/cwd"), '/', 'device process: it stands in the way of no unmounting');
	is(scalar(grep { /^\S+ .w.s / } split /\n/, slurp_file("/proc/$device/maps")), 1, 'device process: no memory of the server');
	kill 'TERM', $device;
	kill 'INT', $device;

	# It is killed, as by a kernel that is short of memory: a fault of the device, not of the server.
	my $offset = -s $node->logfile;
	my $reason = 'the process that uses the flash device has ended';
	fc_failpoint($node, 'probe_due', 'error');
	is($node->safe_psql('postgres', 'SELECT slots_erased FROM pg_flashcache_scrub(true)'), 64, 'device process: not ended by signals that are meant for others');
	kill 'KILL', $device;
	my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	like($stderr, qr/ERROR:  the flash cache cannot be erased while it is off: $reason/, 'device process killed: off');
	fc_failpoint($node, 'probe_due', 'off');
	fc_wait_active($node);
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is off: $reason"], 'device process killed: one warning, back by itself');
	is($node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache'), $writer, 'device process killed: nothing else was');
	isnt(fc_device_process($node), $device, 'device process killed: there is another one');

	fc_is_waited_for($node, 'locked for a moment', 'store_claim', sub {
		open(my $lock, '+<', $file) or die "$file: $!";
		ok(flock($lock, LOCK_EX | LOCK_NB), 'locked for a moment: disabled, the file is free');
		return $lock;
	}, -s $node->logfile);

	# A file with holes, and no space for them: all is as it was. Then there is space.
	set('pg_flashcache.enabled = off');
	fc_wait_state($node, 'disabled');
	truncate $file, 300_000 or die $!;
	truncate $file, 64 * 8192 + 65536 or die $!;
	my $content = slurp_file($file);
	my $blocks  = (stat $file)[12];
	cmp_ok($blocks * 512, '<', -s $file, 'holes: there are some');
	fc_failpoint($node, 'store_open', 'nospace');
	fc_failpoint($node, 'probe_due', 'error');
	set('pg_flashcache.enabled = on');
	$reason = qr/could not reserve \d+ kB for "\Q$file\E": No space left on device/;
	ok($node->poll_query_until('postgres', q{SELECT state = 'off' AND reason LIKE 'could not reserve % kB for %' FROM pg_stat_flashcache}), 'holes: no space');
	like(fc_view($node), qr/^off\|$reason\|/, 'holes: it says so');
	is(slurp_file($file) eq $content, 1, 'holes: the content has stayed');
	# What was reserved and never written may go as well.
	cmp_ok((stat $file)[12], '<=', $blocks, 'holes: what was taken is given back');
	fc_failpoint($node, 'store_open', 'off');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'holes: space, enabled');
	@stat = stat $file;
	ok($stat[12] * 512 >= $stat[7], 'holes: all blocks are there');

	# A limit of file sizes: an error, not a signal.
	$device = fc_device_process($node);
	set('pg_flashcache.enabled = off');
	fc_wait_state($node, 'disabled');
	unlink $file or die $!;
	system_or_bail('prlimit', "--pid=$device", '--fsize=300000:unlimited');
	set('pg_flashcache.enabled = on');
	ok($node->poll_query_until('postgres', qq{SELECT state = 'off' AND reason = 'could not reserve 576 kB for "$file": File too large' FROM pg_stat_flashcache}), 'file too large: off');
	is(-s $file, 0, 'file too large: nothing was taken');
	system_or_bail('prlimit', "--pid=$device", '--fsize=unlimited:unlimited');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'file too large: enabled without the limit');
	is(fc_device_process($node), $device, 'file too large: by the same process');
	fc_failpoint($node, 'probe_due', 'off');

	# A second server on the same file, which goes on when the first one is gone.
	my $second = fc_odd_node('second', conf => "pg_flashcache.file = '$file'\n");
	$reason = qq{"$file" is in use by another server};
	$second->wait_for_log(qr/WARNING: .* is off: /);
	is_deeply([ fc_warnings($second) ], ["pg_flashcache is off: $reason"], 'second server: one warning');
	is(fc_view($second), "off|$reason|interception", 'second server: off');
	is(fc_view($node), 'active||interception', 'second server: the first one does not mind');
	$node->stop;
	is($second->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'second server: enabled after the first one has stopped');
	$second->stop;
}

fc_is_refused(
	$node,
	'inside the data directory',
	"$data/flash", qq{"$data/flash" lies inside the data directory},
	'Choose a path on local flash outside the data directory, and restart the server.');
ok(!-e "$data/flash", 'inside the data directory: nothing was made there');

{
	my $link = "$dir/link_to_data";

	symlink $data, $link or die $!;
	fc_is_refused(
	$node,
		'inside the data directory by a link',
		"$link/base/flash", qq{"$link/base/flash" lies inside the data directory},
		'Choose a path on local flash outside the data directory, and restart the server.');
}

{
	my $tablespace = "$dir/tablespace";

	mkdir $tablespace or die $!;
	fc_start_with($node, "$dir/made");
	$node->safe_psql('postgres', "CREATE TABLESPACE ts LOCATION '$tablespace'");
	$node->stop;
	fc_is_refused(
	$node,
		'inside a tablespace',
		"$tablespace/flash", qq{"$tablespace/flash" lies inside a tablespace},
		'Choose a path that is no tablespace, and restart the server.',
		sub { $node->safe_psql('postgres', 'DROP TABLESPACE ts') });
}

symlink "$dir/made", "$dir/symlink" or die $!;
fc_is_refused(
	$node,
	'symbolic link',
	"$dir/symlink", qq{"$dir/symlink" is a symbolic link},
	'Symbolic links are refused: name the file or the device itself, and restart the server.',
	sub { unlink "$dir/symlink" or die $! });

link "$dir/made", "$dir/hardlink" or die $!;
fc_is_refused(
	$node,
	'hard link',
	"$dir/hardlink", qq{"$dir/hardlink" has other names (hard links)},
	q{If this is the cache's file, remove its other names (find -samefile) and call pg_flashcache_enable(); else choose another path and restart the server.},
	sub { unlink "$dir/made" or die $! });

chmod 0640, "$dir/hardlink" or die $!;
fc_is_refused(
	$node,
	'wrong mode',
	"$dir/hardlink", qq{"$dir/hardlink" is accessible to other users},
	q{If this is the cache's file, use chmod 600 and call pg_flashcache_enable(); else choose another path and restart the server.},
	sub { chmod 0600, "$dir/hardlink" or die $! });

my $in_use = 'If nobody needs what is in it, move it elsewhere and call pg_flashcache_enable(); else choose another path and restart the server.';
write_file("$dir/foreign", 'somebody else' x 1000);
chmod 0600, "$dir/foreign";
fc_is_refused(
	$node,
	'foreign content',
	"$dir/foreign", qq{"$dir/foreign" holds something that is not a flash cache},
	$in_use,
	sub { rename "$dir/foreign", "$dir/elsewhere" or die $! });

write_file("$dir/short", 'note');
chmod 0600, "$dir/short";
fc_is_refused(
	$node,
	'a few bytes of somebody',
	"$dir/short", qq{"$dir/short" holds something that is not a flash cache},
	$in_use);
is(slurp_file("$dir/short"), 'note', 'a few bytes of somebody: left alone');

# Btrfs leaves its first 64 kB alone.
my $late = "\0" x 65600 . '_BHRfS_M' . "\0" x 65536;
write_file("$dir/late", $late);
chmod 0600, "$dir/late";
fc_is_refused(
	$node,
	'content that begins late',
	"$dir/late", qq{"$dir/late" holds something that is not a flash cache},
	$in_use);
ok(slurp_file("$dir/late") eq $late, 'content that begins late: left alone');

# It begins with zeros for longer than is read of a device, and has content further on.
my $later = "\0" x (2 * 1024 * 1024) . 'somebody else' x 100_000;
write_file("$dir/later", $later);
chmod 0600, "$dir/later";
fc_is_refused(
	$node,
	'content that begins much later',
	"$dir/later", qq{"$dir/later" holds something that is not a flash cache},
	$in_use);
ok(slurp_file("$dir/later") eq $later, 'content that begins much later: left alone');

fc_is_refused(
	$node,
	'missing folder',
	"$dir/missing/flash", qq{folder of "$dir/missing/flash" cannot be found: No such file or directory},
	q{Check that the flash device is mounted. If it is, create the folder there, owned by the server's user.},
	sub { mkdir "$dir/missing" or die $! });

fc_is_refused(
	$node,
	'no regular file',
	'/dev/null', '"/dev/null" is neither a regular file nor a block device',
	'Name a regular file or a block device, and restart the server.');

# Nothing is made where a device should be, and nobody is told to remove what is not the cache's.
my $mistyped = '/dev/pg_flashcache_no_such_device';
fc_is_refused(
	$node,
	'a device that is not there',
	$mistyped, qq{block device "$mistyped" does not exist},
	'Check that the device is attached, and its name (lsblk).');
fc_is_refused(
	$node,
	'a folder of devices that is not there',
	"$mistyped/flash", qq{folder of "$mistyped/flash" cannot be found: No such file or directory},
	'Check that the device is attached, and its name (lsblk).');
ok(!-e $mistyped, 'a device that is not there: no file was made in its place');
SKIP:
{
	skip 'no file system in memory', 1 if system('mountpoint', '-q', '/dev/shm') != 0;
	my $memory = "/dev/shm/pg_flashcache_test_$$";
	fc_start_with($node, $memory);
	fc_wait_active($node);
	pass('a file in /dev/shm: taken');
	$node->stop;
	unlink $memory or die "$memory: $!";
}

mkdir "$dir/readonly", 0500 or die $!;
SKIP:
{
	skip 'the superuser of the machine may write anywhere', 12 if $> == 0;
	fc_is_refused(
	$node,
		'a file of the system',
		'/etc/passwd', '"/etc/passwd" belongs to another user',
		q{If this is the cache's file, give it to the server's user (chown) and call pg_flashcache_enable(); else choose another path and restart the server.});
	fc_is_refused(
	$node,
		'folder without permission',
		"$dir/readonly/flash", qq{could not open "$dir/readonly/flash": Permission denied},
		q{Check that the flash device is mounted. The file and its folder must belong to the server's user.},
		sub { chmod 0700, "$dir/readonly" or die $! });
}

# The file system of the data directory: used with one warning, however often the file is opened; or refused.
{
	my $file = "$dir/beside";
	my $lines = sub { return scalar grep { /@{[FC_BESIDE]} the data directory/ } split /\n/, slurp_file($node->logfile, $_[0]) };
	my $set = sub {
		my ($line, $state) = @_;
		$node->append_conf('postgresql.conf', $line);
		$node->reload;
		fc_wait_state($node, $state) if $state;
	};
	my $offset = fc_start_with($node, $file);
	fc_wait_active($node);
	$node->wait_for_log(FC_BESIDE, $offset);
	like(slurp_file($node->logfile, $offset),
		qr/DETAIL:  "\Q$file\E" takes space and bandwidth from it\..*\n.*HINT:  Mount the flash device\. With pg_flashcache\.require_mount/,
		'file beside the data directory: a warning with a hint');
	$set->('pg_flashcache.enabled = off', 'disabled');
	$set->('pg_flashcache.enabled = on', 'active');
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $writer;
	$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die;
	$set->('pg_flashcache.enabled = off', 'disabled');
	$set->('pg_flashcache.enabled = on', 'active');
	is($lines->($offset), 1, 'file beside the data directory: one warning');
	$node->stop;
	unlink $file or die $!;

	$node->append_conf('postgresql.conf', 'pg_flashcache.require_mount = on');
	$offset = -s $node->logfile;
	fc_is_refused(
		$node,
		'file beside the data directory, require_mount',
		$file, qq{"$file" is on the same file system as the data directory},
		'Mount the flash device, or set pg_flashcache.require_mount to off.',
		sub {
			ok(!-e $file, 'file beside the data directory, require_mount: nothing was made');
			$set->('pg_flashcache.require_mount = off');
			$node->poll_query_until('postgres', q{SELECT NOT current_setting('pg_flashcache.require_mount')::bool}) or die;
			# the writer reads its settings when it is asked
			fc_wait_active($node);
		});
	is($lines->($offset), 1, 'file beside the data directory: the warning when it is used');
}

# A relative path never becomes a setting, and none that would have to be cut off.
{
	fc_start_with($node, "$dir/hardlink");
	my ($rc, undef, $stderr) = $node->psql('postgres', q{ALTER SYSTEM SET pg_flashcache.file = 'flash'});
	is($rc, 3, 'relative path: refused');
	like($stderr, qr/DETAIL:  The path must be absolute\.\nHINT:  Name a file on local flash/, 'relative path: with a hint');
	(undef, undef, $stderr) = $node->psql('postgres', "ALTER SYSTEM SET pg_flashcache.file = '" . '/long' x 205 . "'");
	like($stderr, qr/DETAIL:  The path must be shorter than 1024 bytes\./, 'path too long: refused');
	$node->stop;
}

# A bad value in the file must not become the default in silence: no size, or no limit.
foreach my $bad ([ 'size', 'large' ], [ 'size', '16kB' ], [ 'size', '1kB' ], [ 'write_limit', '20 flies' ], [ 'enabled', 'perhaps' ], [ 'file', 'flash' ])
{
	my ($name, $value) = @$bad;
	my $reason = qq{the value of pg_flashcache.$name is refused: "$value"};
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', "pg_flashcache.$name = '$value'");
	$node->start;
	is(fc_view($node), "disabled|$reason|", "$name = '$value': the view says so");
	is((fc_warnings($node, $offset))[-1], "pg_flashcache is disabled: $reason", "$name = '$value': and the log");
	my $least = $name eq 'size' && $value ne 'large' ? 'The smallest cache is 512 kB; 0 disables the cache. ' : '';
	like(slurp_file($node->logfile, $offset), qr/HINT:  ${least}Correct it and restart the server\./, "$name = '$value': with a hint");
	$node->stop;
	my $conf = slurp_file($node->data_dir . '/postgresql.conf') =~ s/^pg_flashcache\.$name = '\Q$value\E'\n//mr;
	unlink $node->data_dir . '/postgresql.conf';
	$node->append_conf('postgresql.conf', $conf);
}

# Several bad values are all named, in one warning of ours.
{
	my $good   = slurp_file($node->data_dir . '/postgresql.conf');
	my $reason = 'the values of 3 settings are refused: pg_flashcache.size "16kB", pg_flashcache.enabled "perhaps", '
	  . 'pg_flashcache.write_limit "20 flies"';
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf',
		"pg_flashcache.size = '16kB'\npg_flashcache.write_limit = '20 flies'\npg_flashcache.enabled = 'perhaps'");
	$node->start;
	is(fc_view($node), "disabled|$reason|", 'several bad values: the view names all of them');
	is_deeply([ grep { /^pg_flashcache is/ } fc_warnings($node, $offset) ], ["pg_flashcache is disabled: $reason"],
		'several bad values: one warning');
	like(slurp_file($node->logfile, $offset), qr/HINT:  The smallest cache is 512 kB; 0 disables the cache\. Correct them and restart the server\./, 'several bad values: the hint is of all');
	$node->stop;
	unlink $node->data_dir . '/postgresql.conf';
	$node->append_conf('postgresql.conf', $good);
}

# More memory than there is: the server starts, without the cache.
{
	my ($total) = slurp_file('/proc/meminfo') =~ /^MemTotal:\s+(\d+) kB/ or die 'no MemTotal';
	# 40 bytes for 8 kB are one in 200: so much flash needs 1.5 times the memory of the machine, or all that the setting allows.
	my $gb     = int($total * 300 / 1024 / 1024) < 16383 ? int($total * 300 / 1024 / 1024) : 16383;
	my $offset = fc_start_with($node, "$dir/hardlink", "${gb}GB");
	my $view   = fc_view($node);

	like($view, qr/^disabled\|a pg_flashcache\.size of $gb GB needs \d+ [GM]B of shared memory, and there is room for \d+ [GM]B\|$/,
		'more than the memory: the view says so');
	my ($reason) = $view =~ /\|(.*)\|/;
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is disabled: $reason"], 'more than the memory: one warning');
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/HINT:  Set pg_flashcache\.size to at most \d+ GB and restart/, 'more than the memory: enable says what would fit');
	is($node->safe_psql('postgres', 'SELECT memory_bytes, slots FROM pg_stat_flashcache'), '0|0', 'more than the memory: takes none');
	$node->stop;

	# All pages that the setting can hold: nothing overflows.
	fc_start_with($node, "$dir/hardlink", '2147483647');
	like(fc_view($node), qr/^disabled\|a pg_flashcache\.size of 16383 GB needs \d\d GB/, 'largest size: counted right');
	$node->stop;

	# Huge pages, of which there are none; or none for a cache.
	my ($free) = slurp_file('/proc/meminfo') =~ /^HugePages_Free:\s+(\d+)/;
  SKIP:
	{
		skip 'there are huge pages here', 2 if $free;
		# The server itself takes them or leaves them; it must get as far as saying so.
		$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', "'512kB'");
		$node->append_conf('postgresql.conf', 'huge_pages = on');
		$offset = -s $node->logfile;
		ok(!$node->start(fail_ok => 1), 'huge pages: there are none');
		like(slurp_file($node->logfile, $offset), qr/WARNING:  pg_flashcache is disabled: the kernel does not map \d+ MB of shared memory in huge pages/,
			'huge pages: the cache says so first');
		$node->append_conf('postgresql.conf', 'huge_pages = try');
	}
}

# What the server needs for itself counts as well: here it may have the addresses for itself, or for the cache, not for both.
{
	$node->append_conf('postgresql.conf', 'wal_buffers = 128MB');
	fc_start_with($node, "$dir/hardlink", '0');
	my $pid = (split /\n/, slurp_file("$data/postmaster.pid"))[0];
	my ($peak) = slurp_file("/proc/$pid/status") =~ /^VmPeak:\s+(\d+) kB/m or die 'no VmPeak';
	$node->stop;

	# 100 GB of cache take 500 MB
	my $limit = $peak + (500 - 70) * 1024;
	$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', "'100GB'");
	my $offset = -s $node->logfile;
	system_or_bail('prlimit', '--as=' . $limit * 1024, 'pg_ctl', '--wait', '--silent', '--pgdata', $data, '--log', $node->logfile, 'start');
	$node->_update_pid(1);
	my $view = fc_view($node);
	like($view, qr/^disabled\|the kernel does not map \d{3} MB of shared memory for the server and a pg_flashcache\.size of 100 GB: Cannot allocate memory\|$/,
		'limit of addresses: the server runs, without the cache');
	my ($reason) = $view =~ /\|(.*)\|/;
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is disabled: $reason"], 'limit of addresses: one warning');
	ok(fc_works($node), 'limit of addresses: the server works');
	$node->stop;

	# Who asks how many huge pages to make has not made them yet.
	my $number = sub {
		my (@options) = @_;
		my ($pages) = run_command([ 'postgres', '-D', $data, '-C', 'shared_memory_size_in_huge_pages', @options ]);
		return $pages;
	};
	my $with = $number->('-c', 'huge_pages=off');
	cmp_ok($with, '>', $number->('-c', 'huge_pages=off', '-c', 'pg_flashcache.size=0'), 'huge pages to be made: those of the cache are counted');
  SKIP:
	{
		skip 'there are huge pages here', 1 if slurp_file('/proc/meminfo') =~ /^HugePages_Total:\s+[1-9]/m;
		is($number->('-c', 'huge_pages=on'), $with, 'huge pages to be made: also where there are none yet');
	}
	my $conf = slurp_file("$data/postgresql.conf") =~ s/^wal_buffers = .*\n//mr;
	unlink "$data/postgresql.conf";
	$node->append_conf('postgresql.conf', $conf);
}

# Size 0 is a choice and logs no warning; a size without a file is a mistake.
{
	my $offset = fc_start_with($node, "$dir/hardlink", '0');
	is(fc_view($node), 'disabled|pg_flashcache.size is 0|', 'size 0: disabled');
	is_deeply([ fc_warnings($node, $offset) ], [], 'size 0: no warning');
	ok(fc_works($node), 'size 0: the server works');
	$node->stop;

	$offset = fc_start_with($node, '');
	is(fc_view($node), 'disabled|pg_flashcache.file is not set|', 'no file: disabled');
	is_deeply([ fc_warnings($node, $offset) ], ['pg_flashcache is disabled: pg_flashcache.file is not set'], 'no file: one warning');
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/is disabled: pg_flashcache.file is not set\nHINT:  Set pg_flashcache.file and pg_flashcache.size and restart/,
		'no file: enable says what to do');
	$node->stop;
}

done_testing();

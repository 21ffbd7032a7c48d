# Whoever may change a folder on the way to the file, or what lies in it, must not lead the server astray: folders that
# others may write to, links, things that are no files, other names for the database's own folders, files exchanged while
# the server runs. What takes root to set up is in 105_places.pl.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use File::Copy;
use FlashCache;
use FlashCacheServer;
use IO::Socket::UNIX;
use POSIX qw(mkfifo);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'root may write everywhere, and is never somebody else' if $> == 0;

my $node = fc_new_node('main', start => 0);
my $dir  = realpath($node->basedir) . '/place';
mkdir $dir or die "$dir: $!";
chmod 0700, $dir;

sub folder
{
	my ($path, $mode) = @_;
	mkdir $path or die "$path: $!";
	chmod $mode, $path or die "$path: $!";
	return $path;
}

# Starts with the file; is it taken? Ends with the server stopped.
sub is_taken
{
	my ($what, $file) = @_;
	fc_start_with($node, $file);
	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS pg_flashcache');
	fc_wait_active($node);
	pass("$what: taken");
	$node->stop;
	return;
}

# ---- folders that others may write to ----

my $write_hint = 'Take the right to write from the others (chmod go-w) and call pg_flashcache_enable(), or choose another folder and restart the server.';

folder("$dir/open", 0777);
fc_is_refused($node, 'folder open to all', "$dir/open/flash", qq{other users may write to folder "$dir/open"}, $write_hint,
	sub { chmod 01777, "$dir/open" or die $! });
is(sprintf('%04o', (stat "$dir/open/flash")[2] & 07777), '0600', 'sticky folder open to all: the file is ours alone');

folder("$dir/above", 0777);
folder("$dir/above/inner", 0700);
fc_is_refused($node, 'folder above it open to all', "$dir/above/inner/flash", qq{other users may write to folder "$dir/above"},
	$write_hint, sub { chmod 0755, "$dir/above" or die $! });

# Whoever is in the server's group is as trusted as the group is.
folder("$dir/group", 0770);
is_taken('folder open to the own group', "$dir/group/flash");

# ---- links on the way ----

symlink "$dir/open", "$dir/link" or die $!;
symlink 'above', "$dir/relative" or die $!;
is_taken('by a link of our own', "$dir/link/flash");
is_taken('by a relative one', "$dir/relative/inner/flash");
is_taken('by dots', "$dir/./above//inner/../../group/flash");
symlink "$dir/loop2", "$dir/loop1" or die $!;
symlink "$dir/loop1", "$dir/loop2" or die $!;
fc_is_refused($node, 'links in a circle', "$dir/loop1/flash",
	qq{folder of "$dir/loop1/flash" cannot be found: Too many levels of symbolic links},
	q{Check that the flash device is mounted. If it is, create the folder there, owned by the server's user.});
chmod 0777, "$dir/above" or die $!;
fc_is_refused($node, 'a link into a folder open to all', "$dir/relative/inner/flash",
	qq{other users may write to folder "$dir/above"}, $write_hint);
chmod 0755, "$dir/above" or die $!;

symlink "$dir/nowhere", "$dir/dangling" or die $!;
fc_is_refused($node, 'the file is a link that leads nowhere', "$dir/dangling", qq{"$dir/dangling" is a symbolic link},
	'Symbolic links are refused: name the file or the device itself, and restart the server.');
ok(!-e "$dir/nowhere", 'the file is a link that leads nowhere: nothing was made there');

# ---- no files ----

my $no_file = 'Name a regular file or a block device, and restart the server.';
mkfifo("$dir/fifo", 0600) or die $!;
my $socket = IO::Socket::UNIX->new(Type => SOCK_STREAM, Local => "$dir/socket", Listen => 1) or die "socket: $!";
folder("$dir/folder", 0700);
foreach my $what (qw(fifo socket))
{
	fc_is_refused($node, $what, "$dir/$what", qq{"$dir/$what" is neither a regular file nor a block device}, $no_file);
}
fc_is_refused($node, 'folder', "$dir/folder", qq{"$dir/folder" is a folder}, $no_file);
fc_is_refused($node, 'folder with a slash', "$dir/folder/", qq{"$dir/folder/" is a folder}, $no_file);
fc_is_refused($node, 'a file as a folder', "$dir/open/flash/flash", qq{folder of "$dir/open/flash/flash" cannot be found: Not a directory},
	q{Check that the flash device is mounted. If it is, create the folder there, owned by the server's user.});
{
	# The message is cut at 1,279 bytes.
	my $long = "$dir/" . 'x/' x 600 . 'flash';
	my $offset = fc_start_with($node, $long);
	my ($warning) = grep { /is disabled/ } fc_warnings($node, $offset);
	is($warning, 'pg_flashcache is disabled: ' . substr(qq{the value of pg_flashcache.file is refused: "$long"}, 0, 1279),
		'a path that is too long: refused');
	$node->stop;
}

# ---- the write-ahead log lies elsewhere ----

{
	my $elsewhere = PostgreSQL::Test::Cluster->new('elsewhere');
	my $wal       = realpath($elsewhere->basedir) . '/wal';

	$elsewhere->init(extra => [ '--waldir', $wal ]);
	$elsewhere->append_conf('postgresql.conf', fc_conf($elsewhere));
	fc_is_refused($elsewhere, 'beside the write-ahead log', "$wal/flash",
		qq{"$wal/flash" lies inside the folder of the write-ahead log},
		'Choose a path on local flash outside the data directory, and restart the server.');
	ok(!-e "$wal/flash", 'beside the write-ahead log: nothing was made there');
}

# ---- a symbolic link in the data directory leads there ----

folder("$dir/linked", 0700);
symlink "$dir/linked", $node->data_dir . '/linked' or die $!;
fc_is_refused($node, 'where a link in the data directory leads', "$dir/linked/flash",
	qq{"$dir/linked/flash" lies inside the data directory}, 'Choose a path that no symbolic link in the data directory leads to, and restart the server.',
	sub { unlink $node->data_dir . '/linked' or die $! });

# ---- the mode of a new file, whatever the umask ----

foreach my $mask (0, 0077, 0277)
{
	my $name = sprintf 'mask%04o', $mask;
	my $before = umask $mask;
	fc_start_with($node, "$dir/$name");
	umask $before;
	fc_wait_active($node);
	is(sprintf('%04o', (stat "$dir/$name")[2] & 07777), '0600', sprintf 'umask %04o: mode 0600', $mask);
	$node->stop;
}
{
	my $group = PostgreSQL::Test::Cluster->new('group');
	$group->init(extra => ['--allow-group-access']);
	$group->append_conf('postgresql.conf', fc_conf($group) . "\npg_flashcache.persistence = on\n");
	$group->start;
	fc_create_sql($group);
	fc_wait_active($group);
	is(sprintf('%04o', (stat fc_flash_file($group))[2] & 07777), '0600', 'data directory readable to the group: mode 0600 all the same');
	fc_stamp($group);
	$group->stop;
	# A backup by the group reads these as well.
	my @files = glob $group->data_dir . '/pg_flashcache.*';
	cmp_ok(@files, '>=', 2, 'with persistence there are files in the data directory');
	is_deeply([ grep { ((stat $_)[2] & 07777) != 0640 } @files ], [], 'they are readable to the group, as all that a backup reads');
}

# ---- programs that the server starts ----

# Where the open files of a process lead.
sub open_files
{
	my ($pid) = @_;
	return map { readlink $_ // () } glob "/proc/$pid/fd/*";
}

{
	my $file = "$dir/descriptor";
	$node->append_conf('postgresql.conf', "autovacuum = on\nautovacuum_naptime = '1d'");
	fc_start_with($node, $file, '8MB');
	fc_create_sql($node);
	fc_wait_active($node);
	$node->safe_psql('postgres', q{
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT repeat('x', 5000) FROM generate_series(1, 40) n;
	});
	fc_to_flash($node, 't');
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_safe('SELECT count(*) FROM t');
	is((grep { $_ eq $file } open_files($pid)), 1, 'the session has the file open');
	$session->query_safe("COPY (SELECT 1) TO PROGRAM 'ls -l /proc/self/fd > $dir/seen; exec true'");
	my $seen = slurp_file("$dir/seen");
	like($seen, qr{-> /}, 'a program that it starts has files open');
	unlike($seen, qr{\Q$file\E|io_uring}, 'but not that one, nor a ring');

	# Launchers never end and hardly read: they would keep the file open for ever. A reload has them read a catalog.
	$node->safe_psql('postgres', q{CREATE EXTENSION IF NOT EXISTS pg_buffercache});
	$node->safe_psql('postgres', q{
		CREATE SUBSCRIPTION s CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false, slot_name = NONE);
		CREATE UNLOGGED TABLE push (v text);
		ALTER TABLE push ALTER v SET STORAGE PLAIN;
		INSERT INTO push SELECT repeat('x', 5000) FROM generate_series(1, 2 * (SELECT setting::int FROM pg_settings WHERE name = 'shared_buffers'));
		CHECKPOINT;
	});
	foreach ([ 'autovacuum launcher', 'pg_database' ], [ 'logical replication launcher', 'pg_subscription' ])
	{
		my ($launcher, $catalog) = @$_;
		my $its   = $session->query_safe("SELECT pid FROM pg_stat_activity WHERE backend_type = '$launcher'");
		my $where = "reldatabase = 0 AND relfilenode = pg_relation_filenode('$catalog')";
		my $pages = sub { return $session->query_safe("SELECT count(*) FROM $_[0] WHERE $where") };
		for (1 .. 100)
		{
			$session->query_safe(q{SELECT pg_prewarm('push')});
			last if $pages->('pg_flashcache_pages') > 0 && $pages->('pg_buffercache') == 0;
			$session->query_safe("SELECT pg_prewarm('$catalog')");
			$session->query_safe('SELECT pg_flashcache_enable()');
		}
		kill 'HUP', $its;
		for (1 .. 600)
		{
			last if $pages->('pg_buffercache') > 0;
			select undef, undef, undef, 0.1;
		}
		cmp_ok($pages->('pg_buffercache'), '>', 0, "$launcher: it has read a page that is on flash");
		cmp_ok($pages->('pg_flashcache_pages'), '>', 0, "$launcher: which is there");
		is((grep { $_ eq $file } open_files($its)), 0, "$launcher: but does not have the file open");
	}
	$node->safe_psql('postgres', 'DROP SUBSCRIPTION s');
	$node->append_conf('postgresql.conf', 'autovacuum = off');
	$session->quit;
	$node->stop;
}

# ---- exchanged while the server runs ----

{
	my $file = "$dir/exchanged";
	fc_start_with($node, $file, '8MB');
	fc_create_sql($node);
	fc_wait_active($node);
	fc_to_flash($node, 't');

	# A session that has the first file only, as it was open when the server started.
	my $session = $node->background_psql('postgres');
	$session->query_safe($_)
	  foreach "PREPARE s AS SELECT count(*), min(length(v)), max(length(v)) FROM t", 'EXECUTE s', 'SELECT hits FROM pg_stat_flashcache';
	# The server makes a second one, and that is exchanged for a third, a copy with a good header.
	rename $file, "$file.first" or die $!;
	fc_failpoint($node, 'store_write', 'error');
	$node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	fc_failpoint($node, 'store_write', 'off');
	fc_wait_state($node, 'off');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'exchanged: the server makes a new file');
	isnt((stat $file)[1], (stat "$file.first")[1], 'exchanged: another one');
	fc_to_flash($node, 't');
	copy($file, "$file.third") or die $!;
	chmod 0600, "$file.third" or die $!;
	# New sessions have no better descriptor than this one: whoever comes first fails first.
	my %before = fc_stat($node, qw(read_errors checksum_failures));
	my $offset = -s $node->logfile;
	rename $file, "$file.second" or die $!;
	rename "$file.third", $file or die $!;
	is($session->query_safe('EXECUTE s'), '40|5000|5000', 'exchanged: the query is answered');
	my %after = fc_stat($node, qw(read_errors checksum_failures));
	is($after{read_errors} - $before{read_errors}, 1, 'exchanged: what lies there now is not read');
	is($after{checksum_failures}, $before{checksum_failures}, 'exchanged: nor believed until a checksum shows it');
	like(fc_view($node), qr/^off\|"\Q$file\E" has been replaced by another file/, 'exchanged: the cache is off');
	$node->wait_for_log(qr/WARNING: .* is off/, $offset);
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'exchanged: the third one can be had by command');
	is($session->query_safe('EXECUTE s'), '40|5000|5000', 'exchanged: and works');
	$session->quit;
	fc_wait_active($node);
	$node->stop;
}

# ---- exchanged after it was looked at ----

{
	my $file = "$dir/looked";
	fc_start_with($node, $file, '8MB');
	fc_create_sql($node);
	fc_wait_active($node);
	copy($file, "$file.other") or die $!;
	chmod 0644, "$file.other" or die $!;
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	fc_failpoint($node, 'store_looked', 'pause');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_failpoint_wait($node, 'store_looked');
	rename "$file.other", $file or die $!;
	fc_failpoint($node, 'store_looked', 'off');
	fc_wait_state($node, 'off');
	like(fc_view($node), qr/^off\|"\Q$file\E" is accessible to other users/, 'exchanged after the look: refused for what was opened');
	$node->stop;
}

# ---- what the name of the file tells ----

{
	fc_start_with($node, "$dir/group/flash");
	$node->safe_psql('postgres', 'CREATE ROLE fc_nobody LOGIN');
	my ($rc, $stdout, $stderr) = $node->psql('postgres', 'SET ROLE fc_nobody; SHOW pg_flashcache.file');
	is($rc, 3, 'the path: not for everybody');
	($rc, $stdout) = $node->psql('postgres',
		q{SET ROLE fc_nobody; SELECT count(*) FROM pg_settings WHERE setting LIKE '%/group/flash' OR reset_val LIKE '%/group/flash'});
	is($stdout, 0, 'the path: not in pg_settings either');
	$node->safe_psql('postgres', 'GRANT pg_read_all_settings TO fc_nobody');
	is($node->safe_psql('postgres', 'SET ROLE fc_nobody; SHOW pg_flashcache.file'), "$dir/group/flash",
		'the path: for who may read all settings');
	$node->stop;
}

# ---- a FIFO in the place of a file whose reads need no time limit ----

SKIP:
{
	skip 'no file system in memory', 3 if system('mountpoint', '-q', '/dev/shm') != 0;
	my $memory = "/dev/shm/pg_flashcache_test_$$";
	mkdir $memory, 0700 or die "$memory: $!";
	fc_start_with($node, "$memory/flash", '8MB');
	fc_wait_active($node);
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT repeat('x', 5000) FROM generate_series(1, 40) n;
	});
	fc_to_flash($node, 't');
	rename "$memory/flash", "$memory/away" or die $!;
	mkfifo("$memory/flash", 0600) or die $!;
	my ($answer, $late);
	$node->psql('postgres', 'SELECT count(v) FROM t', stdout => \$answer, timeout => 60, timed_out => \$late);
	if ($late)
	{
		# whoever opened it waits for one who writes
		open my $writer, '>', "$memory/flash" or die $!;
		close $writer;
	}
	is($late ? 'no answer in 60 s' : $answer, 40, 'a FIFO in its place: the query is answered');
	unlike(fc_view($node), qr/^active/, 'a FIFO in its place: no longer active');
	unlink "$memory/flash" or die $!;
	rename "$memory/away", "$memory/flash" or die $!;
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'the file is back: enabled');
	$node->stop;
	unlink "$memory/flash" or die $!;
	rmdir $memory or die $!;
}

done_testing();

# The list of devices can't be written to the data directory: who changes a device is told, and it is written later. It is not
# written for nothing.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant MB => 1 << 20;

my $node = fc_new_node('main', size => '2MB', conf => "pg_flashcache.max_size = '32MB'\nautovacuum = off\n");
my ($second, $third) = map { $node->basedir . "/$_" } qw(second third);
my $list = $node->data_dir . '/pg_flashcache.devices';

# In the place of the temporary file is a folder, in which is something.
sub obstruct
{
	mkdir "$list.tmp" or die $!;
	append_to_file("$list.tmp/file", '');
	return;
}

sub clear
{
	unlink "$list.tmp/file" or die $!;
	rmdir "$list.tmp" or die $!;
	return;
}

# What the session hears of such a change.
sub hears
{
	my ($sql) = @_;
	my ($rc, undef, $stderr) = $node->psql('postgres', "SELECT pg_flashcache_$sql");
	is($rc, 0, "$sql: made");
	return $stderr;
}

my $warning = qr{^\S*\s*WARNING:  the change is made, but would not survive a restart of the server: could not write "pg_flashcache\.devices" to the data directory: Is a directory
DETAIL:  After a restart the devices of the flash cache are those that the file named before\.
HINT:  See to it that the server can write that file and "pg_flashcache\.devices\.tmp" there\. It is written again every 10 s, and by the next change of a device; the server's log says when that has worked\. If the server ends before, repeat the change\.$};

is(hears("add_device('$second', 3 * ${\MB})"), '', 'no warning where the list can be written');
my $before = slurp_file($list);
my $inode  = (stat $list)[1];
my (undef, undef, $failed) = $node->psql('postgres', "SELECT pg_flashcache_add_device('/nowhere/third', 3 * ${\MB})");
like($failed, qr{could not add the device: folder of "/nowhere/third" cannot be found}, 'one that cannot be opened is not added');
is((stat $list)[1], $inode, 'and the list is not written');
my $logged = -s $node->logfile;
obstruct();
like(hears("add_device('$third', 3 * ${\MB})"), $warning, 'one is added: a warning');
is(device($node, 3, 'state'), 'active', 'one is added: it is in use');
like(hears("resize_device('$second', 4 * ${\MB})"), $warning, 'made larger: a warning');
like(hears("resize_device('$second', 2 * ${\MB})"), $warning, 'made smaller: a warning');
is(device($node, 2, 'size'), 2 * MB, 'made smaller: it is');
like(hears("disable_device('$second')"), $warning, 'disabled: a warning');
like(hears("enable_device('$second')"), $warning, 'enabled: a warning');
like(hears("enable_device('$second')"), $warning, 'nothing is changed: a warning, since there are changes before it');
like(hears("remove_device('$second')"), $warning, 'removed: a warning');
is(devices($node, 'device'), "1\n3", 'removed: it is');
ok(slurp_file($list) eq $before, 'the list in the data directory is as it was');

# By the next change, also one that is refused.
clear();
my ($rc, undef, $stderr) = $node->psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})");
like($stderr, qr/could not add the device: "\Q$third\E" is a device of the cache already/, 'repeated: refused');
is(in_file("\Q$third\E", $list), 1, 'repeated: the list is written');
is(in_file("\Q$second\E", $list), 0, 'repeated: without what was removed');
like(slurp_file($node->logfile, $logged), qr/LOG:  pg_flashcache has written "pg_flashcache\.devices", which it could not write before/, 'the log says so');
is(hears("enable_device('$third')"), '', 'no warning any more');

# By itself.
obstruct();
like(hears("add_device('$second', 3 * ${\MB})"), $warning, 'added again: a warning');
$logged = -s $node->logfile;
clear();
$node->wait_for_log(qr/LOG:  pg_flashcache has written "pg_flashcache\.devices"/, $logged);
is(in_file("\Q$second\E", $list), 1, 'the list is written by itself');
$node->restart;
fc_wait_active($node);
wait_device_state($node, $_, 'active') foreach 2, 3;
is(devices($node, 'device'), "1\n2\n3", 'the devices are there after a restart');

# The last one is removed, and the file of the list with it; what can't be written is undone by a restart.
hears("remove_device('$third')");
obstruct();
like(hears("resize_device('$second', 4 * ${\MB})"), $warning, 'made larger before a restart: a warning');
$node->stop('immediate');
clear();
$node->start;
fc_wait_active($node);
wait_device_state($node, 2, 'active');
is(device($node, 2, 'size'), 3 * MB, 'and a restart undoes it');
is(hears("remove_device('$second')"), '', 'no warning where there is no list any more');
ok(!-e $list, 'no list');

# The list can't be removed, and the writer ends before that is tried again.
sub end_writer
{
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $writer;
	$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die 'no new writer';
	# it has looked at the list when it answers
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my ($rc, undef, $stderr) = $node->psql('postgres', "SELECT pg_flashcache_disable_device('/nowhere')");
		return if $stderr !~ /has just begun|does not run/;
		usleep(100_000);
	}
	die 'the new writer does not answer';
}

sub is_stuck
{
	is(hears("add_device('$second', 3 * ${\MB})"), '', 'the last one is added');
	rename $list, "$list.kept" or die $!;
	mkdir $list or die $!;
	append_to_file("$list/file", '');
	like(hears("remove_device('$second')"), qr/WARNING:  the change is made, but would not survive a restart of the server/, 'and removed: a warning');
	return;
}

sub is_free
{
	unlink "$list/file" or die $!;
	rmdir $list or die $!;
	rename "$list.kept", $list or die $!;
	return;
}

is_stuck();
$logged = -s $node->logfile;
end_writer();
is(devices($node, 'device'), '1', 'a new writer: it is no device');
like(slurp_file($node->logfile, $logged), qr/WARNING:  pg_flashcache could not write "pg_flashcache\.devices" to the data directory/, 'a new writer: tries as well, and warns');
is_free();
like((($node->psql('postgres', "SELECT pg_flashcache_remove_device('$second')"))[2]), qr/is not a device of the cache/, 'a new writer: repeated, it is refused');
ok(!-e $list, 'and the list is gone');

is_stuck();
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
$node->reload;
fc_wait_state($node, 'disabled');
is_free();
end_writer();
is(devices($node, 'device'), '1', 'a new writer of a cache that is disabled: it is no device');
ok(!-e $list, 'nor in a list');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
$node->reload;
fc_wait_active($node);
is(devices($node, 'device'), '1', 'nor when it is enabled');
$node->stop;

done_testing();

# The writer ends while it lets go of a device that hangs: what was to become of the device, or of the cache, is so all the
# same. And a cache that waits for a device that hangs can be disabled meanwhile, and begins with its first device.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant MB => 1 << 20;

# Whoever enables the cache waits for a device that hangs, however long that takes here.
$ENV{FC_ENABLE_PATIENCE_S} = 3600;
my $node = fc_new_node('main',
	size => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.io_timeout = '20s'\n");
my ($first, $second, $third) = (fc_flash_file($node), map { $node->basedir . "/$_" } qw(second third));
my $list = $node->data_dir . '/pg_flashcache.devices';

sub set
{
	my ($setting, $value) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.$setting = $value");
	$node->reload;
	return;
}

# The process that has the file open.
sub process_of
{
	my ($path) = @_;
	my %now = device_processes($node);
	my ($pid) = grep { grep { (readlink($_) // '') eq $path } glob "/proc/$_/fd/*" } sort keys %now;
	return $pid // die "no process has $path open";
}

sub is_open
{
	my ($path) = @_;
	return scalar grep { (readlink($_) // '') eq $path } glob '/proc/[0-9]*/fd/*';
}

sub end_writer
{
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $writer;
	$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die 'no new writer';
	return;
}

# Its process has been told to go on; the file may be locked until it has ended.
sub comes_back
{
	my ($sql, $what) = @_;
	ok($node->poll_query_until('postgres', $sql, ''), $what);
	return;
}

# ---- removed, disabled ----
add($node, $second, 2 * MB);
my $process = add($node, $third, 2 * MB);
kill 'STOP', $process or die 'no process';
my $asked = ask($node, "SELECT pg_flashcache_remove_device('$third')");
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_flashcache_device WHERE device = 3 AND state IN ('active', 'draining'))")
  or die 'it is not let go of';
end_writer();
kill 'CONT', $process;
like(answer($asked), qr/could not remove the device: /, 'the writer ends while it lets go of a device that was removed');
fc_writer_round($node);
is(devices($node, 'device, state'), "1|active\n2|active", 'it is no device');
is(in_file("\Q$third\E", $list), 0, 'nor in the list');
comes_back("SELECT pg_flashcache_add_device('$third', 2 * ${\MB})", 'it can be added again');
is(device($node, 3, 'state'), 'active', 'and is in use');

# What is added, and can not be used: the file goes that was made for it.
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$third')");
unlink $third or die $!;
my $control = fc_control($node);
fc_failpoint($control, 'store_write', 'delay:3000000', 3);
fc_failpoint($control, 'store_read', 'flip', 3);
fc_failpoint($control, 'store_close', 'delay:16000000', 3);
$asked = ask($node, "SELECT pg_flashcache_add_device('$third', 2 * ${\MB})");
wait_device_state($node, 3, 'starting');
$node->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_flashcache_device WHERE state = 'starting')") or die 'it is still tried';
end_writer();
fc_failpoint($control, $_, 'off') foreach 'store_write', 'store_read', 'store_close';
$control->quit;
like(answer($asked), qr/could not add the device: /, 'the writer ends while it lets go of a device that could not be added');
fc_writer_round($node);
is(devices($node, 'device, state'), "1|active\n2|active", 'it is no device either');
comes_back("SELECT pg_flashcache_add_device('$third', 2 * ${\MB})", 'and can be added now');

# The server ends meanwhile.
$process = process_of($third);
kill 'STOP', $process or die 'no process';
$asked = ask($node, "SELECT pg_flashcache_disable_device('$third')");
$node->poll_query_until('postgres', "SELECT reason LIKE 'it was disabled by%' FROM pg_stat_flashcache_device WHERE device = 3") or die 'it is not let go of';
$node->stop;
kill 'CONT', $process;
answer($asked);
$node->start;
fc_wait_active($node);
is(device($node, 3, 'state'), 'disabled', 'the server ends while a device is let go of that was disabled: it is');
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$third')");
wait_device_state($node, 2, 'active');

# ---- the cache is disabled ----
fill($node, 't', 300, 'mark', $first, $second);
$process = process_of($first);
kill 'STOP', $process or die 'no process';
set('enabled', 'off');
fc_wait_state($node, 'disabled');
end_writer();
kill 'CONT', $process;
comes_back(q{SELECT '' FROM pg_flashcache_scrub()}, 'the writer ends while it lets go of the devices of a cache that was disabled: it can be erased');
is($node->safe_psql('postgres', 'SELECT state, used FROM pg_stat_flashcache'), 'disabled|0', 'it has no pages');
is(in_file('mark', $_), 0, 'nothing is left in it') foreach $first, $second;

# It was erased, and that is said, though the writer ends while it lets go of the devices.
$control = fc_control($node);
fc_failpoint($control, 'store_close', 'delay:16000000', 2);
my $erased = $node->safe_psql('postgres', 'SELECT slots_erased + 512 FROM pg_stat_flashcache');
$asked = ask($node, 'SELECT slots_erased FROM pg_flashcache_scrub(true)');
$node->poll_query_until('postgres', "SELECT slots_erased = $erased FROM pg_stat_flashcache") or die 'it is not erased';
usleep(100_000) while is_open($first);
ok(is_open($second), 'the second device hangs while it is let go of');
end_writer();
fc_failpoint($control, 'store_close', 'off');
$control->quit;
is(answer($asked), "512\n", 'the writer ends while it lets go of devices that it has erased: they are');

my $offset = -s $node->logfile;
set('enabled', 'on');
fc_wait_active($node);
wait_device_state($node, 2, 'active');
unlike(slurp_file($node->logfile, $offset), qr/It has kept/, 'it begins empty');

# ---- a cache that waits ----
set('io_timeout', '0');
$control = fc_control($node);

# Its first device is not there, and the second one hangs.
sub begin_to_wait
{
	$process = process_of($second);
	set('enabled', 'off');
	fc_wait_state($node, 'disabled');
	rename $first, "$first.away" or die $!;
	mkdir $first or die $!;
	kill 'STOP', $process or die 'no process';
	set('enabled', 'on');
	$node->poll_query_until('postgres', "SELECT state = 'starting' AND reason LIKE '%$first%' FROM pg_stat_flashcache") or die 'it does not wait';
	is(device($node, 2, 'state'), 'starting', 'the first device is not there, and the second hangs');
	return;
}

sub is_back
{
	rmdir $first or die $!;
	rename "$first.away", $first or die $!;
	return;
}

sub goes_on
{
	my ($what) = @_;
	is(device($node, 2, 'state'), 'starting', "$what: the second still hangs");
	kill 'CONT', $process;
	wait_device_state($node, 2, 'active');
	# nobody waits for others any more, who would go on without the first one now
	fc_writer_round($node);
	is(device($node, 1, 'state'), 'active', "$what: the first is in use");
	return;
}

begin_to_wait();
is_back();
fc_wait_active($node);
goes_on('the first one is back, and is tried again');

fc_failpoint($control, 'probe_due', 'error');
begin_to_wait();
is_back();
is($node->safe_psql('postgres', "SET statement_timeout = '3min'; SELECT pg_flashcache_enable()"), 't', 'enabled by whoever asks');
goes_on('the first one is back, and the cache is enabled');

begin_to_wait();
$asked = ask($node, 'SELECT pg_flashcache_enable()');
set('enabled', 'off');
fc_wait_state($node, 'disabled');
like(answer($asked), qr/ERROR:  .*pg_flashcache.enabled is off/, 'the cache is disabled while it waits, and whoever waits for it is told');
kill 'CONT', $process;
is_back();
set('enabled', 'on');
fc_wait_active($node);
fc_failpoint($control, 'probe_due', 'off');
wait_device_state($node, 2, 'active');
$control->quit;
my %now = fc_stat($node, qw(state verify_failures checksum_failures));
is_deeply(\%now, { state => 'active', verify_failures => 0, checksum_failures => 0 }, 'no page was wrong');
$node->stop;

done_testing();

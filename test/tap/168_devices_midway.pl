# What is given up midway: a device that is being added leaves no file behind, and is not in the list; one that is being
# opened is the same when it is opened again.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant { MB => 1 << 20, HEADER => 65536 };

my $node = fc_new_node('main',
	size => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.io_timeout = '1min'\npg_flashcache.persistence = on\n");
my ($second, $third) = map { $node->basedir . "/$_" } qw(second third);
my $list = $node->data_dir . '/pg_flashcache.devices';
my $control;

# ---- added ----

# The third device is being added: its file has been made, and its process stands in the trial of it.
my $process;

sub begin_to_add
{
	my %known = device_processes($node);
	fc_failpoint($control, 'store_write', 'delay:16000000', 3);
	my $asked = ask($node, "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})");
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if -e $third && in_file('pg_flashcache', $third);
		usleep(100_000);
	}
	my %now = device_processes($node);
	($process) = grep { !$known{$_} } keys %now;
	kill 'STOP', $process or die 'no process';
	fc_failpoint($control, 'store_write', 'off');
	is(-s $third, HEADER + 3 * MB, 'a device is being added: it has a file');
	is(device($node, 3, 'state'), 'starting', 'and is not in use');
	return $asked;
}

sub is_gone
{
	my ($what) = @_;
	kill 'CONT', $process or die 'no process';
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if !-e $third;
		usleep(100_000);
	}
	ok(!-e $third, "$what: no file is left behind");
	is(devices($node, 'device'), "1\n2", "$what: it is no device");
	return;
}

is($node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$second', 2 * ${\MB})"), '', 'a second device');
$control = fc_control($node);

# The cache is disabled meanwhile.
my $asked = begin_to_add();
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
$node->reload;
like(answer($asked), qr/could not add the device: the cache was disabled meanwhile/, 'disabled while one is added');
is_gone('disabled');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
$node->reload;
fc_wait_active($node);
wait_device_state($node, 2, 'active');

# The writer ends meanwhile.
$asked = begin_to_add();
my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
kill 'TERM', $writer;
$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die 'no new writer';
like(answer($asked), qr/could not add the device: /, 'the writer ends while one is added');
fc_writer_round($node);
is_gone('the writer ends');

# Another device, that was off, comes back meanwhile, so the list is written. Then the server ends.
fill($node, 't', 300, 'some', $second);
fc_failpoint($control, 'probe_due', 'error');
goes_off($node, $control, 't', 2);
$asked = begin_to_add();
my $before = slurp_file($list);
fc_failpoint($control, 'probe_due', 'off');
wait_device_state($node, 2, 'active');
isnt(slurp_file($list), $before, 'another device is opened meanwhile: the list is written');
is(in_file("\Q$second\E", $list), 1, 'it names that one');
is(in_file("\Q$third\E", $list), 0, 'and not the one that is being added');
is(device($node, 3, 'state'), 'starting', 'which still is');
$control->quit;
$node->stop('immediate');
answer($asked);
$node->start;
fc_wait_active($node);
is_gone('the server ends');
wait_device_state($node, 2, 'active');

# A file that was there stays, and one that was made for a device that is in use.
$control = fc_control($node);
append_to_file($third, "\0" x MB);
chmod 0600, $third;
$asked = begin_to_add();
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
$node->reload;
like(answer($asked), qr/could not add the device: the cache was disabled meanwhile/, 'with a file that was there');
is(devices($node, 'device'), "1\n2", 'it is no device');
kill 'CONT', $process or die 'no process';
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
$node->reload;
fc_wait_active($node);
ok(-e $third, 'the file stays');
unlink $third or die $!;
is($node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})"), '', 'added');
is(in_file("\Q$third\E", $list), 1, 'it is in the list');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
$node->reload;
fc_wait_state($node, 'disabled');
ok(-e $third, 'its file stays when the cache is disabled');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
$node->reload;
fc_wait_active($node);
wait_device_state($node, 3, 'active');
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$third')");
ok(-e $third, 'and when it is removed');

# ---- opened ----

sub header
{
	open my $file, '<:raw', $second or die $!;
	sysread($file, my $header, 4096) == 4096 or die $!;
	return $header;
}

sub is_kept
{
	my ($what, $used) = @_;
	is(device($node, 2, 'state'), 'active', "$what: it is in use");
	cmp_ok(device($node, 2, 'used'), '>', $used / 2, "$what: it has what it had");
	return;
}

sub off
{
	fc_failpoint($control, 'probe_due', 'error');
	goes_off($node, $control, 't', 2);
	my $used = device($node, 2, 'used');
	cmp_ok($used, '>', 100, 'a device is off, and has pages');
	return $used;
}

# It hangs while it is opened, for longer than it is waited for, and goes on then: its header has been written anew.
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '5s'");
$node->reload;
$node->safe_psql('postgres', 'DROP TABLE t');
fill($node, 't', 400, 'more', $second);
my $used = off();
$before = header();
fc_failpoint($control, 'store_open', 'delay:14000000', 2);
$asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
like(answer($asked), qr/could not enable the device: .* did not answer for 10000 ms/, 'it hangs while it is opened');
fc_failpoint($control, 'store_open', 'off');
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if header() ne $before;
	usleep(100_000);
}
isnt(header(), $before, 'it has been opened when nobody waited any more');
# it may take a moment until it has said so
$node->poll_query_until('postgres', "SELECT pg_flashcache_enable_device('$second')", '') or die 'it can not be enabled';
is_kept('opened when nobody waited', $used);
isnt(header(), $before, 'its header is another one than before');

# The server ends between the header and the list.
fc_stamp($node);
$used = off();
$before = header();
fc_failpoint($control, 'switch_purged', 'pause');
$asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
fc_failpoint_wait($control, 'switch_purged');
isnt(header(), $before, 'its header has been written');
$control->quit;
$node->stop('immediate');
answer($asked);
$node->start;
fc_wait_active($node);
wait_device_state($node, 2, 'active');
is_kept('the server ends then', $used / 2);
my %now = fc_stat($node, qw(state verify_failures checksum_failures));
is_deeply(\%now, { state => 'active', verify_failures => 0, checksum_failures => 0 }, 'no page was wrong');
$node->stop;

done_testing();

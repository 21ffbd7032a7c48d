# What the writer asks of all devices it asks of all at once: a new writer that takes them over, and a scrub, wait for those
# that hang as long as for one. A scrub ends, also if a device comes and goes.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant MB => 1 << 20;

# Under zero_damaged_pages the writer takes no page from the pool: it writes to no device but what a scrub erases.
my $node = fc_new_node('main',
	size => '2MB',
	conf => "zero_damaged_pages = on\npg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.io_timeout = '1min'\n");
my ($second, $third) = map { $node->basedir . "/$_" } qw(second third);
my %process = (2 => add($node, $second, 2 * MB), 3 => add($node, $third, 2 * MB));
my $control = fc_control($node);
fc_failpoint($control, 'probe_due', 'error');

# ---- a new writer ----

# A device process that has just been made stands: the others are made, and asked, all the same. The writer waits for a
# minute, and nothing is off until then.
fc_failpoint($control, 'store_open', 'delay:3000000');
my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
kill 'TERM', $writer;
$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache WHERE writer_pid IS NOT NULL") or die 'no new writer';
my $stopped = stop_new_process($node);
fc_failpoint($control, 'store_open', 'off');
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	my %now = device_processes($node);
	last if keys %now == 3 || devices($node, 'state') =~ /off/;
	usleep(100_000);
}
my %now = device_processes($node);
is(scalar keys %now, 3, 'a new writer: all devices are asked');
is(devices($node, 'state'), "active\nactive\nactive", 'while one of them has not answered');
like((($node->psql('postgres', "SELECT pg_flashcache_remove_device('/nowhere')"))[2]),
	qr/ERROR:  could not remove the device: the background process "pg_flashcache writer" has just begun, and is looking at the devices\nHINT: /,
	'who asks it for something is told');
like((($node->psql('postgres', 'SELECT pg_flashcache_scrub()'))[2]),
	qr/ERROR:  the pg_flashcache writer has just begun, and is looking at the devices\nHINT: /, 'likewise');
kill 'CONT', $stopped or die 'no process';
fc_writer_round($node);
is(devices($node, 'state'), "active\nactive\nactive", 'and are used again');

# ---- a scrub ----

# Both hang; when one is off, the other answers again, too late.
sub process_of
{
	my ($path) = @_;
	my %all = device_processes($node);
	my ($pid) = grep { my $pid = $_; grep { (readlink $_ // '') eq $path } glob "/proc/$pid/fd/*" } keys %all;
	return $pid // die "no process has $path";
}
%process = (2 => process_of($second), 3 => process_of($third));
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '1s'");
$node->reload;
fc_writer_round($node);
kill 'STOP', values %process;
my $asked = ask($node, 'SELECT slots_erased FROM pg_flashcache_scrub(true)');
for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	last if devices($node, 'state') =~ /off/;
	usleep(100_000);
}
kill 'CONT', values %process;
like(answer($asked), qr/DETAIL:  256 slots were erased, 512 could not be written/, 'a scrub erases the one that answers');
is(devices($node, 'state'), "active\noff\noff", 'both that hang have been waited for together');

# ---- one that comes and goes ----

$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '1min'");
$node->reload;
$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$_')") foreach $second, $third;
is(devices($node, 'state'), "active\nactive\nactive", 'all are in use again');
my $sql = 'SELECT slots_erased FROM pg_flashcache_scrub(true)';
is($node->safe_psql('postgres', $sql), 768, 'all are erased');

# The last one is slow, so that the scrub has passed the others, and then it may write next to nothing.
sub limit
{
	my ($limit) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.write_limit = '$limit'");
	$node->reload;
	fc_writer_round($node);
	return;
}

sub comes_and_goes
{
	my ($times) = @_;
	my $erased = $node->safe_psql('postgres', 'SELECT slots_erased FROM pg_stat_flashcache');
	fc_failpoint($control, 'store_write', 'delay:2000000', 3);
	my $asked = ask($node, $sql);
	$node->poll_query_until('postgres', "SELECT slots_erased - $erased >= 512 FROM pg_stat_flashcache") or die 'it does not come so far';
	limit('8kB');
	fc_failpoint($control, 'store_write', 'off');
	for (1 .. $times)
	{
		$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$second')");
		$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
	}
	limit('0');
	return answer($asked);
}
is(comes_and_goes(1), "768\n", 'one that is used again: the scrub begins again');
like(comes_and_goes(9), qr/DETAIL:  512 slots were erased, 256 could not be written/, 'one that comes and goes: the scrub leaves it out, and says so');
is($node->safe_psql('postgres', $sql), 768, 'the next one erases it');
$control->quit;
$node->stop;

done_testing();

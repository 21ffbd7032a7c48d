# Who waits for the writer while a device hangs is told so, and is not kept for ever where nothing bounds that: without
# io_timeout. Sessions that cannot read from flash wake the writer once, until it has looked. A session that finds that a device
# is gone says what to do about it.
#
# Fails without: answer_at_last() (writer_state.c); fc_writer_tell_wait() in writer_request.c; the look at what has been told
# in fc_handoff_tell_trouble(); fc_place_for() in store_state.c.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { MB => 1 << 20, PAGES => 300 };

# Longer than it takes until a device is said to hang.
$ENV{FC_ENABLE_PATIENCE_S} = 6;
my $node = fc_new_node('main',
	size => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.extents = off\npg_flashcache.io_timeout = '1min'\nlog_min_messages = notice\n");
my ($first, $second) = (fc_flash_file($node), $node->basedir . '/second');
add($node, $second, 2 * MB);
fill($node, 't', PAGES, 'mark', $first, $second);
my $control = fc_control($node);
fc_failpoint($control, 'probe_due', 'error');

# Each page by itself, and backwards: what is read in a row may be left to the disk.
my $alone = "SELECT count(x.val) FROM generate_series(@{[PAGES - 1]}, 0, -1) block, "
  . "LATERAL (SELECT val FROM t WHERE ctid = format('(%s,1)', block)::tid OFFSET 0) x";

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

# ---- a device whose file is gone, found by a session ----

fc_evict($node, 't');
rename $second, "$second.away" or die $!;
is($node->safe_psql('postgres', $alone), PAGES, 'a device whose file is gone: the query is answered');
wait_device_state($node, 2, 'off');
$node->wait_for_log(qr/WARNING:  pg_flashcache does not use "\Q$second\E": [^\n]*\n[^\n]*DETAIL: [^\n]*\n[^\n]*HINT: [^\n]*\n/);
like(slurp_file($node->logfile),
	qr/WARNING:  pg_flashcache does not use "\Q$second\E": could not open [^\n]*: No such file or directory\n[^\n]*\n[^\n]*HINT:  Check that the flash device is there and mounted\. If the file is gone for good: pg_flashcache_remove_device\(\), then pg_flashcache_add_device\(\)\. pg_flashcache_enable_device\(\) tries at once\./,
	'a device whose file is gone: what to do');
rename "$second.away", $second or die $!;
is($node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')"), '', 'it is back');

# ---- suspect devices ----

# The second one hangs, so the first is suspect; the writer stands when it has begun to look.
fc_evict($node, 't');
set('io_timeout', "'1s'");
$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', '1s') or die 'no reload';
fc_writer_round($control);
fc_evict($node, 't');
fc_failpoint($control, 'suspect_due', 'pause');
fc_failpoint($control, 'store_read', 'delay:8000000', 2);
is($node->safe_psql('postgres', $alone), PAGES, 'a device hangs: the query is answered');
fc_failpoint_wait($control, 'suspect_due');
fc_failpoint($control, 'store_read', 'off');
is($control->query_safe('SELECT state FROM pg_stat_flashcache_device WHERE device = 2'), 'off', 'a device hangs: it is off');

# Who could not read from flash has told the writer. The next ones that cannot have nothing to tell.
sub read_all
{
	fc_evict($node, 't');
	return fc_delta($node, sub { is($node->safe_psql('postgres', $alone, timeout => $PostgreSQL::Test::Utils::timeout_default), PAGES, 'suspect: the query is answered') }, 'misses');
}
my %moved = read_all();
cmp_ok($moved{misses}, '>', 1, 'suspect: not from flash');
fc_failpoint($control, 'trouble_told', 'pause');
%moved = read_all();
cmp_ok($moved{misses}, '>', 1, 'suspect: not from flash, and nobody comes to the place where the writer is woken');
fc_failpoint($control, 'trouble_told', 'off');
fc_failpoint($control, 'suspect_due', 'off');
set('io_timeout', "'1min'");
$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', '1min') or die 'no reload';
$node->poll_query_until('postgres', "SELECT reason IS NULL FROM pg_stat_flashcache_device WHERE device = 1") or die 'it is still suspect';
$node->poll_query_until('postgres', "SELECT pg_flashcache_enable_device('$second')", '') or die 'it can not be enabled';

# When the writer has looked there is something to tell again.
fc_evict($node, 't');
fc_failpoint($control, 'trouble_told', 'pause');
fc_failpoint($control, 'store_read', 'error', 2);
my $session = $node->background_psql('postgres');
$session->query_until(qr/begun/, "\\echo begun\n$alone;\n");
fc_failpoint_wait($control, 'trouble_told');
fc_failpoint($control, 'trouble_told', 'off');
fc_failpoint($control, 'store_read', 'off');
$session->query_until(qr/done/, "\\echo done\n");
$session->quit;
pass('a device that fails: the writer is woken');
$node->poll_query_until('postgres', "SELECT pg_flashcache_enable_device('$second')", '') or die 'it can not be enabled';

# ---- without io_timeout ----

set('io_timeout', '0');
$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', '0') or die 'no reload';
fc_writer_round($control);

# The first device is not there, and the second one hangs.
my $process = process_of($second);
set('enabled', 'off');
fc_wait_state($node, 'disabled');
rename $first, "$first.away" or die $!;
mkdir $first or die $!;
kill 'STOP', $process or die 'no process';
set('enabled', 'on');
$node->poll_query_until('postgres', "SELECT state = 'starting' AND reason LIKE '%$first%' FROM pg_stat_flashcache") or die 'it does not wait';
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT pg_flashcache_enable()', timeout => $PostgreSQL::Test::Utils::timeout_default);
like($err, qr/ERROR:  pg_flashcache could not be enabled: [^\n]*\Q$first\E[^\n]*\nDETAIL:  "\Q$second\E" has not answered for \d+ s\./,
	'enabled while the other device hangs: it is not, and that is said');
is($node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache'), 'starting', 'and it still waits for that device');
rmdir $first or die $!;
rename "$first.away", $first or die $!;
is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'enabled when the first device is back');
is(device($node, 2, 'state'), 'starting', 'the other one still hangs');

my $offset = -s $node->logfile;
my $asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
$node->wait_for_log(
	qr/NOTICE:  waiting for a flash device: "\Q$second\E" has not answered for \d+ s\n[^\n]*HINT:  pg_flashcache\.io_timeout is 0, so nothing bounds that: set it and reload the configuration, or cancel the call\./,
	$offset);
ok($node->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'SELECT pg\_flashcache\_enable\_device%' AND pid <> pg_backend_pid()}) eq 't',
	'who waits for a device that hangs is told which, and can be cancelled');
like(answer($asked), qr/ERROR:  canceling statement due to user request/, 'it is');
kill 'CONT', $process;
wait_device_state($node, 2, 'active');
$control->quit;
my %now = fc_stat($node, qw(state verify_failures checksum_failures));
is_deeply(\%now, { state => 'active', verify_failures => 0, checksum_failures => 0 }, 'no page was wrong');
$node->stop;

done_testing();

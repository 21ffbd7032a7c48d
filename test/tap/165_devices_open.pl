# Devices are opened while nobody waits: one that hangs then keeps neither sessions nor the filling of others. The cache
# begins, and goes on, without its first device.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant MB => 1 << 20;

my $conf = "pg_flashcache.max_size = '24MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nmax_logical_replication_workers = 0\n";
my $node = fc_new_node('main', size => '3MB', conf => $conf, start => 0);
my $base = $node->basedir;

# The first one is in a folder of its own, which may be missing, as if it were not mounted: a file would be made anew.
my ($folder, $second, $third) = ("$base/mounted", "$base/second", "$base/third");
my $first = "$folder/flash";
mkdir $folder, 0700 or die $!;
$node->append_conf('postgresql.conf', "pg_flashcache.file = '$first'");
$node->start;
fc_create_sql($node);
fc_wait_active($node);
my $control = fc_control($node);

$node->safe_psql('postgres', q{
	CREATE TABLE t (n int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, 200) n;
});

# Pages come to flash, and are read from there: the writer does its work.
sub fills
{
	my ($what) = @_;
	$node->safe_psql('postgres', 'DROP TABLE IF EXISTS f; CREATE TABLE f AS SELECT * FROM t WHERE n <= 40');
	fc_to_flash($node, 'f');
	is($node->safe_psql('postgres', 'SELECT count(*), sum(n) FROM f'), '40|820', "$what: pages come to flash all the same");
	return;
}

# ---- one that hangs while it is added ----
{
	my %known = device_processes($node);
	fc_failpoint($control, 'store_open', 'delay:3000000', 2);
	my $asked = ask($node, "SELECT pg_flashcache_add_device('$second', 3 * ${\MB})");
	my $pid = stop_new_process($node, %known);
	fc_failpoint($control, 'store_open', 'off');
	wait_device_state($node, 2, 'starting');
	fills('one that hangs while it is added');
	is(device($node, 2, 'state'), 'starting', 'it is still being opened');
	like((($node->psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})"))[2]),
		qr/another change of a device is under way/, 'one change at a time');
	kill 'CONT', $pid;
	is(answer($asked), "\n", 'it is added when it answers');
	is(device($node, 2, 'state'), 'active', 'and is in use');
}

# ---- one that hangs while it is enabled, or tried again; the first one as well ----
sub off
{
	my ($no) = @_;
	fc_failpoint($control, 'probe_due', 'error');
	fc_to_flash($node, 't');
	fc_evict($node, 't');
	fc_failpoint($control, 'store_read', 'error', $no);
	$node->safe_psql('postgres', 'SELECT count(v) FROM t');
	fc_failpoint($control, 'store_read', 'off');
	wait_device_state($node, $no, 'off');
	return;
}

# The process of a device, if the other one is that of the first.
my %processes = device_processes($node);
my ($of_first, $of_second) = sort { $a <=> $b } keys %processes;
foreach my $case (
	[ 2, $of_second, "SELECT pg_flashcache_enable_device('$second')", 'one that hangs while it is enabled' ],
	[ 1, $of_first, 'SELECT pg_flashcache_enable()', 'the first one, while the cache is enabled' ])
{
	my ($no, $pid, $sql, $what) = @$case;
	off($no);
	kill 'STOP', $pid;
	my $asked = ask($node, $sql);
	fills($what);
	is(device($node, $no, 'state'), 'off', "$what: it is off");
	kill 'CONT', $pid;
	unlike(answer($asked), qr{ERROR}, "$what: it is enabled when it answers");
	is(device($node, $no, 'state'), 'active', "$what: and is in use");
}

# Tried again by itself, and removed, disabled, or the cache is disabled meanwhile.
off(2);
kill 'STOP', $of_second;
fc_failpoint($control, 'probe_due', 'off');
# it is due after a second at most, and the writer asks it then
$node->poll_query_until('postgres', 'SELECT next_probe < now() FROM pg_stat_flashcache_device WHERE device = 2') or die 'no probe';
fills('one that hangs while it is tried again');
$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$second')");
is(device($node, 2, 'state'), 'disabled', 'it is disabled while it is tried again');
kill 'CONT', $of_second;
$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
is(device($node, 2, 'state'), 'active', 'and enabled when it answers');

{
	my %known = device_processes($node);
	fc_failpoint($control, 'store_open', 'delay:3000000', 3);
	my $asked = ask($node, "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})");
	my $pid = stop_new_process($node, %known);
	fc_failpoint($control, 'store_open', 'off');
	wait_device_state($node, 3, 'starting');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	like(answer($asked), qr/could not add the device: the cache was disabled meanwhile/, 'disabled while one is added');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_flashcache_device'), 2, 'it is no device');
	kill 'CONT', $pid;
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	wait_device_state($node, 2, 'active');
	fills('enabled again');
}

# A trial that fails: nothing is left behind.
unlink $third;
fc_failpoint($control, 'store_write', 'error', 3);
like((($node->psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})"))[2]),
	qr/could not add the device: a page could not be written to the flash device: Input\/output error/, 'one that can not be written to');
fc_failpoint($control, 'store_write', 'off');
ok(!-e $third, 'no file is left behind');
fc_failpoint($control, 'store_read', 'flip', 3);
append_to_file($third, '');
chmod 0600, $third;
like((($node->psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})"))[2]),
	qr/could not add the device: a page written to the flash device could not be read back\n/, 'one that returns something else');
fc_failpoint($control, 'store_read', 'off');
ok(-e $third, 'a file that was there stays');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_flashcache_device'), 2, 'none of them is a device');

# A trial that takes longer than the time-out, in which each page is written and read in time.
my $limit = $node->safe_psql('postgres', 'SHOW pg_flashcache.io_timeout');
unlink $third;
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '4s'");
$node->reload;
fc_failpoint($control, 'store_write', 'delay:2500000', 3);
fc_failpoint($control, 'store_read', 'delay:2500000', 3);
is($node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 * ${\MB})"), '', 'a slow one is added');
fc_failpoint($control, $_, 'off') foreach 'store_write', 'store_read';
is(device($node, 3, 'state'), 'active', 'a slow one is active');
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$third')");
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '$limit'");
$node->reload;
unlink $third;
my %now = fc_stat($node, qw(state verify_failures checksum_failures switch_offs));
is_deeply(\%now, { state => 'active', verify_failures => 0, checksum_failures => 0, switch_offs => 0 }, 'the cache was on all the time');
$control->quit;

# ---- a start without the first device ----
sub hits
{
	my ($what) = @_;
	my $sql = "SELECT coalesce(sum(hits), 0) FROM pg_stat_flashcache_relation WHERE relid = 't'::regclass";
	my $had = $node->safe_psql('postgres', $sql);
	is($node->safe_psql('postgres', 'SELECT count(*), sum(n) FROM t'), '200|20100', "$what: the query is answered");
	my %now = fc_stat($node, qw(verify_failures checksum_failures));
	is_deeply(\%now, { verify_failures => 0, checksum_failures => 0 }, "$what: no page was wrong");
	return $node->safe_psql('postgres', $sql) - $had;
}

$node->stop;
rename $folder, "$folder.away" or die $!;
my $offset = -s $node->logfile;
$node->start;
fc_wait_active($node);
is(device($node, 1, 'state'), 'off', 'a start without the first device: it is off');
like(device($node, 1, 'reason'), qr/^folder of "\Q$first\E" cannot be found/, 'and the reason says why');
is(device($node, 2, 'state'), 'active', 'the second is in use');
$node->wait_for_log(qr/WARNING:  pg_flashcache does not use "\Q$first\E"/, $offset);
fc_to_flash($node, 't');
fc_evict($node, 't');
cmp_ok(hits('without the first'), '>', 150, 'pages are read from the second');
rename "$folder.away", $folder or die $!;
$node->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
is(device($node, 1, 'state'), 'active', 'the first one is back');
is($node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache'), 768, 'with its slots');
fills('the first one is back');

# Neither is there; then the second is.
$node->stop;
rename $folder, "$folder.away" or die $!;
rename $second, "$second.away" or die $!;
$node->start;
fc_wait_state($node, 'off');
like(device($node, 1, 'reason'), qr/\Q$first\E/, 'neither is there: the reason of the first');
rename "$second.away", $second or die $!;
$node->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
fc_wait_active($node);
is(device($node, 2, 'state'), 'active', 'the second is found, and the cache goes on with it');
is(device($node, 1, 'state'), 'off', 'without the first');
fills('with the second alone');
$node->stop;
rename "$folder.away", $folder or die $!;

# With a log on the first device: that is waited for, then it is given up for good.
$node->append_conf('postgresql.conf', "pg_flashcache.persistence = on\nrestart_after_crash = on");
$node->start;
fc_wait_active($node);
wait_device_state($node, 2, 'active');
fc_to_flash($node, 't');
$node->stop;
rename $folder, "$folder.away" or die $!;
$node->start;
fc_wait_state($node, 'off');
is(device($node, 2, 'state'), 'starting', 'with persistence: the first device is waited for');
rename "$folder.away", $folder or die $!;
$node->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
fc_wait_active($node);
is($node->safe_psql('postgres', 'SELECT restored > 0 FROM pg_stat_flashcache_persistence'), 't', 'and when it comes its log is loaded');
wait_device_state($node, 2, 'active');
fc_to_flash($node, 't');
$node->stop;
rename $folder, "$folder.away" or die $!;
$ENV{FC_FIRST_PATIENCE_S} = 0;
$node->start;
fc_wait_active($node);
is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'), 'the first device cannot be opened', 'not for ever');
is(device($node, 2, 'state'), 'active', 'then the second is used without it');
$node->safe_psql('postgres', 'UPDATE t SET n = n WHERE n <= 20');
fills('without the log');
$node->stop('immediate');
delete $ENV{FC_FIRST_PATIENCE_S};
rename "$folder.away", $folder or die $!;
$node->start;
fc_wait_active($node);
is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'),
	'its log and the data directory are of different runs of the server', 'its log is not believed after that');
wait_device_state($node, 2, 'active');
hits('after a crash without the log');
$node->stop;

# ---- what stands for the whole cache follows its devices ----
{
	my $grows = fc_new_node('grows', size => '1MB', conf => "pg_flashcache.max_size = '16MB'\npg_flashcache.advice = on\n");
	my $more  = $grows->basedir . '/more';
	my $is    = sub {
		my ($size, $what) = @_;
		ok( $grows->poll_query_until('postgres', "SELECT size = $size AND is_current FROM pg_flashcache_advice WHERE kind = 'flash' AND factor = 1"),
			"advice: $what");
	};
	my $health = sub {
		return $grows->safe_psql('postgres', 'SELECT device, health, temperature FROM pg_stat_flashcache_device_health ORDER BY 1');
	};
	$is->(MB, 'of the first device');
	is($grows->safe_psql('postgres', 'SELECT round(max(sample_rate)::numeric, 3) FROM pg_flashcache_advice'), '1.000', 'advice: of all pages');
	$grows->safe_psql('postgres', "SELECT pg_flashcache_add_device('$more', 3 * ${\MB}), pg_flashcache_report_drive('$more', 'nvme1n1', used_percent => 3, temperature => 35)");
	$is->(4 * MB, 'of both');
	is($grows->safe_psql('postgres', 'SELECT round(max(sample_rate)::numeric, 3) FROM pg_flashcache_advice'), '0.250', 'advice: of a quarter of them');
	is($health->(), "1||\n2|97|35", 'health: of the second device');

	# What begins anew is for another size.
	my $figures = sub {
		fc_writer_round($grows);
		return split /\|/, $grows->safe_psql('postgres', 'SELECT (SELECT max(since) FROM pg_flashcache_advice), (SELECT max(sampled_reads) FROM pg_flashcache_admission)');
	};
	my $same = sub {
		my ($what, @were) = @_;
		my @are = $figures->();
		is($are[0], $were[0], "advice goes on: $what");
		cmp_ok($are[1], '>=', $were[1], "admission goes on: $what");
	};
	$grows->safe_psql('postgres', 'CREATE TABLE t AS SELECT n, repeat(\'x\', 1000) v FROM generate_series(1, 2000) n');
	fc_evict($grows, 't');
	$grows->safe_psql('postgres', 'SELECT count(v) FROM t');
	fc_evict($grows, 't');
	my @were = $figures->();
	cmp_ok($were[1], '>', 0, 'pages were offered');
	my $writer = $grows->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $writer;
	$grows->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die 'no new writer';
	$same->('with a new writer', @were);
	@were = $figures->();
	$grows->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$grows->reload;
	fc_wait_state($grows, 'disabled');
	fc_failpoint($grows, 'store_open', 'delay:3000000', 2);
	$grows->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$grows->reload;
	fc_wait_active($grows);
	# it is being opened
	$grows->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$more')");
	fc_failpoint($grows, 'store_open', 'off');
	$same->('a device is enabled while it is being opened', @were);
	$grows->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$more')");
	$is->(MB, 'of those that are not disabled');
	is($health->(), "1||\n2|97|35", 'health: of one that is disabled as well');
	$grows->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$more'), pg_flashcache_resize_device('$more', 2 * ${\MB})");
	$is->(3 * MB, 'of one that was made smaller');
	$grows->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$more'), pg_flashcache_add_device('$more.2', ${\MB})");
	$is->(2 * MB, 'of those that are left');
	is($health->(), "1||\n2||", 'health: nothing is known of another device of that number');
	$grows->stop;
}

done_testing();

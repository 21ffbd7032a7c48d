# Devices that hang, to the last digit: a hang is counted where a device has been asked, and not where nothing could be asked of
# it, since it still hangs. And what the writer asks of all devices at once makes no other one suspect, and clears those that
# answer, however late.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { MB => 1 << 20, PAGES => 600 };

my $conf = "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\n"
  . "pg_flashcache.extents = off\npg_flashcache.pause_when_slow = off\n";
my $node;
my $control;

sub set
{
	my ($setting, $value) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.$setting = $value");
	$node->reload;
	return;
}

# ---- what is counted ----

{
	$node = fc_new_node('counted', size => '2MB', conf => $conf . "zero_damaged_pages = on\npg_flashcache.io_timeout = '1min'\n");
	$control = fc_control($node);
	fc_failpoint($control, 'probe_due', 'error');

	# How the counters have moved, of the device and of the cache.
	my $is = sub {
		my ($code, $hangs, $what) = @_;
		my $had = device($node, 1, 'timeouts, read_errors');
		my %moved = fc_delta($node, $code, qw(timeouts read_errors write_errors));
		is_deeply(\%moved, { timeouts => $hangs, read_errors => $hangs, write_errors => 0 }, $what);
		my @had = split /\|/, $had;
		is(device($node, 1, 'timeouts, read_errors'), join('|', map { $_ + $hangs } @had), "$what: of the device");
		return;
	};
	my $fails = sub {
		my ($sql) = @_;
		my ($rc, $out, $err) = $node->psql('postgres', $sql);
		isnt($rc, 0, "$sql fails");
		return;
	};

	# It is asked once. (Under zero_damaged_pages the writer takes no page from the pool, so it writes nothing.)
	my $process = fc_device_process($node);
	kill 'STOP', $process or die $!;
	set('io_timeout', "'2s'");
	$is->(sub { $fails->('SELECT pg_flashcache_scrub()'); fc_wait_state($node, 'off') }, 1, 'a device that hangs, asked once');
	set('io_timeout', "'1min'");
	$is->(sub { $fails->('SELECT pg_flashcache_enable()') for 1 .. 3 }, 0, 'nothing is asked of one that still hangs');
	kill 'CONT', $process or die $!;
	$is->(sub { is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'it answers') }, 0, 'one that answers');

	# It was let go of in vain: its process hangs, and there is no other yet.
	$process = fc_device_process($node);
	kill 'STOP', $process or die $!;
	set('io_timeout', "'2s'");
	set('enabled', 'off');
	fc_wait_state($node, 'disabled');
	$is->(
		sub {
			set('enabled', 'on');
			fc_wait_state($node, 'off');
			is($node->safe_psql('postgres', 'SELECT reason FROM pg_stat_flashcache'), 'the flash device did not answer for 2000 ms', 'its process hangs');
		},
		0,
		'nothing is asked while the former process hangs');
	kill 'CONT', $process or die $!;
	ok($node->poll_query_until('postgres', 'SELECT pg_flashcache_enable()'), 'its process has ended');

	# It is opened, which hangs.
	set('enabled', 'off');
	fc_wait_state($node, 'disabled');
	my %before = device_processes($node);
	kill 'KILL', keys %before or die 'no device process';
	fc_failpoint($control, 'store_open', 'delay:5000000');
	$is->(
		sub {
			set('enabled', 'on');
			$process = stop_new_process($node, %before);
			fc_failpoint($control, 'store_open', 'off');
			fc_wait_state($node, 'off');
		},
		1,
		'a device that hangs while it is opened');
	kill 'CONT', $process or die $!;
	set('io_timeout', "'1min'");
	ok($node->poll_query_until('postgres', 'SELECT pg_flashcache_enable()'), 'it answers again');
	$control->quit;
	$node->stop;
}

# ---- who is suspect ----

{
	my $suspect = 'another device did not answer; this one is tried before it is used again';
	$node = fc_new_node('suspect', size => '2MB',
		conf => $conf . "pg_flashcache.max_size = '16MB'\npg_flashcache.persistence = on\npg_flashcache.io_timeout = '1min'\n");
	my ($second, $third) = map { $node->basedir . "/$_" } qw(second third);
	my $process = add($node, $second, 2 * MB);
	add($node, $third, 2 * MB);
	fc_everywhere($node);
	fc_table($node, 'postgres', 't', 'v1', PAGES);
	my $t = fc_tag($node, 'postgres', 't');
	my $reasons = sub { return $node->safe_psql('postgres', q{SELECT string_agg(coalesce(reason, '-'), '|' ORDER BY device) FROM pg_stat_flashcache_device WHERE device <> 2}) };
	# Pages get slots, so that a group of the log is due, for which all devices are flushed.
	my $evict = sub { fc_fetch($node, 'postgres', 't', PAGES); fc_push_out($node, $t) };
	my $until = sub {
		my ($done) = @_;
		for (1 .. 30) { return 1 if $done->(); $evict->() }
		return 0;
	};
	ok($until->(sub { device($node, 3, 'used') > 100 }), 'the table is on all devices');
	$control = fc_control($node);
	fc_failpoint($control, 'probe_due',   'error');
	fc_failpoint($control, 'suspect_due', 'error');

	# One hangs when all are flushed. Nothing else is asked of it by the writer.
	kill 'STOP', $process or die $!;
	set('io_timeout', "'5s'");
	$node->psql('postgres', "UPDATE t SET id = id WHERE id <= 100");
	$node->psql('postgres', 'CHECKPOINT');
	$node->poll_query_until('postgres', q{SELECT state = 'off' FROM pg_stat_flashcache_device WHERE device = 2}) or die 'it is not off';
	is($reasons->(), '-|-', 'all are flushed, and one hangs: no other is suspect');
	kill 'CONT', $process or die $!;
	set('io_timeout', "'1min'");
	ok($node->poll_query_until('postgres', "SELECT pg_flashcache_enable_device('$second')", ''), 'it answers again');

	# A session waits for one in vain, so the others are suspect; and they answer when all are flushed, one of them late.
	$evict->() for 1 .. 4;
	ok($until->(sub { device($node, 2, 'used') > 100 }), 'the table is on all devices again');
	fc_push_out($node, $t);
	fc_failpoint($control, 'store_sync', 'delay:400000', 3);
	set('io_timeout', "'3s'");
	fc_writer_round($node);
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'STOP', $writer or die $!;
	fc_failpoint($control, 'store_read', 'delay:9000000', 2);
	# each page by itself, and backwards: what is read in a row may be left to the disk
	$node->safe_psql('postgres', "SELECT count(x.val) FROM generate_series(@{[PAGES - 1]}, 0, -1) n, "
		  . "LATERAL (SELECT val FROM t WHERE ctid = ANY (ARRAY(SELECT format('(%s,%s)', n, line)::tid FROM generate_series(1, 2) line)) OFFSET 0) x");
	fc_failpoint($control, 'store_read', 'off');
	is(device($node, 2, 'state') . '|' . $reasons->(), "off|$suspect|$suspect", 'a session has waited for one in vain: the others are suspect');
	kill 'CONT', $writer or die $!;
	set('io_timeout', "'1min'");
	ok($until->(sub { $reasons->() eq '-|-' }), 'all are flushed: those that answer are not suspect any more, however late') or diag($reasons->());
	cmp_ok(device($node, 3, 'reads'), '>', 0, 'and are read from');
	$control->quit;
	my %now = fc_stat($node, qw(state verify_failures checksum_failures));
	is_deeply(\%now, { state => 'active', verify_failures => 0, checksum_failures => 0 }, 'no page was wrong');
	$node->stop;
}

done_testing();

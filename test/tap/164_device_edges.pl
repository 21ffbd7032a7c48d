# Several devices: what lies behind the end of one is left alone; one that hangs holds nobody up, neither those who read nor
# those who replace it; one whose content was in doubt begins empty; memory is not touched before it
# is needed.

use strict;
use warnings;

use Fcntl qw(:flock);
use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant { MB => 1 << 20, HEADER => 65536 };

my $conf = "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\npg_flashcache.max_size = '16MB'\n";

# ---- behind the end of a device ----

{
	# 320 slots, in chunks of 128; the log lies behind them
	my $node = fc_new_node('partial', size => '2560kB', conf => $conf . "pg_flashcache.persistence = on\n");
	my $first = fc_flash_file($node);
	my $second = $node->basedir . '/second';
	add($node, $second, 1064960);    # 130 slots
	fc_table($node, 'postgres', 't', 'v1', 250);
	fc_to_flash($node, 't');
	fc_stamp($node);
	my @sizes = (-s $first, -s $second);
	$node->safe_psql('postgres', 'SELECT * FROM pg_flashcache_scrub()');
	is(join(' ', -s $first, -s $second), "@sizes", 'a scrub leaves alone what lies behind the slots of a device');
	is($node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache'), 450, 'with as many slots as there are');
	my $used = $node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache');
	$node->stop('immediate');
	$node->start;
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'), '', 'the log is as it was');
	cmp_ok($node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache'), '>', $used / 2, 'and so is the cache, after a crash');
	$node->stop;
}

# ---- one that hangs is replaced ----

{
	my $node = fc_new_node('replaced', size => '3MB', conf => $conf);
	my $base = $node->basedir;
	my $pid = add($node, "$base/second", 3 * MB);
	# short only for the one that hangs: others may be slow on a busy machine
	$node->append_conf('postgresql.conf', 'pg_flashcache.io_timeout = 300ms');
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', '300ms') or die 'no reload';
	fc_writer_round($node);
	kill 'STOP', $pid or die 'no process';
	$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$base/second')");
	is(devices($node, 'device, state'), '1|active', 'one that hangs is removed');
	$node->append_conf('postgresql.conf', 'pg_flashcache.io_timeout = 60s');
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', '1min') or die 'no reload';
	fc_writer_round($node);
	add($node, "$base/third", 3 * MB);
	like(devices($node, 'path, state'), qr{/third\|active$}m, 'and another one takes its place while it does');
	is(() = devices($node, 'state') =~ /active/g, 2, 'which is active');
	kill 'CONT', $pid;
	$node->stop;
}

# ---- one that hangs is not waited for again and again ----

{
	my $node = fc_new_node('waits', size => '1MB', buffers => '2MB', conf => $conf . "pg_flashcache.io_timeout = 1s\npg_flashcache.max_size = '32MB'\neffective_io_concurrency = 64\n");
	add($node, $node->basedir . '/second', 20 * MB);
	fc_table($node, 'postgres', 't', 'v1', 1500);
	# most of them will do
	for (1 .. 50)
	{
		$node->safe_psql('postgres', 'SELECT count(val) FROM t');
		fc_evict($node, 't');
		last if fc_in_flash($node, 't') > 1300;
	}
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	$session->query_safe('SELECT count(*) FROM t WHERE id < 0');
	fc_evict($node, 't');
	fc_failpoint($control, 'store_read', 'delay:16000000', 2);
	# it closes what hangs, and is busy here
	kill 'STOP', $writer or die 'no writer';
	$session->query_safe('SELECT count(val) FROM t');
	kill 'CONT', $writer;
	is($control->query_safe('SELECT timeouts FROM pg_stat_flashcache_device WHERE device = 2'), 1, 'a session waits once for a device that hangs');
	fc_failpoint($control, 'store_read', 'off');
	$control->quit;
	$session->quit;
	$node->stop('immediate');
}

# ---- a descriptor that came too late, or could not be closed ----

{
	my $node = fc_new_node('late', size => '1MB', conf => $conf);
	my $second = $node->basedir . '/second';
	fc_table($node, 'postgres', 't', 'v1', 300);
	fc_evict($node, 't');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	my $has     = sub { return scalar grep { /^\Q$second\E/ } map { readlink $_ // () } glob "/proc/$pid/fd/*" };
	my $read    = sub { return $session->query_safe('SELECT count(val) FROM t') };

	# It has been removed, and its space comes free when nobody has it open.
	my $removed = sub {
		my ($what) = @_;
		for (1 .. 100)
		{
			fc_evict($node, 't');
			$read->();
			last if !$has->();
			usleep(100_000);
		}
		is($has->(), 0, "$what: the session closes it");
	};
	my $fill = sub {
		add($node, $second, 3 * MB);
		fc_evict($node, 't');
		$node->safe_psql('postgres', q{SELECT pg_flashcache_prewarm('t')});
	};
	my $remove = sub {
		$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");
		unlink $second or die $!;
	};

	fc_failpoint($control, 'probe_due', 'error');
	# the first device is open: it is the second that comes late
	$read->();
	$fill->();
	is($has->(), 0, 'opened too late: it was not open before');
	fc_failpoint($control, 'store_late', 'error');
	is($read->(), 300, 'opened too late: the query is answered');
	fc_failpoint($control, 'store_late', 'off');
	like(devices($node, 'device, state'), qr/^2\|off$/m, 'opened too late: it is off');
	$remove->();
	$removed->('opened too late');

	$fill->();
	$read->();
	is($has->(), 1, 'not closed: it is open');
	fc_failpoint($control, 'store_close', 'error');
	$remove->();
	for (1 .. 3)
	{
		fc_evict($node, 't');
		$read->();
	}
	is($has->(), 1, 'not closed: it could not be');
	fc_failpoint($control, 'store_close', 'off');
	$removed->('not closed');
	$control->quit;
	$session->quit;
	$node->stop;
}

# ---- one that cannot be enabled ----

{
	my $node = fc_new_node('refused', size => '1MB', conf => $conf);
	my $second = $node->basedir . '/second';
	add($node, $second, MB);
	$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$second')");
	rename $second, "$second.away" or die $!;
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
	like($err, qr/ERROR:  could not enable the device/, 'a disabled device whose file is away is not enabled');
	my $after = 'state, reason, next_probe IS NULL';
	my $disabled = '1|active||t
2|disabled|it was disabled by pg_flashcache_disable_device()|t';
	is(devices($node, "device, $after"), $disabled, 'and is disabled as before');
	rename "$second.away", $second or die $!;
	$node->restart;
	fc_wait_active($node);
	is(devices($node, "device, $after"), $disabled, 'also when its file is back, and after a restart');
	$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
	rename $second, "$second.away" or die $!;
	$node->restart;
	fc_wait_active($node);
	$node->poll_query_until('postgres', 'SELECT state, next_probe IS NULL FROM pg_stat_flashcache_device WHERE device = 2', 'off|f')
	  or die 'it is not off';
	$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$second')");
	is((split /\n/, devices($node, 'device, state, next_probe IS NULL'))[1], '2|disabled|t', 'no probe of a disabled device is announced');
	rename "$second.away", $second or die $!;

	# It is opened, and fails its trial: nobody has it open after that, and another server could have it.
	my $who_has = sub {
		my %now = device_processes($node);
		open my $file, '<', $second or die $!;
		my $locked = flock($file, LOCK_EX | LOCK_NB) ? 0 : 1;
		return "$locked " . grep { my $pid = $_; grep { (readlink($_) // '') eq $second } glob "/proc/$pid/fd/*" } keys %now;
	};
	is($who_has->(), '0 0', 'a disabled device is neither locked nor open');
	my $control = fc_control($node);
	fc_failpoint($control, 'store_write', 'error', 2);
	like((($node->psql('postgres', "SELECT pg_flashcache_enable_device('$second')"))[2]), qr/ERROR:  could not enable the device/, 'it fails its trial');
	is((split /\n/, devices($node, "device, $after"))[1], (split /\n/, $disabled)[1], 'it is disabled as before');
	is($who_has->(), '0 0', 'and neither locked nor open');

	# It hangs in its trial, and answers when nobody waits any more.
	fc_failpoint($control, 'store_write', 'delay:8000000', 2);
	$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '2s'");
	$node->reload;
	fc_writer_round($node);
	like((($node->psql('postgres', "SELECT pg_flashcache_enable_device('$second')"))[2]), qr/ERROR:  could not enable the device: .* did not answer/, 'it hangs in its trial');
	fc_failpoint($control, 'store_write', 'off');
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if $who_has->() eq '0 0';
		usleep(100_000);
	}
	is($who_has->(), '0 0', 'it is neither locked nor open when it has answered');
	$control->quit;
	$node->stop;
}

# ---- content in doubt ----

{
	my $node = fc_new_node('doubt', size => '3MB', conf => $conf);
	my $second = $node->basedir . '/second';
	add($node, $second, MB);
	fc_table($node, 'postgres', 't', 'v1', 300);
	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', 'misplaced', 1);
	$node->safe_psql('postgres', 'SELECT count(val) FROM t');
	fc_failpoint($node, 'store_read', 'off');
	is((split /\n/, devices($node, 'device, state'))[0], '1|off', 'one whose pages are wrong goes off');
	$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");
	$node->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
	fc_wait_active($node);
	# it may be filling already
	cmp_ok(fc_in_flash($node, 't'), '<', 100, 'and begins empty, also when it is the only one by then');
	$node->stop;
}
# ---- memory that no slot has needed yet ----

{
	# What is remembered of pages takes 6 MB of such a cache, when it is that large.
	my $node = fc_new_node('memory', size => '2MB', conf => $conf . "pg_flashcache.max_size = '16GB'\n");
	$node->safe_psql('postgres', q{CREATE TABLE t AS SELECT 1 AS a; SELECT count(*) FROM t; CHECKPOINT});
	fc_evict($node, 't');
	my $mapped = sub {
		my ($kb) = slurp_file('/proc/' . $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache') . '/status') =~ /^RssShmem:\s+(\d+) kB$/m;
		return $kb;
	};
	my $before = $mapped->();
	add($node, $node->basedir . '/second', 2 * MB);
	fc_writer_round($node);
	cmp_ok($mapped->() - $before, '<', 4000, 'is not touched when a device is added');
	$node->stop;
}

done_testing();

# A server that may not use io_uring, as in many containers: no wait could be bounded, so the cache is off, and says so,
# unless there is to be no limit. And sessions that get no io_uring though the kernel has it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# What a container's runtime does: the system call is refused, for this process and all its children.
my $library = fc_library('no_uring', <<'END');
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

__attribute__((constructor)) static void
forbid(void)
{
	static struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	if (getenv("FC_FORBID") != NULL && strcmp(getenv("FC_FORBID"), "enter") == 0)
		filter[1].k = __NR_io_uring_enter;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		abort();
}
END

my $limit = "pg_flashcache.io_timeout = '10s'\n";
my $node = fc_odd_node('main', preload => $library, size => '8MB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n$limit");
my $content = 'SELECT count(*), min(length(v)), max(length(v)) FROM t';
my $reason  = 'no wait for the flash device can be bounded without io_uring: Operation not permitted';

sub set
{
	my ($line) = @_;
	$node->append_conf('postgresql.conf', "$line\n");
	$node->reload;
	return;
}

fc_create_sql($node);
$node->safe_psql('postgres', q{
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 10) n;
});
$node->wait_for_log(qr/WARNING: .* is off: \Q$reason\E\n.*\n.*HINT:  Allow io_uring, or set pg_flashcache\.io_timeout to 0: .* pg_flashcache_enable\(\) tries at once\./);
is(fc_view($node), "off|$reason|interception", 'off, and it says why');
my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
like($stderr, qr/ERROR:  pg_flashcache could not be enabled: \Q$reason\E/, 'enable says so as well');

# The time for the next probe does not come: the new setting is enough.
fc_failpoint($node, 'probe_due', 'error');
set('pg_flashcache.io_timeout = 0');
fc_wait_active($node);
is($node->safe_psql('postgres', 'SELECT waits_bounded FROM pg_stat_flashcache'), 'f', 'without a limit: active, and the view says that nothing is bounded');
set($limit);
ok($node->poll_query_until('postgres', "SELECT state = 'off' AND reason = '$reason' FROM pg_stat_flashcache"), 'a limit again: off');
set('pg_flashcache.io_timeout = 0');
fc_wait_active($node);
fc_failpoint($node, 'probe_due', 'off');

fc_to_flash($node, 't');
my %moved = fc_delta($node, sub { is($node->safe_psql('postgres', $content), '10|5001|5002', 'pages come from flash') },
	'hits', 'verify_failures', 'read_errors', 'prefetches');
cmp_ok($moved{hits}, '>=', 10, 'all of them');
is_deeply([ @moved{qw(verify_failures read_errors prefetches)} ], [ 0, 0, 0 ], 'the right ones, none ahead');

fc_to_flash($node, 't');
fc_failpoint($node, 'store_read', 'delay:300000');
%moved = fc_delta($node, sub { is($node->safe_psql('postgres', $content), '10|5001|5002', 'slow: the query waits') },
	'timeouts', 'read_errors');
fc_failpoint($node, 'store_read', 'off');
is_deeply(\%moved, { timeouts => 0, read_errors => 0 }, 'slow: nobody turns away');
is(fc_view($node), 'active||interception', 'slow: the cache stays on');

fc_to_flash($node, 't');
fc_failpoint($node, 'probe_due', 'error');
%moved = fc_delta($node, sub { fc_failpoint($node, 'store_read', 'short'); is($node->safe_psql('postgres', $content), '10|5001|5002', 'short reads: the query is answered') },
	'read_errors', 'switch_offs');
is_deeply(\%moved, { read_errors => 3, switch_offs => 1 }, 'short reads: three');
like(fc_view($node), qr/^off\|3 failures in a row, the last: could read only 4096 of \d+ bytes/, 'short reads: off');
fc_failpoint($node, 'store_read', 'off');
fc_failpoint($node, 'probe_due', 'off');
fc_wait_active($node);
fc_to_flash($node, 't');
is($node->safe_psql('postgres', $content), '10|5001|5002', 'back by itself');

# With a limit the cache is off, and a session that has the file open from before closes it.
{
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	my $file    = fc_flash_file($node);
	my $has     = sub { return scalar grep { (readlink $_ // '') eq $file } glob "/proc/$pid/fd/*" };
	fc_to_flash($node, 't');
	$session->query_safe($content);
	is($has->(), 1, 'a session has the file open');
	set($limit);
	fc_wait_state($node, 'off');
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		fc_evict($node, 't');
		$session->query_safe($content);
		last if !$has->();
		usleep(100_000);
	}
	is($has->(), 0, 'a limit: the session closes it');
	$session->quit;
}

$node->stop;

# A ring can be had, but nothing may be asked of it.
{
	local $ENV{FC_FORBID} = 'enter';
	$node->append_conf('postgresql.conf', $limit);
	fc_start_odd($node, $library);
	ok($node->poll_query_until('postgres', q{SELECT state = 'off' AND reason LIKE 'no wait for the flash device can be bounded%' FROM pg_stat_flashcache}),
		'a ring that cannot be used: off, and it says why');
	$node->stop;
}

# Sessions that get no ring, for lack of memory that may be locked or of descriptors: each reads from the disk until it
# gets one.
SKIP:
{
	skip 'no io_uring here', 11 if !fc_reads_ahead();
	$node = fc_new_node('short', size => '8MB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
	fc_create_sql($node);
	fc_wait_active($node);
	$node->safe_psql('postgres', q{
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 10) n;
	});
	my @counters = qw(hits misses reads_unbounded read_errors timeouts verify_failures);
	my $show     = 'SELECT ' . join(', ', @counters) . ' FROM pg_stat_flashcache';
	# What else the session needs it has by then.
	my $read = sub {
		my ($session) = @_;
		$session->query_safe($_) foreach "$content WHERE false", $show;
		fc_to_flash($node, 't');
		my @before = split /\|/, $session->query_safe($show);
		my $rows   = $session->query_safe($content);
		my @after  = split /\|/, $session->query_safe($show);
		return ($rows, map { $counters[$_] => $after[$_] - $before[$_] } 0 .. $#counters);
	};
	my $offset = -s $node->logfile;

	fc_failpoint($node, 'store_ring', 'error');
	my $session = $node->background_psql('postgres');
	my ($rows, %moved) = $read->($session);
	is($rows, '10|5001|5002', 'no ring: the query is answered');
	# It may want a page of a catalog again.
	is_deeply([ @moved{qw(hits read_errors timeouts verify_failures)} ], [ 0, 0, 0, 0 ], 'no ring: nothing from flash');
	cmp_ok($moved{reads_unbounded}, '>=', 10, 'no ring: each page counted');
	is($node->safe_psql('postgres', 'SELECT state, waits_bounded FROM pg_stat_flashcache'), 'active|t', 'no ring: others go on, nobody waits for ever');
	$node->wait_for_log(qr/WARNING:  pg_flashcache: a session reads from the disk alone, .*: Cannot allocate memory\n.*\n.*HINT:  Raise the limit of locked memory/, $offset);
	fc_failpoint($node, 'store_ring', 'off');
	# A ring is tried for again, some seconds later.
	for (1 .. 120)
	{
		($rows, %moved) = $read->($session);
		last if $moved{hits} >= 10;
		select undef, undef, undef, 0.5;
	}
	is_deeply([ $moved{hits} >= 10, @moved{qw(reads_unbounded read_errors timeouts verify_failures)} ], [ 1, 0, 0, 0, 0 ],
		'no ring: the session gets one later');

	# The same with no limit: it reads without one.
	fc_failpoint($node, 'store_ring', 'error');
	my $second = $node->background_psql('postgres');
	set('pg_flashcache.io_timeout = 0');
	1 until $second->query_safe('SHOW pg_flashcache.io_timeout') eq '0';
	($rows, %moved) = $read->($second);
	is_deeply([ $moved{hits} >= 10, $moved{reads_unbounded} ], [ 1, 0 ], 'no ring, no limit: reads from flash');
	fc_failpoint($node, 'store_ring', 'off');
	$_->quit foreach $session, $second;

	# For real: a session that may lock no memory, where the kernel counts it.
	set("pg_flashcache.io_timeout = '1s'");
	1 until $node->safe_psql('postgres', 'SHOW pg_flashcache.io_timeout') eq '1s';
	SKIP:
	{
		skip 'no memory need be locked for io_uring here', 4
		  if system('prlimit', '--memlock=0:', $^X, '-e', 'my $p = "\\0" x 256; exit(syscall(425, 1, $p) < 0 ? 0 : 1)') != 0;
		system_or_bail('prlimit', "--pid=$node->{_pid}", '--memlock=0:');
		my $third = $node->background_psql('postgres');
		my $pid   = $third->query_safe('SELECT pg_backend_pid()');
		($rows, %moved) = $read->($third);
		is($rows, '10|5001|5002', 'no memory: the query is answered');
		is_deeply([ $moved{reads_unbounded} >= 10, @moved{qw(hits read_errors)} ], [ 1, 0, 0 ], 'no memory: from the disk');
		is($node->safe_psql('postgres', 'SELECT state, waits_bounded FROM pg_stat_flashcache'), 'active|t', 'no memory: others go on');
		system_or_bail('prlimit', "--pid=$pid", '--memlock=1048576:');
		for (1 .. 240)
		{
			($rows, %moved) = $read->($third);
			last if $moved{hits} >= 10;
			select undef, undef, undef, 0.5;
		}
		is_deeply([ $moved{hits} >= 10, @moved{qw(reads_unbounded read_errors)} ], [ 1, 0, 0 ], 'no memory: a ring once there is some');
		$third->quit;
	}
	is(scalar(fc_warnings($node, $offset)), 1, 'one warning for all of them');
	$node->stop;
}

# A ring that breaks in the middle of a scan: what the session has begun is lost, and that is all. Neither it nor anybody
# else takes the requests that nobody will answer for a device that hangs. From 18 on scans are not read ahead so.
SKIP:
{
	skip 'no io_uring here', 6 if !fc_reads_ahead();
	$node = fc_new_node('broken', size => '8MB', buffers => '4MB', conf => <<'END');
max_connections = 12
max_worker_processes = 4
max_logical_replication_workers = 0
synchronize_seqscans = off
max_parallel_workers_per_gather = 0
pg_flashcache.io_timeout = '5s'
END
	skip 'other requests from 18 on', 6 if $node->pg_version >= 18;
	my $pages = 96;
	fc_everywhere($node);
	fc_table($node, 'postgres', 't', 'v1', $pages);
	fc_warm($node, undef, 'postgres', 't');

	my $row     = 'id, val = ' . fc_value_sql('v1');
	my $session = $node->background_psql('postgres');
	my $control = fc_control($node);
	# One request more, of so many pages that those which are read ahead then are not asked for yet.
	my $next = $node->pg_version < 17 ? 4 : 8;
	$session->query_safe("SELECT $row FROM t WHERE false");
	fc_push_out($node, fc_tag($node, 'postgres', 't'));
	my %moved = fc_delta($node, sub {
		$session->query_safe($_) foreach 'BEGIN', "DECLARE c CURSOR FOR SELECT $row FROM t";
		is($session->query_safe('FETCH 12 FROM c'), join("\n", map { "$_|t" } 1 .. 12), 'broken ring: the stream has begun');
		fc_failpoint($control, 'store_submit', 'error');
		is($session->query_safe("FETCH $next FROM c"), join("\n", map { "$_|t" } 13 .. 12 + $next), 'broken ring: the rows that are next');
		fc_failpoint($control, 'store_submit', 'off');
		# Longer than a request may take, and than the session waits until it tries for another ring.
		$session->query_safe('SELECT pg_sleep(6)');
		is($session->query_safe('FETCH ALL FROM c'), join("\n", map { "$_|t" } 13 + $next .. $pages), 'broken ring: all other rows');
		$session->query_safe('COMMIT');
	}, qw(timeouts switch_offs read_errors verify_failures));
	is_deeply(\%moved, { timeouts => 0, switch_offs => 0, read_errors => 0, verify_failures => 0 }, 'broken ring: no fault of the device');
	is(fc_view($node), 'active||interception', 'broken ring: the cache stays on');
	my $is_back = sub {
		my $hits = 0;
		for (my $i = 0; $i < 120 && $hits < $pages; $i++)
		{
			fc_push_out($node, fc_tag($node, 'postgres', 't'));
			my %read = fc_delta($node, sub { $session->query_safe("SELECT $row FROM t") }, 'hits');
			$hits = $read{hits};
		}
		return $hits >= $pages;
	};
	ok($is_back->(), 'broken ring: the session has another one');
	# What the kernel has not taken it does not write to: its memory is used again, however often rings break.
	my $times = 0;
	while ($times < 21)
	{
		fc_push_out($node, fc_tag($node, 'postgres', 't'));
		fc_failpoint($control, 'store_submit', 'error');
		$session->query_safe("SELECT $row FROM t");
		fc_failpoint($control, 'store_submit', 'off');
		last if !$is_back->();
		$times++;
	}
	is($times, 21, 'broken rings: the session has another one each time');
	$_->quit foreach $session, $control;
	$node->stop;
}

# A build that has no way to use it names itself as the cause, not the kernel.
{
	my $built = fc_new_node('built', start => 0, size => '8MB', conf => $limit);
	$built->append_conf('postgresql.conf', "shared_preload_libraries = '$ENV{FC_WITHOUT_LIBURING}'\n");
	$built->start;
	$built->wait_for_log(qr/WARNING: .* is off: no wait for the flash device can be bounded: pg_flashcache was built without liburing\n.*\n.*HINT:  Install liburing-dev, build and install the extension again, restart; or set pg_flashcache\.io_timeout to 0: /);
	is(scalar(fc_warnings($built)), 1, 'built without liburing: one warning, with what to do');
	$built->stop;
}
done_testing();

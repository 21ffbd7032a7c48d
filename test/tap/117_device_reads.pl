# Copyright (c) 2026, the pg_flashcache developers

# What the device is asked for: a page that is read from flash is read once, whatever is read ahead, however much the server
# announces, and however many scans of a process want pages at the same time. The kernel counts what a process has had read
# (/proc/PID/io); the data files are in the page cache, and direct reads of the flash file are all that is left.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 960;
my $node = fc_new_node('main', size => '64MB', buffers => '2MB', conf => <<'END');
max_connections = 12
max_logical_replication_workers = 0
synchronize_seqscans = off
max_parallel_workers_per_gather = 0
work_mem = '16MB'
END
fc_everywhere($node);
foreach my $table (qw(a b))
{
	fc_table($node, 'postgres', $table, 'v1', $pages);
	$node->safe_psql('postgres', "CREATE INDEX ON $table (id)");
}
$node->safe_psql('postgres', q{
	ALTER TABLE a SET (parallel_workers = 2);
	VACUUM ANALYZE;
	CREATE FUNCTION io() RETURNS bigint AS $$
		SELECT substring(pg_read_file('/proc/self/io') FROM '\mread_bytes: (\d+)')::bigint / 8192
	$$ LANGUAGE sql;
	-- the server's own functions are not for parallel workers
	CREATE FUNCTION worker_file(text) RETURNS text AS 'pg_read_file_all' LANGUAGE internal STRICT PARALLEL SAFE;
	CREATE FUNCTION worker_pid() RETURNS int AS 'pg_backend_pid' LANGUAGE internal STRICT PARALLEL SAFE;
	CREATE FUNCTION worker_io() RETURNS bigint AS $$
		SELECT substring(worker_file('/proc/self/io') FROM '\mread_bytes: (\d+)')::bigint / 8192
	$$ LANGUAGE sql PARALLEL SAFE;
});
fc_warm($node, undef, 'postgres', 'a', 'b');
my @tags = map { fc_tag($node, 'postgres', $_) } qw(a b);

# Only the plan that is meant.
sub only
{
	my @wanted = @_;
	return join '', map {
		my $way = $_;
		"SET enable_$way = " . ((grep { $_ eq $way } @wanted) ? 'on' : 'off') . ';'
	} qw(seqscan indexscan indexonlyscan bitmapscan mergejoin nestloop hashjoin sort material memoize tidscan);
}

# Runs a query and returns how many pages were hits, and how many the device was asked for. Of a parallel one the result is
# what its workers have had read. The session has looked at everything but the tables before.
sub run
{
	my ($settings, $query, $plan, $name) = @_;
	my $look = "SELECT 'look', hits, misses, io() FROM pg_stat_flashcache_session;";

	fc_push_out($node, $_) foreach @tags;
	my $output = $node->safe_psql('postgres', "$settings EXPLAIN (COSTS OFF) $query; $look $look SELECT 'result', r FROM ($query) q(r); $look");
	my @look = map { [ split /\|/ ] } $output =~ /^look\|(.*)$/mg;
	my ($result) = $output =~ /^result\|(.*)$/m;
	like($output, $plan, "$name: the plan");
	return ($look[2][0] - $look[1][0], $look[2][2] - $look[1][2], $result);
}

sub is_read_once
{
	my ($settings, $query, $plan, $expected, $name) = @_;
	my ($hits, $device, $result) = run($settings, $query, $plan, $name);

	$device += $result if $settings =~ /leader_participation/;
	cmp_ok($hits, '>=', $expected, "$name: from flash");
	cmp_ok($device, '<=', 1.1 * $hits, "$name: the device was asked for no more than 1.1 pages a hit") or diag("$device for $hits hits");
	# Else it is not the device that was counted. A worker that came too late for a row doesn't tell what its catalogs took.
	cmp_ok($device, '>=', $expected, "$name: and for each of them");
	return;
}

SKIP:
{
	my (undef, $device) = run(only('seqscan'), 'SELECT count(val) FROM a', qr/Seq Scan/, 'sequential scan');
	skip 'the kernel does not count what is read from the flash file: in memory?', 1 if $device == 0;

	my $bitmap = only('bitmapscan');
	foreach my $concurrency (0, 1, 32, 33, 200, 1000)
	{
		is_read_once("$bitmap SET effective_io_concurrency = $concurrency;",
			'SELECT count(val) FROM a WHERE id > 0', qr/Bitmap Heap Scan/, $pages, "bitmap scan, concurrency $concurrency");
	}
	is_read_once("$bitmap SET effective_io_concurrency = 0;", 'SELECT count(val) FROM a WHERE id % 3 = 0 AND id > 0',
		qr/Bitmap Heap Scan/, $pages, 'bitmap scan that is not announced');
	is_read_once("$bitmap SET effective_io_concurrency = 0;",
		'SELECT count(val) FROM a WHERE id = ANY (ARRAY(SELECT generate_series(1, 960, 3)))',
		qr/Bitmap Heap Scan/, $pages / 3, 'bitmap scan of every third page');
	is_read_once("$bitmap SET effective_io_concurrency = 16;" . only(qw(bitmapscan nestloop)),
		"SELECT sum(c) FROM generate_series(0, 18) g, LATERAL (SELECT count(a.val || b.val) AS c FROM a, b WHERE a.id = b.id AND a.id > 50 * g AND a.id <= 50 * g + 50) s",
		qr/Bitmap Heap Scan on a.*Bitmap Heap Scan on b|Bitmap Heap Scan on b.*Bitmap Heap Scan on a/s,
		$pages, 'two bitmap scans in turn');
	is_read_once(only('indexscan'), 'SELECT count(val) FROM a WHERE id > 0', qr/Index Scan/, $pages, 'index scan');
	is_read_once(only(qw(indexscan mergejoin)), 'SELECT count(a.val || b.val) FROM a, b WHERE a.id = b.id',
		qr/Merge Join/, 2 * $pages, 'merge join');
	is_read_once(only(qw(indexscan seqscan nestloop)), 'SELECT count(a.val || b.val) FROM a, b WHERE a.id = b.id',
		qr/Nested Loop/, 2 * $pages, 'nested loop');
	is_read_once(only(qw(indexscan nestloop)),
		'SELECT sum(c) FROM generate_series(0, 79) g, LATERAL (SELECT count(val) AS c FROM a WHERE id > g * 37 % 80 * 12 AND id <= g * 37 % 80 * 12 + 12) s',
		qr/Index Scan/, $pages - 40, 'nested loop over ranges');

	# What was announced by a scan that is over is not read by a later statement.
	{
		fc_push_out($node, $_) foreach @tags;
		my $look = "SELECT 'look', prefetches FROM pg_stat_flashcache;";
		my @look = $node->safe_psql('postgres', "$bitmap SET effective_io_concurrency = 1000; $look"
			  . 'SELECT count(val) FROM (SELECT val FROM a WHERE id > 0 LIMIT 400) s;' . only('indexscan') . $look
			  . join('', map { 'SELECT length(val) FROM b WHERE id = ' . (1 + $_ * 37 % $pages) . ';' } 1 .. 1600) . $look) =~ /^look\|(\d+)$/mg;
		is($look[2] - $look[1], 0, 'announced in vain: not read ahead later on');
	}

	# Two workers; the second number is how many pages they have had read when they had read their last row.
	my $parallel = 'SET parallel_leader_participation = off; SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0;'
	  . 'SET min_parallel_index_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET cpu_tuple_cost = 10; SET effective_io_concurrency = 32;';
	my $count = 'SELECT sum(io) FROM (SELECT pid, max(io) AS io FROM (SELECT worker_pid() AS pid, worker_io() AS io FROM a WHERE id > 0 AND length(val) > 0 OFFSET 0) r GROUP BY pid) s';
	foreach my $scan (qw(seqscan bitmapscan indexscan))
	{
		is_read_once($parallel . only($scan, 'sort'), $count, qr/Workers Planned: 2.*Parallel/s, $pages, "parallel $scan");
	}
}

# From 18 on reads from disk stay asynchronous. Each request to the disk takes 2 ms here; only of one that somebody has waited for
# within the storage manager is the time counted.
SKIP:
{
	skip 'reads are not asynchronous', 1
	  if $node->pg_version < 18 || $node->safe_psql('postgres', 'SHOW io_method') eq 'sync';
	# no page comes to flash
	$node->append_conf('postgresql.conf', "zero_damaged_pages = on\npg_flashcache.enabled = off");
	$node->reload;
	fc_wait_state($node, 'disabled');
	my $session = $node->background_psql('postgres');
	my $io = 'SELECT disk_reads, disk_read_time_us FROM pg_stat_flashcache_session';
	$session->query_safe("SET enable_$_ = off") foreach qw(indexscan indexonlyscan tidscan);
	$session->query_safe('PREPARE one AS SELECT length(val) FROM b WHERE ctid = $1');
	$session->query_safe('PREPARE sparse AS SELECT count(val) FROM b WHERE id = ANY (ARRAY(SELECT generate_series(1, 960, 10)))');
	# Runs statements in that session, which has run them before, and returns how many pages it has read from disk, and for how long.
	my $moved = sub {
		my @statements = @_;
		fc_push_out($node, $_) foreach @tags;
		my @before = split /\|/, $session->query_safe($io);
		fc_failpoint($node, 'disk_read', 'delay:2000');
		$session->query_safe($_) foreach @statements;
		fc_failpoint($node, 'disk_read', 'off');
		my @after = split /\|/, $session->query_safe($io);
		return map { $after[$_] - $before[$_] } 0, 1;
	};
	my @scan = ('BEGIN', 'DECLARE c CURSOR FOR SELECT id FROM a', 'MOVE 100 FROM c', 'MOVE ALL FROM c', 'COMMIT');

	$session->query_safe($_) foreach @scan, 'EXECUTE one(\'(5,1)\')', 'EXECUTE sparse', $io, $io;
	my ($reads, $time) = $moved->(@scan);
	cmp_ok($reads, '>=', $pages, 'disabled: a scan from disk');
	is($time, 0, 'disabled: nobody waited for any of it');

	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	fc_push_out($node, $_) foreach @tags;
	$session->query_safe($_) foreach @scan[0 .. 2];
	fc_failpoint($node, 'disk_read', 'delay:2000');
	my @before = split /\|/, $session->query_safe($io);
	$session->query_safe($scan[3]);
	my @after = split /\|/, $session->query_safe($io);
	fc_failpoint($node, 'disk_read', 'off');
	$session->query_safe($scan[4]);
	cmp_ok($after[0] - $before[0], '>=', $pages - 400, 'active: a stream from disk');
	is($after[1] - $before[1], 0, 'active, nothing on flash: nor for any of a stream');

	# What is waited for anyway is timed; of the rest a request now and then.
	$session->query_safe('SET enable_tidscan = on');
	($reads, $time) = $moved->('EXECUTE one(\'(7,1)\')');
	is($reads, 1, 'one page from disk');
	cmp_ok($time, '>=', 2000, 'one page from disk: is timed');
	$session->query_safe('SET enable_seqscan = off');
	($reads, $time) = $moved->('SELECT pg_sleep(0.3)', 'EXECUTE sparse');
	cmp_ok($reads, '>=', $pages / 10, 'every tenth page from disk');
	cmp_ok($time, '>=', 2000, 'every tenth page from disk: some of it is timed');
	$session->quit;
}

# A session that has other reads under way waits for hardly any of them in order to time it: when it goes on, the others have
# finished, and the disk has nothing to do.
SKIP:
{
	skip 'no workers read', 2 if $node->pg_version < 18 || $node->safe_psql('postgres', 'SHOW io_method') ne 'worker';
	$node->stop;
	# a session may pin its share of the buffers only, and reads no more at once
	$node->append_conf('postgresql.conf', "shared_buffers = '64MB'");
	my $is_slow = $node->basedir . '/slow';
	local $ENV{FC_SLOW} = $is_slow;
	# A read of a data file takes 50 ms while that file is there.
	fc_start_odd($node, fc_library('slow_reads', <<'END'));
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static char is_slow[1024];

__attribute__((constructor)) static void
begin(void)
{
	snprintf(is_slow, sizeof(is_slow), "%s", getenv("FC_SLOW") ? getenv("FC_SLOW") : "");
}

static void
wait_for(int fd)
{
	char		name[64],
				file[1024] = "";

	if (is_slow[0] == '\0' || access(is_slow, F_OK) != 0)
		return;
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (readlink(name, file, sizeof(file) - 1) <= 0 || strstr(file, "/base/") == NULL)
		return;
	usleep(50000);
	/* a byte for each, in a file of this process */
	snprintf(file, sizeof(file), "%.900s.%d", is_slow, (int) getpid());
	fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd < 0 || write(fd, "", 1) != 1 || close(fd) != 0)
		abort();
}

ssize_t
pread(int fd, void *memory, size_t bytes, off64_t offset)
{
	static ssize_t (*next) (int, void *, size_t, off64_t) = NULL;

	if (next == NULL)
		*(void **) &next = dlsym(RTLD_NEXT, "pread");
	wait_for(fd);
	return next(fd, memory, bytes, offset);
}

ssize_t
preadv(int fd, const struct iovec *iov, int n, off64_t offset)
{
	static ssize_t (*next) (int, const struct iovec *, int, off64_t) = NULL;

	if (next == NULL)
		*(void **) &next = dlsym(RTLD_NEXT, "preadv");
	wait_for(fd);
	return next(fd, iov, n, offset);
}
END
	fc_wait_active($node);
	my $session = $node->background_psql('postgres');
	$session->query_safe("SET enable_$_ = off") foreach qw(seqscan indexscan indexonlyscan);
	$session->query_safe('SET effective_io_concurrency = 16');
	foreach my $table (qw(a b))
	{
		$session->query_safe("PREPARE $table AS SELECT count(val) FROM $table WHERE id = ANY (ARRAY(SELECT generate_series(1, 960, 10)))");
	}
	$session->query_safe('EXECUTE a');
	my $index  = $node->safe_psql('postgres', q{SELECT pg_relation_size('b_id_idx') / 8192});
	my $pid    = $session->query_safe('SELECT pg_backend_pid()');
	my $begin  = time;
	append_to_file($is_slow, '');
	is($session->query_safe('EXECUTE b'), 96, 'every tenth page, read ahead');
	unlink $is_slow or die $!;
	# the pages of the index, which are read one by one; the first request, and one in 2 s
	my $most = $index + 1 + int((time - $begin) / 2);
	cmp_ok(-s "$is_slow.$pid", '<=', $most, "every tenth page, read ahead: at most $most reads are the session's own");
	$session->quit;
}

fc_is_clean($node);
$node->stop;

done_testing();

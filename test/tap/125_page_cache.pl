# What the kernel is asked about its page cache: each page that is on flash once, whatever becomes of its request, and no file
# is opened for it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# cachestat(2), on any kernel: holds nothing, and notes who asks about which file.
my $asked   = PostgreSQL::Test::Utils::tempdir() . '/asked';
my $library = fc_library('cachestat', <<'END');
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long
syscall(long number, ...)
{
	static long (*next) (long, ...) = NULL;
	char		name[64],
				file[1024] = "",
				line[1200];
	va_list		args;
	long		arg[6];
	int			fd,
				n;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	if (next == NULL)
		*(void **) &next = dlsym(RTLD_NEXT, "syscall");
	if (number != 451)
		return next(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
	snprintf(name, sizeof(name), "/proc/self/fd/%ld", arg[0]);
	if (readlink(name, file, sizeof(file) - 1) <= 0)
		return -1;
	n = snprintf(line, sizeof(line), "%d %s\n", (int) getpid(), file);
	fd = open(getenv("FC_ASKED"), O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (fd < 0 || write(fd, line, n) != n || close(fd) != 0)
		abort();
	memset((void *) arg[2], 0, 5 * 8);
	return 0;
}
END
local $ENV{FC_ASKED} = $asked;
append_to_file($asked, '');

# A process may pin its share of the buffers only, and read no more than that at once.
my $node = fc_odd_node('main', preload => $library, size => '8MB', buffers => '4MB', conf => <<'END');
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_connections = 12
max_worker_processes = 4
max_logical_replication_workers = 0
max_files_per_process = 64
max_parallel_workers_per_gather = 0
plan_cache_mode = force_generic_plan
enable_seqscan = off
pg_flashcache.verify = off
END
fc_create_sql($node);
fc_wait_active($node);
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_prewarm;
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(0, 7) n;
	CREATE TABLE u (id int PRIMARY KEY, v text);
	ALTER TABLE u ALTER v SET STORAGE PLAIN;
	INSERT INTO u VALUES (1, repeat('x', 5000));
	VACUUM ANALYZE;
	SELECT format('CREATE TABLE f%s AS SELECT 1 AS n', n) FROM generate_series(1, 100) n \gexec
});
fc_to_flash($node, $_) foreach 't', 'u';

# Nothing is filled any more. Two pages of t are changed, and gone from flash; their rows are on a ninth page now. A second
# page of u does not get there either.
$node->append_conf('postgresql.conf', 'zero_damaged_pages = on');
$node->reload;
$node->poll_query_until('postgres', 'SHOW zero_damaged_pages', 'on');
$node->safe_psql('postgres', q{UPDATE t SET v = v WHERE ctid IN ('(0,1)', '(3,1)'); INSERT INTO u VALUES (2, repeat('y', 5001)); CHECKPOINT});
is(fc_in_flash($node, 't'), 6, 'six of eight pages are on flash');
fc_evict($node, 't');
$node->append_conf('postgresql.conf', 'pg_flashcache.os_cache_probe = auto');
$node->reload;
$node->poll_query_until('postgres', 'SHOW pg_flashcache.os_cache_probe', 'auto');

my $session = $node->background_psql('postgres');
my $pid     = $session->query_safe('SELECT pg_backend_pid()');
my $path    = sub { return $node->data_dir . '/' . $node->safe_psql('postgres', "SELECT pg_relation_filepath('$_[0]')") };
my %file    = map { $_ => $path->($_) } 't', 'u';
my $asks    = sub { return scalar grep { $_ eq "$pid $file{$_[0]}" } split /\n/, slurp_file($asked) };
my $reads   = 'SELECT hits, misses FROM pg_stat_flashcache_session';

# What it needs but the pages is in the session then.
$session->query_safe($_) foreach $reads, q{SELECT pg_prewarm('t', 'buffer', 'main', 8, 8)}, $reads;
my @before = ($asks->('t'), split /\|/, $session->query_safe($reads));
$session->query_safe(q{SELECT pg_prewarm('t', 'buffer', 'main', 0, 7)});
my @after = ($asks->('t'), split /\|/, $session->query_safe($reads));
is_deeply([ map { $after[$_] - $before[$_] } 0 .. 2 ], [ 6, 6, 2 ], 'a request with gaps: asked about six pages, six hits, two misses');

# The server has closed the file for want of descriptors: it is not opened to ask about it.
my $has = sub { return scalar grep { (readlink $_ // '') eq $file{u} } glob "/proc/$pid/fd/*" };
my $asked_in = sub {
	my ($id, $name) = @_;
	fc_evict($node, 'u');
	my ($before, $hits) = ($asks->('u'), split /\|/, $session->query_safe($reads));
	is($session->query_safe("EXECUTE one($id)"), 4999 + $id, "$name: the row");
	my ($after, $more) = ($asks->('u'), split /\|/, $session->query_safe($reads));
	return ($more > $hits ? 'from flash' : 'from disk', $after - $before);
};
$session->query_safe($_) foreach 'PREPARE one(int) AS SELECT length(v) FROM u WHERE id = $1', 'EXECUTE one(1)';
is_deeply([ $asked_in->(1, 'open') ], [ 'from flash', 1 ], 'open: from flash, asked');
is($has->(), 1, 'open: it is');
$session->query_safe(q{DO $$ BEGIN FOR i IN 1 .. 100 LOOP EXECUTE format('SELECT count(*) FROM f%s', i); END LOOP; END $$});
is($has->(), 0, 'closed: it is');
is_deeply([ $asked_in->(1, 'closed') ], [ 'from flash', 0 ], 'closed: from flash, not asked');
is($has->(), 0, 'closed: it still is');
is_deeply([ $asked_in->(2, 'used') ], [ 'from disk', 0 ], 'used: from disk');
is($has->(), 1, 'used: it is open');
is_deeply([ $asked_in->(1, 'open again') ], [ 'from flash', 1 ], 'open again: from flash, asked');
$session->quit;

$node->stop;
done_testing();

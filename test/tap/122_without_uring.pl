# A server that may not use io_uring, as in many containers: reads block, which the log and the view say; all else is as
# with it.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# What a container's runtime does: the system call is refused, for this process and all its children.
my $library = fc_library('no_uring', <<'END');
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
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

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		abort();
}
END

# The delays below are longer than the time-out.
my $node = fc_odd_node('main', preload => $library, size => '8MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\npg_flashcache.io_timeout = '100ms'\n");
my $content = 'SELECT count(*), min(length(v)), max(length(v)) FROM t';

fc_create_sql($node);
fc_wait_active($node);
$node->safe_psql('postgres', q{
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 10) n;
});
is($node->safe_psql('postgres', 'SELECT state, waits_bounded FROM pg_stat_flashcache'), 'active|f', 'the view says so');
like(slurp_file($node->logfile), qr/is active: .*\n.*DETAIL:  There is no io_uring here: a device that hangs would hold up who reads from it\./,
	'and so does the log');

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

$node->stop;
done_testing();

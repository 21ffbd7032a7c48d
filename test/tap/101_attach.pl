# The ways into the server, and what happens where there is none: PostgreSQL runs normally, exactly one WARNING names the
# reason, the view shows it. (More than one matching table cannot be made in the real program; see test/unit.)

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub is_detached
{
	my ($node, $reason, $what) = @_;
	my @warnings = fc_warnings($node);

	is(fc_view($node), "detached|$reason|", "$what: the view says so");
	is_deeply(\@warnings, ["pg_flashcache is detached: $reason"], "$what: one warning");
	ok(fc_works($node), "$what: the server works");
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	is($rc, 3, "$what: cannot be enabled");
	like($stderr, qr/ERROR:  pg_flashcache is detached: \Q$reason\E\nHINT:  This can only change with a restart/,
		"$what: enable says why");
	$node->stop;
	return;
}

# Interception, on the stock server.
{
	my $node = fc_odd_node('stock');

	fc_wait_active($node);
	is(fc_view($node), 'active||interception', 'stock server: intercepted');
	ok(fc_works($node), 'stock server: works');
	is_deeply([ fc_warnings($node) ], [], 'stock server: no warning');

	# What users build has no way to inject faults.
	my ($rc, undef, $stderr) = $node->psql('postgres',
		"CREATE FUNCTION f(text, text) RETURNS void AS '$ENV{FC_PRODUCTION}', 'fc_failpoint_set' LANGUAGE C");
	is($rc, 3, 'production build: no failpoints');
	like($stderr, qr/ERROR:  could not find function "fc_failpoint_set" in file "\Q$ENV{FC_PRODUCTION}\E"/,
		'production build: the function is not there');
	$node->stop;
}

# An unknown version.
{
	my $install = fc_server_copy();

	fc_patch_version("$install/bin/postgres", 990000);
	my $node = fc_odd_node('version', install => $install);

	is($node->safe_psql('postgres', 'SHOW server_version_num'), '990000', 'unknown version: the patch took');
	is_detached($node, 'server version 990000 is not known', 'unknown version');
}

# A table with one other entry. It is never called: nothing is asked to be written back.
{
	my $install = fc_server_copy();

	my ($write) = grep { /^mdwritev?$/ } fc_table_calls();
	fc_patch_table("$install/bin/postgres", $write, 'mdwriteback', 'smgrreleaseall');
	my $node = fc_odd_node(
		'mismatch',
		install => $install,
		conf    => "checkpoint_flush_after = 0\nbgwriter_flush_after = 0\nbackend_flush_after = 0\n");

	is_detached($node, q{the server's storage-manager table was found 0 times instead of once}, 'mismatch');
}

# Forks of PostgreSQL have interfaces for storage managers of others. One symbol of any of them is enough.
foreach my $symbol ([ 'smgr_register', 'int smgr_register(void); int smgr_register(void) { return 1; }' ],
	[ 'storage_manager_id', 'int storage_manager_id;' ], [ 'storage_manager_string', 'char *storage_manager_string;' ],
	[ 'MdSMgrId', 'unsigned char MdSMgrId;' ], [ 'smgr_hook', 'void *smgr_hook;' ], [ 'smgr_init_hook', 'void *smgr_init_hook;' ])
{
	my ($name, $text) = @$symbol;
	my $node = fc_odd_node("fork_$name", preload => fc_library("fork_$name", $text));

	is_detached($node, qq{the server has a storage-manager interface that is not known ("$name")}, $name);
}

# Other libraries have taken all numbers for kinds of locks, of which 19 has a few: the server starts, with the cache.
SKIP:
{
	my $eater = fc_library('eater', <<'END');
#include <dlfcn.h>

typedef void (*Hook) (void);
static Hook *hook;
static Hook next;

static void
eat(void)
{
	int			(*take) (const char *) = (int (*) (const char *)) dlsym(RTLD_DEFAULT, "LWLockNewTrancheId");

	if (next)
		next();
	for (int i = 0; i < 256; i++)
		take("eaten");
}

__attribute__((constructor)) static void
begin(void)
{
	hook = (Hook *) dlsym(RTLD_DEFAULT, "shmem_startup_hook");
	if (hook)
	{
		next = *hook;
		*hook = eat;
	}
}
END
	my $node = PostgreSQL::Test::Cluster->new('eaten');

	skip 'the numbers do not run out before 19', 2 if $node->pg_version < 19;
	$node->init;
	$node->append_conf('postgresql.conf', fc_conf($node));
	fc_start_odd($node, $eater);
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_flashcache');
	fc_wait_active($node);
	ok(fc_works($node), 'no number for a kind of lock: the server works');
	# Each process answers a barrier, and the postmaster ends: interrupts are handled.
	is($node->safe_psql('postgres', "CREATE DATABASE one"), '', 'no number for a kind of lock: interrupts are handled');
	$node->stop;
}

# The table is there and was replaced, but the file system under the self-test's relation returns something else.
{
	my $library = fc_library('liar', <<'END');
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void
lie(int fd, char *buf, ssize_t got)
{
	char		proc[64];
	char		path[1024];
	ssize_t		len;

	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", fd);
	len = readlink(proc, path, sizeof(path) - 1);
	if (len > 0 && got > 0)
	{
		path[len] = '\0';
		if (strstr(path, "/t999999_") != NULL)
			buf[0] ^= 1;
	}
}

/* a program reads under one of these names, depending on how it was compiled */
#define LIAR(name) \
ssize_t name(int fd, void *buf, size_t n, off64_t offset); \
ssize_t \
name(int fd, void *buf, size_t n, off64_t offset) \
{ \
	ssize_t		(*real) (int, void *, size_t, off64_t) = dlsym(RTLD_NEXT, #name); \
	ssize_t		got = real(fd, buf, n, offset); \
	lie(fd, buf, got); \
	return got; \
}
LIAR(pread)
LIAR(pread64)

ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t len);
ssize_t
__pread64_chk(int fd, void *buf, size_t n, off64_t offset, size_t len)
{
	(void) len;
	return pread64(fd, buf, n, offset);
}
END
	my $node = fc_odd_node('self_test', preload => $library);

	$node->poll_query_until('postgres', "SELECT state <> 'starting' FROM pg_stat_flashcache") or die;
	my $reason = 'self-test read back another page than it wrote';

	is(fc_view($node), "off|$reason|interception", 'self-test: the view says so');
	# The writer warns after it has changed the state.
	$node->wait_for_log(qr/WARNING: .* is off/);
	is_deeply([ fc_warnings($node) ], ["pg_flashcache is off: $reason"], 'self-test: one warning');
	ok(fc_works($node), 'self-test: the server works');
	is(join('|', map { $_ // '' } (fc_stat($node, 'inserts'))), 'inserts|0', 'self-test: nothing is cached');
	$node->stop;
}

# The self-test can't be carried out: the cache is off until it can, and takes no part before.
{
	my $node = fc_new_node('no_test', start => 0);
	my $base = $node->data_dir . '/base/1';

	chmod 0500, $base or die "chmod: $!";
	$node->start;
	fc_create_sql($node);
	fc_wait_state($node, 'off');
	my $reason = qr/self-test could not be carried out: could not create file "base\/1\/t999999_\d+": Permission denied/;
	like(fc_view($node), qr/^off\|$reason\|interception$/, 'no self-test: off');
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	is($rc, 3, 'no self-test: not enabled');
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: $reason\nHINT:  The test writes a small file/,
		'no self-test: enable says why');
	# No probe from now on: what brings it back is what is asked for.
	fc_failpoint($node, 'probe_due', 'error');
	chmod 0700, $base or die "chmod: $!";
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'self-test possible: enabled');
	is(fc_view($node), 'active||interception', 'self-test possible: active');
	is_deeply([ map { s/999999_\d+/T/r } fc_warnings($node) ],
		['pg_flashcache is off: self-test could not be carried out: could not create file "base/1/tT": Permission denied'],
		'no self-test: one warning');
	$node->stop;

	# A probe brings it back as well.
	chmod 0500, $base or die "chmod: $!";
	$node->start;
	fc_wait_state($node, 'off');
	chmod 0700, $base or die "chmod: $!";
	fc_wait_active($node);
	pass('self-test possible: a probe finds it');
	$node->stop;

	# There is no place for the writer. (The launcher of logical replication has the one.)
	my $log = -s $node->logfile;
	$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
	$node->start;
	$reason = 'there is no room for its background process: max_worker_processes is 1';
	is(fc_view($node), "disabled|$reason|", 'no worker: the view says so');
	is_deeply([ fc_warnings($node, $log) ], ["pg_flashcache is disabled: $reason"], 'no worker: one warning');
	($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/is disabled: \Q$reason\E\nHINT:  Raise max_worker_processes/, 'no worker: enable says why');
	is($node->safe_psql('postgres', 'SELECT memory_bytes FROM pg_stat_flashcache'), '0', 'no worker: no memory');
	$node->stop;
}

# Loaded by CREATE EXTENSION only.
{
	my $node = PostgreSQL::Test::Cluster->new('not_preloaded');

	$node->init;
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_flashcache');
	is(fc_view($node), 'detached|pg_flashcache is not in shared_preload_libraries|', 'not preloaded: the view says so');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_pages'), '0', 'not preloaded: no pages');
	ok(fc_works($node), 'not preloaded: the server works');
	$node->stop;
}

done_testing();

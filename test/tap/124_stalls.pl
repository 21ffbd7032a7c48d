# Devices that stop to answer at the moment when they are opened, read or closed: a file on a file system that asks its process
# for each of these (test/lib/hangfs.c), and a block device. No query waits longer than io_timeout, and the cache is off. No
# pause points are used while the device stands still: with them, what is in memory is read as if it were on a device.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $places = $ENV{FC_PLACES};
plan skip_all => 'not run by root' if !$places || !-p "$places/ask";
$places = realpath($places);
plan skip_all => 'no FUSE, or no loop devices' if !-l "$places/stalls.device";

my $hung = 'the flash device did not answer for 2000 ms';
my $node = fc_new_node('main', start => 0,
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\npg_flashcache.io_timeout = '2s'\npg_flashcache.pause_when_slow = off\n");

END
{
	my $status = $?;
	fc_ask($places, 'unstall') if $places && -l "$places/stalls.device";
	$? = $status;
}

sub start_with
{
	my ($file) = @_;
	fc_start_with($node, $file, '2MB');
	fc_create_sql($node);
	fc_wait_active($node);
	$node->safe_psql('postgres', q{
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int PRIMARY KEY, v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT n, repeat('x', 5000) FROM generate_series(1, 20) n;
		VACUUM ANALYZE t;
	});
	return;
}

# The answer comes although the device stands still; who waits for it all the same is set free.
sub answers
{
	my ($sql, $what) = @_;
	my ($answer, $late);
	$node->psql('postgres', $sql, stdout => \$answer, timeout => 60, timed_out => \$late);
	fc_ask($places, 'unstall') if $late;
	is($late ? 'no answer in 60 s' : $answer, 20, "$what: the query is answered");
	return;
}

sub is_off
{
	my ($what) = @_;
	is($node->safe_psql('postgres', q{SELECT state || ': ' || reason FROM pg_stat_flashcache}), "off: $hung", "$what: off");
	return;
}

sub goes_on
{
	my ($what) = @_;
	fc_ask($places, 'unstall');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', "$what: back");
	return;
}

# More sessions than a file system takes requests of (12, as a rule) read at once, each a page of its own. All have it open, and
# have looked up in the catalogs what they need.
sub many_at_once
{
	my ($what) = @_;
	my $script = PostgreSQL::Test::Utils::tempdir() . '/many.sql';
	my $page = sub { return "SELECT count(v) FROM s WHERE ctid = format('(%s,1)', :client_id + $_[0])::tid;\n" };
	append_to_file($script, $page->(20) . "SELECT pg_advisory_lock_shared(1);\n" . $page->(0));
	$node->safe_psql('postgres', q{
		CREATE TABLE s (LIKE t);
		ALTER TABLE s ALTER v SET STORAGE PLAIN;
		INSERT INTO s TABLE t;
		INSERT INTO s TABLE t;
		VACUUM ANALYZE s});
	fc_to_flash($node, 's');
	fc_evict($node, 's');
	my $gate = $node->background_psql('postgres');
	$gate->query_safe('SELECT pg_advisory_lock(1)');
	my ($out, $err) = ('', '');
	my $bench = IPC::Run::start([ 'pgbench', '-n', '-c', 20, '-j', 1, '-t', 1, '-f', $script, $node->connstr('postgres') ], '<', \undef, '>', \$out, '2>', \$err);
	$node->poll_query_until('postgres', q{SELECT count(*) = 20 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted}) or die $err;
	fc_evict($node, 's');
	my $had = { fc_stat($node, 'timeouts') }->{timeouts};
	fc_ask($places, 'stall');
	$gate->query_safe('SELECT pg_advisory_unlock(1)');
	my $left = 600;
	while ($bench->pumpable && $left-- > 0) { eval { $bench->pump_nb }; usleep(100_000) }
	fc_ask($places, 'unstall') if $left < 0;
	$bench->finish;
	is($left < 0 ? 'no answer in 60 s' : $out =~ m{number of transactions actually processed: 20/20} ? 20 : $err, 20,
		"$what stands still while 20 sessions read it: all are answered");
	cmp_ok({ fc_stat($node, 'timeouts') }->{timeouts} - $had, '>', 12, "$what stands still while 20 sessions read it: so many requests were under way");
	is_off("$what stands still while 20 sessions read it");
	$gate->quit;
	goes_on("$what, 20 sessions");
	fc_to_flash($node, 't');
	return;
}

my $read = 'SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM t';

# Read and closed: by a session that has the file open.
foreach my $place ([ "$places/stalls/mnt/cache", 'a file' ], [ readlink "$places/stalls.device", 'a block device' ])
{
	my ($file, $what) = @$place;
	start_with($file);
	is($node->safe_psql('postgres', q{SELECT waits_bounded FROM pg_stat_flashcache}), 't', "$what: waits are bounded");
	fc_to_flash($node, 't');
	my $other = $node->background_psql('postgres');
	$other->query_safe($read);
	fc_evict($node, 't');

	many_at_once($what) if $what eq 'a file';
	fc_ask($places, 'stall');
	answers($read, "$what stands still while it is read");
	is_off("$what stands still while it is read");
	fc_evict($node, 't');
	# It closes it, and to close a block device is to wait for whoever opens it.
	my $held = $what eq 'a block device' && fc_ask($places, 'open');
	note('this kernel does not hold up who opens it') if $what eq 'a block device' && !$held;
	is(eval { $other->query_safe('SELECT count(v) FROM t') } // "no answer: $@",
		20, "$what: a session that has it open goes on" . ($held ? ', while somebody opens it' : ''));
	goes_on("$what, read");
	$other->quit;

	# Opened: the kernel knows its name.
	fc_to_flash($node, 't');
	fc_ask($places, 'stall');
	answers($read, "$what stands still while it is opened");
	is_off("$what stands still while it is opened");
	goes_on("$what, opened");

	# Opened to read ahead what a bitmap scan announces, of which the first page is in the buffer pool.
  SKIP:
	{
		skip 'this version announces nothing here', 3 if $node->pg_version >= 18;
		fc_to_flash($node, 't');
		$node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT v FROM t WHERE id = 1');
		fc_ask($places, 'stall');
		answers('SET effective_io_concurrency = 16; SET enable_seqscan = off; SET enable_indexscan = off; SELECT count(v) FROM t WHERE id > 0',
			"$what stands still while it is opened to read ahead");
		is_off("$what stands still while it is opened to read ahead");
		goes_on("$what, opened to read ahead");
	}
	$node->stop;
}

# Closed when that is an error: the number of the descriptor is free all the same, and may be somebody else's by the next look.
{
	my $file = "$places/stalls/lost/cache";
	$node->append_conf('postgresql.conf', 'pg_flashcache.io_timeout = 0');
	start_with($file);
	fc_to_flash($node, 't');
	my $session = $node->background_psql('postgres');
	$session->query_safe($read);
	my $pid   = $session->query_safe('SELECT pg_backend_pid()');
	my $leads = sub { return readlink("/proc/$pid/fd/$_[0]") // 'nowhere' };
	my ($fd) = grep { $leads->($_) eq $file } map { s/.*\///r } glob "/proc/$pid/fd/*";
	ok(defined $fd, 'process gone: the session has the file open');

	fc_ask($places, 'lose');
	is($node->safe_psql('postgres', $read), 20, 'process gone: the query is answered');
	fc_wait_state($node, 'off');
	# Each reads pages of another file, which is opened then.
	foreach my $table (map { "c$_" } 1 .. 10)
	{
		$node->safe_psql('postgres', "CREATE TABLE $table AS SELECT 1");
		fc_evict($node, $table);
		is(eval { $session->query_safe("SELECT count(*) FROM $table") } // "no answer: $@", 1, 'process gone: another table is read');
		last if $leads->($fd) =~ m{/base/};
	}
	my $now = $leads->($fd);
	like($now, qr{/base/}, 'process gone: the number is that of a data file now');
	fc_evict($node, 't');
	is($session->query_safe('SELECT count(v) FROM t'), 20, 'process gone: more pages from the disk');
	is($leads->($fd), $now, 'process gone: and stays so');
	$session->quit;
	$node->stop;
}

done_testing();

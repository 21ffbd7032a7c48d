# Devices that really fail: see test/lib/root-places.sh, which test.sh calls when it runs as root. Each fault: queries go on
# with the right answers, the cache is off and says why, it is back by itself when the device is, and nothing stale is left.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use Cwd qw(realpath);
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $places = $ENV{FC_PLACES};
plan skip_all => 'not run by root' if !$places || !-p "$places/ask";
$places = realpath($places);

sub ask
{
	my ($word) = @_;
	return fc_ask($places, $word);
}

my $node  = fc_new_node('main', start => 0,
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\npg_flashcache.io_timeout = '2s'\n"
	  . "restart_after_crash = on\n");
my $round = 0;
my $frozen = 0;

# Whatever happens, no disk is left hanging.
END
{
	my $status = $?;
	ask('release') if $places && -d "$places/lab/mnt";
	ask('thaw') if $frozen;
	$? = $status;
}

sub start_with
{
	my ($file, $size) = @_;
	fc_start_with($node, $file, $size);
	fc_create_sql($node);
	fc_wait_active($node);
	$node->safe_psql('postgres', q{
		CREATE OR REPLACE FUNCTION content(id int, round int) RETURNS text AS $$
			SELECT to_char(id + round, 'FM000000') || repeat('x', 5000)
		$$ LANGUAGE sql;
		DROP TABLE IF EXISTS t;
		CREATE TABLE t (id int, v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
	});
	$node->safe_psql('postgres', "INSERT INTO t SELECT n, content(n, $round) FROM generate_series(1, 20) n");
	return;
}

sub answers
{
	my ($what) = @_;
	return is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v = content(id, $round)"), 20, "$what: the query is answered");
}

sub change
{
	$round += 100;
	$node->safe_psql('postgres', "UPDATE t SET v = content(id, $round)"); $node->safe_psql('postgres', 'VACUUM t; CHECKPOINT');
	return;
}

sub reason
{
	return $node->safe_psql('postgres', q{SELECT state || ': ' || coalesce(reason, '') FROM pg_stat_flashcache});
}

# Waits for the cache to be off for a reason.
sub goes_off
{
	my ($pattern, $what) = @_;
	ok($node->poll_query_until('postgres', "SELECT state = 'off' AND reason ~ '$pattern' FROM pg_stat_flashcache"), $what)
	  or diag reason();
	return;
}

sub is_back
{
	my ($what) = @_;
	fc_wait_active($node);
	fc_to_flash($node, 't');
	my %moved = fc_delta($node, sub { answers($what) }, 'verify_failures', 'checksum_failures', 'read_errors');
	is_deeply(\%moved, { verify_failures => 0, checksum_failures => 0, read_errors => 0 }, "$what: back by itself, nothing stale");
	return;
}

sub set
{
	my ($line) = @_;
	$node->append_conf('postgresql.conf', "$line\n");
	$node->reload;
	return;
}

# One of the server's own processes dies, and recovery has to succeed while the device is in this state.
sub recovers
{
	my ($what) = @_;
	my $offset = -s $node->logfile;
	kill 'KILL', $node->safe_psql('postgres', "SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'");
	$node->wait_for_log(qr/database system is ready to accept connections/, $offset);
	$node->poll_query_until('postgres', 'SELECT true') or die;
	return answers("$what: the server has recovered");
}

# Is the device process in the kernel, where no signal reaches it?
sub stands
{
	my ($what) = @_;
	my $state = '';
	for (1 .. 300)
	{
		my $pid = fc_device_process($node);
		$state = slurp_file("/proc/$pid/stat") =~ s/.*\) (\S) .*/$1/sr if $pid;
		last if $state eq 'D';
		select undef, undef, undef, 0.1;
	}
	return is($state, 'D', "$what: the device process stands in the kernel");
}

# A disk that is there and does not answer: the process that plays it is stopped. The cache's file is on ext4 on a loop
# device on it.
SKIP:
{
	skip 'no FUSE, or no loop devices: no disk that can be stopped (python3 -m pgflash.lab.storage check says what is missing)', 33
	  if !-d "$places/lab/mnt/cache";
	start_with("$places/lab/mnt/cache/flash", '2MB');
	skip 'no io_uring here: nobody can turn away from a device', 33 if !fc_reads_ahead();
	my $hung = 'the flash device did not answer for 2000 ms';

	# The sessions wait at the same time, each of them once, and no longer.
	fc_to_flash($node, 't');
	my %before = fc_stat($node, 'timeouts', 'switch_offs');
	my @sessions = map { $node->background_psql('postgres') } 1 .. 3;
	$_->query_safe("SELECT count(v) FROM t WHERE v = content(1, 1) AND false") foreach @sessions;
	fc_to_flash($node, 't');
	ask('hang');
	my $n = 0;
	$_->query_until(qr/begun/, "\\echo begun\nSELECT count(*) FROM t WHERE v = content(id, $round);\n") foreach @sessions;
	is($_->query_safe("SELECT 'after'") =~ s/.*\b(20)\b.*/$1/sr, 20, 'hung: session ' . ++$n . ' is answered') foreach @sessions;
	is(reason(), "off: $hung", 'hung: off');
	my %after = fc_stat($node, 'timeouts', 'switch_offs');
	my $waits = $after{timeouts} - $before{timeouts};
	ok($waits >= 1 && $waits <= 4, 'hung: each process has waited once at most') or diag $waits;
	is($after{switch_offs} - $before{switch_offs}, 1, 'hung: off once');
	answers('hung');
	change();
	answers('hung, changed');

	# Nothing of the server waits for the device.
	my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/could not be enabled: $hung/, 'hung: enable comes back');
	$node->safe_psql('postgres', 'CREATE DATABASE d');
	$node->safe_psql('postgres', 'DROP DATABASE d');
	pass('hung: databases are made and dropped');
	set('pg_flashcache.enabled = off');
	fc_wait_state($node, 'disabled');
	set('pg_flashcache.enabled = on');
	goes_off($hung, 'hung: off and on');
	$_->quit foreach @sessions;
	pass('hung: sessions end');
	$node->stop('fast');
	pass('hung: the server stops');
	$node->start;
	# The kernel keeps the file, and the lock on it, for the requests that have not ended.
	goes_off("did not answer|is in use by another server", 'hung: the server starts, and the cache is off');
	answers('hung, restarted');
	fc_kill_writer($node);
	goes_off("did not answer|is in use by another server", 'hung: the server recovers from a crash');
	answers('hung, recovered');
	ask('release');
	is_back('released');

	# Slow at run time, and fast again.
	set('pg_flashcache.pause_when_slow = on');
	fc_failpoint($node, 'disk_read', 'delay:2000');
	ask('slow');
	for (1 .. 30)
	{
		last if $node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache') ne 'active';
		fc_to_flash($node, 't');
		answers_quietly();
	}
	like(reason(), qr/^paused: flash is slower than the disk/, 'slow: left alone');
	answers('slow');
	ask('fast');
	is_back('fast again');
	fc_failpoint($node, 'disk_read', 'off');
	set('pg_flashcache.pause_when_slow = off');

	# It stops in the middle of a write.
	ask('hang');
	$node->safe_psql('postgres', 'CREATE TABLE w AS SELECT 1 AS n');
	fc_evict($node, 'w');
	goes_off($hung, 'write hung: off');
	answers('write hung');
	$node->stop('fast');
	pass('write hung: the server stops');
	ask('release');
	$node->start;
	is_back('write released');

	# Without a time-out the writer waits as long as it takes, but not against the will of who runs the server.
	# Nothing is on flash, so that no session reads from there.
	set('pg_flashcache.io_timeout = 0');
	my $scrub = $node->background_psql('postgres', on_error_stop => 0);
	$scrub->query_safe('SELECT pg_flashcache_scrub(true)');
	ask('hang');
	$scrub->query_until(qr/begun/, "\\echo begun\nSELECT pg_flashcache_scrub(true);\n");
	stands('no time-out');
	is(reason(), 'active: ', 'no time-out: waited for');
	set("pg_flashcache.io_timeout = '2s'");
	goes_off('the flash device (does|did) not answer', 'no time-out: a new one ends the wait');
	$scrub->quit;
	$node->stop('fast');
	pass('no time-out: the server stops');
	ask('release');

	# It hangs already when it is opened.
	ask('remount');
	ask('hang');
	$node->start;
	stands('opening');
	answers('opening');
	$node->stop('fast');
	pass('opening: the server stops');
	ask('release');
	$node->start;
	is_back('opening');
	$node->stop;
}

# A drive that becomes read-only, one that loses its end, one that is taken away, one that has less room than it said.
SKIP:
{
	skip 'no loop device could be made', 17 if !-l "$places/drive";
	my $drive = readlink "$places/drive";

	start_with($drive, '2MB');
	fc_to_flash($node, 't');
	ask('readonly');
	change();
	fc_evict($node, 't');
	for (1 .. 20)
	{
		last if reason() =~ /^off/;
		change();
		fc_evict($node, 't');
	}
	goes_off('could not (write|open)', 'read-only: off');
	answers('read-only');
	goes_off('could not (open|write to) ".*": (Permission denied|Read-only file system|Operation not permitted)', 'read-only: it says so');
	ask('writable');
	is_back('writable');

	# Of the drive the first megabyte stays: a page beyond it is asked for.
	fc_table($node, 'postgres', 'wide', 'v1', 200);
	my $wide   = fc_tag($node, 'postgres', 'wide');
	my $beyond = 'slot >= 128';
	for (1 .. 20)
	{
		$node->safe_psql('postgres', "SELECT pg_prewarm('wide', 'buffer')");
		fc_evict($node, 'wide');
		last if fc_tag_flash($node, $wide, $beyond) > 0;
	}
	cmp_ok(fc_tag_flash($node, $wide, $beyond), '>', 0, 'shrunk: there are pages in the end that goes');
	# What is left of the drive passes a trial: without this it would be active again soon.
	fc_failpoint($node, 'probe_due', 'error');
	ask('shrink');
	for (1 .. 20)
	{
		last if reason() =~ /^off/;
		$node->safe_psql('postgres', "SELECT pg_prewarm('wide', 'buffer', 'main', relblocknumber, relblocknumber) FROM pg_flashcache_pages "
				. "WHERE $beyond AND reldatabase = $wide->{db} AND relfilenode = $wide->{rel}");
		fc_evict($node, 'wide');
	}
	like(reason(), qr/^off: /, 'shrunk: off') or diag reason();
	answers('shrunk');
	ask('grow');
	fc_failpoint($node, 'probe_due', 'off');
	is_back('grown');

	# Detached while in use, it stays until nobody has it open.
	ask('detach');
	answers('detached');
	like(reason(), qr/^active/, 'detached: there until it is closed');
	set('pg_flashcache.enabled = off');
	fc_wait_state($node, 'disabled');
	set('pg_flashcache.enabled = on');
	goes_off('(block device .* has 0 bytes|could not (open|read)|holds something)', 'detached: off');
	answers('gone');
	change();
	ask('attach');
	is_back('attached');
	$node->stop;
}

SKIP:
{
	skip 'no small file system could be mounted, or no loop device made', 3 if !-l "$places/thin";
	start_with(readlink "$places/thin", '3MB');
	# Its beginning has room, so that the trial succeeds.
	fc_failpoint($node, 'probe_due', 'error');
	$node->safe_psql('postgres', q{
		CREATE TABLE many (v text);
		ALTER TABLE many ALTER v SET STORAGE PLAIN;
		INSERT INTO many SELECT repeat('x', 5000) FROM generate_series(1, 300);
		CHECKPOINT;
	});
	for (1 .. 10)
	{
		last if reason() =~ /^off/;
		fc_evict($node, 'many');
		is($node->safe_psql('postgres', 'SELECT count(v) FROM many'), 300, 'thin: the query is answered') if reason() =~ /^off/;
		$node->safe_psql('postgres', 'SELECT count(v) FROM many');
	}
	goes_off('could not write \d+ bytes', 'thin: off');
	answers('thin');
	$node->stop;
}

# A file system that becomes read-only, and has to be checked and mounted again: the server lets go of it.
SKIP:
{
	skip 'no ext4 could be mounted on a loop device', 29 if !-d "$places/journal/cache";
	start_with("$places/journal/cache/flash", '2MB');
	fc_to_flash($node, 't');

	# Frozen, as for a snapshot: whoever writes stands in the kernel, whatever it was told.
	ask('freeze');
	$frozen = 1;
	$node->safe_psql('postgres', 'CREATE TABLE in_frost AS SELECT 1 AS n');
	fc_evict($node, 'in_frost');
	goes_off('the flash device did not answer for 2000 ms', 'frozen: off');
	answers('frozen');
	stands('frozen');
	recovers('frozen');
	goes_off('is in use by another server', 'frozen, recovered: the device process before it has the file');
	foreach my $mode ('fast', 'immediate')
	{
		$node->stop($mode);
		pass("frozen: a $mode shutdown");
		$node->start;
		goes_off('is in use by another server|did not answer', "frozen, started after a $mode shutdown: off");
		answers("frozen, started after a $mode shutdown");
	}
	ask('thaw');
	$frozen = 0;
	is_back('thawed');

	# Unmounted while in use, and mounted again: the pages that were there are read from there.
	fc_to_flash($node, 't');
	fc_evict($node, 't');
	{
		fc_failpoint($node, 'probe_due', 'error');
		ask('away');
		answers('not mounted');
		goes_off('could not open ".*": No such file or directory', 'not mounted: off');
		my $here = fc_in_flash($node, 't');
		cmp_ok($here, '>=', 20, 'not mounted: all pages of the table are kept');
		ask('back');
		my $offset = -s $node->logfile;
		fc_evict($node, 't');
		is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'mounted again: active');
		fc_failpoint($node, 'probe_due', 'off');
		is(fc_in_flash($node, 't'), $here, 'mounted again: they are still there');
		$node->wait_for_log(qr/LOG:  pg_flashcache is active: .*\n.*DETAIL:  It has kept \d+ pages\./, $offset);
		answers('mounted again');
		is_deeply({ fc_stat($node, qw(checksum_failures verify_failures)) }, { checksum_failures => 0, verify_failures => 0 },
			'mounted again: what is read from there is right');
	}
	fc_to_flash($node, 't');
	ask('error');
	for (1 .. 20)
	{
		last if reason() =~ /^off/;
		change();
		fc_evict($node, 't');
	}
	goes_off('Read-only file system', 'file system failed: off');
	answers('file system failed');
	goes_off('could not open ".*": Read-only file system', 'file system failed: it says so');
	set('pg_flashcache.enabled = off');
	fc_wait_state($node, 'disabled');
	change();
	ask('mend') or skip 'somebody else on this machine holds the file system in a mount namespace', 3;
	pass('file system failed: unmounted, checked, mounted');
	set('pg_flashcache.enabled = on');
	is_back('file system mended');
	$node->stop;
}

sub answers_quietly
{
	my $found = $node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v = content(id, $round)");
	die "found $found" if $found != 20;
	return;
}

# A crash, after which the postmaster starts everything anew.
sub fc_kill_writer
{
	my ($server) = @_;
	my $offset = -s $server->logfile;
	kill 'KILL', $server->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	$server->wait_for_log(qr/database system is ready to accept connections/, $offset);
	return;
}

done_testing();

# A broken device never breaks a query: errors of the device, wrong content, the switch, and the way back.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

# More slots than there are pages in use: everything stays on flash, nothing is written there unasked.
my $node = fc_new_node('main', size => '8MB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
my $broken = qr/3 failures in a row, the last: could not (?:read|write) \d+ bytes at offset \d+ of "[^"]*": Input\/output error/;

$node->safe_psql('postgres', q{
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 10) n;
});


# It does not come back by itself as long as a test looks at it; that it does is what 120_probes.pl is about.
fc_failpoint($node, 'probe_due', 'error');

# On again: what was on flash is kept, or forgotten where it is doubtful (123_kept.pl has more of both).
sub is_on
{
	my ($what, $how) = @_;
	my %before = fc_stat($node, 'used', 'eviction_invalidated');

	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', "$what: enabled again");
	my %after = fc_stat($node, 'eviction_invalidated');
	is(fc_view($node), 'active||interception', "$what: active");
	is($after{eviction_invalidated} - $before{eviction_invalidated}, $how eq 'cold' ? $before{used} : 0, "$what: $how");
	return;
}

# Counters that the fault moved. Everything that is read in between is in shared buffers, or misses as well.
my @counters = qw(read_errors write_errors checksum_failures slots_retired hits);

# Failed reads. The point fails every read of flash, so the third of whatever is read switches the cache off.
{
	fc_to_flash($node, 't');
	my $offset = -s $node->logfile;
	my %before = fc_stat($node, @counters);

	fc_failpoint($node, 'store_read', 'error');
	is($node->safe_psql('postgres', 'SELECT count(*), min(length(v)), max(length(v)) FROM t'), '10|5001|5002',
		'read errors: the query is answered');
	like(fc_view($node), qr/^off\|$broken\|interception$/, 'read errors: three in a row switch the cache off');
	my %after = fc_stat($node, @counters);
	is($after{read_errors} - $before{read_errors}, 3, 'read errors: three');
	is($node->safe_psql('postgres', 'SELECT count(*), min(length(v)), max(length(v)) FROM t'), '10|5001|5002',
		'read errors: the next query too');
	my %later = fc_stat($node, @counters);
	is_deeply(\%later, \%after, 'read errors: flash is left alone while off');
	$node->wait_for_log(qr/WARNING: .* is off/, $offset);
	like(join("\n", fc_warnings($node, $offset)), qr/^pg_flashcache is off: $broken$/, 'read errors: one warning');
	like(slurp_file($node->logfile, $offset), qr/HINT:  Check the device\. pg_flashcache_enable\(\) tries at once\./,
		'read errors: with a hint');
	my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: a page written to the flash device could not be read back: Input\/output error\n/,
		'read errors: not enabled before reads succeed');
	fc_failpoint($node, 'store_read', 'off');
	my %still = fc_stat($node, 'state', 'switch_offs', 'timeouts');
	is_deeply(\%still, { state => 'off', switch_offs => 1, timeouts => 0 }, 'read errors: off once, and still');
	is_on('read errors', 'warm');
}

# Failed writes. Reads that succeed in between do not begin the count anew. While the point is armed the session reads
# one page that is on flash for every ten that are never cached.
{
	$node->safe_psql('postgres', q{
		CREATE TABLE onflash (v text);
		ALTER TABLE onflash ALTER v SET STORAGE PLAIN;
		INSERT INTO onflash SELECT n || repeat('x', 5000) FROM generate_series(1, 200) n;
	});
	fc_to_flash($node, 'onflash');
	$node->safe_psql('postgres', q{
		CREATE TABLE w AS SELECT 1 AS n;
		CREATE TABLE changing AS SELECT 1 AS n;
		CREATE UNLOGGED TABLE uncached (v text);
		ALTER TABLE uncached ALTER v SET STORAGE PLAIN;
		INSERT INTO uncached SELECT repeat('x', 5000) FROM generate_series(1, 1024);
		-- pushes pages out until the cache is off, or so many times; 20 times reads more pages than shared_buffers has
		CREATE FUNCTION push_out(rounds int) RETURNS void AS $$
		BEGIN
			FOR i IN 0 .. rounds - 1 LOOP
				PERFORM (SELECT v FROM uncached WHERE ctid = format('(%s,1)', i * 10 + b)::tid) FROM generate_series(0, 9) b;
				-- a page that is on flash: reads that succeed do not excuse writes that fail
				PERFORM v FROM onflash WHERE ctid = format('(%s,1)', i * 37 % 200)::tid;
				EXIT WHEN (SELECT state FROM pg_flashcache_stat()) = 'off';
				PERFORM pg_sleep(0.01);
			END LOOP;
		END $$ LANGUAGE plpgsql;
		-- writes fail for one row of pages after the other until the cache is off
		CREATE FUNCTION fail_writes(action text) RETURNS text AS $$
		DECLARE
			before record;
			after record;
		BEGIN
			-- What the writer has begun is over after a round, and as nothing is read it finds nothing new: no write that
			-- began before the point is armed is counted after that.
			PERFORM pg_flashcache_enable() FROM generate_series(1, 2);
			SELECT * INTO before FROM pg_flashcache_stat();
			PERFORM fc_failpoint('store_write', action);
			PERFORM n FROM w;
			-- There is always a page to be written, however long the writer takes.
			FOR i IN 1 .. 1000 LOOP
				EXIT WHEN action <> 'error' OR (SELECT state FROM pg_flashcache_stat()) = 'off';
				UPDATE changing SET n = n + 1;
				PERFORM push_out(20);
			END LOOP;
			PERFORM fc_failpoint('store_write', 'off');
			SELECT * INTO after FROM pg_flashcache_stat();
			RETURN format('%s: write errors %s, inserts %s, %s', after.state,
				after.write_errors - before.write_errors, after.inserts - before.inserts,
				CASE WHEN after.hits > before.hits THEN 'hits in between' ELSE 'no hits' END);
		END $$ LANGUAGE plpgsql;
	});
	my $offset = -s $node->logfile;
	# A row of slots is one write, and how many rows the free slots make is not for the test to say.
	my $result = $node->safe_psql('postgres', q{
		SELECT push_out(1), fail_writes('off') IS NULL, pg_flashcache_stat() IS NULL;
		UPDATE w SET n = 2;
		CHECKPOINT;
		SELECT fail_writes('error');
	});
	is((split /\n/, $result)[-1], 'off: write errors 3, inserts 0, hits in between', 'write errors: switch the cache off, nothing is inserted');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 10, 'write errors: queries are answered');
	$node->wait_for_log(qr/WARNING: .* is off/, $offset);
	like(join("\n", fc_warnings($node, $offset)), qr/^pg_flashcache is off: $broken$/, 'write errors: one warning');
	is_on('write errors', 'warm');
}

# What a read returns is wrong: one flipped bit, another slot's page, half a page. Each is noticed and harms nobody.
{
	# All that the query needs but its page is in the session and in shared buffers.
	$node->safe_psql('postgres', q{
		CREATE OR REPLACE FUNCTION spoil(blk int, action text) RETURNS text AS $$
		DECLARE
			before record;
			after record;
			found text;
			there bigint;
		BEGIN
			-- the first time round everything but the page gets into the session
			FOR i IN 1 .. 2 LOOP
				SELECT * INTO before FROM pg_flashcache_stat();
				PERFORM fc_failpoint('store_read', CASE i WHEN 1 THEN 'off' ELSE action END);
				SELECT left(v, 2) INTO found FROM t WHERE ctid = format('(%s,1)', CASE i WHEN 1 THEN 9 ELSE blk END)::tid;
				PERFORM fc_failpoint('store_read', 'off');
				SELECT * INTO after FROM pg_flashcache_stat();
				SELECT count(*) INTO there FROM pg_flashcache_slots()
				WHERE relfilenode = 't'::regclass AND relblocknumber = blk;
			END LOOP;
			RETURN format('%s: %s checksum failures, %s retired, %s errors, %s misses, %s hits, %s on flash', found,
				after.checksum_failures - before.checksum_failures, after.slots_retired - before.slots_retired,
				after.read_errors - before.read_errors, after.misses - before.misses, after.hits - before.hits, there);
		END $$ LANGUAGE plpgsql;
	});
	my $wrong = '5x: 1 checksum failures, 1 retired, 0 errors, 1 misses, 0 hits, 0 on flash';
	foreach my $case (
		[ 'flip', 'flipped bit', $wrong ],
		[ 'misplaced', q{another slot's page}, $wrong ],
		[ 'short', 'short read', '5x: 0 checksum failures, 0 retired, 1 errors, 1 misses, 0 hits, 1 on flash' ],
		[ 'error', 'failed read', '5x: 0 checksum failures, 0 retired, 1 errors, 1 misses, 0 hits, 1 on flash' ])
	{
		my ($action, $what, $expected) = @$case;

		fc_to_flash($node, 't');
		is($node->safe_psql('postgres', "SELECT spoil(4, '$action')"), $expected, "$what: noticed, a miss");
		is(fc_view($node), 'active||interception', "$what: the cache stays on");
	}
}

# What reaches the device is wrong, and it says that all is well: a flipped bit, half of a page over the other half of
# an older one, a page in another's slot. Or it says that it is not: too little written, no space.
{
	$node->safe_psql('postgres', q{
		-- brings the changed page of w to flash with a fault, and reads it
		CREATE FUNCTION spoil_write(action text) RETURNS text AS $$
		DECLARE
			before record;
			between record;
			after record;
			there bigint;
			found int;
		BEGIN
			PERFORM n FROM w;
			SELECT * INTO before FROM pg_flashcache_stat();
			PERFORM fc_failpoint('store_write', action);
			FOR i IN 1 .. 200 LOOP
				PERFORM push_out(20);
				SELECT count(*) INTO there FROM pg_flashcache_slots() WHERE relfilenode = 'w'::regclass;
				EXIT WHEN there > 0 AND (SELECT count(*) FROM pg_buffercache WHERE relfilenode = 'w'::regclass) = 0;
				EXIT WHEN (SELECT write_errors FROM pg_flashcache_stat()) > before.write_errors;
				-- If the writer comes too late time and again, the hand goes on only after it has made a round.
				IF i > 20 THEN
					PERFORM n FROM w WHERE there = 0 AND NOT EXISTS (SELECT FROM pg_buffercache WHERE relfilenode = 'w'::regclass);
					PERFORM pg_flashcache_enable();
				END IF;
			END LOOP;
			PERFORM fc_failpoint('store_write', 'off');
			SELECT * INTO between FROM pg_flashcache_stat();
			SELECT n INTO found FROM w;
			SELECT * INTO after FROM pg_flashcache_stat();
			RETURN format('%s: %s on flash, %s write errors, %s checksum failures, %s retired', found, there,
				least(after.write_errors - before.write_errors, 1),
				after.checksum_failures - between.checksum_failures, after.slots_retired - between.slots_retired);
		END $$ LANGUAGE plpgsql;
	});
	my $n = 10;
	foreach my $case (
		[ 'flip', 'bit flipped in writing', '1 on flash, 0 write errors, 1 checksum failures, 1 retired' ],
		[ 'torn', 'torn write', '1 on flash, 0 write errors, 1 checksum failures, 1 retired' ],
		[ 'misplaced', q{written to another slot}, '1 on flash, 0 write errors, 1 checksum failures, 1 retired' ],
		[ 'short', 'short write', '0 on flash, 1 write errors, 0 checksum failures, 0 retired' ],
		[ 'nospace', 'no space', '0 on flash, 1 write errors, 0 checksum failures, 0 retired' ])
	{
		my ($action, $what, $expected) = @$case;

		fc_to_flash($node, 'onflash');
		my $result = $node->safe_psql('postgres', qq{
			SELECT push_out(1), spoil_write('off') IS NULL;
			UPDATE w SET n = @{[ ++$n ]};
			CHECKPOINT;
			SELECT spoil_write('$action');
		});
		is((split /\n/, $result)[-1], "$n: $expected", "$what: noticed at the latest when it is read");
		# What else was written meanwhile is forgotten.
		$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_flashcache.enabled = off; SELECT pg_reload_conf()});
		fc_wait_state($node, 'disabled');
		$node->safe_psql('postgres', q{ALTER SYSTEM RESET pg_flashcache.enabled; SELECT pg_reload_conf()});
		fc_wait_active($node);
	}
}

# Somebody else writes all over the file.
{
	my $flash = fc_flash_file($node);
	my $pages = fc_to_flash($node, 'onflash');
	my $offset = -s $node->logfile;
	my $reason = 'the flash device returned wrong content for 16 pages in a row';

	# From here on: a new session may be the first to read wrong pages.
	my @fields = qw(checksum_failures slots_retired verify_failures);
	my %before = fc_stat($node, @fields);
	open my $fh, '+<:raw', $flash or die "$flash: $!";
	seek $fh, 65536, 0;
	print $fh 'garbage.' x ((-s $flash) - 65536 >> 3);
	close $fh;
	is($node->safe_psql('postgres', 'SELECT count(*), min(length(v)), max(length(v)) FROM onflash'), '200|5001|5003',
		'overwritten: the query is answered');
	my %after = fc_stat($node, @fields);
	is_deeply({ map { $_ => $after{$_} - $before{$_} } @fields },
		{ checksum_failures => 16, slots_retired => 16, verify_failures => 0 }, 'overwritten: 16 pages say so');
	is(fc_view($node), "off|$reason|interception", 'overwritten: off');
	$node->wait_for_log(qr/WARNING: .* is off/, $offset);
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is off: $reason"], 'overwritten: one warning');
	is_on('overwritten', 'cold');
}

# The device cannot be opened.
{
	my $reason = 'could not open "' . fc_flash_file($node) . '": Input/output error';
	my $offset = -s $node->logfile;

	fc_to_flash($node, 't');
	fc_failpoint($node, 'store_open', 'error');
	fc_failpoint($node, 'store_read', 'error');
	$node->safe_psql('postgres', 'SELECT count(*) FROM t');
	fc_failpoint($node, 'store_read', 'off');
	like(fc_view($node), qr/^off/, 'cannot be opened: off');
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: \Q$reason\E/, 'cannot be opened: enable says why');
	is(fc_view($node), "off|$reason|interception", 'cannot be opened: the view too');
	fc_failpoint($node, 'store_open', 'off');
	is_on('cannot be opened', 'warm');
}

# A session opens the device, and is answered too late: it closes what has been opened once the cache is off. It is the first
# one that the session opens, and then the first one since it has closed all that it had.
{
	my $file   = fc_flash_file($node);
	my $enable = sub {
		my ($on) = @_;
		$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $on");
		$node->reload;
		fc_wait_state($node, $on eq 'on' ? 'active' : 'disabled');
	};
	$enable->('off');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	my $has     = sub { return scalar grep { (readlink $_ // '') eq $file } glob "/proc/$pid/fd/*" };
	$session->query_safe('SELECT count(*) FROM t');

	foreach my $what ('opened too late', 'opened too late, again')
	{
		$enable->('on');
		fc_to_flash($node, 't');
		is($has->(), 0, "$what: it was not open before");
		fc_failpoint($control, 'store_late', 'error');
		is($session->query_safe('SELECT count(*) FROM t'), 10, "$what: the query is answered");
		fc_failpoint($control, 'store_late', 'off');
		like(fc_view($node), qr/^off\|the flash device did not answer/, "$what: off");
		$enable->('off');
		for (1 .. 100)
		{
			fc_evict($node, 't');
			$session->query_safe('SELECT count(*) FROM t');
			last if !$has->();
			usleep(100_000);
		}
		is($has->(), 0, "$what, and disabled: the session closes it");
	}
	$session->quit;
	$control->quit;
	$enable->('on');
}

# The cache is off, and a session closes the file, for which the kernel has no thread at first: it is closed later.
{
	my $file    = fc_flash_file($node);
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	my $has     = sub { return scalar grep { (readlink $_ // '') eq $file } glob "/proc/$pid/fd/*" };
	my $read    = sub { fc_evict($node, 't'); return $session->query_safe('SELECT count(*) FROM t') };

	fc_to_flash($node, 't');
	is($session->query_safe('SELECT count(*) FROM t'), 10, 'not closed: from flash');
	is($has->(), 1, 'not closed: the session has the file open');
	fc_failpoint($node, 'store_close', 'error');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	is($read->(), 10, 'not closed: the query is answered') for 1 .. 3;
	is($has->(), 1, 'not closed: it could not be');
	fc_failpoint($node, 'store_close', 'off');
	for (1 .. 100)
	{
		$read->();
		last if !$has->();
		usleep(100_000);
	}
	is($has->(), 0, 'not closed: it is later');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);

	# The same where the session has opened another file meanwhile, and hits there.
	fc_to_flash($node, 't');
	is($session->query_safe('SELECT count(*) FROM t'), 10, 'not closed, another file: from flash');
	fc_failpoint($node, 'store_close', 'error');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	unlink $file or die $!;
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	fc_to_flash($node, 't');
	is($session->query_safe('SELECT count(*) FROM t'), 10, 'not closed, another file: from that one');
	my $former = sub { return scalar grep { (readlink $_ // '') eq "$file (deleted)" } glob "/proc/$pid/fd/*" };
	is($has->() . $former->(), '11', 'not closed, another file: the session has both open');
	fc_failpoint($node, 'store_close', 'off');
	for (1 .. 100)
	{
		$read->();
		last if !$former->();
		usleep(100_000);
	}
	is($has->() . $former->(), '10', 'not closed, another file: it is later');

	# It has been closed, though the kernel says that it has not, and the session gets the same number for the same file.
	fc_to_flash($node, 't');
	$read->();
	fc_failpoint($node, 'store_close', 'short');
	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = off");
	$node->reload;
	fc_wait_state($node, 'disabled');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	$read->();
	fc_failpoint($node, 'store_close', 'off');
	is($has->(), 1, 'the same number: the session has the file open');
	fc_to_flash($node, 't');
	my %closed = fc_delta($node, sub { is($session->query_safe('SELECT count(*) FROM t'), 10, "the same number: query $_") for 1 .. 3 },
		'hits', 'read_errors');
	cmp_ok($closed{hits}, '>=', 10, 'the same number: every page from flash');
	is($closed{read_errors}, 0, 'the same number: no read fails');
	is($has->(), 1, 'the same number: it stays open');
	$session->quit;
}

# A session for which the kernel may not make the thread that is to open the device: nobody else is concerned.
SKIP:
{
	skip 'no prlimit', 4 if system('prlimit --version >/dev/null 2>&1') != 0;
	my $enabled = sub {
		my ($on) = @_;
		$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $on");
		$node->reload;
		fc_wait_state($node, $on eq 'on' ? 'active' : 'disabled');
	};
	$enabled->('off');
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid() FROM t LIMIT 1');
	$enabled->('on');
	fc_to_flash($node, 't');
	system('prlimit', "--pid=$pid", '--nproc=1:') == 0 or die 'prlimit';
	my %moved = fc_delta($node, sub {
		is($session->query_safe('SELECT count(*) FROM t'), 10, 'no thread: the query is answered');
	}, 'switch_offs', 'read_errors');
	is_deeply(\%moved, { switch_offs => 0, read_errors => 0 }, 'no thread: says nothing about the device');
	like(fc_view($node), qr/^active/, 'no thread: the cache is active');
	my ($hard) = slurp_file("/proc/$pid/limits") =~ /^Max processes\s+\S+\s+(\S+)/m;
	system('prlimit', "--pid=$pid", "--nproc=$hard:") == 0 or die 'prlimit';
	fc_to_flash($node, 't');
	%moved = fc_delta($node, sub { $session->query_safe('SELECT count(*) FROM t') }, 'hits');
	cmp_ok($moved{hits}, '>=', 10, 'no thread: and again with one');
	$session->quit;
}

# Off and on by reload.
{
	my $offset = -s $node->logfile;

	fc_to_flash($node, 't');
	my %before = fc_stat($node, 'used', 'inserts', 'hits');
	cmp_ok($before{used}, '>=', 10, 'switch: pages are on flash');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	%before = fc_stat($node, 'used', 'inserts', 'hits', 'misses');
	is(fc_view($node), 'disabled|pg_flashcache.enabled is off|interception', 'switch: the view says so');
	is($before{used}, 0, 'switch: off forgets everything');
	is(fc_in_flash($node, 't'), 0, 'switch: nothing to be seen');
	fc_evict_all($node);
	is($node->safe_psql('postgres', 'SELECT count(*) FROM t'), 10, 'switch: queries are answered');
	my %after = fc_stat($node, 'used', 'inserts', 'hits', 'misses');
	is_deeply(\%after, \%before, 'switch: neither fills nor hits nor misses while off');
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/is disabled: pg_flashcache.enabled is off\nHINT:  Set pg_flashcache.enabled to on and reload/,
		'switch: enable says what to do');

	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_state($node, 'active');
	fc_to_flash($node, 't');
	is(fc_in_flash($node, 't'), 10, 'switch: on fills again');
	is_deeply([ fc_warnings($node, $offset) ], [], 'switch: without a warning');
}

# verify: the disk has something else than flash. Changed behind the server's back, in a place that is no hint.
{
	fc_to_flash($node, 't');
	my $file   = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('t')});
	my $offset = -s $node->logfile;

	$node->safe_psql('postgres', q{SELECT spoil(0, 'flip')});
	my $sql = q{SELECT verify_failures, verify_checks - hits FROM pg_stat_flashcache};
	is($node->safe_psql('postgres', $sql), '0|0', 'verify: every hit was compared, none differed');

	# Without checksums, lest the server itself refuses the page.
	is($node->safe_psql('postgres', 'SHOW data_checksums'), 'on', 'verify: the damaged page would be refused');
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek $fh, 6 * 8192 + 8000, 0;
	print $fh 'y';
	close $fh;
	my $found = $node->safe_psql('postgres', q{
		SET ignore_checksum_failure = on;
		SELECT strpos(v, 'y') > 0 FROM t WHERE ctid = '(6,1)';
	});
	is($found, 't', q{verify: the query returns the disk's content});
	is($node->safe_psql('postgres', $sql), '1|0', 'verify: one failure');
	like(slurp_file($node->logfile, $offset),
		qr{LOG:  pg_flashcache: block 6 of relation \d+/\d+/\d+ differs between flash and disk at byte 8000},
		'verify: the log says where');
}

is((grep { /with wrong content/ } fc_warnings($node)), 1, 'wrong content: one warning, within an hour');
$node->stop;

# What the log says over hours. The clock that the server sees is ahead of the real one by as many seconds as a file says.
{
	my $file = PostgreSQL::Test::Utils::tempdir() . '/ahead';
	my $ahead = 0;
	my $later = sub {
		$ahead += shift;
		open my $fh, '+<:raw', $file or die "$file: $!";
		print $fh pack('q', $ahead);
		close $fh or die $!;
	};
	open my $fh, '>:raw', $file or die "$file: $!";
	print $fh pack('q', 0);
	close $fh or die $!;

	my $clock = fc_library('clock', <<"END");
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

static const volatile long long *ahead;

__attribute__((constructor)) static void
begin(void)
{
	void	   *mapped = mmap(0, 8, PROT_READ, MAP_SHARED, open("$file", O_RDONLY | O_CLOEXEC), 0);

	if (mapped != MAP_FAILED)
		ahead = mapped;
}

int
clock_gettime(clockid_t id, struct timespec *ts)
{
	static int	(*real) (clockid_t, struct timespec *);
	int			rc;

	if (!real)
		*(void **) &real = dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(id, ts);
	if (ahead && id == CLOCK_MONOTONIC)
		ts->tv_sec += *ahead;
	return rc;
}
END
	$node = fc_odd_node('hours', preload => $clock, size => '8MB',
		conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
	fc_create_sql($node);
	fc_wait_active($node);
	$node->safe_psql('postgres', q{
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 20) n;
	});
	# Which lines the log got since the last call, in short.
	my $from  = 0;
	my $lines = sub {
		my $log = substr(slurp_file($node->logfile), $from);
		$from += length $log;
		return [ map { s/^.*?(WARNING|LOG):\s+/$1: /r =~ s/(failures in a row).*/$1/r =~ s/ \(.*|: \d+ slots.*//r }
			  grep { /(WARNING|LOG): +pg_flashcache / && !/@{[FC_BESIDE]}/ } split /\n/, $log ];
	};
	# Pages that come back with one bit changed; all that the statement needs beside them is in shared buffers.
	my $wrong = sub {
		my ($pages) = @_;
		my $read = join ' ', map { "PERFORM v FROM t WHERE ctid = '($_,1)';" } @$pages;

		fc_to_flash($node, 't');
		$node->safe_psql('postgres', qq{
			DO \$\$
			BEGIN
				FOR i IN 1 .. 2 LOOP
					IF i = 1 THEN
						PERFORM v FROM t WHERE ctid = '(19,1)';
					ELSE
						PERFORM fc_failpoint('store_read', 'flip');
						$read
					END IF;
					PERFORM fc_failpoint('store_read', 'off');
				END LOOP;
			END \$\$});
		fc_writer_round($node);
	};
	my $trouble = sub {
		my ($point, $action, $do) = @_;

		fc_to_flash($node, 't');
		fc_failpoint($node, $point, $action);
		$do->();
		fc_wait_state($node, 'off');
		fc_failpoint($node, $point, 'off');
		# the next probe is due, but ten minutes have not gone by
		$later->(20);
		fc_wait_active($node);
		$node->wait_for_log(qr/is active/, $from);
	};
	my $back  = 'LOG: pg_flashcache is active';
	my $read  = sub { $trouble->('store_read', 'error', sub { $node->safe_psql('postgres', 'SELECT count(v) FROM t') }) };
	my $write = sub { $trouble->('store_write', 'error', sub { $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)') }) };
	my $reads  = 'pg_flashcache is off: 3 failures in a row';

	$lines->();
	$wrong->([1]);
	is_deeply($lines->(), ['WARNING: pg_flashcache has read 1 page with wrong content from flash'], 'hours: a page with wrong content');
	like(slurp_file($node->logfile),
		qr/DETAIL:  Queries got the right content from the disk\. .*\n.*HINT:  Find out whether somebody else has shortened the file or written to it\./, 'hours: what it means');
	$wrong->([ 2, 3 ]);
	$later->(3500);
	$wrong->([4]);
	is_deeply($lines->(), [], 'hours: more of them within the hour');
	$later->(101);
	$node->wait_for_log(qr/pages with wrong content/, $from);
	is_deeply($lines->(), ['WARNING: pg_flashcache has read 3 pages with wrong content from flash'], 'hours: the number since, after it');

	$read->();
	is_deeply($lines->(), [ "WARNING: $reads", $back ], 'hours: a device that fails to read');
	$read->();
	is_deeply($lines->(), [ "LOG: $reads", $back ], 'hours: again, no second warning');
	$write->();
	is_deeply($lines->(), [ "WARNING: $reads", $back ], 'hours: that it fails to write is another cause');
	$write->();
	$read->();
	is_deeply($lines->(), [ "LOG: $reads", $back, "LOG: $reads", $back ], 'hours: neither is news');
	$later->(600);
	$read->();
	is_deeply($lines->(), [ "WARNING: $reads", $back ], 'hours: after ten minutes without trouble it is');
	$node->stop;
}

done_testing();

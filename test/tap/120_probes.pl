# A cache that went off comes back by itself: when, how it says so, and that nothing stale survives the gap. Devices that
# do not answer, and devices that are slower than the disk.

use strict;
use warnings;

use Fcntl qw(:flock);
use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# More slots than there are pages in use; the time-out is rounded up to 2 s, which is far more than a page takes and far less than the delays below.
my $node = fc_new_node('main', size => '8MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\npg_flashcache.io_timeout = '1999.5ms'\n");
my $bounded = fc_reads_ahead();
my $answer  = '10|5006|5006';
my $round   = 0;

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	CREATE FUNCTION content(id int, round int) RETURNS text AS $$
		SELECT to_char(id + round, 'FM000000') || repeat('x', 5000)
	$$ LANGUAGE sql;
	INSERT INTO t SELECT n, content(n, 0) FROM generate_series(1, 10) n;
});

sub rows
{
	return $node->safe_psql('postgres', 'SELECT count(*), min(length(v)), max(length(v)) FROM t');
}

# Other content for every page of t, on disk.
sub change
{
	$round += 10;
	$node->safe_psql('postgres', "UPDATE t SET v = content(id, $round); CHECKPOINT");
	return;
}

# The content of that change, and every page that comes from flash is compared with the disk.
sub is_fresh
{
	my ($what) = @_;
	fc_to_flash($node, 't');
	my %moved = fc_delta($node, sub {
		is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v = content(id, $round)"), '10',
			"$what: the pages are those of now");
	}, 'verify_failures', 'checksum_failures');
	is_deeply(\%moved, { verify_failures => 0, checksum_failures => 0 }, "$what: nothing stale from flash");
	return;
}

# Trouble is told with a WARNING again, and the first pause is short again.
sub new_series
{
	foreach my $value ('off', 'on')
	{
		$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $value\n");
		$node->reload;
		fc_wait_state($node, $value eq 'on' ? 'active' : 'disabled');
	}
	return;
}

sub log_lines
{
	my ($offset) = @_;
	return [ map { s/^.*?(WARNING|LOG):\s+/$1: /r =~ s/ \(.*//r } grep { /(WARNING|LOG): +pg_flashcache is/ }
		  split /\n/, slurp_file($node->logfile, $offset) ];
}

my $slots = $node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache');
my $back  = qq{LOG: pg_flashcache is active: $slots slots on "} . fc_flash_file($node) . '", direct I/O';

# A device that fails for a while. The pauses double while it does.
{
	fc_to_flash($node, 't');
	my $offset = -s $node->logfile;
	my %before = fc_stat($node, 'probes', 'switch_offs', 'state_since');

	fc_failpoint($node, 'store_read', 'error');
	is(rows(), $answer, 'failing: the query is answered');
	# Three probes that fail: after 1, 2 and 4 seconds.
	ok($node->poll_query_until('postgres', "SELECT probes = $before{probes} + 3 AND next_probe IS NOT NULL FROM pg_stat_flashcache"),
		'failing: probes that fail');
	is($node->safe_psql('postgres', q{
			SELECT state, state_since > '} . $before{state_since} . q{', next_probe > state_since + interval '15 s',
				next_probe <= now() + interval '8.5 s', reason
			FROM pg_stat_flashcache}),
		'off|t|t|t|a page written to the flash device could not be read back: Input/output error', 'failing: each pause is twice the one before');
	change();
	fc_failpoint($node, 'store_read', 'off');
	fc_wait_active($node);
	my %after = fc_stat($node, 'probes', 'switch_offs', 'next_probe', 'reason');
	is_deeply(\%after, { probes => $before{probes} + 4, switch_offs => $before{switch_offs} + 1, next_probe => '', reason => '' },
		'failing: the fourth probe brings it back');
	$node->wait_for_log(qr/LOG: .* is active/, $offset);
	my $lines = log_lines($offset);
	like($lines->[0], qr/^WARNING: pg_flashcache is off: 3 failures in a row/, 'failing: one warning');
	is_deeply([ @$lines[ 1 .. $#$lines ] ], ['WARNING: pg_flashcache is off: a page written to the flash device could not be read back: Input/output error', $back],
		'failing: one of the other cause that probes find, and one line when it is back');
	is_fresh('failing');

	# The same again soon: no second warning, and the pause goes on from where it was.
	$offset = -s $node->logfile;
	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', 'error');
	rows();
	fc_failpoint($node, 'store_read', 'off');
	$node->wait_for_log(qr/is off: /, $offset);
	is($node->safe_psql('postgres', q{
			SELECT round(extract(epoch FROM next_probe - state_since)) FROM pg_stat_flashcache}), '16', 'again: a longer pause');
	$lines = log_lines($offset);
	like($lines->[0], qr/^LOG: pg_flashcache is off: 3 failures in a row/, 'again: told without a warning');
	is(scalar @$lines, 1, 'again: once');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'again: enabled at once');
	fc_failpoint($node, 'probe_due', 'off');
	is_fresh('again');

	# Off by the same reload that changes the time-out, for which the writer would try again: it does not.
	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', 'error');
	rows();
	fc_failpoint($node, 'store_read', 'off');
	fc_wait_state($node, 'off');
	%before = fc_stat($node, 'probes');
	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = off\npg_flashcache.io_timeout = '1998.5ms'");
	$node->reload;
	fc_wait_state($node, 'disabled');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT probes FROM pg_stat_flashcache'), $before{probes}, 'off and another time-out: no probe');
	fc_failpoint($node, 'probe_due', 'off');
	$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '1999.5ms'");
	$node->reload;
	is_fresh('off and another time-out');

	# Who asks for it begins anew.
	$offset = -s $node->logfile;
	fc_to_flash($node, 't');
	fc_failpoint($node, 'store_read', 'error');
	rows();
	fc_failpoint($node, 'store_read', 'off');
	$node->wait_for_log(qr/WARNING: .* is off: .*\n.*DETAIL: .* tries again by itself in 1 s\./, $offset);
	fc_wait_active($node);
	is(rows(), $answer, 'after enabling: from the beginning');
}

# The file is deleted under the server, then replaced by somebody else's. A new session has to open it.
{
	my $file = fc_flash_file($node);
	my $offset = -s $node->logfile;

	new_series();
	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	unlink $file or die $!;
	is(rows(), $answer, 'deleted: the query is answered');
	is(fc_view($node), qq{off|could not open "$file": No such file or directory|interception}, 'deleted: off at the first look');
	change();
	fc_failpoint($node, 'store_open', 'nospace');
	fc_failpoint($node, 'probe_due', 'off');
	my $bytes = $slots * 8192 + 65536;
	ok($node->poll_query_until('postgres',
			qq{SELECT reason = 'could not reserve 8256 kB for "$file": No space left on device' FROM pg_stat_flashcache}),
		'deleted: no space for a new one');
	is(-s $file, 0, 'deleted: and none taken');
	fc_failpoint($node, 'store_open', 'off');
	fc_wait_active($node);
	is(-s $file, $bytes, 'deleted: made anew');
	is_fresh('deleted');

	fc_failpoint($node, 'probe_due', 'error');
	rename $file, "$file.away" or die $!;
	open my $fh, '>', $file or die $!;
	print $fh 'mine';
	close $fh;
	chmod 0600, $file;
	is(rows(), $answer, 'replaced: the query is answered');
	is(fc_view($node), qq{off|"$file" has been replaced by another file|interception}, 'replaced: off at the first look');
	fc_failpoint($node, 'probe_due', 'off');
	ok($node->poll_query_until('postgres',
			qq{SELECT reason = '"$file" holds something that is not a flash cache' FROM pg_stat_flashcache}),
		'replaced: not taken');
	is(slurp_file($file), 'mine', 'replaced: left alone');
	rename "$file.away", $file or die $!;
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'replaced: the old one is taken again');
	change();
	is_fresh('replaced');
}

# The file is truncated under the server: reads beyond its end are short, nobody gets SIGBUS.
{
	my $file = fc_flash_file($node);
	my $size = -s $file;

	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	truncate $file, 65536 or die $!;
	is(rows(), $answer, 'truncated: the query is answered');
	like(fc_view($node), qr/^off\|3 failures in a row, the last: could read only 0 of \d+ bytes at offset \d+ of "\Q$file\E"\|/,
		'truncated: off, and it says why');
	change();
	fc_failpoint($node, 'probe_due', 'off');
	fc_wait_active($node);
	is(-s $file, $size, 'truncated: as long as before');
	is_fresh('truncated');
}

# A device that does not answer for longer than the time-out. The delay is the kernel's: the request is under way all
# that time, into memory of its own, and the read comes true when everybody has long turned away.
SKIP:
{
	skip 'no io_uring here: nobody can turn away from a device', 18 if !$bounded;
	my $reason = 'the flash device did not answer for 2000 ms';
	my $offset = -s $node->logfile;

	new_series();
	fc_to_flash($node, 't');
	my %before = fc_stat($node, 'timeouts', 'read_errors', 'write_errors', 'switch_offs', 'hits');
	my $session = $node->background_psql('postgres');
	$session->query_safe('SELECT count(v) FROM t WHERE false');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', 'delay:5000000');
	is($session->query_safe('SELECT count(*), min(length(v)), max(length(v)) FROM t'), $answer, 'hung: the query is answered');
	is(fc_view($node), "off|$reason|interception", 'hung: off at once');
	my %after = fc_stat($node, 'timeouts', 'read_errors', 'write_errors', 'switch_offs');
	is($after{timeouts} - $before{timeouts}, 1, 'hung: one wait, then nobody waits any more');
	is($after{read_errors} - $before{read_errors}, 1, 'hung: counted among the errors');
	is($after{switch_offs} - $before{switch_offs}, 1, 'hung: off once');
	my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: $reason\nHINT:  See the kernel's log for what ails the device\. If such pauses are normal for it, raise pg_flashcache\.io_timeout\./, 'hung: enable comes back');
	change();
	fc_failpoint($node, 'store_read', 'off');
	fc_failpoint($node, 'probe_due', 'off');
	fc_wait_active($node);
	is_deeply([ fc_warnings($node, $offset) ], ["pg_flashcache is off: $reason"], 'hung: one warning');
	is_fresh('hung');

	# The session whose read came late reads on, into other memory.
	fc_to_flash($node, 't');
	my %moved = fc_delta($node, sub {
		is($session->query_safe("SELECT count(*) FROM t WHERE v = content(id, $round)"), '10',
			'hung: the session goes on');
	}, 'verify_failures', 'checksum_failures', 'read_errors');
	is_deeply(\%moved, { verify_failures => 0, checksum_failures => 0, read_errors => 0 }, 'hung: and reads from flash');

	# A session that ends while the device still owes it an answer.
	fc_failpoint($node, 'probe_due', 'error');
	my $armed = time;
	fc_failpoint($node, 'store_read', 'delay:16000000');
	is(rows(), $answer, 'gone: the query is answered');
	$node->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()}) or die;
	cmp_ok(time - $armed, '<', 16, 'gone: a session ends all the same, before the answer');
	$session->quit;

	# And the writer, which is in the middle of a write.
	fc_failpoint($node, 'store_read', 'off');
	fc_failpoint($node, 'probe_due', 'off');
	fc_wait_active($node);
	$node->safe_psql('postgres', 'CREATE TABLE w AS SELECT 1 AS n');
	%before = fc_stat($node, 'timeouts', 'write_errors');
	fc_failpoint($node, 'store_write', 'delay:15000000');
	$node->safe_psql('postgres', 'UPDATE w SET n = 2');
	fc_evict($node, 'w');
	ok($node->poll_query_until('postgres', "SELECT state = 'off' AND reason = '$reason' FROM pg_stat_flashcache"),
		'write hung: off at once');
	%after = fc_stat($node, 'timeouts', 'write_errors');
	is_deeply([ map { $after{$_} - $before{$_} } qw(timeouts write_errors) ], [ 1, 1 ], 'write hung: one');
	is(fc_in_flash($node, 'w'), 0, 'write hung: the page is not taken for written');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	pass('write hung: can be disabled');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	ok($node->poll_query_until('postgres', "SELECT state = 'off' AND reason = '$reason' FROM pg_stat_flashcache"),
		'write hung: not back before the write has ended');
}

# The server stops while that write is still under way.
$node->stop('fast');
ok(1, 'write hung: a fast shutdown');

# Flash that is slower than the disk is left alone, and keeps its pages. Data files of a test are in memory, hence the
# delay of the disk.
{
	$node->append_conf('postgresql.conf', "pg_flashcache.pause_when_slow = on\n");
	$node->start;
	fc_wait_active($node);
	fc_to_flash($node, 't');
	my $used = $node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache');
	my $offset = -s $node->logfile;
	my $read = q{SELECT count(*) FROM generate_series(0, 9) b, LATERAL (SELECT v FROM t WHERE ctid = format('(%s,1)', b)::tid) s};

	fc_failpoint($node, 'disk_read', 'delay:2000');
	# Every hit is compared with the disk, so that both are measured.
	for (1 .. 10)
	{
		fc_to_flash($node, 't');
		$node->safe_psql('postgres', $read);
	}
	# One request that is held up tells nothing. The session has what it needs, and reads that page only.
	my $control = fc_control($node);
	my $one     = q{SELECT id FROM t WHERE ctid = '(0,1)'};
	my $hits    = 'SELECT hits FROM pg_stat_flashcache';
	$control->query_safe($_) foreach $one, $hits;
	fc_to_flash($node, 't');
	my $before = $control->query_safe($hits);
	fc_failpoint($control, 'store_read', 'delay:300000');
	$control->query_safe($one);
	fc_failpoint($control, 'store_read', 'off');
	is($control->query_safe($hits) - $before, 1, 'held up once: a hit');
	$control->quit;
	fc_writer_round($node);
	is($node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache'), 'active', 'held up once: not left alone for that');

	my $slow = sub {
		fc_failpoint($node, 'store_read', 'delay:50000');
		for (1 .. 30)
		{
			last if $node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache') eq 'paused';
			fc_evict($node, 't');
			$node->safe_psql('postgres', $read);
		}
	};
	$slow->();
	my %now = fc_stat($node, 'state', 'reason', 'used');
	is($now{state}, 'paused', 'slow: left alone');
	my ($ret, $out, $err) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
	like($err, qr/cannot be erased while it is paused: .*HINT:  Set pg_flashcache.pause_when_slow to off, or wait/s, 'slow: it is not erased');
	like($now{reason}, qr/^flash is slower than the disk: \d+\.\d\d ms a read, the disk \d+\.\d\d ms$/, 'slow: it says how slow');
	cmp_ok($now{used}, '>=', $used, 'slow: its pages stay');
	my %moved = fc_delta($node, sub { fc_evict($node, 't'); $node->safe_psql('postgres', $read) }, 'hits', 'inserts', 'read_errors');
	is_deeply(\%moved, { hits => 0, inserts => 0, read_errors => 0 }, 'slow: neither hits nor fills');
	$node->safe_psql('postgres', q{UPDATE t SET v = v WHERE id = 5; CHECKPOINT});
	# A new writer locks the file, as the one before it had.
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $writer;
	$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die;
	my ($rc, undef, $stderr);
	do { ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()') } while $stderr =~ /writer is not running/;
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: flash is slower than the disk/, 'slow: not enabled while it is');
	open(my $other, '<', fc_flash_file($node)) or die $!;
	ok(!flock($other, LOCK_EX | LOCK_NB), 'slow: a new writer has the file locked');
	close $other;

	# It is to be used whatever it takes: nobody waits for the next probe, which here would never come.
	fc_failpoint($node, 'probe_due', 'error');
	$node->append_conf('postgresql.conf', "pg_flashcache.pause_when_slow = off\n");
	$node->reload;
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT verdict FROM pg_stat_flashcache'), 'flash is not faster', 'slow: the verdict on what is used all the same');
	$node->append_conf('postgresql.conf', "pg_flashcache.pause_when_slow = on\n");
	$node->reload;
	ok($node->poll_query_until('postgres', q{SELECT state = 'paused' FROM pg_stat_flashcache}), 'slow: left alone again');

	# The disk gets slow as well: likewise, as soon as reads have shown it.
	fc_failpoint($node, 'store_read', 'delay:5000');
	fc_failpoint($node, 'disk_read', 'delay:20000');
	for (1 .. 30)
	{
		last if $node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache') eq 'active';
		fc_evict_all($node);
	}
	fc_wait_active($node);
	fc_failpoint($node, 'probe_due', 'off');
	fc_failpoint($node, 'store_read', 'off');
	$node->wait_for_log(qr/LOG: .* is active: flash is faster than the disk again/, $offset);
	my @warnings = fc_warnings($node, $offset);
	is(scalar @warnings, 2, 'slow: a warning, and another one as pg_flashcache_enable() began anew');
	like($_, qr/^pg_flashcache is paused: flash is slower than the disk/, 'slow: that it is paused') foreach @warnings;
	cmp_ok($node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache'), '>=', $used - 2, 'fast again: the pages are there');
	fc_evict($node, 't');
	%moved = fc_delta($node, sub { $node->safe_psql('postgres', $read) }, 'hits', 'verify_failures', 'checksum_failures');
	cmp_ok($moved{hits}, '>=', 8, 'fast again: and are read');
	is_deeply([ @moved{qw(verify_failures checksum_failures)} ], [ 0, 0 ], 'fast again: none of them stale');

	# A read that began before a pause finds the device broken when the writer is about to end the pause: off stays. The
	# reader has what it needs and has not opened the file: it connects, and reads from the disk, during a pause.
	fc_to_flash($node, 't');
	fc_failpoint($node, 'disk_read', 'delay:2000');
	$slow->();
	fc_wait_state($node, 'paused');
	my $reader = $node->background_psql('postgres');
	my $pid    = $reader->query_safe('SELECT pg_backend_pid()');
	$control = fc_control($node);
	$_->set_query_timer_restart foreach $control, $reader;
	$reader->query_safe("PREPARE one AS SELECT 'rows: ' || count(v) FROM t WHERE ctid = '(0,1)'");
	my $rows = $reader->query_safe('EXECUTE one');
	fc_evict($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	$node->append_conf('postgresql.conf', "pg_flashcache.pause_when_slow = off\n");
	$node->reload;
	fc_wait_active($node);
	fc_failpoint($control, 'read_looked_up', 'pause', "pg_relation_filenode('t')::oid");
	$reader->query_until(qr/begun/, "\\echo begun\nEXECUTE one;\n");
	fc_failpoint_wait($control, 'read_looked_up');
	is((grep { (readlink($_) // '') eq fc_flash_file($node) } glob "/proc/$pid/fd/*"), 0, 'off within a pause: the reader has looked the page up, and has not opened the file');
	$node->append_conf('postgresql.conf', "pg_flashcache.pause_when_slow = on\n");
	$node->reload;
	fc_wait_state($node, 'paused');
	fc_failpoint($control, 'store_reading', 'pause');
	$node->append_conf('postgresql.conf', "pg_flashcache.pause_when_slow = off\n");
	$node->reload;
	fc_failpoint_wait($control, 'store_reading');
	fc_failpoint($control, 'store_open', 'error');
	fc_failpoint($control, 'read_looked_up', 'off');
	like($reader->query_until(qr/done/, "\\echo done\n"), qr/^$rows$/m, 'off within a pause: the query is answered');
	like(fc_view($node), qr/^off\|could not open /, 'off within a pause: off, while the writer tries flash');
	fc_failpoint($control, 'store_open', 'off');
	fc_failpoint($control, 'store_reading', 'off');
	ok($node->poll_query_until('postgres', q{SELECT state = 'active' OR next_probe IS NOT NULL FROM pg_stat_flashcache}), 'off within a pause: the writer has done');
	like(fc_view($node), qr/^off\|could not open /, 'off within a pause: off still');
	fc_failpoint($node, $_, 'off') foreach 'probe_due', 'store_read', 'disk_read';
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'off within a pause: back by command');
	$_->quit foreach $reader, $control;
}

# A writer that is asked to end while the device has a request of its: nothing is wrong with the device.
{
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$_->set_query_timer_restart foreach $control, $session;
	my $pid     = $control->query_safe('SELECT writer_pid FROM pg_stat_flashcache');
	my @trouble = qw(timeouts switch_offs write_errors);
	my %before  = fc_stat($node, @trouble);

	fc_failpoint($control, 'scrub_taken', 'pause');
	$session->query_until(qr/begun/, "\\echo begun\nSELECT * FROM pg_flashcache_scrub(true);\n");
	fc_failpoint_wait($control, 'scrub_taken');
	fc_failpoint($control, 'store_write', 'delay:1500000');
	kill 'TERM', $pid;
	fc_failpoint($control, 'scrub_taken', 'off');
	ok($node->poll_query_until('postgres', "SELECT writer_pid <> $pid FROM pg_stat_flashcache"), 'asked to end: another one follows');
	fc_failpoint($control, 'store_write', 'off');
	fc_wait_active($node);
	is_deeply({ fc_stat($node, @trouble) }, \%before, 'asked to end: that is no fault of the device');
	$session->query_until(qr/done/, "\\echo done\n");
	like($session->{stderr}, qr/ERROR/, 'asked to end: the scrub is not done');
	$session->{stderr} = '';

	# Without a limit a request may take as long as it likes, also when other settings change meanwhile.
	$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = 0\n");
	$node->reload;
	$node->safe_psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	fc_to_flash($node, 't');
	change();
	fc_failpoint($control, 'scrub_taken', 'pause');
	$session->query_until(qr/begun/, "\\echo begun\nSELECT slots_erased > 0 AS erased FROM pg_flashcache_scrub();\n");
	fc_failpoint_wait($control, 'scrub_taken');
	fc_failpoint($control, 'store_write', 'delay:1500000');
	$node->append_conf('postgresql.conf', "work_mem = '5MB'\n");
	$node->reload;
	fc_failpoint($control, 'scrub_taken', 'off');
	like($session->query_until(qr/done/, "\\echo done\n"), qr/^t$/m, 'no limit: it is waited for');
	fc_failpoint($control, 'store_write', 'off');
	is_deeply({ fc_stat($node, @trouble) }, \%before, 'no limit: and nothing is wrong');

	# One that is set while the writer waits counts from then on; and it may be told that the device is not wanted.
	foreach my $setting ("pg_flashcache.io_timeout = '100ms'", 'pg_flashcache.enabled = off')
	{
		$node->safe_psql('postgres', 'SELECT pg_flashcache_scrub(true)');
		fc_to_flash($node, 't');
		change();
		fc_failpoint($control, 'scrub_taken', 'pause');
		$session->query_until(qr/begun/, "\\echo begun\nSELECT * FROM pg_flashcache_scrub();\n");
		fc_failpoint_wait($control, 'scrub_taken');
		fc_failpoint($control, 'store_write', 'delay:5000000');
		$node->append_conf('postgresql.conf', "$setting\n");
		$node->reload;
		fc_failpoint($control, 'scrub_taken', 'off');
		$session->query_until(qr/done/, "\\echo done\n");
		like($session->{stderr}, qr/ERROR/, "no limit, then $setting: not waited for");
		$session->{stderr} = '';
		fc_failpoint($control, 'store_write', 'off');
		$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = 0\npg_flashcache.enabled = on\n");
		$node->reload;
		fc_wait_active($node);
	}
	$_->quit foreach $control, $session;
}

$node->stop;
done_testing();

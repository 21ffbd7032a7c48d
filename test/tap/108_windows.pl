# Windows of the protocol that need more than two sessions and a statement: the device that is given up and comes back, reading
# ahead, requests of several pages (17 and later), requests that finish later (18 and later), redo on a standby.
# test/windows.txt lists all windows.
#
# A pause point stops whoever comes by. So before one is armed that readers come by, everything but the page of the test is
# looked up and in shared buffers.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $common = <<'END';
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
plan_cache_mode = force_generic_plan
max_parallel_workers_per_gather = 0
synchronize_seqscans = off
max_logical_replication_workers = 0
# A process may pin its share of the buffers only, and read no more than that at once.
max_connections = 12
max_worker_processes = 4
END

# More slots than there are pages in use: a page stays where it is, and nothing is written unasked.
my $node = fc_new_node('main', size => '8MB', buffers => '4MB', conf => $common);
my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);
my $pages = 8;

fc_everywhere($node);
$node->safe_psql('postgres', q{
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(0, 7) n;
	CREATE TABLE w (v text);
	INSERT INTO w VALUES ('old');
	VACUUM ANALYZE;
});

# A session in which the statements are prepared and have been executed.
sub session
{
	my ($where, %statement) = @_;
	my $session = $where->background_psql('postgres');

	$session->query_safe("PREPARE $_ AS $statement{$_}") for sort keys %statement;
	for (1 .. 2)
	{
		$session->query_safe("EXECUTE $_") for sort keys %statement;
	}
	return $session;
}

# Begins a statement; what it returns comes with the answer to the next one.
sub begin
{
	my ($session, $statement) = @_;

	$session->query_until(qr/begun/, "\\echo begun\n$statement;\n");
	return;
}

# What the statement returned that was begun.
sub result
{
	my ($session) = @_;

	return join ' ', grep { $_ ne 'end' } split /\n/, $session->query_safe(q{SELECT 'end'});
}

my @counters = qw(hits misses inserts verify_failures checksum_failures slots_retired read_errors switch_offs);
my $counters = 'SELECT state, ' . join(', ', @counters) . ' FROM pg_stat_flashcache';

sub counters
{
	my ($control) = @_;
	my %now;

	@now{ 'state', @counters } = split /\|/, $control->query_safe($counters);
	return %now;
}

sub moved
{
	my ($before, $after, @names) = @_;

	return join ', ', map { "$_ " . ($after->{$_} - $before->{$_}) } @names;
}

# A control session that looks up now what it will need.
sub control
{
	my ($where) = @_;
	my $control = fc_control($where);

	counters($control) for 1 .. 2;
	return $control;
}

sub wait_state
{
	my ($control, $state) = @_;

	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my %now = counters($control);
		return if $now{state} eq $state;
		usleep(100_000);
	}
	die "the cache does not get $state";
}

# Off and on by the setting: O1 to O4.
sub off_and_on
{
	my ($control) = @_;

	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	wait_state($control, 'disabled');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	wait_state($control, 'active');
	return;
}

# Repeats a round until the writer has added nothing in three of them.
sub until_no_inserts
{
	my ($inserts, $round) = @_;
	my $last = -1;

	for (my $quiet = 0; $quiet < 3; )
	{
		$round->();
		my $now = $inserts->();
		$quiet = $now == $last ? $quiet + 1 : 0;
		$last  = $now;
	}
	return;
}

# Nothing is evicted meanwhile: then the writer has nothing to do either after some rounds.
sub writer_is_done
{
	my ($control) = @_;

	until_no_inserts(sub { my %now = counters($control); $now{inserts} },
		sub { fc_writer_round($control) });
	return;
}

# Brings a table to flash, and whatever else is in use; then the writer has nothing to do.
sub settle
{
	my ($where, $table) = @_;

	until_no_inserts(sub { my %now = fc_stat($where, 'inserts'); $now{inserts} }, sub {
		fc_to_flash($where, $table);
		fc_evict_all($where);
		$where->safe_psql('postgres', 'CHECKPOINT');
		fc_writer_round($where);
	});
	return;
}

my %statement = (
	one  => q{SELECT left(v, 2) FROM t WHERE ctid = '(3,1)'},
	many => q{SELECT pg_prewarm('t', 'buffer')});

# ---- a read that began before off and ends after on ----

# Its slot is nobody's by then, and the device may be another one. The version says so: no hit, and no wrong checksum.
foreach my $point ('read_looked_up', 'read_done')
{
	foreach my $case ([ one => '3x', 1 ], [ many => $pages, $pages ])
	{
		my ($name, $answer, $misses) = @$case;
		my $session = session($node, %statement);
		my $control = control($node);

		fc_to_flash($node, 't');
		counters($control);
		fc_failpoint($control, $point, 'pause');
		begin($session, "EXECUTE $name");
		fc_failpoint_wait($control, $point);
		off_and_on($control);
		my %before = counters($control);
		fc_failpoint($control, $point, 'off');
		is(result($session), $answer, "$point, $name, off and on: the rows");
		my %after = counters($control);
		is(moved(\%before, \%after, qw(hits misses checksum_failures verify_failures)),
			"hits 0, misses $misses, checksum_failures 0, verify_failures 0", "$point, $name, off and on: no hit");
		$session->quit;
		$control->quit;
	}
}

# ---- a verdict on the device that comes after off and on ----

# Three reads fail, which is enough to switch off. Before the third reader does so the device is opened anew: what it has
# found out is about the former opening.
{
	my $session = session($node, map { ("page$_" => "SELECT left(v, 2) FROM t WHERE ctid = '($_,1)'") } 1 .. 3);
	my $control = control($node);

	fc_to_flash($node, 't');
	counters($control);
	fc_failpoint($control, 'probe_due', 'error');
	my %before = counters($control);
	fc_failpoint($control, 'store_read', 'error');
	is($session->query_safe("EXECUTE page$_"), "${_}x", "late verdict: row $_") foreach 1, 2;
	fc_failpoint($control, 'read_done', 'pause');
	begin($session, 'EXECUTE page3');
	fc_failpoint_wait($control, 'read_done');
	fc_failpoint($control, 'store_read', 'off');
	my %failed = counters($control);
	is(moved(\%before, \%failed, 'read_errors'), 'read_errors 3', 'late verdict: three reads have failed');
	off_and_on($control);
	fc_failpoint($control, 'read_done', 'off');
	is(result($session), '3x', 'late verdict: row 3');
	my %after = counters($control);
	is("$after{state}, " . moved(\%before, \%after, 'switch_offs'), 'active, switch_offs 0', 'late verdict: the device that is open now is left on');
	fc_failpoint($control, 'probe_due', 'off');
	$session->quit;
	$control->quit;
}

# ---- a fill does not span off and on ----

# The writer stands with a page of w; a backend gives the device up meanwhile (O1). A page that is not written yet is not
# written any more; one that is written gets an entry. It is kept, as all are, and removed when the page changes.
foreach my $case ([ fill_staged => 0 ], [ fill_reserved => 0 ], [ fill_written => 1 ])
{
	my ($point, $inserts) = @$case;
	my $session = session($node, one => $statement{one}, off => 'SELECT 1');
	my $control = control($node);

	settle($node, 't');
	$node->safe_psql('postgres', q{UPDATE w SET v = 'new'});
	counters($control);
	my %before = counters($control);
	fc_failpoint($control, $point, 'pause');
	fc_evict($node, 'w');
	fc_failpoint_wait($control, $point);
	fc_failpoint($control, 'store_read', 'error');
	is($node->safe_psql('postgres', 'SELECT count(*), min(length(v)) FROM t'), "$pages|5001", "$point: the rows, while the device fails");
	wait_state($control, 'off');
	fc_failpoint($control, 'switch_purged', 'pause');
	fc_failpoint($control, 'switch_opened', 'pause');
	fc_failpoint($control, 'store_read', 'off');
	fc_failpoint($control, $point, 'off');
	begin($session, 'SELECT pg_flashcache_enable()');

	fc_failpoint_wait($control, 'switch_purged');    # O2 | O3
	my %purged = counters($control);
	is($purged{inserts} > $before{inserts} ? 1 : 0, $inserts, "$point: " . ($inserts ? 'published' : 'not written any more'));
	is(fc_in_flash($node, 'w'), $inserts, "$point: and kept when the device is opened");
	fc_evict($node, 't');
	is($node->safe_psql('postgres', 'SELECT count(*), min(length(v)) FROM t'), "$pages|5001", "$point: the rows, before the device is used");

	fc_failpoint($control, 'switch_purged', 'off');
	fc_failpoint_wait($control, 'switch_opened');    # O3 | O4
	$node->safe_psql('postgres', q{UPDATE w SET v = 'newer'});
	fc_evict($node, 'w');
	fc_evict($node, 't');
	is($node->safe_psql('postgres', 'SELECT count(*), min(length(v)) FROM t'), "$pages|5001", "$point: the rows, before the cache is on");
	my %opened = counters($control);
	is(moved(\%purged, \%opened, qw(hits misses inserts)), 'hits 0, misses 0, inserts 0', "$point: neither hits nor misses nor fills");
	is(fc_in_flash($node, 'w'), 0, "$point: what is evicted then is not taken");

	fc_failpoint($control, 'switch_opened', 'off');
	is(result($session), 't', "$point: on again");
	fc_evict($node, 'w');
	is($node->safe_psql('postgres', 'SELECT v FROM w'), 'newer', "$point: the page of the fill is the one on disk");
	my %after = counters($control);
	is("$after{state}, " . moved(\%before, \%after, qw(verify_failures checksum_failures slots_retired)),
		'active, verify_failures 0, checksum_failures 0, slots_retired 0', "$point: nothing went wrong");
	$session->quit;
	$control->quit;
}

# ---- reading ahead ----

# A scan has begun to read the next pages of its stream. Before it takes them, all change and are written, and those that are on
# flash again are so anew; or the cache goes off and on.
SKIP:
{
	skip 'no io_uring here', 6 if !fc_reads_ahead();
	my $rows = 40;

	fc_table($node, 'postgres', 's', 'v1', $rows);
	my $count = 'SELECT count(*) FROM s WHERE val = ' . fc_value_sql('v1');
	foreach my $what ('changed', 'off and on')
	{
		my $session = session($node, scan => $count);
		my $control = control($node);

		fc_to_flash($node, 's');
		fc_failpoint($control, 'ahead_started', 'pause');
		begin($session, 'EXECUTE scan');
		fc_failpoint_wait($control, 'ahead_started');
		my %before = counters($control);
		if ($what eq 'changed')
		{
			# In this order it is no stream, and nothing is read ahead for it. Up to block 26 the scan may be reading into buffers
			# by now (17 and later), and whoever wants those waits for it.
			$node->safe_psql('postgres', q{
				DO $$ BEGIN
					FOR blk IN REVERSE 39 .. 30 LOOP
						UPDATE s SET val = 'changed' WHERE ctid = format('(%s,1)', blk)::tid;
					END LOOP;
				END $$});
			$node->safe_psql('postgres', 'CHECKPOINT');
			fc_evict_all($node) for 1 .. 2;
		}
		else
		{
			off_and_on($control);
		}
		fc_failpoint($control, 'ahead_started', 'off');
		is(result($session), $rows, "read ahead, $what: the rows of the snapshot");
		my %after = counters($control);
		is(moved(\%before, \%after, qw(verify_failures checksum_failures slots_retired)),
			'verify_failures 0, checksum_failures 0, slots_retired 0', "read ahead, $what: nothing went wrong");
		is($node->safe_psql('postgres', $count), $what eq 'changed' ? 30 : $rows, "read ahead, $what: the rows of now");
		fc_rewrite_rows($node, 'postgres', 's', 'v1');
		$node->safe_psql('postgres', 'VACUUM FULL s');
		$session->quit;
		$control->quit;
	}
}

# ---- several pages a request ----

SKIP:
{
	skip "PostgreSQL $major reads and writes one page a call", 8 if $major < 17;

	# Of the pages of one request some lose their slots before the request is read. A small cache, so that slots are
	# reused; new pages of a growing table do it, which nobody has to read. It has room for the catalogs that bringing t to
	# flash reads: in a smaller one they can displace t each time. And so many buffers that a process may pin all of t:
	# else it comes in two requests, and the buffers of the second one evict something while the first one stands still.
	my $small = fc_new_node('small', size => '2MB', buffers => '16MB', conf => $common);
	fc_everywhere($small);
	$small->safe_psql('postgres', q{
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(0, 7) n;
		CREATE TABLE grow (v text);
		ALTER TABLE grow ALTER v SET STORAGE PLAIN;
		VACUUM ANALYZE;
	});
	my $session = session($small, many => $statement{many});
	my $control = control($small);
	my $there   = "SELECT count(*) FROM pg_flashcache_pages WHERE relblocknumber < $pages AND relfilenode = "
	  . $small->safe_psql('postgres', q{SELECT pg_relation_filenode('t')});
	my $grow = q{INSERT INTO grow SELECT repeat('y', 5000) FROM generate_series(1, 8)};

	# Twice round the buffer pool, so that it evicts what is new.
	$control->query_safe("PREPARE grow AS $grow");
	$control->query_safe('EXECUTE grow') for 1 .. 512;
	writer_is_done($control);
	$control->query_safe($there);
	foreach my $point ('read_looked_up', 'read_done')
	{
		my $left = $pages;

		fc_to_flash($small, 't');
		$control->query_safe('EXECUTE grow');
		counters($control);
		$control->query_safe($there);
		fc_failpoint($control, $point, 'pause');
		begin($session, 'EXECUTE many');
		fc_failpoint_wait($control, $point);
		for (my $i = 0; $i < 1000 && $left == $pages; $i++)
		{
			$control->query_safe('EXECUTE grow');
			writer_is_done($control);
			$left = $control->query_safe($there);
		}
		my %before = counters($control);
		fc_failpoint($control, $point, 'off');
		is(result($session), $pages, "$point, slots reused: the pages");
		my %after = counters($control);
		cmp_ok($left, '<', $pages, "$point, slots reused: some were");
		is(moved(\%before, \%after, qw(hits misses checksum_failures verify_failures)),
			"hits $left, misses " . ($pages - $left) . ', checksum_failures 0, verify_failures 0',
			"$point, slots reused: every other page is a hit");
	}
	fc_is_clean($small);
	$session->quit;
	$control->quit;
	$small->stop;
}

# Several pages are written by one call, page by page invalidated, while the writer holds a copy of one of them.
SKIP:
{
	skip "PostgreSQL $major reads and writes one page a call", 7 if $major < 17;
	my $source  = __FILE__ =~ s/tap\/[^\/]+$/lib\/writev.c/r;
	my $library = $node->basedir . '/writev.so';
	my $include = `pg_config --includedir-server`;
	chomp $include;
	system_or_bail('gcc', '-shared', '-fPIC', '-I', $include, '-o', $library, $source);
	$node->safe_psql('postgres', "CREATE FUNCTION fc_test_writev(oid, int) RETURNS void AS '$library' LANGUAGE C STRICT");

	# The last byte of each page is the last one of its row.
	fc_table($node, 'postgres', 'v', 'v1', $pages);
	my $sum     = 'SELECT count(*), sum(ascii(right(val, 1))) FROM v';
	my $session = $node->background_psql('postgres');
	$session->query_safe(q{SELECT fc_test_writev('v'::regclass, 0) WHERE false});
	my $control = control($node);
	my $number  = $node->safe_psql('postgres', q{SELECT pg_relation_filenode('v')});
	my $there   = 'SELECT string_agg(relblocknumber::text, \'\' ORDER BY relblocknumber) FROM pg_flashcache_pages WHERE relfilenode = '
	  . $number;

	# Page 3 is in the pool alone, and the writer takes it from there.
	$node->safe_psql('postgres', 'VACUUM (FREEZE) v');    # so that the next one leaves the other pages alone
	settle($node, 'v');
	$node->safe_psql('postgres', 'UPDATE v SET val = val WHERE id = 4');
	$node->safe_psql('postgres', 'VACUUM v');
	my ($count, $before) = split /\|/, $node->safe_psql('postgres', $sum);
	$node->safe_psql('postgres', 'CHECKPOINT');
	$control->query_safe($there);
	fc_failpoint($control, 'fill_written', 'pause', $number);
	# The clock hand may be faster than the writer, which then has not seen page 3: once more.
	for (1 .. 10)
	{
		fc_evict($node, 'v');
		last if $node->psql('postgres', q{SET statement_timeout = '5s'; SELECT fc_failpoint_wait('fill_written')}) == 0;
		$node->safe_psql('postgres', q{SELECT pg_prewarm('v', 'buffer', 'main', 3, 3)});
	}
	fc_failpoint_wait($control, 'fill_written');
	is($control->query_safe($there), '0124567', 'writev: all pages are on flash but the one that the writer holds');

	fc_failpoint($control, 'invalidate_bumped', 'pause');
	fc_failpoint($control, 'write_before_md', 'pause');
	fc_failpoint($control, 'write_after_md', 'pause');
	begin($session, "SELECT fc_test_writev('v'::regclass, $pages)");
	fc_failpoint_wait($control, 'write_before_md');
	my %before = counters($control);
	fc_failpoint($control, 'fill_written', 'off');
	fc_writer_round($control);
	is($control->query_safe($there), '01234567', 'writev, C1 | C2: the old page is published, nobody can read it');
	fc_failpoint($control, 'write_before_md', 'off');
	fc_failpoint_wait($control, 'write_after_md');
	fc_failpoint($control, 'write_after_md', 'off');
	fc_failpoint_wait($control, 'invalidate_bumped');
	is($control->query_safe($there), '01234567', 'writev, I1 | I2 of the first page: nothing is gone yet');
	fc_failpoint($control, 'invalidate_bumped', 'off');
	result($session);
	is($node->safe_psql('postgres', $there), '', 'writev, after C3: all are gone');
	is($node->safe_psql('postgres', $sum), "$count|" . ($before + $pages), 'writev: the new pages are read');
	my %after = counters($control);
	is(moved(\%before, \%after, qw(verify_failures checksum_failures)), 'verify_failures 0, checksum_failures 0', 'writev: nothing went wrong');
	$session->quit;
	$control->quit;
}

# ---- requests that finish later ----

# A page was read from flash (S1), and the request is not completed (S2): its buffer is not to be had. Meanwhile somebody else
# wants it, and the slot becomes nobody's.
SKIP:
{
	skip "PostgreSQL $major finishes reads at once", 3 if $major < 18;
	my $session = session($node, one => q{SELECT pg_prewarm('t', 'buffer', 'main', 3, 3)});
	my $other   = session($node, one => $statement{one});
	my $pid     = $other->query_safe('SELECT pg_backend_pid()');
	my $control = control($node);
	my $waits   = "SELECT wait_event IS NOT NULL AND state = 'active' FROM pg_stat_activity WHERE pid = $pid";

	fc_to_flash($node, 't');
	counters($control);
	$control->query_safe($waits);
	my %before = counters($control);
	fc_failpoint($control, 'async_read', 'pause');
	begin($session, 'EXECUTE one');
	fc_failpoint_wait($control, 'async_read');
	begin($other, 'EXECUTE one');
	for (my $i = 0; $control->query_safe($waits) ne 't'; $i++)
	{
		die 'the other session does not wait' if $i > 10 * $PostgreSQL::Test::Utils::timeout_default;
		usleep(100_000);
	}
	off_and_on($control);
	fc_failpoint($control, 'async_read', 'off');
	is(result($session), '1', 'S1 | S2: the page is read');
	is(result($other), '3x', 'S1 | S2: somebody else waits for it, and has the row');
	my %after = counters($control);
	is(moved(\%before, \%after, qw(hits misses checksum_failures verify_failures)),
		'hits 1, misses 0, checksum_failures 0, verify_failures 0', 'S1 | S2: it was read once, from flash');
	$session->quit;
	$other->quit;
	$control->quit;
}
$node->stop;

done_testing();

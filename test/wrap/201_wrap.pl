# Generations, epochs, versions, positions and counters pass the end of their range.
#
# For a build that lets them begin three short of it, and lets the cache go off after 2,000 epochs without a sweep: the
# stage `wrap` (test.sh) makes it. The other suites that the stage runs cross the ends as well, with their own
# expectations; here each is crossed by itself.
#
# Fails without: the 1 in place of 0 in count_opening (store.c: "opened N times"), the count of rounds in fc_bufscan_hand
# (the writer looks at no frame any more: nothing comes into flash), the comparison of turns by their difference in
# fc_handoff_push ("dirty pages"), the mask of the version when it is compared as 32 bits ("slots reused"), the base that
# counters begin with (stats.c: "counters"), the limit of epochs in cache_change.c ("without a sweep").

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('wrap', size => '8MB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");

sub switch
{
	my ($value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.enabled = $value");
	$node->reload;
	fc_wait_state($node, $value eq 'on' ? 'active' : 'disabled');
	return;
}

# Counters are differences from where they began.
{
	my %now = fc_stat($node);
	my @high = grep { $now{$_} =~ /^-?\d+$/ && ($now{$_} < 0 || $now{$_} > 1e15) } sort keys %now;
	is_deeply(\@high, [], 'counters: none shows where it began');

	# Switched off it counts nothing.
	switch('off');
	$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
	my @work = qw(hits misses inserts writes write_bytes write_time_us eviction_invalidated);
	my %after = fc_stat($node, @work);
	is_deeply(\%after, { map { $_ => 0 } @work }, 'counters: zero after a reset');
	switch('on');
}

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, 20) n;
});

# One test: every page of t is on flash, and read from there.
sub is_served
{
	my ($session, $what) = @_;
	is(fc_to_flash($node, 't'), 20, "$what: 20 pages on flash");
	my %moved = fc_delta($node, sub { is($session->query_safe('SELECT count(*) FROM t'), 20, "$what: 20 rows") },
		'hits', 'verify_checks', 'verify_failures', 'checksum_failures', 'read_errors');
	cmp_ok($moved{hits}, '>=', 20, "$what: read from flash");
	is($moved{verify_checks}, $moved{hits}, "$what: and each compared");
	is("$moved{verify_failures} $moved{checksum_failures} $moved{read_errors}", '0 0 0', "$what: all right");
	return;
}

my $old = $node->background_psql('postgres');

# The device is opened again and again; a session from before the first time follows.
foreach my $time (1 .. 6)
{
	switch('off');
	switch('on');
	is_served($old, "opened $time times");
}

# The same slots for one table after the other: their versions rise.
{
	my $small = fc_new_node('small', size => '512kB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
	$small->safe_psql('postgres', q{
		CREATE TABLE u (id int PRIMARY KEY, v text);
		ALTER TABLE u ALTER v SET STORAGE PLAIN;
		INSERT INTO u SELECT n, n || repeat('x', 5000) FROM generate_series(1, 600) n;
		VACUUM (FREEZE) u;
		CHECKPOINT;
	});
	my %moved = fc_delta(
		$small,
		sub {
			for (1 .. 6)
			{
				is($small->safe_psql('postgres', q{
					SET enable_seqscan = off; SET enable_bitmapscan = off;
					SELECT sum(length(v)) FROM u WHERE id > 0}), 3001692, 'slots reused: the table is whole');
			}
		},
		'inserts', 'checksum_failures', 'verify_failures');
	cmp_ok($moved{inserts}, '>', 64 * 5, 'slots reused: each slot more than five times, on the average');
	is("$moved{checksum_failures} $moved{verify_failures}", '0 0', 'slots reused: all right');
	$small->stop;
}

# Pages: written again and again, their generations rise.
foreach my $time (1 .. 6)
{
	is(fc_to_flash($node, 't'), 20, "written $time times: on flash before");
	$node->safe_psql('postgres', "UPDATE t SET v = '$time' || v WHERE id <= 3; CHECKPOINT");
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v LIKE '$time%' AND id <= 3"), 3, "written $time times: read");
	$node->safe_psql('postgres', 'VACUUM FULL t');
}

# Relations and databases: epochs.
foreach my $time (1 .. 6)
{
	$node->safe_psql('postgres', "TRUNCATE t; INSERT INTO t SELECT n, $time || repeat('y', 5000) FROM generate_series(1, 20) n");
	is_served($old, "truncated $time times");
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE v LIKE '$time%'"), 20, "truncated $time times: the new rows");
}
foreach my $time (1 .. 6)
{
	$node->safe_psql('postgres', 'CREATE DATABASE d OID = 70001 STRATEGY file_copy');
	$node->safe_psql('d', qq{
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT $time || repeat('z', 5000) FROM generate_series(1, 5);
		CREATE EXTENSION pg_buffercache;
		CREATE EXTENSION pg_flashcache});
	is(fc_to_flash($node, 't', 'd'), 5, "database made $time times: on flash");
	is($node->safe_psql('d', "SELECT count(*) FROM t WHERE v LIKE '$time%'"), 5, "database made $time times: its rows");
	$node->safe_psql('postgres', 'DROP DATABASE d WITH (FORCE)');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_pages WHERE reldatabase = 70001'), 0,
		"database dropped $time times: nothing is left");
}

# Tickets of those who wait for the writer.
is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', "asked $_ times") foreach 1 .. 6;

# Dirty pages that are evicted go through the queue, whose positions rise.
{
	my %moved = fc_delta(
		$node,
		sub {
			foreach my $time (1 .. 6)
			{
				$node->safe_psql('postgres', "UPDATE t SET v = '$time' || v");
				fc_evict_all($node);
			}
		},
		'inserts', 'verify_failures', 'checksum_failures');
	cmp_ok($moved{inserts}, '>', 6 * 20, 'dirty pages come to flash');
	is("$moved{verify_failures} $moved{checksum_failures}", '0 0', 'dirty pages: all right');
}

# The writer stands still while epochs go by.
{
	my $control = fc_control($node);
	my $offset = -s $node->logfile;

	fc_failpoint($control, 'fill_written', 'pause');
	my $reader = $node->background_psql('postgres');
	$reader->query_safe("CREATE TABLE w AS SELECT n, repeat('w', 5000) AS v FROM generate_series(1, 500) n; CHECKPOINT");
	$reader->query_safe('SELECT count(*) FROM w') for 1 .. 3;
	fc_failpoint_wait($control, 'fill_written');
	$reader->query_safe('DO $$ BEGIN FOR i IN 1..400 LOOP CREATE TABLE x (); DROP TABLE x; END LOOP; END $$');
	is($control->query_safe('SELECT state FROM pg_stat_flashcache'), 'active', 'without a sweep: 1,600 epochs are not too many');
	$reader->query_safe('DO $$ BEGIN FOR i IN 1..200 LOOP CREATE TABLE x (); DROP TABLE x; END LOOP; END $$');
	is($control->query_safe('SELECT state, reason FROM pg_stat_flashcache'), 'off|the writer has not come by for too long',
		'without a sweep: the cache goes off before epochs wrap around');
	fc_failpoint($control, 'fill_written', 'off');
	$reader->quit;
	$control->quit;
	$node->wait_for_log(qr/WARNING: .*pg_flashcache is off: the writer has not come by for too long/, $offset);
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'without a sweep: it can be enabled');
	unlike(slurp_file($node->logfile, $offset), qr/It has kept/, 'without a sweep: what it had is forgotten');
	$node->safe_psql('postgres', 'VACUUM FULL t');
	is_served($old, 'after that');
}

$old->quit;
my %end = fc_stat($node, 'state', 'verify_failures', 'checksum_failures', 'read_errors', 'write_errors', 'slots_retired');
is_deeply(\%end, { state => 'active', map { $_ => 0 } qw(verify_failures checksum_failures read_errors write_errors slots_retired) },
	'nothing went wrong');

done_testing();

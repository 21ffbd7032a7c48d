# What a user gets to see: wait events, a session's own reads, counters over restarts, EXPLAIN.
#
# Each version offers what the server has room for (docs/views.md, "What each version offers"). What a version
# has not is tested too, where there is something to see: the generic wait event, counters that start at zero.

use strict;
use warnings;

use FlashCache;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my $node  = fc_new_node(
	'main',
	size => '32MB',
	# A process may pin its share of the buffers only, and read no more than that at once.
	buffers => '8MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nplan_cache_mode = force_generic_plan\n"
	  . "max_parallel_workers_per_gather = 0\n"
	  . "max_connections = 12\nmax_worker_processes = 4\n");
my $major = int($node->safe_psql('postgres', 'SHOW server_version_num') / 10000);

$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_prewarm;
	CREATE TABLE t (id int PRIMARY KEY, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, 40) n;
	VACUUM ANALYZE t;
	CREATE TABLE dirty AS SELECT n FROM generate_series(1, 10000) n;
});

# A session that has looked up everything for the given statements, which are prepared; later only pages of t are read.
sub warm_session
{
	my (%statement) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe("PREPARE $_ AS $statement{$_}") for sort keys %statement;
	for (1 .. 2)
	{
		$session->query_safe("EXECUTE $_") for sort keys %statement;
	}
	return $session;
}

# ---- wait events ----

# What the process waits for, as the control session sees it.
sub waits_for
{
	my ($control, $pid) = @_;
	return $control->query_safe("SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = $pid");
}

{
	my $named = sub { 'Extension ' . ($major >= 17 ? "Flashcache$_[0]" : 'Extension') };

	fc_to_flash($node, 't');
	my $session = warm_session(
		one  => q{SELECT 1 FROM t WHERE ctid = '(7,1)'},
		many => q{SELECT pg_prewarm('t', 'buffer')});
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	my $control = fc_control($node);

	waits_for($control, $pid);
	$control->query_safe('SELECT writer_wait_event FROM pg_stat_flashcache');
	foreach my $case ([ one => 'SingleBlockRead' ], [ many => $major >= 17 ? 'MultiBlockRead' : 'SingleBlockRead' ])
	{
		my ($statement, $event) = @$case;

		fc_to_flash($node, 't');
		waits_for($control, $pid);
		fc_failpoint($control, 'store_reading', 'pause');
		$session->query_until(qr/begun/, "\\echo begun\nEXECUTE $statement;\n");
		fc_failpoint_wait($control, 'store_reading');
		is(waits_for($control, $pid), $named->($event), "wait event of a read of $statement");
		fc_failpoint($control, 'store_reading', 'off');
		$session->query_safe('SELECT 1');
	}
	# it has answered before it waits for the client again
	ok($node->poll_query_until('postgres',
			"SELECT wait_event = 'ClientRead' FROM pg_stat_activity WHERE pid = $pid"), 'and none afterwards');

	# The writer is not among the processes of pg_stat_activity.
	is($control->query_safe(
			'SELECT count(*) FROM pg_stat_activity, pg_stat_flashcache WHERE pid = writer_pid'),
		'0', 'pg_stat_activity does not have the writer');
	# In the middle of a round it waits for nothing.
	(my $idle = $named->('WriterMain')) =~ s/^Extension //;
	ok($node->poll_query_until('postgres',
			"SELECT writer_wait_event = '$idle' FROM pg_stat_flashcache"), 'the writer waits for work');
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	(my $comm = slurp_file("/proc/$writer/cmdline")) =~ s/\0//g;
	like($comm, qr/pg_flashcache writer/, 'writer_pid is its process');

	$node->safe_psql('postgres', 'UPDATE dirty SET n = n');    # pages that the writer wants
	fc_failpoint($control, 'store_writing', 'pause');
	fc_evict_all($node);
	fc_failpoint_wait($control, 'store_writing');
	(my $write = $named->('Write')) =~ s/^Extension //;
	is($control->query_safe('SELECT writer_wait_event FROM pg_stat_flashcache'), $write, 'wait event of a write');
	fc_failpoint($control, 'store_writing', 'off');

	# Nobody waits for the device, but for the writer.
	fc_failpoint($control, 'store_writing', 'pause');
	$node->safe_psql('postgres', 'UPDATE dirty SET n = n');
	fc_evict_all($node);
	fc_failpoint_wait($control, 'store_writing');
	$session->query_until(qr/begun/, "\\echo begun\nSELECT pg_flashcache_enable();\n");
	ok($node->poll_query_until('postgres',
			"SELECT wait_event_type || ' ' || wait_event = '" . $named->('Enable')
			  . "' FROM pg_stat_activity WHERE pid = $pid"), 'wait event of pg_flashcache_enable()');
	fc_failpoint($control, 'store_writing', 'off');
	$session->quit;
	$control->quit;

  SKIP:
	{
		skip "PostgreSQL $major has no pg_wait_events and no names for wait events of extensions", 1 if $major < 17;
		is($node->safe_psql('postgres',
				q{SELECT string_agg(name, ' ' ORDER BY name COLLATE "C") FROM pg_wait_events
				  WHERE type = 'Extension' AND name ~ '^Flashcache'}),
			'FlashcacheEnable FlashcacheFollowerMain FlashcacheMultiBlockRead FlashcachePrewarm FlashcacheScrub FlashcacheSingleBlockRead FlashcacheWrite FlashcacheWriterMain',
			'pg_wait_events has their names');
	}
}

# ---- a session's reads ----

# Sessions one after the other, more than there are places for: some take the place of the first one, whose parallel
# workers have read. None sees more than its own.
{
	fc_to_flash($node, 't');
	my ($plan, $hits) = $node->safe_psql('postgres', q{
		SET max_parallel_workers_per_gather = 2;
		SET parallel_setup_cost = 0;
		SET parallel_tuple_cost = 0;
		SET min_parallel_table_scan_size = 0;
		SET cpu_tuple_cost = 10;
		SET parallel_leader_participation = off;
		EXPLAIN (ANALYZE, COSTS OFF, FORMAT json) SELECT count(v) FROM t;
		SELECT hits FROM pg_stat_flashcache_session}
	) =~ /(.*)\n(\d+)$/s;
	is(decode_json($plan)->[0]{Plan}{Plans}[0]{'Workers Launched'}, 2, 'parallel workers read');
	cmp_ok($hits, '>=', 40, 'for their leader');

	my $look = 'SELECT t.hits, t.misses, s.hits, s.misses FROM pg_stat_flashcache s, pg_stat_flashcache_session t';
	my @sum  = (split /\|/, $node->safe_psql('postgres', $look))[ 2, 3 ];
	my @wrong;
	for my $n (1 .. 20)
	{
		my ($my_hits, $my_misses, @now) = split /\|/, $node->safe_psql('postgres', $look);

		push @wrong, [ $n, $my_hits, $my_misses ] if $my_hits != $now[0] - $sum[0] || $my_misses != $now[1] - $sum[1];
		@sum = @now;
	}
	is_deeply(\@wrong, [], 'a session that takes the place of another begins at zero');
}

# ---- EXPLAIN ----

sub explain_error
{
	my ($options) = @_;
	my ($out, $err);
	$node->psql('postgres', "EXPLAIN ($options) SELECT 1", stdout => \$out, stderr => \$err);
	return $err;
}

# auto_explain: 19 lets it take the option.
SKIP:
{
	skip "PostgreSQL $major has no auto_explain.log_extension_options", 4 if $major < 19;
	my $settings = join('', map { "SET auto_explain.$_;" } 'log_min_duration = 0', q{log_level = 'notice'}, 'log_timing = off');
	my $logged = sub {
		my ($options) = @_;
		my $err;

		fc_to_flash($node, 't');
		$node->psql('postgres', "LOAD 'auto_explain'; $settings $options; SELECT count(v) FROM t", stderr => \$err);
		return $err;
	};
	my $option = "SET auto_explain.log_extension_options = 'flashcache'";

	like($logged->("$option; SET auto_explain.log_analyze = on"), qr/Seq Scan on t .*actual rows=40\.00.*\n\s+Flash Cache: hits=40 misses=0\n/,
		'auto_explain shows what a node has read');
	like($logged->($option), qr/Seq Scan on t .*\n\s+Flash Cache: hits=40 misses=0\n.*Execution:\n\s+Flash Cache: hits=\d+ misses=/s,
		'and without log_analyze, with the sum');
	like($logged->(''), qr/Seq Scan on t (?!.*Flash Cache)/s, 'not without the option');
	my (undef, undef, $wrong) = $node->psql('postgres', "LOAD 'auto_explain'; SET auto_explain.log_extension_options = 'flashcache 7'");
	like($wrong, qr/flashcache/, 'a wrong value is refused');
}

SKIP:
{
	if ($major < 18)
	{
		like(explain_error('ANALYZE, FLASHCACHE'), qr/unrecognized EXPLAIN option "flashcache"/,
			"EXPLAIN: PostgreSQL $major takes no options of extensions");
		skip "PostgreSQL $major takes no EXPLAIN options of extensions", 13;
	}
	my $plain   = 'ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF';
	my $session = $node->background_psql('postgres');
	my %statement = (
		scan => 'SELECT count(v) FROM t',
		hash => 'SELECT count(*) FROM t a JOIN t b USING (v)',
		bitmap => 'SELECT v FROM t WHERE id IN (3, 5, 7)',
		sub => q{SELECT (SELECT max(v) FROM t) FROM t WHERE ctid = '(0,1)'});

	# Before each measured run everything but t is looked up, and t is brought into flash.
	$session->query_safe("PREPARE $_ AS $statement{$_}") for sort keys %statement;
	my $explain = sub {
		my ($options, $statement, $settings) = @_;

		$session->query_safe($settings) if $settings;
		$session->query_safe("EXPLAIN ($options) EXECUTE $statement") for 1 .. 2;
		fc_to_flash($node, 't');
		fc_to_flash($node, 't_pkey');    # last: bringing t there may read its index
		return $session->query_safe("EXPLAIN ($options) EXECUTE $statement");
	};

	is($explain->("$plain, FLASHCACHE", 'scan'), <<'END' =~ s/\n$//r, 'EXPLAIN: text');
Aggregate (actual rows=1.00 loops=1)
  Flash Cache: hits=40 misses=0
  ->  Seq Scan on t (actual rows=40.00 loops=1)
        Flash Cache: hits=40 misses=0
Execution:
  Flash Cache: hits=40 misses=0
END
	like($explain->('ANALYZE, COSTS OFF, SUMMARY OFF, BUFFERS OFF, FLASHCACHE', 'scan'),
		qr/^  ->  Seq Scan on t .*\n        Flash Cache: hits=40 misses=0 read=(?!0\.000)\d+\.\d{3} ms$/m,
		'EXPLAIN: text, with timing');

	my $json = decode_json($explain->("ANALYZE, COSTS OFF, FLASHCACHE, FORMAT json", 'scan'))->[0];
	my $scan = $json->{Plan}{Plans}[0];
	is_deeply(
		[ map { [ $_->{'Flash Cache Hits'}, $_->{'Flash Cache Misses'} ] } $json->{Plan}, $scan, $json->{Execution} ],
		[ ([ 40, 0 ]) x 3 ],
		'EXPLAIN: JSON');
	cmp_ok($scan->{'Flash Cache Read Time'}, '>', 0, 'EXPLAIN: JSON, time');
	is($scan->{'Flash Cache Hits'} + $scan->{'Flash Cache Misses'},
		$scan->{'Shared Read Blocks'}, 'EXPLAIN: as many as BUFFERS says were read');

	# Everything is in shared buffers now.
	my $again = $session->query_safe("EXPLAIN ($plain, FLASHCACHE, FORMAT json) EXECUTE scan");
	$json = decode_json($again)->[0];
	is_deeply(
		[ map { [ $_->{'Flash Cache Hits'}, $_->{'Flash Cache Misses'}, $_->{'Flash Cache Read Time'} ] }
			  $json->{Plan}, $json->{Plan}{Plans}[0], $json->{Execution} ],
		[ ([ 0, 0, undef ]) x 3 ],
		'EXPLAIN: JSON has zeros, and no times without TIMING');
	is($session->query_safe("EXPLAIN ($plain, FLASHCACHE) EXECUTE scan"), <<'END' =~ s/\n$//r, 'EXPLAIN: text has no zeros but in the sum');
Aggregate (actual rows=1.00 loops=1)
  ->  Seq Scan on t (actual rows=40.00 loops=1)
Execution:
  Flash Cache: hits=0 misses=0
END
	is($session->query_safe("EXPLAIN ($plain, FLASHCACHE off) EXECUTE scan"), <<'END' =~ s/\n$//r, 'EXPLAIN: off');
Aggregate (actual rows=1.00 loops=1)
  ->  Seq Scan on t (actual rows=40.00 loops=1)
END

	# Nodes that return no tuples have no numbers: theirs are with the node above.
	$json = decode_json($explain->("$plain, FLASHCACHE, FORMAT json", 'hash', 'SET enable_mergejoin = off; SET enable_nestloop = off'))->[0];
	my $join = $json->{Plan}{Plans}[0];
	my ($hash)  = grep { $_->{'Node Type'} eq 'Hash' } @{ $join->{Plans} };
	my ($outer) = grep { $_->{'Node Type'} eq 'Seq Scan' } @{ $join->{Plans} };
	# The first row of the outer side comes first, and some pages with it.
	is_deeply(
		[ $join->{'Flash Cache Hits'}, $hash->{'Flash Cache Hits'},
			$outer->{'Flash Cache Hits'} + $hash->{Plans}[0]{'Flash Cache Hits'} ],
		[ 40, undef, 40 ],
		'EXPLAIN: a hash join contains both sides');
	$json = decode_json($explain->("$plain, FLASHCACHE, FORMAT json", 'bitmap', 'SET enable_seqscan = off; SET enable_indexscan = off'))->[0];
	is_deeply(
		[ map { $_->{'Node Type'}, $_->{'Flash Cache Hits'} } $json->{Plan}, $json->{Plan}{Plans}[0] ],
		[ 'Bitmap Heap Scan', 3 + 1, 'Bitmap Index Scan', undef ],
		'EXPLAIN: three pages of the table, one of the index');

	# Subplans; the page that the outer scan reads was read by neither before.
	$json = decode_json($explain->("$plain, FLASHCACHE, FORMAT json", 'sub', 'RESET ALL'))->[0];
	my ($initplan) = grep { $_->{'Parent Relationship'} eq 'InitPlan' } @{ $json->{Plan}{Plans} };
	is_deeply(
		[ map { $_->{'Flash Cache Hits'} } $json->{Plan}, $initplan, $initplan->{Plans}[0] ],
		[ 40, 39, 39 ],
		'EXPLAIN: a subplan is contained in the node that calls it');
	$session->quit;

	like(explain_error('FLASHCACHE'), qr/ERROR:  EXPLAIN option FLASHCACHE requires ANALYZE\nHINT:  Use EXPLAIN \(ANALYZE, FLASHCACHE\)\./,
		'EXPLAIN: requires ANALYZE');
	like(explain_error('ANALYZE, FLASHCACHE 3'), qr/ERROR:  flashcache requires a Boolean value/, 'EXPLAIN: takes a Boolean value');

	# The error in the middle of a measured statement leaves nothing behind.
	is($node->safe_psql('postgres', q{
			DO $$ BEGIN
				EXECUTE 'EXPLAIN (ANALYZE, FLASHCACHE) SELECT 1 / (id - 3) FROM t';
			EXCEPTION WHEN division_by_zero THEN NULL;
			END $$;
			SELECT count(v) FROM t}), '40', 'EXPLAIN: nothing is left behind by an error');
}
fc_is_clean($node);

# ---- counters over restarts ----

my $counters = 'hits, read_bytes, verify_checks, stats_reset';
my $values   = sub { $node->safe_psql('postgres', "SELECT $counters FROM pg_stat_flashcache") };

# After the restart nothing is evicted while we look, hence nothing can be a hit.
$node->append_conf('postgresql.conf', "shared_buffers = '32MB'");
fc_to_flash($node, 't');
cmp_ok($node->safe_psql('postgres', 'SELECT count(v) FROM t; SELECT hits FROM pg_stat_flashcache') =~ s/.*\n//r,
	'>=', 40, 'there are hits');

# What comes before a look is counted before it, and the last look is followed by no hit but of catalogs.
sub restart_and_compare
{
	my ($kept, $name, $restart) = @_;
	my $begun  = $node->safe_psql('postgres', 'SELECT stats_reset FROM pg_stat_flashcache');
	my $before = $values->();

	$before = $values->();
	$restart->();
	fc_wait_active($node);
	my $after = $values->();
	return is($after, $before, "$name: counters go on") if $kept;
	like($after, qr/^0\|0\|0\|/, "$name: counters start at zero");
	return is($node->safe_psql('postgres', "SELECT stats_reset > '$begun' FROM pg_stat_flashcache"),
		't', "$name: from the restart on");
}

restart_and_compare(0, 'keep_stats = off', sub { $node->restart });
$node->append_conf('postgresql.conf', "shared_buffers = '8MB'\npg_flashcache.keep_stats = on");
$node->restart;
fc_wait_active($node);
fc_to_flash($node, 't');
$node->append_conf('postgresql.conf', "shared_buffers = '32MB'");
$node->safe_psql('postgres', 'SELECT count(v) FROM t');
restart_and_compare($major >= 18, "PostgreSQL $major, clean restart", sub { $node->restart });

SKIP:
{
	skip "PostgreSQL $major keeps no statistics of extensions", 6 if $major < 18;
	restart_and_compare(1, 'second restart', sub { $node->restart });

	# A run without a cache hands them on.
	my $before = $values->();
	$node->append_conf('postgresql.conf', 'pg_flashcache.size = 0');
	$node->restart;
	is($values->(), $before, 'a run without a cache shows them');
	$node->append_conf('postgresql.conf', "pg_flashcache.size = '32MB'");
	restart_and_compare(1, 'after a run without a cache', sub { $node->restart });

	# A statistics snapshot is of one moment; otherwise the view is always fresh.
	is($node->safe_psql('postgres', q{
			SET stats_fetch_consistency = snapshot;
			BEGIN;
			SELECT misses AS first FROM pg_stat_flashcache \gset
			SELECT count(*) FROM pg_description \g /dev/null
			SELECT misses = :first FROM pg_stat_flashcache;
			COMMIT;
			SELECT misses > :first FROM pg_stat_flashcache}), "t\nt", 'stats_fetch_consistency = snapshot');

	$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
	is($node->safe_psql('postgres', 'SELECT hits, read_bytes, verify_checks FROM pg_stat_flashcache'),
		'0|0|0', 'a reset clears what was kept');
	restart_and_compare(1, 'after a reset', sub { $node->restart });
}
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
restart_and_compare(0, 'crash', sub { $node->stop('immediate'); $node->start });

# The way out: the library is removed, and the server's own statistics stay. (Without keep_stats = off the server would
# discard them all, for a kind that nobody knows.)
$node->append_conf('postgresql.conf', 'pg_flashcache.keep_stats = off');
$node->reload;
$node->poll_query_until('postgres', q{SELECT setting = 'off' FROM pg_settings WHERE name = 'pg_flashcache.keep_stats'}) or die;
$node->safe_psql('postgres', 'CREATE TABLE counted AS SELECT 1');
my $inserted = q{SELECT n_tup_ins FROM pg_stat_user_tables WHERE relname = 'counted'};
$node->poll_query_until('postgres', "SELECT n_tup_ins = 1 FROM pg_stat_user_tables WHERE relname = 'counted'") or die;
$node->append_conf('postgresql.conf', q{shared_preload_libraries = ''});
$node->restart;
is($node->safe_psql('postgres', $inserted), '1', 'removed after keep_stats = off: the statistics of the server are still there');
$node->stop;

done_testing();

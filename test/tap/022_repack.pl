
# REPACK, and REPACK (CONCURRENTLY), which copies a table while others change it: nothing of the old file or of the new one
# is stale, whether it ends well, is rolled back, cancelled or killed; the table's policy and its counters go on with the
# new file. What both do to files that nobody changes meanwhile is in 007_rewrite.
#
# REPACK (CONCURRENTLY) is held up twice: where it makes the new file, and where it waits for the lock for which it needs
# the table alone. In either place rows change, and pages of both files are evicted.
#
# Fails without: the invalidation in fc_smgr_write (rows of the new file are lost, verify_failures); the relation epoch in
# fc_smgr_unlink (pages of files that are gone).

use strict;
use warnings;

use FlashCache;
use FlashCacheLoads;
use FlashCacheMore;
use FlashCachePolicies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGES => 40, ROUNDS => 20 };

my ($version) = run_command([ 'pg_config', '--version' ]);
my ($major) = $version =~ /PostgreSQL (\d+)/ or die "no version in $version";
plan skip_all => "PostgreSQL $major has no REPACK" if $major < 19;

my ($primary, $standby) = fc_pair(conf => "pg_flashcache.max_policy_files = 100\nautovacuum = off\n");
my @both = ($primary, $standby);

sub sql { return $primary->safe_psql('postgres', $_[0]) }

# ---- what is there ----

my $value   = { map { $_ => fc_value_sql($_) } qw(v1 v2 v3) };

# How many rows t has, and how many of these are right: the value is one of id.
sub rows_sql
{
	my ($right) = @_;
	return "SELECT count(*), count(DISTINCT id), count(*) FILTER (WHERE val = $right) FROM t";
}

# One test for each server: the rows are right, from wherever they are, from flash, and by the index.
sub is_right
{
	my ($right, $name) = @_;
	fc_replayed($primary, $standby);
	foreach my $node (@both)
	{
		my $query = rows_sql($right);
		my @found = $node->safe_psql('postgres', $query);
		fc_bring($node, 'postgres', 't');
		push @found, $node->safe_psql('postgres', $query);
		push @found, $node->safe_psql('postgres', "SET enable_seqscan = off; SET enable_bitmapscan = off; $query WHERE id > 0");
		is_deeply(\@found, [ (join '|', (PAGES) x 3) x 3 ], $node->name . ": $name: the rows are right");
	}
	return;
}

# Pages on flash of files that no relation has: of open transactions, or left by those that are over.
sub unnamed
{
	my ($node) = @_;
	return $node->safe_psql('postgres', q{
		SELECT count(*) FROM pg_flashcache_pages p JOIN pg_database d ON d.oid = p.reldatabase AND d.datname = current_database()
		WHERE NOT EXISTS (SELECT FROM pg_class c WHERE pg_relation_filenode(c.oid) = p.relfilenode)});
}

# One test: pages of the file that an open transaction makes come to flash.
sub come_unnamed
{
	my ($name) = @_;
	for (1 .. ROUNDS)
	{
		sql('CHECKPOINT');
		fc_evict_all($primary);
		last if unnamed($primary) > 0;
	}
	return cmp_ok(unnamed($primary), '>', 0, "$name: pages of the new file are on flash");
}

# One test for each server: nothing is left of them.
sub are_gone
{
	my ($name) = @_;
	fc_replayed($primary, $standby);
	is(unnamed($_), 0, $_->name . ": $name: nothing is on flash of files that are gone") foreach @both;
	return;
}

# A session that has a lock which keeps REPACK (CONCURRENTLY) from ending; without a transaction ID, for which it would wait
# at its beginning.
sub holder
{
	my $session = $primary->background_psql('postgres');
	$session->query_safe('BEGIN; LOCK TABLE t IN ROW EXCLUSIVE MODE');
	return $session;
}

my $waits = q{FROM pg_locks WHERE relation = 't'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted};

sub wait_for_lock
{
	wait_until($primary, "count(*) = 1 $waits", 'REPACK has copied the table');
	return;
}

# ---- rows change while it runs ----

fc_table($primary, 'postgres', 't', 'v1', PAGES);
sql('ALTER TABLE t ADD PRIMARY KEY (id)');

foreach my $how ('t', 't USING INDEX t_pkey')
{
	my $name = "REPACK (CONCURRENTLY) $how";
	sql("UPDATE t SET val = $value->{v1}; VACUUM FULL t");
	fc_warm($primary, $standby, 'postgres', 't', 't_pkey');
	my @old = map { fc_tag($primary, 'postgres', $_) } 't', 't_pkey';
	fc_is_warm($_, $old[0], PAGES, "$name: the table is on flash") foreach @both;

	my $control = fc_control($primary);
	fc_failpoint($control, 'file_before_md', 'pause');
	my $repack = begin($primary, "REPACK (CONCURRENTLY) $how");
	fc_failpoint_wait($control, 'file_before_md');
	my $holder = holder();
	sql("UPDATE t SET val = $value->{v2}");
	fc_push_out($primary, $old[0]);
	is(sql(rows_sql($value->{v2})), join('|', (PAGES) x 3), "$name: the old file is right, when its pages have been evicted");
	fc_failpoint($control, 'file_before_md', 'off');
	$control->quit;

	wait_for_lock();
	come_unnamed($name);
	$holder->query_safe("UPDATE t SET val = $value->{v3} WHERE id % 2 = 0");
	$holder->query_safe("DELETE FROM t WHERE id = 1");
	$holder->query_safe("INSERT INTO t SELECT 1, val FROM (SELECT $value->{v2} AS val FROM (VALUES (1)) v(id)) v");
	$holder->query_safe('COMMIT');
	$holder->quit;
	is(result($repack), '', "$name: it ends");
	isnt(fc_tag($primary, 'postgres', 't')->{rel}, $old[0]{rel}, "$name: another file");
	is_right("CASE id % 2 WHEN 0 THEN $value->{v3} ELSE $value->{v2} END", $name);
	foreach my $node (@both)
	{
		fc_is_gone($node, $_, "$name: nothing of the old file") foreach @old;
	}
	are_gone($name);
}

# ---- the counters of the new file ----

my $hits  = "SELECT coalesce((SELECT hits FROM pg_stat_flashcache_relation WHERE relid = 't'::regclass), 0)";
my $pages = sql("SELECT pg_relation_size('t') / 8192");

# Reads all of t from flash; returns by how much that was counted.
sub count_read
{
	fc_bring($primary, 'postgres', 't');
	my $before = sql($hits);
	sql('SET max_parallel_workers_per_gather = 0; SELECT count(val) FROM t');
	return sql($hits) - $before;
}
is(count_read(), $pages, 'what is read of a table that was repacked is counted') for 1 .. 3;
my $before = sql($hits);
sql('REPACK (CONCURRENTLY) t');
# The command reads the new file itself, once for the index, and perhaps from flash.
cmp_ok(sql($hits), '<', $before, 'when it is repacked again, its counters begin anew, as after VACUUM FULL');
$pages = sql("SELECT pg_relation_size('t') / 8192");
is(count_read(), $pages, 'and go on');

# ---- it does not end well ----

foreach my $end ('pg_cancel_backend', 'pg_terminate_backend')
{
	sql("UPDATE t SET val = $value->{v1}; VACUUM FULL t");
	fc_warm($primary, $standby, 'postgres', 't', 't_pkey');
	my $old    = fc_tag($primary, 'postgres', 't');
	my $holder = holder();
	my $repack = begin($primary, 'REPACK (CONCURRENTLY) t');
	wait_for_lock();
	come_unnamed($end);
	sql("SELECT $end(pid) $waits");
	wait_until($primary, "count(*) = 0 $waits", "the end by $end");
	wait_until($primary, 'count(*) = 0 FROM pg_replication_slots', 'it has dropped its slot');
	$end eq 'pg_cancel_backend' ? like(result($repack), qr/canceling/, 'it was cancelled') : $repack->{run}->finish;
	are_gone($end);
	is(fc_tag($primary, 'postgres', 't')->{rel}, $old->{rel}, "$end: the table has its file");
	fc_is_warm($_, $old, PAGES, "$end: which is on flash") foreach @both;
	$holder->query_safe("UPDATE t SET val = $value->{v2}");
	$holder->query_safe('COMMIT');
	$holder->quit;
	is_right($value->{v2}, $end);
}

# REPACK of one table may be a part of a transaction.
foreach my $end ('COMMIT', 'ROLLBACK')
{
	sql("UPDATE t SET val = $value->{v1}; VACUUM FULL t");
	fc_warm($primary, $standby, 'postgres', 't', 't_pkey');
	my $old     = fc_tag($primary, 'postgres', 't');
	my $session = $primary->background_psql('postgres');
	$session->query_safe('BEGIN; REPACK t');
	$session->query_safe("UPDATE t SET val = $value->{v2}");
	come_unnamed($end);
	is($session->query_safe(rows_sql($value->{v2})), join('|', (PAGES) x 3), "$end: the rows are right before");
	$session->query_safe($end);
	$session->quit;
	is_right($end eq 'COMMIT' ? $value->{v2} : $value->{v1}, $end);
	are_gone($end);
	is(fc_tag($primary, 'postgres', 't')->{rel} == $old->{rel} ? 'the same' : 'another', $end eq 'COMMIT' ? 'another' : 'the same', "$end: its file");
}

# ---- policies ----

fc_table($primary, 'postgres', 'p', 'v1', PAGES);
sql('ALTER TABLE p ADD PRIMARY KEY (id)');
foreach my $policy ('none', 'keep')
{
	sql("SELECT pg_flashcache_set_policy('p', '$policy')");
	foreach my $statement ('REPACK p', 'REPACK p USING INDEX p_pkey', 'REPACK (CONCURRENTLY) p', 'REPACK (CONCURRENTLY) p USING INDEX p_pkey')
	{
		fc_is_soon($primary, "$statement: $policy is in force before", fc_in_force_sql($_), $policy) foreach 'p', 'p_pkey';
		my $old = fc_tag($primary, 'postgres', 'p');
		sql($statement);
		isnt(fc_tag($primary, 'postgres', 'p')->{rel}, $old->{rel}, "$statement: another file");
		fc_is_soon($primary, "$statement: which has the policy $policy", fc_in_force_sql($_), $policy) foreach 'p', 'p_pkey';
	}
}

# ---- the server is killed ----

sql("UPDATE t SET val = $value->{v1}; VACUUM FULL t");
fc_warm($primary, $standby, 'postgres', 't', 't_pkey');
{
	my $holder = holder();
	my $repack = begin($primary, 'REPACK (CONCURRENTLY) t');
	wait_for_lock();
	come_unnamed('kill -9');
	$holder->query_safe("UPDATE t SET val = $value->{v2}");
	fc_kill_server($primary);
	$_->{run}->finish foreach $holder, $repack;
	$primary->start;
	fc_wait_active($primary);
	fc_evict_all($primary, logged => 1);
	is_right($value->{v1}, 'kill -9');
	is(sql('SELECT count(*) FROM pg_replication_slots'), 0, 'kill -9: no slot is left');
}

fc_is_quiet(@both);
$standby->stop;
$primary->stop;
done_testing();

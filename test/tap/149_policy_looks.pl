# Looks at databases for their policies: none waits for those who lock a database, takes away what others need, goes on for
# ever or is never made again; and what comes by another way than a session's command is found.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use FlashCachePolicies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGES => 20, LOCKED => 5 };

local $ENV{FC_LOOK_MS} = 1000;
my $node = fc_new_node('main', size => '16MB', conf => <<'END');
pg_flashcache.max_policy_files = 100
autovacuum = off
wal_level = logical
max_wal_senders = 4
max_replication_slots = 4
max_parallel_workers_per_gather = 0
END
fc_everywhere($node);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

# prewarm(SQL): what psql has to tell of loading t.
sub prewarm
{
	my ($query) = @_;
	my ($result, $out, $err) = $node->psql('postgres', $query // "SELECT pg_flashcache_prewarm('t')");
	return $result == 0 ? $err : "failed: $err";
}
my $not_yet = qr/a policy that was changed is not in force yet/;

sub is_soon { return fc_is_soon($node, @_) }

fc_table($node, 'postgres', 't', 't', PAGES);
sql('CREATE DATABASE plain');
fc_table($node, 'plain', 'p', 'p', PAGES);
is_soon('all are looked at', "SELECT count(*) FROM pg_stat_flashcache_policy_databases WHERE last_look IS NOT NULL AND datname IN ('postgres', 'plain')", 2);

# ---- databases that somebody has locked ----

{
	my $writer = sql('SELECT writer_pid FROM pg_stat_flashcache');
	my @sessions;
	sql('CREATE ROLE cdb LOGIN CREATEDB');
	# it finds them once they are locked
	kill 'STOP', $writer or die "no writer: $!";
	foreach my $i (1 .. LOCKED)
	{
		sql("SET ROLE cdb; CREATE DATABASE f$i");
		push @sessions, $node->background_psql('postgres');
		$sessions[-1]->query_safe("SET ROLE cdb; BEGIN; ALTER DATABASE f$i RENAME TO g$i");
	}
	kill 'CONT', $writer;
	is_soon('databases that are locked are looked at in vain',
		"SELECT count(*) FROM pg_stat_flashcache_policy_databases WHERE datname ~ '^f' AND state <> 'known' AND reason <> ''", LOCKED);
	sql("SELECT pg_flashcache_set_policy('t', 'keep')");
	is_soon('and keep no other one from being looked at', fc_in_force_sql('t'), 'keep');
	is_soon('nobody waits for them', 'SELECT count(*) FROM pg_locks WHERE NOT granted', 0);
	foreach my $session (@sessions)
	{
		$session->query_safe('ROLLBACK');
		$session->quit;
	}
	sql("DROP DATABASE f$_") foreach 1 .. LOCKED;
}

# ---- another table in the place of a partitioned one, from which others inherit by thousands of paths ----

sql(q{
	CREATE ROLE joe LOGIN;
	CREATE SCHEMA joe AUTHORIZATION joe;
	SET ROLE joe;
	CREATE TABLE joe.m (id int) PARTITION BY RANGE (id);
	CREATE TABLE joe.p PARTITION OF joe.m FOR VALUES FROM (1) TO (2);
	RESET ROLE;
	SELECT pg_flashcache_set_policy('joe.m', 'none');
});
my $of_joe = q{SELECT count(*) FROM pg_flashcache_policies WHERE relschema = 'joe'};
is(sql($of_joe), 1, 'a partition has the policy of its tree');
sql(q{
	SET ROLE joe;
	DROP TABLE joe.m;
	CREATE TABLE joe.m (id int);
	DO $$
	DECLARE
		parents text := 'joe.m';
	BEGIN
		FOR i IN 1 .. 12 LOOP
			EXECUTE format('CREATE TABLE joe.l%s () INHERITS (%s)', i, parents);
			EXECUTE format('CREATE TABLE joe.r%s () INHERITS (%s)', i, parents);
			parents := format('joe.l%s, joe.r%s', i, i);
		END LOOP;
	END $$;
});
is(sql($of_joe), 0, 'what inherits from another table of that name has not');
sql("DELETE FROM pg_flashcache_policy_rules WHERE objname = 'm'; DROP SCHEMA joe CASCADE; DROP ROLE joe");

# ---- a database that nobody may connect to for a while ----

sql("SELECT pg_flashcache_set_policy('p', 'none')", 'plain');
is_soon('a rule of another database', fc_in_force_sql('p'), 'none', 'plain');
sql('ALTER DATABASE plain ALLOW_CONNECTIONS false');
sql('CREATE DATABASE meanwhile');
is_soon('the list of databases is read', "SELECT count(*) FROM pg_stat_flashcache_policy_databases WHERE datname = 'meanwhile'", 1);
is(sql("SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'plain'"), 1, 'sessions that are there go on: it has its rule still');
sql('DROP DATABASE meanwhile');
sql('ALTER DATABASE plain ALLOW_CONNECTIONS true');
is_soon('and it is in force when they may connect again', fc_in_force_sql('p'), 'none', 'plain');

# ---- what its owner sets ----

sql('CREATE ROLE weak; ALTER DATABASE plain SET role = weak');
sql('SET ROLE NONE; REVOKE EXECUTE ON FUNCTION pg_prepared_xact() FROM PUBLIC', 'plain');
sql("SET ROLE NONE; SELECT pg_flashcache_set_policy('p', 'keep')", 'plain');
is_soon('a look is not made by the role that the database sets',
	'SET ROLE NONE; ' . fc_in_force_sql('p'), 'keep', 'plain');
sql('ALTER DATABASE plain RESET role');

# ---- a look that takes long ----

fc_failpoint($node, 'policy_look', 'delay:1500000');
sql("SELECT pg_flashcache_set_policy('t', 'none')");
is_soon('a look that takes too long is ended',
	"SELECT state || ': ' || reason FROM pg_stat_flashcache_policy_databases WHERE datname = 'postgres'", 'failed: the look was ended after 1000 ms');
is(sql(fc_in_force_sql('t')), 'keep', 'what was in force stays');
# urgent, so that it is tried again at once
sql("SELECT pg_flashcache_set_policy('t', 'normal')");
is_soon('the next one may take longer', fc_in_force_sql('t'), 'normal');
is(sql("SELECT state || coalesce(reason, '') FROM pg_stat_flashcache_policy_databases WHERE datname = 'postgres'"), 'known', 'and has no reason to tell');
fc_failpoint($node, 'policy_look', 'off');

# ---- who loads a relation waits for its policy, but not for looks for other reasons ----

{
	my $session = $node->background_psql('postgres');
	fc_failpoint($node, 'policy_look', 'pause');
	sql('CREATE TABLE other (n int)');
	is_soon('a look since a table was made',
		"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_flashcache policy resolver' AND datname = 'postgres'", 1);
	is(prewarm(), '', 'it is not waited for');
	sql("SELECT pg_flashcache_set_policy('t', 'none')");
	$session->{stdin} .= "SELECT blocks_read, skip_no_room FROM pg_flashcache_prewarm('t');\n";
	$session->{run}->pump_nb;
	is_soon('a look for a rule is', "SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT blocks_read' AND wait_event_type = 'Extension'", 1);
	fc_failpoint($node, 'policy_look', 'off');
	$session->{run}->pump until $session->{stdout} =~ /\|/ || $session->{stderr} =~ /ERROR/;
	like($session->{stdout}, qr/^0\|${\ PAGES}$/m, 'and the policy heeded');
	$session->quit;
	sql("SELECT pg_flashcache_set_policy('t', 'normal')");
	is_soon('again without a policy', fc_in_force_sql('t'), 'normal');
}

# ---- pg_repack, which gives the table the file of another one ----

SKIP:
{
	my ($share) = run_command([ 'pg_config', '--sharedir' ]);
	skip 'pg_repack is not installed', 8 if !-e "$share/extension/pg_repack.control";
	sql('CREATE EXTENSION pg_repack');
	foreach my $policy ('none', 'keep')
	{
		sql("CREATE TABLE repacked (id int PRIMARY KEY, v text); INSERT INTO repacked SELECT n, repeat('x', 500) FROM generate_series(1, 200) n");
		sql("SELECT pg_flashcache_set_policy('repacked', '$policy')");
		is_soon("$policy: it is in force", fc_in_force_sql('repacked'), $policy);
		my $file = sql("SELECT pg_relation_filenode('repacked')");
		command_ok([ 'pg_repack', '--no-order', '--table=repacked', '-d', 'postgres', '-h', $node->host, '-p', $node->port ], "$policy: pg_repack");
		isnt(sql("SELECT pg_relation_filenode('repacked')"), $file, "$policy: it has another file");
		is_soon("$policy: which has the policy", fc_in_force_sql('repacked'), $policy);
		sql("SELECT pg_flashcache_set_policy('repacked', 'default'); DROP TABLE repacked");
	}
	sql('DROP EXTENSION pg_repack');
}

# ---- rules that a subscription brings ----

{
	my $info = $node->connstr('postgres') =~ tr/'//dr;
	sql('CREATE DATABASE copy');
	fc_table($node, 'copy', 't', 't', PAGES);
	is_soon('a database without rules', "SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'copy' AND last_look IS NOT NULL", 0);
	sql("CREATE PUBLICATION rules FOR TABLE pg_flashcache_policy_rules; SELECT pg_create_logical_replication_slot('rules', 'pgoutput')");
	sql("CREATE SUBSCRIPTION rules CONNECTION '$info' PUBLICATION rules WITH (slot_name = 'rules', create_slot = false, copy_data = false)", 'copy');
	$node->poll_query_until('copy', 'SELECT count(*) > 0 FROM pg_stat_subscription WHERE received_lsn IS NOT NULL') or die 'no subscription';
	sql("DELETE FROM pg_flashcache_policy_rules; SELECT pg_flashcache_set_policy('t', 'keep')");
	is_soon('gets one by replication', fc_in_force_sql('t'), 'keep', 'copy');
	sql("TRUNCATE pg_flashcache_policy_rules");
	is_soon('and loses it', "SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'copy'", 0);
	sql('ALTER SUBSCRIPTION rules DISABLE; ALTER SUBSCRIPTION rules SET (slot_name = NONE); DROP SUBSCRIPTION rules', 'copy');
	sql("SELECT pg_drop_replication_slot('rules')");
}

# ---- no worker ----

$node->append_conf('postgresql.conf', "max_worker_processes = 2\nmax_logical_replication_workers = 0\nmax_parallel_workers_per_gather = 2\n");
$node->restart;
fc_wait_active($node);
sql("CREATE TABLE one AS SELECT 1 AS n; SELECT pg_flashcache_set_policy('t', 'keep')");
is_soon('a rule', fc_in_force_sql('t'), 'keep');
is_soon('the databases are looked at', 'SELECT count(*) > 0 AND bool_and(last_look IS NOT NULL) FROM pg_stat_flashcache_policy_databases', 't');
{
	my $session = $node->background_psql('postgres');
	my $forced  = $node->pg_version < 16 ? 'force_parallel_mode' : 'debug_parallel_query';
	$session->{stdin} .= "SET $forced = on; SELECT pg_sleep(600) FROM one;\n";
	$session->{run}->pump_nb;
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'parallel worker'") or die 'no parallel worker';
	sql('CREATE TABLE two (n int)');
	is_soon('the view says that no worker is free', "SELECT reason FROM pg_stat_flashcache_policy_databases WHERE datname = 'postgres'",
		'no background worker is free: see max_worker_processes');
	is(prewarm(), '', 'who loads a relation does not wait until one is, if no rule has changed');
	sql("SELECT pg_flashcache_set_policy('t', 'none')");
	my @told = prewarm("SELECT pg_flashcache_prewarm('t'); SET statement_timeout = '20s'; SELECT pg_flashcache_prewarm('t')") =~ /($not_yet|failed|ERROR)/g;
	is(scalar @told, 2, 'and does once, if one has');
	like($told[1] // '', $not_yet, 'not again');
	sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^SET $forced|pg_sleep' AND backend_type = 'client backend' AND pid <> pg_backend_pid()");
	is_soon('when one is, the policy is in force', fc_in_force_sql('t'), 'none');
	is(sql("SELECT coalesce(reason, '') FROM pg_stat_flashcache_policy_databases WHERE datname = 'postgres'"), '', 'and there is no reason to tell');
	$session->{run}->finish;
}
$node->stop;

# ---- a database that was replayed last before a promotion ----

{
	my $primary = fc_new_node('primary', size => '16MB', streaming => 1, conf => "pg_flashcache.max_policy_files = 100\nautovacuum = off\n");
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	fc_everywhere($primary);
	$primary->safe_psql('postgres', 'CREATE DATABASE model');
	fc_table($primary, 'model', 't', 't', PAGES);
	$primary->safe_psql('model', "SELECT pg_flashcache_set_policy('t', 'none')");
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->append_conf('postgresql.conf', fc_conf($standby, size => '16MB', conf => "pg_flashcache.max_policy_files = 100\n"));
	$standby->start;
	fc_is_soon($standby, 'the standby knows its databases', fc_in_force_sql('t'), 'none', 'model');
	$primary->safe_psql('postgres', 'CREATE DATABASE late TEMPLATE model');
	$primary->wait_for_catchup($standby);
	$standby->promote;
	fc_is_soon($standby, 'one that was made last has its policies after a promotion', fc_in_force_sql('t'), 'none', 'late');
	$standby->stop;
	$primary->stop;
}
done_testing();

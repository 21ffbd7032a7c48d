# Policies: nobody waits for those who set them, nobody else's are lost by what one database does, and none is out of force
# longer than it takes to look.

use strict;
use warnings;

use FlashCache;
use File::Path qw(rmtree);
use FlashCacheMore;
use FlashCachePolicies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGES => 20, PLACES => 24 };

my $node = fc_new_node('main', size => '16MB', conf => 'pg_flashcache.max_policy_files = ' . PLACES . "\n" . <<'END');
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
max_prepared_transactions = 2
allow_in_place_tablespaces = on
END
fc_everywhere($node);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

sub is_soon { return fc_is_soon($node, @_) }

sql("CREATE DATABASE $_") foreach 'plain', 'moved', 'many';
fc_table($node, 'postgres', 't', 't', PAGES);
sql('CREATE TABLE a (id int PRIMARY KEY)');

# ---- a prepared transaction ----

$node->poll_query_until('postgres', 'SELECT (' . fc_looked_sql('plain') . ') > 0') or die 'plain is not looked at';
sql('CREATE TABLE p (n int)', 'plain');
{
	my $before = sql(fc_looked_sql('plain'));
	sql("BEGIN; INSERT INTO p VALUES (1); PREPARE TRANSACTION 'p'", 'plain');
	sql("COMMIT PREPARED 'p'", 'plain');
	# whatever was to be looked at has been, when two rules are in force that were set later
	sql("SELECT pg_flashcache_set_policy('t', 'keep')");
	is_soon('a rule is in force', fc_in_force_sql('t'), 'keep');
	sql("SELECT pg_flashcache_set_policy('t', 'none')");
	is_soon('so is the next one', fc_in_force_sql('t'), 'none');
	is(sql(fc_looked_sql('plain')), $before, 'COMMIT PREPARED in a database without rules starts no look');
}
sql("BEGIN; SELECT pg_flashcache_set_policy('a', 'keep'); PREPARE TRANSACTION 'q'");
sql("COMMIT PREPARED 'q'");
is_soon('one that has set a rule does', fc_in_force_sql('a'), 'keep');

# ---- nobody waits ----

{
	my $first  = $node->background_psql('postgres');
	my $second = $node->background_psql('postgres');
	$first->query_safe("BEGIN; SELECT pg_flashcache_set_policy('a', 'none')");
	my $pid = $second->query_safe('SELECT pg_backend_pid()');
	$second->{stdin} .= "SELECT pg_flashcache_set_policy('t', 'normal');\n\\echo done\n";
	$second->{run}->pump_nb;
	$node->poll_query_until('postgres', "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = $pid") or die 'it does not wait';
	my ($rc, undef, $error) = $node->psql('postgres', "SET lock_timeout = '10s'; CREATE SCHEMA others; CREATE TEMP TABLE of_mine (n int)");
	is("$rc $error", '0 ', 'whoever sets a rule and waits for another one keeps nobody from making a schema');
	$first->query_safe('CREATE SCHEMA mine');
	pass('nor comes to a deadlock by making one');
	$first->query_safe('COMMIT');
	$first->quit;
	pump_until($second->{run}, $second->{timeout}, \$second->{stdout}, qr/done/) or die 'it goes on to wait';
	$second->quit;
	is(sql("SELECT string_agg(objname || ' ' || policy, ', ' ORDER BY objname) FROM pg_flashcache_policy_rules"), 'a none, t normal', 'both are stored');
}

# ---- commands of several transactions ----

{
	my $holds = $node->background_psql('postgres');
	my $index = $node->background_psql('postgres');
	sql("SELECT pg_flashcache_set_policy('a', 'default'), pg_flashcache_set_policy('a_pkey', 'none')");
	is_soon('an index has a policy', fc_in_force_sql('a_pkey'), 'none');
	my $file = sql("SELECT pg_relation_filenode('a_pkey')");
	$holds->query_safe('BEGIN; INSERT INTO a VALUES (1)');
	my $before = sql(fc_looked_sql('postgres'));
	$index->{stdin} .= "REINDEX INDEX CONCURRENTLY a_pkey;\n\\echo done\n";
	$index->{run}->pump_nb;
	$node->poll_query_until('postgres', 'SELECT count(*) = 1 FROM pg_stat_progress_create_index WHERE lockers_total > lockers_done') or die 'it does not wait';
	# the look that the first of its transactions has asked for
	$node->poll_query_until('postgres', 'SELECT (' . fc_looked_sql('postgres') . ") > $before") or die 'no look';
	$holds->query_safe('COMMIT');
	$holds->quit;
	pump_until($index->{run}, $index->{timeout}, \$index->{stdout}, qr/done/) or die 'no end';
	$index->quit;
	isnt(sql("SELECT pg_relation_filenode('a_pkey')"), $file, 'REINDEX CONCURRENTLY gives it another file');
	is_soon('which has the policy when it is done', fc_in_force_sql('a_pkey'), 'none');
}

# ---- a database that is moved ----

sql("CREATE TABLESPACE elsewhere LOCATION ''");
fc_table($node, 'moved', 'secret', 'secret', PAGES);
sql("SELECT pg_flashcache_set_policy('secret', 'none')", 'moved');
is_soon('a table of another database', fc_in_force_sql('secret'), 'none', 'moved');
sql('ALTER DATABASE moved SET TABLESPACE elsewhere');
is_soon('keeps its policy when that is moved', fc_in_force_sql('secret'), 'none', 'moved');

# ---- more files than there are places ----

sql('CREATE SCHEMA s; ' . join('; ', map { "CREATE TABLE s.t$_ (n int)" } 1 .. 2 * PLACES), 'many');
sql("SELECT pg_flashcache_set_policy('schema', 's', 'keep')", 'many');
is_soon('one database takes what places there are', q{SELECT sum(files) FROM pg_stat_flashcache_policy_databases}, PLACES);
sql("CREATE TABLE late (n int)", 'moved');
my ($rc, undef, $warning) = $node->psql('moved', "SELECT pg_flashcache_set_policy('late', 'none')");
like($warning, qr/WARNING:  \d+ files? ha(?:ve|s) a policy that has no effect, since pg_flashcache.max_policy_files is 24\nHINT: /, 'whoever sets a rule then is warned');
is_soon('but leaves others their share', fc_in_force_sql('late'), 'none', 'moved');
is(sql(fc_in_force_sql('secret'), 'moved') . ' ' . sql(fc_in_force_sql('a_pkey')), 'none none', 'and what they had');
is(sql('SELECT sum(files) = ' . PLACES . ' AND sum(files_without_place) > 0 FROM pg_stat_flashcache_policy_databases'), 't', 'all places are in use');
sql("SELECT pg_flashcache_set_policy('schema', 's', 'default')", 'many');

# ---- what the owner of a database sets ----

sql('ALTER DATABASE moved SET debug_print_parse = on');
my $from = -s $node->logfile;
{
	my $before = sql(fc_looked_sql('moved'));
	sql("SELECT pg_flashcache_set_policy('late', 'keep')", 'moved');
	$node->poll_query_until('postgres', 'SELECT (' . fc_looked_sql('moved') . ") > $before") or die 'no look';
}
unlike(slurp_file($node->logfile, $from), qr/:ctename candidate/, 'does not count when it is looked at');
sql('ALTER DATABASE moved RESET debug_print_parse');

sql('CREATE ROLE somebody; ALTER TABLE pg_flashcache_policy_rules OWNER TO somebody', 'plain');
(undef, undef, my $error) = $node->psql('plain', "SELECT pg_flashcache_set_policy('p', 'keep')");
like($error, qr/ERROR:  the table of rules does not belong to a superuser\nHINT:  /, 'a rule is not stored where it would not count');

sql('CREATE INDEX by_lower ON pg_flashcache_policy_rules (lower(objname))', 'moved');
(undef, undef, $error) = $node->psql('moved', "SELECT pg_flashcache_set_policy('late', 'none')");
like($error, qr/ERROR:  the table of rules is not as the extension has made it\nHINT:  /, 'nor where something was added that takes SQL');
sql('DROP INDEX by_lower; ALTER TABLE pg_flashcache_policy_rules DISABLE TRIGGER ALL', 'moved');
sql("UPDATE pg_flashcache_policy_rules SET policy = 'none'; ALTER TABLE pg_flashcache_policy_rules ENABLE TRIGGER ALL", 'moved');
is_soon('what was restored without triggers is in force', fc_in_force_sql('late'), 'none', 'moved');

# ---- a standby that becomes a primary ----

{
	my $primary = fc_new_node('primary', size => '16MB', streaming => 1, conf => "pg_flashcache.max_policy_files = 100\nautovacuum = off\n");
	my $standby = PostgreSQL::Test::Cluster->new('standby');
	fc_everywhere($primary);
	fc_table($primary, 'postgres', 't', 't', PAGES);
	$primary->backup('backup');
	$standby->init_from_backup($primary, 'backup', has_streaming => 1);
	$standby->append_conf('postgresql.conf', fc_conf($standby, size => '16MB', conf => "pg_flashcache.max_policy_files = 100\n"));
	$standby->start;
	my $looked = 'SELECT looks > 0 FROM (SELECT count(last_look) AS looks FROM pg_stat_flashcache_policy_databases) l';
	$standby->poll_query_until('postgres', $looked) or die 'no look';
	# no look between the replay and the promotion: the next one would be 10 s later
	$primary->safe_psql('postgres', "SELECT pg_flashcache_set_policy('t', 'keep')");
	$primary->wait_for_catchup($standby);
	$standby->promote;
	fc_is_soon($standby, 'what was replayed last is in force on the new primary', fc_in_force_sql('t'), 'keep');
	$standby->stop;
	$primary->stop;
}

# ---- a database that cannot be entered ----

{
	my $folder = $node->data_dir . '/' . sql("SELECT pg_relation_filepath('p')", 'plain') =~ s{/[^/]*$}{}r;
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'plain'") or die 'somebody is there';
	rename($folder, "$folder.away") or die "no other name: $!";
	$node->restart;
	is_soon('the view says why it is not looked at',
		"SELECT state || ': ' || reason FROM pg_stat_flashcache_policy_databases WHERE datname = 'plain'",
		"failed: the worker ended before it was done: see the server's log");
	$node->stop;
	rmtree($folder);    # the server may have made a new one
	rename("$folder.away", $folder) or die "not its name: $!";
	$node->start;
	is_soon('and it is, when it is there again', "SELECT state FROM pg_stat_flashcache_policy_databases WHERE datname = 'plain'", 'known');
}
$node->stop;
done_testing();

# Policies of objects: which rule counts for which file, what keep and none do, and that they stay in force whatever
# happens to the files, the transaction, the writer and the server.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGES => 40;

my $conf = <<'END';
pg_flashcache.max_policy_files = 200
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
max_prepared_transactions = 2
allow_in_place_tablespaces = on
END

my $node = fc_new_node('main', size => '16MB', conf => $conf);
fc_everywhere($node);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

sub set_policy
{
	my ($arguments, $database) = @_;
	return sql("SELECT pg_flashcache_set_policy($arguments)", $database);
}

# What is in force for relations, as "name policy"; those without a policy are not there.
sub in_force_sql
{
	my (@relations) = @_;
	my $list = join ', ', map { "'$_'::regclass" } @relations;
	return "SELECT coalesce(string_agg(relid::regclass || ' ' || in_force, ', ' ORDER BY relid::regclass::text COLLATE \"C\"), '') "
	  . "FROM pg_flashcache_policies WHERE relid IN ($list)";
}

# One test: this is in force, soon.
sub is_in_force
{
	my ($name, $expected, %option) = @_;
	my $where    = $option{node}     // $node;
	my $database = $option{database} // 'postgres';
	my $query    = in_force_sql(@{ $option{of} });
	return pass($name) if $where->poll_query_until($database, $query, $expected);
	is($where->safe_psql($database, $query), $expected, $name);
	diag($where->safe_psql('postgres', 'TABLE pg_stat_flashcache_policy_databases'));
	return;
}

# One test: so many pages are on flash, soon.
sub is_on_flash
{
	my ($name, $relation, $expected, $where) = @_;
	$where //= $node;
	my $query = "SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('$relation')";
	return ok($where->poll_query_until('postgres', $query, $expected), $name);
}

sub policy_stat
{
	my ($column) = @_;
	return sql("SELECT $column FROM pg_stat_flashcache_policy");
}

# none: what is on flash goes, nothing comes, to the last page.
fc_table($node, 'postgres', 't', 'v1', PAGES);
fc_table($node, 'postgres', 'other', 'v1', PAGES);
fc_to_flash($node, 't');
fc_to_flash($node, 'other');
my $removed = policy_stat('eviction_policy');
set_policy("'t', 'none'");
is_in_force('none is in force after the commit', 't none', of => ['t']);
is_on_flash('its pages have gone', 't', 0);
is(fc_in_flash($node, 'other'), PAGES, 'others have not');
is(policy_stat('eviction_policy') - $removed, PAGES, 'and each was counted');
my $skipped = policy_stat('skip_policy');
is(sql("SELECT blocks, blocks_read, loaded, skip_no_room FROM pg_flashcache_prewarm('t')"), PAGES . '|0|0|' . PAGES, 'none is neither read nor loaded');
is(policy_stat('skip_policy') - $skipped, PAGES, 'which is counted');
sql("SELECT pg_prewarm('t', 'buffer')");
fc_evict($node, 't');
fc_writer_round($node);
is(fc_in_flash($node, 't'), 0, 'what is evicted is not taken');
cmp_ok(policy_stat('skip_policy') - $skipped, '>', PAGES, 'and counted');
set_policy("'t', 'default'");
is_in_force('the rule is removed', '', of => ['t']);
fc_to_flash($node, 't');
is(fc_in_flash($node, 't'), PAGES, 'and pages come again');

# Whoever sets a policy, and loads what it is for, need not wait in between.
sql('CREATE TABLE map AS SELECT * FROM pg_flashcache_export_map((SELECT oid FROM pg_database WHERE datname = current_database()))');
foreach my $load ("SELECT loaded, skip_no_room FROM pg_flashcache_prewarm('t')",
	"SELECT loaded, skip_no_room FROM pg_flashcache_import_map('SELECT * FROM map WHERE relfilenode = pg_relation_filenode(''t'')')")
{
	my ($by) = $load =~ /(pg_flashcache_\w+)/;
	set_policy("'t', 'none'");
	is_in_force("$by: none is in force", 't none', of => ['t']);
	is_on_flash("$by: nothing is on flash", 't', 0);
	is(sql("SELECT pg_flashcache_set_policy('t', 'keep'); $load"), "\n" . PAGES . '|0', "$by: all is loaded after keep was set");
	is(sql("SELECT pg_flashcache_set_policy('t', 'none'); $load"), "\n0|" . PAGES, "$by: nothing is after none was set");
}
sql('DROP TABLE map');
set_policy("'t', 'default'");
is_in_force('the rule is removed', '', of => ['t']);
fc_to_flash($node, 't');

# With its transaction.
set_policy("'other', 'keep'");
is_in_force('keep is in force', 'other keep', of => ['other']);
fc_writer_round($node);
is(policy_stat('kept'), PAGES, 'what was on flash is kept from now on');
is(sql("SELECT flash_blocks, kept_blocks FROM pg_flashcache_policies WHERE relname = 'other'"), PAGES . '|' . PAGES, 'as the view shows');
my $looked = policy_stat('last_look');
sql("BEGIN; SELECT pg_flashcache_set_policy('other', 'none'); SELECT pg_flashcache_set_policy('t', 'none'); ROLLBACK");
sql("BEGIN; SAVEPOINT s; SELECT pg_flashcache_set_policy('other', 'none'); ROLLBACK TO s; SELECT pg_flashcache_set_policy('t', 'keep'); COMMIT");
is_in_force('what was rolled back is not in force', 'other keep, t keep', of => [ 'other', 't' ]);
is(fc_in_flash($node, 'other'), PAGES, 'nor was it for a moment');
fc_writer_round($node);
is(policy_stat('kept'), 2 * PAGES, 'both are kept');
sql("BEGIN; SELECT pg_flashcache_set_policy('t', 'default'); PREPARE TRANSACTION 'p'");
is(sql(in_force_sql('other', 't')), 'other keep, t keep', 'what is prepared is not in force');
sql("COMMIT PREPARED 'p'");
is_in_force('but is when it is committed', 'other keep', of => [ 'other', 't' ]);
ok($node->poll_query_until('postgres', 'SELECT kept = ' . PAGES . ' FROM pg_stat_flashcache_policy'), 'and its pages are as all others');

# New files.
sql("CREATE TABLE r (id int, v text); ALTER TABLE r ALTER v SET STORAGE EXTERNAL; INSERT INTO r SELECT n, repeat('x', 3000) FROM generate_series(1, 50) n; "
	  . "CREATE INDEX r_id ON r (id); CREATE INDEX r_v ON r (id, md5(v))");
my $toast = sql("SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'r'::regclass");
my @r     = ('r', 'r_id', 'r_v', $toast, "pg_toast." . sql("SELECT relname FROM pg_class WHERE oid = (SELECT indexrelid FROM pg_index WHERE indrelid = '$toast'::regclass)"));
set_policy("'r', 'none'");
set_policy("'r_v', 'keep'");
my $all = join ', ', map { "$_ " . ($_ eq 'r_v' ? 'keep' : 'none') } sort @r;
is_in_force('indexes and TOAST follow their table, but for one with a rule', $all, of => \@r);
foreach my $what ('VACUUM FULL r', 'CLUSTER r USING r_id', 'REINDEX TABLE r', 'REINDEX TABLE CONCURRENTLY r', 'TRUNCATE r',
	'ALTER TABLE r ALTER id TYPE bigint', 'ALTER TABLE r SET TABLESPACE moved')
{
	if ($what =~ /moved/)
	{
		sql("CREATE TABLESPACE moved LOCATION ''");
	}
	my $file = sql("SELECT pg_relation_filenode('r'), pg_relation_filenode('r_v')");
	sql($what);
	isnt(sql("SELECT pg_relation_filenode('r'), pg_relation_filenode('r_v')"), $file, "$what: other files");
	# REINDEX CONCURRENTLY gives indexes of TOAST tables another name.
	my @now = ('r', 'r_id', 'r_v', $toast);
	is_in_force("$what: in force for them", join(', ', map { "$_ " . ($_ eq 'r_v' ? 'keep' : 'none') } sort @now), of => \@now);
}

# The most particular rule counts.
sql('CREATE SCHEMA s; CREATE TABLE s.a (); CREATE TABLE s.b (); CREATE TABLE s.p (k int) PARTITION BY LIST (k); '
	  . 'CREATE TABLE s.p1 PARTITION OF s.p FOR VALUES IN (1); CREATE TABLE s.p2 PARTITION OF s.p FOR VALUES IN (2) PARTITION BY LIST (k); '
	  . 'CREATE TABLE s.p2a PARTITION OF s.p2 DEFAULT; CREATE TABLE p3 (k int); CREATE TABLE s.away () TABLESPACE moved; CREATE TABLE away () TABLESPACE moved');
my @s = ('s.a', 's.b', 's.p1', 's.p2a', 'p3', 's.away', 'away');
set_policy("'database', 'postgres', 'keep'");
is_in_force('database', 'away keep, p3 keep, s.a keep, s.away keep, s.b keep, s.p1 keep, s.p2a keep', of => \@s);
set_policy("'tablespace', 'moved', 'none'");
is_in_force('tablespace', 'away none, p3 keep, s.a keep, s.away none, s.b keep, s.p1 keep, s.p2a keep', of => \@s);
set_policy("'schema', 's', 'none'");
set_policy("'tablespace', 'moved', 'keep'");
is_in_force('schema', 'away keep, p3 keep, s.a none, s.away none, s.b none, s.p1 none, s.p2a none', of => \@s);
set_policy("'s.p', 'keep'");
set_policy("'s.b', 'normal'");
is_in_force('partition tree, relation', 'away keep, p3 keep, s.a none, s.away none, s.b normal, s.p1 keep, s.p2a keep', of => \@s);
set_policy("'partition tree', 's.p2', 'none'");
set_policy("'s.p1', 'none'");
is_in_force('partition tree within another', 'away keep, p3 keep, s.a none, s.away none, s.b normal, s.p1 none, s.p2a none', of => \@s);
set_policy("'partition tree', 's.p2', 'default'");
sql('ALTER TABLE s.p ATTACH PARTITION p3 FOR VALUES IN (3); ALTER TABLE s.a SET SCHEMA public; ALTER TABLE s.b RENAME TO c');
set_policy("'database', 'postgres', 'none'");
is_in_force('after changes of names and parents', 'a none, away keep, p3 keep, s.away none, s.c none, s.p1 none, s.p2a keep',
	of => [ 'a', 's.c', 's.p1', 's.p2a', 'p3', 's.away', 'away' ]);
sql('CREATE TABLE fresh AS SELECT 1 AS n');
is(sql(in_force_sql('fresh')), 'fresh none', 'a policy of the database is in force for a new file at once');
is(sql("SELECT count(*) FROM pg_flashcache_policies WHERE kind = 'relation' AND objname = 'b' AND relid IS NULL"), 1,
	'a rule whose object is not there is shown');
sql("DELETE FROM pg_flashcache_policy_rules WHERE kind IN ('database', 'tablespace', 'schema', 'partition tree')");
is_in_force('rules that are deleted are not in force', 's.p1 none', of => \@{ [ 'a', 's.c', 's.p1', 's.p2a', 'p3', 's.away', 'away' ] });

# A dump, and another database.
set_policy("'database', 'postgres', 'none'");
set_policy("'schema', 's', 'keep'");
my $dump = $node->basedir . '/dump';
command_ok([ 'pg_dump', '-Fc', '-f', $dump, '-d', $node->connstr('postgres') ], 'pg_dump');
$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE template0');
command_ok([ 'pg_restore', '-d', $node->connstr('copy'), $dump ], 'pg_restore');
is(sql('TABLE pg_flashcache_policy_rules ORDER BY 1, 2, 3', 'copy'), sql('TABLE pg_flashcache_policy_rules ORDER BY 1, 2, 3'), 'the dump has the rules');
is_in_force('which are in force', 'other keep, r none, r_v keep, s.p2a keep, t none', of => [ 'other', 't', 'r', 'r_v', 's.p2a' ], database => 'copy');

# Settings of the database, and locks: nobody waits, and other databases are looked at.
sql("ALTER DATABASE copy SET default_transaction_isolation = serializable; ALTER DATABASE copy SET search_path = s; "
	  . "ALTER DATABASE copy SET enable_hashjoin = off; ALTER DATABASE copy SET statement_timeout = 1");
sql("CREATE SCHEMA hostile; CREATE FUNCTION hostile.no(name, text) RETURNS boolean AS 'SELECT false' LANGUAGE sql; "
	  . 'CREATE OPERATOR hostile.= (LEFTARG = name, RIGHTARG = text, FUNCTION = hostile.no)');
sql('ALTER DATABASE postgres SET search_path = hostile, public, pg_catalog');
my $lock = $node->background_psql('copy');
$lock->query_safe('SET statement_timeout = 0; BEGIN; LOCK TABLE public.pg_flashcache_policy_rules, public.t IN ACCESS EXCLUSIVE MODE; DELETE FROM public.pg_flashcache_policy_rules WHERE objname = \'other\'');
sql("SELECT pg_flashcache_set_policy('t'::regclass, 'keep')");
is_in_force('the other database does not wait', 't keep', of => ['t']);
$lock->query_safe('COMMIT');
$lock->quit;
sql('ALTER DATABASE postgres RESET search_path; ALTER DATABASE copy RESET ALL');
is_in_force('with settings of the database', 'other none', of => ['other'], database => 'copy');

# Nobody may connect to a database any more: sessions that are there go on, and so do its policies.
{
	my $rules = sql("SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'copy'");
	cmp_ok($rules, '>', 0, 'a database has rules');
	sql('ALTER DATABASE copy ALLOW_CONNECTIONS false; CREATE DATABASE later');
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_flashcache_policy_databases WHERE datname = 'later'"), 'the list of databases has been read');
	is(sql("SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'copy'"), $rules, 'nobody may connect to it: it has them still');
	sql('ALTER DATABASE copy ALLOW_CONNECTIONS true; DROP DATABASE later');
}

# Nothing locks the relation that is named by its OID: its row may be known to the session still when it has been dropped, and that
# of its schema, which nobody has asked for, is not.
{
	my $oid = sql('CREATE SCHEMA gone; CREATE TABLE gone.t (a int); SELECT \'gone.t\'::regclass::oid');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	$session->query_safe("PREPARE policy(oid) AS SELECT pg_flashcache_set_policy(\$1::regclass, 'keep'); "
		  . "PREPARE known(oid) AS SELECT has_table_privilege(\$1, 'SELECT')");
	$session->query_safe("EXECUTE policy('other'::regclass); EXECUTE known('other'::regclass)") for 1 .. 7;
	$session->query_safe("BEGIN; EXECUTE known($oid)");
	sql('DROP SCHEMA gone CASCADE');
	$session->query("EXECUTE policy($oid)");
	like($session->{stderr}, qr/relation with OID $oid does not exist/, 'of a relation that is being dropped: an error');
	$session->quit;
}

# Whatever ends, policies are in force again.
fc_to_flash($node, 't');
my $writer = sql('SELECT writer_pid FROM pg_stat_flashcache');
kill 'TERM', $writer;
ok($node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache"), 'another writer');
fc_wait_active($node);
is(policy_stat('kept'), 2 * PAGES, 'it finds what is kept');
set_policy("'t', 'none'");
is_on_flash('and obeys', 't', 0);
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
$node->reload;
fc_wait_state($node, 'disabled');
set_policy("'t', 'keep'");
is(policy_stat('kept'), 0, 'nothing is kept while it is disabled');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
$node->reload;
fc_wait_active($node);
is_in_force('disabled and enabled', 'r none, t keep', of => [ 'r', 't' ]);
fc_to_flash($node, 't');
is(policy_stat('kept'), PAGES, 'and kept');
$node->restart;
fc_wait_active($node);
is_in_force('after a restart', 'r none, t keep', of => [ 'r', 't' ]);
is_in_force('in each database', 't none', of => ['t'], database => 'copy');
fc_kill_server($node);
$node->start;
fc_wait_active($node);
is_in_force('after a crash', 'r none, t keep', of => [ 'r', 't' ]);

# More files than there is place for.
sql("SELECT pg_flashcache_set_policy('r_v', 'default'); CREATE SCHEMA many; SELECT pg_flashcache_set_policy('schema', 'many', 'keep')");
sql(join ';', map { "CREATE TABLE many.m$_ ()" } 1 .. 250);
ok( $node->poll_query_until('postgres', 'SELECT files = max_files AND files_without_place > 0 FROM pg_stat_flashcache_policy'),
	'more files than there is place for are counted');
is_in_force('none comes before keep', 'r none', of => ['r']);
sql('DROP SCHEMA many CASCADE');
ok($node->poll_query_until('postgres', 'SELECT files_without_place = 0 FROM pg_stat_flashcache_policy'), 'and there is place again');
sql('DROP EXTENSION pg_flashcache', 'copy');
sql('DROP DATABASE copy');
fc_is_clean($node);
$node->stop;

# The hand passes over what is kept, up to the limit; and keep needs no second eviction.
$node = fc_new_node('small', conf => $conf);
sql('CREATE EXTENSION pg_prewarm');
fc_table($node, 'postgres', 'k', 'v1', 20);
fc_table($node, 'postgres', 'flow', 'v1', 200);
set_policy("'k', 'keep'");
is_in_force('keep in a small cache', 'k keep', of => ['k']);
fc_to_flash($node, 'k');

# Pages of another table go through flash, many times as many as there are slots.
sub flow
{
	my $inserts;
	my $begin = sql('SELECT inserts FROM pg_stat_flashcache');
	for (1 .. 50)
	{
		sql("SELECT pg_prewarm('flow', 'buffer')");
		fc_evict_all($node);
		$inserts = sql('SELECT inserts FROM pg_stat_flashcache') - $begin;
		last if $inserts >= 512;
	}
	return cmp_ok($inserts, '>=', 512, 'others have gone through flash');
}
flow();
is(fc_in_flash($node, 'k'), 20, 'what is kept is still there');
is(policy_stat('kept || chr(32) || kept_limit'), '20 51', 'as the view says');
cmp_ok(policy_stat('kept_passed'), '>', 0, 'the hand has passed over it');
$node->append_conf('postgresql.conf', 'pg_flashcache.keep_limit = 10');
$node->reload;
fc_writer_round($node);
flow();
is(fc_in_flash($node, 'k'), 6, 'above the limit it is treated as all others, and no longer');
is(policy_stat('kept || chr(32) || kept_limit'), '6 6', 'as the view says');
set_policy("'k', 'default'");
is_in_force('without a rule', '', of => ['k']);
ok($node->poll_query_until('postgres', 'SELECT kept = 0 FROM pg_stat_flashcache_policy'), 'nothing is kept');
$node->append_conf('postgresql.conf', "pg_flashcache.keep_limit = 80\npg_flashcache.admission = reuse");
$node->restart;
fc_wait_active($node);
sql("CREATE TABLE $_ (v text); ALTER TABLE $_ ALTER v SET STORAGE PLAIN") foreach ('k2', 'n2');
set_policy("'k2', 'keep'");
is_in_force('keep with admission = reuse', 'k2 keep', of => [ 'k2', 'n2' ]);
sql("INSERT INTO $_ SELECT repeat('x', 5000) FROM generate_series(1, 20)") foreach ('k2', 'n2');

# Their pages are dirty: whoever evicts one hands it to the writer, which can't miss it.
fc_evict($node, 'k2');
fc_evict($node, 'n2');
fc_writer_round($node);
cmp_ok(fc_in_flash($node, 'k2'), '>', fc_in_flash($node, 'n2'), 'it is taken when it is evicted for the first time');
fc_is_clean($node);
$node->stop;

# A standby, whose worker may not use the isolation level of the database.
my ($primary, $standby) = fc_pair(conf => $conf);
$node = $primary;
fc_table($primary, 'postgres', 't', 'v1', PAGES);
sql('CREATE DATABASE isolated');
sql('ALTER DATABASE isolated SET default_transaction_isolation = serializable');
sql("CREATE TABLE t (); SELECT pg_flashcache_set_policy('t', 'none')", 'isolated');
fc_warm($primary, $standby, 'postgres', 't');
set_policy("'t', 'none'");
fc_replayed($primary, $standby);
is_in_force('on the standby', 't none', of => ['t'], node => $standby);
is_on_flash('where its pages have gone', 't', 0, $standby);
ok( $standby->poll_query_until('postgres',
		q{SELECT state = 'known' AND rules = 1 AND files = 1 FROM pg_stat_flashcache_policy_databases WHERE datname = 'isolated'}),
	'also in a database that is serializable');
sql('VACUUM FULL t');
fc_replayed($primary, $standby);
is_in_force('on the standby, for another file', 't none', of => ['t'], node => $standby);
my ($ret, $out, $err) = $standby->psql('postgres', "SELECT pg_flashcache_set_policy('t', 'keep')");
like($err, qr/cannot execute pg_flashcache_set_policy\(\) in a read-only transaction/, 'it is set on the primary only');
$primary->stop;
$standby->promote;
$node = $standby;
is_in_force('after the promotion', 't none', of => ['t']);
set_policy("'t', 'keep'");
is_in_force('and it can be changed', 't keep', of => ['t']);
fc_is_clean($standby);
$standby->stop;

done_testing();

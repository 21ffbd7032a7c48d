
# Files that are new: where a rule by name says `none`, nobody knows which of them it is about before their transaction has
# ended and a look has come by. Until then no page of them comes to flash, however long that takes.
#
# Fails without: fc_rules_new_file() in fc_smgr_create (pages come, and go again when the look has come by).

use strict;
use warnings;

use FlashCache;
use FlashCacheLoads;
use FlashCacheMore;
use FlashCachePolicies;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGES => 40, PLACES => 60, ROUNDS => 20 };

my $conf = 'pg_flashcache.max_policy_files = ' . PLACES . "\n" . <<'END';
autovacuum = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
max_prepared_transactions = 2
allow_in_place_tablespaces = on
END
my ($node, $standby) = fc_pair(conf => $conf);

sub sql
{
	my ($query, $database) = @_;
	return $node->safe_psql($database // 'postgres', $query);
}

sub is_soon { return fc_is_soon($node, @_) }

sub policy_stat
{
	my ($column) = @_;
	return sql("SELECT $column FROM pg_stat_flashcache_policy");
}

# A table of some pages, to be made by an open transaction.
sub table_sql
{
	my ($name, $pages) = @_;
	$pages //= PAGES;
	return "CREATE TABLE $name (v text); ALTER TABLE $name ALTER v SET STORAGE PLAIN; INSERT INTO $name SELECT repeat('x', 5000) FROM generate_series(1, $pages)";
}

# Evicts all pages of a file, twice: dirty and clean. All of them have been offered then.
sub evict
{
	my ($session, $relation) = @_;
	my $where = $session->query_safe("SELECT format('reldatabase = %s AND relfilenode = %s', oid, pg_relation_filenode('$relation')) FROM pg_database WHERE datname = current_database()");

	foreach my $turn (1 .. 2)
	{
		for my $round (1 .. ROUNDS)
		{
			last if sql("SELECT count(*) FROM pg_buffercache WHERE relforknumber = 0 AND $where") == 0;
			fc_evict_all($node);
			die "$relation stays in shared buffers" if $round == ROUNDS;
		}
		$session->query_safe("SELECT count(v) FROM $relation") if $turn == 1;
	}
	fc_writer_round($node);
	return sql("SELECT count(*) FROM pg_flashcache_pages WHERE $where");
}

sql('CREATE SCHEMA s; CREATE TABLE s.p (v text, k int) PARTITION BY LIST (k)');
sql("SELECT pg_flashcache_set_policy('schema', 's', 'none')");
sql(table_sql('s.old'));
is_soon('none is in force in the schema', fc_in_force_sql('s.old'), 'none');
my $removed = policy_stat('eviction_policy');

# ---- one transaction that lasts, and a look that does not come ----

{
	my $session = $node->background_psql('postgres');
	my $control = fc_control($node);
	my $skipped = policy_stat('skip_policy');

	$session->query_safe('BEGIN; ' . table_sql('s.t') . '; ' . table_sql('other'));
	is(evict($session, 's.t'), 0, 'no page of a new file comes to flash before its transaction has ended');
	is(evict($session, 'other'), 0, 'also where no rule is about it, since nobody knows yet');
	cmp_ok(policy_stat('skip_policy') - $skipped, '>=', 2 * PAGES, 'which is counted');
	fc_failpoint($control, 'policy_look', 'pause');
	$session->query_safe('COMMIT');
	fc_failpoint_wait($control, 'policy_look');
	is(evict($session, 's.t'), 0, 'nor before a look has come by');
	is(evict($session, 'other'), 0, 'whatever it is');
	fc_failpoint($control, 'policy_look', 'off');
	is_soon('the policy is in force', fc_in_force_sql('s.t'), 'none');
	is(evict($session, 's.t'), 0, 'no page comes afterwards');
	fc_to_flash($node, 'other');
	is(fc_in_flash($node, 'other'), PAGES, 'those of the other one do');
	is(policy_stat('eviction_policy') - $removed, 0, 'so none had to be removed');
	$control->quit;
	$session->quit;
}

# ---- files of relations that are there ----

{
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	fc_failpoint($control, 'policy_look', 'pause');
	foreach my $what ('VACUUM FULL s.t', 'CREATE INDEX ON s.t (md5(v))', "ALTER TABLE s.t ALTER v TYPE varchar, ALTER v SET STORAGE PLAIN")
	{
		my $inside = $what =~ /VACUUM/ ? '' : 'BEGIN;';
		$session->query_safe("$inside $what");
		is(evict($session, 's.t'), 0, "$what: no page comes");
		$session->query_safe('COMMIT') if $inside;
		is(evict($session, 's.t'), 0, "$what: nor after the commit");
	}
	$session->query_safe("CREATE TABLE s.p1 PARTITION OF s.p FOR VALUES IN (1); ALTER TABLE s.p1 ALTER v SET STORAGE PLAIN; INSERT INTO s.p SELECT repeat('x', 5000), 1 FROM generate_series(1, 40)");
	is(evict($session, 's.p1'), 0, 'a new partition: no page comes');
	fc_failpoint($control, 'policy_look', 'off');
	is_soon("$_: none is in force", fc_in_force_sql($_), 'none') foreach 's.t', 's.p1';
	is(evict($session, $_), 0, "$_: no page has come") foreach 's.t', 's.p1';
	is(policy_stat('eviction_policy') - $removed, 0, 'and none had to be removed');
	$session->quit;
	$control->quit;
}

# ---- an index that is built under another name: it waits for an old snapshot, is there for all, and not valid ----

sql("CREATE TABLE indexed (v text); INSERT INTO indexed SELECT repeat(md5(i::text), 20) FROM generate_series(1, 500) i; CREATE INDEX secret ON indexed (v)");
sql("SELECT pg_flashcache_set_policy('secret', 'none')");
is_soon('the policy of an index', fc_in_force_sql('secret'), 'none');
{
	my $old     = $node->background_psql('postgres');
	my $reindex = $node->background_psql('postgres');
	$old->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$reindex->query_until(qr/begun/, "\\echo begun\nREINDEX INDEX CONCURRENTLY secret;\n");
	is_soon('REINDEX CONCURRENTLY waits', q{SELECT count(*) FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid WHERE relname = 'secret_ccnew' AND indisready AND NOT indisvalid}, 1);
	# a look that began after that
	sql("SELECT pg_flashcache_prewarm('indexed')");
	my $where = sql("SELECT format('reldatabase = %s AND relfilenode = %s', oid, pg_relation_filenode('secret_ccnew')) FROM pg_database WHERE datname = current_database()");
	for my $round (1 .. ROUNDS)
	{
		last if sql("SELECT count(*) FROM pg_buffercache WHERE relforknumber = 0 AND $where") == 0;
		fc_evict_all($node);
	}
	sql("INSERT INTO indexed SELECT repeat(md5((-i)::text), 20) FROM generate_series(1, 200) i");
	for my $round (1 .. ROUNDS)
	{
		last if sql("SELECT count(*) FROM pg_buffercache WHERE relforknumber = 0 AND $where") == 0;
		fc_evict_all($node);
	}
	fc_writer_round($node);
	is(sql("SELECT count(*) FROM pg_flashcache_pages WHERE $where"), 0, 'REINDEX CONCURRENTLY: no page of the new index comes');
	$_->quit foreach $old, $reindex;
	is_soon('it takes the place of the other one', q{SELECT count(*) FROM pg_class WHERE relname LIKE 'secret%'}, 1);
	is_soon('and has its policy', fc_in_force_sql('secret'), 'none');
	is(policy_stat('eviction_policy') - $removed, 0, 'and none had to be removed');
}

# ---- whoever loads a new table waits until it is known ----

sql(table_sql('loaded'));
is(sql("SELECT loaded, skip_no_room FROM pg_flashcache_prewarm('loaded')"), PAGES . '|0', 'a table that has just been made is loaded');
sql(table_sql('s.unloaded'));
is(sql("SELECT loaded, skip_no_room FROM pg_flashcache_prewarm('s.unloaded')"), '0|' . PAGES, 'unless it has the policy none');

# ---- the first rule, and its file, in one transaction ----

sql('CREATE DATABASE fresh');
is_soon('another database', "SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'fresh' AND last_look IS NOT NULL", 0);
{
	my $session = $node->background_psql('fresh');
	$session->query_safe('BEGIN; CREATE SCHEMA s');
	$session->query_safe("SELECT pg_flashcache_set_policy('schema', 's', 'none'); " . table_sql('s.t'));
	is(evict($session, 's.t'), 0, 'a rule that is not committed counts for the files of its transaction');
	$session->query_safe('COMMIT');
	is_soon('it is in force', fc_in_force_sql('s.t'), 'none', 'fresh');
	is(evict($session, 's.t'), 0, 'and no page has come');
	$session->quit;
}

# ---- nobody else's files wait ----

sql('CREATE DATABASE keeps');
sql("CREATE SCHEMA s; SELECT pg_flashcache_set_policy('schema', 's', 'keep')", 'keeps');
is_soon('a database whose rules say nothing but keep', "SELECT rules FROM pg_stat_flashcache_policy_databases WHERE datname = 'keeps' AND state = 'known'", 1);
# Whoever loads a relation waits until the rule has been heeded, by a look that began after it.
sql("SELECT pg_flashcache_prewarm('pg_flashcache_policy_rules')", 'keeps');
{
	my $session = $node->background_psql('keeps');
	$session->query_safe('BEGIN; ' . table_sql('s.t'));
	cmp_ok(evict($session, 's.t'), '>', 0, 'pages of its new files come at once');
	$session->quit;
}

# ---- places: one is free again when the file is gone, and beyond the last one it is as with the database's policy ----

sql(join ';', map { "BEGIN; CREATE TABLE s.gone$_ (); ROLLBACK" } 1 .. 2 * PLACES);
{
	$node->safe_psql('postgres', q{SET allow_in_place_tablespaces = on; CREATE TABLESPACE broken LOCATION ''});
	sql('CREATE TABLE s.there () TABLESPACE broken');
	my $folder = $node->data_dir . '/' . sql(q{SELECT regexp_replace(pg_relation_filepath('s.there'), '/[0-9]+$', '')});
	chmod 0500, $folder or die $!;
	my $failed = 0;
	foreach my $n (1 .. 2 * PLACES)
	{
		my (undef, undef, $error) = $node->psql('postgres', "CREATE TABLE s.fails$n () TABLESPACE broken");
		$failed += $error =~ /could not create file .*Permission denied/;
	}
	chmod 0700, $folder or die $!;
	is($failed, 2 * PLACES, 'files that could not be made');
}
{
	my $session = $node->background_psql('postgres');
	$session->query_safe('BEGIN; ' . table_sql('s.more'));
	is(evict($session, 's.more'), 0, 'files that were rolled back, or not made, take no place');
	$session->query_safe(join ';', (map { "CREATE TABLE m$_ ()" } 1 .. 2 * PLACES), table_sql('late'));
	cmp_ok(evict($session, 'late'), '>', 0, 'one more than there are places is not held back');
	is(evict($session, 's.more'), 0, 'those that have one are');
	$session->query_safe('ROLLBACK');
	$session->quit;
}

# ---- a prepared transaction ----

sql('BEGIN; ' . table_sql('s.prepared') . q{; PREPARE TRANSACTION 'p'});
sql('CREATE TABLE one ()');
is_soon('a look while it is prepared', "SELECT count(*) FROM pg_class c WHERE relname = 'one' AND EXISTS (SELECT FROM pg_stat_flashcache_policy_databases WHERE datname = 'postgres' AND state = 'known')", 1);
sql("COMMIT PREPARED 'p'");
is_soon('it is committed', fc_in_force_sql('s.prepared'), 'none');
is(policy_stat('eviction_policy') - $removed, 0, 'and no page had to be removed');

# ---- a standby, whom nobody tells ----

{
	fc_replayed($node, $standby);
	fc_is_soon($standby, 'the standby knows the rule', fc_in_force_sql('s.prepared'), 'none');
	my $before = $standby->safe_psql('postgres', 'SELECT eviction_policy FROM pg_stat_flashcache_policy');
	sql(table_sql('s.replayed'));
	fc_replayed($node, $standby);
	my $tag = fc_tag($node, 'postgres', 's.replayed');
	fc_push_out($standby, $tag);
	is(fc_tag_flash($standby, $tag), 0, 'no page of a file that was replayed comes to flash of the standby');
	fc_is_soon($standby, 'its policy is in force', fc_in_force_sql('s.replayed'), 'none');
	is($standby->safe_psql('postgres', 'SELECT eviction_policy FROM pg_stat_flashcache_policy'), $before, 'and none had to be removed');
}

fc_is_quiet($node, $standby);
$standby->stop;
$node->stop;
done_testing();

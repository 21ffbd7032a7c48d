# pg_flashcache_export_map(), pg_flashcache_import_map() and pg_flashcache_compare_map(): what is in a map, to the last bit;
# what is loaded from one, and what is left out; how much of one is here; that nobody waits for it; from a primary to its
# standby.
#
# Every hit is compared with the disk. zero_damaged_pages is on, under which the writer takes no page from the pool: what
# is on flash has been loaded.

use strict;
use warnings;

use FlashCache;
use FlashCacheLoads;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { SLOTS => 1024, PAGES => 100, RANGE => 8192 };

my $conf = <<'END';
zero_damaged_pages = on
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_wal_size = 4GB
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
END
my $node = fc_new_node(
	'main',
	size      => '8MB',
	buffers   => '4MB',
	streaming => 1,
	conf      => $conf);
fc_everywhere($node);

my @results = qw(rows rows_skipped pages blocks_read loaded skip_exists skip_modification skip_dirty skip_empty
  skip_corrupt skip_no_room skip_write_error skip_locked);

# What a call should return: what is not named is 0.
sub expected
{
	my (%value) = @_;
	return join '|', map { $value{$_} // 0 } @results;
}

# A literal of SQL.
sub quoted
{
	my ($text) = @_;
	return "\$map\$$text\$map\$";
}

sub import_sql
{
	my ($query, $more) = @_;
	return "SELECT * FROM pg_flashcache_import_map(@{[quoted($query)]}" . ($more // '') . ')';
}

sub is_imported
{
	my ($query, $name, %value) = @_;
	my $more = delete $value{with};
	return is($node->safe_psql('postgres', import_sql($query, $more)), expected(rows => 1, %value), $name);
}

# A row of a map, by hand.
sub row
{
	my ($tag, $first, $bitmap, $pages) = @_;
	return "SELECT $tag->{spc}::oid, $tag->{db}::oid, $tag->{rel}::oid, 0::int2, $first\::int8, $pages, '\\x$bitmap'::bytea";
}

# The map of a file, one row a line.
sub map_of
{
	my ($tag) = @_;
	return $node->safe_psql('postgres', 'SELECT heat, first_block, pages, bitmap FROM pg_flashcache_export_map() '
		  . "WHERE (reltablespace, reldatabase, relfilenode) = ($tag->{spc}, $tag->{db}, $tag->{rel})");
}

# How much of a map is here: a row for each heat.
sub compared
{
	my ($where, $query) = @_;
	return $where->safe_psql('postgres', "SELECT * FROM pg_flashcache_compare_map(@{[quoted($query)]})");
}

# Lets the writer write one page a second, or as many as it can.
sub limit
{
	my ($where, $value) = @_;
	$where->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.write_limit = '$value'");
	$where->reload;
	wait_until($where, "pg_size_bytes(current_setting('pg_flashcache.write_limit')) = pg_size_bytes('$value')", $value);
	fc_writer_round($where);
	return;
}

my $tag = written_table($node, 't', PAGES);

# ---- what is in a map ----

{
	restart_cold($node);
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_export_map()'), 0, 'nothing is on flash: no row');
	$node->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('t')});
	is(map_of($tag), '0|0|100|\x' . 'ff' x 12 . '0f', 'a hundred pages: a row of as many bits');

	fc_fetch($node, 'postgres', 't', 20);
	is(map_of($tag), "1|0|20|\\xffff0f\n0|16|80|\\xf0" . 'ff' x 9 . '0f', 'pages that were hit are in a row of their own, which comes first');

	my $large = written_table($node, 'large', RANGE + 8);
	$node->safe_psql('postgres', qq{SELECT * FROM pg_flashcache_prewarm('large', first_block => @{[RANGE - 12]}, last_block => @{[RANGE + 6]})});
	is(map_of($large), "0|@{[RANGE - 16]}|12|\\xf0ff\n0|@{[RANGE]}|7|\\x7f", 'a row ends with the range');

	# by this very definition of the columns
	my $pages = q{SELECT reltablespace, reldatabase, relfilenode, first_block + n AS block, heat
		FROM pg_flashcache_export_map(), LATERAL generate_series(0, 8 * length(bitmap) - 1) n WHERE get_bit(bitmap, n) = 1};
	my $slots = 'SELECT reltablespace, reldatabase, relfilenode, relblocknumber, refcount FROM pg_flashcache_pages';
	is($node->safe_psql('postgres', "SELECT count(*) FROM ($pages) m"), 119, 'so many pages');
	is($node->safe_psql('postgres', "($pages EXCEPT $slots) UNION ALL ($slots EXCEPT $pages)"), '', 'and they are those of pg_flashcache_pages');
	is($node->safe_psql('postgres', "SET work_mem = '64kB'; SELECT count(*) FROM ($pages) m"), 119, 'with hardly any memory');

	is($node->safe_psql('postgres', "SELECT sum(pages) FROM pg_flashcache_export_map($tag->{db})"), 119, 'of one database');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_export_map(0)'), 0, 'of what is shared');
	$node->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('pg_database')});
	is($node->safe_psql('postgres', q{SELECT reldatabase, relfilenode = pg_relation_filenode('pg_database'), pages FROM pg_flashcache_export_map(0)}),
		'0|t|1', 'when there is something');
	is($node->safe_psql('postgres', q{SELECT DISTINCT reldatabase <> 0 FROM pg_flashcache_export_map()}), "f\nt", 'both are in the whole map');
	$node->safe_psql('postgres', 'CREATE TABLE map AS SELECT * FROM pg_flashcache_export_map(); CHECKPOINT');
}

# ---- what is loaded ----

{
	is(compared($node, 'TABLE map'), "3|0|0|\n2|0|0|\n1|20|20|1\n0|100|100|1", 'all that the map names is here');
	restart_cold($node);
	is(compared($node, 'TABLE map'), "3|0|0|\n2|0|0|\n1|20|0|0\n0|100|0|0", 'after a restart nothing is');
	$node->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 5, last_block => 39)});
	is(compared($node, 'TABLE map'), "3|0|0|\n2|0|0|\n1|20|15|0.75\n0|100|20|0.2", 'a part is');
	$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_flashcache.enabled = off});
	$node->reload;
	fc_wait_state($node, 'disabled');
	is(compared($node, 'TABLE map'), "3|0|0|\n2|0|0|\n1|20|0|0\n0|100|0|0", 'nothing is while the cache is off');
	my ($status, undef, $error) = $node->psql('postgres', import_sql('TABLE map'));
	like($error, qr/ERROR:  the flash cache cannot be prewarmed while it is disabled/, 'nor can it be loaded');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_export_map()'), 0, 'and there is no map');
	$node->safe_psql('postgres', q{ALTER SYSTEM RESET pg_flashcache.enabled});
	$node->reload;
	fc_wait_active($node);

	restart_cold($node);
	is_imported('SELECT * FROM map ORDER BY heat DESC', 'all that the map names', rows => 5, pages => 120, blocks_read => 120, loaded => 120);
	is(map_of($tag), '0|0|100|\x' . 'ff' x 12 . '0f', 'it is there, without a hit');
	fc_is_read($node, 'postgres', 't', 't', PAGES, 'and is read from flash');
	is_imported('SELECT * FROM map', 'a second time nothing is read', rows => 5, pages => 120, skip_exists => 120);
	$node->safe_psql('postgres', 'DROP TABLE large');
	is_imported('SELECT * FROM map', 'rows of what is no longer there', rows => 5, rows_skipped => 2, pages => 101, skip_exists => 101);
}
{
	restart_cold($node);
	is_imported(row($tag, 0, 'aa', 4), 'every other page, and what lies between is read', pages => 4, blocks_read => 7, loaded => 4);
	is($node->safe_psql('postgres', "SELECT string_agg(relblocknumber::text, ' ' ORDER BY 1) FROM pg_flashcache_pages WHERE relfilenode = $tag->{rel}"),
		'1 3 5 7', 'these');
	# runs begin at multiples of 32
	is_imported(row($tag, 28, 'ffff', 16), 'pages of two runs', pages => 16, blocks_read => 16, loaded => 16);
	is_imported(row($tag, 27, '01', 1) . ' UNION ALL ' . row($tag, 44, '80', 1), 'two rows', rows => 2, pages => 2, blocks_read => 2, loaded => 2);
	is(map_of($tag), '0|0|22|\xaa0000f8ff0f08', 'all of these are there');
}

# ---- what is left out ----

{
	$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE unlogged AS SELECT 1 AS one; CREATE DATABASE other');
	my $unlogged = fc_tag($node, 'postgres', 'unlogged');
	my $other    = fc_tag($node, 'other', 'pg_class');
	restart_cold($node);
	is_imported(row($unlogged, 0, '01', 1), 'an unlogged table', rows_skipped => 1);
	is_imported(row($other, 0, '01', 1), 'another database', rows_skipped => 1);
	is_imported(row({ %$tag, rel => 4000000000 }, 0, '01', 1), 'a file that is not there', rows_skipped => 1);
	is_imported(row({ %$tag, spc => 1664 }, 0, '01', 1), 'another tablespace', rows_skipped => 1);
	is_imported(row({ %$tag, db => 0 }, 0, '01', 1), 'not shared', rows_skipped => 1);
	is_imported(row($tag, 96, 'ff', 8), 'pages behind the end', pages => 8, blocks_read => 4, loaded => 4, skip_modification => 4);
	is_imported(row($tag, 1048576, 'ff', 8), 'all of them behind it', pages => 8, skip_modification => 8);
	is_imported(row($tag, 4294967288, '7f', 7), 'the last block that there can be', pages => 7, skip_modification => 7);
	is_imported(row($tag, 4294967288, 'ff', 8), 'and the one after it, which there cannot', pages => 8, skip_modification => 8);
	is(fc_tag_flash($node, $tag), 4, 'nothing else has been loaded');

	fc_rewrite_rows($node, 'postgres', 't', 'second');
	is_imported(row($tag, 0, 'ff', 8), 'pages that are dirty in shared buffers', pages => 8, skip_dirty => 8);
	$node->safe_psql('postgres', 'CHECKPOINT');

	# Nothing of a bad map but the rows before; of these the writer may still have had the last one.
	my ($status, undef, $error) = $node->psql('postgres',
		import_sql(join ' UNION ALL ', row($tag, 0, '03', 2), row($tag, 32, '03', 2), row($tag, 64, '03', 1)));
	like($error, qr/ERROR:  row 3 of the map is not one that pg_flashcache_export_map\(\) returns: pages is 1, but bitmap has 2\n/, 'a damaged row');
	is(fc_tag_flash($node, $tag, 'relblocknumber < 32'), 2, 'the first row has been loaded');
	is(fc_tag_flash($node, $tag, 'relblocknumber > 33'), 0, 'and nothing of the damaged one');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_flashcache_prewarm'), 0, 'and the session is done');

	restart_cold($node);
	my $locker = $node->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK t IN ACCESS EXCLUSIVE MODE');
	is_imported(row($tag, 0, 'ff' x 12, 96), 'somebody has locked the table', pages => 96, skip_locked => 96);
	$locker->query_safe('COMMIT');
	$locker->quit;
	is_imported(row($tag, 0, 'ff' x 12, 96), 'nobody has', pages => 96, blocks_read => 96, loaded => 96);

	# The query itself loads pages: it has come to its end before the import begins.
	restart_cold($node);
	is_imported("SELECT m.* FROM (@{[row($tag, 0, 'ff', 8)]}) m, pg_flashcache_prewarm('t')", 'the query prewarms', pages => 8, skip_exists => 8);
	restart_cold($node);
	is_imported("SELECT m.* FROM (@{[row($tag, 0, 'ff', 8)]}) m, pg_flashcache_import_map(\$in\$@{[row($tag, 0, '0f', 4)]}\$in\$)",
		'the query imports', pages => 8, blocks_read => 4, loaded => 4, skip_exists => 4);
}

# ---- pages that change meanwhile ----

foreach my $point (qw(load_guarded load_read fill_written))
{
	# with its hint bits, or reading would make it dirty
	$node->safe_psql('postgres', 'SELECT count(*) FROM t; CHECKPOINT');
	restart_cold($node);
	my $control = fc_control($node);
	fc_failpoint($control, $point, 'pause', $tag->{rel});
	my $session = begin($node, import_sql(row($tag, 8, 'ffff', 16)));
	fc_failpoint_wait($control, $point);
	fc_rewrite_rows($node, 'postgres', 't', "at $point");
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_failpoint($control, $point, 'off');
	is(result($session), expected(rows => 1, pages => 16, blocks_read => 16, skip_modification => 16),
		"$point: pages that were changed and written are not published");
	$control->quit;
	is(fc_tag_flash($node, $tag), 0, "$point: none is there");
	fc_is_read($node, 'postgres', 't', "at $point", PAGES, "$point: the new rows are read", 'any');
}

# ---- nobody waits for it, and it can be cancelled ----

{
	restart_cold($node);
	limit($node, '8kB');
	my $session = begin($node, import_sql(row($tag, 0, 'ff' x 12, 96)));
	wait_until($node, q{count(*) = 1 FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit' AND blocks_done = 32}, 'the limit');
	is($node->safe_psql('postgres', q{
		SELECT datname, relid, current_relid::regclass, relations_total, relations_done, blocks_total, blocks_done, blocks_read, skip_exists, skipped
		FROM pg_stat_progress_flashcache_prewarm}), 'postgres||t||||32|32|0|0', 'progress');
	# it has read the next run, and waits with it
	wait_until($node, q{NOT EXISTS (SELECT FROM pg_locks WHERE relation = 't'::regclass)
		AND EXISTS (SELECT FROM pg_stat_progress_flashcache_prewarm WHERE blocks_done = 32)}, 'no lock is held');
	is($node->safe_psql('postgres', q{SET lock_timeout = '60s'; ALTER TABLE t SET (fillfactor = 41); SELECT 'altered'}), 'altered',
		'whoever needs the table for himself gets it');
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_flashcache_prewarm');
	is(result($session), 'canceling statement due to user request', 'it can be cancelled while it waits');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_flashcache_prewarm'), 0, 'progress: it is gone');
	limit($node, '0');
	is($node->safe_psql('postgres', 'SELECT used - (SELECT count(*) FROM pg_flashcache_pages) FROM pg_stat_flashcache'), 0, 'no slot is lost');
}

# ---- how it shares flash with others ----

{
	my $hot = written_table($node, 'hot', SLOTS - 24);
	restart_cold($node);
	$node->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('hot')});
	fc_fetch($node, 'postgres', 'hot', 500);
	is_imported(row($tag, 0, 'ff' x 4, 32), 'free slots are taken, and no others', pages => 32, blocks_read => 32, loaded => 24, skip_no_room => 8);
	is(fc_tag_flash($node, $hot), SLOTS - 24, 'no page had to go');
	is_imported(row($tag, 0, 'ff' x 12, 96), 'on request, pages that nobody wanted go for it', with => ', replace => true',
		pages => 96, blocks_read => 72, loaded => 72, skip_exists => 24);
	is(fc_tag_flash($node, $hot, 'refcount > 0'), 500, 'none of those that were hit');
	is(fc_tag_flash($node, $hot), SLOTS - 96, 'one for each');
	$node->safe_psql('postgres', 'DROP TABLE hot');
}

# ---- from a primary to its standby ----

{
	restart_cold($node);
	my $gone    = written_table($node, 'gone', 96);
	my $standby = fc_new_standby('standby', $node, size => '8MB', buffers => '4MB', conf => $conf . 'max_standby_streaming_delay = -1');
	fc_replayed($node, $standby);
	$node->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 7, last_block => 60)});
	my $rows = $node->safe_psql('postgres', q{
		SELECT string_agg(format('(%s::oid, %s::oid, %s::oid, %s::int2, %s::int8, %s, %L::bytea)',
			reltablespace, reldatabase, relfilenode, heat, first_block, pages, bitmap), ', ') FROM pg_flashcache_export_map()});
	is($standby->safe_psql('postgres', import_sql("VALUES $rows")), expected(rows => 1, pages => 54, blocks_read => 54, loaded => 54),
		'a standby loads what its primary has, from its own files');
	is(fc_tag_flash($standby, $tag, 'relblocknumber BETWEEN 7 AND 60'), 54, 'these are the pages');
	is(compared($standby, "VALUES $rows"), "3|0|0|\n2|0|0|\n1|0|0|\n0|54|54|1", 'all of the map is here');

	# Replay waits for a lock as long as it takes; so there must be none.
	limit($standby, '8kB');
	my $session = begin($standby, import_sql(row($gone, 0, 'ff' x 12, 96)));
	wait_until($standby, q{count(*) = 1 FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit' AND blocks_done = 32}, 'the limit');
	wait_until($standby, q{NOT EXISTS (SELECT FROM pg_locks WHERE relation = 'gone'::regclass)
		AND EXISTS (SELECT FROM pg_stat_progress_flashcache_prewarm WHERE blocks_done = 32)}, 'no lock is held');
	$node->safe_psql('postgres', 'DROP TABLE gone');
	fc_replayed($node, $standby);
	is($standby->safe_psql('postgres', q{SELECT to_regclass('gone') IS NULL}), 't', 'replay of DROP TABLE does not wait for an import');
	limit($standby, '0');
	is(result($session) =~ s/\|.*//r, '1', 'which ends');
	fc_writer_round($standby);
	is(fc_tag_flash($standby, $gone), 0, 'no page of it is on flash');
	fc_rewrite_rows($node, 'postgres', 't', 'on the primary');
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_replayed($node, $standby);
	is($standby->safe_psql('postgres', "SELECT count(*) FROM t WHERE val = @{[fc_value_sql('on the primary')]}"), PAGES, 'the rows are the new ones');
	$standby->safe_psql('postgres', 'CHECKPOINT');
	is(compared($standby, "VALUES $rows"), "3|0|0|\n2|0|0|\n1|0|0|\n0|54|0|0", 'nothing of the map is here any more');
	fc_is_clean($standby);
}

# ---- with what is in shared_buffers ----

{
	my $buffered = written_table($node, 'buffered', 40);
	restart_cold($node);
	my $with = "SELECT heat, first_block, bitmap FROM pg_flashcache_export_map(NULL, true) WHERE relfilenode = $buffered->{rel}";
	is($node->safe_psql('postgres', $with), '', 'nothing of the table is anywhere');
	$node->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('buffered', first_block => 24, last_block => 31)});
	fc_fetch($node, 'postgres', 'buffered', 24);
	is($node->safe_psql('postgres', $with), '0|0|\xffffffff', 'once for each: both are in the map, and were asked for once at most');
	fc_fetch($node, 'postgres', 'buffered', 8) foreach 1 .. 2;
	is($node->safe_psql('postgres', $with), "2|0|\\xff\n0|8|\\xffffff", 'what was asked for again in shared_buffers is hotter');
	fc_fetch($node, 'postgres', 'buffered', 32);
	is($node->safe_psql('postgres', $with), "3|0|\\xff\n1|8|\\xffffff", 'a page that is in both has the higher heat');
	is($node->safe_psql('postgres', "SELECT count(*) FROM pg_flashcache_export_map(NULL, false) WHERE relfilenode = $buffered->{rel} AND pages = 8"), 1,
		'without: what is on flash');
	is($node->safe_psql('postgres', qq{SELECT sum(pages) FROM pg_flashcache_export_map((SELECT oid FROM pg_database WHERE datname = 'template0'), true)}), '',
		'of another database: nothing');

	# A frame loses its page while the map is made.
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	fc_fetch($node, 'postgres', 'buffered', 40);
	fc_failpoint($control, 'buffer_look', 'pause', $buffered->{rel});
	$session->query_until(qr/begun/, "\\echo begun\nCREATE TABLE torn AS SELECT * FROM pg_flashcache_export_map(NULL, true);\n");
	fc_failpoint_wait($control, 'buffer_look');
	$node->safe_psql('postgres', 'DROP TABLE buffered');
	fc_failpoint($control, 'buffer_look', 'off');
	$session->query_safe('SELECT 1');
	is($node->safe_psql('postgres', 'SELECT count(*) > 0, count(*) FILTER (WHERE relfilenode = 0 OR first_block > 4294967286) FROM torn'), 't|0',
		'a page that is dropped meanwhile is not in the map, and nothing else in its place');
	$_->quit foreach $session, $control;
}

fc_is_clean($node);
done_testing();

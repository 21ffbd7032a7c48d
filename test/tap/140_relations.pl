
# pg_stat_flashcache_relation and pg_flashcache_relations: each read belongs to one relation, to the last page; what has no
# place is counted with the rest of its database; a rewrite begins anew; who sees what.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant COUNTERS => qw(reads hits disk_reads os_cache_hits inserts invalidations evictions_without_hit);

my $node = fc_new_node('main', size => '4MB', conf => <<'END');
pg_flashcache.verify = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_parallel_workers_per_gather = 0
END
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_prewarm;
	CREATE SCHEMA s;
	CREATE TABLE s.t (id int PRIMARY KEY, v text);
	ALTER TABLE s.t ALTER v SET STORAGE PLAIN;
	INSERT INTO s.t SELECT n, repeat('x', 5000) FROM generate_series(1, 40) n;
	CREATE TABLE long (v text);
	ALTER TABLE long ALTER v SET STORAGE EXTERNAL;
	INSERT INTO long SELECT repeat('x', 50000) FROM generate_series(1, 4);
	VACUUM ANALYZE;
});

# counters(relation, database): of one relation, or of everything else where it is undefined.
sub counters
{
	my ($relation, $database) = @_;
	my $which = defined $relation ? "relid = '$relation'::regclass" : 'relid IS NULL';
	my $columns = join ', ', map { "coalesce(sum($_), 0)" } COUNTERS;
	my %now;
	@now{ (COUNTERS) } = split /\|/,
	  $node->safe_psql($database // 'postgres', "SELECT $columns FROM pg_stat_flashcache_relation WHERE $which");
	return %now;
}

# moved(relation, sub): by how much they have moved.
sub moved
{
	my ($relation, $sub) = @_;
	my %before = counters($relation);
	$sub->();
	my %after = counters($relation);
	return { map { $_ => $after{$_} - $before{$_} } grep { $after{$_} != $before{$_} } COUNTERS };
}

# Backwards: neighbouring pages in a row would be left to the disk.
my $prewarm = sub {
	$node->safe_psql('postgres', "SELECT sum(pg_prewarm('$_[0]', 'buffer', 'main', b, b)) FROM "
	  . "generate_series(pg_relation_size('$_[0]') / current_setting('block_size')::int - 1, 0, -1) b");
};

# From flash, and from disk.
my $pages = fc_to_flash($node, 's.t');
is($pages, 40, 'a table of 40 pages');
is_deeply(moved('s.t', sub { $prewarm->('s.t') }), { reads => 40, hits => 40 }, 'from flash: 40 hits of the table');
fc_evict($node, 's.t');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
$node->reload;
fc_wait_state($node, 'disabled');
is_deeply(moved('s.t', sub { $prewarm->('s.t') }), { reads => 40, disk_reads => 40 }, 'disabled: 40 pages from disk');
$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
$node->reload;
fc_wait_active($node);

# What is one relation's is not another's; times; what it is a part of.
fc_to_flash($node, $_) foreach 's.t', 's.t_pkey';
is_deeply(moved('s.t', sub { $prewarm->('s.t_pkey') }), {}, 'the reads of an index are not those of its table');
is($node->safe_psql('postgres', q{SELECT read_time_us > 0 AND disk_read_time_us > 0 AND optimized_reads = hits AND unoptimized_reads = disk_reads
	AND reads = hits + disk_reads AND stats_reset <= now() FROM pg_stat_flashcache_relation WHERE relid = 's.t'::regclass}),
	't', 'times, and the other names');
is($node->safe_psql('postgres', q{SELECT schemaname, relname, relkind, index_of::regclass, toast_of FROM pg_stat_flashcache_relation WHERE relid = 's.t_pkey'::regclass}),
	's|t_pkey|i|s.t|', 'an index');
my $toast = $node->safe_psql('postgres', q{SELECT reltoastrelid::regclass FROM pg_class WHERE oid = 'long'::regclass});
my $toast_pages = fc_to_flash($node, $toast);
is_deeply(moved($toast, sub { $prewarm->($toast) }), { reads => $toast_pages, hits => $toast_pages }, 'a TOAST table');
is($node->safe_psql('postgres', qq{SELECT DISTINCT relkind, toast_of::regclass FROM pg_stat_flashcache_relation
	WHERE relid IN ('$toast'::regclass, (SELECT indexrelid FROM pg_index WHERE indrelid = '$toast'::regclass)) ORDER BY 1}),
	"i|long\nt|long", 'it, and its index');
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_stat_flashcache_relation WHERE relid = 'pg_class'::regclass AND disk_reads > 0}),
	't', 'catalogs');
is($node->safe_psql('postgres', q{SELECT count(*) > 0 FROM pg_stat_flashcache_relation WHERE relid = 'pg_database'::regclass AND disk_reads > 0}),
	't', 'shared catalogs');

# Inserts: those of the whole server, as only this table is written.
$node->safe_psql('postgres', q{CREATE TABLE fresh (n int, v text); ALTER TABLE fresh ALTER v SET STORAGE PLAIN; INSERT INTO fresh SELECT n, repeat('x', 5000) FROM generate_series(1, 30) n; ANALYZE fresh});
fc_to_flash($node, 'fresh');
my $inserted = { counters('fresh') }->{inserts};
cmp_ok($inserted, '>=', 1, 'inserts are counted');
is(moved('fresh', sub { $node->safe_psql('postgres', q{UPDATE fresh SET n = n WHERE n = 7; CHECKPOINT}) })->{invalidations},
	1, 'one page of it is changed: one invalidation');
my $on_flash = fc_in_flash($node, 'fresh');
is(moved('fresh', sub { $node->safe_psql('postgres', q{DELETE FROM fresh WHERE n > 0; VACUUM fresh}) })->{invalidations},
	$on_flash, 'all are cut off: as many invalidations as there were pages');

# A rewrite begins anew, and the counters of the old file go to everything else; so they do when it is dropped.
my $whole = q{SELECT sum(hits), sum(disk_reads) FROM pg_stat_flashcache_relation
	WHERE 's.t'::regclass IN (relid, index_of, toast_of)};
my @old = split /\|/, $node->safe_psql('postgres', $whole);
my $gained = moved(undef, sub { $node->safe_psql('postgres', 'TRUNCATE s.t') });
my %new = counters('s.t');
is_deeply([ @new{qw(hits disk_reads inserts)} ], [ 0, 0, 0 ], 'TRUNCATE: a new file, which begins at 0');
# and what the command itself reads of catalogs without a row, at most
ok($gained->{hits} >= $old[0] && $gained->{hits} < $old[0] + 20 && $gained->{disk_reads} >= $old[1] && $gained->{disk_reads} < $old[1] + 20,
	'what was read of the old one is of everything else');
my %old = counters($toast);
$gained = moved(undef, sub { $node->safe_psql('postgres', 'DROP TABLE long') });
ok($gained->{hits} >= $old{hits} && $gained->{hits} < $old{hits} + 20, 'DROP TABLE: the same');

# A transaction's own new file has no row of its own before it ends: nobody else can name it.  Temporary tables have none at all.
$gained = moved(undef, sub { $node->safe_psql('postgres', q{
	SET temp_buffers = 100;
	CREATE TEMP TABLE temporary (v text);
	ALTER TABLE temporary ALTER v SET STORAGE PLAIN;
	INSERT INTO temporary SELECT repeat('x', 5000) FROM generate_series(1, 300);
	SELECT sum(length(v)) FROM temporary;
}) });
cmp_ok($gained->{disk_reads}, '>=', 200, 'temporary tables are of everything else');

# Evicted without a hit: a table larger than what flash has left, read once; then another one.
$node->safe_psql('postgres', q{CREATE TABLE never (n int, v text); ALTER TABLE never ALTER v SET STORAGE PLAIN; INSERT INTO never SELECT n, repeat('x', 5000) FROM generate_series(1, 100) n; ANALYZE never});
fc_to_flash($node, 'never');
$node->safe_psql('postgres', q{CREATE TABLE pushes (n int, v text); ALTER TABLE pushes ALTER v SET STORAGE PLAIN; INSERT INTO pushes SELECT n, repeat('x', 5000) FROM generate_series(1, 900) n; ANALYZE pushes});
for my $round (1 .. 40)
{
	my %now = counters('never');
	last if $now{evictions_without_hit} > 0;
	$node->safe_psql('postgres', q{SELECT pg_prewarm('pushes', 'buffer')});
	fc_evict_all($node);
}
cmp_ok({ counters('never') }->{evictions_without_hit}, '>', 0, 'pages written for nothing are counted');
my ($relations, $server) = split /\n/, $node->safe_psql('postgres', q{
	SELECT sum(evictions_without_hit) FROM pg_stat_flashcache_relation; SELECT eviction_aged_out FROM pg_stat_flashcache});
cmp_ok($relations, '<=', $server, 'they are evictions');

# Another database has rows of its own; shared relations are of both.
$node->safe_psql('postgres', 'CREATE DATABASE other');
$node->safe_psql('other', 'CREATE EXTENSION pg_flashcache; CREATE TABLE elsewhere AS SELECT 1');
is($node->safe_psql('other', q{SELECT count(*) FROM pg_stat_flashcache_relation WHERE relname IN ('never', 'pushes')}), 0, 'another database: not these');

# Where pages are.
fc_to_flash($node, 'never');
is($node->safe_psql('postgres', q{SELECT schemaname, relkind, bytes / current_setting('block_size')::int, blocks, flash_blocks, buffer_blocks, flash_share
	FROM pg_flashcache_relations WHERE relid = 'never'::regclass}), 'public|r|100|100|100|0|1', 'pg_flashcache_relations');
is($node->safe_psql('postgres', q{SELECT count(*) FILTER (WHERE s.hits > 0) > 0, count(*) FILTER (WHERE s.disk_reads > 0) > 0, bool_and(r.reads = s.reads
		AND r.flash_read_share = s.hits / s.reads::float8 AND r.os_cache_read_share = s.os_cache_hits / s.reads::float8
		AND r.disk_read_share = (s.disk_reads - s.os_cache_hits) / s.reads::float8)
	FROM pg_flashcache_relations r JOIN pg_stat_flashcache_relation s USING (relid)
	WHERE r.schemaname IN ('s', 'public') AND s.reads > 0}), 't|t|t', 'where they were read from');
# The writer may fill and unlink pages between the two looks.
ok($node->poll_query_until('postgres', q{SELECT sum(flash_blocks) = (SELECT count(*) FROM pg_flashcache_pages WHERE reldatabase IN (0,
		(SELECT oid FROM pg_database WHERE datname = 'postgres'))) FROM pg_flashcache_relations}), 'all of the pages on flash');
is($node->safe_psql('postgres', q{SELECT DISTINCT sampled FROM pg_flashcache_relation_pages(512)}), 1, '512 slots: none is left out');
is($node->safe_psql('postgres', q{SELECT DISTINCT sampled FROM pg_flashcache_relation_pages(511)}), 2, 'a sample of every second');
is($node->safe_psql('postgres', q{SELECT sum(flash_blocks) BETWEEN 0.5 * (SELECT used FROM pg_stat_flashcache) AND 1.5 * (SELECT used FROM pg_stat_flashcache),
	bool_and(flash_blocks % 2 = 0) FROM pg_flashcache_relation_pages(511)}), 't|t', 'is scaled up');

# Off, and reset.
is_deeply(moved('never', sub { $node->safe_psql('postgres', q{SET pg_flashcache.track_relations = off; SELECT pg_prewarm('never', 'buffer', 'main', 50, 50)}) }),
	{}, 'track_relations = off: nothing is counted');
is($node->safe_psql('postgres', q{SELECT pg_flashcache_reset_stats(); SELECT count(*) FROM pg_stat_flashcache_relation WHERE relid = 'never'::regclass}),
	"\n0", 'a reset: not counted any more');
is($node->safe_psql('postgres', q{SELECT count(*) > 5000 FROM pg_shmem_allocations WHERE name ~ 'pg_flashcache (relations|statements|latency)' HAVING count(*) = 3}),
	'f', 'the tables are in shared memory');

# A frame loses its page while they are counted. (The writer, which looks at frames as well, is not the one who stands there.)
{
	$node->safe_psql('postgres', 'CREATE TABLE gone AS SELECT n FROM generate_series(1, 4000) n');
	my $file    = $node->safe_psql('postgres', q{SELECT pg_relation_filenode('gone')});
	my $writer  = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	$session->query_safe('SELECT count(*) FROM pg_flashcache_relations');
	$node->safe_psql('postgres', q{SELECT sum(pg_prewarm('gone', 'buffer')) FROM generate_series(1, 5)});
	kill 'STOP', $writer or die $!;
	fc_failpoint($control, 'buffer_look', 'pause', $file);
	$session->query_until(qr/begun/, "\\echo begun\nCREATE TABLE counted AS SELECT * FROM pg_flashcache_relations;\n");
	fc_failpoint_wait($control, 'buffer_look');
	$node->safe_psql('postgres', 'DROP TABLE gone');
	fc_failpoint($control, 'buffer_look', 'off');
	kill 'CONT', $writer or die $!;
	is(eval { $session->query_safe('SELECT count(*) > 10 FROM counted') } // $@, 't', 'a page that is dropped meanwhile: the others are counted');
	$control->quit;
	eval { $session->quit };
}

# Few places: the rest has none, and nothing is lost.
$node->append_conf('postgresql.conf', 'pg_flashcache.max_tracked_relations = 16
# all catalogs fit in
shared_buffers = 16MB');
$node->restart;
fc_wait_active($node);
$node->safe_psql('postgres', q{SELECT pg_flashcache_reset_stats(); SELECT count(*) FROM pg_stats});
is($node->safe_psql('postgres', 'SELECT relations, max_relations FROM pg_flashcache_tracking_stat()'), '16|16', 'all places are taken');
my $nine = q{SELECT sum(pg_prewarm('never', 'buffer', 'main', b, b)) FROM generate_series(80, 0, -10) b};
$gained = moved(undef, sub { $node->safe_psql('postgres', $nine) });
cmp_ok($gained->{reads}, '>=', 9, 'a relation without a place is of everything else');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_flashcache_relation WHERE relid = 'never'::regclass}), 0, 'it has no row');
is($node->safe_psql('postgres', q{SELECT buffer_blocks, flash_blocks FROM pg_flashcache_relations WHERE relid = 'never'::regclass}), '9|0', 'and nine pages in shared buffers');
# Shared catalogs have places then, too.
$node->append_conf('postgresql.conf', 'pg_flashcache.max_tracked_relations = 1000');
$node->restart;
fc_wait_active($node);
$node->safe_psql('postgres', "SELECT pg_flashcache_reset_stats(); $nine");
# Looking may read catalogs itself; once they are in memory, it does not.
ok($node->poll_query_until('postgres', q{SELECT sum(r.hits) = max(s.hits) AND sum(r.disk_reads) = max(s.disk_reads) AND max(s.disk_reads) > 9
	FROM pg_stat_flashcache_relation r, pg_stat_flashcache s}), 'together, the rows have what the server has');

# Relations that are only written leave places to those that are read.
$node->safe_psql('postgres', q{DO $$ BEGIN FOR i IN 1 .. 1000 LOOP EXECUTE format('CREATE TABLE written_%s AS SELECT 1 AS n', i); END LOOP; END $$});
$node->safe_psql('postgres', 'CREATE TABLE late AS SELECT n FROM generate_series(1, 5000) n; CHECKPOINT');
is($node->safe_psql('postgres', q{SELECT count(*) BETWEEN 400 AND 750 FROM pg_stat_flashcache_relation WHERE relname ~ '^written_' AND disk_extends > 0}),
	't', 'relations that are only written have places, but not all of them');
fc_evict($node, 'late');
$node->safe_psql('postgres', 'SELECT count(*) FROM late');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_flashcache_relation WHERE relid = 'late'::regclass AND hits + disk_reads > 0}),
	1, 'one that is read after them has one');

fc_is_clean($node);
$node->stop;
done_testing();


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

my $prewarm = sub { $node->safe_psql('postgres', "SELECT pg_prewarm('$_[0]', 'buffer')") };

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

# Inserts and invalidations. The sums are those of the whole server: nothing else is done.
fc_to_flash($node, 's.t');
$prewarm->('s.t');
my %before = counters('s.t');
is_deeply(moved('s.t', sub { $node->safe_psql('postgres', q{UPDATE s.t SET v = v WHERE id = 7; CHECKPOINT}) }),
	{ invalidations => 1, $node->pg_version >= 15 ? () : () }, 'a changed page');
is_deeply(moved('s.t', sub { $node->safe_psql('postgres', q{TRUNCATE s.t}) }), { map { $_ => -counters_of(\%before, { invalidations => 1 })->{$_} }
	  grep { counters_of(\%before, { invalidations => 1 })->{$_} } COUNTERS },
	'TRUNCATE: a new file begins anew');

# counters_of(a, b): their sum.
sub counters_of
{
	my ($x, $y) = @_;
	return { map { $_ => ($x->{$_} // 0) + ($y->{$_} // 0) } COUNTERS };
}
done_testing();

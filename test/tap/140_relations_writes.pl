
# pg_stat_flashcache_relation: each block that is written to a data file is counted once, for its relation, whoever writes it;
# blocks that files are extended by are counted apart. Together they are what the server's own counters have.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Nothing is written unasked: the pool is large, and checkpoints are ours.
my $conf = <<'END';
autovacuum = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_parallel_workers_per_gather = 0
END
my $node = fc_new_node('main', size => '4MB', buffers => '16MB', streaming => 1, conf => $conf);

sub sql { return $node->safe_psql('postgres', $_[0]) }

# Writes and extensions, of one relation, or of everything else.
sub counters
{
	my ($relation) = @_;
	my $which = defined $relation ? "relid = '$relation'::regclass" : 'relid IS NULL';
	return split /\|/, sql("SELECT coalesce(sum(disk_writes), 0), coalesce(sum(disk_extends), 0) FROM pg_stat_flashcache_relation WHERE $which");
}

# moved(relation, SQL...): by how much they have moved.
sub moved
{
	my ($relation, @sql) = @_;
	my @before = counters($relation);
	ref $_ ? $_->() : sql($_) foreach @sql;
	my @after = counters($relation);
	return [ map { $after[$_] - $before[$_] } 0 .. 1 ];
}

# Blocks of all forks.
sub blocks
{
	my ($relation) = @_;
	return sql(qq{SELECT (sum(pg_relation_size('$relation', f)) / current_setting('block_size')::int)::int FROM unnest('{main,fsm,vm}'::text[]) f});
}

# One row of each of these pages, which are looked at alone: who looks sets hint bits.
my $delete = sub { return "DELETE FROM $_[0] WHERE ctid = ANY (ARRAY(SELECT format('(%s,1)', b)::tid FROM generate_series($_[1], $_[2]) b))" };
my $insert = sub { return "INSERT INTO $_[0] SELECT n, repeat('x', 5000) FROM generate_series($_[1], $_[2]) n" };
sub make
{
	my ($name) = @_;
	sql("CREATE TABLE $name (n int, v text); ALTER TABLE $name ALTER v SET STORAGE PLAIN; " . $insert->($name, 1, 40));
	# hint bits; without VACUUM there is no visibility map that would be written with the pages
	sql("SELECT count(*) FROM $name");
	sql('CHECKPOINT');
	return;
}

make('t');
is((counters('t'))[1], blocks('t'), 'what a table was extended by, in all its forks');
is_deeply(moved('t', 'SELECT sum(length(v)) FROM t', 'CHECKPOINT'), [ 0, 0 ], 'reads write nothing');
is_deeply(moved('t', $delete->('t', 0, 7)), [ 0, 0 ], 'dirty pages are not written yet');
is_deeply(moved('t', 'CHECKPOINT'), [ 8, 0 ], 'the checkpointer writes the eight that were changed');
is_deeply(moved('t', 'CHECKPOINT'), [ 0, 0 ], 'and none again');
is_deeply(moved('t', $delete->('t', 8, 15), sub { fc_evict($node, 't') }), [ 8, 0 ], 'sessions write eight pages to evict them');
is_deeply(moved('t', 'CHECKPOINT'), [ 0, 0 ], 'these are clean');

# The background writer.
sql($delete->('t', 16, 23));
my @before = counters('t');
$node->append_conf('postgresql.conf', "bgwriter_lru_maxpages = 1000\nbgwriter_delay = 10ms\nbgwriter_lru_multiplier = 10");
$node->reload;
fc_evict($node, 't');
$node->append_conf('postgresql.conf', 'bgwriter_lru_maxpages = 0');
$node->reload;
is((counters('t'))[0] - $before[0], 8, 'each page once, whether a session or the background writer wrote it');

# Extensions.
my $grown = -blocks('t');
my $moved = moved('t', $insert->('t', 1, 300), 'VACUUM t');
$grown += blocks('t');
cmp_ok($grown, '>', 250, 'a table grows');
is($moved->[1], $grown, 'by as many blocks as are counted');
sql('CREATE INDEX t_n ON t (n)');
is((counters('t_n'))[1], blocks('t_n'), 'an index is built past shared_buffers: its blocks, too');
sql('CREATE TABLE hashed (n int); CREATE INDEX hashed_n ON hashed USING hash (n); INSERT INTO hashed SELECT generate_series(1, 100000)');
is((counters('hashed_n'))[1], blocks('hashed_n'), 'a hash index grows by many blocks at once, of which it writes the last one');

# A relation that was never read has a row; what was written of one that is dropped is of everything else, as all of temporary tables.
sql('CHECKPOINT');
my @old = counters('t');
my $gained = moved(undef, 'DROP TABLE t');
ok($gained->[0] >= $old[0] && $gained->[0] < $old[0] + 20 && $gained->[1] >= $old[1] && $gained->[1] < $old[1] + 20, 'DROP TABLE');
$gained = moved(undef, q{SET temp_buffers = 100; CREATE TEMP TABLE temporary (v text); ALTER TABLE temporary ALTER v SET STORAGE PLAIN;
	INSERT INTO temporary SELECT repeat('x', 5000) FROM generate_series(1, 300)});
cmp_ok($gained->[0] + $gained->[1], '>=', 400, 'temporary tables');

# Off: this session's extensions.
make('off');
my @extended = counters('off');
sql('SET pg_flashcache.track_relations = off; ' . $insert->('off', 1, 10));
is((counters('off'))[1], $extended[1], 'track_relations = off: nothing is counted');

# Together: as many as the checkpointer says, of all relations and forks; shared catalogs have rows here, too.
my ($view, $requests, $written) = $node->pg_version >= 17 ? qw(pg_stat_checkpointer num_requested buffers_written)
  : qw(pg_stat_bgwriter checkpoints_req buffers_checkpoint);

# After a checkpoint, which it reports a moment later.
sub both
{
	my $before = sql("SELECT $requests FROM $view");
	sql('CHECKPOINT');
	$node->poll_query_until('postgres', "SELECT $requests > $before FROM $view") or die 'no checkpoint';
	return split /\|/, sql("SELECT $written, (SELECT sum(disk_writes) FROM pg_stat_flashcache_relation) FROM $view");
}
my @one = both();
sql('CREATE TABLE everywhere AS SELECT n FROM generate_series(1, 5000) n');
sql('VACUUM ANALYZE everywhere');
sql('UPDATE pg_database SET datname = datname; COMMENT ON DATABASE postgres IS NULL; DELETE FROM everywhere WHERE n % 3 = 0');
my @other = both();
cmp_ok($other[0] - $one[0], '>', 20, 'a checkpoint writes pages of many relations');
is($other[1] - $one[1], $other[0] - $one[0], 'together, the rows have as many');
is(sql(q{SELECT count(*) FILTER (WHERE relid = 'pg_database'::regclass AND disk_writes > 0) FROM pg_stat_flashcache_relation}), 1, 'shared catalogs among them');

# On a standby: what recovery adds.
my $standby = fc_new_standby('standby', $node, size => '4MB', buffers => '16MB', conf => $conf);
make('replayed');
$node->wait_for_catchup($standby, 'replay', $node->lsn('flush'));
is($standby->safe_psql('postgres', q{SELECT disk_extends FROM pg_stat_flashcache_relation WHERE relid = 'replayed'::regclass}),
	$standby->safe_psql('postgres', q{SELECT (sum(pg_relation_size('replayed', f)) / current_setting('block_size')::int)::int FROM unnest('{main,fsm,vm}'::text[]) f}),
	'a standby: recovery has extended it');
$standby->stop;

sql('SELECT pg_flashcache_reset_stats()');
is(sql(q{SELECT count(*) FROM pg_stat_flashcache_relation WHERE relid IN ('everywhere'::regclass, 'off'::regclass)}), 0, 'a reset');
fc_is_clean($node);
$node->stop;
done_testing();

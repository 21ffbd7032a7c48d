
# pg_stat_flashcache_statements: what each statement has read, to the last page, also where it fails, is fetched in parts, calls
# others or has parallel workers; who sees what; little used ones make room.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '4MB', conf => <<'END');
shared_preload_libraries = 'pg_stat_statements,pg_flashcache'
pg_flashcache.verify = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_parallel_workers_per_gather = 0
enable_seqscan = off
enable_bitmapscan = off
END
$node->safe_psql('postgres', q{
	CREATE EXTENSION pg_prewarm;
	CREATE ROLE reader LOGIN;
	CREATE TABLE t (id int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, repeat('x', 5000) FROM generate_series(1, 40) n;
	CREATE INDEX i ON t (id DESC);
	GRANT SELECT ON t TO reader;
	VACUUM ANALYZE;
	CREATE FUNCTION total() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT sum(length(v)) FROM t WHERE id > 0); END';
	CREATE FUNCTION fails(n int) RETURNS bool LANGUAGE plpgsql AS 'BEGIN IF n = 20 THEN RAISE EXCEPTION ''enough''; END IF; RETURN true; END';
});

# of(text, toplevel): calls, hits and pages from disk.
sub of
{
	my ($like, $toplevel) = @_;
	$toplevel //= 'true';
	return $node->safe_psql('postgres', qq{SELECT coalesce(sum(calls), 0), coalesce(sum(hits), 0), coalesce(sum(disk_reads), 0)
		FROM pg_stat_flashcache_statements WHERE toplevel = $toplevel AND query LIKE '$like' AND query NOT LIKE '%pg_stat_flashcache_statements%'});
}

# In a session that knows all catalogs that it needs, so that it reads nothing but the table.
my $session = $node->background_psql('postgres', on_error_stop => 0);
my $sum = 'SELECT sum(length(v)) FROM t WHERE id > 0';
my $twice = sub {
	my ($sql) = @_;
	fc_to_flash($node, 't');
	$session->query('SELECT sum(id) FROM t WHERE id > 0; SELECT count(*) FROM pg_class');
	return;
};
my $run = sub { my ($sql) = @_; $session->query($sql); return };

# The pages of t, backwards by its index: 40 of them.
my $hits = sub {
	my ($sql, $like, $toplevel) = @_;
	fc_to_flash($node, 't');
	fc_to_flash($node, 'i');
	$node->safe_psql('postgres', q{SELECT pg_prewarm('i')});
	$run->($sql);
	my @now = split /\|/, of($like, $toplevel);
	return \@now;
};
$run->($sum);
$run->('SELECT total()');
$run->('BEGIN');
$run->("DECLARE c CURSOR FOR $sum");
$run->('FETCH 1 FROM c');
$run->('COMMIT');
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats(); ');

my $first = $hits->($sum, 'SELECT sum(length(v)) FROM t WHERE id > $1');
is($first->[0], 1, 'a statement: one call');
cmp_ok($first->[1] + $first->[2], '>=', 40, 'it has read the table');
cmp_ok($first->[1], '>=', 40, 'from flash');

# What a session has read in between is what its statements have read.
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
my $own = q{SELECT hits, disk_reads FROM pg_stat_flashcache_session};
fc_to_flash($node, 't');
my @before = split /\|/, $session->query_safe($own);
$run->($sum);
my @after = split /\|/, $session->query_safe($own);
is(of('SELECT sum(length(v)) FROM t WHERE id > $1'), join('|', 1, $after[0] - $before[0], $after[1] - $before[1]), 'the same as the session says')
  if 1;
$session->quit;
$node->stop;
done_testing();

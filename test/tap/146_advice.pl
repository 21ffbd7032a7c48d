# Advice: what caches of other sizes, and more shared buffers, would have done; with a cache and without one.
#
# A table of more pages than shared_buffers is read round and round. What is large enough has all of it.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { BUFFERS => 128, PAGES => 320 };

my $quiet = <<'END';
autovacuum = off
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_parallel_workers_per_gather = 0
max_logical_replication_workers = 0
END

sub advice
{
	my ($node, $columns, $where) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM (SELECT * FROM pg_flashcache_advice ORDER BY kind, factor) a WHERE $where");
}

# Reads all pages of the table, in their order and by one request each, so often.
sub rounds
{
	my ($node, $n) = @_;
	fc_fetch($node, 'postgres', 't', PAGES) foreach 1 .. $n;
	return;
}

# What is large enough would have had all pages, what is small some of them, and what is larger never less.
sub is_told
{
	my ($node, $name) = @_;
	is(advice($node, q{string_agg(kind || ' ' || factor, ', ' ORDER BY kind, factor)}, 'hit_ratio > 0.97'),
		join(', ', (map { "flash $_" } 1, 1.5, 2, 3, 4), (map { "shared_buffers $_" } 0.75, 1, 1.5, 2, 3, 4)),
		"$name: these would have had all pages");
	is(advice($node, q{string_agg(kind, ' ' ORDER BY kind)}, 'factor = 0.25 AND hit_ratio < 0.6'), 'flash shared_buffers', "$name: a quarter would not");
	is($node->safe_psql('postgres', q{
		SELECT count(*) FROM (SELECT hit_ratio - lag(hit_ratio) OVER (PARTITION BY kind ORDER BY factor) AS more FROM pg_flashcache_advice) a WHERE more < 0}),
		0, "$name: more never has less");
	return;
}

# ---- without a cache ----

my $node = PostgreSQL::Test::Cluster->new('none');
$node->init(extra => $node->pg_version >= 18 ? ['--no-data-checksums'] : []);
$node->append_conf('postgresql.conf', fc_conf($node, size => '512kB', buffers => '1MB', conf => $quiet) . <<'END');
pg_flashcache.size = 0
pg_flashcache.file = ''
END
$node->start;
fc_everywhere($node);
is(advice($node, 'count(*)', 'true'), 0, 'off: no rows');
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_shmem_allocations WHERE name LIKE 'pg_flashcache%'}), 0, 'off: no memory');

$node->append_conf('postgresql.conf', 'pg_flashcache.advice = on');
$node->restart;
fc_table($node, 'postgres', 't', 't', PAGES);
$node->safe_psql('postgres', 'SELECT count(*) FROM t; CHECKPOINT');
is($node->safe_psql('postgres', 'SELECT state, reason FROM pg_stat_flashcache'), 'disabled|pg_flashcache.size is 0', 'there is no cache');
is($node->safe_psql('postgres', q{SELECT string_agg(name, ' ') FROM pg_shmem_allocations WHERE name LIKE 'pg_flashcache%'}),
	'pg_flashcache advice', 'and only memory for advice');
is(advice($node, q{kind, factor, size / 8192, is_current, sample_rate}, 'true'), join("\n",
	(map { "flash|$_|" . $_ * 4 * BUFFERS . '|f|1' } 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4),
	(map { "shared_buffers|$_|" . ($_ * 4 * BUFFERS + BUFFERS) . '|f|1' } 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4)),
	'the sizes are multiples of four times shared_buffers');

rounds($node, 3);
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
rounds($node, 2);
is_told($node, 'without a cache');
is(advice($node, 'sampled_reads BETWEEN 2 * ' . (PAGES - BUFFERS) . ' AND 3 * ' . PAGES . ', dropped', q{kind = 'flash' AND factor = 1}), 't|0',
	'each page that was read from disk was seen');
is(advice($node, q{count(*)}, 'disk_read_time_us > 0 AND since < now() AND disk_reads_per_s >= 0'), 16, 'every row has its times');
is(advice($node, q{count(*)}, q{(kind = 'flash') = (write_bytes_per_day IS NOT NULL)}), 16, 'only flash is written');
is(advice($node, q{round((read_time_us - (hit_ratio * 100 + (1 - hit_ratio) * disk_read_time_us))::numeric, 6)}, q{kind = 'flash' AND factor = 1}),
	'0.000000', 'the time of a read is that of flash, as it is set, and of the disk');
is(advice($node, q{round((read_time_us - (1 - hit_ratio) * disk_read_time_us)::numeric, 6)}, q{kind = 'shared_buffers' AND factor = 1}),
	'0.000000', 'shared buffers take no time');

# Once all pages are there, reading them again writes nothing.
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
rounds($node, 1);
is(advice($node, q{write_bytes_per_day / 86400 * extract(epoch FROM now() - since) < 8192 * 100}, q{kind = 'flash' AND factor = 4}), 't',
	'hardly anything is written when all pages are there');

# Pages that are changed leave flash, and come back to it.
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
fc_rewrite_rows($node, 'postgres', 't', 'changed');
$node->safe_psql('postgres', 'CHECKPOINT');
rounds($node, 2);
is(advice($node, q{write_bytes_per_day / 86400 * extract(epoch FROM now() - since) > 8192 * 300}, q{kind = 'flash' AND factor = 4}), 't',
	'pages that were changed are written again');
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
rounds($node, 1);
is(advice($node, 'hit_ratio > 0.9', q{kind = 'flash' AND factor = 4}), 't', 'and would be there');

# Who may look, and who may begin anew.
$node->safe_psql('postgres', 'CREATE ROLE looks IN ROLE pg_monitor; CREATE ROLE nobody');
is($node->safe_psql('postgres', 'SET ROLE looks; SELECT count(*) FROM pg_flashcache_advice'), 16, 'pg_monitor may look');
my (undef, undef, $error) = $node->psql('postgres', 'SET ROLE nobody; SELECT * FROM pg_flashcache_advice');
like($error, qr/permission denied for view pg_flashcache_advice/, 'others may not');
(undef, undef, $error) = $node->psql('postgres', 'SET ROLE looks; SELECT pg_flashcache_reset_advice()');
like($error, qr/permission denied for function pg_flashcache_reset_advice/, 'only superusers begin anew');

# A large table that is scanned goes through a ring of buffers: scanning it again would find nothing, fetching its rows would.
fc_table($node, 'postgres', 'scanned', 'scanned', PAGES);
$node->safe_psql('postgres', 'SELECT count(*) FROM scanned; CHECKPOINT');
$node->restart;
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice(); SELECT count(*) FROM scanned; SELECT count(*) FROM scanned');
is(advice($node, 'hit_ratio < 0.3 AND sampled_reads > 500', q{kind = 'flash' AND factor = 4}), 't', 'scans are not taken');
fc_fetch($node, 'postgres', 'scanned', PAGES);
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
fc_fetch($node, 'postgres', 'scanned', PAGES);
is(advice($node, 'hit_ratio > 0.9', q{kind = 'flash' AND factor = 4}), 't', 'what else is read is');

# A crash restart begins anew.
$node->append_conf('postgresql.conf', 'restart_after_crash = on');
$node->reload;
my $writer = $node->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'});
kill 'KILL', $writer;
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'walwriter' AND pid <> $writer") or die 'no restart';
rounds($node, 1);
is(advice($node, 'count(*)', 'sampled_reads BETWEEN 1 AND 2000'), 16, 'after a crash there is advice again');
$node->stop;

# ---- with a cache ----

$node = fc_new_node('cache', size => '4MB', buffers => '1MB', conf => $quiet . "pg_flashcache.advice = on\n");
fc_everywhere($node);
fc_table($node, 'postgres', 't', 't', PAGES);
$node->safe_psql('postgres', 'SELECT count(*) FROM t; CHECKPOINT');
is(advice($node, 'kind, factor, size / 8192', 'is_current'), 'flash|1|512', 'the size of the cache is one of those');
rounds($node, 3);
$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_advice()');
rounds($node, 2);
is_told($node, 'with a cache');
my %now = fc_stat($node, 'hits', 'misses');
cmp_ok($now{hits}, '>', PAGES, 'the cache has answered, too');
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_shmem_allocations WHERE name = 'pg_flashcache advice'}), 1, 'its memory is named');
fc_is_clean($node);
$node->stop;

done_testing();

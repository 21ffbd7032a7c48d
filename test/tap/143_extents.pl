# Filling by extents: with a page that the disk has answered, exactly its neighbours come to flash; what is left out; what
# becomes of pages, tables and file numbers that change meanwhile; how auto switches itself off, and comes back.
#
# What takes less than 10 ms is of the page cache here, and what is to be of the disk is delayed by 15 ms.
#
# Every hit is compared with the disk. zero_damaged_pages is on, under which the writer takes no page from the pool: what
# is on flash came with an extent. A delay of each read makes the page cache, where all files of a test are, a disk.
#
# Fails without: the epoch of the hint ("the rule is needed"), the test for BM_PERMANENT ("unlogged"), C3 ("takes the old
# page off"); the check of the pool ("neighbours in the pool").

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGES => 100, MANY => 4000 };

$ENV{FC_PAGE_CACHE_US} = 10_000;
my ($major) = `pg_config --version` =~ /(\d+)/;
my $node = fc_new_node(
	'main',
	size      => '8MB',
	buffers   => '4MB',
	streaming => 1,
	conf      => <<'END' . ($major >= 18 ? "io_method = sync\n" : ''));
pg_flashcache.extents = on
autovacuum = off
zero_damaged_pages = on
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
END
fc_everywhere($node);
$node->safe_psql('postgres', 'CREATE TABLE other (id int)');

# A table of known pages, all written, and with its hint bits.
sub table
{
	my ($name, $pages, $how) = @_;
	fc_table($node, 'postgres', $name, $name, $pages // PAGES, $how);
	$node->safe_psql('postgres', "SELECT count(*) FROM $name; CHECKPOINT");
	return fc_tag($node, 'postgres', $name);
}

my $control;

# One page of the table, read by its place, whatever rows it has.
sub page_sql
{
	my ($table, $blk) = @_;
	return "SELECT max(id) FROM $table WHERE ctid = ANY (ARRAY(SELECT format('($blk,%s)', n)::tid FROM generate_series(1, 4) n))";
}

# The pool is empty afterwards, and so is flash; a session has all that it needs.
sub restart
{
	$control->quit if defined $control;
	$node->restart;
	fc_wait_active($node);
	$node->safe_psql('postgres', "SELECT id, val FROM $_ LIMIT 0") foreach @_;
	$control = fc_control($node);
	$control->query_safe(page_sql($_, 1_000_000)) foreach 'other', @_;
	$control->query_safe('SELECT pg_flashcache_enable(); SELECT * FROM pg_stat_flashcache_extents; SELECT count(*) FROM pg_flashcache_pages');
	$node->poll_query_until('postgres', q{SELECT state NOT IN ('cache not active', 'off') FROM pg_stat_flashcache_extents}) or die 'no state';
	return;
}

# Reads pages of the table, and the disk answers; the writer has seen it when this returns.
sub miss
{
	my ($table, @blks) = @_;
	fc_failpoint($control, 'disk_read', 'delay:15000');
	$control->query_safe(page_sql($table, $_)) foreach @blks;
	fc_failpoint($control, 'disk_read', 'off');
	return;
}

sub counters
{
	my ($reads, $inserts, $hits) = split /\|/, $control->query_safe('SELECT extent_reads, extent_inserts, extent_hits FROM pg_stat_flashcache_extents');
	return { reads => $reads, inserts => $inserts, hits => $hits };
}

# One test: reading the pages brings so many extents, neighbours and first hits.
sub is_moved
{
	my ($sub, $reads, $inserts, $hits, $name) = @_;
	my $before = counters();
	$sub->();
	fc_writer_round($control);
	my $after = counters();
	return is(join(' ', map { $after->{$_} - $before->{$_} } qw(reads inserts hits)), "$reads $inserts $hits", $name);
}

sub on_flash
{
	my ($tag) = @_;
	return $control->query_safe("SELECT coalesce(string_agg(relblocknumber::text, ' ' ORDER BY relblocknumber), '') FROM pg_flashcache_pages WHERE relfilenode = $tag->{rel}");
}

sub set
{
	my ($setting, $value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting = '$value'");
	$node->reload;
	# the session that reads goes by it as well
	$control->query_safe(q{SELECT pg_sleep(0)}) until $control->query_safe("SHOW $setting") eq $value;
	fc_writer_round($control);
	return;
}

# ---- what comes, and what does not ----

my $tag = table('t');
{
	restart('t');
	is_moved(sub { miss('t', 20) }, 1, 7, 0, 'a miss brings its extent');
	is(on_flash($tag), '16 17 18 19 21 22 23', 'these are the neighbours');
	is_moved(sub { $control->query_safe(page_sql('t', $_)) foreach 17, 18 }, 0, 0, 2, 'neighbours are read from flash');
	is($node->safe_psql('postgres', 'SELECT unproven FROM pg_stat_flashcache_extents'), 5, 'the others have not been asked for');
	fc_push_out($node, $tag);
	is_moved(sub { $control->query_safe(page_sql('t', $_)) foreach 17, 19 }, 0, 0, 1, 'only the first hit counts');
	fc_push_out($node, $tag);
	is_moved(sub { miss('t', 20) }, 0, 0, 0, 'an extent that is on flash is not read again');
	is_moved(sub { miss('t', 97) }, 1, 3, 0, 'the last extent ends with the file');
	is(on_flash($tag), '16 17 18 19 21 22 23 96 98 99', 'these are its pages');

	$control->query_safe(page_sql('t', $_)) foreach 41, 42;
	is_moved(sub { miss('t', 40) }, 1, 5, 0, 'neighbours in the pool are left out');
	is_moved(sub { $control->query_safe(page_sql('t', $_)) foreach 50 .. 53; miss('t', 49) }, 1, 3, 0, 'also half of them');
	like(on_flash($tag), qr/23 43 44 45 46 47 48 54 55 96/, 'these came');

	fc_push_out($node, $tag);
}
{
	my $one = table('one', 1);
	restart('one', 't');
	is_moved(sub { miss('one', 0) }, 0, 0, 0, 'a table of one page has no neighbours to be read');
}
{
	my $unlogged = table('unlogged', 40, 'UNLOGGED');
	restart('unlogged', 't');
	is_moved(sub { miss('unlogged', 20) }, 0, 0, 0, 'unlogged tables are left alone');
	is(on_flash($unlogged), '', 'no page of it is there');
	$control->query_safe('CREATE TEMPORARY TABLE temporary AS SELECT id FROM generate_series(1, 10000) id');
	is_moved(sub { miss('temporary', 20) }, 0, 0, 0, 'temporary tables, too');

	set('pg_flashcache.extents', 'off');
	is_moved(sub { miss('t', 20) }, 0, 0, 0, 'nothing while it is off');
	is($control->query_safe('SELECT state, one_miss_in IS NULL FROM pg_stat_flashcache_extents'), 'off|t', 'the view says so');
	set('pg_flashcache.extents', 'on');
	set('pg_flashcache.write_limit', '8kB');
	my %moved = fc_delta($node, sub { is_moved(sub { miss('t', 28) }, 1, 1, 0, 'no more than may be written') }, qw(insert_skip_write_limit));
	is_deeply(\%moved, { insert_skip_write_limit => 6 }, 'the others are counted');
	set('pg_flashcache.write_limit', '0');

	# free slots only, and not the last ones
	my $large = table('large', 970);
	restart('large', 't');
	$control->query_safe(q{SELECT * FROM pg_flashcache_prewarm('large')});
	fc_writer_round($control);
	is($control->query_safe('SELECT state FROM pg_stat_flashcache_extents'), 'full', 'a full cache is left to pages that are asked for');
	is_moved(sub { miss('t', 20) }, 0, 0, 0, 'then nothing comes');
	is($node->safe_psql('postgres', 'SELECT eviction_aged_out FROM pg_stat_flashcache'), 0, 'and no page had to go');
	$node->safe_psql('postgres', 'DROP TABLE large, unlogged');
}

# ---- what changes meanwhile ----

foreach my $point (qw(load_guarded load_read fill_written))
{
	fc_rewrite_rows($node, 'postgres', 't', "before $point");
	$node->safe_psql('postgres', 'CHECKPOINT; SELECT count(*) FROM t; CHECKPOINT');
	restart('t');
	fc_failpoint($control, $point, 'pause', $tag->{rel});
	miss('t', 60);
	fc_failpoint_wait($control, $point);
	$node->safe_psql('postgres', "UPDATE t SET val = @{[fc_value_sql('changed')]} WHERE id IN (58, 62); CHECKPOINT");
	fc_failpoint($control, $point, 'off');
	fc_writer_round($control);
	is(on_flash($tag), '56 58 59 62 63', "$point: pages that were changed and written are left out");
	fc_push_out($node, $tag);
	is($control->query_safe("SELECT count(*) FROM t WHERE val = @{[fc_value_sql('changed')]}"), 2, "$point: the new rows are read");
}

# C3 alone: the guard is taken when the page is being written, and the file still has the old one.
{
	fc_rewrite_rows($node, 'postgres', 't', 'old');
	$node->safe_psql('postgres', 'CHECKPOINT; SELECT count(*) FROM t; CHECKPOINT');
	restart('t');
	fc_failpoint($control, 'load_chosen', 'pause', $tag->{rel});
	miss('t', 60);
	fc_failpoint_wait($control, 'load_chosen');
	$node->safe_psql('postgres', "UPDATE t SET val = @{[fc_value_sql('new')]} WHERE id = 58");
	fc_failpoint($control, 'write_before_md', 'pause', $tag->{rel});
	my $checkpoint = $node->background_psql('postgres');
	$checkpoint->query_until(qr/begun/, "\\echo begun\nCHECKPOINT;\n");
	fc_failpoint_wait($control, 'write_before_md');
	fc_failpoint($control, 'load_chosen', 'off');
	fc_writer_round($control);
	is(on_flash($tag), '56 57 58 59 61 62 63', 'the old page is on flash while it is written');
	fc_failpoint($control, 'write_before_md', 'off');
	$checkpoint->query_safe('SELECT 1');
	$checkpoint->quit;
	is(on_flash($tag), '56 58 59 61 62 63', 'C3 takes the old page off');
	fc_push_out($node, $tag);
	is($control->query_safe("SELECT count(*) FROM t WHERE val = @{[fc_value_sql('new')]}"), 1, 'the new row is read');
}

# Nothing keeps a table from being dropped or cut while its pages are on their way.
foreach my $case ([ 'dropped', 'DROP TABLE dropped', '' ], [ 'cut', 'DELETE FROM cut WHERE id > 59; VACUUM (TRUNCATE) cut; CHECKPOINT', '56 57 58' ])
{
	my ($name, $sql, $left) = @$case;
	my $this = table($name, 64);
	restart($name);
	fc_failpoint($control, 'load_read', 'pause', $this->{rel});
	miss($name, $name eq 'cut' ? 59 : 60);
	fc_failpoint_wait($control, 'load_read');
	$node->safe_psql('postgres', $_) foreach split /; /, $sql;
	fc_failpoint($control, 'load_read', 'off');
	fc_writer_round($control);
	my $there = on_flash($this);
	ok($there eq '' || ($left ne '' && $left =~ /\Q$there\E/), "$name: nothing of what is gone comes to flash") or diag($there);
	is($node->safe_psql('postgres', "SELECT count(*) FROM $name"), 59, "$name: the rest is there") if $left ne '';
}

# The number of a table goes to an unlogged index before its pages are read. A hint is about what the number meant then.
foreach my $broken (0, 1)
{
	local $ENV{FC_BREAK} = $broken ? 'X1' : '';
	my $old = table('old', 64);
	$node->safe_psql('postgres', 'CREATE UNLOGGED TABLE keys AS SELECT id FROM generate_series(1, 20000) id');
	restart('old');
	fc_failpoint($control, 'load_chosen', 'pause', $old->{rel});
	miss('old', 10);
	fc_failpoint_wait($control, 'load_chosen');
	$node->safe_psql('postgres', 'DROP TABLE old');
	$node->safe_psql('postgres', 'VACUUM (INDEX_CLEANUP ON) pg_class');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', fc_next_oid($node, $old->{rel}) . 'CREATE INDEX keys_id ON keys (id)');
	is(fc_tag($node, 'postgres', 'keys_id')->{rel}, $old->{rel}, 'the number is in use again');
	fc_failpoint($control, 'load_chosen', 'off');
	fc_writer_round($control);
	if ($broken)
	{
		isnt(on_flash($old), '', 'without it pages of an unlogged index are on flash: the rule is needed');
	}
	else
	{
		is(on_flash($old), '', 'no page of the new owner is on flash');
	}
	$node->safe_psql('postgres', 'DROP TABLE keys');
}

# ---- auto ----

# What an extent costs is judged by the time that the disk needs for a page: where that is long, few neighbours that are asked
# for are enough.
{
	my $far = table('far', 1000);
	restart('far');
	set('pg_flashcache.extents', 'auto');
	my $n = 0;
	# so many neighbours that it is judged by them, more than once
	for (my $blk = 8; counters()->{inserts} < 3 * 128 && $blk < 1000; $blk += 8)
	{
		miss('far', $blk);
		fc_writer_round($control);
		$control->query_safe(page_sql('far', $blk + 1)) if $n++ % 4 == 0;
	}
	my $now = counters();
	cmp_ok($now->{inserts}, '>=', 3 * 128, 'many neighbours have come');
	is($now->{hits} * 4 - $now->{reads} <= 4, 1, 'a fourth of the extents had one that was asked for');
	is($control->query_safe('SELECT state, one_miss_in FROM pg_stat_flashcache_extents'), 'filling|1', 'a disk with a long way is worth it');
}

{
	my $many = table('many', MANY);
	restart('many');
	set('pg_flashcache.extents', 'auto');
	my $state = sub { return $control->query_safe('SELECT state, one_miss_in FROM pg_stat_flashcache_extents') };
	my $next  = 8;
	my $until = sub {
		my ($wanted) = @_;
		for (; $state->() ne $wanted && $next < MANY; $next += 8 * 16)
		{
			miss('many', map { $next + 8 * $_ } 0 .. 15);
			fc_writer_round($control);
		}
		return $state->();
	};
	is($state->(), 'filling|1', 'auto begins with filling');
	is($until->('resting|16'), 'resting|16', 'where no neighbour is asked for it rests');
	my $before = counters();
	cmp_ok($before->{inserts}, '>=', 128, 'when an eighth of the slots has been tried');
	cmp_ok($before->{inserts}, '<', 128 + 16 * 7 * 3, 'and soon after that');

	# now the neighbours are asked for
	my $first = $next;
	$control->query_safe(page_sql('many', $_)) foreach split / /, on_flash($many);
	is(counters()->{hits}, $before->{inserts}, 'all neighbours are hit');
	is($until->('filling|1'), 'filling|1', 'auto comes back where they are');
	# which ones that are is a matter of hashes, hence of the table's number: of a few dozen it may be more
	cmp_ok(($next - $first) / 8, '>=', 2 * (counters()->{reads} - $before->{reads}), 'up to then few misses have brought their neighbours');
}

$control->quit;
fc_is_clean($node);
done_testing();

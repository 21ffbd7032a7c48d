
# FlashCache - what the TAP tests of pg_flashcache share, on top of PostgreSQL::Test::Cluster
#
#   use FlashCache;
#   my $node = fc_new_node('primary', size => '512kB');
#   my %moved = fc_delta($node, sub { $node->safe_psql(...) }, 'hits', 'misses');
#
# Rules: a helper either reaches the state that it promises or dies; it never sleeps in the hope that something has
# happened. Where it has to wait it polls for the very condition, with the bound of PG_TEST_TIMEOUT_DEFAULT. What needs no
# session of its own goes into one: starting psql costs more than most queries, and was most of what the tests took.
#
# Defaults of a node here (all can be overridden by conf): the kernel's page cache is not asked, because the data files
# of a test are always in it and flash would never be read; every page is admitted; every hit is compared with the
# disk; autovacuum is off, so that counters move only when the test moves them, and they start at zero with the server;
# a machine that is busy with other things is no broken device (io_timeout, pause_when_slow).

package FlashCache;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use List::Util qw(min);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  fc_new_node fc_new_standby fc_conf fc_flash_file fc_create_sql
  fc_wait_active fc_wait_state fc_stamp fc_stat fc_delta
  fc_evict fc_evict_all fc_in_buffers fc_in_flash fc_to_flash
  fc_control fc_failpoint fc_failpoint_wait fc_writer_round
  fc_is_clean FC_BESIDE
);

# Filler pages for one shared buffer. A page starts with a usage count of at most 5, and each turn of the clock hand
# lowers it by one; two more turns are for pages that the filler's own index and the catalogs keep warm.
use constant FILLER_PER_BUFFER => 8;

# The filler is read one page at a time, through the pool.
use constant BY_INDEX => 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0;';

# One more than any test needs: after so many rounds something is broken, and the test should say so.
use constant MAX_ROUNDS => 50;

# The warning that nearly every test gets: its files are all in one place.
use constant FC_BESIDE => 'WARNING:  pg_flashcache uses a file on the same file system as';

# fc_new_node(name, option => value...):
# A running cluster with the cache active and the extension created in postgres.
#
#   size        pg_flashcache.size, default '512kB' (64 slots)
#   buffers     shared_buffers, default '1MB' (128 buffers)
#   checksums   data checksums, default on
#   streaming   can have standbys, default off
#   conf        more lines for postgresql.conf
#   start       0: initialised but not started
#   wait        0: started, but not waited for, and the extension is not created
sub fc_new_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	# From 18 on they are the default of initdb.
	my $without = $node->pg_version >= 18 ? ['--no-data-checksums'] : [];
	$node->init(
		allows_streaming => $option{streaming} // 0,
		extra            => ($option{checksums} // 1) ? ['--data-checksums'] : $without);
	$node->append_conf('postgresql.conf', fc_conf($node, %option));
	return $node if !($option{start} // 1);
	$node->start;
	return $node if !($option{wait} // 1);
	fc_create_sql($node);
	fc_wait_active($node);
	return $node;
}

# fc_new_standby(name, primary, option => value...):
# A running streaming standby, made from a fresh backup of the primary, with a cache of its own. Options as above.
sub fc_new_standby
{
	my ($name, $primary, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$primary->backup($name);
	$node->init_from_backup($primary, $name, has_streaming => 1);
	# Comes after the primary's lines, so it wins over them: two servers must not share a cache file.
	$node->append_conf('postgresql.conf', fc_conf($node, %option));
	return $node if !($option{start} // 1);
	$node->start;
	fc_wait_active($node) if $option{wait} // 1;
	return $node;
}

# The settings of fc_new_node as text.
sub fc_conf
{
	my ($node, %option) = @_;
	my $file    = fc_flash_file($node);
	my $size    = $option{size}    // '512kB';
	my $buffers = $option{buffers} // '1MB';
	my $conf    = $option{conf}    // '';
	my $cache   = slurp_file(dirname(__FILE__) . '/cache.conf');

	return <<"END";
shared_preload_libraries = 'pg_flashcache'
pg_flashcache.file = '$file'
pg_flashcache.size = '$size'
$cache
shared_buffers = '$buffers'
autovacuum = off
# As servers have it; minimal, as test clusters do, leaves indexes without LSN, and then without flash.
wal_level = replica
$conf
END
}

# Where the cache of a node lies: beside its data directory.
sub fc_flash_file
{
	my ($node) = @_;
	return $node->basedir . '/flash';
}

# The extension, and the entry points of the library that are there for tests alone.
sub fc_create_sql
{
	my ($node) = @_;
	$node->safe_psql(
		'postgres', q{
		CREATE EXTENSION IF NOT EXISTS pg_flashcache;
		CREATE EXTENSION IF NOT EXISTS pg_buffercache;
		CREATE OR REPLACE FUNCTION fc_failpoint(name text, action text) RETURNS void
			AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C STRICT;
		CREATE OR REPLACE FUNCTION fc_failpoint(name text, action text, relation oid) RETURNS void
			AS '$libdir/pg_flashcache', 'fc_failpoint_set' LANGUAGE C STRICT;
		CREATE OR REPLACE FUNCTION fc_failpoint_wait(name text) RETURNS void
			AS '$libdir/pg_flashcache', 'fc_failpoint_wait' LANGUAGE C STRICT;
	});
	return;
}

sub fc_wait_active
{
	my ($node) = @_;
	return fc_wait_state($node, 'active');
}

# A checkpoint, for which the log of persistence is complete then.
sub fc_stamp
{
	my ($node) = @_;
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->poll_query_until('postgres',
		'SELECT stamp_checkpoint = checkpoint_lsn FROM pg_stat_flashcache_persistence, pg_control_checkpoint()')
	  or die 'no stamp';
	return;
}

# Waits for a state, and says what it is instead if it does not come. Any other state may be on its way to that one: a
# reload, for example, reaches the processes one by one.
sub fc_wait_state
{
	my ($node, $state) = @_;
	return if $node->poll_query_until('postgres', "SELECT state = '$state' FROM pg_stat_flashcache");
	my %now = fc_stat($node, 'state', 'reason');
	die 'the cache of ' . $node->name . " is $now{state}, not $state: $now{reason}";
}

# fc_stat(node, name...):
# Columns of pg_stat_flashcache as a hash; all of them when none is named. NULL is the empty string.
sub fc_stat
{
	my ($node, @names) = @_;

	@names = split /\n/, $node->safe_psql('postgres',
		"SELECT attname FROM pg_attribute WHERE attrelid = 'pg_stat_flashcache'::regclass AND attnum > 0 ORDER BY attnum")
	  if !@names;
	# One column a line: a reason may hold any separator.
	my $columns = join ', ', map { qq{('$_', "$_"::text)} } @names;
	my $rows = $node->safe_psql('postgres',
		"SELECT name || '=' || coalesce(translate(value, E'\\n', ' '), '') "
		  . "FROM pg_stat_flashcache, LATERAL (VALUES $columns) AS v(name, value)");
	return map { split /=/, $_, 2 } split /\n/, $rows;
}

# fc_delta(node, sub, name...):
# Runs the sub; returns by how much the named counters have moved.
sub fc_delta
{
	my ($node, $sub, @names) = @_;
	my %before = fc_stat($node, @names);
	$sub->();
	my %after = fc_stat($node, @names);
	return map { $_ => $after{$_} - $before{$_} } @names;
}

# How many pages of a relation's main fork are in shared buffers, or in flash.
sub count_sql
{
	my ($view, $relation) = @_;
	return "SELECT count(*) FROM $view WHERE relfilenode = pg_relation_filenode('$relation') "
	  . "AND reldatabase = (SELECT oid FROM pg_database WHERE datname = current_database())";
}

sub in_buffers_sql { return count_sql('pg_buffercache', @_) . ' AND relforknumber = 0' }

sub fc_in_buffers
{
	my ($node, $relation, $database) = @_;
	return $node->safe_psql($database // 'postgres', in_buffers_sql($relation));
}

sub fc_in_flash
{
	my ($node, $relation, $database) = @_;
	return $node->safe_psql($database // 'postgres', count_sql('pg_flashcache_pages', $relation));
}

# Its table: a standby can read only what is logged.
sub filler
{
	my ($logged) = @_;
	return $logged ? 'fc_filler_logged' : 'fc_filler';
}

# fc_evict_all(node):
# Reads so many pages of another table that the clock hand passes every buffer often enough to have evicted it.
#
# The filler is an unlogged table, which is never cached: what was pushed out of shared buffers is not pushed out of flash
# by it. It is read in the order of its index: a sequential scan would use a ring of 32 buffers and evict nothing. On a
# standby, where unlogged tables cannot be read, the filler is the logged table that fc_evict_all(primary, logged => 1)
# has made; there it does flow through the cache, which must be large enough.
sub fc_evict_all
{
	my ($node, %option) = @_;
	my ($standby, $buffers, %ready);
	($standby, $buffers, @ready{ filler(0), filler(1) }) = split /\|/, $node->safe_psql('postgres',
		q{SELECT pg_is_in_recovery(), (SELECT setting FROM pg_settings WHERE name = 'shared_buffers')}
		  . join '', map { ", coalesce(pg_relation_size(to_regclass('$_')) / current_setting('block_size')::int, 0)" } filler(0), filler(1));
	$standby = $standby eq 't';
	my $logged = $option{logged} || $standby;
	my $table  = filler($logged);
	my $kind   = $logged ? '' : 'UNLOGGED';

	# One row a page. A crash leaves an unlogged table empty, hence made anew.
	my $pages = FILLER_PER_BUFFER * $buffers;
	if ($ready{$table} < $pages)
	{
		die "make the filler on the primary first: fc_evict_all(primary, logged => 1)" if $standby;
		$node->safe_psql(
			'postgres', qq{
			DROP TABLE IF EXISTS $table;
			CREATE $kind TABLE $table (id int PRIMARY KEY, pad text);
			ALTER TABLE $table ALTER pad SET STORAGE PLAIN;
			INSERT INTO $table SELECT n, repeat('x', 5000) FROM generate_series(1, $pages) n;
			CHECKPOINT;
		});
	}
	my $read = $node->safe_psql('postgres', BY_INDEX . "SELECT count(pad) FROM $table WHERE id > 0");
	die "read $read pages of $table instead of $pages" if $read < $pages;
	return;
}

# Evicts until no page of the relation is left in shared buffers.
sub fc_evict
{
	my ($node, $relation, $database) = @_;
	for (1 .. MAX_ROUNDS)
	{
		return if fc_in_buffers($node, $relation, $database) == 0;
		fc_evict_all($node);
	}
	die "$relation is still in shared buffers";
}

# What a slow step ends with: pg_flashcache_enable() returns after the writer has begun a round. It is in one database.
sub round_sql
{
	my ($node, $database) = @_;
	my $is_missing = $node->safe_psql($database, "SELECT to_regproc('pg_flashcache_enable') IS NULL");
	return $is_missing eq 't' ? '' : 'SELECT pg_flashcache_enable();';
}

# Where steps are of one size, each round does the same, and loses the same page.
sub slow_step { my ($round) = @_; return 1 + 5 * $round % 16 }

# The relation into shared buffers in small steps: one larger than them pushes its own beginning out.
sub prewarm_slowly
{
	my ($node, $database, $relation, $pages, $step) = @_;
	my $round = round_sql($node, $database);
	my $sql   = '';

	for (my $from = 0; $from < $pages; $from += $step)
	{
		my $to = min($from + $step, $pages) - 1;
		$sql .= "SELECT pg_prewarm('$relation', 'buffer', 'main', $from, $to); $round";
	}
	return $sql;
}

# Like fc_evict_all, in small steps.
sub evict_slowly
{
	my ($node, $step) = @_;
	my $standby = $node->safe_psql('postgres', 'SELECT pg_is_in_recovery()') eq 't';
	my $table   = filler($standby);
	my $pages   = $node->safe_psql('postgres', "SELECT coalesce(max(id), 0) FROM $table");
	my $sql     = BY_INDEX;
	my $round   = round_sql($node, 'postgres');

	return if $round eq '';
	for (my $from = 1; $from <= $pages; $from += $step)
	{
		$sql .= "SELECT count(pad) FROM $table WHERE id BETWEEN $from AND $from + $step - 1; $round";
	}
	$node->safe_psql('postgres', $sql);
	return;
}

# fc_to_flash(node, relation [, database]):
# Brings every page of the relation into flash and none into shared buffers. Returns the number of pages.
#
# The writer may lose a candidate to the clock hand, so the relation is read and evicted again until all are there. Hint
# bits are set and dirty pages written before, so that later reads leave the pages alone. A standby needs pg_prewarm
# created on the primary.
sub fc_to_flash
{
	my ($node, $relation, $database) = @_;
	$database //= 'postgres';
	# An index cannot be selected from and has no hint bits.
	my $pages = $node->safe_psql(
		$database, qq{
		SELECT pg_is_in_recovery() AS is_standby, relkind = 'i' AS is_index FROM pg_class WHERE oid = '$relation'::regclass \\gset
		\\if :is_standby
		\\else
		SET client_min_messages = warning;
		CREATE EXTENSION IF NOT EXISTS pg_prewarm;
		\\if :is_index
		\\else
		SELECT count(*) FROM $relation \\g /dev/null
		\\endif
		\\endif
		SELECT pg_relation_size('$relation') / current_setting('block_size')::int});

	for my $round (1 .. 4 * MAX_ROUNDS)
	{
		my $where = $node->safe_psql($database, count_sql('pg_flashcache_pages', $relation) . ';' . in_buffers_sql($relation));
		return $pages if $where eq "$pages\n0";

		# In mode 'buffer' every page gets an ordinary buffer, of tables and indexes alike. If the writer comes too late time
		# and again, the hand goes on only after it has made a round.
		my $slow = $round > 5;
		my $read = $slow ? prewarm_slowly($node, $database, $relation, $pages, slow_step($round)) : "SELECT pg_prewarm('$relation', 'buffer');";
		$node->safe_psql($database, "$read CHECKPOINT");
		evict_slowly($node, slow_step($round)) if $slow;
		fc_evict($node, $relation, $database);
	}
	die "only " . fc_in_flash($node, $relation, $database) . " of $pages pages of $relation came into flash; "
	  . $node->safe_psql('postgres',
		"SELECT string_agg(key || ' ' || value, ', ') FROM pg_stat_flashcache s, jsonb_each_text(to_jsonb(s)) WHERE value <> '0'");
}

# fc_control(node):
# A session for pause points, open and warmed up. A pause point stops whoever comes by: a fresh connection reads catalogs
# and may be the first to be stopped. So open this session, push out what the test wants to be read from flash, and only
# then arm the point through the session. Close it with quit.
sub fc_control
{
	my ($node) = @_;
	my $session = $node->background_psql('postgres');
	# EXPLAIN looks everything up and prepares the call, but does not make it.
	$session->query_safe("EXPLAIN SELECT fc_failpoint('', ''), fc_failpoint_wait('')");
	return $session;
}

# fc_failpoint(node or control session, point, action [, relation]):
# The actions are those of src/failpoint.h: pause, error, nospace, short, flip, torn, misplaced, delay:MICROSECONDS, off. With the
# number of a relation's file, at points that are about a page: only for pages of that.
#
# fc_failpoint_wait(node or control session, point):
# Sets a pause point; returns when some process has reached it and waits there.
sub fc_failpoint
{
	my ($where, $point, $action, $relation) = @_;
	run_in($where, "SELECT fc_failpoint('$point', '$action'" . (defined $relation ? ", $relation" : '') . ')');
	return;
}

sub fc_failpoint_wait
{
	my ($where, $point) = @_;
	run_in($where, "SELECT fc_failpoint_wait('$point')");
	return;
}

# fc_writer_round(node or control session):
# Returns when a round of the writer that began after the call is over: pg_flashcache_enable() returns at the beginning of
# one, so the second call returns after the first one's round.
sub fc_writer_round
{
	my ($where) = @_;
	run_in($where, 'SELECT pg_flashcache_enable()') for 1 .. 2;
	return;
}

# A node opens a session of its own for the query.
sub run_in
{
	my ($where, $query) = @_;
	return $where->isa('PostgreSQL::Test::BackgroundPsql')
	  ? $where->query_safe($query)
	  : $where->safe_psql('postgres', $query, timeout => $PostgreSQL::Test::Utils::timeout_default);
}

# fc_is_clean(node [, name]):
# One test: the cache is active, no hit ever differed from the disk, and the log holds no warning of the cache, no PANIC
# and no crash.
sub fc_is_clean
{
	my ($node, $name) = @_;
	my @counters = qw(verify_failures checksum_failures read_errors write_errors slots_retired);
	my %now      = fc_stat($node, 'state', @counters);
	my @lines    = grep { /PANIC:|was terminated by signal|WARNING:.*flash|pg_flashcache: .*differs/i && !/@{[FC_BESIDE]}/ }
	  split /\n/, slurp_file($node->logfile);
	my %clean = (state => 'active', map { $_ => 0 } @counters);

	return is_deeply([ \%now, \@lines ], [ \%clean, [] ],
		$name // 'the cache of ' . $node->name . ' is active and nothing went wrong');
}

1;


# FlashCacheMore - tables whose every page and every byte is known, and pairs of servers
#
#   use FlashCacheMore;
#   my ($primary, $standby) = fc_pair();
#   fc_table($primary, 'postgres', 't', 'v1', 40);
#   my $tag = fc_tag($primary, 'postgres', 't');
#   fc_warm($primary, $standby, 'postgres', 't');
#   fc_is_read($standby, 'postgres', 't', 'v1', 40, 'the standby reads its own flash');
#
# A table of fc_table has one row a page, and the row says which page, which table and which version it is. So a page of
# another time, another place or another table is seen in the result of a query, also where pg_flashcache.verify is
# off, and the number of pages that a read needs is the number of rows.
#
# A page's *tag* (tablespace, database, file number) is what the cache knows it by. Tests keep the tag of a file that is
# about to go, and ask for it by that tag afterwards: the catalog has forgotten it by then.

package FlashCacheMore;

use strict;
use warnings;

use Exporter 'import';
use FlashCache;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  fc_pair fc_everywhere fc_replayed
  fc_table fc_rewrite_rows fc_value_sql fc_tag fc_tag_flash fc_tag_buffers
  fc_warm fc_bring fc_push_out fc_fetch fc_is_warm fc_is_gone fc_is_read fc_is_quiet fc_is_accounted
  fc_next_oid fc_device_process fc_kill_server fc_reads_ahead
);

# Bytes of a value are 32 times this. A page has room for two such rows, but takes one by its fill factor, so an update
# stays on its page and changes it in place.
use constant REPEATS => 90;

# Let the planner take the only plan that is left: to fetch rows by their places.
use constant FETCH_SETTINGS => 'SET enable_seqscan = off; SET max_parallel_workers_per_gather = 0;';

# So many row versions of a page are looked for.
use constant VERSIONS => 4;

# One more than any test needs: after so many rounds something is broken, and the test should say so.
use constant MAX_ROUNDS => 50;

# Pages that one statement reads to push others out.
use constant STEP => 16;

# fc_everywhere(node):
# Creates what the tests need in template1, so that every database made later has it, and in postgres.
sub fc_everywhere
{
	my ($node) = @_;
	foreach my $database ('template1', 'postgres')
	{
		$node->safe_psql($database, "CREATE EXTENSION IF NOT EXISTS $_")
		  foreach qw(pg_flashcache pg_buffercache pg_prewarm pageinspect);
	}
	return;
}

# fc_pair(option => value...):
# A primary and a streaming standby, each with a cache of its own that is large enough to lose nothing. Options are those
# of fc_new_node; both get them.
sub fc_pair
{
	my (%option) = @_;
	my $conf = <<"END" . ($option{conf} // '');
allow_in_place_tablespaces = on
# Nobody but the test reads pages: counters are compared to the last digit.
max_logical_replication_workers = 0
END
	my @options = (size => '32MB', %option, conf => $conf);

	my $primary = fc_new_node('primary', streaming => 1, @options);
	fc_everywhere($primary);
	# The standby's way of pushing pages out; see fc_evict_all.
	fc_evict_all($primary, logged => 1);
	my $standby = fc_new_standby('standby', $primary, @options);
	fc_replayed($primary, $standby);
	return ($primary, $standby);
}

# Waits until the standby has replayed all that the primary has done, also in transactions that have not ended. It asks
# the primary: a session on the standby, which wait_for_catchup() of 19 begins, would read pages there.
sub fc_replayed
{
	my ($primary, $standby) = @_;
	# A commit flushes the WAL of everybody before it.
	$primary->safe_psql('postgres', 'SELECT pg_current_xact_id()');
	my $lsn = $primary->lsn('flush');
	$primary->poll_query_until('postgres',
		"SELECT replay_lsn >= '$lsn' FROM pg_stat_replication WHERE application_name = '" . $standby->name . "'")
	  or die $standby->name . " has not replayed $lsn";
	return;
}

# The value of a row, as an expression over its id.
sub fc_value_sql
{
	my ($label) = @_;
	return "repeat(md5('$label ' || id), " . REPEATS . ')';
}

# fc_table(node, database, table, label, pages [, how]):
# Creates a table of that many pages. 'how' is 'UNLOGGED' or 'TEMPORARY' if it should be one.
#
# fc_rewrite_rows(node, database, table, label):
# Gives every row the value that belongs to another label. The pages stay the same, their content does not.
sub fc_table
{
	my ($node, $database, $table, $label, $pages, $how) = @_;
	$node->safe_psql($database, fc_table_sql($table, $label, $pages, $how));
	return;
}

sub fc_table_sql
{
	my ($table, $label, $pages, $how) = @_;
	my $value = fc_value_sql($label);
	$how //= '';
	return qq{
		CREATE $how TABLE $table (id int, val text) WITH (fillfactor = 40);
		ALTER TABLE $table ALTER val SET STORAGE PLAIN;
		INSERT INTO $table SELECT id, $value FROM generate_series(1, $pages) id;
	};
}

sub fc_rewrite_rows
{
	my ($node, $database, $table, $label) = @_;
	my $value = fc_value_sql($label);
	$node->safe_psql($database, "UPDATE $table SET val = $value");
	return;
}

# fc_tag(node, database, relation):
# Where the main fork of a relation lies: a hash of spc, db, rel, and what to call it.
sub fc_tag
{
	my ($node, $database, $relation) = @_;
	my ($spc, $db, $rel) = split /\|/, $node->safe_psql(
		$database, qq{
		SELECT CASE WHEN c.reltablespace <> 0 THEN c.reltablespace ELSE d.dattablespace END,
			CASE WHEN c.relisshared THEN 0 ELSE d.oid END, pg_relation_filenode(c.oid)
		FROM pg_class c, pg_database d
		WHERE c.oid = '$relation'::regclass AND d.datname = current_database()});
	return { spc => $spc, db => $db, rel => $rel, name => "$database.$relation ($spc/$db/$rel)" };
}

sub tag_where
{
	my ($tag) = @_;
	return "reltablespace = $tag->{spc} AND reldatabase = $tag->{db} AND relfilenode = $tag->{rel}";
}

# How many pages with that tag are in flash, or in shared buffers; a condition on the block can be added.
sub fc_tag_flash
{
	my ($node, $tag, $condition) = @_;
	return $node->safe_psql('postgres',
		"SELECT count(*) FROM pg_flashcache_pages WHERE " . tag_where($tag) . ($condition ? " AND $condition" : ''));
}

sub fc_tag_buffers
{
	my ($node, $tag, $condition) = @_;
	return $node->safe_psql('postgres', tag_buffers_sql($tag) . ($condition ? " AND $condition" : ''));
}

sub tag_buffers_sql
{
	my ($tag) = @_;
	return 'SELECT count(*) FROM pg_buffercache WHERE relforknumber = 0 AND ' . tag_where($tag);
}

# fc_warm(primary, standby, database, relation...):
# Brings every page of the relations into the flash of both servers, and none into their pools. The standby may be undef.
# This is the danger that a test needs: from now on a page that is not invalidated is read from flash.
#
# fc_bring(node, database, relation):
# The same for one relation on one server. Hint bits are set before, so that later reads leave the pages alone.
sub fc_warm
{
	my ($primary, $standby, $database, @relations) = @_;
	fc_bring($primary, $database, $_) foreach @relations;
	return if !defined $standby;
	fc_replayed($primary, $standby);
	fc_bring($standby, $database, $_) foreach @relations;
	return;
}

sub fc_bring
{
	my ($node, $database, $relation) = @_;
	my $tag   = fc_tag($node, $database, $relation);
	my $where = tag_where($tag);

	$node->safe_psql(
		$database, qq{
		SELECT relkind = 'i' AS is_index FROM pg_class WHERE oid = '$relation'::regclass \\gset
		\\if :is_index
		\\else
		SELECT count(*) FROM $relation;
		\\endif});
	my $missing = '';
	for (1 .. MAX_ROUNDS)
	{
		# In this order: a page that is in shared buffers may be dirty yet, and writing it takes it out of flash.
		(my $in_buffers, $missing) = split /\n/, $node->safe_psql($database, tag_buffers_sql($tag) . ';'
			  . "SELECT string_agg(block::text, ' ') FROM generate_series(0, pg_relation_size('$relation') / 8192 - 1) block "
			  . "WHERE NOT EXISTS (SELECT FROM pg_flashcache_pages WHERE $where AND relblocknumber = block)");
		$missing //= '';
		return if $in_buffers == 0 && $missing eq '';
		# In mode 'buffer' every page gets an ordinary buffer, of tables and indexes alike.
		$node->safe_psql($database,
			join "\n", 'CHECKPOINT;', map { "SELECT pg_prewarm('$relation', 'buffer', 'main', $_, $_);" } split / /, $missing);
		push_all_out($node);
	}
	my %now = fc_stat($node);
	diag(join ', ', map { "$_ $now{$_}" } sort keys %now);
	die "these pages of $tag->{name} do not come into flash: $missing";
}

# Pushes all pages with that tag out of the pool. For files that no query can name: of open transactions, of relations gone.
sub fc_push_out
{
	my ($node, $tag) = @_;
	my $left = fc_tag_buffers($node, $tag);
	for (1 .. MAX_ROUNDS)
	{
		return if $left == 0;
		$left = push_all_out($node, tag_buffers_sql($tag));
	}
	die "$tag->{name} is still in shared buffers";
}

# As fc_evict_all, but with many small statements: in a pool of 128 buffers a large one goes round several times before a
# writer that has to share the processor comes to look, and loses the same pages each time. For the same reason no
# filler is made while there is one. Returns what the query answers that comes last.
my %rounds;

sub push_all_out
{
	my ($node, $sql) = @_;
	my ($table, $rows) = split /\|/, filler($node);

	if (!$rows)
	{
		fc_evict_all($node);
		($table, $rows) = split /\|/, filler($node);
	}
	# Each round begins elsewhere, so that no two meet the same frames at the same time.
	my @first = map { STEP * $_ } 0 .. $rows / STEP - 1;
	my $begin = 7 * $rounds{ $node->name }++ % @first;
	my $output = $node->safe_psql(
		'postgres', join "\n",
		'SET enable_seqscan = off; SET enable_bitmapscan = off; SET max_parallel_workers_per_gather = 0;',
		(map { "SELECT count(pad) FROM $table WHERE id > $_ AND id <= $_ + " . STEP . ';' }
		  @first[ $begin .. $#first ], @first[ 0 .. $begin - 1 ]), $sql // '');
	return $output =~ s/.*\n//sr;
}

# Which filler of fc_evict_all there is, and how many rows it has. The unlogged one is better, since it does not go
# through the cache; a crash empties it, and a standby cannot read it.
sub filler
{
	my ($node) = @_;
	return $node->safe_psql(
		'postgres', q{
		SELECT relname, pg_relation_size(oid) / 8192 FROM pg_class
		WHERE relname IN ('fc_filler', 'fc_filler_logged') AND pg_relation_size(oid) > 0
			AND NOT (relpersistence = 'u' AND pg_is_in_recovery())
		ORDER BY relname LIMIT 1});
}

# One test: exactly so many pages with that tag are in flash.
sub fc_is_warm
{
	my ($node, $tag, $pages, $name) = @_;
	return is(fc_tag_flash($node, $tag), $pages, $node->name . ": $name");
}

# One test: no page with that tag is in flash any more.
sub fc_is_gone
{
	my ($node, $tag, $name) = @_;
	return is(fc_tag_flash($node, $tag), 0, $node->name . ": $name");
}

# One test: every page in flash was put there since the server started. (While nobody reads, the counters stand still.)
sub fc_is_accounted
{
	my ($node, $name) = @_;
	return ok(
		$node->poll_query_until('postgres',
			'SELECT used = inserts - eviction_aged_out - eviction_invalidated - slots_retired FROM pg_stat_flashcache'),
		$node->name . ": $name");
}

# A query for all rows of a table by their places: reads each page from $first on once, and nothing else.
sub fetch_sql
{
	my ($columns, $table, $first, $pages) = @_;
	my ($last, $versions) = ($pages - 1, VERSIONS);
	return qq{
		SELECT $columns FROM $table
		WHERE ctid = ANY (ARRAY(SELECT format('(%s,%s)', block, line)::tid
			FROM generate_series($first, $last) block, generate_series(1, $versions) line));
	};
}

# Looks at all rows of a table, in the order of their places.
sub fc_fetch
{
	my ($node, $database, $table, $pages) = @_;
	my $rows = $node->safe_psql($database, FETCH_SETTINGS . fetch_sql('count(*)', $table, 0, $pages));
	die "found $rows rows in $pages pages of $table" if $rows != $pages;
	return;
}

# fc_is_read(node, database, table, label, pages, name [, source]):
# One test: all rows of the table are there with the values of the label, and they came from where they should:
#
#   flash     (default) every page was a hit
#   disk      every page was a miss
#   any       from wherever they are but shared buffers: every page that is in flash was a hit, the others were misses
#
# Rows are fetched by their places, which reads each page of the table once and nothing else. What a session needs from
# the catalogs it has by then, from asking for no rows first.
sub fc_is_read
{
	my ($node, $database, $table, $label, $pages, $name, $source) = @_;
	my $tag   = fc_tag($node, $database, $table);
	my $value = fc_value_sql($label);
	my $where = tag_where($tag);
	my $read  = sub {
		my ($first) = @_;
		return fetch_sql("'rows', count(*), count(DISTINCT id), count(*) FILTER (WHERE val = $value)",
			$table, $first, $pages);
	};
	my $counters = "SELECT 'counters', hits, misses FROM pg_stat_flashcache;";
	my $flash    = "SELECT 'flash', count(*) FROM pg_flashcache_pages WHERE $where AND relblocknumber < $pages;";

	$source //= 'flash';
	# A page that is read may push another out that would have been found in shared buffers.
	fc_push_out($node, $tag) if $source eq 'any';
	my $output = $node->safe_psql($database,
		FETCH_SETTINGS . "SELECT format('(%s,%s)', 0, 1)::tid;" . $read->($pages) . $flash . $counters . $read->(0) . $counters);

	my ($in_flash) = $output =~ /^flash\|(\d+)$/m;
	my @rows = $output =~ /^rows\|(.*)$/mg;
	my @counters = map { [ split /\|/ ] } $output =~ /^counters\|(.*)$/mg;
	my ($hits, $misses) = map { $counters[1][$_] - $counters[0][$_] } 0, 1;

	my %from = (flash => [ $pages, 0 ], disk => [ 0, $pages ], any => [ $in_flash, $pages - $in_flash ]);
	return is("$rows[1], $hits hits, $misses misses",
		"$pages|$pages|$pages, $from{$source}[0] hits, $from{$source}[1] misses",
		$node->name . ": $name");
}

# One test: nothing has gone wrong with the caches.
sub fc_is_quiet
{
	fc_is_clean($_) foreach @_;
	return;
}

# fc_next_oid(node, number):
# SQL that makes number the next one that an object or a file is given. To be run in one session with the statement
# that shall get it, since any statement may take one.
my %has_next_oid;

sub fc_next_oid
{
	my ($node, $number) = @_;
	if (!$has_next_oid{ $node->name })
	{
		my $source  = __FILE__ =~ s/[^\/]+$/next_oid.c/r;
		my $library = $node->basedir . '/next_oid.so';
		my $include = `pg_config --includedir-server`;
		chomp $include;
		system_or_bail('gcc', '-shared', '-fPIC', '-I', $include, '-o', $library, $source);
		$has_next_oid{ $node->name } = $library;
	}
	my $library = $has_next_oid{ $node->name };
	return "CREATE OR REPLACE FUNCTION pg_temp.fc_test_next_oid(oid) RETURNS void AS '$library' LANGUAGE C STRICT; "
	  . "SELECT pg_temp.fc_test_next_oid($number);";
}

# fc_reads_ahead():
# Can pages be read ahead here? The kernel must let us, and the library must have been there when we were built.
sub fc_reads_ahead
{
	my $params = "\0" x 256;
	my $fd     = syscall(425, 1, $params);    # io_uring_setup

	return 0 if $fd < 0;
	POSIX::close($fd);
	return scalar(my @library = glob('/usr/lib/*/liburing.a')) > 0;
}

# fc_kill_server(node):
# Kills the postmaster and all its children at once (SIGKILL), and returns when all of them are dead.
sub fc_kill_server
{
	my ($node) = @_;
	my $postmaster = $node->{_pid};
	# It must not start another one while we count them.
	kill 'STOP', $postmaster;
	1 until process_stat($postmaster) =~ /\) T /;
	opendir(my $proc, '/proc') or die "could not read /proc: $!";
	my @children = grep { /^\d+$/ && process_stat($_) =~ /\) \S $postmaster / } readdir $proc;
	closedir $proc;

	kill 'KILL', $postmaster, @children;
	$node->kill9;    # it is dead already; now the object knows as well
	foreach my $pid ($postmaster, @children)
	{
		for (my $tries = 0; is_alive($pid); $tries++)
		{
			die "process $pid survived a kill -9" if $tries > 10 * $PostgreSQL::Test::Utils::timeout_default;
			select undef, undef, undef, 0.1;
		}
	}
	# A dead process keeps its number until it is waited for, and the next server would take it for a running one.
	unlink $node->data_dir . '/postmaster.pid', $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	return;
}

# fc_device_process(node):
# Process ID of the device process, the only child of the writer; empty if there is none.
sub fc_device_process
{
	my ($node) = @_;
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	return '' if $writer eq '';
	opendir(my $proc, '/proc') or die "could not read /proc: $!";
	my ($device) = grep { /^\d+$/ && process_stat($_) =~ /\) [^ZX] $writer / } readdir $proc;
	closedir $proc;
	return $device // '';
}

# What the kernel says of a process; empty if there is none. The state and the parent follow the name, which may hold anything.
sub process_stat
{
	my ($pid) = @_;
	open(my $file, '<', "/proc/$pid/stat") or return '';
	my $line = <$file>;
	close $file;
	return $line // '';
}

# A zombie is dead.
sub is_alive
{
	my ($pid) = @_;
	return process_stat($pid) =~ /\) [^ZX] /;
}

1;

# pg_flashcache.follow: a standby pulls its primary's map and loads what it names, to the last page; what is not loaded and
# why; a standby with less flash; one that follows a standby; one that loses a device; promotion.
#
# Every hit is compared with the disk. zero_damaged_pages is on, under which the writer takes no page from the pool: what
# is on flash has been loaded.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGES => 100;

my $conf = <<'END';
zero_damaged_pages = on
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_wal_size = 4GB
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
max_worker_processes = 16
max_standby_streaming_delay = -1
hot_standby_feedback = off
pg_flashcache.follow_buffers = off
END
my $primary = fc_new_node('primary', size => '8MB', buffers => '4MB', streaming => 1, conf => $conf);
fc_everywhere($primary);

# A table of known pages, all written, and with its hint bits.
sub table
{
	my ($database, $name, $pages) = @_;
	fc_table($primary, $database, $name, $name, $pages);
	$primary->safe_psql($database, "SELECT count(*) FROM $name");
	return fc_tag($primary, $database, $name);
}

# Brings a table to the primary's flash.
sub load
{
	my ($name, $database) = @_;
	$primary->safe_psql($database // 'postgres', "SELECT * FROM pg_flashcache_prewarm('$name')");
	return;
}

sub setting
{
	my ($node, $name, $value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.$name = \$value\$$value\$value\$");
	$node->reload;
	return;
}

sub follow
{
	my ($node) = @_;
	setting($node, 'follow_interval', '1s');
	setting($node, 'follow', 'on');
	return;
}

# Columns of the view.
sub warmth
{
	my ($node, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM pg_flashcache_warmth");
}

# Until the view says so; what it says instead, if it does not.
sub wait_warmth
{
	my ($node, $condition, $name) = @_;
	my $came = $node->poll_query_until('postgres', "SELECT $condition FROM pg_flashcache_warmth");
	ok($came, $name) or diag($node->safe_psql('postgres', q{SELECT to_jsonb(w) FROM pg_flashcache_warmth w}));
	return;
}

# Until a round is over that has begun after the call.
sub wait_rounds
{
	my ($node, $name) = @_;
	my $now = warmth($node, 'rounds');
	wait_warmth($node, "rounds >= $now + 2", $name);
	return;
}

# A standby whose pool is empty, and whose flash is.
sub standby_of
{
	my ($name, $from, %option) = @_;
	my $standby = fc_new_standby($name, $from, size => '8MB', buffers => '4MB', conf => $conf, %option);
	fc_replayed($primary, $standby) if $from == $primary;
	$standby->safe_psql('postgres', 'CHECKPOINT');
	$standby->restart;
	fc_wait_active($standby);
	return $standby;
}

$primary->safe_psql('postgres', 'CREATE DATABASE other');
my %tag = map { $_ => table('postgres', $_, PAGES) } qw(first second locked pool changing buffered);
$tag{elsewhere} = table('other', 'elsewhere', 30);
$primary->safe_psql('postgres', 'CHECKPOINT');

# ---- before ----

my $standby = standby_of('standby', $primary);
is(warmth($primary, 'state, reason, pulled_at IS NULL, share IS NULL, rounds, loaded'), 'off|this server is not a standby|t|t|0|0', 'a primary');
is(warmth($standby, 'state, reason, pulled_at IS NULL, share IS NULL, rounds, loaded'), 'off|pg_flashcache.follow is off|t|t|0|0', 'a standby that does not follow');
is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(0)'), 'f', 'is not warm');
my ($status, undef, $error) = $standby->psql('postgres', 'SELECT pg_flashcache_is_warm(1.1)');
like($error, qr/ERROR:  share is out of range: 1\.1/, 'a share above 1');

# ---- a round ----

load('first');
load('elsewhere', 'other');
fc_fetch($primary, 'postgres', 'first', 20);
follow($standby);
wait_warmth($standby, 'here = 130', 'all that the primary has is here');
wait_rounds($standby, 'rounds go on');
is(warmth($standby, 'pages, here, share, hot_pages, hot_here, hot_share, missing_locked, missing_no_room, missing_database, missing_gone, missing_unreadable, loaded, too_old, reason'),
	'130|130|1|20|20|1|0|0|0|0|0|130|f|', 'each page was loaded once');
is(fc_tag_flash($standby, $tag{$_->[0]}), $_->[1], "$_->[0]: these are on flash") foreach ([ 'first', PAGES ], [ 'elsewhere', 30 ], [ 'second', 0 ]);
is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(1), pg_flashcache_is_warm()'), 't|t', 'it is warm');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'pg_flashcache follower'}), 1, 'there is one follower');
fc_is_read($standby, 'postgres', 'first', 'first', PAGES, 'and is read from flash');

load('second');
wait_warmth($standby, 'here = 230 AND loaded = 230', 'what comes to the primary comes here');

# ---- what is not loaded ----

{
	load('locked');
	wait_warmth($standby, 'here = 330 AND loaded = 330', 'so far nobody has it');
	my $locker = $primary->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK locked IN ACCESS EXCLUSIVE MODE; SELECT pg_current_xact_id()');
	fc_replayed($primary, $standby);
	# its flash is empty then; and it follows once it has the lock again, which it replays
	setting($standby, 'follow', 'off');
	$standby->restart;
	fc_wait_active($standby);
	fc_replayed($primary, $standby);
	setting($standby, 'follow', 'on');
	wait_warmth($standby, 'missing_locked = 100 AND here = 230 AND loaded = 230', 'nobody waits for a lock');
	is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(0.6), pg_flashcache_is_warm(0.7)'), 't|f', 'the share decides');
	$locker->query_safe('COMMIT');
	$locker->quit;
	wait_warmth($standby, 'missing_locked = 0 AND here = 330 AND loaded = 330', 'it is loaded when the lock is gone');
}
{
	$standby->safe_psql('postgres', q{SELECT pg_prewarm('pool')});
	load('pool');
	wait_warmth($standby, 'pages = 430 AND here = 430', 'what is in shared buffers is here');
	wait_rounds($standby, 'a round later');
	is(warmth($standby, 'loaded'), 330, 'and is not loaded');
	is(fc_tag_flash($standby, $tag{pool}), 0, 'none of it is on flash');
}
{
	fc_rewrite_rows($primary, 'postgres', 'second', 'new');
	$primary->safe_psql('postgres', 'SELECT count(*) FROM second; CHECKPOINT');
	fc_replayed($primary, $standby);
	is($standby->safe_psql('postgres', "SELECT count(*) FROM second WHERE val = @{[fc_value_sql('new')]}"), PAGES, 'the rows are the new ones');
	$standby->safe_psql('postgres', 'CHECKPOINT');
	is(fc_tag_flash($standby, $tag{second}), 0, 'nothing of the table is on flash any more');
}

# ---- what is in the other server's shared_buffers ----

{
	my $blocks = "SELECT count(*), min(relblocknumber), max(relblocknumber) FROM pg_flashcache_pages WHERE relfilenode = $tag{buffered}{rel}";
	fc_fetch($primary, 'postgres', 'buffered', 20);
	wait_rounds($standby, 'what only shared_buffers have there');
	is($standby->safe_psql('postgres', $blocks), '0||', 'follow_buffers = off: is not loaded');
	setting($standby, 'follow_buffers', 'on');
	ok($standby->poll_query_until('postgres', $blocks, '20|0|19'), 'on: it is, those pages and no others')
	  or diag(warmth($standby, 'to_jsonb(pg_flashcache_warmth)'));
	setting($standby, 'follow_buffers', 'off');
	fc_is_read($standby, 'postgres', 'buffered', 'buffered', 20, 'and is read from flash');
}

# ---- a standby with less flash, which follows a standby ----

{
	# More than fit were hit there, and these twice.
	fc_evict_all($primary, logged => 1);
	fc_replayed($primary, $standby);
	my %read = fc_delta($standby, sub {
		fc_fetch($standby, 'postgres', 'first', PAGES);
		fc_push_out($standby, $tag{first});
		$standby->safe_psql('postgres', 'SET enable_seqscan = off; SELECT count(*) FROM first WHERE ctid = ANY '
			  . "(ARRAY(SELECT format('(%s,%s)', block, line)::tid FROM generate_series(60, 99) block, generate_series(1, 4) line))");
		fc_push_out($standby, $tag{first});
	}, 'hits');
	cmp_ok($read{hits}, '>=', PAGES + 40, 'more than fit are hot over there');
	# what is pushed out passes by the clock of the cache as well: the map says which are the hottest by now
	my %heat = map { split /\|/ } split /\n/, $standby->safe_psql('postgres', 'SELECT first_block + n, heat FROM pg_flashcache_export_map(), '
		  . "LATERAL generate_series(0, 8 * length(bitmap) - 1) n WHERE get_bit(bitmap, n) = 1 AND relfilenode = $tag{first}{rel}");
	my $small = standby_of('small', $primary, size => '512kB');
	setting($small, 'follow_conninfo', $standby->connstr('postgres'));
	follow($small);
	wait_warmth($small, 'rounds >= 2', 'it follows the other standby');
	is(warmth($small, 'loaded, state <> $$failed$$, here >= 64, missing_no_room >= pages - here'), '64|t|t|t', 'so many fit');
	wait_rounds($small, 'rounds later');
	is(warmth($small, 'loaded'), 64, 'nothing has been loaded for another page');
	is($small->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache'), 64, 'all slots are in use');
	my %here = map { $_ => 1 } split /\n/, $small->safe_psql('postgres', "SELECT relblocknumber FROM pg_flashcache_pages WHERE relfilenode = $tag{first}{rel}");
	my ($coldest_here) = sort { $a <=> $b } map { $heat{$_} } grep { $here{$_} } keys %heat;
	my ($hottest_left) = sort { $b <=> $a } map { $heat{$_} } grep { !$here{$_} } keys %heat;
	cmp_ok($coldest_here, '>=', $hottest_left, 'by the hottest pages of the map');
	cmp_ok($coldest_here, '>', 0, 'which are among them');
	fc_is_clean($small);
	$small->stop('fast');
}

# ---- a primary that takes long to answer is asked a tenth of the time at most ----

{
	my $locker = $primary->background_psql('postgres');
	$locker->query_safe('BEGIN; LOCK TABLE pg_extension IN ACCESS EXCLUSIVE MODE');
	$primary->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'pg_extension'::regclass AND NOT granted})
	  or die 'the follower does not ask';
	my $before = warmth($standby, 'pulled_at');
	$locker->query_safe('SELECT pg_sleep(0.4); COMMIT');
	$locker->quit;
	wait_warmth($standby, "pulled_at > '$before'", 'a pull that took 400 ms');
	$before = warmth($standby, 'pulled_at');
	wait_warmth($standby, "pulled_at > '$before'", 'the next one');
	is(warmth($standby, "pulled_at - '$before' >= '3.6s'"), 't', 'came nine times as much later');
}

# ---- a cache that is not in use, or was emptied ----

{
	wait_warmth($standby, 'here = pages AND pages > 0', 'all is here');
	setting($standby, 'enabled', 'off');
	fc_wait_state($standby, 'disabled');
	is(warmth($standby, 'here, share, hot_here, hot_share'), '0|0|0|0', 'disabled: nothing is here any more');
	is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(0)'), 'f', 'disabled: it is not warm');
	setting($standby, 'write_limit', '8kB');
	setting($standby, 'enabled', 'on');
	fc_wait_state($standby, 'active');
	is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(0.9)'), 'f', 'enabled again: nor is it as long as the pages are not there');
	setting($standby, 'write_limit', '0');
	wait_warmth($standby, 'here = pages AND pages > 0', 'they are loaded again');
}

# ---- a device that fails, long before the next comparison ----

{
	my $two = standby_of('two', $primary, size => '1MB', conf => "$conf\npg_flashcache.max_size = 16MB\n");
	add($two, $two->basedir . '/second', 8 << 20);
	setting($two, 'follow_interval', '1h');
	setting($two, 'follow', 'on');
	wait_warmth($two, 'rounds >= 1', 'all is loaded, and compared');
	is($two->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(0.9)'), 't', 'it is warm');
	my $control = fc_control($two);
	fc_failpoint($control, $_, 'error', 2) foreach qw(store_read store_open);
	foreach my $table (qw(first second locked))
	{
		fc_fetch($two, 'postgres', $table, PAGES) if device($two, 2, 'state') ne 'off';
	}
	is(device($two, 2, 'state'), 'off', 'one of two devices is off');
	fc_writer_round($two);
	is($two->safe_psql('postgres', 'SELECT here < pages AND share < 0.9, pg_flashcache_is_warm(0.9) FROM pg_flashcache_warmth'), 't|f',
		'and what is on it is not here any more');
	$control->quit;
	$two->stop;
}

# ---- promotion ----

{
	$standby->promote;
	wait_warmth($standby, q{state = 'off' AND reason = 'this server is not a standby'}, 'promotion ends it');
	$standby->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'pg_flashcache %'})
	  or die 'the follower does not end';
	is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(0)'), 'f', 'there is nothing to be warm for');
	fc_is_read($standby, 'postgres', 'first', 'first', PAGES, 'what was loaded is read from flash');
	is(scalar(grep { /flashcache_map/ } slurp_dir($standby->data_dir . '/base/pgsql_tmp')), 0, 'no file is left');
	fc_is_clean($standby);
}
fc_is_clean($primary);
done_testing();

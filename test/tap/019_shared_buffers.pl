# What was in shared_buffers comes along over a clean stop: rule K13 of src/warm.md.
#
# The pool is large enough that nothing is evicted, so a page comes to flash only at the stop. Tables of fc_table are
# read by their places, so it is known to the page what is in the pool, what on flash, and what a read costs.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my $conf  = "pg_flashcache.persistence = on\npg_flashcache.max_shutdown_delay = '600s'\nmax_logical_replication_workers = 0\n"
  . "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nrestart_after_crash = on\nmax_wal_senders = 4\n";
my $node = fc_new_node('main', size => '32MB', buffers => '16MB', conf => $conf);
fc_everywhere($node);

sub persistence
{
	my ($server, $column) = @_;
	return $server->safe_psql('postgres', "SELECT $column FROM pg_stat_flashcache_persistence");
}

# Waits until nothing more is loaded; returns how that ended.
sub loaded
{
	my ($server) = @_;
	$server->poll_query_until('postgres',
		"SELECT buffers_state IS NULL OR buffers_state NOT IN ('waiting', 'loading') FROM pg_stat_flashcache_persistence")
	  or die 'shared buffers are still being loaded';
	return persistence($server, 'buffers_state');
}

# A table all of whose pages are in the pool, clean, with their hints, and none on flash.
sub hot
{
	my ($server, $table, $database) = @_;
	$database //= 'postgres';
	fc_table($server, $database, $table, 'v1', $pages);
	fc_fetch($server, $database, $table, $pages);
	$server->safe_psql($database, 'CHECKPOINT');
	my $tag = fc_tag($server, $database, $table);
	die "$table is not as it should be" if join(' ', fc_tag_buffers($server, $tag, 'NOT isdirty'), fc_tag_flash($server, $tag)) ne "$pages 0";
	return $tag;
}


# Tells the server to stop, and leaves a session that outlives the begin of the stop: a walsender. Pause points that it
# arms before are reached by the writer while it copies.
sub begin_stop
{
	my ($server, @point) = @_;
	my $control = $server->background_psql('postgres', replication => 'database');

	$control->query_safe("EXPLAIN SELECT fc_failpoint('', ''), fc_failpoint('', '', 0), fc_failpoint_wait('')");
	$control->query_safe('SELECT writer_pid FROM pg_stat_flashcache');
	fc_failpoint($control, @point);
	system_or_bail('pg_ctl', 'stop', '-W', '-m', 'fast', '-D', $server->data_dir);
	fc_failpoint_wait($control, $point[0]);
	return $control;
}

# The session may be ended before it has its answer, and the server be gone already.
sub end_stop
{
	my ($server, $control, $point) = @_;
	eval {
		$control->query("SELECT fc_failpoint('$point', 'off')");
		$control->quit;
		1;
	} or note($@);
	$server->stop('fast', fail_ok => 1);
	return;
}

sub restart
{
	my ($server) = @_;
	$server->restart;
	fc_wait_active($server);
	return loaded($server);
}

# What a look at all rows costs, in pages from flash and from disk.
sub cost
{
	my ($server, $table) = @_;
	my %moved = fc_delta($server, sub { fc_fetch($server, 'postgres', $table, $pages) }, 'hits', 'misses');
	return "$moved{hits} $moved{misses}";
}

# As fc_fetch, which counts rows: their values.
sub is_right
{
	my ($server, $table, $label, $name) = @_;
	my $value = fc_value_sql($label);
	return is($server->safe_psql('postgres', "SELECT count(*) FROM $table WHERE val = $value"), $pages, "$name: the rows are right");
}

# Starts a server whose cache is not active yet: nothing is restored before it is enabled.
sub start_disabled
{
	my ($server) = @_;
	$server->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$server->start;
	fc_wait_state($server, 'disabled');
	return;
}

sub enable
{
	my ($server) = @_;
	$server->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$server->reload;
	fc_wait_active($server);
	return;
}

# The list that a stop leaves.
sub list_file
{
	my ($server) = @_;
	return $server->data_dir . '/pg_flashcache.buffers';
}

# How many lines of the log match, from there on.
sub in_log
{
	my ($server, $offset, $what) = @_;
	return scalar grep { $_ =~ $what } split /\n/, slurp_file($server->logfile, $offset);
}

# Clean stop.
my $t   = hot($node, 't');
my $log = -s $node->logfile;
is(restart($node), 'loaded', 'clean stop: shared buffers are loaded');
is(fc_tag_flash($node, $t),   $pages, 'clean stop: every page is on flash');
is(fc_tag_buffers($node, $t), $pages, 'clean stop: and in shared buffers');
is(cost($node, 't'), '0 0', 'clean stop: nothing is read for the table');
is(in_log($node, $log, qr/pg_flashcache has \d+ pages of shared buffers on flash/), 1, 'clean stop: the log says what was copied');
is(in_log($node, $log, qr/pg_flashcache has loaded \d+ of \d+ pages from flash/), 1, 'clean stop: and what was loaded');
is(persistence($node, 'buffers_copied BETWEEN 40 AND buffers_listed AND buffers_copy_time_us > 0 AND '
	  . 'buffers_loaded BETWEEN 40 AND buffers_listed AND buffers_load_time_us > 0'), 't', 'clean stop: and so does the view');
ok(!-e list_file($node), 'clean stop: the list is gone');

# What is on flash is not copied again: its slots are the same.
my $slots = "SELECT string_agg(slot::text, ' ' ORDER BY relblocknumber) FROM pg_flashcache_pages WHERE relfilenode = $t->{rel}";
my $before = $node->safe_psql('postgres', $slots);
is(restart($node), 'loaded', 'again: shared buffers are loaded');
is($node->safe_psql('postgres', $slots), $before, 'again: the pages are where they were');
is(cost($node, 't'), '0 0', 'again: nothing is read for the table');

# Pages that are dirty are copied when the checkpoint that is made for it has written them.
fc_rewrite_rows($node, 'postgres', 't', 'v2');
is(fc_tag_buffers($node, $t, 'isdirty'), $pages, 'dirty: all pages are');
is(restart($node), 'loaded', 'dirty: shared buffers are loaded');
is(fc_tag_flash($node, $t), $pages, 'dirty: every page is on flash');
is(cost($node, 't'), '0 0', 'dirty: nothing is read for the table');
is_right($node, 't', 'v2', 'dirty');
fc_is_read($node, 'postgres', 't', 'v2', $pages, 'dirty: what is on flash is right', 'any');


# A page that is changed while it is copied: the fill fails (F6), and what comes to flash is the new page.
my $u = hot($node, 'u');
{
	my $control = begin_stop($node, 'fill_copied', 'pause', $u->{rel});
	$control->query_safe("UPDATE u SET val = val || 'x'");
	$control->query_safe('CHECKPOINT');
	end_stop($node, $control, 'fill_copied');
	$node->start;
	fc_wait_active($node);
	is(loaded($node), 'loaded', 'changed meanwhile: shared buffers are loaded');
	is($node->safe_psql('postgres', "SELECT count(*) FROM u WHERE val LIKE '%x'"), $pages, 'changed meanwhile: the rows are right');
	fc_to_flash($node, 'u');
	my %read = fc_delta($node, sub {
		is($node->safe_psql('postgres', "SELECT count(*) FROM u WHERE val LIKE '%x'"), $pages, 'changed meanwhile: on flash, too');
	}, 'hits');
	cmp_ok($read{hits}, '>=', $pages, 'changed meanwhile: every page is on flash');
}

# The writer is told to hurry, by a second SIGTERM: it stops copying after the page that it has in hand.
my $h = hot($node, 'h');
{
	my $writer  = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $control = begin_stop($node, 'fill_copied', 'pause', $h->{rel});
	kill 'TERM', $writer or die $!;
	end_stop($node, $control, 'fill_copied');
	$node->start;
	fc_wait_active($node);
	is(fc_tag_flash($node, $h), 1, 'told to hurry: one page of the table was copied');
	is(loaded($node), 'loaded', 'told to hurry: loading ends');
	is(persistence($node, 'buffers_listed'), 0, 'told to hurry: the list is empty');
}

# An immediate stop cuts it off: the end is a crash.
{
	my $cut = hot($node, 'cut');
	$log = -s $node->logfile;
	my $control = begin_stop($node, 'fill_copied', 'pause', $cut->{rel});
	$node->stop('immediate');
	$control->{run}->finish;
	ok(!-e list_file($node), 'immediate stop while it copies: there is no list');
	is(in_log($node, $log, qr/of shared buffers on flash/), 0, 'immediate stop while it copies: it was not waited for');
	$node->start;
	fc_wait_active($node);
	is(loaded($node), '', 'immediate stop while it copies: nothing is loaded');
	is_right($node, 't', 'v2', 'immediate stop while it copies');
}

# Crashes leave no list. One that an earlier run has left is removed.
hot($node, 'crashed');
$node->stop('immediate');
append_to_file(list_file($node), 'x');
$node->start;
fc_wait_active($node);
is(loaded($node), '', 'crash: nothing is loaded');
ok(!-e list_file($node), 'crash: a list that is there is removed');

# A stop before all is loaded, here for want of a background worker: what is missing stays on the list.
my $missing = hot($node, 'missing');
$node->append_conf('postgresql.conf', 'max_worker_processes = 1');
$node->restart;
fc_wait_active($node);
is(persistence($node, 'buffers_state') . fc_tag_buffers($node, $missing), 'waiting0', 'not loaded: it waits for a background worker');
$node->append_conf('postgresql.conf', 'max_worker_processes = 8');
is(restart($node), 'loaded', 'not loaded: it is after the next start');
is(fc_tag_buffers($node, $missing), $pages, 'not loaded: every page is in shared buffers');
is(cost($node, 'missing'), '0 0', 'not loaded: nothing is read for the table');

# Not asked for.
$node->append_conf('postgresql.conf', 'pg_flashcache.max_shutdown_delay = 0');
$node->reload;
my $none = hot($node, 'none');
my ($often, $once) = map { hot($node, $_) } qw(often once);
$node->restart;
fc_wait_active($node);
is(loaded($node), '', 'no delay: nothing is loaded');
is(fc_tag_flash($node, $none), 0, 'no delay: nothing was copied');
$node->append_conf('postgresql.conf', "pg_flashcache.max_shutdown_delay = '600s'");
$node->restart;
fc_wait_active($node);

# The hottest are copied first: when the writer comes to pages that were used once, and is told to hurry, it has those that
# were used five times.
{
	is(fc_tag_buffers($node, $_) + fc_tag_flash($node, $_), 0, 'the hottest first: neither in shared buffers nor on flash') foreach $once, $often;
	fc_fetch($node, 'postgres', 'once', $pages);
	fc_fetch($node, 'postgres', 'often', $pages) for 1 .. 5;
	is(fc_tag_buffers($node, $once, 'usagecount = 1'), $pages, 'the hottest first: pages that were used once');
	is(fc_tag_buffers($node, $often, 'usagecount = 5'), $pages, 'the hottest first: and five times');
	my $writer  = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $control = begin_stop($node, 'fill_copied', 'pause', $once->{rel});
	kill 'TERM', $writer or die $!;
	end_stop($node, $control, 'fill_copied');
	$node->start;
	fc_wait_active($node);
	loaded($node);
	is(fc_tag_flash($node, $often), $pages, 'the hottest first: all of these were copied');
	is(fc_tag_flash($node, $once), 1, 'the hottest first: of the others the one that it had in hand');
}

# The list is torn; of another run.
my $torn = hot($node, 'torn');
$node->stop;
{
	my $list = slurp_file(list_file($node));
	open my $fh, '+<:raw', list_file($node) or die $!;
	seek $fh, -4, 2;
	print $fh "\0\0\0\1";
	close $fh;
	$node->start;
	fc_wait_active($node);
	is(loaded($node), '', 'torn list: nothing is loaded');
	is(fc_tag_flash($node, $torn), $pages, 'torn list: the pages are on flash all the same');

	$node->stop;
	open $fh, '>:raw', list_file($node) or die $!;
	print $fh $list;
	close $fh;
	$node->start;
	fc_wait_active($node);
	is(loaded($node), '', 'list of another run: nothing is loaded');
	is(fc_tag_flash($node, $torn), $pages, 'list of another run: the pages are on flash all the same');
}

# Relations that are locked, dropped or cut before they are loaded: nobody waits, and nothing is loaded behind their backs.
my %tag = map { $_ => hot($node, $_) } qw(locked dropped truncated cut_short first);
$node->safe_psql('postgres', 'DELETE FROM cut_short WHERE id > 10');
$node->stop;
start_disabled($node);
{
	my $session = $node->background_psql('postgres');
	my $control = fc_control($node);
	$session->query_safe('BEGIN; LOCK TABLE locked');
	fc_failpoint($control, 'buffers_load', 'pause', $tag{dropped}{rel});
	enable($node);
	fc_failpoint_wait($control, 'buffers_load');
	is(persistence($node, 'buffers_state'), 'loading', 'locked and dropped: they are being loaded');
	is(fc_tag_flash($node, $tag{$_}), $pages, "$_: every page is on flash") foreach qw(locked dropped truncated cut_short);
	$node->safe_psql('postgres', "DROP TABLE dropped; TRUNCATE truncated; VACUUM cut_short");
	is($node->safe_psql('postgres', "SELECT pg_relation_size('cut_short') / 8192"), 10, 'cut short: it is');
	fc_failpoint($control, 'buffers_load', 'off');
	is(loaded($node), 'loaded', 'locked and dropped: loading ends');
	is(fc_tag_buffers($node, $tag{$_}), 0, "$_: no page is in shared buffers") foreach qw(locked dropped truncated);
	is(fc_tag_buffers($node, $tag{cut_short}, 'relblocknumber >= 10'), 0, 'cut short: no page beyond the end is in shared buffers');
	is(fc_tag_buffers($node, $tag{first}), $pages, 'locked and dropped: the others are');
	$session->quit;
	$control->quit;
	is($node->safe_psql('postgres', 'SELECT count(*) FROM locked'), $pages, 'locked: the rows are there');
	$node->safe_psql('postgres', 'INSERT INTO cut_short SELECT id, val FROM first');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM cut_short'), 10 + $pages, 'cut short: it can grow again');
}

# Several databases, and one that somebody wants to drop while it is loaded.
$node->safe_psql('postgres', "CREATE DATABASE $_") foreach qw(kept gone);
my $kept = hot($node, 'k', 'kept');
my $gone = hot($node, 'g', 'gone');
$node->stop;
start_disabled($node);
{
	my $control = fc_control($node);
	fc_failpoint($control, 'buffers_load', 'pause', $gone->{rel});
	enable($node);
	fc_failpoint_wait($control, 'buffers_load');
	is($control->query_safe("SELECT datname, count(*) FROM pg_stat_activity WHERE backend_type = 'pg_flashcache buffer loader' GROUP BY 1"),
		'gone|1', 'dropped database: a background worker is in it');
	my $drop = $node->background_psql('postgres');
	$drop->query_until(qr/begins/, "\\echo begins\nDROP DATABASE gone;\n\\echo dropped\n");
	$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'object' AND "
		  . "classid = 'pg_database'::regclass AND objid = $gone->{db} AND mode = 'AccessExclusiveLock' AND granted")
	  or die 'DROP DATABASE does not come to its lock';
	fc_failpoint($control, 'buffers_load', 'off');
	$drop->query_until(qr/dropped/, '');
	$drop->quit;
	$control->quit;
}
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_database WHERE datname = 'gone'"), 0, 'dropped database: it is');
is(loaded($node), 'loaded', 'dropped database: the others are loaded');
is(fc_tag_buffers($node, $gone), 0, 'dropped database: none of its pages is in shared buffers');
is(fc_tag_buffers($node, $kept), $pages, 'other database: all of its pages are');

# autoprewarm does the same: it is left to it. Not if it is switched off, or only its setting is there.
$node->append_conf('postgresql.conf', 'pg_prewarm.autoprewarm = on');
is(restart($node), 'loaded', 'the setting of autoprewarm alone: shared buffers are loaded');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache, pg_prewarm'");
is(restart($node), 'autoprewarm', 'autoprewarm: left to it');
$node->append_conf('postgresql.conf', 'pg_prewarm.autoprewarm = off');
is(restart($node), 'loaded', 'autoprewarm switched off: shared buffers are loaded');
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache'");

# The device hangs: the stop does not wait for it.
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '1s'");
is(restart($node), 'loaded', 'before the device hangs: shared buffers are loaded');
hot($node, 'hangs');
$log = -s $node->logfile;
my $device = fc_device_process($node);
kill 'STOP', $device or die $!;
$node->stop;
kill 'KILL', $device;
is(in_log($node, $log, qr/of shared buffers on flash/), 0, 'device hangs: no list is left');
is(in_log($node, $log, qr/WARNING:  pg_flashcache is off: /), 1, 'device hangs: the log says so');
$node->start;
fc_wait_active($node);
is(loaded($node), '', 'device hangs: nothing is loaded');
is_right($node, 't', 'v2', 'device hangs');
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '60s'");

# The write limit: a page and no more.
$node->append_conf('postgresql.conf', "pg_flashcache.write_limit = '8kB'\npg_flashcache.max_shutdown_delay = '1ms'");
$node->reload;
hot($node, 'limited');
is(restart($node) =~ s/loaded|full/over/r, 'over', 'write limit: what is on flash is loaded');
cmp_ok(persistence($node, 'buffers_copied'), '<=', 10, 'write limit: it holds');
$node->stop;

# Half of the slots.
my $small = fc_new_node('small', size => '512kB', buffers => '16MB', conf => $conf);
fc_everywhere($small);
hot($small, $_) foreach qw(a b);
is(restart($small), 'loaded', 'small cache: shared buffers are loaded');
is(persistence($small, 'buffers_copied'), 32, 'small cache: half of it was copied');
fc_is_clean($small);
$small->stop;

# A pool that is smaller by now: the hottest pages, and none is evicted.
my $pool = fc_new_node('pool', size => '32MB', buffers => '16MB', conf => $conf);
fc_everywhere($pool);
my ($hottest, $coldest) = map { hot($pool, $_) } qw(hottest coldest);
fc_table($pool, 'postgres', 'filling', 'v1', 1000);
fc_fetch($pool, 'postgres', 'filling', 1000);
$pool->safe_psql('postgres', 'CHECKPOINT');
fc_fetch($pool, 'postgres', 'hottest', $pages) for 1 .. 5;
$pool->stop;
$pool->adjust_conf('postgresql.conf', 'shared_buffers', "'8MB'");
$pool->start;
fc_wait_active($pool);
like(loaded($pool), qr/^(full|loaded)$/, 'smaller pool: loading ends');
is(fc_tag_buffers($pool, $hottest), $pages, 'smaller pool: the hottest pages are loaded');
is(persistence($pool, 'buffers_listed > 1024 AND buffers_loaded <= 1024'), 't', 'smaller pool: not more than fit');
fc_is_clean($pool);
$pool->stop;

# A standby.
my ($primary, $standby) = fc_pair(buffers => '16MB', conf => $conf);
my $on_both = hot($primary, 'same');
fc_replayed($primary, $standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
fc_fetch($standby, 'postgres', 'same', $pages);
is(restart($standby), 'loaded', 'standby: shared buffers are loaded');
is(fc_tag_flash($standby, $on_both), $pages, 'standby: every page is on flash');
is(cost($standby, 'same'), '0 0', 'standby: nothing is read for the table');
fc_is_clean($_) foreach $primary, $standby;
$_->stop foreach $standby, $primary;
done_testing();

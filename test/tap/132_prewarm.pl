# pg_flashcache_prewarm(): what it loads and what it leaves out, to the last page; what happens to pages that change
# meanwhile; the write limit, cancelling and going on; how it shares flash with pages that are in use.
#
# Every hit is compared with the disk. zero_damaged_pages is on, under which the writer takes no page from the pool: what
# is on flash has been loaded.

use strict;
use warnings;

use FlashCache;
use FlashCacheLoads;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { SLOTS => 1024, PAGES => 100, RUN => 32 };

my $node = fc_new_node(
	'main',
	size      => '8MB',
	buffers   => '4MB',
	streaming => 1,
	conf      => <<'END');
zero_damaged_pages = on
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
dynamic_shared_memory_type = mmap
END
fc_everywhere($node);

my @results = qw(relations blocks blocks_read loaded skip_exists skip_modification skip_dirty skip_empty skip_corrupt
  skip_no_room skip_write_error);

# What a call should return: what is not named is 0.
sub expected
{
	my (%value) = @_;
	return join '|', map { $value{$_} // 0 } @results;
}

sub prewarm
{
	my ($arguments) = @_;
	return $node->safe_psql('postgres', "SELECT * FROM pg_flashcache_prewarm($arguments)");
}

sub is_prewarmed
{
	my ($arguments, $name, %value) = @_;
	return is(prewarm($arguments), expected(relations => 1, %value), $name);
}

sub set
{
	my ($setting, $value) = @_;
	$node->safe_psql('postgres', "ALTER SYSTEM SET $setting = '$value'");
	$node->reload;
	wait_until($node, "setting = boot_val OR reset_val <> boot_val FROM pg_settings WHERE name = '$setting'", $setting);
	fc_writer_round($node);
	return;
}

# ---- what is loaded ----

my $tag = written_table($node, 't', PAGES);
{
	restart_cold($node);
	my %moved = fc_delta($node, sub {
		is_prewarmed(q{'t'}, 'a table is loaded', blocks => PAGES, blocks_read => PAGES, loaded => PAGES);
	}, qw(inserts writes write_bytes insert_skip_exists));
	is_deeply(\%moved, { inserts => PAGES, writes => 4, write_bytes => PAGES * 8192, insert_skip_exists => 0 },
		'in block order, 32 pages a write');
	is($node->safe_psql('postgres', 'SELECT string_agg(relblocknumber::text, \' \' ORDER BY slot) FROM pg_flashcache_pages '
		  . "WHERE relfilenode = $tag->{rel}"), join(' ', 0 .. PAGES - 1), 'neighbours lie beside each other');
	fc_is_read($node, 'postgres', 't', 't', PAGES, 'the pages are read from flash');

	is_prewarmed(q{'t'}, 'a second time nothing is read', blocks => PAGES, skip_exists => PAGES);
}
{
	restart_cold($node);
	is_prewarmed(q{'t', first_block => 40, last_block => 49}, 'a range of blocks', blocks => 10, blocks_read => 10, loaded => 10);
	is(fc_tag_flash($node, $tag, 'relblocknumber BETWEEN 40 AND 49'), 10, 'these are the blocks');
	is_prewarmed(q{'t', first_block => 90}, 'from a block to the end', blocks => 10, blocks_read => 10, loaded => 10);
	# Runs begin at multiples of 32: 40 .. 49 lie in the second and are read again, being between others.
	is_prewarmed(q{'t'}, 'the rest', blocks => PAGES, blocks_read => 32 + 32 + 26, loaded => 80, skip_exists => 20);
	is(fc_tag_flash($node, $tag), PAGES, 'all are there');
}
{
	$node->safe_psql('postgres', q{
		CREATE TABLE wide (id int PRIMARY KEY, body text, tags int[]);
		ALTER TABLE wide ALTER body SET STORAGE EXTERNAL;
		INSERT INTO wide SELECT id, repeat('x', 5000), ARRAY[id] FROM generate_series(1, 50) id;
		CREATE INDEX ON wide USING gin (tags);
		CHECKPOINT;
	});
	restart_cold($node);
	my $size = sub { return $node->safe_psql('postgres', "SELECT pg_relation_size($_[0]) / 8192") };
	my $main = $size->(q{'wide'});
	my $all  = $node->safe_psql('postgres', q{
		SELECT sum(pg_relation_size(c))::bigint / 8192 FROM (
			SELECT 'wide'::regclass UNION ALL
			SELECT indexrelid FROM pg_index WHERE indrelid = 'wide'::regclass UNION ALL
			SELECT reltoastrelid FROM pg_class WHERE oid = 'wide'::regclass UNION ALL
			SELECT indexrelid FROM pg_index WHERE indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'wide'::regclass)
		) r(c)});

	is_prewarmed(q{'wide'}, 'the table alone', blocks => $main, blocks_read => $main, loaded => $main);
	is_prewarmed(q{'wide', indexes => true, toast => true}, 'with its indexes, its TOAST table, and the index of that',
		relations => 5, blocks => $all, blocks_read => $all - $main, loaded => $all - $main, skip_exists => $main);
	my %moved = fc_delta($node, sub {
		is($node->safe_psql('postgres', q{SET enable_seqscan = off; SELECT length(body) FROM wide WHERE id = 7}), 5000, 'a row is read');
	}, qw(verify_failures));
	is_deeply(\%moved, { verify_failures => 0 }, 'as it should be');
}

# ---- what is left out ----

{
	restart_cold($node);
	fc_rewrite_rows($node, 'postgres', 't', 'second');
	my $dirty = $node->safe_psql('postgres', "SELECT count(*) FROM pg_buffercache WHERE relfilenode = $tag->{rel} AND isdirty AND relforknumber = 0");
	is($dirty, PAGES, 'all pages are dirty');
	is_prewarmed(q{'t'}, 'pages that are dirty in shared buffers are not even read', blocks => PAGES, skip_dirty => PAGES);
	$node->safe_psql('postgres', 'CHECKPOINT');
	is_prewarmed(q{'t'}, 'they are loaded when they have been written', blocks => PAGES, blocks_read => PAGES, loaded => PAGES);
}
{
	my $damaged = written_table($node, 'damaged', 3);
	my $file    = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('damaged')});
	restart_cold($node);
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek $fh, 8192 + 5000, 0 or die $!;
	print {$fh} 'damage' or die $!;
	seek $fh, 3 * 8192, 0 or die $!;
	print {$fh} "\0" x 8192 or die $!;
	close $fh or die $!;

	is_prewarmed(q{'damaged'}, 'damaged and empty pages are left out',
		blocks => 4, blocks_read => 4, loaded => 2, skip_corrupt => 1, skip_empty => 1);
	is(fc_tag_flash($node, $damaged, 'relblocknumber IN (0, 2)'), 2, 'the others are there');
	$node->safe_psql('postgres', 'DROP TABLE damaged; CHECKPOINT');
}

# ---- pages that change meanwhile ----

# Updates every row of the table, and writes it.
sub change
{
	my ($label) = @_;
	fc_rewrite_rows($node, 'postgres', 't', $label);
	$node->safe_psql('postgres', 'CHECKPOINT');
	return;
}

# All pages are taken off flash; the value of the rows is $label.
sub prepare
{
	my ($label) = @_;
	change($label);
	$node->safe_psql('postgres', q{SELECT count(*) FROM t; CHECKPOINT});
	restart_cold($node);
	# what a session needs from the catalogs, and the pool has it
	$node->safe_psql('postgres', q{SELECT count(*) FROM pg_flashcache_pages; SELECT * FROM pg_flashcache_prewarm('t', last_block => 0)});
	return;
}

foreach my $point (qw(load_guarded load_read fill_written))
{
	prepare("before $point");
	my $control = fc_control($node);
	fc_failpoint($control, $point, 'pause', $tag->{rel});
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 1, last_block => 20)});
	fc_failpoint_wait($control, $point);
	change("at $point");
	fc_failpoint($control, $point, 'off');
	is(result($session), expected(relations => 1, blocks => 20, blocks_read => 20, skip_modification => 20),
		"$point: pages that were changed and written are not published");
	$control->quit;
	is(fc_tag_flash($node, $tag), 0, "$point: none is there");
	fc_push_out($node, $tag);
	fc_is_read($node, 'postgres', 't', "at $point", PAGES, "$point: the new rows are read", 'any');
}

# Changed in the pool only: the old page is on flash and on disk, and nobody can read either.
{
	prepare('first');
	my $control = fc_control($node);
	fc_failpoint($control, 'load_read', 'pause', $tag->{rel});
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 1, last_block => 20)});
	fc_failpoint_wait($control, 'load_read');
	fc_rewrite_rows($node, 'postgres', 't', 'second');
	fc_failpoint($control, 'load_read', 'off');
	is(result($session), expected(relations => 1, blocks => 20, blocks_read => 20, loaded => 20),
		'changed, not written: what is on disk is published');
	$control->quit;
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE val = @{[fc_value_sql('second')]}"), PAGES, 'the new rows are read');
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(fc_tag_flash($node, $tag), 0, 'writing the pages takes the old ones off flash');
}

# C3 alone stands between the old page and its readers: the guard is taken when C1 would have come and gone.
foreach my $point (qw(write_before_md write_after_md))
{
	prepare("before $point");
	my $control = fc_control($node);
	fc_failpoint($control, 'load_chosen', 'pause', $tag->{rel});
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 5, last_block => 5)});
	fc_failpoint_wait($control, 'load_chosen');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', "UPDATE t SET val = @{[fc_value_sql('changed')]} WHERE ctid = ANY (ARRAY(SELECT format('(5,%s)', n)::tid FROM generate_series(1, 4) n))");
	fc_failpoint($control, $point, 'pause');
	my $checkpoint = begin($node, 'CHECKPOINT');
	fc_failpoint_wait($control, $point);
	fc_failpoint($control, 'load_chosen', 'off');
	is(result($session), expected(relations => 1, blocks => 1, blocks_read => 1, loaded => 1), "$point: a page is loaded while it is written");
	is($control->query_safe("SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = $tag->{rel} AND relblocknumber = 5"), 1,
		"$point: and is on flash");
	fc_failpoint($control, $point, 'off');
	is(result($checkpoint), '', "$point: it has been written");
	is($control->query_safe("SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = $tag->{rel} AND relblocknumber = 5"), 0,
		"$point: that takes it off flash");
	$control->quit;
	fc_push_out($node, $tag);
	is($node->safe_psql('postgres', "SELECT count(*) FROM t WHERE val = @{[fc_value_sql('changed')]}"), 1, "$point: the new row is read");
}

# ---- pages of a session that has left ----

# The writer has taken the pages of a session that is ended; another one, which gets its place, is half through giving its own:
# their tags are there, their content is not.
{
	prepare('given');
	my $control = fc_control($node);
	fc_failpoint($control, 'load_taken', 'pause');
	my $left = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 1, last_block => 20)});
	fc_failpoint_wait($control, 'load_taken');
	$control->query_safe('SELECT pg_terminate_backend(pid) FROM pg_stat_progress_flashcache_prewarm');
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM pg_stat_progress_flashcache_prewarm') or die 'it does not end';
	fc_failpoint($control, 'load_giving', 'pause');
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 41, last_block => 60)});
	fc_failpoint_wait($control, 'load_giving');
	fc_failpoint($control, 'load_taken', 'off');
	fc_writer_round($node);
	is(fc_tag_flash($node, $tag, 'relblocknumber > 20'), 0, 'the writer does not take what is being given');
	fc_failpoint($control, 'load_giving', 'off');
	is(result($session), expected(relations => 1, blocks => 20, blocks_read => 20, loaded => 20), 'these pages are loaded when they are complete');
	is(fc_tag_flash($node, $tag, 'relblocknumber BETWEEN 41 AND 60'), 20, 'they are on flash');
	$control->quit;
	eval { $left->quit };
	fc_push_out($node, $tag);
	fc_is_read($node, 'postgres', 't', 'given', PAGES, 'all rows are right', 'any');
}

# ---- locks: who drops waits; who is cancelled leaves nothing behind ----

{
	my $dropped = written_table($node, 'dropped', 20);
	my $control = fc_control($node);
	fc_failpoint($control, 'load_read', 'pause', $dropped->{rel});
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('dropped')});
	fc_failpoint_wait($control, 'load_read');
	my $drop = begin($node, 'DROP TABLE dropped');
	wait_until($node, q{EXISTS (SELECT FROM pg_locks WHERE relation = 'dropped'::regclass AND NOT granted)}, 'DROP TABLE waits');
	fc_failpoint($control, 'load_read', 'off');
	is(result($session), expected(relations => 1, blocks => 20, blocks_read => 20, loaded => 20), 'DROP TABLE waits for the end');
	is(result($drop), '', 'and is done');
	$control->quit;
	is(fc_tag_flash($node, $dropped), 0, 'no page of it is left');
}

my $pid = q{(SELECT pid FROM pg_stat_progress_flashcache_prewarm WHERE relid = 't'::regclass)};
{
	prepare('limited');
	set('pg_flashcache.write_limit', '8kB');
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t')});
	wait_until($node, q{EXISTS (SELECT FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit' AND loaded > 1)}, 'the limit');
	is($node->safe_psql('postgres', q{
		SELECT datname, relid::regclass, current_relid::regclass, relations_total, relations_done, blocks_total, blocks_read, skip_exists, skipped,
			blocks_done FROM pg_stat_progress_flashcache_prewarm}), 'postgres|t|t|1|0|100|31|1|0|32', 'progress: one run is with the writer');
	# of another user's session only that it is there
	$node->safe_psql('postgres', 'CREATE ROLE nobody');
	is($node->safe_psql('postgres', q{SET ROLE nobody; SELECT datname, relid, phase, blocks_total FROM pg_stat_progress_flashcache_prewarm}),
		'postgres|||', 'progress: others see less');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	is(result($session), 'canceling statement due to user request', 'it can be cancelled while it waits');
	is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_progress_flashcache_prewarm'), 0, 'progress: it is gone');
	fc_writer_round($node);
	my $loaded = fc_tag_flash($node, $tag);
	fc_writer_round($node);
	is(fc_tag_flash($node, $tag), $loaded, 'the writer does not go on with what it had');
	my %now = fc_stat($node, 'used');
	is($now{used}, $node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_pages'), 'no slot is lost');

	# Four sessions, and no fifth; each can be cancelled alone.
	my @sessions = map { begin($node, q{SELECT * FROM pg_flashcache_prewarm('t', first_block => 40)}) } 1 .. 4;
	wait_until($node, q{count(*) = 4 FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit' AND blocks_done > 0}, 'four sessions');
	my ($status, undef, $error) = $node->psql('postgres', q{SELECT pg_flashcache_prewarm('t')});
	like($error, qr/^psql:<stdin>:1: ERROR:  4 sessions are prewarming the flash cache already\nHINT:  Wait for one of them, or cancel it/, 'a fifth is refused');
	$node->safe_psql('postgres', 'SELECT pg_cancel_backend(pid) FROM pg_stat_progress_flashcache_prewarm');
	is(result($_), 'canceling statement due to user request', 'cancelled') foreach @sessions;

	# The cache goes away meanwhile.
	$session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t')});
	wait_until($node, q{EXISTS (SELECT FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit')}, 'the limit');
	$node->safe_psql('postgres', q{ALTER SYSTEM SET pg_flashcache.enabled = off});
	$node->reload;
	like(result($session), qr/^the flash cache cannot be prewarmed while it is disabled/, 'it ends when the cache is switched off');
	$node->safe_psql('postgres', q{ALTER SYSTEM RESET pg_flashcache.enabled; ALTER SYSTEM SET pg_flashcache.write_limit = 0});
	$node->reload;
	fc_wait_active($node);

	is_prewarmed(q{'t', last_block => 9}, 'some pages', blocks => 10, blocks_read => 10, loaded => 10);
	is_prewarmed(q{'t'}, 'whoever was interrupted asks again', blocks => PAGES, blocks_read => PAGES - 10, loaded => PAGES - 10, skip_exists => 10);
	fc_push_out($node, $tag);
	fc_is_read($node, 'postgres', 't', 'limited', PAGES, 'all of it is on flash');
}

# With persistence: nobody writes the log of a cache that is switched off, although a session has asked for more.
{
	my $first = $node;
	$node = fc_new_node('kept', size => '8MB', conf => "pg_flashcache.persistence = on\nbgwriter_lru_maxpages = 0\n");
	fc_everywhere($node);
	written_table($node, 't', PAGES);
	written_table($node, 'u', PAGES);
	prewarm(q{'t'});
	set('pg_flashcache.write_limit', '8kB');
	my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('u')});
	wait_until($node, q{EXISTS (SELECT FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit')}, 'the limit');
	$node->safe_psql('postgres', 'ALTER SYSTEM SET pg_flashcache.enabled = off');
	$node->reload;
	like(result($session), qr/^the flash cache cannot be prewarmed while it is disabled/, 'with persistence, too');
	wait_until($node, q{NOT writing FROM pg_stat_flashcache_persistence}, 'the log ends');
	my %trouble = fc_stat($node, qw(write_errors read_errors switch_offs));
	is_deeply(\%trouble, { write_errors => 0, read_errors => 0, switch_offs => 0 }, 'no write is tried');
	unlike(slurp_file($node->logfile), qr/no longer writes its log/, 'and the log is not given up');
	$node->stop;
	$node = $first;
}

# ---- faults of the device ----

{
	prepare('faults');
	my $control = fc_control($node);
	fc_failpoint($control, 'store_write', 'error');
	is_prewarmed(q{'t', first_block => 1, last_block => 20}, 'pages that cannot be written are counted', blocks => 20, blocks_read => 20, skip_write_error => 20);
	fc_failpoint($control, 'store_write', 'off');
	$control->quit;
	is_prewarmed(q{'t', first_block => 1, last_block => 20}, 'and can be loaded later', blocks => 20, blocks_read => 20, loaded => 20);
	is($node->safe_psql('postgres', 'SELECT used - (SELECT count(*) FROM pg_flashcache_pages) FROM pg_stat_flashcache'), 0, 'no slot is lost');
}

# ---- how it shares flash with others ----

{
	my $hot = written_table($node, 'hot', SLOTS - 24);
	my $more = written_table($node, 'more', PAGES);
	restart_cold($node);
	is_prewarmed(q{'hot'}, 'nearly all slots are taken', blocks => SLOTS - 24, blocks_read => SLOTS - 24, loaded => SLOTS - 24);
	fc_fetch($node, 'postgres', 'hot', 500);
	is(fc_tag_flash($node, $hot, 'refcount > 0'), 500, 'half of the pages were hit');

	# One run more has been read when the writer tells that there is no room.
	my %moved = fc_delta($node, sub {
		is_prewarmed(q{'more'}, 'free slots are taken, and no others', blocks => PAGES, blocks_read => 2 * RUN, loaded => 24, skip_no_room => PAGES - 24);
	}, qw(eviction_aged_out));
	is_deeply(\%moved, { eviction_aged_out => 0 }, 'no page had to go');
	is(fc_tag_flash($node, $hot), SLOTS - 24, 'all pages are still there');

	%moved = fc_delta($node, sub {
		is_prewarmed(q{'more', replace => true}, 'on request, pages that nobody wanted go for it',
			blocks => PAGES, blocks_read => PAGES - 24, loaded => PAGES - 24, skip_exists => 24);
	}, qw(eviction_aged_out));
	is_deeply(\%moved, { eviction_aged_out => PAGES - 24 }, 'one for each');
	is(fc_tag_flash($node, $hot, 'refcount > 0'), 500, 'none of those that were hit');
	is(fc_tag_flash($node, $more), PAGES, 'all are there');

	# More than there is room for: once round, and the pages that were hit stay.
	my $huge = written_table($node, 'huge', 2 * SLOTS);
	restart_cold($node);
	is_prewarmed(q{'hot'}, 'again', blocks => SLOTS - 24, blocks_read => SLOTS - 24, loaded => SLOTS - 24);
	fc_fetch($node, 'postgres', 'hot', 500);
	my $room = SLOTS - 500;
	my $run  = RUN * (int(($room - 1) / RUN) + 2);
	is_prewarmed(q{'huge', replace => true}, 'a table that is larger than flash', blocks => 2 * SLOTS, blocks_read => $run, loaded => $room,
		skip_no_room => 2 * SLOTS - $room);
	is(fc_tag_flash($node, $hot, 'refcount > 0'), 500, 'pages that were hit are still there');
	is(fc_tag_flash($node, $huge, "relblocknumber < $room"), $room, 'its first blocks are there');
}

# ---- a writer that gets no more memory ----

SKIP:
{
	skip 'no prlimit', 3 if system('prlimit --version >/dev/null 2>&1') != 0;
	my $writer   = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $segments = sub { return scalar map { glob } $node->data_dir . '/pg_dynshmem/mmap.*' };
	my $before   = $segments->();
	my ($has)    = slurp_file("/proc/$writer/status") =~ /^VmSize:\s+(\d+) kB/m;

	system('prlimit', "--pid=$writer", '--as=' . ($has + 64) * 1024 . ':') == 0 or die 'prlimit';
	my ($rc, undef, $stderr) = $node->psql('postgres', q{SELECT pg_flashcache_prewarm('t')});
	like($stderr, qr/ERROR:  the pg_flashcache writer could not attach to shared memory/, 'no memory for the writer: an error says so');
	system('prlimit', "--pid=$writer", '--as=unlimited:') == 0 or die 'prlimit';
	prewarm(q{'t'});
	fc_writer_round($node);
	is($segments->(), $before, 'no memory for the writer: no segment stays');
	is($node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache'), $writer, 'no memory for the writer: it is the same one');
}

# ---- a standby ----

{
	$node->safe_psql('postgres', 'DROP TABLE hot, more, huge');
	my $standby = fc_new_standby('standby', $node, size => '8MB', buffers => '4MB', conf => 'zero_damaged_pages = on');
	fc_replayed($node, $standby);
	is($standby->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('t')}),
		expected(relations => 1, blocks => PAGES, blocks_read => PAGES, loaded => PAGES), 'a standby loads from its own files');
	fc_rewrite_rows($node, 'postgres', 't', 'on the primary');
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_replayed($node, $standby);
	$standby->safe_psql('postgres', 'CHECKPOINT');
	is(fc_tag_flash($standby, $tag), 0, 'what is replayed takes the pages off flash');
	is($standby->safe_psql('postgres', q{SELECT * FROM pg_flashcache_prewarm('t')}),
		expected(relations => 1, blocks => PAGES, blocks_read => PAGES, loaded => PAGES), 'and the new ones can be loaded');
	is($standby->safe_psql('postgres', "SELECT count(*) FROM t WHERE val = @{[fc_value_sql('on the primary')]}"), PAGES, 'the rows are the new ones');
	fc_is_clean($standby);
}

done_testing();

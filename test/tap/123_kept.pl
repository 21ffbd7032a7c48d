# A cache that went off and comes back on the same device has its pages, but for those that changed meanwhile. On another
# device, or on one whose content is doubtful, it is empty.
#
# Fails without: fc_cache_purge_unless() ("kept"); is_same_device() ("forgotten"); the invalidation in every state
# ("changed"); the sweep of a cache that is off ("dropped"); H5 ("write hung"); the trial on free slots ("kept", exactly).

use strict;
use warnings;

use File::Copy;
use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# More slots than pages in use: none makes room for another. Without verify no hit reads the disk; it is on at the end.
my $node = fc_new_node('main', size => '8MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\npg_flashcache.verify = off\npg_flashcache.io_timeout = '2s'\n");
my $file    = fc_flash_file($node);
my $bounded = fc_reads_ahead();
my $all     = '10 rows, 10 hits, 0 misses, 0 disk reads';
my $none    = '10 rows, 0 hits, 10 misses, 10 disk reads';

$node->safe_psql('postgres', q{
	CREATE TABLE t (id int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, repeat('x', 5000) FROM generate_series(1, 10) n;
	CREATE TABLE w AS SELECT 1 AS n;
	CREATE UNLOGGED TABLE uncached (v text);
	ALTER TABLE uncached ALTER v SET STORAGE PLAIN;
	INSERT INTO uncached SELECT repeat('x', 5000) FROM generate_series(1, 1024);
	CREATE FUNCTION evict() RETURNS text AS $$
	BEGIN
		FOR i IN 1 .. 50 LOOP
			IF NOT EXISTS (SELECT FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0) THEN
				RETURN 'evicted';
			END IF;
			PERFORM (SELECT v FROM uncached WHERE ctid = format('(%s,1)', b)::tid) FROM generate_series(0, 1023) b;
		END LOOP;
		RAISE 't is still in shared buffers';
	END $$ LANGUAGE plpgsql;
	-- Reads t, the last page first, which is no stream. In the first round it asks for pages behind the end, which reads
	-- none: everything but t is in the session and in shared buffers then.
	CREATE FUNCTION measure() RETURNS text AS $$
	DECLARE
		pages int := pg_relation_size('t') / 8192;
		a record;
		b record;
		there int;
		rows int;
	BEGIN
		FOR i IN 1 .. 2 LOOP
			rows := 0;
			SELECT * INTO a FROM pg_flashcache_stat();
			FOR blk IN REVERSE pages - 1 .. 0 LOOP
				EXECUTE format('SELECT count(*) FROM t WHERE ctid = ''(%s,1)'' AND length(v) = 5000', CASE i WHEN 1 THEN pages + blk ELSE blk END)
				INTO there;
				rows := rows + there;
			END LOOP;
			SELECT * INTO b FROM pg_flashcache_stat();
		END LOOP;
		RETURN format('%s rows, %s hits, %s misses, %s disk reads', rows, b.hits - a.hits, b.misses - a.misses,
			b.disk_reads - a.disk_reads);
	END $$ LANGUAGE plpgsql;
	VACUUM ANALYZE;
	-- what ANALYZE has left to be pruned by whoever reads it next
	VACUUM;
});

# What reading t takes, when no page of it is in shared buffers.
sub measure
{
	return (split /\n/, $node->safe_psql('postgres', 'SELECT evict(); SELECT measure()'))[1];
}

sub reload
{
	my (%setting) = @_;
	$node->append_conf('postgresql.conf', join '', map { "pg_flashcache.$_ = $setting{$_}\n" } sort keys %setting);
	$node->reload;
	return;
}

sub read_t
{
	is($node->safe_psql('postgres', 'SELECT count(v) FROM t'), '10', 'the query is answered');
	return;
}

# Off by reads that fail, and it stays so until it is asked for. Its pages are counted while it is off.
my %off;

sub go_off
{
	my ($fault) = @_;

	fc_to_flash($node, 't');
	is(measure(), $all, 'all pages are on flash');
	$node->safe_psql('postgres', 'SELECT evict()');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', $fault // 'error');
	read_t();
	fc_wait_state($node, 'off');
	fc_failpoint($node, 'store_read', 'off');
	%off = fc_stat($node, qw(used eviction_invalidated eviction_aged_out));
	return;
}

# What is in shared buffers must not come to flash anew when it is on.
sub go_on
{
	$node->safe_psql('postgres', 'SELECT evict()');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'on again');
	fc_wait_active($node);
	fc_failpoint($node, 'probe_due', 'off');
	return;
}

sub is_kept
{
	my ($what, $on) = @_;

	go_on() if !$on;
	my %on = fc_stat($node, keys %off);
	# pages that the last statements have read may be filled meanwhile
	my $more = $on{used} - $off{used};
	cmp_ok($more, '>=', 0, "$what: no fewer pages");
	is_deeply({ %on, used => $on{used} - $more }, \%off, "$what: no page is lost");
	is(measure(), $all, "$what: kept");
	return;
}

sub is_forgotten
{
	my ($what) = @_;

	cmp_ok($off{used}, '>=', 10, "$what: there is something to forget");
	go_on();
	my %on = fc_stat($node, keys %off);
	is($on{eviction_invalidated} - $off{eviction_invalidated}, $off{used}, "$what: every page goes");
	is(measure(), $none, "$what: forgotten");
	return;
}

# ---- the same device ----

{
	my $offset = -s $node->logfile;

	go_off();
	is_kept('reads fail');
	$node->wait_for_log(qr/LOG:  pg_flashcache is active: .*\n.*DETAIL:  It has kept $off{used} pages\./, $offset);
}

# A session that turned away gets its answer when the cache is on again; into memory of its own.
SKIP:
{
	skip 'no io_uring here: nobody can turn away from a device', 13 if !$bounded;

	go_off('delay:5000000');
	is(fc_view($node), 'off|the flash device did not answer for 2000 ms|interception', 'read hung: off');
	is_kept('read hung');

	# A write that arrives when everybody has turned away. The writer does not go on before that, and its slot is nobody's.
	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_write', 'delay:6000000');
	$node->safe_psql('postgres', 'UPDATE w SET n = n + 1');
	fc_evict($node, 'w');
	fc_wait_state($node, 'off');
	fc_failpoint($node, 'store_write', 'off');
	is(fc_in_flash($node, 'w'), 0, 'write hung: the page is not taken for written');
	$node->safe_psql('postgres', 'SELECT evict()');
	%off = fc_stat($node, keys %off);
	my ($rc) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	is($rc, 3, 'write hung: not back before the write has ended');
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		($rc) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
		last if $rc == 0;
	}
	is($rc, 0, 'write hung: it has ended');
	is_kept('write hung', 1);
	fc_failpoint($node, 'probe_due', 'off');
}

# Attempts that fail in between lose nothing either.
{
	go_off();
	fc_failpoint($node, 'store_open', 'error');
	for (1 .. 2)
	{
		my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
		like($stderr, qr/could not be enabled: could not open "\Q$file\E"/, 'cannot be opened');
	}
	fc_failpoint($node, 'store_open', 'off');
	fc_failpoint($node, 'store_write', 'error');
	my (undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/could not be enabled: a page could not be written to the flash device/, 'the trial fails');
	fc_failpoint($node, 'store_write', 'off');
	is_kept('after attempts that failed');
}

# The file is away for a while, as when its file system is unmounted.
{
	fc_to_flash($node, 't');
	$node->safe_psql('postgres', 'SELECT evict()');
	fc_failpoint($node, 'probe_due', 'error');
	rename $file, "$file.away" or die $!;
	read_t();
	is(fc_view($node), qq{off|could not open "$file": No such file or directory|interception}, 'away: off');
	%off = fc_stat($node, keys %off);
	rename "$file.away", $file or die $!;
	is_kept('away and back');
}

# Another writer.
{
	go_off();
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $writer or die $!;
	ok($node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache"), 'another writer');
	is_kept('another writer');
}

# ---- what changed meanwhile ----

{
	$node->safe_psql('postgres', q{CREATE TABLE d AS SELECT n, repeat('x', 2000) FROM generate_series(1, 20) n; VACUUM d});
	my $pages = fc_to_flash($node, 'd');
	go_off();
	# The row moves to a page of its own at the end: two pages change.
	$node->safe_psql('postgres', q{UPDATE t SET v = repeat('y', 5000) WHERE ctid = '(3,1)'});
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->safe_psql('postgres', 'DROP TABLE d');
	# The view of the pages has no dead entries; those that a sweep has not freed yet are in use.
	ok($node->poll_query_until('postgres', 'SELECT used = (SELECT count(*) FROM pg_flashcache_pages) FROM pg_stat_flashcache'),
		'dropped: its slots become free while the cache is off');
	cmp_ok($node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache'), '<=', $off{used} - $pages - 1, 'dropped and changed: all of them');
	go_on();
	is(measure(), '10 rows, 9 hits, 2 misses, 2 disk reads', 'changed: from disk, all others from flash');
	is($node->safe_psql('postgres', q{SELECT count(*) FROM t WHERE v LIKE 'y%'}), 1, 'changed: the row is that of now');
	$node->safe_psql('postgres', q{VACUUM FULL t});
}

# ---- another device ----

sub spoil
{
	my ($where, $bytes) = @_;
	open my $fh, '+<:raw', $file or die $!;
	seek $fh, $where, 0;
	print $fh $bytes;
	close $fh or die $!;
	return;
}

# The header of another opening, valid all the same: what decides is its identity, behind what is checked.
go_off();
spoil(36, 'another identity');
is_forgotten('another header');

go_off();
copy($file, "$file.copy") or die $!;
chmod 0600, "$file.copy";
rename "$file.copy", $file or die $!;
is_forgotten('another file with the same content');

go_off();
truncate $file, (-s $file) - 8192 or die $!;
is_forgotten('a file that was shortened');

# ---- the same device, but nothing on it can be believed ----

{
	$node->safe_psql('postgres', q{
		CREATE TABLE large (v text);
		ALTER TABLE large ALTER v SET STORAGE PLAIN;
		INSERT INTO large SELECT repeat('x', 5000) FROM generate_series(1, 40);
	});
	fc_to_flash($node, $_) foreach 'large', 't';
	$node->safe_psql('postgres', 'SELECT evict()');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', 'flip');
	is($node->safe_psql('postgres', 'SELECT count(v) FROM large'), 40, 'wrong content: the query is answered');
	fc_wait_state($node, 'off');
	fc_failpoint($node, 'store_read', 'off');
	like(fc_view($node), qr/^off\|the flash device returned wrong content for 16 pages in a row/, 'wrong content: off');
	%off = fc_stat($node, keys %off);
	is_forgotten('wrong content');
}

# Who switches it off by the setting wants it to be empty.
{
	fc_to_flash($node, 't');
	reload(enabled => 'off');
	fc_wait_state($node, 'disabled');
	reload(enabled => 'on');
	fc_wait_active($node);
	is(measure(), $none, 'disabled: forgotten');
}

# ---- a cache that is full gives up 16 pages for the trial ----

{
	reload(enabled => 'off');
	$node->stop;
	my $full = fc_new_node('full', size => '512kB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");

	$full->safe_psql('postgres', q{
		CREATE TABLE t (v text);
		ALTER TABLE t ALTER v SET STORAGE PLAIN;
		INSERT INTO t SELECT repeat('x', 5000) FROM generate_series(1, 200);
		VACUUM t;
		CHECKPOINT;
	});
	# It goes off when nothing is read, lest a fill be under way, whose slots become free then. Only a cache that is full now
	# is of interest; a page of the catalogs may have changed.
	my $flash = fc_flash_file($full);
	my %before;
	fc_failpoint($full, 'probe_due', 'error');
	for (1 .. 20)
	{
		$full->safe_psql('postgres', q{SELECT count((SELECT v FROM t WHERE ctid = format('(%s,1)', 199 - b)::tid)) FROM generate_series(0, 199) b});
		fc_evict_all($full);
		fc_writer_round($full);
		next if $full->safe_psql('postgres', 'SELECT used <> slots FROM pg_stat_flashcache') eq 't';
		rename $flash, "$flash.away" or die $!;
		my $writer = $full->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
		kill 'TERM', $writer or die $!;
		fc_wait_state($full, 'off');
		rename "$flash.away", $flash or die $!;
		%before = fc_stat($full, qw(used slots eviction_aged_out));
		last if $before{used} == $before{slots};
		$full->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
	}
	is($before{used}, $before{slots}, 'full: every slot is in use');
	is($full->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'full: on again');
	like(slurp_file($full->logfile), qr/DETAIL:  It has kept @{[ $before{slots} - 16 ]} pages\./, 'full: 16 pages made room');
	$full->stop;
}

done_testing();

# What the cache takes and what it answers: admission, the write budget, the kernel's page cache, scans through buffer
# rings, and sessions that ignore damage.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

# Many more slots than pages in use.
my $node = fc_new_node('main', size => '32MB', conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
my $ring = 128 / 8;    # a buffer ring has at most an eighth of shared_buffers

$node->safe_psql('postgres', q{
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n || repeat('x', 5000) FROM generate_series(1, 10) n;
	-- the counters' moves while the pages of t are read, last one first; of two rounds the second one counts
	CREATE FUNCTION measure(OUT hits bigint, OUT misses bigint, OUT os_cache_hits bigint, OUT stream_reads bigint) AS $$
	DECLARE
		a record;
		b record;
	BEGIN
		SELECT * INTO a FROM pg_flashcache_stat();
		FOR blk IN REVERSE 9 .. 0 LOOP
			PERFORM 1 FROM t WHERE ctid = format('(%s,1)', blk)::tid;
		END LOOP;
		SELECT * INTO b FROM pg_flashcache_stat();
		hits := b.hits - a.hits;
		misses := b.misses - a.misses;
		os_cache_hits := b.os_cache_hits - a.os_cache_hits;
		stream_reads := b.stream_reads - a.stream_reads;
	END $$ LANGUAGE plpgsql;
	-- more pages than shared buffers, so that reading all of them evicts them, and nothing but them is read from disk
	CREATE TABLE large (v text);
	ALTER TABLE large ALTER v SET STORAGE PLAIN;
	INSERT INTO large SELECT repeat('x', 5000) FROM generate_series(1, 400);
	-- what the view says of that, last page first; of two rounds the second one counts
	CREATE FUNCTION judge() RETURNS text AS $$
	DECLARE
		answer text;
	BEGIN
		FOR i IN 1 .. 2 LOOP
			PERFORM pg_flashcache_reset_stats();
			FOR blk IN REVERSE 399 .. 0 LOOP
				PERFORM 1 FROM large WHERE ctid = format('(%s,1)', blk)::tid;
			END LOOP;
			SELECT format('%s: %s hits, %s misses that the page cache did not answer', verdict, hits, misses - os_cache_hits)
			INTO answer FROM pg_stat_flashcache;
		END LOOP;
		RETURN answer;
	END $$ LANGUAGE plpgsql;
	CREATE FUNCTION in_buffers() RETURNS bigint AS $$
		SELECT count(*) FROM pg_buffercache WHERE relfilenode = pg_relation_filenode('t') AND relforknumber = 0
	$$ LANGUAGE sql;
	CREATE TABLE other AS SELECT n FROM generate_series(1, 1) n;
	CREATE UNLOGGED TABLE uncached (v text);
	ALTER TABLE uncached ALTER v SET STORAGE PLAIN;
	INSERT INTO uncached SELECT repeat('x', 5000) FROM generate_series(1, 1024);
	CREATE FUNCTION evict() RETURNS void AS $$
	BEGIN
		FOR i IN 1 .. 50 LOOP
			EXIT WHEN in_buffers() = 0;
			PERFORM (SELECT v FROM uncached WHERE ctid = format('(%s,1)', b)::tid) FROM generate_series(0, 1023) b;
		END LOOP;
	END $$ LANGUAGE plpgsql;
});

sub set
{
	my (%setting) = @_;
	$node->append_conf('postgresql.conf', join '', map { "pg_flashcache.$_ = $setting{$_}\n" } sort keys %setting);
	$node->reload;
	# The writer has read the file once it has answered twice.
	$node->safe_psql('postgres', 'SELECT pg_flashcache_enable(), pg_flashcache_enable()') if ($setting{enabled} // '') eq '';
	return;
}

# An empty cache.
sub purge
{
	set(enabled => 'off');
	fc_wait_state($node, 'disabled');
	set(enabled => 'on');
	fc_wait_state($node, 'active');
	return;
}

# The second reading in one session; everything but the pages of t is in the session by then.
sub measure
{
	return (split /\n/, $node->safe_psql('postgres', 'SELECT evict(), measure() IS NULL; SELECT evict(); SELECT * FROM measure()'))[-1];
}

# The page cache: what the kernel holds is read from there. (That a kernel without the call is noticed cannot be tested here.)
SKIP:
{
	fc_to_flash($node, $_) foreach 'large', 't';
	set(verify => 'off');
	is(measure(), '10|0|0|0', 'probe off: all pages from flash');

	# Asked about a file of our own: the kernel tells nobody about other people's.
	my $own   = $node->data_dir . '/PG_VERSION';
	my $known = system('python3', '-c', <<'END', $own) == 0;
import ctypes, os, sys
asked = (ctypes.c_uint64 * 2)(0, 4096)
answer = (ctypes.c_uint64 * 5)()
sys.exit(ctypes.CDLL(None).syscall(451, os.open(sys.argv[1], os.O_RDONLY), asked, answer, 0) != 0)
END
	skip 'this kernel has no cachestat(2)', 3 if !$known;

	$node->safe_psql('postgres', 'SELECT count(*) FROM t');
	set(os_cache_probe => 'auto');
	is(measure(), '0|10|10|0', 'probe auto: all pages from the page cache');
	# Whatever else is read is a miss as well, and then it is a matter of times: hence no other tables, and one session.
	is($node->safe_psql('postgres', 'SELECT judge()'), 'the page cache answers: 0 hits, 0 misses that the page cache did not answer',
		'probe auto: the verdict');
	set(os_cache_probe => 'off');
	is(measure(), '10|0|0|0', 'probe off again: all pages from flash');
}

# Pages that flash never holds are read from the disk: that is no reason to wait for hits.
{
	my ($before, $after) = (split /\n/, $node->safe_psql('postgres', q{
		SET temp_buffers = 100;
		CREATE TEMP TABLE mine (LIKE uncached INCLUDING STORAGE);
		INSERT INTO mine TABLE uncached;
		SELECT count(v) FROM mine;
		SELECT verdict IS NOT NULL FROM pg_stat_flashcache;
		SELECT pg_flashcache_reset_stats();
		SELECT verdict FROM pg_stat_flashcache;
		SELECT count(v) FROM mine;
		SELECT verdict FROM pg_stat_flashcache;
	}))[-3, -1];

	is($before, 'no reads', 'temporary table: the verdict before it is read');
	is($after, 'nothing to take', 'temporary table: the verdict');
}

# Which is faster is a matter of all reads, those that the page cache answered included. Under verify each hit measures both.
{
	my $read = q{SELECT count((SELECT v FROM many WHERE ctid = format('(%s,1)', 79 - b)::tid)) FROM generate_series(0, 79) b};

	set(verify => 'on');
	$node->safe_psql('postgres', q{
		CREATE TABLE many (v text);
		ALTER TABLE many ALTER v SET STORAGE PLAIN;
		INSERT INTO many SELECT repeat('x', 5000) FROM generate_series(1, 80);
	});
	foreach my $case (
		[ 'useful',                 disk_read  => 10000 ],
		[ 'the page cache answers', store_read => 5000 ],
		[ 'flash is not faster',    store_read => 5000, disk_read => 1000 ])
	{
		my ($verdict, %delay) = @$case;
		my $is;

		# Means remember what was before, and what a busy machine does.
		for (1 .. 10)
		{
			fc_to_flash($node, 'many');
			$node->safe_psql('postgres', 'SELECT pg_flashcache_reset_stats()');
			fc_failpoint($node, $_, "delay:$delay{$_}") foreach sort keys %delay;
			$node->safe_psql('postgres', $read);
			$is = $node->safe_psql('postgres', 'SELECT verdict FROM pg_stat_flashcache');
			fc_failpoint($node, $_, 'off') foreach sort keys %delay;
			last if $is eq $verdict;
		}
		is($is, $verdict, 'verdict: where it takes long to read ' . join(' and ', sort keys %delay));
	}
	$node->safe_psql('postgres', 'DROP TABLE many');
}

# The writer is stopped, so it cannot change the state: sessions obey the setting themselves, and still invalidate.
{
	my $session = $node->background_psql('postgres');
	my $read    = sub { $session->query_safe('SELECT evict()'); return $session->query_safe('SELECT * FROM measure()') };
	my $enable  = sub {
		my ($value) = @_;
		$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $value\n");
		$node->reload;
		1 until $session->query_safe('SHOW pg_flashcache.enabled') eq $value;
	};
	my $offset = -s $node->logfile;

	fc_to_flash($node, 't');
	$read->();
	is($read->(), '10|0|0|0', 'writer stopped: all pages from flash before');
	my $writer = $session->query_safe('SELECT writer_pid FROM pg_stat_flashcache');
	kill 'STOP', $writer or die $!;
	$enable->('off');
	is($read->(), '0|0|0|0', 'writer stopped, enabled = off: none from flash');
	is($session->query_safe('SELECT state FROM pg_stat_flashcache'), 'active', 'writer stopped, enabled = off: nobody else has seen to it');
	$session->query_safe($_) foreach 'BEGIN', q{SELECT 1 FROM t WHERE ctid = '(4,1)' FOR UPDATE}, 'ROLLBACK', 'CHECKPOINT';
	$enable->('on');
	is($read->(), '9|1|0|0', 'writer stopped, on again: all from flash but the page that was modified');
	kill 'CONT', $writer or die $!;
	$session->quit;
	purge();
	$node->wait_for_log(qr/LOG:  pg_flashcache is disabled: pg_flashcache\.enabled is off\n/, $offset);
	is({ fc_stat($node, 'verify_failures') }->{verify_failures}, 0, 'writer stopped: nothing stale');
}

# reuse: a page is taken the second time it is evicted.
{
	set(admission => 'reuse');
	$node->safe_psql('postgres', 'VACUUM t');
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_evict($node, 't');
	purge();
	# One session, one eviction.
	my %skip = fc_stat($node, 'insert_skip_not_useful');
	$node->safe_psql('postgres', 'SELECT count(*) FROM t; SELECT evict()');
	is(fc_in_flash($node, 't'), 0, 'reuse: the first eviction is not taken');
	my %later = fc_stat($node, 'insert_skip_not_useful');
	cmp_ok($later{insert_skip_not_useful} - $skip{insert_skip_not_useful}, '>=', 10, 'reuse: but counted');
	is(fc_to_flash($node, 't'), 10, 'reuse: later ones are');
	set(admission => 'all');
}

# The write budget: one megabyte a second, and one second's worth saved up. However slow the machine is, no more than
# that may have been written.
{
	set(write_limit => '1MB');
	is($node->safe_psql('postgres', 'SHOW pg_flashcache.write_limit'), '1MB', 'write_limit: takes a unit');
	$node->safe_psql('postgres', q{
		CREATE TABLE flood (v text);
		ALTER TABLE flood ALTER v SET STORAGE PLAIN;
		INSERT INTO flood SELECT repeat('x', 5000) FROM generate_series(1, 1000);
		VACUUM flood;
	});
	my $began  = time;
	my %before = fc_stat($node, 'write_bytes', 'insert_skip_write_limit');
	$node->safe_psql('postgres', "SELECT count((SELECT v FROM flood WHERE ctid = format('(%s,1)', b)::tid)) FROM generate_series(0, 999) b");
	my %after   = fc_stat($node, 'write_bytes', 'insert_skip_write_limit');
	my $seconds = time - $began;
	cmp_ok($after{write_bytes} - $before{write_bytes}, '<=', (1 + $seconds) * 1024 * 1024, 'write_limit: kept');
	set(write_limit => 0);
}

# Rings. Hint bits are set before, lest a scan makes pages dirty and leaves them to the clock. A buffer of the ring that is
# pinned, as by the cache's writer, is left to the clock, too, and replaced: hence two rings of 600 pages, not one.
{
	my $file = $node->basedir . '/rows';

	open my $fh, '>', $file or die $!;
	print $fh ('x' x 5000) . "\n" for 1 .. 600;
	close $fh;
	$node->safe_psql('postgres', q{CREATE TABLE big (v text); ALTER TABLE big ALTER v SET STORAGE PLAIN});
	$node->safe_psql('postgres', "COPY big FROM '$file'");
	fc_evict_all($node);
	cmp_ok(fc_in_flash($node, 'big'), '<=', 2 * $ring, 'COPY leaves no more than a ring or two');
	$node->safe_psql('postgres', 'VACUUM big');
	$node->safe_psql('postgres', 'CHECKPOINT');
	foreach my $scan ('SELECT count(v) FROM big', 'VACUUM (DISABLE_PAGE_SKIPPING) big', 'ANALYZE big')
	{
		fc_evict($node, 'big');
		purge();
		$node->safe_psql('postgres', $scan);
		fc_evict_all($node);
		cmp_ok(fc_in_flash($node, 'big'), '<=', 2 * $ring, "$scan: no more than a ring or two");
	}
}

# A session that ignores checksum failures brings a damaged page into shared buffers. From then on nothing is taken from
# there.
{
	my $file = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('other')});

	# Hint bits first: writing them would give the damaged page a new checksum.
	$node->safe_psql('postgres', 'SELECT n FROM other');
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_evict($node, 'other');
	purge();
	$node->safe_psql('postgres', 'SELECT count(*) FROM t');
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek $fh, 4000, 0;
	print $fh 'damage';
	close $fh;
	my (%none) = fc_stat($node, 'insert_skip_corrupt');
	is($none{insert_skip_corrupt}, 0, 'damage: none so far');
	my ($out, $err);
	$node->psql('postgres', 'SET ignore_checksum_failure = on; SELECT n FROM other', stdout => \$out, stderr => \$err);
	is($out, 1, 'damage: ignored by the session');
	like($err, qr/WARNING:  (page verification failed|ignoring checksum failure)/, 'damage: and seen');
	my %before = fc_stat($node, 'inserts');
	my %after;
	$node->safe_psql('postgres', q{CREATE TABLE fresh AS SELECT repeat('x', 1000) FROM generate_series(1, 200)});
	$node->safe_psql('postgres', 'CHECKPOINT');
	# The writer may lose a candidate to the clock hand.
	for (1 .. 20)
	{
		fc_evict($node, $_) foreach 'fresh', 'other';
		%after = fc_stat($node, 'inserts', 'insert_skip_corrupt');
		last if $after{insert_skip_corrupt} > 0;
		$node->safe_psql('postgres', q{SELECT count(*) FROM fresh});
	}
	is($after{inserts}, $before{inserts}, 'damage: nothing is taken any more');
	is(fc_in_flash($node, $_), 0, "damage: no page of $_") foreach 'fresh', 'other';
	cmp_ok($after{insert_skip_corrupt}, '>', 0, 'damage: counted');
	my ($rc) = $node->psql('postgres', 'SELECT n FROM other');
	is($rc, 3, 'damage: found by who reads the page from disk');
}

# Disabled from the start: the log says so.
{
	my $offset = -s $node->logfile;

	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = off\n");
	$node->restart;
	fc_wait_state($node, 'disabled');
	ok($node->wait_for_log(qr/LOG:  pg_flashcache is disabled: pg_flashcache\.enabled is off\n/, $offset),
		'disabled at start: the log says so');
}

$node->stop;
done_testing();

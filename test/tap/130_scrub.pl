# pg_flashcache_scrub(): what the file holds of pages that are gone, and that it does not afterwards.
#
# Fails without the budget of its own (fc_cache_share_budget()): "pages are loaded beside a scrub".
#
# The tests read the file itself. Each sees a string there first, and only then that it is gone. While exact numbers are
# asked for, the server fills nothing: zero_damaged_pages is on, under which the writer takes no page.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use Fcntl qw(:flock);
use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

use constant { SLOTS => 1024, PAGES => 20, HEADER => 65536 };

my $node = fc_new_node(
	'main',
	size      => '8MB',
	streaming => 1,
	conf      => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nmax_logical_replication_workers = 0\n");
my $file = fc_flash_file($node);
fc_everywhere($node);

# How many of the values of a table are to be found in the file.
sub in_file
{
	my ($label, $path) = @_;
	my $content = slurp_file($path // $file);
	my @values = split /\n/, $node->safe_psql('postgres', "SELECT md5('$label ' || id) FROM generate_series(1, @{[PAGES]}) id");
	return scalar grep { index($content, $_) >= 0 } @values;
}

# Makes the writer fill the cache, or not, and returns when it knows. It answers at the beginning of a round.
sub filling
{
	my ($on) = @_;
	$node->append_conf('postgresql.conf', 'zero_damaged_pages = ' . ($on ? 'off' : 'on'));
	$node->reload;
	$node->poll_query_until('postgres', "SELECT setting = '" . ($on ? 'off' : 'on') . "' FROM pg_settings WHERE name = 'zero_damaged_pages'")
	  or die;
	fc_writer_round($node);
	return;
}

# Pages that are cached: entries of dropped relations are not among them.
sub cached
{
	return $node->safe_psql('postgres', 'SELECT count(*) FROM pg_flashcache_pages');
}

sub scrub
{
	my ($arguments) = @_;
	return $node->safe_psql('postgres', 'SELECT * FROM pg_flashcache_scrub(' . ($arguments // '') . ')');
}

# A table in flash with values of its own.
sub table_in_flash
{
	my ($label, $database) = @_;
	$database //= 'postgres';
	fc_table($node, $database, $label, $label, PAGES);
	fc_warm($node, undef, $database, $label);
	return;
}

# Slots of the file that hold anything but zeros.
sub written_slots
{
	my $content = slurp_file($file);
	return scalar grep { substr($content, HEADER + $_ * 8192, 8192) =~ /[^\0]/ } 0 .. SLOTS - 1;
}

sub fc_stat_one
{
	my ($name) = @_;
	my %value = fc_stat($node, $name);
	return $value{$name};
}

# ---- what lingers, and goes ----

$node->safe_psql('postgres', 'CREATE DATABASE gone');    # many pages, which push others out
table_in_flash('kept');
my $kept = fc_tag($node, 'postgres', 'kept');
{
	table_in_flash('dropped');
	table_in_flash('truncated');
	table_in_flash('changed');
	table_in_flash('elsewhere', 'gone');

	filling(0);
	$node->safe_psql('postgres', 'DROP TABLE dropped; TRUNCATE truncated');
	$node->safe_psql('postgres', 'DROP DATABASE gone');
	# With one row a page, VACUUM moves the new one over the old; that this is an exception is shown below.
	fc_rewrite_rows($node, 'postgres', 'changed', 'newer');
	$node->safe_psql('postgres', 'VACUUM changed');
	$node->safe_psql('postgres', 'CHECKPOINT');
	is(in_file($_), PAGES, "$_: the old pages are still in the file") foreach qw(dropped truncated changed elsewhere);

	my $live   = cached();
	my %before = fc_stat($node, 'slots_erased', 'used', 'inserts');
	my $erased = SLOTS - $live;
	is(scrub(), $erased . '|' . $erased * 8192, 'scrub: says how many slots, and bytes, it has erased');
	my %after = fc_stat($node, 'slots_erased', 'used', 'inserts');
	is($after{slots_erased} - $before{slots_erased}, $erased, 'scrub: the view counts them');
	is($after{inserts}, $before{inserts}, 'scrub: nothing was filled meanwhile');
	is($after{used}, $live, 'scrub: only current pages are in use');
	is(in_file($_), 0, "$_: gone") foreach qw(dropped truncated changed elsewhere);

	fc_is_warm($node, $kept, PAGES, 'scrub: what is cached stays');
	is(in_file('kept'), PAGES, 'scrub: in the file as well');
	fc_is_read($node, 'postgres', 'kept', 'kept', PAGES, 'scrub: and is read from there');
	# A page of a catalog may be written, and so be invalidated, meanwhile.
	my $least = $live - cached();
	my ($again, $bytes) = split /\|/, scrub();
	ok($least <= $again && $again <= $live - cached(), 'scrub: a second time there is nothing to do')
	  or diag("$again slots, $least to @{[ $live - cached() ]} expected");
	is($bytes, $again * 8192, 'scrub: the bytes of these');
}

# ---- rows that were deleted ----

# How many of the deleted values of both columns some bytes have.
sub deleted_in
{
	my ($content) = @_;
	my @found;
	foreach my $column ('note', 'body')
	{
		push @found, scalar grep { index($content, md5_hex("$column $_")) >= 0 } map { 2 * $_ } 1 .. PAGES;
	}
	return join ' ', @found;
}

# The data files, one after the other.
sub data_files
{
	my $oid = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'postgres'");
	return join '', map { slurp_file($_) } grep { -f } glob $node->data_dir . "/base/$oid/*";
}

# What docs/security.md says to do, statement by statement, as somebody would type it.
sub recipe
{
	my $text = slurp_file("$FindBin::RealBin/../../docs/security.md");
	my ($sql) = $text =~ /^### Deleted rows\n.*?^```sql\n(.*?)^```$/ms or die 'docs/security.md has no recipe for deleted rows';
	return grep { /\S/ } split /;\K[^\n]*\n/, $sql;
}

# The table, its index, what is stored out of line, and the statistics on its columns: all of it is in flash.
sub rows_in_flash
{
	fc_warm($node, undef, 'postgres', 't', 't_note', 'pg_statistic');
	foreach my $of ('t', 'pg_statistic')
	{
		fc_warm($node, undef, 'postgres', $node->safe_psql('postgres', "SELECT reltoastrelid::regclass FROM pg_class WHERE oid = '$of'::regclass"));
	}
	return;
}

{
	filling(1);
	$node->safe_psql(
		'postgres', qq{
		CREATE TABLE t (id int, note text, body text);
		ALTER TABLE t ALTER note SET STORAGE PLAIN, ALTER body SET STORAGE EXTERNAL;
		INSERT INTO t SELECT id, md5('note ' || id), repeat(md5('body ' || id), 80) FROM generate_series(1, 2 * @{[PAGES]}) id;
		CREATE INDEX t_note ON t (note);
		ANALYZE t;
		DELETE FROM t WHERE id % 2 = 0;
		VACUUM t;
		CHECKPOINT});
	rows_in_flash();
	filling(0);
	scrub();
	# VACUUM happens to put some of what was left over some of what was deleted.
	my ($notes, $bodies) = split / /, deleted_in(slurp_file($file));
	is($notes, PAGES, 'deleted rows: VACUUM, CHECKPOINT and scrub leave them in the file');
	cmp_ok($bodies, '>', 0, 'deleted rows: likewise what was stored out of line');
	is(deleted_in(data_files()), "$notes $bodies", 'deleted rows: as the data files have them');

	# Somebody who may still see them keeps them, and the statistics that quote them.
	my $reader = $node->background_psql('postgres');
	filling(1);
	$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
	$node->safe_psql('postgres', 'DELETE FROM t WHERE id = 1');
	$node->safe_psql('postgres', $_) foreach recipe();
	rows_in_flash();
	filling(0);
	scrub();
	like(slurp_file($file), qr/\Q@{[md5_hex('body 1')]}/, 'deleted rows: rewritten, what an open transaction can see is still in the file');
	is(deleted_in(slurp_file($file)), PAGES . ' 0', 'deleted rows: and of the others what the statistics of its time quote');
	$reader->quit;

	my @recipe = recipe();
	like($recipe[-1], qr/pg_flashcache_scrub\(\)/, 'deleted rows: the recipe ends with the scrub');
	$node->safe_psql('postgres', $_) foreach @recipe;
	is(deleted_in(slurp_file($file)), '0 0', 'deleted rows: once it has ended, none is in the file');
	unlike(slurp_file($file), qr/\Q@{[md5_hex('body 1')]}/, 'deleted rows: nor what it could see');
	my $content = data_files();
	is(deleted_in($content), '0 0', 'deleted rows: none is in the data files');
	unlike($content, qr/\Q@{[md5_hex('body 1')]}/, 'deleted rows: nor what the transaction could see');
	like($content, qr/\Q@{[md5_hex('note 3')]}/, 'deleted rows: those that were not deleted are');
	filling(1);
	rows_in_flash();
	filling(0);
	is(deleted_in(slurp_file($file)), '0 0', 'deleted rows: nothing brings them back into the file');
	$node->safe_psql('postgres', 'DROP TABLE t');
	scrub();
}

# ---- everything ----

{
	# From one moment: a page may be written, and so invalidated, before the scrub comes to it.
	my %was = fc_stat($node, qw(used slots_erased eviction_invalidated));
	is(scrub('everything => true'), SLOTS . '|' . SLOTS * 8192, 'everything: every slot is erased');
	my %is = fc_stat($node, qw(used slots_erased eviction_invalidated));
	is_deeply(\%is, { used => 0, slots_erased => $was{slots_erased} + SLOTS, eviction_invalidated => $was{eviction_invalidated} + $was{used} },
		'everything: and the cache is empty');
	is(cached(), 0, 'everything: the view of pages too');
	my $content = slurp_file($file);
	is(length $content, HEADER + SLOTS * 8192, 'everything: the file is as long as before');
	ok(substr($content, HEADER) !~ /[^\0]/, 'everything: and has zeros only');
	is(scrub(), '0|0', 'everything: nothing is left to do');
	fc_is_clean($node);

	filling(1);
	fc_warm($node, undef, 'postgres', 'kept');
	fc_is_read($node, 'postgres', 'kept', 'kept', PAGES, 'everything: the cache fills again');
	filling(0);
	# A slot may have been written more than once since, so it is the file that says how many were.
	my $written = written_slots();
	my ($erased, $bytes) = split /\|/, scrub();
	is($erased, $written - written_slots(), 'everything: only what was written since is erased again');
	is($bytes, $erased * 8192, 'everything: so many bytes');
	filling(1);
}

# ---- the run before ----

{
	$node->restart;
	fc_wait_active($node);
	filling(0);
	is(in_file('kept'), PAGES, 'restart: the pages of the run before are still in the file');
	is(cached(), fc_stat_one('used'), 'restart: of which none is cached');
	my $erased = SLOTS - cached();
	is(scrub(), $erased . '|' . $erased * 8192, 'restart: all slots but those cached since are erased');
	is(in_file('kept'), fc_tag_flash($node, $kept), 'restart: gone');
	filling(1);
}

# ---- a page that is on its way to flash when its table is dropped ----

# The writer stands still; meanwhile dirty pages are evicted and queue up for it. `then` may drop the table.
sub evicted_behind_the_writer
{
	my ($label, $then) = @_;
	my $control = fc_control($node);

	fc_table($node, 'postgres', $label, $label, PAGES);
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_table($node, 'postgres', "bait_$label", 'bait', PAGES);
	$node->safe_psql('postgres', "SELECT count(*) FROM $label");
	fc_push_out($node, fc_tag($node, 'postgres', $label));
	# So that the next scrub has little to do, and ends before the writer looks at the queue again.
	scrub();
	fc_failpoint($control, 'fill_begin', 'pause');
	$node->safe_psql('postgres', "SELECT count(*) FROM bait_$label");
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_evict_all($node);
	fc_failpoint_wait($control, 'fill_begin');
	fc_rewrite_rows($node, 'postgres', $label, "new $label");
	fc_push_out($node, fc_tag($node, 'postgres', $label));
	$then->();
	fc_failpoint($control, 'fill_begin', 'off');
	$control->quit;
	fc_writer_round($node);
	return;
}

{
	# How many find room in the queue is not the point.
	evicted_behind_the_writer('arrives', sub { });
	cmp_ok(in_file('new arrives'), '>', 0, 'on the way: pages in the queue do come to flash');

	my ($session, $erased);
	evicted_behind_the_writer(
		'late',
		sub {
			is(in_file('new late'), 0, 'on the way: not there yet');
			$node->safe_psql('postgres', 'DROP TABLE late');
			$session = $node->background_psql('postgres');
			my $pid = $session->query_safe('SELECT pg_backend_pid()');
			$session->query_until(qr/begun/, "\\echo begun\nSELECT * FROM pg_flashcache_scrub();\n");
			$node->poll_query_until('postgres', "SELECT wait_event ~ '^(FlashcacheScrub|Extension)\$' FROM pg_stat_activity WHERE pid = $pid")
			  or die;
		});
	$session->quit;
	is(in_file('new late'), 0, 'on the way: a dropped table does not come to flash after the scrub');
}

# ---- a reader that is about to read a slot while it is erased ----

foreach my $point ('read_looked_up', 'read_done')
{
	filling(1);
	fc_warm($node, undef, 'postgres', 'kept');
	filling(0);
	my $reader = $node->background_psql('postgres');
	$reader->query_safe("PREPARE r AS SELECT val = @{[fc_value_sql('kept')]} FROM kept WHERE ctid = '(7,1)'");
	$reader->query_safe('EXECUTE r');
	fc_push_out($node, $kept);
	my $control = fc_control($node);
	$control->query_safe('EXPLAIN SELECT * FROM pg_flashcache_scrub(true)');
	my %before = fc_stat($node, qw(checksum_failures slots_retired verify_failures));

	fc_failpoint($control, $point, 'pause');
	$reader->query_until(qr/begun/, "\\echo begun\nEXECUTE r;\n");
	fc_failpoint_wait($control, $point);
	is($control->query_safe('SELECT slots_erased FROM pg_flashcache_scrub(true)'), SLOTS, "$point: everything is erased meanwhile");
	fc_failpoint($control, $point, 'off');
	like($reader->query_safe('SELECT 1'), qr/1$/, "$point: the reader goes on");
	is($reader->query_safe('EXECUTE r'), 't', "$point: with the right page");
	my %after = fc_stat($node, qw(checksum_failures slots_retired verify_failures));
	is_deeply(\%after, \%before, "$point: and sees by the slot's version that it was reused");
	$_->quit foreach $reader, $control;
}

# ---- cancelled; two at a time ----

foreach my $point ('scrub_taken', 'scrub_written')
{
	filling(1);
	fc_warm($node, undef, 'postgres', 'kept');
	filling(0);
	my %before  = fc_stat($node, 'slots_erased');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');

	fc_failpoint($control, $point, 'pause');
	$session->query_until(qr/begun/, "\\echo begun\nSELECT * FROM pg_flashcache_scrub(true);\n");
	fc_failpoint_wait($control, $point);
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
	like($stderr, qr/ERROR:  the flash cache is already being erased\nHINT:  Wait for the other session/, "$point: one at a time");
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query_until(qr/done/, "\\echo done\n");
	like($session->{stderr}, qr/canceling statement due to user request/, "$point: cancelled");
	($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
	like($stderr, qr/already being erased/, "$point: the writer is still at its batch");
	fc_failpoint($control, $point, 'off');
	$node->poll_query_until('postgres', 'SELECT pg_flashcache_enable()') for 1 .. 2;
	# The batch it was at is done, no other is begun.
	my %after = fc_stat($node, 'slots_erased');
	is($after{slots_erased} - $before{slots_erased}, 64, "$point: one batch was erased");
	fc_is_accounted($node, "$point: every slot is accounted for");
	is(scrub('true'), SLOTS . '|' . SLOTS * 8192, "$point: the next one is complete");
	$session->quit;
	$control->quit;
}

# ---- a device that fails ----

{
	my $erased = SLOTS;

	fc_failpoint($node, 'store_sync', 'error');
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	like($stderr,
		qr/ERROR:  the flash cache could not be erased\nDETAIL:  0 slots were erased, $erased could not be written\.\nHINT:  Check the device/,
		'not durable: an error');
	fc_failpoint($node, 'store_sync', 'off');
	is(scrub(), SLOTS . '|' . SLOTS * 8192, 'not durable: the next one erases all again');

	my $offset = -s $node->logfile;
	my %before = fc_stat($node, 'write_errors', 'slots_erased');
	# It does not come back by itself while we look, however long that takes.
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_write', 'error');
	($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	like($stderr,
		qr/ERROR:  the flash cache cannot be erased while it is off: 3 failures in a row, .*\nHINT:  Call pg_flashcache_enable\(\) first/,
		'broken: an error with a hint');
	fc_failpoint($node, 'store_write', 'off');
	my %after = fc_stat($node, 'write_errors', 'slots_erased');
	is($after{write_errors} - $before{write_errors}, 3, 'broken: three failures');
	is($after{slots_erased}, $before{slots_erased}, 'broken: nothing was erased');
	($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
	like($stderr, qr/ERROR:  the flash cache cannot be erased while it is off/, 'broken: while it is off');
	fc_failpoint($node, 'probe_due', 'off');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'broken: enabled again');
	fc_wait_active($node);
	my $todo = SLOTS - cached();
	is(scrub(), $todo . '|' . $todo * 8192, 'broken: what was erased before is erased again, it may be another device');
	fc_is_accounted($node, 'broken: every slot is accounted for');
}

# ---- the write limit holds ----

{
	$node->append_conf('postgresql.conf', 'pg_flashcache.write_limit = 1');
	filling(0);
	my $began  = time;
	my %before = fc_stat($node, 'write_bytes');
	is(scrub('true'), SLOTS . '|' . SLOTS * 8192, 'write limit: all slots are erased');
	my %after   = fc_stat($node, 'write_bytes');
	my $seconds = time - $began;
	is($after{write_bytes} - $before{write_bytes}, SLOTS * 8192, 'write limit: by writes of that many bytes');
	cmp_ok($after{write_bytes} - $before{write_bytes}, '<=', (1 + $seconds) * 1024 * 1024, 'write limit: kept');
	$node->append_conf('postgresql.conf', 'pg_flashcache.write_limit = 0');
	filling(1);
}

# ---- and is shared ----

# A scrub that has more to do than the other takes half of what may be written, at most; the other one does not wait for its end.
{
	fc_table($node, 'postgres', 'beside', 'beside', PAGES);
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->append_conf('postgresql.conf', "pg_flashcache.write_limit = '200kB'");
	filling(1);
	my $erased  = fc_stat_one('slots_erased');
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	$session->query_until(qr/begun/, "\\echo begun\nSELECT * FROM pg_flashcache_scrub(true);\n");
	$node->poll_query_until('postgres', "SELECT slots_erased > $erased FROM pg_stat_flashcache") or die 'it does not begin';
	is($node->safe_psql('postgres', q{SELECT loaded + skip_exists FROM pg_flashcache_prewarm('beside')}), PAGES, 'write limit: pages are loaded beside a scrub');
	is($node->safe_psql('postgres', "SELECT state FROM pg_stat_activity WHERE pid = $pid"), 'active', 'write limit: which has not ended by then');
	cmp_ok(fc_stat_one('slots_erased') - $erased, '<', SLOTS, 'write limit: nor erased all');
	$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
	$session->query_until(qr/done/, "\\echo done\n");
	$session->quit;
	$node->append_conf('postgresql.conf', 'pg_flashcache.write_limit = 0');
	filling(1);
	$node->poll_query_until('postgres', q{SELECT count(*) >= 0 FROM pg_flashcache_scrub()}) or die 'the scrub is not over';
	$node->safe_psql('postgres', 'DROP TABLE beside');
	scrub();
}

# ---- a standby erases for itself ----

{
	my $standby = fc_new_standby('standby', $node, size => '32MB', conf => "bgwriter_lru_maxpages = 0\n");
	my $path    = fc_flash_file($standby);

	# The standby's way of pushing pages out; see fc_evict_all.
	fc_evict_all($node, logged => 1);
	table_in_flash('twice');
	fc_warm($node, $standby, 'postgres', 'twice');
	is(in_file('twice', $path), PAGES, 'standby: in the file');
	$node->safe_psql('postgres', 'DROP TABLE twice');
	fc_replayed($node, $standby);
	is(in_file('twice', $path), PAGES, 'standby: still after the drop was replayed');
	is(in_file('twice'),        PAGES, 'standby: and on the primary');
	$standby->safe_psql('postgres', 'SELECT pg_flashcache_scrub()');
	is(in_file('twice', $path), 0, 'standby: gone');
	is(in_file('twice'), PAGES, 'standby: the primary has its own file');
	$standby->stop;
}

# ---- not in use ----

{
	fc_warm($node, undef, 'postgres', 'kept');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	is(in_file('kept'), PAGES, 'disabled: the file keeps what it has');

	# Nobody holds it now.
	open(my $other, '+<', $file) or die "$file: $!";
	ok(flock($other, LOCK_EX | LOCK_NB), 'disabled: another server may take the file');
	my ($code, undef, $taken) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	like($taken, qr/ERROR:  the flash cache could not be erased: ".*" is in use by another server\nHINT:  Give every server a file of its own/,
		'disabled: and is safe from this one');
	is(in_file('kept'), PAGES, 'disabled: nothing was erased');
	ok(flock($other, LOCK_UN), 'disabled: the other one has ended');
	is(scrub(), SLOTS . '|' . SLOTS * 8192, 'disabled: all of it can be erased');
	ok(substr(slurp_file($file), HEADER) !~ /[^\0]/, 'disabled: and stays so');
	ok(flock($other, LOCK_EX | LOCK_NB), 'disabled: the server has let go of the file again');
	close($other);
	not_the_same_any_more();
	$node->restart;
	fc_wait_state($node, 'disabled');
	($code, undef, $taken) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
	like($taken, qr/ERROR:  the flash cache could not be erased: the flash device has not been opened since the server started\nHINT:  Set pg_flashcache.enabled to on first/,
		'disabled: a file that was never opened is not written to');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_wait_active($node);
	fc_is_quiet_but_broken();

	# In use: a file whose beginning is somebody else's by now is not erased, and the cache goes off.
	filling(0);
	my $header = read_at(0, 4096);
	write_at(0, 'somebody else' x 300);
	my $before = slurp_file($file);
	($code, undef, $taken) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
	like($taken, qr/ERROR:  the flash cache cannot be erased while it is off: "\Q$file\E" no longer begins with what the server wrote there\n/,
		'active, another header: refused');
	ok(slurp_file($file) eq $before, 'active, another header: nothing was written');
	($code, undef, $taken) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($taken, qr/"\Q$file\E" holds something that is not a flash cache\nHINT:  It was the cache's file until somebody wrote to it\. Remove it/,
		q{active, another header: nor is it opened, but it is known as the cache's});
	write_at(0, $header);
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'active, its header is back: enabled');

	# A new writer looks as well.
	isnt(read_at(0, 4096), $header, 'each opening writes a header of its own');
	write_at(0, $header);
	kill 'TERM', fc_stat_one('writer_pid');
	fc_wait_state($node, 'off');
	is(fc_stat_one('reason'), qq{"$file" no longer begins with what the server wrote there}, 'a new writer, another header: off');
	is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'a new writer: any header of ours can be opened');
	$node->append_conf('postgresql.conf', 'pg_flashcache.size = 0');
	$node->restart;
	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
	like($stderr, qr/ERROR:  the flash cache cannot be erased while it is disabled: pg_flashcache.size is 0\nHINT:  The server does not have the file open/,
		'size 0: an error with a hint');
}

sub read_at
{
	my ($offset, $length) = @_;
	return substr(slurp_file($file), $offset, $length);
}

sub write_at
{
	my ($offset, $bytes) = @_;
	open my $fh, '+<:raw', $file or die "$file: $!";
	seek $fh, $offset, 0 or die $!;
	print $fh $bytes;
	close $fh or die "$file: $!";
	return;
}

# While the cache is disabled the server has let go of the file. What lies there now is erased only if it is what the server
# had open, and as it was: for each way in which it may not be, a change, what is said, and the way back.
sub not_the_same_any_more
{
	my $header = read_at(0, 4096);
	my $length = -s $file;
	my $hint   = 'Nobody but the server may touch the file';
	my $other  = qr/"\Q$file\E" no longer begins with what the server wrote there/;

	# Any header of ours can be opened, but only its own can be adopted.
	foreach my $value ('on', 'off')
	{
		$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $value");
		$node->reload;
		fc_wait_state($node, $value eq 'on' ? 'active' : 'disabled');
	}
	my $newer = read_at(0, 4096);
	isnt($newer, $header, 'disabled: each opening writes a header of its own');

	foreach my $case (
		[ 'somebody else\'s bytes in the same inode', sub { write_at(0, 'x' x $length) }, $other, sub { write_at(0, $newer) } ],
		[ 'the header of an earlier opening', sub { write_at(0, $header) }, $other, sub { write_at(0, $newer) } ],
		[ 'one bit behind the header', sub { write_at(4095, "\1") }, $other, sub { write_at(0, $newer) } ],
		[ 'open to others', sub { chmod 0644, $file or die $! }, qr/"\Q$file\E" is accessible to other users/,
			sub { chmod 0600, $file or die $! } ],
		[ 'another name', sub { link $file, "$file.link" or die $! }, qr/"\Q$file\E" has other names \(hard links\)/,
			sub { unlink "$file.link" or die $! } ],
		[ 'shortened', sub { truncate $file, $length - 8192 or die $! },
			qr/"\Q$file\E" has @{[ $length - 8192 ]} bytes, $length are needed/, sub { truncate $file, $length or die $! } ],
		[ 'a copy in its place', sub { rename $file, "$file.own" or die $!; system_or_bail('cp', '-p', "$file.own", $file) },
			qr/"\Q$file\E" has been replaced by another file\nHINT:  $hint/, sub { rename "$file.own", $file or die $! } ],
		[ 'gone', sub { rename $file, "$file.own" or die $! }, qr/could not open "\Q$file\E": No such file or directory/,
			sub { rename "$file.own", $file or die $! } ])
	{
		my ($what, $change, $message, $back) = @$case;
		$change->();
		my $before = -e $file ? slurp_file($file) : '';
		my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_scrub(true)');
		like($stderr, qr/ERROR:  the flash cache could not be erased: $message/, "disabled, $what: refused");
		ok((-e $file ? slurp_file($file) : '') eq $before, "disabled, $what: nothing was written or made");
		$back->();
	}
	is(scrub('true'), SLOTS . '|' . SLOTS * 8192, 'disabled, as it was: erased');
	return;
}

# Nothing went wrong but what the test made go wrong.
sub fc_is_quiet_but_broken
{
	my %now = fc_stat($node, qw(verify_failures checksum_failures slots_retired read_errors));
	is_deeply([ values %now ], [ 0, 0, 0, 0 ], 'nothing else went wrong');
	my @warnings = fc_warnings($node);
	is(scalar @warnings, 1, 'one warning, of the broken device');
	unlike(slurp_file($node->logfile), qr/PANIC:|was terminated by signal/, 'no crash');
	return;
}

$node->stop;
done_testing();

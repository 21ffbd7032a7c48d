# Several devices: added, resized, disabled, removed while the cache is in use; one that fails takes only its own slots
# along.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant HEADER => 65536;
use constant PAGE   => 8192;

# Nothing is written to flash unasked, and nobody reads but the test.
my $node = fc_new_node('main', size => '2MB', conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
my $base = $node->basedir;
my ($second, $third) = ("$base/second", "$base/third");

# One page a row, more than fit on the first device.
$node->safe_psql('postgres', q{
	CREATE TABLE t (n int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, 300) n;
});

sub change
{
	my ($what, $path, $size) = @_;
	my $sql = "SELECT pg_flashcache_${what}_device('$path'" . (defined $size ? ", $size" : '') . ')';
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	return $rc == 0 ? '' : $err =~ s/^psql:<stdin>:1: ERROR:  //r =~ s/\n.*//sr;
}

sub all_there { return $node->safe_psql('postgres', 'SELECT count(*), sum(n), min(length(v)) FROM t') }
my $all = '300|45150|5001';

is(devices($node, 'device, path, state, reason, size'), '1|' . fc_flash_file($node) . '|active||2097152', 'one device');

# What is refused.
is(change('add', 'second', 1048576), '"second" cannot be a device of pg_flashcache', 'a relative path');
like(change('add', $second, 100), qr/^a device of pg_flashcache must have 512 kB at least/, 'too small');
is(change('add', $second, 64 << 20),
	'could not add the device: 64 MB are more than pg_flashcache.max_size leaves, which is 14 MB', 'too large');
like(change('add', fc_flash_file($node), 1 << 20), qr/is the first device of the cache, pg_flashcache.file/, 'the first one');
like(change('remove', fc_flash_file($node)), qr/is the first device of the cache/, 'the first one is not removed');
like(change('remove', $second), qr/is not a device of the cache/, 'not one');
like(change('add', $node->data_dir . '/cache', 1 << 20), qr/^could not add the device: /, 'in the data directory');
append_to_file("$base/mine", 'something');
chmod 0600, "$base/mine";
like(change('add', "$base/mine", 1 << 20), qr/holds something that is not a flash cache/, 'another file');
is(slurp_file("$base/mine"), 'something', 'which is left as it was');
fc_failpoint($node, 'store_open', 'nospace', 2);
like(change('add', $second, 1 << 20), qr/^could not add the device: could not reserve .* for "\Q$second\E": No space left on device/, 'no space');
my (undef, undef, $hint) = $node->psql('postgres', "SELECT pg_flashcache_add_device('$second', 1 << 20)");
like($hint, qr/^HINT:  Free space there, or choose a smaller size\.$/m, 'what helps');
fc_failpoint($node, 'store_open', 'off');
ok(!-e $second, 'and no file is left behind');
is(devices($node, 'count(*)'), '1', 'nothing has come of it');
ok(!-e $node->data_dir . '/pg_flashcache.devices', 'no list');

# Added: 300 pages do not fit on the first device.
is(change('add', $second, 4 << 20), '', 'added');
is(device($node, 2, 'device, path, state, reason, size'), "2|$second|active||4194304", 'it is active');
is(-s $second, HEADER + (4 << 20), 'its size');
like(change('add', $second, 1 << 20), qr/is a device of the cache already/, 'once only');
my %now = fc_stat($node, 'slots');
is($now{slots}, 768, 'slots of both');

# Over whole turns of the clock hand each is used in proportion to its size. No page is hit, so that a turn takes each slot
# once; of the last one, which is not whole, at most the slots of a device are missing.
$node->safe_psql('postgres', q{
	CREATE TABLE many (n int, v text);
	ALTER TABLE many ALTER v SET STORAGE PLAIN;
	INSERT INTO many SELECT n, repeat('y', 5000) FROM generate_series(1, 1664) n;
	VACUUM many;
	CHECKPOINT});
{
	# so few pages between two rounds of the writer that it can follow
	my $sql = join ' ', map { sprintf "SELECT %s FROM many WHERE ctid = ANY (ARRAY(SELECT format('(%%s,1)', block)::tid FROM generate_series(%d, %d) block)); "
			. 'SELECT pg_flashcache_enable();', 'count(v)', 64 * $_, 64 * $_ + 63 } 0 .. 1664 / 64 - 1;
	# once so that all pages that were hit are gone
	$node->safe_psql('postgres', "SET enable_seqscan = off; $sql");
	my %before = split /[|\n]/, devices($node, 'device, writes');
	my ($first, $second) = (0, 0);
	for (my $pass = 0; $first + $second < 2 * 768 && $pass < 20; $pass++)
	{
		$node->safe_psql('postgres', "SET enable_seqscan = off; $sql");
		my %after = split /[|\n]/, devices($node, 'device, writes');
		($first, $second) = map { $after{$_} - $before{$_} } 1, 2;
	}
	cmp_ok($first + $second, '>=', 2 * 768, 'two turns');
	cmp_ok(abs(2 * $first - $second), '<=', 2 * 256, 'of which the second device, twice as large, has twice as much') or diag("$first and $second");
}
$node->safe_psql('postgres', 'DROP TABLE many');

fc_to_flash($node, 't');
ok($node->poll_query_until('postgres', 'SELECT sum(d.used) = max(s.used) FROM pg_stat_flashcache_device d, pg_stat_flashcache s'),
	'all pages are on one of them');
cmp_ok(device($node, 1, 'used'), '>', 0, 'some on the first');
cmp_ok(device($node, 2, 'used'), '>', 0, 'some on the second');

# The clock hand goes round these small devices, and a page of a catalog may take the slot of one: of all pages there are
# at least so many.
my $nearly_all = 270;

# By how much reads of devices have moved, hits of the table, and others. Read ahead is what nobody has asked for, too.
sub moved
{
	my ($sub) = @_;
	my $hits   = "SELECT coalesce(sum(hits), 0) FROM pg_stat_flashcache_relation WHERE relid = 't'::regclass";
	my %before = split /[|\n]/, devices($node, 'device, reads');
	my $had    = $node->safe_psql('postgres', $hits);
	my %moved  = fc_delta($node, $sub, 'read_errors', 'timeouts', 'verify_failures');
	my %after  = split /[|\n]/, devices($node, 'device, reads');
	return (%moved, hits => $node->safe_psql('postgres', $hits) - $had, map { $_ => $after{$_} - ($before{$_} // 0) } keys %after);
}
my %moved = moved(sub { is(all_there(), $all, 'read from both') });
cmp_ok($moved{hits}, '>=', $nearly_all, 'all of it');
cmp_ok($moved{1} + $moved{2}, '>=', $moved{hits}, 'by one of the devices');
cmp_ok($moved{2}, '>', 300 - 256, 'what the first can\'t hold of the second');

# No space to become larger: it goes on as it was.
fc_failpoint($node, 'store_open', 'nospace', 2);
like(change('resize', $second, 6 << 20), qr/^could not resize the device: could not reserve .* for "\Q$second\E": No space left on device/, 'no space');
fc_failpoint($node, 'store_open', 'off');
is(device($node, 2, 'state, size'), 'active|4194304', 'it goes on');
fc_evict($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read after that') });
cmp_ok($moved{hits}, '>=', $nearly_all, 'with all that it had');

# Larger, by a part of a chunk, and smaller again; what is left stays.
is(change('resize', $second, (5 << 20) + 3 * PAGE), '', 'larger');
is(device($node, 2, 'size'), (5 << 20) + 3 * PAGE, 'its size is shown');
is(-s $second, HEADER + (5 << 20) + 3 * PAGE, 'and that of the file');
fc_to_flash($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read after it has grown') });
cmp_ok($moved{hits}, '>=', $nearly_all, 'all of it');
my $first = device($node, 1, 'used');
is(change('resize', $second, 600 << 10), '', 'smaller');
is(-s $second, HEADER + (600 << 10), 'the file is shorter');
cmp_ok(device($node, 1, 'used'), '>=', $first - 10, 'the first one has what it had');
cmp_ok(device($node, 2, 'used'), '<=', 75, 'the second what fits');
%now = fc_stat($node, 'slots');
is($now{slots}, 256 + 75, 'slots of both');
fc_evict($node, 't');
my $used = $node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache');
%moved = moved(sub { is(all_there(), $all, 'read after it has shrunk') });
is($moved{verify_failures}, 0, 'no page was wrong');
is(change('resize', $second, 4 << 20), '', 'and again as large');

# Who may change devices: superusers, and who was granted it; pg_monitor looks.
$node->safe_psql('postgres', q{
	CREATE ROLE looks; GRANT pg_monitor TO looks;
	CREATE ROLE may;
	GRANT EXECUTE ON FUNCTION pg_flashcache_resize_device(text, bigint) TO may});
is($node->safe_psql('postgres', 'SET ROLE looks; SELECT count(*) FROM pg_stat_flashcache_device'), '2', 'pg_monitor looks');
my (undef, undef, $refused) = $node->psql('postgres', "SET ROLE looks; SELECT pg_flashcache_remove_device('$second')");
like($refused, qr/permission denied for function pg_flashcache_remove_device/, 'and changes nothing');
is($node->safe_psql('postgres', "SET ROLE may; SELECT pg_flashcache_resize_device('$second', 5 << 20)"), '', 'who was granted it may');
is(change('resize', $second, 4 << 20), '', 'smaller again');

# A second one is in use, and a third comes: chunks that were free are used again.
is(change('add', $third, 3 << 20), '', 'a third');
fc_to_flash($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read from three') });
cmp_ok($moved{hits}, '>=', $nearly_all, 'all of it');
cmp_ok($moved{1} + $moved{2} + $moved{3}, '>=', $moved{hits}, 'each from one of them');

# A new writer takes all of them over.
my $pid = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
kill 'TERM', $pid;
$node->poll_query_until('postgres', "SELECT writer_pid <> $pid FROM pg_stat_flashcache") or die 'no new writer';
fc_writer_round($node);
is(devices($node, 'state'), "active\nactive\nactive", 'a new writer uses all of them');
fc_evict($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read after that') });
cmp_ok($moved{hits}, '>=', $nearly_all, 'nothing was forgotten');

# All of them are erased.
sub has_pages { return scalar(grep { slurp_file($_) =~ /x{5000}/ } fc_flash_file($node), $second, $third) }
cmp_ok(has_pages(), '>=', 2, 'pages are on them');
$node->safe_psql('postgres', 'SELECT pg_flashcache_scrub(true)');
is(has_pages(), 0, 'none of them has any after a scrub');
fc_to_flash($node, 't');

# Disabled: its pages are forgotten; enabled: it begins empty.
$used = device($node, 3, 'used');
is(change('disable', $third), '', 'disabled');
is(device($node, 3, 'state, used'), 'disabled|0', 'it is, and empty');
%now = fc_stat($node, 'state', 'slots');
is_deeply(\%now, { state => 'active', slots => 256 + 512 }, 'the cache is active, with the slots of the others');
fc_evict($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read from the others') });
is($moved{3}, 0, 'none from it');
is(change('enable', $third), '', 'enabled');
is(device($node, 3, 'state, used < 50'), 'active|t', 'it is, and nearly empty');

# Removed: the others go on.
fc_to_flash($node, 't');
is(change('remove', $third), '', 'removed');
is(devices($node, 'count(*)'), '2', 'it is no device any more');
fc_evict($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read from the others') });
is($moved{verify_failures}, 0, 'no page was wrong');
ok(-e $third, 'the file stays');
fc_is_clean($node);

# The writer ends while a device is being added, or made smaller: nothing has come of it. It stands where the device process
# has looked at the file.
my $control = fc_control($node);

sub interrupted
{
	my ($sql) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $writer  = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	fc_failpoint($control, 'store_looked', 'pause', 3);
	$session->query_until(qr/started/, "\\echo started\n$sql;\n");
	fc_failpoint_wait($control, 'store_looked');
	kill 'TERM', $writer;
	fc_failpoint($control, 'store_looked', 'off');
	$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die 'no new writer';
	$session->quit;
	fc_writer_round($node);
	return;
}
interrupted("SELECT pg_flashcache_add_device('$third', 3 << 20)");
is(devices($node, 'count(*)'), '2', 'a writer that ends while it adds one: it is no device');
is(change('add', $third, 3 << 20), '', 'and can be added again');
%now = fc_stat($node, 'slots');
is($now{slots}, 256 + 512 + 384, 'with all its slots');
fc_to_flash($node, 't');
interrupted("SELECT pg_flashcache_resize_device('$third', 1 << 20)");
$node->poll_query_until('postgres', q{SELECT state = 'active' FROM pg_stat_flashcache_device WHERE device = 3}) or die devices($node, 'state, reason');
is(device($node, 3, 'size'), 3 << 20, 'a writer that ends while it makes one smaller: it has its size');
%now = fc_stat($node, 'slots');
is($now{slots}, 256 + 512 + 384, 'and all its slots');
fc_to_flash($node, 't');
%moved = moved(sub { is(all_there(), $all, 'read after that') });
cmp_ok($moved{hits}, '>=', $nearly_all, 'all of it');

# One that can't be made smaller keeps its size.
fc_failpoint($node, 'store_open', 'error', 3);
like(change('resize', $third, 1 << 20), qr/^could not resize the device: could not open "\Q$third\E": Input\/output error/, 'it can not be opened with its new size');
fc_failpoint($node, 'store_open', 'off');
is(device($node, 3, 'state, size'), 'off|3145728', 'and is off, with its size');
is(change('enable', $third), '', 'enabled again');
is(-s $third, HEADER + (3 << 20), 'the file has its size');
%now = fc_stat($node, 'slots');
is($now{slots}, 256 + 512 + 384, 'and the cache all its slots');
is(change('remove', $third), '', 'removed again');
$control->quit;
$node->stop;

done_testing();

# One of several devices fails, hangs, or is gone: it takes only its own slots along, and comes back with what it had.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '3MB', conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");
my $second = $node->basedir . '/second';

# More than fit on either of them.
my $pages = 400;

# The clock hand goes round these small devices, and a page of a catalog may take the slot of one.
my $nearly_all = 360;

$node->safe_psql('postgres', qq{
	CREATE TABLE t (n int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, $pages) n;
	SELECT pg_flashcache_add_device('$second', 3 << 20);
});
# It comes back when the test wants it to.
fc_failpoint($node, 'probe_due', 'error');

sub device
{
	my ($columns, $no) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM pg_stat_flashcache_device WHERE device = " . ($no // 2));
}

# Faults of the second device alone.
sub fault { return fc_failpoint($node, $_[0], $_[1], 2) }

sub enable
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
	return $rc == 0 ? '' : $err =~ s/^psql:<stdin>:1: ERROR:  //r =~ s/\n.*//sr;
}

sub query { return $node->safe_psql('postgres', 'SELECT count(*), sum(n), min(length(v)) FROM t') }
my $all = "$pages|80200|5001";

# Runs the query with t not in shared buffers: what was counted of t, and of the cache. Nobody comes by between the fault
# and the query.
my $control = fc_control($node);

sub counted
{
	my ($what, @fault) = @_;
	my $sql = "SELECT coalesce(sum(hits), 0) FROM pg_stat_flashcache_relation WHERE relid = 't'::regclass";
	fc_evict($node, 't');
	my $before = $node->safe_psql('postgres', $sql);
	my %moved  = fc_delta(
		$node,
		sub {
			fc_failpoint($control, $fault[0], $fault[1], $fault[2] // 2) if @fault;
			is(query(), $all, "$what: the query is answered");
		},
		qw(read_errors timeouts verify_failures checksum_failures));
	return (%moved, hits => $node->safe_psql('postgres', $sql) - $before);
}

# What is left: the cache is on, the first device has all that it had.
sub goes_on
{
	my ($what) = @_;
	my %now = fc_stat($node, 'state', 'switch_offs');
	is_deeply(\%now, { state => 'active', switch_offs => 0 }, "$what: the cache is on");
	is(device('state', 1), 'active', "$what: the first device is on");
	my %moved = counted("$what: again");
	is_deeply({ map { $_ => $moved{$_} } qw(read_errors timeouts verify_failures) },
		{ read_errors => 0, timeouts => 0, verify_failures => 0 }, "$what: the second is left alone");
	cmp_ok($moved{hits}, '>', 0, "$what: hits of the first device");
	cmp_ok($moved{hits}, '<', $pages, "$what: not of the second");
	return;
}

# How many pages of t are on the first device: those that are hit while the second one is not in use.
fc_to_flash($node, 't');
my %moved = counted('both devices');
cmp_ok($moved{hits}, '>=', $nearly_all, 'both devices: all of it is hit');

# It can't be read: the third failure in a row switches it off.
my $offset = -s $node->logfile;
my $errors = device('read_errors');
%moved = counted('read errors', 'store_read', 'error');
cmp_ok($moved{read_errors}, '>=', 3, 'read errors: three, and what else was under way');
is(device('read_errors') - $errors, $moved{read_errors}, 'read errors: all of the second device');
is(device('read_errors', 1), 0, 'read errors: none of the first');
cmp_ok($moved{hits}, '>', 0, 'read errors: hits of the first device');
cmp_ok($moved{hits}, '<', $pages, 'read errors: not of the second');
like(device("state || ' ' || reason"), qr/^off 3 failures in a row, the last: could not read \d+ bytes at offset \d+ of "\Q$second\E": Input\/output error/,
	'read errors: it is off');
$node->wait_for_log(qr/WARNING:  pg_flashcache does not use "\Q$second\E": 3 failures in a row/, $offset);
is($node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache'), 384, 'read errors: the slots of the first');
ok($node->poll_query_until('postgres', q{
	SELECT s.used = d.used FROM pg_stat_flashcache s, pg_stat_flashcache_device d WHERE d.device = 1}),
	'read errors: what the second has does not count');
like(enable(), qr/^could not enable the device: a page written to the flash device could not be read back: Input\/output error/,
	'read errors: not enabled while it fails');
fault('store_read', 'off');
goes_on('read errors');
is(enable(), '', 'read errors: enabled');
is(device('state'), 'active', 'read errors: it is on');
%moved = counted('read errors: back');
# what had been looked up there was filled elsewhere only if it was evicted meanwhile
is($moved{verify_failures}, 0, 'read errors: no page is wrong');
fc_to_flash($node, 't');
%moved = counted('read errors: filled');
cmp_ok($moved{hits}, '>=', $nearly_all, 'read errors: all of it is hit again');

# Wrong content: 16 pages in a row, and what it had is forgotten.
%moved = counted('wrong content', 'store_read', 'misplaced');
cmp_ok($moved{checksum_failures}, '>=', 16, 'wrong content: 16 pages, and what else was read with the last one');
is($moved{verify_failures}, 0, 'wrong content: none of them was a hit');
like(device("state || ' ' || reason"), qr/^off "\Q$second\E" returned wrong content for 16 pages in a row/, 'wrong content: it is off');
fault('store_read', 'off');
is(enable(), '', 'wrong content: enabled');
is(device('state, used < 50'), 'active|t', 'wrong content: it begins empty, but for what has come since');
fc_to_flash($node, 't');

# It can't be written to: filling goes on with the first one.
fault('store_write', 'error');
$node->safe_psql('postgres', q{CREATE TABLE w AS SELECT * FROM t; SELECT count(*) FROM w});
for (1 .. 50)
{
	last if device('state') eq 'off';
	fc_evict($node, 'w');
	$node->safe_psql('postgres', 'SELECT count(*) FROM w');
}
like(device("state || ' ' || reason"), qr/^off 3 failures in a row, the last: could not write/, 'write errors: it is off');
my %now = fc_stat($node, 'state');
is($now{state}, 'active', 'write errors: the cache is on');
fault('store_write', 'off');
is(enable(), '', 'write errors: enabled');
$node->safe_psql('postgres', 'DROP TABLE w');
is(query(), $all, 'write errors: the query is answered');

# It hangs.
fc_to_flash($node, 't');
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '300ms'");
$node->reload;
fc_writer_round($node);
my $timeouts = device('timeouts');
%moved = counted('hanging', 'store_read', 'delay:3000000');
is(device('timeouts') - $timeouts, $moved{timeouts}, 'hanging: counted for the device');
cmp_ok($moved{timeouts}, '>=', 1, 'hanging: somebody waited in vain');
like(device("state || ' ' || reason"), qr/^off the flash device did not answer for 300 ms/, 'hanging: it is off');
%now = fc_stat($node, 'state');
is($now{state}, 'active', 'hanging: the cache is on');
fault('store_read', 'off');
$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '60s'");
$node->reload;
fc_writer_round($node);
is(enable(), '', 'hanging: enabled');

# The first device fails: the others go on. It comes back with what it had, and the log is begun anew.
fc_to_flash($node, 't');
$offset = -s $node->logfile;
%moved = counted('the first', 'store_read', 'error', 1);
cmp_ok($moved{read_errors}, '>=', 3, 'the first: three errors, and what else was under way');
is(device('read_errors', 1), $moved{read_errors}, 'the first: of the first device');
like(device("state || ' ' || reason", 1), qr/^off 3 failures in a row, the last: could not read/, 'the first: it is off');
%now = fc_stat($node, 'state', 'switch_offs');
is_deeply(\%now, { state => 'active', switch_offs => 0 }, 'the first: the cache is on');
$node->wait_for_log(qr/WARNING:  pg_flashcache does not use "\Q@{[fc_flash_file($node)]}\E": 3 failures in a row/, $offset);
%moved = counted('the first: again');
is($moved{read_errors}, 0, 'the first: it is left alone');
cmp_ok($moved{hits}, '>', 0, 'the first: hits of the second device');
cmp_ok($moved{hits}, '<', $pages, 'the first: not of the first');
fc_failpoint($node, 'store_read', 'off');
fc_writer_round($node);
is(device('state', 1), 'active', 'the first: it is on again');
fc_to_flash($node, 't');
%moved = counted('the first: back');
cmp_ok($moved{hits}, '>=', $nearly_all, 'the first: all of it is hit again');

# A new writer does not find it: the same.
my $file = fc_flash_file($node);

sub new_writer
{
	my $pid = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'TERM', $pid;
	$node->poll_query_until('postgres', "SELECT writer_pid <> $pid FROM pg_stat_flashcache") or die 'no new writer';
	return;
}
rename $file, "$file.away" or die $!;
new_writer();
$node->poll_query_until('postgres', q{SELECT state = 'off' FROM pg_stat_flashcache_device WHERE device = 1}) or die 'the first is not off';
%now = fc_stat($node, 'state', 'switch_offs');
is_deeply(\%now, { state => 'active', switch_offs => 0 }, 'a new writer without the first: the cache is on');
%moved = counted('a new writer without the first');
cmp_ok($moved{hits}, '>', 0, 'a new writer without the first: hits of the second device');
rename "$file.away", $file or die $!;
fc_writer_round($node);
is(device('state', 1), 'active', 'a new writer: the first is on again');
fc_to_flash($node, 't');

# Both: then the cache is off, and comes back as a whole.
counted('both', 'store_read', 'error', 1);
is(device('state', 1), 'off', 'both: the first one first');
fc_failpoint($node, 'store_read', 'off');
%moved = counted('both: then', 'store_read', 'error', 2);
$node->poll_query_until('postgres', q{SELECT state = 'off' FROM pg_stat_flashcache}) or die 'the cache is not off';
is(device('state'), 'off', 'both: the second one is off, too');
like(device('reason', 1), qr/^3 failures in a row, the last: could not read/, 'both: the reason of the first');
fc_failpoint($node, 'store_read', 'off');
is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'both: enabled');
is(device('state', 1), 'active', 'both: the first one is on');
is(enable(), '', 'both: and the second');
fc_to_flash($node, 't');
%moved = counted('both: back');
cmp_ok($moved{hits}, '>=', $nearly_all, 'both: all of it is hit again');

# It is gone: a session that opens it finds that out.
unlink $second or die $!;
%moved = counted('gone');
is($moved{verify_failures}, 0, 'gone: no page is wrong');
like(device("state || ' ' || reason"), qr/^off could not open "\Q$second\E": No such file or directory/, 'gone: it is off');
like(enable(), qr/^could not enable the device: could not open "\Q$second\E": No such file or directory/, 'gone: it is not made anew');
ok(!-e $second, 'gone: there is none');

# Another file in its place is no flash cache.
append_to_file($second, 'x' x 5_000_000);
chmod 0600, $second;
like(enable(), qr/^could not enable the device: "\Q$second\E" holds something that is not a flash cache/, 'another file: refused');
is($node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')"), '', 'removed');
is(slurp_file($second), 'x' x 5_000_000, 'another file: left as it was');
is(query(), $all, 'removed: the query is answered');
is($node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_flashcache_device'), '1', 'removed: one device is left');
%now = fc_stat($node, qw(state switch_offs verify_failures));
is_deeply(\%now, { state => 'active', switch_offs => 1, verify_failures => 0 }, 'the cache was off once, and no page was wrong');
$control->quit;
$node->stop;

done_testing();

# Devices that hang together: a query waits once for all of them. Those that only might have hung are used again when they
# have answered, and a file of the kernel's own is no device.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { MB => 1 << 20, PAGES => 600 };

my $suspect = 'another device did not answer; this one is tried before it is used again';
my $hung    = 'the flash device did not answer for 1000 ms';

my $node = fc_new_node('together',
	size => '2MB',
	conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\n"
	  . "pg_flashcache.max_size = '8MB'\npg_flashcache.extents = off\n");
my @path = (undef, fc_flash_file($node), map { $node->basedir . "/$_" } qw(second third));
my @devices = (1 .. 3);

$node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$path[$_]', @{[2 * MB]})") for 2, 3;
fc_table($node, 'postgres', 't', 'v1', PAGES);
# They come back when the test wants them to, and suspect ones are tried then.
fc_failpoint($node, 'probe_due',   'error');
fc_failpoint($node, 'suspect_due', 'error');
my $control;

# A column of each device.
sub column
{
	my ($what) = @_;
	return (undef, split /\n/, $control->query_safe("SELECT coalesce(($what)::text, '-') FROM pg_stat_flashcache_device ORDER BY device"));
}

# A round of the writer, which does not try to bring the first device back: it finds that there is no such device.
sub writer_round
{
	foreach (1 .. 2)
	{
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT pg_flashcache_remove_device('/nowhere')");
		like($err, qr/there is no such device|nowhere/, 'a round of the writer');
	}
	return;
}

# A new session that has it began when the writer had been told.
sub wait_limit
{
	my ($limit) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '$limit'");
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', $limit) or die 'no reload';
	writer_round();
	return;
}

# The table is on all devices, and in no buffer. All are in use.
sub prepare
{
	$control->quit if $control;
	$control = fc_control($node);
	wait_limit('1min');
	foreach my $no (@devices)
	{
		next if (column('state'))[$no] eq 'active';
		$node->safe_psql('postgres', $no == 1 ? 'SELECT pg_flashcache_enable()' : "SELECT pg_flashcache_enable_device('$path[$no]')");
	}
	for (1 .. 50)
	{
		$node->safe_psql('postgres', 'SELECT count(val) FROM t');
		fc_evict($node, 't');
		last if fc_in_flash($node, 't') > 0.9 * PAGES;
	}
	is(join(' ', (column('state'))[@devices], (column('reason'))[@devices]), 'active active active - - -', 'all are in use');
	return;
}

# Each page by itself, and backwards: what is read in a row may be left to the disk, once a device has been slow.
my $alone = "SELECT count(x.val) FROM generate_series(@{[PAGES - 1]}, 0, -1) n, "
  . "LATERAL (SELECT val FROM t WHERE ctid = format('(%s,1)', n)::tid OFFSET 0) x";

# The table is read, while something goes wrong: how the columns of devices, and those of the cache, have moved. Nobody comes
# by between the fault and the query.
sub query
{
	my ($what, $session, @fault) = @_;
	my @reads    = column('reads');
	my @timeouts = column('timeouts');
	my %moved    = fc_delta(
		$node,
		sub {
			fc_failpoint($control, @fault) if @fault;
			is($session ? $session->query_safe($alone) : $node->safe_psql('postgres', $alone), PAGES, "$what: the query is answered");
		},
		qw(timeouts verify_failures));
	my @reads_now    = column('reads');
	my @timeouts_now = column('timeouts');
	is($moved{verify_failures}, 0, "$what: no page is wrong");
	fc_evict($node, 't');
	return {
		waited   => $moved{timeouts},
		reads    => [ undef, map { $reads_now[$_] - $reads[$_] } @devices ],
		timeouts => [ undef, map { $timeouts_now[$_] - $timeouts[$_] } @devices ] };
}

# Which one is off?
sub off
{
	my @state = column('state');
	return grep { $state[$_] eq 'off' } @devices;
}

# Exactly one has gone off, and the others are suspect and not read from.
sub others_are_suspect
{
	my ($what) = @_;
	my @off    = off();
	my @reason = column('reason');
	is(@off, 1, "$what: one is off");
	like($reason[ $off[0] ], qr/^$hung/, "$what: since it did not answer");
	my @others = grep { $_ != $off[0] } @devices;
	is(join('|', @reason[@others]), "$suspect|$suspect", "$what: the others are suspect");
	my $again = query("$what, again");
	is($again->{waited}, 0, "$what: nobody waits for the others");
	is("@{$again->{reads}}[@devices]", '0 0 0', "$what: none of them is read from");
	return ($off[0], @others);
}

# Those that have answered are used again; the one that has not is not.
sub others_are_back
{
	my ($what, $off, @others) = @_;
	wait_limit('1min');
	fc_failpoint($control, 'suspect_due', 'off');
	writer_round();
	fc_failpoint($control, 'suspect_due', 'error');
	is(join(' ', off()), $off, "$what: only that one is off");
	is(join(' ', (column('state'))[@others], (column('reason'))[@others]), 'active active - -', "$what: the others are used again");
	# what could not be written while they were suspect has cost pages their slots: each query brings the table there again
	my $now;
	for (1 .. 20)
	{
		$now = query("$what: then");
		is($now->{waited}, 0, "$what: they answer");
		last if !grep { $now->{reads}[$_] == 0 } @others;
	}
	cmp_ok($now->{reads}[$_], '>', 0, "$what: device $_ is read from") foreach @others;
	is($now->{reads}[$off], 0, "$what: device $off is not");
	return;
}

# A file that is a way to talk to the kernel.
foreach my $path ('/proc/self/mem', '/proc/pg_flashcache', -d '/sys/kernel' ? '/sys/kernel/pg_flashcache' : ())
{
	my ($rc, $out, $err) = $node->psql('postgres', "SELECT pg_flashcache_add_device('$path', @{[MB]})");
	isnt($rc, 0, "$path is refused");
	like($err, qr/"\Q$path\E" is on a file system of the kernel's own, which stores nothing/, "$path: the reason");
}
# All hang, for who has them open. One wait is in vain, whatever was under way.
prepare();
my $session = $node->background_psql('postgres');
is($session->query_safe('SELECT count(val) FROM t'), PAGES, 'a session has all devices open');
fc_evict($node, 't');
wait_limit('1s');
my $moved = query('all hang', $session, 'store_read', 'delay:8000000');
is($moved->{waited}, 1, 'all hang: one wait is in vain');
my ($off, @others) = others_are_suspect('all hang');
is($moved->{timeouts}[$off], 1, 'all hang: that for the device which is off');
fc_failpoint($control, 'store_read', 'off');
others_are_back('all hang, for a moment', $off, @others);
$session->quit;

# One hangs, the first one or another, and takes no other along.
foreach my $no (1, 3)
{
	prepare();
	wait_limit('1s');
	$moved = query("device $no hangs", undef, 'store_read', 'delay:8000000', $no);
	is("@{$moved->{timeouts}}[@devices]", join(' ', map { $_ == $no ? 1 : 0 } @devices), "device $no hangs: it is waited for once, and no other");
	($off, @others) = others_are_suspect("device $no hangs");
	is($off, $no, "device $no hangs: it is the one that is off");
	others_are_back("device $no hangs", $off, @others);
	fc_failpoint($control, 'store_read', 'off');
}

# All hang when they are opened.
prepare();
wait_limit('1s');
$moved = query('opened', undef, 'store_late', 'error');
is($moved->{waited}, 1, 'all hang while they are opened: one wait is in vain');
($off, @others) = others_are_suspect('opened');
fc_failpoint($control, 'store_late', 'off');
others_are_back('opened', $off, @others);

# All hang for good: the writer's trial is in vain, and that is the end of it.
prepare();
wait_limit('1s');
$moved = query('all hang for good', undef, 'store_read', 'delay:8000000');
is($moved->{waited}, 1, 'all hang for good: the query waits once');
my $before = fc_stat_one('timeouts');
fc_failpoint($control, 'suspect_due', 'off');
$node->poll_query_until('postgres', q{SELECT state = 'off' FROM pg_stat_flashcache}) or die 'the cache is not off';
is(fc_stat_one('timeouts') - $before, 2, 'all hang for good: each is tried once');
is(() = join("\n", (column('reason'))[@devices]) =~ /^$hung/gm, 3, 'all hang for good: each is off for that reason');
fc_failpoint($control, 'store_read', 'off');

$control->quit;
$node->stop('immediate');

sub fc_stat_one
{
	my ($what) = @_;
	my %now = fc_stat($node, $what);
	return $now{$what};
}

done_testing();

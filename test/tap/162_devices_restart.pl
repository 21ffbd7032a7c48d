# Entries on several devices survive an end of the server; a device that is gone, another one, or somebody else's loses
# only its own.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheDevices;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Nobody but the test reads pages, and none is written before it is evicted.
my $conf = "pg_flashcache.max_size = '16MB'\npg_flashcache.persistence = on\nmax_logical_replication_workers = 0\n"
  . "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nrestart_after_crash = on\n";
my $node = fc_new_node('main', streaming => 1, size => '3MB', conf => $conf);
my $base = $node->basedir;
my ($second, $third) = ("$base/second", "$base/third");

# More pages than fit on any of them.
my $pages = 500;
my $all   = "$pages|125250|5001";

# The clock hand goes round these small devices, and a page of a catalog may take the slot of one.
my $taken = 25;
$node->safe_psql('postgres', qq{
	CREATE TABLE t (n int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, $pages) n;
	SELECT pg_flashcache_add_device('$second', 3 << 20);
	SELECT pg_flashcache_add_device('$third', 3 << 20);
});
ok(-e $node->data_dir . '/pg_flashcache.devices', 'the list of devices is in the data directory');

# All of t on flash, none in shared buffers, and the log complete for the last checkpoint.
sub prepare
{
	fc_to_flash($node, 't');
	fc_stamp($node);
	return;
}

# After a start: the devices have been tried.
sub settled
{
	my (%state) = @_;
	fc_wait_active($node);
	while (my ($no, $state) = each %state)
	{
		$node->poll_query_until('postgres', "SELECT state = '$state' FROM pg_stat_flashcache_device WHERE device = $no")
		  or die "device $no is not $state: " . device($node, $no, 'state, reason');
	}
	return;
}

# How many pages of t are read from flash.
sub hits
{
	my ($what) = @_;
	my $sql = "SELECT coalesce(sum(hits), 0) FROM pg_stat_flashcache_relation WHERE relid = 't'::regclass";
	my $had = $node->safe_psql('postgres', $sql);
	is($node->safe_psql('postgres', 'SELECT count(*), sum(n), min(length(v)) FROM t'), $all, "$what: the query is answered");
	my %now = fc_stat($node, qw(verify_failures checksum_failures));
	is_deeply(\%now, { verify_failures => 0, checksum_failures => 0 }, "$what: no page was wrong");
	return $node->safe_psql('postgres', $sql) - $had;
}

my %active = (1 => 'active', 2 => 'active', 3 => 'active');

# A clean restart, and a crash.
prepare();
cmp_ok(device($node, $_, 'used'), '>', 0, "pages on device $_") for 1 .. 3;
$node->restart;
settled(%active);
cmp_ok(hits('a clean restart'), '>=', $pages - $taken, 'a clean restart: all of it');
prepare();
$node->stop('immediate');
$node->start;
settled(%active);
cmp_ok(hits('a crash'), '>=', $pages - $taken, 'a crash: all of it');

# What was changed after the checkpoint is not read from flash.
prepare();
$node->safe_psql('postgres', 'UPDATE t SET n = -n WHERE n <= 20; UPDATE t SET n = -n WHERE n < 0; VACUUM t');
$pages = $node->safe_psql('postgres', q{SELECT pg_relation_size('t') / 8192});
$node->stop('immediate');
$node->start;
settled(%active);
cmp_ok(hits('a crash after changes'), '<', $pages, 'a crash after changes: not all of it');
$node->safe_psql('postgres', 'VACUUM FULL t');
$pages = $node->safe_psql('postgres', q{SELECT pg_relation_size('t') / 8192});

# One is gone: the others have what they had.
prepare();
my %had = split /[|\n]/, devices($node, 'device, used');
$node->stop;
rename $second, "$second.away" or die $!;
my $offset = -s $node->logfile;
$node->start;
settled(%active, 2 => 'off');
like(slurp_file($node->logfile, $offset), qr/WARNING:  pg_flashcache does not use "\Q$second\E": could not open "\Q$second\E": No such file or directory/,
	'gone: a warning');
my $hits = hits('gone');
cmp_ok($hits, '>=', $pages - $had{2} - $taken, 'gone: the others have all that they had');
cmp_ok($hits, '<', $pages, 'gone: what was on it is not there');
# And it is back while the server runs.
rename "$second.away", $second or die $!;
$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
is(device($node, 2, 'state'), 'active', 'back: it is in use');
cmp_ok(device($node, 2, 'used'), '>', 0, 'back: with pages');
fc_evict($node, 't');
cmp_ok(hits('back'), '>', 0, 'back: pages are read from flash');

# Another one in its place: a flash cache, too, but not with what this server wrote.
prepare();
%had = split /[|\n]/, devices($node, 'device, used');
$node->stop;
system_or_bail('cp', $third, "$second");
$offset = -s $node->logfile;
$node->start;
settled(%active);
unlike(slurp_file($node->logfile, $offset), qr/uses "\Q$second\E"[^\n]*\n[^\n]*It has kept/, 'replaced: nothing is kept');
$hits = hits('replaced');
cmp_ok($hits, '>=', $pages - $had{2} - $taken, 'replaced: the others have all that they had');
cmp_ok($hits, '<', $pages, 'replaced: it has nothing');

# Somebody else has it.
prepare();
%had = split /[|\n]/, devices($node, 'device, used');
$node->stop;
open(my $held, '+<', $third) or die $!;
flock($held, 6) or die $!;
$node->start;
settled(%active, 3 => 'off');
like(device($node, 3, 'reason'), qr/is in use by another server/, 'held: the reason');
$hits = hits('held');
cmp_ok($hits, '>=', $pages - $had{3} - $taken, 'held: the others have all that they had');
close $held;
$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$third')");

# A copy of the data directory on the same machine: it does not get the devices of the first server, and starts.
$node->backup('copy');
my $copy = PostgreSQL::Test::Cluster->new('copy');
$copy->init_from_backup($node, 'copy', has_streaming => 1);
$copy->append_conf('postgresql.conf', fc_conf($copy, size => '3MB', conf => $conf));
$copy->start;
fc_wait_active($copy);
$copy->poll_query_until('postgres', q{SELECT count(*) = 2 FROM pg_stat_flashcache_device WHERE state = 'off' AND reason LIKE '%is in use by another server'})
  or die 'the copy has got the devices';
is($copy->safe_psql('postgres', 'SELECT count(*), min(length(v)) FROM t'), '500|5001', 'a copy: the query is answered');
$copy->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$_')") for $second, $third;
is($copy->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_flashcache_device'), '1', 'a copy: it has let go of them');
$copy->stop;
is(devices($node, 'state'), "active\nactive\nactive", 'the first server has them');

# Another max_size: all begin empty, and are in use. Too small a one: what does not fit is off, and says so.
$node->append_conf('postgresql.conf', "pg_flashcache.max_size = '9MB'");
$node->restart;
settled(%active);
# The last chunk of all is short: a device grows within its own last one all the same.
$node->append_conf('postgresql.conf', "pg_flashcache.max_size = '9728kB'");
$node->restart;
settled(%active);
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$third'); SELECT pg_flashcache_add_device('$third', (2 << 20) + (256 << 10))");
fc_to_flash($node, 't');
is($node->safe_psql('postgres', "SELECT pg_flashcache_resize_device('$third', 3 << 20)"), '', 'it has grown out of the last chunk of all');
my %grown = fc_stat($node, 'slots');
is($grown{slots}, 3 * 384, 'with all its slots');
fc_to_flash($node, 't');
cmp_ok(hits('grown'), '>=', $pages - $taken, 'grown: all of it');
$node->append_conf('postgresql.conf', "pg_flashcache.max_size = '6MB'");
$node->restart;
settled(1 => 'active', 2 => 'active', 3 => 'off');
like(device($node, 3, 'reason'), qr/^3 MB are more than pg_flashcache.max_size leaves/, 'too small a max_size');
(undef, undef, my $refused) = $node->psql('postgres', 'SELECT pg_flashcache_scrub()');
like($refused, qr/ERROR: .*\nDETAIL:  \d+ slots were erased, 384 could not be written/, 'a scrub says that it does not reach what is out of place');
$node->append_conf('postgresql.conf', "pg_flashcache.max_size = '16MB'");
$node->restart;
settled(%active);

# The server is killed while a device is being changed, at whatever moment.
prepare();
foreach my $round (1 .. 3)
{
	my @changes = map { ('-c', "SELECT pg_flashcache_resize_device('$second', $_ << 20)") } (1, 3, 2, 3) x 200;
	my ($out, $err) = ('', '');
	my $session = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), @changes ], '<', \undef, '>', \$out, '2>', \$err);
	$node->safe_psql('postgres', 'SELECT count(*) FROM t') for 1 .. $round * 2;
	$node->stop('immediate');
	$session->finish;
	$node->start;
	settled(1 => 'active', 3 => 'active');
	# What it was when the list was written last, or what the server has just begun with.
	$node->poll_query_until('postgres', q{SELECT state = 'active' FROM pg_stat_flashcache_device WHERE device = 2})
	  or die device($node, 2, 'state, reason');
	my $hits = hits("killed while it changes, $round");
	cmp_ok($hits, '>', 0, "killed while it changes, $round: pages of the others");
	is(-s $second, 65536 + device($node, 2, 'size'), "killed while it changes, $round: the file is as long as the list says");
}

# Disabled and removed is for good.
$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$second'); SELECT pg_flashcache_remove_device('$third')");
$node->restart;
settled(1 => 'active', 2 => 'disabled');
is(devices($node, 'count(*)'), '2', 'removed: it stays removed');
is(device($node, 2, 'state, used'), 'disabled|0', 'disabled: it stays disabled');
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");
ok(!-e $node->data_dir . '/pg_flashcache.devices', 'no list when there is one device');

# A list that is damaged is no list.
$node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$third', 3 << 20)");
$node->stop;
open(my $list, '+<', $node->data_dir . '/pg_flashcache.devices') or die $!;
seek($list, 3000, 0);
print $list 'x';
close $list;
$offset = -s $node->logfile;
$node->start;
settled(1 => 'active');
is(devices($node, 'count(*)'), '1', 'damaged: one device');
like(slurp_file($node->logfile, $offset), qr/WARNING:  pg_flashcache cannot use "pg_flashcache\.devices" in the data directory/, 'damaged: a warning');
$node->stop;
chmod(0, $node->data_dir . '/pg_flashcache.devices') or die $!;
$offset = -s $node->logfile;
$node->start;
settled(1 => 'active');
like(slurp_file($node->logfile, $offset), qr/WARNING:  pg_flashcache cannot use "pg_flashcache\.devices" in the data directory: it cannot be read/, 'not readable: a warning');
$node->stop;

done_testing();

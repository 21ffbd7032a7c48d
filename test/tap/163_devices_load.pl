# Devices come and go while pages are read from them: a reader that has looked up a slot finds out that it has been moved,
# and no page is ever wrong.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '1MB', conf => "pg_flashcache.max_size = '32MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n"
	  . "max_logical_replication_workers = 0\n");
my $base   = $node->basedir;
my $second = "$base/second";
my $third  = "$base/third";

# More than fit on the first device.
my $pages  = 300;

$node->safe_psql('postgres', qq{
	CREATE TABLE t (n int PRIMARY KEY, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, n || repeat('x', 5000) FROM generate_series(1, $pages) n;
	SELECT pg_flashcache_add_device('$second', 6 << 20);
});

# A reader of the second device stands between R1 and R2, or between R2 and R3, while that goes: it has a miss, which is no
# error.
my $control = fc_control($node);
$control->query_safe("EXPLAIN SELECT pg_flashcache_remove_device(''), pg_flashcache_add_device('', 1), pg_flashcache_resize_device('', 1), pg_flashcache_disable_device(''), pg_flashcache_enable_device('')");

sub stand_at
{
	my ($point, $what, $change) = @_;
	my @counters = qw(read_errors checksum_failures verify_failures switch_offs);

	fc_to_flash($node, 't');
	my $reader = $node->background_psql('postgres');
	$reader->query_safe("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(v) FROM t WHERE n = 0; EXPLAIN SELECT sum(n), min(length(v)) FROM t WHERE n > 0");
	fc_evict($node, 't');
	# What it needs of the catalogs it has read by then, or it would be the first to stand there.
	$control->query_safe("EXPLAIN $change; EXPLAIN SELECT fc_failpoint('', ''), fc_failpoint_wait('')");
	my %before = fc_stat($node, @counters);
	fc_failpoint($control, $point, 'pause', 2);
	$reader->query_until(qr/started/, "\\echo started\nSELECT 'sum ' || sum(n), min(length(v)) FROM t WHERE n > 0;\n\\echo answered\n");
	fc_failpoint_wait($control, $point);
	$control->query_safe($change);
	fc_failpoint($control, $point, 'off');
	my $answer = $reader->query_until(qr/answered/, '');
	like($answer, qr/sum 45150\|5001/, "$what: the query is answered");
	my %after = fc_stat($node, @counters);
	is_deeply(\%after, \%before, "$what: nothing went wrong");
	$reader->quit;
	return;
}

foreach my $point ('read_looked_up', 'read_done')
{
	stand_at($point, "$point, removed", "SELECT pg_flashcache_remove_device('$second')");
	$control->query_safe("SELECT pg_flashcache_add_device('$second', 6 << 20)");
	stand_at($point, "$point, moved", "SELECT pg_flashcache_remove_device('$second'), pg_flashcache_add_device('$third', 7 << 20)");
	$control->query_safe("SELECT pg_flashcache_remove_device('$third'), pg_flashcache_add_device('$second', 6 << 20)");
	stand_at($point, "$point, smaller", "SELECT pg_flashcache_resize_device('$second', 4 << 20)");
	stand_at($point, "$point, larger", "SELECT pg_flashcache_resize_device('$second', 6 << 20)");
	stand_at($point, "$point, disabled", "SELECT pg_flashcache_disable_device('$second')");
	$control->query_safe("SELECT pg_flashcache_enable_device('$second')");
}

# Under load: four sessions read and write, each page that comes from flash is compared with the disk.
$node->run_log([ 'pgbench', '--initialize', '--quiet', '--scale=2', '--port', $node->port, '--host', $node->host, 'postgres' ]);
my ($out, $err) = ('', '');
my $load = IPC::Run::start(
	[ 'pgbench', '--no-vacuum', '--client=4', '--transactions=1500', '--port', $node->port, '--host', $node->host, 'postgres' ],
	'<', \undef, '>', \$out, '2>', \$err);
my @changes = (
	"pg_flashcache_add_device('$third', 6 << 20)",
	"pg_flashcache_resize_device('$second', 10 << 20)",
	"pg_flashcache_disable_device('$second')",
	"pg_flashcache_resize_device('$third', 1 << 20)",
	"pg_flashcache_enable_device('$second')",
	"pg_flashcache_resize_device('$second', 4 << 20)",
	"pg_flashcache_remove_device('$third')",
);
my $rounds = 0;
do
{
	$node->safe_psql('postgres', "SELECT $_") foreach @changes;
	$rounds++;
	$load->pump_nb;
} while ($load->pumpable && $rounds < 1000);
my $ended = $load->finish;
ok($ended, "the load has ended well") or diag $err;
is($node->safe_psql('postgres', 'SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history), (SELECT count(*) FROM pgbench_history)'),
	't|6000', 'all that was done is there');
my %now = fc_stat($node, qw(read_errors write_errors checksum_failures verify_failures switch_offs slots_retired));
is_deeply(\%now, { map { $_ => 0 } keys %now }, 'nothing went wrong');
cmp_ok($node->safe_psql('postgres', 'SELECT sum(reads) FROM pg_stat_flashcache_device WHERE device > 1'), '>', 0, 'they were used');
fc_is_clean($node);
$control->quit;
$node->stop;

done_testing();

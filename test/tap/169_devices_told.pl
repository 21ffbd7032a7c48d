# What is said of devices that were added is said of them, not of the first one: while the cache is disabled, and when files
# may not be so large.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant MB => 1 << 20;

my $node = fc_new_node('main',
	size => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.extents = off\n");
my $second = $node->basedir . '/second';
my $third  = $node->basedir . '/third';

sub enable
{
	my ($how) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $how");
	return;
}

# ---- the cache is disabled ----

my $off     = 'disabled|pg_flashcache.enabled is off|t';
my $columns = 'device, state, reason, next_probe IS NULL';
add($node, $second, 6 * MB);
add($node, $third, MB);
$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$third')");
my $by_itself = '3|disabled|it was disabled by pg_flashcache_disable_device()|t';
enable('off');
$node->reload;
fc_wait_state($node, 'disabled');
is(devices($node, $columns), "1|$off\n2|$off\n$by_itself", 'all are disabled, and why');
$node->restart;
fc_wait_state($node, 'disabled');
is(devices($node, $columns), "1|$off\n2|$off\n$by_itself", 'also after a restart');
enable('on');
$node->reload;
fc_wait_active($node);
wait_device_state($node, 2, 'active');
is(devices($node, $columns), "1|active||t\n2|active||t\n$by_itself", 'and in use again');

# ---- a limit of file sizes ----

# Of the process that has the second device open.
my %process = device_processes($node);
my ($process) = grep { grep { (readlink($_) // '') eq $second } glob "/proc/$_/fd/*" } keys %process;
system_or_bail('prlimit', "--pid=$process", '--fsize=' . (3 * MB) . ':unlimited');
my $control = fc_control($node);
fc_failpoint($control, 'probe_due', 'error');
my $offset = -s $node->logfile;
$node->safe_psql('postgres', q{
	CREATE TABLE t (n int, v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT n, repeat('x', 5000) FROM generate_series(1, 1000) n;
	CHECKPOINT});
fc_evict($node, 't');
$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('t')");
wait_device_state($node, 2, 'off');
like(device($node, 2, 'reason'), qr/^3 failures in a row, the last: could not write \d+ bytes at offset \d+ of "\Q$second\E": File too large$/, 'it is off');
is(device($node, 1, 'state'), 'active', 'the first one is not');
my ($hint) = slurp_file($node->logfile, $offset) =~ /does not use "\Q$second\E": .*?HINT:  ([^\n]*)/s;
is($hint, 'Raise the limit of file sizes (ulimit -f), and restart the server; or remove the device by '
	  . 'pg_flashcache_remove_device(), and add it again with a smaller size. pg_flashcache_enable_device() tries at once.', 'what helps it');
system_or_bail('prlimit', "--pid=$process", '--fsize=unlimited:unlimited');
$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
is(device($node, 2, 'state'), 'active', 'without the limit it is used again');

$control->quit;
$node->stop;

done_testing();

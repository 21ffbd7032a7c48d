# The log and several devices: a flush in which one of them hangs says nothing of those that have answered. A device that is
# another one than before the log is loaded gets none of its records, whoever loads it: another writer, another server. A log
# is waited for from when the cache is switched on.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { MB => 1 << 20, PAGES => 400 };

# Short for a first device that is not there: nothing comes to it meanwhile.
$ENV{FC_FIRST_PATIENCE_S} = 1;
my $node = fc_new_node('main',
	size => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\npg_flashcache.persistence = on\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n"
	  . "autovacuum = off\nmax_logical_replication_workers = 0\npg_flashcache.extents = off\npg_flashcache.io_timeout = '1min'\n");
my ($first, $second, $third) = (fc_flash_file($node), map { $node->basedir . "/$_" } qw(second third));
add($node, $_, 2 * MB) foreach $second, $third;
fill($node, 't', 700, 'mark', $second, $third);
my $control = fc_control($node);

# ---- a flush ----

sub wait_limit
{
	my ($limit) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '$limit'");
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', $limit) or die 'no reload';
	fc_writer_round($node);
	return;
}

fc_failpoint($control, 'probe_due', 'error');
fc_failpoint($control, 'suspect_due', 'error');
is(devices($node, 'device, state, reason'), "1|active|\n2|active|\n3|active|", 'all are in use');
wait_limit('3s');
fc_failpoint($control, 'store_sync', 'delay:9000000', 2);
# a stamp: the writer flushes all of them
$node->safe_psql('postgres', 'CHECKPOINT');
wait_device_state($node, 2, 'off');
is(devices($node, "device, state, reason LIKE '%did not answer%'"), "1|active|\n2|off|t\n3|active|", 'one hangs in a flush: those that have answered are not suspect');
fc_failpoint($control, $_, 'off') foreach qw(store_sync suspect_due);
wait_limit('1min');
$node->poll_query_until('postgres', "SELECT pg_flashcache_enable_device('$second')", '') or die 'it can not be enabled';
fc_failpoint($control, 'probe_due', 'off');
$control->quit;

# ---- another device, before the log is loaded ----

# The second one is put back to what it was when it was opened: that is another one.
# To remove one writes no records: nothing else comes to its slots.
fc_stamp($node);
fc_writer_round($node);
my $bytes = $node->safe_psql('postgres', 'SELECT log_bytes FROM pg_stat_flashcache_persistence');
cmp_ok(device($node, 3, 'used'), '>', 100, 'there are pages on the third one');
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$third')");
fc_writer_round($node) for 1 .. 3;
is($node->safe_psql('postgres', 'SELECT log_bytes FROM pg_stat_flashcache_persistence'), $bytes, 'their removal writes nothing to the log');
$node->stop;
system_or_bail('cp', $second, "$second.copy");
$node->start;
fc_wait_active($node);
wait_device_state($node, 2, 'active');
fill($node, 'u', PAGES, 'more', $first, $second);
fc_stamp($node);
cmp_ok(device($node, $_, 'used'), '>', 100, "there are pages on device $_") foreach 1, 2;
$node->stop;
rename "$second.copy", $second or die $!;
rename $first, "$first.away" or die $!;
mkdir $first or die $!;

# The first one is not there, and the second one is opened, and fails its trial.
sub starts_without_first
{
	local $ENV{FC_ARM} = 'store_write error';
	$node->start;
	wait_device_state($node, 2, 'off');
	fc_wait_state($node, 'off');
	is($node->safe_psql('postgres', "SELECT refused IS NULL OR refused = '' FROM pg_stat_flashcache_persistence"), 't', 'the log has not been looked at');
	return;
}
starts_without_first();
my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
kill 'TERM', $writer;
$node->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache") or die 'no new writer';
$node->stop('immediate');
starts_without_first();

# The first one is back.
rmdir $first or die $!;
rename "$first.away", $first or die $!;
my $offset = -s $node->logfile;
fc_failpoint($node, 'store_write', 'off');
$node->poll_query_until('postgres', 'SELECT pg_flashcache_enable()', 't') or die 'it can not be enabled';
cmp_ok($node->safe_psql('postgres', 'SELECT restored FROM pg_stat_flashcache_persistence'), '>', 100, 'the log is loaded');
$node->poll_query_until('postgres', "SELECT pg_flashcache_enable_device('$second')", '') or die 'it can not be enabled';
is(device($node, 2, 'state'), 'active', 'the second one is in use');
unlike(slurp_file($node->logfile, $offset), qr/uses "\Q$second\E"[^\n]*\n[^\n]*It has kept/, 'and begins empty');
fc_evict($node, 'u');
is($node->safe_psql('postgres', 'SELECT count(*), sum(n), min(length(val)) FROM u'), PAGES . '|80200|5004', 'the query is answered');
my %now = fc_stat($node, qw(checksum_failures slots_retired));
is_deeply(\%now, { checksum_failures => 0, slots_retired => 0 }, 'no page was wrong');

# What is written there from now on is in the log.
fill($node, 'v', PAGES, 'then', $first, $second);
fc_stamp($node);
$offset = -s $node->logfile;
$node->restart;
fc_wait_active($node);
wait_device_state($node, 2, 'active');
like(slurp_file($node->logfile, $offset), qr/uses "\Q$second\E"[^\n]*\n[^\n]*It has kept/, 'a clean restart: the second one has kept pages');

# ---- how long the log is waited for ----

# The cache is disabled for longer than that, and then the first device fails once more: that is the first failure since.
sub set_enabled
{
	my ($enabled) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $enabled");
	$node->reload;
	return;
}
fill($node, 'w', PAGES, 'last', $first, $second);
$node->stop;
chmod 0644, $first or die $!;
{
	local $ENV{FC_ARM} = 'probe_due error';
	$node->start;
}
fc_wait_state($node, 'off');
set_enabled('off');
fc_wait_state($node, 'disabled');
sleep 2;
set_enabled('on');
$node->poll_query_until('postgres', q{SELECT state IN ('off', 'active') FROM pg_stat_flashcache}) or die 'it is not switched on';
chmod 0600, $first or die $!;
is($node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache'), 'off', 'switched on again: the log is waited for');
ok($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 'the first device is back');
cmp_ok($node->safe_psql('postgres', 'SELECT restored FROM pg_stat_flashcache_persistence'), '>', 100, 'the log is loaded');
$node->stop;

done_testing();

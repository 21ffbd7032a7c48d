# Forgetting all pages is done in steps. Between them the writer goes on, or at least sees that it is to stop; whatever ends it
# there, nothing that was to be forgotten is read from flash.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant { MB => 1 << 20, PAGES => 200 };

# 512 slots: eight steps.
$ENV{FC_PURGE_STEP} = 64;
my $node = fc_new_node('main',
	size => '4MB',
	conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.extents = off\n");
my ($first, $second) = (fc_flash_file($node), $node->basedir . '/second');
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', PAGES);
fc_table($node, 'postgres', 'u', 'v1', 20);
my ($t, $u) = map { fc_tag($node, 'postgres', $_) } qw(t u);
my $control = fc_control($node);

sub set
{
	my ($setting, $value) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.$setting = $value");
	$node->reload;
	return;
}

sub writer
{
	return $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
}

sub end_writer
{
	my $pid = writer();
	kill 'TERM', $pid or die $!;
	$node->poll_query_until('postgres', "SELECT writer_pid <> $pid FROM pg_stat_flashcache WHERE writer_pid IS NOT NULL") or die 'no new writer';
	return;
}

# Two rounds of the writer, also of a cache that is disabled: it finds that there is no such device.
sub rounds
{
	for (1 .. 2) { $node->psql('postgres', "SELECT pg_flashcache_remove_device('/nowhere')") }
	return;
}

sub used
{
	return { fc_stat($node, 'used') }->{used};
}

sub kept_since
{
	my ($offset) = @_;
	return scalar(() = slurp_file($node->logfile, $offset) =~ /It has kept/g);
}

# ---- disabled ----

fc_warm($node, undef, 'postgres', 't', 'u');
my $had = used();
cmp_ok($had, '>=', PAGES + 20, 'both tables are on flash');
fc_failpoint($control, 'purge_step', 'error');
set('enabled', 'off');
fc_wait_state($node, 'disabled');
rounds();
is(used(), $had, 'disabled: nothing has been forgotten yet');
my %moved = fc_delta($node, sub { fc_fetch($node, 'postgres', 't', PAGES) }, 'hits');
is($moved{hits}, 0, 'disabled: no page is hit');
%moved = fc_delta($node, sub { fc_rewrite_rows($node, 'postgres', 'u', 'v2'); fc_push_out($node, $u) }, 'eviction_invalidated');
is($moved{eviction_invalidated}, 20, 'disabled: what is written is invalidated meanwhile');

# Who wants it to be erased waits, and whoever wants it to be on.
my $erased = $node->safe_psql('postgres', 'SELECT slots_erased FROM pg_stat_flashcache');
my $asked = ask($node, 'SELECT slots_erased FROM pg_flashcache_scrub(true)');
set('enabled', 'on');
rounds();
is($node->safe_psql('postgres', 'SELECT state, slots_erased FROM pg_stat_flashcache'), "disabled|$erased", 'disabled: who wants more waits for that');

# A new writer begins anew.
end_writer();
rounds();
is($node->safe_psql('postgres', 'SELECT state, used FROM pg_stat_flashcache'), 'disabled|' . ($had - 20), 'disabled, a new writer: the rest is still there');
answer($asked);
my $offset  = -s $node->logfile;
my $enabled = ask($node, 'SELECT pg_flashcache_enable()');
rounds();
fc_failpoint($control, 'purge_step', 'off');
like(answer($enabled), qr/^t/, 'enabled again: who asks for that has it');
fc_wait_active($node);
is(kept_since($offset), 0, 'enabled again: it begins empty');
fc_is_gone($node, $t, 'enabled again: no page is left');
fc_is_read($node, 'postgres', 'u', 'v2', 20, 'enabled again: the rows are right', 'any');

# ---- the content is in doubt, and the writer ends before all of it is forgotten ----

fc_failpoint($control, 'probe_due', 'error');
fc_warm($node, undef, 'postgres', 't');
fc_failpoint($control, 'store_read', 'misplaced');
fc_fetch($node, 'postgres', 't', PAGES);
fc_failpoint($control, 'store_read', 'off');
fc_wait_state($node, 'off');
like($node->safe_psql('postgres', 'SELECT reason FROM pg_stat_flashcache'), qr/wrong content for 16 pages in a row/, 'in doubt');
fc_failpoint($control, 'purge_step', 'error');
$asked = ask($node, 'SELECT pg_flashcache_enable()');
end_writer();
fc_failpoint($control, 'purge_step', 'off');
answer($asked);
$offset = -s $node->logfile;
is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', 'in doubt, a new writer: it is active');
is(kept_since($offset), 0, 'in doubt, a new writer: it begins empty');
fc_is_gone($node, $t, 'in doubt, a new writer: no page is left');

# ---- another device beyond the first one ----

$node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$second', @{[4 * MB]})");
sub on_second { return device($node, 2, 'used') }
my $tables = 0;
sub fill_both
{
	for (1 .. 50)
	{
		return if on_second() > 20;
		my $table = 'more' . ++$tables;
		fc_table($node, 'postgres', $table, 'v1', 100);
		for (1 .. 2)
		{
			fc_fetch($node, 'postgres', $table, 100);
			fc_push_out($node, fc_tag($node, 'postgres', $table));
		}
	}
	die 'nothing comes to the second device';
}

# It is off, and another file is there.
sub replace_second
{
	my $state = $node->safe_psql('postgres', "SELECT state FROM pg_stat_flashcache_device WHERE device = 2");
	if ($state eq 'active')
	{
		# its process ends, and the writer asks for it
		my %now = device_processes($node);
		my ($pid) = grep { my $p = $_; grep { (readlink $_ // '') eq $second } glob "/proc/$p/fd/*" } keys %now;
		kill 'KILL', $pid or die 'no process';
		$node->psql('postgres', 'SELECT pg_flashcache_scrub()');
		wait_device_state($node, 2, 'off');
	}
	unlink $second or die $!;
	append_to_file($second, '');
	chmod 0600, $second or die $!;
	return;
}

fill_both();
replace_second();
my $left = $node->safe_psql('postgres', 'SELECT count(*) FROM pg_stat_flashcache_device WHERE device = 2 AND state = \'off\'');
is($left, 1, 'another file: the device is off');
fc_failpoint($control, 'purge_step', 'error', 2);
$asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
usleep(100_000) while -s $second < 4 * MB;
fc_warm($node, undef, 'postgres', 'u');
fc_is_read($node, 'postgres', 'u', 'v2', 20, 'another file: the writer fills the first device meanwhile');
isnt(device($node, 2, 'state'), 'active', 'another file: it is not used before it has been emptied');
fc_failpoint($control, 'purge_step', 'off');
is(answer($asked), "\n", 'another file: it is enabled');
is(device($node, 2, 'state'), 'active', 'another file: it is in use');

# Turned away from while it is emptied.
fill_both();
replace_second();
fc_failpoint($control, 'purge_step', 'error', 2);
$asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
usleep(100_000) while -s $second < 4 * MB;
set('enabled', 'off');
fc_wait_state($node, 'disabled');
like(answer($asked), qr/could not enable the device: the cache was disabled meanwhile/, 'emptied: the cache is disabled');
fc_failpoint($control, 'purge_step', 'off');
set('enabled', 'on');
fc_wait_active($node);
wait_device_state($node, 2, 'active');
fc_is_read($node, 'postgres', 't', 'v1', PAGES, 'emptied: the rows are right', 'any');
$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");

# ---- another first device, and the server is stopped ----

fc_warm($node, undef, 'postgres', 't');
kill 'KILL', fc_device_process($node) or die 'no device process';
$node->psql('postgres', 'SELECT pg_flashcache_scrub()');
fc_wait_state($node, 'off');
unlink $first or die $!;
fc_failpoint($control, 'purge_step', 'error');
$asked = ask($node, 'SELECT pg_flashcache_enable()');
usleep(100_000) while !-s $first;
is({ fc_stat($node, 'used') }->{used} >= PAGES, 1, 'another first device: its pages are still there');
$control->quit;
$node->stop;
pass('the server stops all the same');
answer($asked);
$node->start;
fc_wait_active($node);
my %now = fc_stat($node, qw(state verify_failures));
is_deeply(\%now, { state => 'active', verify_failures => 0 }, 'no page was wrong');
$node->stop;

done_testing();

# Entries survive kill -9 within the steps of src/warm.md, and what other programs and people do to a data directory does
# not make them stale: a group, a stamp, loading and recovery are interrupted; fsync is off for a moment; pg_rewind,
# pg_upgrade; a crashed primary that becomes a standby; a standby that is set back.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my $conf  = "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\n"
  . "checkpoint_timeout = 1h\nrestart_after_crash = off\n";

# All of both tables on flash, and the log complete for the last checkpoint.
sub prepare
{
	my ($server) = @_;
	fc_warm($server, undef, 'postgres', 't', 'u');
	fc_stamp($server);
	return;
}

sub refused
{
	my ($server) = @_;
	return $server->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence');
}

# Starts; what a test arms in this way stands before anybody can connect.
sub start
{
	my ($server, $armed) = @_;
	local $ENV{FC_ARM} = $armed // '';
	$server->start;
	return if $armed;
	fc_wait_active($server);
	return;
}

# It has started, all of `t` is there, and `u` is right.
sub is_warm
{
	my ($server, $label, $name) = @_;
	is(refused($server), '', "$name: the log is loaded");
	fc_is_warm($server, fc_tag($server, 'postgres', 't'), $pages, "$name: every page is restored");
	fc_is_read($server, 'postgres', 't', 'v1',   $pages, "$name: and read from flash, and right");
	fc_is_read($server, 'postgres', 'u', $label, $pages, "$name: the other table is right", 'any');
	is_quiet($server);
	return;
}

sub is_cold
{
	my ($server, $reason, $label, $name) = @_;
	like(refused($server), $reason, "$name: refused");
	fc_is_read($server, 'postgres', 'u', $label, $pages, "$name: the table is right", 'any');
	is_quiet($server);
	return;
}

sub is_quiet
{
	my ($server) = @_;
	my %trouble = fc_stat($server, qw(verify_failures checksum_failures read_errors write_errors slots_retired));
	is_deeply([ grep { $trouble{$_} } keys %trouble ], [], 'nothing went wrong');
	return;
}

my $node = fc_new_node('main', size => '32MB', conf => $conf);
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', $pages);
fc_table($node, 'postgres', 'u', 'v1', $pages);

# In a group, before and after its blocks: the stamp before it counts.
my $version = 1;
foreach my $point ('warm_group', 'warm_blocks')
{
	prepare($node);
	$version++;
	fc_rewrite_rows($node, 'postgres', 'u', "v$version");
	my $control = fc_control($node);
	fc_failpoint($control, $point, 'pause');
	# so many pages that a group is due
	fc_table($node, 'postgres', "many$version", 'v1', 400);
	fc_push_out($node, fc_tag($node, 'postgres', "many$version"));
	fc_failpoint_wait($control, $point);
	fc_kill_server($node);
	$control->{run}->finish;
	start($node);
	is_warm($node, "v$version", "kill -9 in a group, at $point");
}

# In a stamp, between map and root: pg_control shows a checkpoint that has none.
{
	prepare($node);
	$version++;
	fc_rewrite_rows($node, 'postgres', 'u', "v$version");
	my $control = fc_control($node);
	fc_failpoint($control, 'warm_map', 'pause');
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_failpoint_wait($control, 'warm_map');
	fc_kill_server($node);
	$control->{run}->finish;
	start($node);
	is_cold($node, qr/^its log is of checkpoint /, "v$version", 'kill -9 in a stamp');
}

# While the log is loaded, after a clean stop: the log is left alone. What has changed meanwhile recovery finds.
prepare($node);
$node->stop;
start($node, 'warm_load pause');
fc_failpoint_wait($node, 'warm_load');
$version++;
fc_rewrite_rows($node, 'postgres', 'u', "v$version");
fc_kill_server($node);
start($node);
is_warm($node, "v$version", 'kill -9 in loading, after a clean stop');

# The writer ends while it loads the log: the next one loads the rest, and says how much there is.
prepare($node);
$node->stop;
start($node, 'warm_load pause');
fc_failpoint_wait($node, 'warm_load');
kill 'TERM', $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache') or die $!;
fc_failpoint($node, 'warm_load', 'off');
fc_wait_active($node);
is_warm($node, "v$version", 'the end of the writer in loading');
is($node->safe_psql('postgres', 'SELECT restored - used FROM pg_stat_flashcache, pg_stat_flashcache_persistence'), 0,
	'the end of the writer in loading: what is there counts as restored');

# And after a crash: recovery has made a checkpoint.
prepare($node);
fc_kill_server($node);
start($node, 'warm_load pause');
fc_failpoint_wait($node, 'warm_load');
fc_kill_server($node);
start($node);
is_cold($node, qr/^its log is of checkpoint /, "v$version", 'kill -9 in loading, after a crash');

# In recovery, twice: each begins at the same checkpoint. Without full pages redo reads what it changes, and stands there.
$node->append_conf('postgresql.conf', "full_page_writes = off\n");
$node->reload;
$node->poll_query_until('postgres', "SELECT current_setting('full_page_writes') = 'off'") or die;
prepare($node);
$version++;
fc_rewrite_rows($node, 'postgres', 'u', "v$version");
fc_push_out($node, fc_tag($node, 'postgres', 'u'));
fc_kill_server($node);
for my $time (1, 2)
{
	local $ENV{FC_ARM} = 'disk_read pause';
	my $offset = -s $node->logfile;
	system_or_bail('pg_ctl', '--no-wait', '-D', $node->data_dir, '-l', $node->logfile, 'start');
	$node->wait_for_log(qr/redo starts at/, $offset);
	$node->_update_pid(1);
	fc_kill_server($node);
	unlike(slurp_file($node->logfile, $offset), qr/redo done at/, "kill -9 in recovery: it was not over, $time");
}
start($node);
is_warm($node, "v$version", 'kill -9 in recovery, twice');
$node->append_conf('postgresql.conf', "full_page_writes = on\n");
$node->reload;

# Stopped in recovery, as pg_ctl stop does: pg_control says that this was a shutdown, and the WAL that was not replayed has
# changed pages since. Reads of redo take so long that it is stopped in the midst of them; without K6 the log is believed.
foreach my $broken (0, 1)
{
	# u has its pages of before on flash, and then others on disk, which redo has to write again
	$node->append_conf('postgresql.conf', "full_page_writes = off\n");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('full_page_writes') = 'off'") or die;
	prepare($node);
	$version++;
	fc_rewrite_rows($node, 'postgres', 'u', "v$version");
	fc_push_out($node, fc_tag($node, 'postgres', 'u'));
	# and so many pages that a group of the log is due, which says how far the WAL went
	my $control = fc_control($node);
	fc_failpoint($control, 'warm_blocks', 'pause');
	fc_table($node, 'postgres', "much$version", 'v1', 400);
	fc_push_out($node, fc_tag($node, 'postgres', "much$version"));
	fc_failpoint_wait($control, 'warm_blocks');
	fc_failpoint($control, 'warm_blocks', 'off');
	fc_writer_round($control);
	$control->quit;
	fc_kill_server($node);
	my $offset = -s $node->logfile;
	{
		local $ENV{FC_ARM} = 'disk_read delay:1000000';
		system_or_bail('pg_ctl', '--no-wait', '-D', $node->data_dir, '-l', $node->logfile, 'start');
		$node->wait_for_log(qr/redo starts at/, $offset);
		$node->_update_pid(1);
		$node->stop('fast');
	}
	unlike(slurp_file($node->logfile, $offset), qr/redo done at/, 'a fast stop in recovery: it was not over');
	my ($state) = run_command([ 'pg_controldata', $node->data_dir ]);
	like($state, qr/^Database cluster state: +shut down in recovery$/m, 'a fast stop in recovery: pg_control has it as a shutdown');
	$offset = -s $node->logfile;
	{
		local $ENV{FC_BREAK} = $broken ? 'K6' : '';
		start($node);
	}
	if ($broken)
	{
		is(refused($node), '', 'a fast stop in recovery, without K6: the log is believed, the rule is needed');
	}
	else
	{
		is_cold($node, qr/^its log goes to [0-9A-F\/]+, the data directory to [0-9A-F\/]+$/, "v$version", 'a fast stop in recovery');
		is(scalar(() = slurp_file($node->logfile, $offset) =~ /LOG:  pg_flashcache starts with an empty cache: its log goes to /g),
			1, 'a fast stop in recovery: the log says why');
	}
	$node->append_conf('postgresql.conf', "full_page_writes = on\n");
	$node->restart;
	fc_wait_active($node);
}

# K9: fsync is off for as long as the writer does not look.
{
	prepare($node);
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'STOP', $writer;
	foreach my $value ('off', 'on')
	{
		$node->append_conf('postgresql.conf', "fsync = $value\n");
		$node->reload;
		$node->poll_query_until('postgres', "SELECT current_setting('fsync') = '$value'") or die 'fsync has not changed';
	}
	kill 'CONT', $writer;
	fc_stamp($node);
	fc_kill_server($node);
	local $ENV{FC_BREAK} = 'another boot';
	start($node);
	is_cold($node, qr/^fsync was off before the machine was started again$/, "v$version", 'fsync was off for a moment');
}

# A primary that crashes, and goes on as a standby: nobody knows where its own WAL ended.
prepare($node);
fc_kill_server($node);
$node->append_conf('postgresql.conf', "hot_standby = on\n");
append_to_file($node->data_dir . '/standby.signal', '');
start($node);
is_cold($node, qr/^the server crashed, and went on as a standby$/, "v$version", 'a crashed primary as a standby');
$node->stop;
unlink $node->data_dir . '/standby.signal';

# pg_upgrade, of which the new cluster is given the flash of the old one.
start($node);
$node->safe_psql('postgres', 'DROP TABLE IF EXISTS fc_filler; DROP FUNCTION fc_failpoint(text, text);'
	  . 'DROP FUNCTION fc_failpoint(text, text, oid); DROP FUNCTION fc_failpoint_wait(text)');
prepare($node);
$node->stop;
{
	my $new = PostgreSQL::Test::Cluster->new('new');
	$new->init(extra => ['--data-checksums']);
	$new->append_conf('postgresql.conf', fc_conf($node, size => '32MB', conf => $conf));
	my $bin = `pg_config --bindir`;
	chomp $bin;
	my $here = $new->basedir . '/upgrade';
	mkdir $here or die $!;
	system("cd '$here' && pg_upgrade --no-sync -b '$bin' -B '$bin' -d '"
		  . $node->data_dir . "' -D '" . $new->data_dir . "' -p " . $node->port . ' -P ' . $new->port
		  . " -s '" . $new->host . "' >pg_upgrade.out 2>&1") == 0
	  or die slurp_file("$here/pg_upgrade.out");
	# what is refused is there, and is that of the old cluster
	cmp_ok(-s fc_flash_file($node), '>', 32 << 20, 'pg_upgrade: the flash is there, with a log');
	$new->start;
	fc_create_sql($new);
	fc_wait_active($new);
	is(refused($new), 'its log is of another database system', 'pg_upgrade: refused');
	fc_is_read($new, 'postgres', 'u', "v$version", $pages, 'pg_upgrade: the table is right', 'any');
	is_quiet($new);
	$new->stop;
}

# A standby; and pg_rewind of the former primary, when that has been promoted.
{
	my ($primary, $standby) = fc_pair(conf => $conf . "wal_keep_size = '1GB'\nhot_standby = on\n");
	fc_table($primary, 'postgres', 't', 'v1', $pages);
	fc_table($primary, 'postgres', 'u', 'v1', $pages);
	fc_warm($primary, $standby, 'postgres', 't', 'u');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	fc_replayed($primary, $standby);
	fc_stamp($standby);

	# It is set back to a moment of the same run: its log goes further.
	my $snapshot = $standby->basedir . '/snapshot';
	system('cp', '-a', $standby->data_dir, $snapshot) == 0 or die;
	fc_table($primary, 'postgres', 'many', 'v1', 400);
	$primary->safe_psql('postgres', 'SELECT count(*) FROM many');
	fc_replayed($primary, $standby);
	fc_push_out($standby, fc_tag($standby, 'postgres', 'many'));
	fc_fetch($standby, 'postgres', 'many', 400);
	fc_push_out($standby, fc_tag($standby, 'postgres', 'many'));
	fc_writer_round($standby);
	$standby->stop('immediate');
	rename $standby->data_dir, $standby->basedir . '/first' or die $!;
	rename $snapshot, $standby->data_dir or die $!;
	unlink $standby->data_dir . '/postmaster.pid';
	start($standby);
	is_cold($standby, qr/^its log goes to /, 'v1', 'a standby that is set back');

	fc_replayed($primary, $standby);
	fc_warm($primary, undef, 'postgres', 't', 'u');
	fc_stamp($primary);
	$standby->promote;
	fc_rewrite_rows($standby, 'postgres', 'u', 'v2');
	fc_rewrite_rows($primary, 'postgres', 'u', 'v3');
	$primary->stop;
	# Before 16 pg_rewind learns of the new timeline from the checkpoint only, and would find nothing to do.
	$standby->safe_psql('postgres', 'CHECKPOINT');
	my $kept = slurp_file($primary->data_dir . '/postgresql.conf');
	command_ok([ 'pg_rewind', '--no-sync', '--target-pgdata', $primary->data_dir, '--source-server', $standby->connstr('postgres') ],
		'pg_rewind');
	open my $file, '>', $primary->data_dir . '/postgresql.conf' or die $!;
	print $file $kept;
	close $file;
	append_to_file($primary->data_dir . '/standby.signal', '');
	$primary->append_conf('postgresql.conf', "primary_conninfo = '" . $standby->connstr . "'\nrecovery_target_timeline = 'latest'\n");
	start($primary);
	$primary->poll_query_until('postgres', 'SELECT pg_last_wal_replay_lsn() >= \''
		  . $standby->safe_psql('postgres', 'SELECT pg_current_wal_lsn()') . '\'') or die;
	is_cold($primary, qr/^its log and the data directory are of different runs|\(backup_label\)$/, 'v2', 'pg_rewind');
	$primary->stop;
	$standby->stop;
}

done_testing();

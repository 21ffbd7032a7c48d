# Each rule of src/warm.md is needed: with the rule broken on purpose (FC_BREAK), a page comes stale from flash, and
# pg_flashcache.verify sees it; with the rule kept, the same story ends well.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $pages = 20;
my $conf  = "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\n"
  . "checkpoint_timeout = 1h\nrestart_after_crash = off\nmax_wal_senders = 0\n";

# A story: the server, and a sub for each step that is not the same for all.
sub story
{
	my ($rule, %step) = @_;
	return if $ENV{FC_STORY} && $ENV{FC_STORY} ne $rule;

	foreach my $broken (1, 0)
	{
		my $node = fc_new_node(($rule =~ s/\W/_/gr) . "_$broken", size => '16MB', checksums => $step{checksums} // 1,
			conf => $conf . ($step{conf} // ''));
		fc_everywhere($node);
		fc_table($node, 'postgres', 'u', 'v1', $pages);
		fc_warm($node, undef, 'postgres', 'u');
		fc_stamp($node);
		my $label = $step{before}->($node);
		fc_kill_server($node) if -e $node->data_dir . '/postmaster.pid' && !$step{stopped};
		$step{between}->($node) if $step{between};
		{
			local $ENV{FC_BREAK} = $broken && !$step{breaks_before} ? $rule : '';
			$node->start;
		}
		fc_wait_active($node);
		my %moved = fc_delta($node, sub {
			fc_push_out($node, fc_tag($node, 'postgres', $step{table} // 'u'));
			fc_fetch($node, 'postgres', $step{table} // 'u', $pages);
			my $value = fc_value_sql($label);
			is($node->safe_psql('postgres', 'SELECT count(*) FROM ' . ($step{table} // 'u') . " WHERE val = $value"), $pages,
				"$rule: the rows are right") if !$broken;
		}, 'verify_failures');
		if ($broken) { cmp_ok($moved{verify_failures}, '>', 0, "$rule broken: stale pages") }
		else { is($moved{verify_failures}, 0, "$rule kept: none") }
		$node->stop('immediate');
	}
	return;
}

# As fc_bring, without a checkpoint.
sub bring
{
	my ($server, $table) = @_;
	my $tag = fc_tag($server, 'postgres', $table);
	for (1 .. 50)
	{
		fc_push_out($server, $tag);
		return if fc_tag_flash($server, $tag) == $pages;
		fc_fetch($server, 'postgres', $table, $pages);
	}
	die "the pages of $table do not come into flash";
}

# Groups are written when so many slots have been.
sub write_group
{
	my ($server, $table) = @_;
	fc_table($server, 'postgres', $table, 'v1', 200);
	fc_push_out($server, fc_tag($server, 'postgres', $table));
	fc_writer_round($server);
	return;
}

# What has been written to the data files before the crash: recovery reads it, and changes nothing.
# (Without checksums: a hint is then not logged. If it is, and full_page_writes is off, only the page's LSN is another.)
story('K3-read', conf => "full_page_writes = off\n", checksums => 0, before => sub {
	my ($node) = @_;
	fc_rewrite_rows($node, 'postgres', 'u', 'v2');
	fc_push_out($node, fc_tag($node, 'postgres', 'u'));
	return 'v2';
});

# What recovery makes anew from full pages, and the checkpoint at its end writes.
story('K3-write', before => sub {
	my ($node) = @_;
	fc_rewrite_rows($node, 'postgres', 'u', 'v2');
	return 'v2';
});

# What was no longer current at the checkpoint. The pages stay in the pool, however many sessions come meanwhile, and a group,
# if there is one, says nothing of other slots.
story('K5', breaks_before => 1, conf => "shared_buffers = '4MB'\n", before => sub {
	my ($node) = @_;
	$node->stop;
	local $ENV{FC_BREAK} = $node->name =~ /_1$/ ? 'K5,K18-turn' : '';
	$node->start;
	fc_wait_active($node);
	fc_warm($node, undef, 'postgres', 'u');
	# the hand goes on to other blocks of the table
	fc_table($node, 'postgres', 'many', 'v1', 500);
	fc_push_out($node, fc_tag($node, 'postgres', 'many'));
	fc_warm($node, undef, 'postgres', 'u');
	fc_stamp($node);
	my $value = fc_value_sql('v2');
	# in the pool, and written by the checkpoint: no slot is taken
	$node->safe_psql('postgres', "UPDATE u SET val = $value; CHECKPOINT");
	fc_stamp($node);
	return 'v2';
});

# Copies that depend on WAL which this data directory does not have.
my $snapshot;
story('K6', before => sub {
	my ($node) = @_;
	$snapshot = $node->basedir . '/snapshot';
	system('cp', '-a', $node->data_dir, $snapshot) == 0 or die;
	fc_rewrite_rows($node, 'postgres', 'u', 'v2');
	# the slots behind the hand of the stamp are for the trials of the next start
	write_group($node, 'before');
	bring($node, 'u');
	write_group($node, 'after');
	return 'v1';
}, between => sub {
	my ($node) = @_;
	rename $node->data_dir, $node->basedir . '/first' or die $!;
	rename $snapshot, $node->data_dir or die $!;
	unlink $node->data_dir . '/postmaster.pid';
});

# Two histories from one checkpoint, of which the one that has no library is the longer one.
story('K7', before => sub {
	my ($node) = @_;
	$snapshot = $node->basedir . '/snapshot';
	$node->stop;
	system('cp', '-a', $node->data_dir, $snapshot) == 0 or die;
	$node->start;
	fc_wait_active($node);
	fc_rewrite_rows($node, 'postgres', 'u', 'v2');
	# the slots behind the hand of the stamp are for the trials of the next start
	write_group($node, 'before');
	bring($node, 'u');
	write_group($node, 'after');
	return 'v1';
}, between => sub {
	my ($node) = @_;
	rename $node->data_dir, $node->basedir . '/first' or die $!;
	rename $snapshot, $node->data_dir or die $!;
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
	$node->start;
	fc_table($node, 'postgres', 'much', 'v1', 2000);
	fc_kill_server($node);
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache'");
});

# New files are synced at commit instead of logged. With the file on flash, and then changed, in one transaction.
story('K8', table => 'w', conf => "wal_level = minimal\nwal_skip_threshold = 0\n", before => sub {
	my ($node) = @_;
	my $session = $node->background_psql('postgres');
	my $value   = fc_value_sql('v2');
	my ($new)   = fc_value_sql('v1');
	fc_evict_all($node);
	my $rel = $session->query_safe(qq{
		BEGIN;
		CREATE TABLE w (id int, val text) WITH (fillfactor = 40);
		ALTER TABLE w ALTER val SET STORAGE PLAIN;
		INSERT INTO w SELECT id, $new FROM generate_series(1, $pages) id;
		SELECT pg_relation_filenode('w')});
	my $db = $node->safe_psql('postgres', "SELECT oid FROM pg_database WHERE datname = 'postgres'");
	my $tag = { spc => 1663, db => $db, rel => $rel, name => 'w' };
	fc_push_out($node, $tag);
	fc_writer_round($node);
	fc_stamp($node);
	is(fc_tag_flash($node, $tag), $pages, 'K8: the pages are on flash before they are logged');
	$session->query_safe("UPDATE w SET val = $value; COMMIT");
	$session->quit;
	return 'v2';
});

# The flash of an earlier moment of the run, with the data directory of a clean stop: a copy of the one put back, say.
my $flash;
story('K10', stopped => 1, before => sub {
	my ($node) = @_;
	my $file = $node->safe_psql('postgres', 'SHOW pg_flashcache.file');
	$flash = $node->basedir . '/flash.old';
	system('cp', '-a', $file, $flash) == 0 or die;
	fc_rewrite_rows($node, 'postgres', 'u', 'v2');
	# each slot is in use again
	fc_table($node, 'postgres', 'many', 'v1', 2500);
	my $used;
	for (1 .. 50)
	{
		fc_push_out($node, fc_tag($node, 'postgres', 'many'));
		$used = $node->safe_psql('postgres', 'SELECT used / slots FROM pg_stat_flashcache');
		last if $used;
		fc_fetch($node, 'postgres', 'many', 2500);
	}
	is($used, 1, 'K10: each slot is in use');
	$node->stop;
	system('cp', '-a', $flash, $file) == 0 or die;
	return 'v2';
});

# K9: fsync off by a reload, and another boot.
{
	my $node = fc_new_node('fsync', size => '16MB', conf => $conf);
	fc_everywhere($node);
	fc_table($node, 'postgres', 'u', 'v1', $pages);
	fc_warm($node, undef, 'postgres', 'u');
	my $tag = fc_tag($node, 'postgres', 'u');
	$node->append_conf('postgresql.conf', "fsync = off\n");
	$node->reload;
	fc_writer_round($node);
	$node->append_conf('postgresql.conf', "fsync = on\n");
	$node->reload;
	fc_stamp($node);
	fc_kill_server($node);
	$node->start;
	fc_wait_active($node);
	fc_is_warm($node, $tag, $pages, 'K9: fsync was off, the same boot');
	fc_stamp($node);
	fc_kill_server($node);
	{
		local $ENV{FC_BREAK} = 'another boot';
		$node->start;
	}
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'),
		'fsync was off before the machine was started again', 'K9: another boot');

	# Both roots say so: the newer one is spoilt after that. (They lie behind 2048 slots; the number is that of each.)
	$node->restart;
	fc_wait_active($node);
	fc_stamp($node);
	$node->append_conf('postgresql.conf', "fsync = off\n");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('fsync') = 'off'") or die;
	fc_writer_round($node) for 1 .. 2;
	$node->append_conf('postgresql.conf', "fsync = on\n");
	fc_kill_server($node);
	{
		open my $fh, '+<', fc_flash_file($node) or die $!;
		binmode $fh;
		my @number = map { seek $fh, 65536 + 8192 * (2048 + $_), 0; read($fh, my $root, 32) == 32 or die; unpack 'x24Q', $root } 0, 1;
		seek $fh, 65536 + 8192 * (2048 + ($number[1] > $number[0] ? 1 : 0)), 0;
		print $fh "\x5A" x 4096;
		close $fh or die $!;
		local $ENV{FC_BREAK} = 'another boot';
		$node->start;
	}
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'),
		'fsync was off before the machine was started again', 'K9: another boot, and the newer root is spoilt');

	# It is off for the clean stop only, before the writer can know: nothing is left that could be accepted.
	fc_stamp($node);
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	kill 'STOP', $writer or die $!;
	$node->append_conf('postgresql.conf', "fsync = off\npg_flashcache.max_shutdown_delay = 0\n");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('fsync') = 'off'") or die;
	my $offset = -s $node->logfile;
	system_or_bail('pg_ctl', 'stop', '-W', '-m', 'fast', '-D', $node->data_dir);
	$node->wait_for_log(qr/received fast shutdown request/, $offset);
	kill 'CONT', $writer or die $!;
	$node->stop('fast', fail_ok => 1);
	ok(!-e $node->data_dir . '/pg_flashcache.stop', 'K9: fsync was off for the stop: it leaves nothing');
	$node->append_conf('postgresql.conf', "fsync = on\n");
	$node->start;
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT coalesce(restored, 0) FROM pg_stat_flashcache_persistence'), 0, 'K9: fsync was off for the stop: nothing is restored');

	# It is off while the cache is disabled, so that nobody writes the log: the file of the run says so, and the log does
	# as soon as it is written again.
	my $run_file = $node->data_dir . '/pg_flashcache.run';
	my ($boot) = slurp_file('/proc/sys/kernel/random/boot_id') =~ /(\S+)/;
	my $without = sub {
		my ($broken) = @_;
		fc_warm($node, undef, 'postgres', 'u');
		fc_stamp($node);
		$node->stop;
		unlike(slurp_file($run_file), qr/$boot/, 'K9: fsync was on');
		$node->append_conf('postgresql.conf', "fsync = off\npg_flashcache.enabled = off\n");
		$node->start;
		fc_wait_state($node, 'disabled');
		my $tries = 0;
		usleep(100_000) while slurp_file($run_file) !~ /$boot/ && $tries++ < 1800;
		like(slurp_file($run_file), qr/$boot/, 'K9: fsync is off, and the cache disabled');
		fc_kill_server($node);
		$node->append_conf('postgresql.conf', "fsync = on\npg_flashcache.enabled = on\n");
		local $ENV{FC_BREAK} = $broken;
		$node->start;
		fc_wait_active($node);
		return $node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence');
	};
	is($without->('another boot,K9-run'), '', 'K9 broken: fsync was off while the cache was disabled, and another boot: accepted');
	is($without->('another boot'), 'fsync was off before the machine was started again', 'K9: fsync was off while the cache was disabled, and another boot');
	is($without->(''), '', 'K9: fsync was off while the cache was disabled, the same boot');
	fc_stamp($node);
	fc_kill_server($node);

	# Another boot, in which it is off again before anybody looks at the log: the log says what was before, and goes on saying so.
	$node->append_conf('postgresql.conf', "fsync = off\npg_flashcache.enabled = off\n");
	{
		local $ENV{FC_BREAK} = 'another boot';
		$node->start;
		fc_wait_state($node, 'disabled');
		my $tries = 0;
		my $noted = sub { slurp_file($run_file) =~ /@{[ '-' . substr $boot, 1 ]}/ };
		usleep(100_000) while !$noted->() && $tries++ < 1800;
		ok($noted->(), 'K9: the other boot is noted');
		$node->append_conf('postgresql.conf', "fsync = on\npg_flashcache.enabled = on\n");
		$node->reload;
	}
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'),
		'fsync was off before the machine was started again', 'K9: and another boot after that');
	$node->stop('immediate');
}

# K7: a crash between the steps of binding.
{
	my $node = fc_new_node('binding', size => '16MB', conf => $conf);
	fc_everywhere($node);
	fc_table($node, 'postgres', 'u', 'v1', $pages);
	my $tag = fc_tag($node, 'postgres', 'u');
	foreach my $point ('crash: bound flash', 'crash: bound file')
	{
		fc_warm($node, undef, 'postgres', 'u');
		$node->stop;
		{
			local $ENV{FC_BREAK} = $point;
			# not by start(), which wants to see a server that may be gone by then
			system_log('pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile, 'start');
			poll_until_gone($node);
		}
		$node->start;
		fc_wait_active($node);
		is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'), '', "$point: the log is loaded");
		fc_is_warm($node, $tag, $pages, "$point: every page is restored");
		fc_is_read($node, 'postgres', 'u', 'v1', $pages, "$point: and read from flash");
	}
	$node->stop('immediate');
}

sub poll_until_gone
{
	my ($node) = @_;
	my $pid = $node->data_dir . '/postmaster.pid';
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		return if !-e $pid;
		select undef, undef, undef, 0.1;
	}
	die 'the server has not ended';
}

done_testing();

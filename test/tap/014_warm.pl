# Entries survive an end of the server, and none of them is stale: src/warm.md.
#
# Every page of a table is on flash when the server ends in some way. With bgwriter and autovacuum off, what is restored
# afterwards is known to the page: all of the table; without those that were changed after the last checkpoint; or
# nothing, and the log says why. Each page that is then read from flash is compared with the disk (verify), and the rows
# say of which version they are.

use strict;
use warnings;

use FindBin;
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my $conf  = "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\n"
  . "checkpoint_timeout = 1h\nrestart_after_crash = on\nallow_in_place_tablespaces = on\n";
my $node = fc_new_node('main', size => '32MB', conf => $conf);
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', $pages);
fc_table($node, 'postgres', 'u', 'v1', $pages);
my $tag   = fc_tag($node, 'postgres', 't');
my $other = fc_tag($node, 'postgres', 'u');

# All of both tables on flash, and the log complete for the last checkpoint.
sub prepare
{
	my ($server) = @_;
	fc_warm($server, undef, 'postgres', 't', 'u');
	fc_stamp($server);
	return;
}

sub persistence
{
	my ($server, $column) = @_;
	return $server->safe_psql('postgres', "SELECT $column FROM pg_stat_flashcache_persistence");
}

# Changes the rows of the first pages of u, reading no others: what is read at once by a scan would be written by it, too.
sub change_first
{
	my ($server, $n, $what) = @_;
	$server->safe_psql('postgres', qq{
		SET enable_seqscan = off;
		UPDATE u SET val = val || '$what' WHERE ctid = ANY (ARRAY(SELECT format('(%s,%s)', block, line)::tid
			FROM generate_series(0, $n - 1) block, generate_series(1, 4) line))});
	return;
}

# Starts, and the cache is empty for that reason.
sub is_cold
{
	my ($server, $reason, $name) = @_;
	my $offset = -s $server->logfile;

	$server->start;
	fc_wait_active($server);
	like(persistence($server, 'refused'), $reason, "$name: refused");
	my @lines = grep { /starts with an empty cache/ } split /\n/, slurp_file($server->logfile, $offset);
	is(scalar @lines, 1, "$name: one line in the log");
	return;
}

# One test: nothing went wrong with the cache. That processes were killed, the log says.
sub is_quiet
{
	my ($server) = @_;
	my %trouble = fc_stat($server, qw(verify_failures checksum_failures read_errors write_errors slots_retired));
	is_deeply([ grep { $trouble{$_} } keys %trouble ], [], 'nothing went wrong');
	return;
}

sub is_warm
{
	my ($server, $name) = @_;
	fc_is_warm($server, $tag, $pages, "$name: every page is restored");
	fc_is_read($server, 'postgres', 't', 'v1', $pages, "$name: and read from flash, and right");
	return;
}

sub start
{
	$node->start;
	fc_wait_active($node);
	return;
}

is(-s fc_flash_file($node), 65536 + 8192 * (4096 + 2 + 2 + 54), 'the log lies behind the slots');

# Clean restart.
prepare($node);
$node->stop;
ok(-e $node->data_dir . '/pg_flashcache.stop', 'clean stop: the file of the stop is there');
start();
is_warm($node, 'clean restart');
ok(!-e $node->data_dir . '/pg_flashcache.stop', 'clean restart: the file of the stop is gone');
is(persistence($node, 'refused IS NULL AND writing AND restored >= 80'), 't', 'clean restart: the view says so');

# The device is slow while the server ends: the writer waits for it, also one that has been started again meanwhile.
my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
kill 'TERM', $writer or die "no writer: $!";
$node->poll_query_until('postgres', "SELECT state = 'active' AND writer_pid <> $writer FROM pg_stat_flashcache") or die 'no writer';
prepare($node);
$node->safe_psql('postgres', "SELECT fc_failpoint('store_write', 'delay:500000')");
$node->restart;
fc_wait_active($node);
is_warm($node, 'the writer started again, a slow device');

# A page changed in the pool, which only the shutdown checkpoint writes: it is not restored.
prepare($node);
my $changed = 4;
change_first($node, $changed, 'x');
is(fc_tag_buffers($node, $other, 'isdirty'), $changed, 'changed in the pool: some pages are');
fc_is_warm($node, $other, $pages, 'changed in the pool: flash has the old ones');
$node->restart;
fc_wait_active($node);
is(fc_tag_flash($node, $other), $pages - $changed, 'changed in the pool: those are not restored');
is($node->safe_psql('postgres', "SELECT count(*) FROM u WHERE val LIKE '%x'"), $changed, 'changed in the pool: the rows are right');
is_warm($node, 'changed in the pool');

# kill -9 of all, with changes after the checkpoint: some on disk, some in the log only.
prepare($node);
$node->safe_psql('postgres', "UPDATE u SET val = val || 'y' WHERE id <= 5");
fc_push_out($node, $other);
$node->safe_psql('postgres', "UPDATE u SET val = val || 'z' WHERE id BETWEEN 6 AND 8");
fc_kill_server($node);
start();
is(persistence($node, 'refused'), '', 'kill -9: the log is loaded');
is_warm($node, 'kill -9');
is($node->safe_psql('postgres', "SELECT count(*) FILTER (WHERE val LIKE '%y'), count(*) FILTER (WHERE val LIKE '%z') FROM u"),
	'5|3', 'kill -9: the rows of the other table are right');
cmp_ok(persistence($node, 'not_restored_touched'), '>=', 8, 'kill -9: what was changed is not restored');
is_quiet($node);

# Immediate stop.
prepare($node);
fc_rewrite_rows($node, 'postgres', 'u', 'v2');
$node->stop('immediate');
ok(!-e $node->data_dir . '/pg_flashcache.stop', 'immediate stop: no file of the stop');
start();
is(persistence($node, 'refused'), '', 'immediate stop: the log is loaded');
is_warm($node, 'immediate stop');
fc_is_read($node, 'postgres', 'u', 'v2', $pages, 'immediate stop: the other table is right', 'any');
is_quiet($node);

# A crash of one process.
prepare($node);
fc_rewrite_rows($node, 'postgres', 'u', 'v3');
{
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $log     = -s $node->logfile;
	kill 'KILL', $session->query_safe('SELECT pg_backend_pid()');
	$node->wait_for_log(qr/database system is ready to accept connections/, $log);
	$session->{run}->finish;
	fc_wait_active($node);
}
is(persistence($node, 'refused'), '', 'crash of one process: the log is loaded');
is_warm($node, 'crash of one process');
fc_is_read($node, 'postgres', 'u', 'v3', $pages, 'crash of one process: the other table is right', 'any');

# A checkpoint that has no stamp.
prepare($node);
fc_failpoint($node, 'warm_stamp', 'error');
$node->safe_psql('postgres', "UPDATE u SET val = val || 'w' WHERE id = 1; CHECKPOINT");
fc_kill_server($node);
is_cold($node, qr/^its log is of checkpoint /, 'a checkpoint without a stamp');

# The log can't be written: the cache goes on, and starts empty after the next checkpoint.
prepare($node);
fc_failpoint($node, 'log_write', 'error');
$node->safe_psql('postgres', "UPDATE u SET val = val || 'w' WHERE id = 1; CHECKPOINT");
$node->poll_query_until('postgres', 'SELECT NOT writing FROM pg_stat_flashcache_persistence') or die 'still writing';
is({ fc_stat($node, 'state') }->{state}, 'active', 'no log: the cache is active');
fc_is_read($node, 'postgres', 't', 'v1', $pages, 'no log: pages are read from flash');
fc_kill_server($node);
is_cold($node, qr/^its log is of checkpoint /, 'no log');

# The same, and the cache is opened again before the end: the log is begun anew, and the server's log says both.
prepare($node);
{
	my $offset = -s $node->logfile;
	fc_failpoint($node, 'log_write', 'error');
	$node->safe_psql('postgres', "UPDATE u SET val = val || 'w' WHERE id = 1; CHECKPOINT");
	$node->wait_for_log(qr/LOG:  pg_flashcache no longer writes its log: it could not be written\n.*DETAIL:  .* a new log begun/, $offset);
	fc_failpoint($node, 'log_write', 'off');
	foreach my $enabled ('off', 'on')
	{
		$node->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.enabled = $enabled");
		$node->reload;
		fc_wait_state($node, $enabled eq 'on' ? 'active' : 'disabled');
	}
	$node->wait_for_log(qr/LOG:  pg_flashcache writes its log again/, $offset);
	is(persistence($node, 'writing'), 't', 'a log again: it is written');
	prepare($node);
	fc_kill_server($node);
	start();
	is(persistence($node, 'refused'), '', 'a log again: it is loaded');
	is_warm($node, 'a log again');
	my @lines = grep { /writes its log again/ } split /\n/, slurp_file($node->logfile, $offset);
	is(scalar @lines, 1, 'a log again: one line says so');
}

# A table that is dropped, or cut, after the last checkpoint, and before the stop.
prepare($node);
fc_table($node, 'postgres', 'gone', 'v1', $pages);
fc_warm($node, undef, 'postgres', 'gone');
fc_stamp($node);
my $gone = fc_tag($node, 'postgres', 'gone');
$node->safe_psql('postgres', 'DROP TABLE gone');
fc_kill_server($node);
start();
is(persistence($node, 'refused'), '', 'dropped, kill -9: the log is loaded');
fc_is_gone($node, $gone, 'dropped, kill -9: its pages are not restored');
is_warm($node, 'dropped, kill -9');

fc_table($node, 'postgres', 'gone', 'v1', $pages);
fc_warm($node, undef, 'postgres', 'gone');
$gone = fc_tag($node, 'postgres', 'gone');
prepare($node);
$node->safe_psql('postgres', 'DROP TABLE gone');
$node->restart;
fc_wait_active($node);
is(persistence($node, 'refused'), '', 'dropped, clean: the log is loaded');
fc_is_gone($node, $gone, 'dropped, clean: its pages are not restored');
is_warm($node, 'dropped, clean');

# A run without the library in between, clean and not.
prepare($node);
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;
fc_rewrite_rows($node, 'postgres', 'u', 'v4');
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache'");
is_cold($node, qr/^its log is of checkpoint /, 'run without the library');
fc_is_read($node, 'postgres', 'u', 'v4', $pages, 'run without the library: the other table is right', 'any');

prepare($node);
$node->stop;
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->start;
fc_rewrite_rows($node, 'postgres', 'u', 'v5');
fc_push_out($node, $other);
fc_kill_server($node);
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache'");
start();
is_warm($node, 'crash without the library');
fc_is_read($node, 'postgres', 'u', 'v5', $pages, 'crash without the library: the other table is right', 'any');

# Two histories from one checkpoint: the data directory is copied while the server is down, runs, and the copy comes back.
prepare($node);
$node->stop;
my $copy = $node->basedir . '/copy';
system('cp', '-a', $node->data_dir, $copy) == 0 or die;
start();
fc_rewrite_rows($node, 'postgres', 'u', 'v6');
fc_warm($node, undef, 'postgres', 'u');
$node->stop('immediate');
rename $node->data_dir, $node->basedir . '/first' or die $!;
rename $copy, $node->data_dir or die $!;
is_cold($node, qr/^its log and the data directory are of different runs/, 'cp -a');
fc_is_read($node, 'postgres', 'u', 'v5', $pages, 'cp -a: the other table is right', 'any');
system('rm', '-rf', $node->basedir . '/first');

# The data directory as it was at a moment of the same run (W), with a hint on flash that it does not know.
prepare($node);
{
	# as an atomic snapshot: nothing writes meanwhile
	$node->safe_psql('postgres', 'SELECT pg_switch_wal()');
	fc_stamp($node);
	my $snapshot = $node->basedir . '/snapshot';
	system('cp', '-a', $node->data_dir, $snapshot) == 0 or die;
	fc_rewrite_rows($node, 'postgres', 'u', 'v7');
	# so many pages that a group is written without a checkpoint
	fc_table($node, 'postgres', 'many', 'v1', 400);
	$node->safe_psql('postgres', 'SELECT count(*) FROM many');
	fc_push_out($node, fc_tag($node, 'postgres', 'many'));
	fc_writer_round($node);
	$node->stop('immediate');
	rename $node->data_dir, $node->basedir . '/first' or die $!;
	rename $snapshot, $node->data_dir or die $!;
	unlink $node->data_dir . '/postmaster.pid';
	is_cold($node, qr/^its log goes to /, 'rolled back');
	fc_is_read($node, 'postgres', 'u', 'v5', $pages, 'rolled back: the other table is right', 'any');
	system('rm', '-rf', $node->basedir . '/first');
}

# Checksums switched on or off while the server is down.
prepare($node);
$node->stop;
$node->command_ok([ 'pg_checksums', '--disable', '-D', $node->data_dir ], 'checksums are switched off');
is_cold($node, qr/^data checksums have been switched/, 'checksums');

# pg_resetwal.
prepare($node);
$node->stop;
$node->command_ok([ 'pg_resetwal', '-D', $node->data_dir ], 'pg_resetwal');
is_cold($node, qr/^its log is of checkpoint /, 'pg_resetwal');

# Without WAL of new files.
prepare($node);
$node->append_conf('postgresql.conf', "wal_level = minimal\nmax_wal_senders = 0\n");
$node->restart;
fc_wait_active($node);
is_warm($node, 'wal_level changed, clean');
fc_stamp($node);
fc_kill_server($node);
is_cold($node, qr/^wal_level is or was minimal/, 'wal_level = minimal');
prepare($node);
fc_kill_server($node);
$node->append_conf('postgresql.conf', "wal_level = replica\n");
is_cold($node, qr/^wal_level is or was minimal/, 'wal_level was minimal');

# A file of another size, another file, a damaged log.
prepare($node);
$node->stop;
$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', "'16MB'");
is_cold($node, qr/^there is no log of this version and size/, 'another size');
prepare($node);
$node->stop;
$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', "'32MB'");
is_cold($node, qr/^there is no log of this version and size/, 'the former size');
prepare($node);
$node->stop;
{
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	# the first block of the journal: the second half of it
	seek $fh, 65536 + 8192 * (4096 + 4) + 4096, 0;
	print $fh "\x5A" x 4096;
	close $fh;
}
# What docs/operation.md says is seen then, and its statement as somebody would type it.
{
	my $text = slurp_file("$FindBin::RealBin/../../docs/operation.md");
	my ($sql)    = $text =~ /^### Torn blocks\n.*?^```sql\n(.*?)^```$/ms or die 'docs/operation.md has no statement for torn blocks';
	my ($detail) = $text =~ /^\| `pg_flashcache has restored N pages on flash`, with `([^`]*: )N` in its DETAIL/m or die 'docs/operation.md has no line for torn blocks';
	my $offset = -s $node->logfile;
	start();
	is(persistence($node, 'torn_blocks, refused'), '1|', 'a torn block: it is seen');
	like($node->safe_psql('postgres', $sql), qr/^[^|]+\|1\|\d+\|\d+\|\d+\|\|\d+$/, 'a torn block: the statement of the documentation shows it');
	like(slurp_file($node->logfile, $offset), qr/LOG:  pg_flashcache has restored \d+ pages on flash\n.*DETAIL:  .* \Q$detail\E1\. What they had is read from disk\.\n/,
		'a torn block: the log has it');
}
fc_is_read($node, 'postgres', 't', 'v1', $pages, 'a torn block: the rest is right', 'any');
is_quiet($node);
prepare($node);
$node->stop;
{
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	seek $fh, 65536 + 8192 * 4096, 0;
	print $fh "\0" x 16384;
	close $fh;
}
is_cold($node, qr/^there is no log of this version and size/, 'no roots');
prepare($node);
fc_kill_server($node);
unlink fc_flash_file($node) or die $!;
is_cold($node, qr/^there is no log of this version and size/, 'a new file');

is_quiet($node);
$node->stop;
done_testing();

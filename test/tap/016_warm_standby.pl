# Entries survive an end of a standby, a run without the library, and a promotion: src/warm.md.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my ($primary, $standby) = fc_pair(
	conf => "pg_flashcache.persistence = on\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nwal_keep_size = '1GB'\n");
fc_table($primary, 'postgres', 't', 'v1', $pages);
fc_table($primary, 'postgres', 'u', 'v1', $pages);
my $tag   = fc_tag($primary, 'postgres', 't');
my $other = fc_tag($primary, 'postgres', 'u');

# On flash at the standby, and a stamp of its last restartpoint.
sub prepare
{
	fc_warm($primary, $standby, 'postgres', 't', 'u');
	$primary->safe_psql('postgres', 'CHECKPOINT');
	fc_replayed($primary, $standby);
	stamp();
	return;
}

sub stamp
{
	fc_stamp($standby);
	return;
}

sub refused
{
	return $standby->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence');
}

sub is_warm
{
	my ($name) = @_;
	fc_wait_active($standby);
	is(refused(), '', "$name: the log is loaded");
	fc_is_warm($standby, $tag, $pages, "$name: every page is restored");
	fc_is_read($standby, 'postgres', 't', 'v1', $pages, "$name: and read from flash, and right");
	return;
}

sub is_quiet
{
	my %trouble = fc_stat($standby, qw(verify_failures checksum_failures read_errors write_errors slots_retired));
	is_deeply([ grep { $trouble{$_} } keys %trouble ], [], 'nothing went wrong');
	return;
}

prepare();
$standby->restart;
is_warm('clean restart');

# Changed and written after the restartpoint.
prepare();
fc_rewrite_rows($primary, 'postgres', 'u', 'v2');
fc_replayed($primary, $standby);
fc_push_out($standby, $other);
fc_kill_server($standby);
$standby->start;
is_warm('kill -9');
fc_is_read($standby, 'postgres', 'u', 'v2', $pages, 'kill -9: the other table is right', 'any');
is_quiet();

# Stopped cleanly, and run without the library: it goes on from the same restartpoint.
prepare();
$standby->stop;
$standby->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$standby->start;
fc_rewrite_rows($primary, 'postgres', 'u', 'v3');
fc_replayed($primary, $standby);
fc_push_out($standby, $other);
$standby->stop;
$standby->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache'");
$standby->start;
is_warm('run without the library');
fc_is_read($standby, 'postgres', 'u', 'v3', $pages, 'run without the library: the other table is right', 'any');
is_quiet();

# Dropped on the primary while the standby is down.
prepare();
fc_table($primary, 'postgres', 'gone', 'v1', $pages);
fc_warm($primary, $standby, 'postgres', 'gone');
my $gone = fc_tag($primary, 'postgres', 'gone');
stamp();
$standby->stop;
$primary->safe_psql('postgres', 'DROP TABLE gone');
$standby->start;
fc_replayed($primary, $standby);
is_warm('dropped meanwhile');
fc_is_gone($standby, $gone, 'dropped meanwhile: its pages are gone');

# Promotion: nothing is forgotten, and a crash of the new primary is as good as any.
prepare();
$standby->promote;
fc_is_warm($standby, $tag, $pages, 'promoted: every page is still there');
stamp();
fc_rewrite_rows($standby, 'postgres', 'u', 'v4');
fc_push_out($standby, $other);
fc_kill_server($standby);
$standby->start;
is_warm('promoted, kill -9');
fc_is_read($standby, 'postgres', 'u', 'v4', $pages, 'promoted, kill -9: the other table is right', 'any');
is_quiet();

# A new timeline at start. Where the log is loaded as soon as the server is consistent, it is still on the former one.
fc_warm($standby, undef, 'postgres', 't');
$standby->stop;
$standby->append_conf('postgresql.conf', "restore_command = 'false'\nrecovery_target_timeline = 'current'\nprimary_conninfo = ''\nhot_standby = off\n");
$standby->set_recovery_mode;
$standby->start;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()') or die;
fc_wait_active($standby);
like(refused(), qr/^its log is of timeline \d+, the server is on timeline \d+$/, 'another timeline: refused');

# From a base backup, with the flash of the server that it was taken from.
fc_warm($standby, undef, 'postgres', 't');
stamp();
$standby->backup('mine');
my $backup = $standby->backup_dir . '/mine';
$standby->stop('immediate');
rename $standby->data_dir, $standby->basedir . '/first' or die $!;
system('cp', '-a', $backup, $standby->data_dir) == 0 or die;
$standby->start;
fc_wait_active($standby);
is(refused(), 'the server was started from a backup (backup_label)', 'from a backup: refused');
fc_is_read($standby, 'postgres', 't', 'v1', $pages, 'from a backup: the table is right', 'any');
is_quiet();

$standby->stop;
$primary->stop;
done_testing();

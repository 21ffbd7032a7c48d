# Two histories with the same checkpoint, run and timeline: K14 of src/warm.md.
#
# A standby and its primary are set back to copies of one moment, the standby's flash is not. The primary then writes
# other WAL, at the same places and further than before, and the standby replays it without the library. Its log on flash
# then is of the right checkpoint, run and timeline, and ends within WAL that was replayed. With the rule broken
# on purpose (FC_BREAK), pages of the former history come from flash, and pg_flashcache.verify sees them.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 20;
my ($primary, $standby) = fc_pair(
	conf => "pg_flashcache.persistence = on\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nwal_keep_size = '1GB'\n");
fc_table($primary, 'postgres', 'u', 'v1', $pages);
my $tag = fc_tag($primary, 'postgres', 'u');
fc_warm($primary, $standby, 'postgres', 'u');
# No transaction begins between the checkpoint and the moment: a standby's pg_control has the next XID of the last
# checkpoint that it has replayed, which will be that of the end of the primary's recovery.
$primary->safe_psql('postgres', 'CHECKPOINT');
$primary->poll_query_until('postgres', 'SELECT replay_lsn >= pg_current_wal_flush_lsn() FROM pg_stat_replication')
  or die 'the checkpoint is not replayed';
fc_stamp($standby);

sub min_recovery_point
{
	return $standby->safe_psql('postgres', 'SELECT min_recovery_end_lsn FROM pg_control_recovery()');
}

# The standby's minRecoveryPoint moves when it writes pages.
sub write_pages
{
	my ($table) = @_;
	fc_table($primary, 'postgres', $table, 'v1', 400);
	$primary->safe_psql('postgres', "SELECT count(*) FROM $table");
	fc_replayed($primary, $standby);
	fc_push_out($standby, fc_tag($standby, 'postgres', $table));
	return;
}

sub copy
{
	my ($from, $to) = @_;
	system('rm', '-rf', $to) == 0 && system('cp', '-a', $from, $to) == 0 or die "could not copy $from";
	return;
}

sub put_back
{
	my ($node, $moment) = @_;
	copy($node->basedir . "/$moment", $node->data_dir);
	unlink $node->data_dir . '/postmaster.pid';
	return;
}

# The moment. Nothing is written meanwhile; the primary's copy is the later one, so it has all that the standby has.
copy($_->data_dir, $_->basedir . '/moment') foreach $standby, $primary;

# The first history: the pages are on flash as they are only there.
fc_rewrite_rows($primary, 'postgres', 'u', 'v2');
$primary->safe_psql('postgres', 'SELECT count(*) FROM u');
write_pages('first');
for (1 .. 50)
{
	fc_push_out($standby, $tag);
	last if fc_tag_flash($standby, $tag) == $pages;
	fc_fetch($standby, 'postgres', 'u', $pages);
}
write_pages('last');
fc_writer_round($standby);
fc_is_warm($standby, $tag, $pages, 'the first history: every page is on flash');
my $end = min_recovery_point();
fc_kill_server($_) foreach $standby, $primary;
copy(fc_flash_file($standby), $standby->basedir . '/flash_of_first');

# The second history: other WAL, and nothing of u.
put_back($_, 'moment') foreach $standby, $primary;
$standby->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$primary->start;
$standby->start;
for my $n (1 .. 50)
{
	write_pages("other_$n");
	last if $standby->safe_psql('postgres', "SELECT min_recovery_end_lsn > '$end' FROM pg_control_recovery()") eq 't';
}
cmp_ok($standby->safe_psql('postgres', "SELECT '" . min_recovery_point() . "'::pg_lsn - '$end'"),
	'>', 0, 'the second history is the longer one');
fc_kill_server($standby);
$standby->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache'");
copy($standby->data_dir, $standby->basedir . '/second');

foreach my $broken (1, 0)
{
	put_back($standby, 'second');
	copy($standby->basedir . '/flash_of_first', fc_flash_file($standby));
	{
		local $ENV{FC_BREAK} = $broken ? 'K14' : '';
		$standby->start;
	}
	fc_wait_active($standby);
	my $refused = $standby->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence');
	if ($broken)
	{
		is($refused, '', 'K14 broken: the log is loaded');
		my %moved = fc_delta($standby, sub { fc_push_out($standby, $tag); fc_fetch($standby, 'postgres', 'u', $pages) },
			'verify_failures');
		cmp_ok($moved{verify_failures}, '>', 0, 'K14 broken: stale pages');
	}
	else
	{
		like($refused, qr/^its log goes to \S+, the data directory to \S+$/, 'K14 kept: refused');
		fc_is_read($standby, 'postgres', 'u', 'v1', $pages, 'K14 kept: the rows are right', 'any');
		is({ fc_stat($standby, 'verify_failures') }->{verify_failures}, 0, 'K14 kept: nothing is stale');
	}
	$standby->stop('immediate');
}

$primary->stop('immediate');
done_testing();

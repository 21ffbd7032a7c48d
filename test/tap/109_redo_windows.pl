# Windows of the protocol on a standby, where redo changes the files: truncation, DROP DATABASE. The writer of the standby holds a
# copy of a page and publishes it while the startup process stands in the middle.
#
# Fails without: the invalidation before md in fc_smgr_truncate, of the relation's epoch; that before the redo of database
# records in fc_dbase_redo.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my ($primary, $standby) = fc_pair(conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\n");

# Brings a table to the flash of both, changes its pages, and stops the standby's writer with copies of them. Returns a session
# there, for pause points.
sub stop_writer
{
	my ($database, $table, $change) = @_;
	my $tag = fc_tag($primary, $database, $table);

	fc_warm($primary, $standby, $database, $table);
	$primary->safe_psql($database, $change);
	fc_replayed($primary, $standby);
	my $control = fc_control($standby);
	fc_failpoint($control, 'fill_written', 'pause');
	fc_push_out($standby, $tag);
	fc_failpoint_wait($control, 'fill_written');
	return ($tag, $control);
}

# The startup process stands at the point; the writer goes on, or has done so. None of the pages is there.
sub stands
{
	my ($control, $tag, $condition, $point, $next, $name) = @_;

	fc_failpoint_wait($control, $point);
	fc_failpoint($control, 'fill_written', 'off');
	fc_writer_round($standby);
	is(fc_tag_flash($standby, $tag, $condition), 0, $name);
	fc_failpoint($control, $next, 'pause') if $next;
	fc_failpoint($control, $point, 'off');
	return;
}

# VACUUM cuts off what is empty.
{
	fc_table($primary, 'postgres', 't', 'v1', 8);
	my $skips = 'insert_skip_modification';
	my ($tag, $control) = stop_writer('postgres', 't', 'DELETE FROM t WHERE id > 4');
	my %before = fc_stat($standby, $skips);

	cmp_ok(fc_tag_flash($standby, $tag, 'relblocknumber >= 4'), '<', 4, 'truncation: the writer holds some of the pages');
	fc_failpoint($control, 'file_before_md', 'pause');
	$primary->safe_psql('postgres', 'VACUUM t');
	is($primary->safe_psql('postgres', q{SELECT pg_relation_size('t') / 8192}), 4, 'truncation: the file is cut');
	stands($control, $tag, 'relblocknumber >= 4', 'file_before_md', 'file_after_md', 'truncation, C1 | C2: not published');
	stands($control, $tag, 'relblocknumber >= 4', 'file_after_md', undef, 'truncation, C2 | C3: nor there');
	my %after = fc_stat($standby, $skips);
	cmp_ok($after{$skips}, '>', $before{$skips}, 'truncation: a page was turned down for that');
	$primary->safe_psql('postgres', 'INSERT INTO t SELECT id, ' . fc_value_sql('v1') . ' FROM generate_series(5, 8) id');
	fc_replayed($primary, $standby);
	fc_is_read($standby, 'postgres', 't', 'v1', 8, 'truncation: the new pages are read', 'any');
	$control->quit;
}

# DROP DATABASE.
{
	$primary->safe_psql('postgres', 'CREATE DATABASE d');
	fc_table($primary, 'd', 't', 'v1', 8);
	my $skips = 'insert_skip_modification';
	my ($tag, $control) = stop_writer('d', 't', 'UPDATE t SET val = ' . fc_value_sql('v2'));
	my %before = fc_stat($standby, $skips);

	cmp_ok(fc_tag_flash($standby, $tag), '<', 8, 'DROP DATABASE: the writer holds some of the pages');
	fc_failpoint($control, 'database_before', 'pause');
	$primary->safe_psql('postgres', 'DROP DATABASE d');
	stands($control, $tag, undef, 'database_before', 'database_after', 'DROP DATABASE, C1 | C2: not published');
	stands($control, $tag, undef, 'database_after', undef, 'DROP DATABASE, C2 | C3: nor there');
	fc_replayed($primary, $standby);
	my %after = fc_stat($standby, $skips);
	cmp_ok($after{$skips}, '>', $before{$skips}, 'DROP DATABASE: a page was turned down for that');
	is(fc_tag_flash($standby, $tag), 0, 'DROP DATABASE: and none is there afterwards');
	$control->quit;
}

fc_is_quiet($primary, $standby);
$standby->stop;
$primary->stop;
done_testing();

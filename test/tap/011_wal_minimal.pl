
# wal_level = minimal: a table that is created and loaded in one transaction is not logged. It is synced at commit, or, if it
# is small, logged then. Until then its pages come into flash like others, and the file may be truncated and filled
# again under the same number. The pages of an index that was not logged have no LSN, and are not taken: they might never have been
# written.
#
# Fails without: the relation epoch in fc_smgr_truncate ("emptied in place"), the one in fc_smgr_unlink ("rolled back").

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 100;
my $node = fc_new_node('main', size => '32MB', conf => "wal_level = minimal\nmax_logical_replication_workers = 0\n");
fc_everywhere($node);
is($node->safe_psql('postgres', 'SHOW wal_level'), 'minimal', 'WAL is minimal');

sub tag_in
{
	my ($session, $relation) = @_;
	return {
		spc  => 1663,
		db   => $session->query_safe('SELECT oid FROM pg_database WHERE datname = current_database()'),
		rel  => $session->query_safe("SELECT pg_relation_filenode('$relation')"),
		name => $relation
	};
}

sub is_in_flash
{
	my ($tag, $name) = @_;
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_push_out($node, $tag);
	cmp_ok(fc_tag_flash($node, $tag), '>', 0, "$name: pages of $tag->{name} are in flash");
	return;
}

sub load_sql
{
	my ($label) = @_;
	return 'INSERT INTO t SELECT id, ' . fc_value_sql($label) . " FROM generate_series(1, $pages) id;";
}

# A file of more than so many kilobytes is synced, a smaller one is logged.
foreach my $threshold (0, 1024 * 1024)
{
	my $how = $threshold == 0 ? 'synced' : 'logged';
	$node->append_conf('postgresql.conf', "wal_skip_threshold = $threshold");
	$node->reload;
	$node->poll_query_until('postgres', "SELECT current_setting('wal_skip_threshold', true) = "
		  . ($threshold == 0 ? "'0'" : "'1GB'")) or die 'the setting does not arrive';
	my $session = $node->background_psql('postgres');

	# ---- created, loaded, changed, emptied and loaded again ----

	$session->query_safe('BEGIN; ' . FlashCacheMore::fc_table_sql('t', 'v1', $pages) . 'CREATE INDEX t_id ON t (id);');
	my @tags = map { tag_in($session, $_) } 't', 't_id';
	$session->query_safe('UPDATE t SET val = ' . fc_value_sql('v2'));
	is_in_flash($tags[0], $how);
	$node->safe_psql('postgres', 'CHECKPOINT');
	fc_push_out($node, $tags[1]);
	fc_is_gone($node, $tags[1], "$how: of the index none is");
	$session->query_safe('TRUNCATE t');
	is(tag_in($session, $_->{name})->{rel}, $_->{rel}, "$how: emptied in place: the file of $_->{name} is the same") foreach @tags;
	fc_is_gone($node, $tags[0], "$how: emptied in place: no page of it is in flash");
	$session->query_safe(load_sql('v3'));
	is_in_flash($tags[0], "$how: loaded again");
	$session->query_safe('COMMIT');

	my $look = sub {
		my ($when) = @_;
		fc_is_read($node, 'postgres', 't', 'v3', $pages, "$how: $when: the rows are right", 'any');
		fc_bring($node, 'postgres', 't');
		fc_is_read($node, 'postgres', 't', 'v3', $pages, "$how: $when: from flash as well");
		is($node->safe_psql('postgres', 'SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT count(*), sum(id) FROM t WHERE id > 0'),
			$pages . '|' . $pages * ($pages + 1) / 2, "$how: $when: by the index, too");
	};
	$look->('committed');
	$session->quit;
	fc_kill_server($node);
	$node->start;
	fc_wait_active($node);
	$look->('after a kill -9');
	$node->safe_psql('postgres', 'DROP TABLE t');

	# ---- rolled back ----

	$session = $node->background_psql('postgres');
	$session->query_safe('BEGIN; ' . FlashCacheMore::fc_table_sql('t', 'v4', $pages));
	my $tag = tag_in($session, 't');
	is_in_flash($tag, "$how: to be rolled back");
	$session->query_safe('ROLLBACK');
	fc_is_gone($node, $tag, "$how: rolled back: none is afterwards");
	$session->quit;
}

fc_is_quiet($node);
$node->stop;
done_testing();

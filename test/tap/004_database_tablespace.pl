
# A database moves to another tablespace and back, and its rows change on the way.
#
# ALTER DATABASE SET TABLESPACE copies and removes directories; the storage manager sees nothing of it, and file numbers
# stay. So on the way back every tag of the first stay is in use again, over other content. On a primary the utility
# hook tells the cache, on a standby the wrapped redo of the resource manager does.
#
# Fails without: the utility hook in fc_attach_events (primary: pages left behind, old rows and verify_failures); the
# wrapped redo there (the same on the standby).

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my ($primary, $standby) = fc_pair();
$primary->safe_psql('postgres', "CREATE TABLESPACE b LOCATION ''");
$primary->safe_psql('postgres', 'CREATE DATABASE d');
fc_table($primary, 'd', 't', 'v1', $pages);
$primary->safe_psql('d', 'ALTER TABLE t ADD PRIMARY KEY (id)');

# Tags of the table and the index in each tablespace, as seen at the first stay there.
my %seen;

# The database is in that tablespace, with these rows, and every tag is that of an earlier stay. All pages come into flash.
sub stay
{
	my ($tablespace, $label) = @_;

	foreach my $relation ('t', 't_pkey')
	{
		my $tag   = fc_tag($primary, 'd', $relation);
		my $first = $seen{$tablespace}{$relation} // $tag;
		is_deeply($tag, $first, "in $tablespace: $relation has the tag of its earlier stay") if $first != $tag;
		$seen{$tablespace}{$relation} = $first;
	}
	fc_replayed($primary, $standby);
	foreach my $node ($primary, $standby)
	{
		fc_is_read($node, 'd', 't', $label, $pages, "in $tablespace: the rows are right", 'any');
		fc_bring($node, 'd', $_) foreach 't', 't_pkey';
		fc_is_read($node, 'd', 't', $label, $pages, "in $tablespace: from flash as well");
		is( $node->safe_psql(
				'd', 'SET enable_seqscan = off; SELECT count(*), sum(id) FROM t WHERE id BETWEEN 1 AND 1000'),
			$pages . '|' . $pages * ($pages + 1) / 2,
			$node->name . ": in $tablespace: the index is right");
		fc_push_out($node, $seen{$tablespace}{t});
	}
	return;
}

sub move
{
	my ($from, $to) = @_;

	fc_is_warm($_, $seen{$from}{t}, $pages, "before the move from $from its pages are in flash") foreach $primary, $standby;
	$primary->safe_psql('postgres', "ALTER DATABASE d SET TABLESPACE $to");
	fc_replayed($primary, $standby);
	foreach my $node ($primary, $standby)
	{
		fc_is_gone($node, $_, "after the move from $from no page of $_->{name} is")
		  foreach $seen{$from}{t}, $seen{$from}{t_pkey};
	}
	return;
}

stay('pg_default', 'v1');
move('pg_default', 'b');
fc_rewrite_rows($primary, 'd', 't', 'v2');
stay('b', 'v2');
move('b', 'pg_default');
stay('pg_default', 'v2');
fc_rewrite_rows($primary, 'd', 't', 'v3');
fc_warm($primary, $standby, 'd', 't');
move('pg_default', 'b');
stay('b', 'v3');

fc_is_quiet($primary, $standby);
$standby->stop;
$primary->stop;
done_testing();

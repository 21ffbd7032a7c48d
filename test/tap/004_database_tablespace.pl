
# A database moves to another tablespace and back, and its rows change on the way.
#
# ALTER DATABASE SET TABLESPACE copies and removes directories; the storage manager sees nothing of it, and file numbers
# stay. So on the way back every tag of the first stay is in use again, over other content. On a primary the commit of the
# move tells the cache, on a standby the wrapped redo of the resource manager does.
#
# Then all the ways in which such a statement fails: none may cost the database a page. And a DROP DATABASE whose process is
# ended in the middle.
#
# Fails without: the utility hook in fc_attach_events (primary: pages left behind, old rows and verify_failures); the
# wrapped redo there (the same on the standby); move_commits in attach/events.c (the same, and "the database is still locked");
# drop_failed there ("ended in the middle"). With an invalidation before the server's checks: each of "costs nothing"; of the
# caller's database, in the error cleanup: "nor any other database".

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
# A page that is written leaves flash, so nothing but the test writes: a page of a catalog is dirty as soon as somebody sets hint
# bits on it. And no page has to make room for another.
my ($primary, $standby) = fc_pair(size => "64MB", conf => "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1d\n");
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

# ---- statements that change nothing ----

my $session = $primary->background_psql('d');
$primary->safe_psql('postgres', 'CREATE ROLE stranger; CREATE ROLE maker CREATEDB; GRANT CREATE ON TABLESPACE b TO stranger');
$primary->safe_psql('postgres', 'ALTER DATABASE d CONNECTION LIMIT 50');

# Until nothing is left to be written: no dirty page, and no row of a catalog whose hint bits the next reader would set.
sub settle
{
	for (1 .. 10)
	{
		$primary->safe_psql('postgres', $_) foreach 'VACUUM', 'CHECKPOINT';
		return if $primary->safe_psql('postgres', 'SELECT count(*) FROM pg_buffercache WHERE isdirty') == 0;
	}
	die 'pages are dirty, and are not written';
}

# Each page on flash that is not of that database.
sub of_others
{
	return split /\n/, $primary->safe_psql('postgres',
		"SELECT reldatabase, reltablespace, relfilenode, relblocknumber FROM pg_flashcache_pages WHERE reldatabase <> $seen{b}{t}{db}");
}

sub costs_nothing
{
	my ($statements, $error) = @_;
	my $of_d = 'SELECT count(*) FROM pg_flashcache_pages WHERE reldatabase = ' . $seen{b}{t}{db};
	my $on_flash = $primary->safe_psql('postgres', $of_d);
	my (@others, %left, $output);
	my %moved = fc_delta(
		$primary,
		sub {
			@others = of_others();
			(undef, undef, $output) = $primary->psql('postgres', $statements);
			%left = map { $_ => 1 } of_others();
		},
		qw(eviction_invalidated eviction_aged_out));

	cmp_ok($on_flash, '>', $pages, "$statements: much of the database is in flash");
	like($output, $error, "$statements: fails");
	is($primary->safe_psql('postgres', $of_d), $on_flash, "$statements: costs nothing");
	is($moved{eviction_invalidated}, 0, "$statements: nor any other database");
	# The entries of a whole database are dead at once, and counted when a sweep frees them. Others make room for pages of today.
	my @lost = grep { !$left{$_} } @others;
	cmp_ok(scalar @lost, '<=', $moved{eviction_aged_out}, "$statements: none of their pages") or diag "lost: @lost";
	return;
}

my $read_only = 'SET default_transaction_read_only = on';
my $soon = "SET statement_timeout = '200ms'";
settle();
my $late = qr/canceling statement due to statement timeout|being accessed by other users/;
costs_nothing('CREATE DATABASE d', qr/already exists/);
costs_nothing("SET ROLE maker; CREATE DATABASE d", qr/already exists/);
costs_nothing("SET ROLE stranger; CREATE DATABASE d", qr/permission denied/);
costs_nothing("$read_only; CREATE DATABASE d", qr/read-only transaction/);
costs_nothing("SET ROLE stranger; DROP DATABASE d", qr/must be owner/);
costs_nothing('BEGIN; DROP DATABASE d', qr/transaction block/);
costs_nothing(q{DO 'BEGIN DROP DATABASE d; END'}, qr/cannot be executed from a function|transaction block/);
costs_nothing("$read_only; DROP DATABASE d", qr/read-only transaction/);
costs_nothing("$soon; DROP DATABASE d", $late);
costs_nothing('DROP DATABASE template1', qr/template database/);
costs_nothing('DROP DATABASE postgres', qr/currently open database/);
costs_nothing("SET ROLE stranger; ALTER DATABASE d SET TABLESPACE b", qr/must be owner/);
costs_nothing('BEGIN; ALTER DATABASE d SET TABLESPACE pg_default', qr/transaction block/);
costs_nothing("$read_only; ALTER DATABASE d SET TABLESPACE pg_default", qr/read-only transaction/);
costs_nothing("$soon; ALTER DATABASE d SET TABLESPACE pg_default", $late);
costs_nothing('ALTER DATABASE d SET TABLESPACE nowhere', qr/does not exist/);
costs_nothing('ALTER DATABASE d SET TABLESPACE b', qr/^$/);
costs_nothing('ALTER DATABASE d CONNECTION LIMIT 51', qr/^$/);
$session->quit;

# ---- a move back, seen by those who wait to read ----

$primary->safe_psql('postgres', 'CREATE DATABASE other');
my $control = fc_control($primary);
fc_failpoint($control, 'database_after', 'pause');
my $mover = $primary->background_psql('other');
$mover->query_until(qr/begun/, "\\echo begun\nALTER DATABASE d SET TABLESPACE pg_default;\n");
fc_failpoint_wait($control, 'database_after');
is( $control->query_safe(
		"SELECT count(*) FROM pg_locks WHERE classid = 'pg_database'::regclass AND objid = $seen{b}{t}{db} "
		  . q{AND mode = 'AccessExclusiveLock' AND granted}),
	1, 'the cache is told while the database is still locked');
fc_failpoint($control, 'database_after', 'off');
$mover->quit;
fc_replayed($primary, $standby);
fc_is_gone($primary, $seen{b}{$_}, "moved back: no page of $_ is left") foreach 't', 't_pkey';
stay('pg_default', 'v3');

# ---- ended in the middle ----

# DROP DATABASE waits for a checkpoint when the buffers are gone and the files are not; it stands still at a page.
fc_is_warm($primary, $seen{pg_default}{t}, $pages, 'before it is dropped its pages are in flash');
# Of a page that is in use, lest another process should have to write it, and stand still in its place.
$primary->safe_psql('postgres', 'CREATE TABLE dirty AS SELECT 1');
my $dirty = $primary->safe_psql('postgres', "SELECT pg_relation_filenode('dirty')");
my $dropper = $primary->background_psql('other', on_error_stop => 0);
my $pid = $dropper->query_safe('SELECT pg_backend_pid()');
my $waits_for = "SELECT wait_event FROM pg_stat_get_activity($pid)";
$primary->safe_psql('postgres', 'UPDATE dirty SET "?column?" = 2' . '; SELECT * FROM dirty' x 5);
fc_failpoint($control, 'write_after_md', 'pause', $dirty);
$dropper->query_until(qr/begun/, "\\echo begun\nDROP DATABASE d;\n");
fc_failpoint_wait($control, 'write_after_md');
my $event = '';
for (1 .. 600)
{
	last if ($event = $control->query_safe($waits_for)) =~ /^Checkpoint/;
	select undef, undef, undef, 0.1;
}
like($event, qr/^Checkpoint/, 'ended in the middle: it waits for the checkpoint');
$control->query_safe("SELECT pg_terminate_backend($pid, 60000)");
fc_failpoint($control, 'write_after_md', 'off');
$control->quit;
fc_is_gone($primary, $seen{pg_default}{$_}, "ended in the middle: no page of $_ is left") foreach 't', 't_pkey';
$dropper->{run}->finish;
$primary->safe_psql('postgres', 'DROP DATABASE d');
fc_replayed($primary, $standby);

fc_is_quiet($primary, $standby);
$standby->stop;
$primary->stop;
done_testing();

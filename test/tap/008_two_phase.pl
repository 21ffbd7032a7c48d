
# Prepared transactions: their new files, and the files that they drop, live on over restarts of either server.
#
# What is dropped goes at COMMIT PREPARED, what was created goes at ROLLBACK PREPARED, in a session that has not made
# either. Pages of both kinds of files are in flash then.
#
# Fails without: the relation epoch in fc_smgr_unlink.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

# Four files of it fit into shared buffers beside the rest: what recovery had to push out would not be in flash, since the
# cache starts after it.
my $pages = 15;
my ($primary, $standby) = fc_pair(conf => 'max_prepared_transactions = 5');
my @both = ($primary, $standby);

# Prepares a transaction that drops, truncates and creates. Returns the tags of the file that a commit removes and of
# those that a rollback removes. Locked tables cannot be looked at: what is in flash is asked for by tags.
sub prepare_once
{
	my ($name) = @_;
	my %tag;

	$primary->safe_psql('postgres', 'DROP TABLE IF EXISTS dropped, emptied, made');
	fc_table($primary, 'postgres', $_, 'v1', $pages) foreach 'dropped', 'emptied';
	$tag{$_} = fc_tag($primary, 'postgres', $_) foreach 'dropped', 'emptied';
	fc_warm($primary, $standby, 'postgres', 'dropped', 'emptied');
	# Not yet in the data files when the server is killed, so recovery has them in its hands.
	fc_rewrite_rows($primary, 'postgres', $_, 'v2') foreach 'dropped', 'emptied';
	my ($made, $refilled) = split /\n/, $primary->safe_psql('postgres',
		'BEGIN; DROP TABLE dropped; TRUNCATE emptied;'
		  . 'INSERT INTO emptied SELECT id, ' . fc_value_sql('v3') . " FROM generate_series(1, $pages) id;"
		  . FlashCacheMore::fc_table_sql('made', 'v3', $pages)
		  . "SELECT pg_relation_filenode('made'); SELECT pg_relation_filenode('emptied'); PREPARE TRANSACTION '$name'");
	$tag{made}     = { %{ $tag{dropped} }, rel => $made,     name => 'made' };
	$tag{refilled} = { %{ $tag{dropped} }, rel => $refilled, name => 'refilled' };
	fc_replayed($primary, $standby);
	return \%tag;
}

# The same, and of each file some pages are in flash on these servers. A page that was still dirty when its buffer was
# needed does not come into flash, and no query can bring pages of locked tables: then all is made again.
sub prepare
{
	my ($name, @nodes) = @_;
	my @missing;
	for (1 .. 10)
	{
		my $tag = prepare_once($name);
		@missing = ();
		foreach my $node (@nodes)
		{
			fc_push_out($node, $tag->{$_}) foreach sort keys %$tag;
			push @missing, map { $node->name . ": $_" } grep { !fc_tag_flash($node, $tag->{$_}) } sort keys %$tag;
		}
		return $tag if !@missing;
		note("'$name' is prepared again, not in flash: " . join(', ', @missing));
		$primary->safe_psql('postgres', "ROLLBACK PREPARED '$name'");
	}
	die "'$name' was prepared ten times, not in flash: " . join(', ', @missing);
}

# Of each file some pages are in flash on the server.  (after_kill: recovery may have pushed all of a file out.)
sub is_in_flash
{
	my ($node, $tag, $name, %arg) = @_;
	foreach my $file (sort keys %$tag)
	{
		# What recovery has pushed out already never comes to flash, since the cache starts after it.
		my $is_left = fc_tag_buffers($node, $tag->{$file}) > 0 || !$arg{after_kill};
		fc_push_out($node, $tag->{$file});
		next if !$is_left;
		cmp_ok(fc_tag_flash($node, $tag->{$file}), '>', 0, $node->name . ": $name: $file is in flash");
	}
	return;
}

# The transaction has ended on both servers: files are gone, tables are right, and come from flash as well.
sub is_ended
{
	my ($tag, $gone, $label, $name, @nodes) = @_;
	foreach my $node (@nodes)
	{
		fc_is_gone($node, $tag->{$_}, "$name: $_ is gone") foreach @$gone;
		foreach my $table (grep { !/refilled/ } sort keys %$tag)
		{
			next if grep { $_ eq $table && $table ne 'emptied' } @$gone;
			fc_is_read($node, 'postgres', $table, $label, $pages, "$name: $table is right", 'any');
			fc_bring($node, 'postgres', $table);
			fc_is_read($node, 'postgres', $table, $label, $pages, "$name: $table from flash as well");
		}
	}
	return;
}

# ---- the primary is killed in between; then a commit ----

my $tag = prepare('one', $standby);
fc_kill_server($primary);
$primary->start;
fc_wait_active($primary);
is_in_flash($primary, $tag, 'prepared, after a kill -9', after_kill => 1);
$primary->safe_psql('postgres', "COMMIT PREPARED 'one'");
fc_replayed($primary, $standby);
is_ended($tag, [ 'dropped', 'emptied' ], 'v3', 'committed', @both);

# ---- both are restarted in between, the standby is killed; then a rollback ----

$tag = prepare('two', @both);
fc_kill_server($standby);
$standby->start;
fc_wait_active($standby);
fc_replayed($primary, $standby);
$primary->restart;
fc_wait_active($primary);
$primary->safe_psql('postgres', "ROLLBACK PREPARED 'two'");
fc_replayed($primary, $standby);
is_ended($tag, [ 'made', 'refilled' ], 'v2', 'rolled back', @both);

# ---- a rollback without a restart ----

$tag = prepare('three', @both);
$primary->safe_psql('postgres', "ROLLBACK PREPARED 'three'");
fc_replayed($primary, $standby);
is_ended($tag, [ 'made', 'refilled' ], 'v2', 'rolled back at once', @both);

# ---- the standby is promoted in between; then a commit ----

$tag = prepare('four', $standby);
fc_is_quiet(@both);
$primary->stop;
$standby->promote;
is_in_flash($standby, $tag, 'promoted');
$standby->safe_psql('postgres', "COMMIT PREPARED 'four'");
is_ended($tag, [ 'dropped', 'emptied' ], 'v3', 'committed after a promotion', $standby);

fc_is_quiet($standby);
$standby->stop;
done_testing();

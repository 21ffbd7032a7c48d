# FlashCacheLoads - what the tests of loading share: tables that are read from their data files, statements under way
#
#   use FlashCacheLoads;
#   my $tag = written_table($node, 't', 100);
#   restart_cold($node);
#   my $session = begin($node, q{SELECT * FROM pg_flashcache_prewarm('t')});
#   wait_until($node, q{count(*) = 1 FROM pg_stat_progress_flashcache_prewarm}, 'it is under way');
#   is(result($session), ...);

package FlashCacheLoads;

use strict;
use warnings;

use Exporter 'import';
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(written_table restart_cold begin result wait_until);

# A table of known pages, all written, and with its hint bits.
sub written_table
{
	my ($node, $name, $pages) = @_;
	fc_table($node, 'postgres', $name, $name, $pages);
	$node->safe_psql('postgres', "SELECT count(*) FROM $name");
	$node->safe_psql('postgres', 'CHECKPOINT');
	return fc_tag($node, 'postgres', $name);
}

# The pool is empty afterwards, and so is flash.
sub restart_cold
{
	my ($node) = @_;
	$node->restart;
	fc_wait_active($node);
	return;
}

# Begins a statement in a session of its own; its answer comes with result().
sub begin
{
	my ($node, $statement) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);

	$session->query_until(qr/begun/, "\\echo begun\n$statement;\n");
	return $session;
}

# What it returned, and the error, if there was one.
sub result
{
	my ($session) = @_;
	my $rows = join ' ', grep { $_ ne 'end' } split /\n/, $session->query(q{SELECT 'end'});
	my $error = $session->query('\echo :LAST_ERROR_MESSAGE');

	$error =~ s/[\n;]//g;
	$session->quit;
	return $error ne '' ? $error : $rows;
}

sub wait_until
{
	my ($node, $query, $what) = @_;
	$node->poll_query_until('postgres', "SELECT $query") or die "this does not come: $what";
	return;
}

1;


# After every start the cache is cold, and what queries see is what the data files and the WAL say.
#
# The file on flash still holds the pages of the run before. None of them may be used: the server may have changed the
# data files while the cache did not look, and after a crash it has.
#
# Scenarios: clean restart; immediate stop with changes that only the WAL has; kill -9 of all processes; a crash that the
# server recovers from by itself; a run without the cache in between, in which the pages change.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my $node  = fc_new_node('main', size => '32MB', conf => "restart_after_crash = on\nmax_logical_replication_workers = 0");
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', $pages);
my $tag = fc_tag($node, 'postgres', 't');

# Brings the table into flash, lets the server end in some way, changes the rows on the way as the sub likes, starts it
# again, and looks: cold, right, and warm again.
#
# Recovery brings pages into shared buffers, and from there they may soon be in flash again. Then "cold" means that every
# page in flash was put there by this run.
sub test_end
{
	my ($how, $label, $end, $recovers) = @_;

	fc_warm($node, undef, 'postgres', 't');
	fc_is_warm($node, $tag, $pages, "$how: all pages were in flash before");
	$end->();
	fc_wait_active($node);
	fc_is_gone($node, $tag, "$how: none of them is afterwards") if !$recovers;
	fc_is_accounted($node, "$how: what is in flash is new");
	is(-s fc_flash_file($node), 32 * 1024 * 1024 + 65536, "$how: the file has the same size as before");
	fc_is_read($node, 'postgres', 't', $label, $pages, "$how: the rows are right", $recovers ? 'any' : 'disk');
	fc_warm($node, undef, 'postgres', 't');
	fc_is_read($node, 'postgres', 't', $label, $pages, "$how: then each page from flash");
}

test_end('clean restart', 'v1', sub { $node->restart });
fc_is_clean($node);

test_end(
	'immediate stop',
	'v2',
	sub {
		fc_rewrite_rows($node, 'postgres', 't', 'v2');
		$node->stop('immediate');
		$node->start;
	},
	'recovers');
fc_is_clean($node);

# Dirty pages that were evicted are in the data file and were in flash, later changes are in the WAL only.
test_end(
	'kill -9',
	'v4',
	sub {
		fc_rewrite_rows($node, 'postgres', 't', 'v3');
		fc_push_out($node, $tag);
		fc_rewrite_rows($node, 'postgres', 't', 'v4');
		fc_kill_server($node);
		$node->start;
	},
	'recovers');
fc_is_clean($node);

test_end(
	'run without the cache',
	'v5',
	sub {
		$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', '0');
		$node->restart;
		is({ fc_stat($node, 'state') }->{state}, 'disabled', 'run without the cache: it is disabled');
		fc_rewrite_rows($node, 'postgres', 't', 'v5');
		$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', "'32MB'");
		$node->restart;
	});
fc_is_clean($node);

# The postmaster lives on, and with it the descriptor of the cache file and its lock. The log then says that a process
# was killed, so only the counters are looked at.
test_end(
	'crash of one process',
	'v6',
	sub {
		fc_rewrite_rows($node, 'postgres', 't', 'v6');
		my $session = $node->background_psql('postgres', on_error_stop => 0);
		my $log     = -s $node->logfile;
		kill 'KILL', $session->query_safe('SELECT pg_backend_pid()');
		$node->wait_for_log(qr/database system is ready to accept connections/, $log);
		$session->{run}->finish;
	},
	'recovers');
my %trouble = fc_stat($node, qw(verify_failures checksum_failures read_errors write_errors slots_retired));
is_deeply([ grep { $trouble{$_} } keys %trouble ], [], 'crash of one process: nothing went wrong with the cache');

$node->stop;
done_testing();

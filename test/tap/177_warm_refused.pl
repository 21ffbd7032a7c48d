# Why a log of what is on flash is not believed: reasons that no other test brings about, word for word (src/warm.md).

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant { PAGE => 8192, SLOTS => 512, PAGES => 40 };
use constant ROOTS => 65536 + PAGE * SLOTS;
use constant MAPS  => ROOTS + 2 * PAGE;

my $node = fc_new_node('main', size => '4MB',
	conf => "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nrestart_after_crash = off\n");
fc_everywhere($node);
fc_table($node, 'postgres', 't', 'v1', PAGES);

# Reads, or writes, part of the file of the cache.
sub flash
{
	my ($at, $bytes, $content) = @_;
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	seek $fh, $at, 0 or die $!;
	if (defined $content) { print $fh $content or die $! }
	elsif (read($fh, $content, $bytes) != $bytes) { die 'the file of the cache is too short' }
	close $fh or die $!;
	return $content;
}

sub prepare
{
	fc_warm($node, undef, 'postgres', 't');
	fc_stamp($node);
	return;
}

# It starts, and the cache is empty for exactly that reason.
sub is_refused
{
	my ($reason) = @_;
	$node->start;
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT refused, coalesce(restored, 0) FROM pg_stat_flashcache_persistence'), "$reason|0", $reason);
	fc_is_read($node, 'postgres', 't', 'v1', PAGES, "$reason: the rows are right", 'any');
	return;
}

# The file of the run is gone.
prepare();
$node->stop;
unlink $node->data_dir . '/pg_flashcache.run' or die $!;
is_refused('the data directory does not say which run of the server was the last');

# The roots of a moment before the stop.
prepare();
my $roots = flash(ROOTS, 2 * PAGE);
$node->stop;
flash(ROOTS, 2 * PAGE, $roots);
is_refused('its log is older than the stop of the server');

# After a crash the map on flash counts: both are spoilt.
prepare();
fc_kill_server($node);
flash(MAPS, 2 * PAGE, "\x5A" x (2 * PAGE));
is_refused(q{the map in its log can't be read});

# A crash before the first checkpoint has its stamp.
$node->stop;
unlink fc_flash_file($node) or die $!;
{
	local $ENV{FC_ARM} = 'warm_stamp error';
	$node->start;
}
fc_wait_active($node);
fc_warm($node, undef, 'postgres', 't');
fc_writer_round($node);
fc_kill_server($node);
is_refused('its log has no checkpoint yet');

my %now = fc_stat($node, qw(state verify_failures));
is_deeply(\%now, { state => 'active', verify_failures => 0 }, 'no page was wrong');
$node->stop;

done_testing();


# A cache, or a device, that is off for one cause, and can't come back for another: who has removed the first one finds the next
# one in the server's log.
#
# Fails without: the second cause in fc_writer_probe_failed() (writer_trouble.c) and probe_failed() (cache_devices_trouble.c).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node   = fc_new_node('causes', conf => "pg_flashcache.max_size = '8MB'\n");
my $folder = $node->basedir . '/away';

# Waits for a line of the log; how many warnings there are of that.
sub warnings_of
{
	my ($what) = @_;
	$node->wait_for_log(qr/WARNING:  [^\n]*$what/);
	my @found = slurp_file($node->logfile) =~ /WARNING:  [^\n]*$what/g;
	return scalar @found;
}

# The first device, from the start on.
$node->append_conf('postgresql.conf', "pg_flashcache.file = '$folder/cache'");
$node->restart;
is(warnings_of('is off: folder of [^\n]* cannot be found'), 1, 'no folder: a warning');
mkdir $folder or die $!;
chmod 0777, $folder or die $!;
is(warnings_of('is off: [^\n]*other users may write'), 1, 'one that others may write to: a warning of that');
chmod 0700, $folder or die $!;
fc_wait_active($node);
is(warnings_of('is off: [^\n]*other users may write'), 1, 'no more of them');

# Another device.
my $second = "$folder/second";
$node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$second', 1048576)");
$node->stop;
rename $second, "$second.away" or die $!;
$node->start;
is(warnings_of('does not use "[^"]*second": [^\n]*(?:missing|cannot be found|does not exist|No such file)'), 1, 'a device whose file is away: a warning');
append_to_file($second, 'x' x 8192);
chmod 0600, $second or die $!;
is(warnings_of('does not use "[^"]*second": [^\n]*not a flash cache'), 1, 'something else in its place: a warning of that');
unlink $second or die $!;
rename "$second.away", $second or die $!;
$node->poll_query_until('postgres', 'SELECT state FROM pg_stat_flashcache_device WHERE device = 2', 'active') or die 'it is not back';
$node->stop;
done_testing();

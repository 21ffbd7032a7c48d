
# Names and paths of other encodings: each view is readable in each database.
#
# Fails without: readable() in sql_row.h (a text that is not valid in a database whose encoding is UTF8); the check in
# fc_add_device() (a path that other databases could not name).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('encodings', conf => "pg_flashcache.max_size = '8MB'\n");
foreach my $encoding (qw(UTF8 LATIN1 SQL_ASCII))
{
	$node->safe_psql('postgres', "CREATE DATABASE $encoding ENCODING '$encoding' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'");
	$node->safe_psql(lc $encoding, 'CREATE EXTENSION pg_flashcache');
}

# A path that is given in one database is seen in all.
my $folder = $node->basedir;
foreach my $database (qw(latin1 sql_ascii))
{
	my $accented = $database eq 'latin1' ? 'chr(233)' : q{E'\\xe9'};
	my ($rc, $out, $err) = $node->psql($database, "SELECT pg_flashcache_add_device('$folder/' || $accented, 1048576)");
	like($err, qr/path has other than ASCII characters, and the encoding of this database is not UTF8/, "$database: the path is refused");
	like($err, qr/HINT:  Use another path, or add it in a database whose encoding is UTF8/, "$database: and what to do");
}
$node->safe_psql('utf8', "SELECT pg_flashcache_add_device('$folder/' || chr(233), 1048576)");
is($node->safe_psql('utf8', 'SELECT right(path, 1) = chr(233) FROM pg_stat_flashcache_device WHERE device = 2'), 't', 'UTF8: it is accepted');
$node->safe_psql('latin1', "SELECT pg_flashcache_add_device('$folder/plain', 1048576)");
$node->safe_psql('utf8', 'SELECT pg_flashcache_remove_device(path) FROM pg_stat_flashcache_device WHERE device > 1');

# A path in the configuration file is of no encoding, and is part of a reason.
$node->append_conf('postgresql.conf', "pg_flashcache.file = '$folder/pl\xe9in/cache'");
$node->restart;
my $sql = q{SELECT state, reason LIKE '%/pl?in%', length(convert_to(reason, 'UTF8')) > 0 FROM pg_stat_flashcache};
$node->poll_query_until('utf8', q{SELECT state FROM pg_stat_flashcache}, 'off');
is($node->safe_psql('utf8', $sql), 'off|t|t', 'UTF8: what is not valid is replaced');
is($node->safe_psql('sql_ascii', q{SELECT reason ~ E'/pl\\xe9in' FROM pg_stat_flashcache}), 't', 'SQL_ASCII: nothing is');

$node->stop;
done_testing();

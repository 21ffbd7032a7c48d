
# Names and paths of other encodings: each view is readable in each database.
#
# Fails without: readable() in sql_row.h (a text that is not valid in a database whose encoding is UTF8); the check in
# fc_add_device() (a path that other databases could not name); try_texts() in sql_objects.c (a statement's text).

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('encodings', conf => "pg_flashcache.max_size = '8MB'\nshared_preload_libraries = 'pg_stat_statements,pg_flashcache'\n");
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

# pg_stat_statements has the texts of all databases: one that has no form here leaves the counters. UTF8: what is not valid; LATIN1:
# what it does not have.
$node->safe_psql($_, 'CREATE EXTENSION pg_stat_statements') foreach qw(utf8 latin1 sql_ascii);
my %other = (utf8 => [ 'sql_ascii', qq{SELECT 1 AS "caf\xe9"} ], latin1 => [ 'utf8', qq{SELECT 1 AS "\xe6\x97\xa5"} ]);
foreach my $here (sort keys %other)
{
	my ($there, $statement) = @{ $other{$here} };
	my $rows = 'SELECT count(*) > 0, count(query) > 0 FROM pg_stat_flashcache_statements';
	$node->safe_psql($here, 'SELECT pg_stat_statements_reset()');
	$node->safe_psql($here, 'SELECT 1');
	is($node->safe_psql($here, $rows), 't|t', "$here: its own statement has a text");
	$node->safe_psql($there, $statement);
	my ($rc, $out, $err) = $node->psql($here, "$rows;\n$rows;");
	is($out, "t|f\nt|f", "$here: with a text of another encoding, counters without texts");
	my @said = $err =~ /NOTICE:  texts of statements are not shown: (?:invalid byte sequence|character with byte sequence)/g;
	is(scalar @said, 2, "$here: and why");
	like($err, qr/HINT:  pg_stat_statements has one of a database with another encoding\./, "$here: and what to do");
	is($node->safe_psql($there, $rows), 't|t', "$here: $there shows texts") if $there eq 'sql_ascii';
	my $oid = $node->safe_psql($here, "SELECT oid FROM pg_database WHERE datname = '$there'");
	$node->safe_psql($here, "SELECT pg_stat_statements_reset(0, $oid, 0)");
	is($node->safe_psql($here, $rows), 't|t', "$here: without it there are texts again");
}

# A path in the configuration file is of no encoding, and is part of a reason.
$node->append_conf('postgresql.conf', "pg_flashcache.file = '$folder/pl\xe9in/cache'");
$node->restart;
my $sql = q{SELECT state, reason LIKE '%/pl?in%', length(convert_to(reason, 'UTF8')) > 0 FROM pg_stat_flashcache};
$node->poll_query_until('utf8', q{SELECT state FROM pg_stat_flashcache}, 'off');
is($node->safe_psql('utf8', $sql), 'off|t|t', 'UTF8: what is not valid is replaced');
is($node->safe_psql('sql_ascii', q{SELECT reason ~ E'/pl\\xe9in' FROM pg_stat_flashcache}), 't', 'SQL_ASCII: nothing is');

$node->stop;
done_testing();

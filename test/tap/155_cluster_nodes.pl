# The views gv_...: the caches of several servers in one view. A node that is down, slow, refuses, or lacks the extension or its
# version shows as such and keeps nobody from seeing the others; who may add nodes and look; that no connection is left for the
# session's user, however it ends; standbys and dumps have the nodes.

use strict;
use warnings;

use FlashCache;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant SECRET => 'tOpS3cret';

my $primary = fc_new_node('primary', size => '1MB', streaming => 1, conf => "autovacuum = off\nshared_preload_libraries = 'pg_flashcache, pg_stat_statements'\npg_stat_statements.track = all\n");
my $version = int($primary->safe_psql('postgres', 'SHOW server_version_num') / 10000);

sub sql { return $primary->safe_psql('postgres', join '; ', @_) }

# What the server says of a statement that it refuses.
sub refused
{
	my ($statement, $expected, $name, $node) = @_;
	my (undef, undef, $error) = ($node // $primary)->psql('postgres', $statement);
	like($error, $expected, $name);
	return;
}

sub shown
{
	my ($node, $view, $columns, $where) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM $view " . ($where ? "WHERE $where " : '') . 'ORDER BY node');
}

# ---- without nodes ----

is(shown($primary, 'gv_stat_flashcache', 'node, node_state, node_role, node_version, state, slots'), 'primary|up|primary|1.1|active|128', 'without nodes, this server');
refused("SELECT pg_flashcache_add_node('one', 'host=x')", qr/ERROR:  nodes are asked through the extension dblink.*\nHINT:  CREATE SCHEMA flash_nodes; CREATE EXTENSION dblink/, 'dblink is needed');
sql('CREATE EXTENSION dblink');
refused("SELECT pg_flashcache_add_node('one', 'host=x')", qr/ERROR:  dblink is in schema public, which others than superusers may use\nHINT:  As a superuser: CREATE SCHEMA flash_nodes; ALTER EXTENSION/,
	'where nobody else can use it');
sql('CREATE SCHEMA flash_nodes', 'ALTER EXTENSION dblink SET SCHEMA flash_nodes');
is(sql(q{SELECT attrelid::regclass, attname FROM pg_attribute WHERE attrelid::regclass::text ~ '^gv_|_nodes$' AND attnum > 0
	AND coalesce(col_description(attrelid, attnum), '') = ''}), '', 'each column is explained');

# ---- connection strings ----

foreach (
	[ q{'a b', 'host=x'}, qr/"a b" cannot be the name of a node/, 'a name' ],
	[ q{'one', 'host'}, qr/the connection string of the node cannot be read/, 'a word alone' ],
	[ q{'one', 'password=} . SECRET . q{ host=''x'}, qr/the connection string of the node cannot be read/, 'a quote that is not closed' ],
	[ q{'one', 'postgresql://u:} . SECRET . q{@h/d'}, qr/a URI cannot be/, 'a URI' ],
	[ q{'one', 'host=a,b password=} . SECRET . q{'}, qr/it|a node is one server/, 'two hosts' ],
	[ q{'one', 'host=x nonsense=1 password=} . SECRET . q{'}, qr/the node "one" cannot be added: invalid option "nonsense"/, 'an option that there is not' ],
	[ q{'one', 'host=x', '100 ms'}, qr/a node cannot be given 00:00:00.1 to answer/, 'a time that is too short' ],
	[ q{'one', 'host=x', '2.5 s'}, qr/a node cannot be given 00:00:02.5 to answer\nHINT:  Give whole seconds, 1 to 60/, 'a time that would be rounded' ],
	[ q{'one', 'host=x', '61 s'}, qr/a node cannot be given 00:01:01 to answer/, 'a time that is too long' ],
	[ q{'one', 'dbname=postgres password=} . SECRET . q{'}, qr/connection string of the node does not say where it is\nHINT:  Give host/, 'no host' ],
	[ q{'one', 'host='''' port=5432 password=} . SECRET . q{'}, qr/connection string of the node does not say where it is/, 'an empty one' ],
	[ q{'one', ''}, qr/connection string of the node does not say where it is/, 'nothing at all' ],
	[ q{'one', NULL}, qr/must not be NULL/, 'NULL' ])
{
	my (undef, undef, $error) = $primary->psql('postgres', "SELECT pg_flashcache_add_node($_->[0])");
	like($error, $_->[1], $_->[2]);
	my ($message) = $error =~ /(.*?)(?:^LINE|\z)/ms;
	unlike($message, qr/@{[SECRET]}/, "$_->[2]: nothing of it is quoted");
}
is(sql('SELECT count(*) FROM pg_foreign_server'), 0, 'none of these has left a server behind');

# Each of these says where it is.
foreach ('host=/nowhere', 'hostaddr=127.0.0.1', 'service=nowhere')
{
	sql("SELECT pg_flashcache_add_node('place', '$_')");
	like(sql('SELECT srvoptions FROM pg_foreign_server'), qr/$_/, "a node with $_");
	sql("SELECT pg_flashcache_remove_node('place')");
}

# ---- nodes of every kind ----

sql('CREATE EXTENSION pg_stat_statements');
my $standby = fc_new_standby('standby', $primary, size => '512kB', conf => "cluster_name = 'two'\n");
sql(q{CREATE ROLE watcher LOGIN IN ROLE pg_read_all_stats}, q{CREATE ROLE monitor LOGIN IN ROLE pg_monitor}, q{CREATE ROLE nobody LOGIN}, q{CREATE ROLE weak LOGIN});
sql("CREATE DATABASE $_") foreach qw(old bare held);
$primary->safe_psql('old', q{CREATE EXTENSION pg_flashcache VERSION '1.0'});
$primary->safe_psql('held', 'CREATE EXTENSION pg_flashcache');

sub conninfo
{
	my ($node, $database, $user) = @_;
	return sprintf "host=%s port=%d user=%s dbname=%s", $node->host, $node->port, $user // 'watcher', $database // 'postgres';
}

sub add
{
	my ($name, $conninfo, $timeout) = @_;
	$conninfo =~ s/'/''/g;
	sql("SELECT pg_flashcache_add_node('$name', '$conninfo'" . ($timeout ? ", '$timeout'" : '') . ')');
	return;
}

# A port that is taken, and at which nobody listens.
my $taken = IO::Socket::INET->new(Proto => 'tcp', LocalAddr => '127.0.0.1') or die $!;
my $closed = $taken->sockport;

add('1one', conninfo($primary) . " password='it''s \\\\ @{[SECRET]}'" =~ s/''/\\'/r);
add('2two', conninfo($standby), '20 seconds');
add('3old', conninfo($primary, 'old'));
add('4bare', conninfo($primary, 'bare'));
add('5gone', "host=127.0.0.1 port=$closed user=watcher");
add('6nowhere', conninfo($primary, 'nowhere'));
add('7weak', conninfo($primary, 'postgres', 'weak'));
is(shown($primary, 'pg_flashcache_nodes', 'node, dbname, timeout, trusted', q{node IN ('1one', '2two')}), "1one|postgres|00:00:03|t\n2two|postgres|00:00:20|t", 'nodes');
refused(q{SELECT pg_flashcache_add_node('1one', 'host=x')}, qr/there is a node "1one" already/, 'a name that is taken');
is(sql("SELECT option_value FROM pg_user_mappings, pg_options_to_table(umoptions) WHERE srvname = 'pg_flashcache_1one' AND option_name = 'password'"),
	"it's \\ @{[SECRET]}", 'a password with quotes');
is(sql(q{SELECT count(*) FROM pg_foreign_server WHERE srvoptions::text ~ '} . SECRET . q{'}), 0, 'is in the user mapping only');

my $expected = join "\n", '1one|up|primary|1.1|active|128|t', '2two|up|standby|1.1|active|64|t', '3old|up|primary|1.0|active|128|t',
  '4bare|lacking|primary||||', '5gone|down|||||', '6nowhere|refused|||||', '7weak|refused|primary|1.1|||';
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
my $columns = 'node, node_state, node_role, node_version, state, slots, hits >= 0';
is(shown($primary, 'gv_stat_flashcache', $columns), $expected, 'each shows as what it is');
is(shown($standby, 'gv_stat_flashcache', $columns), $expected, 'and so it does on a standby');
is(shown($primary, 'gv_stat_flashcache', 'node, node_reason', q{node IN ('1one', '4bare')}), "1one|\n4bare|the database that is asked has no extension pg_flashcache", 'why it is not there');
like(shown($primary, 'gv_stat_flashcache', 'node_reason', q{node = '5gone'}), qr/Connection refused/, 'why there is no connection');
like(shown($primary, 'gv_stat_flashcache', 'node_reason', q{node = '6nowhere'}), qr/database "nowhere" does not exist/, 'why it is refused');
like(shown($primary, 'gv_stat_flashcache', 'node_reason', q{node = '7weak'}), qr/permission denied for view pg_stat_flashcache/, 'which privilege is lacking');
refused(q{SELECT pg_flashcache_add_node('eight', 'host=x')}, qr/ERROR:  nodes cannot be added on a standby/, 'nodes are added on the primary', $standby);

is(shown($primary, 'gv_flashcache_advice', 'DISTINCT node, node_state, node_reason', q{node IN ('1one', '3old')}),
	"1one|up|\n3old|lacking|version 1.0 of the extension there has no pg_flashcache_advice", 'a version that has no such view');
is(shown($primary, 'gv_flashcache_warmth', 'node, state, reason', q{node < '3'}),
	"1one|off|this server is not a standby\n2two|off|pg_flashcache.follow is off", 'warmth');
sql('CREATE TABLE seen (v int)', 'INSERT INTO seen VALUES (1)', 'CHECKPOINT');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('insert'));
$standby->restart;
fc_wait_active($standby);
$standby->safe_psql('postgres', 'SELECT * FROM seen');
is(shown($primary, 'gv_stat_flashcache_relation', 'node, node_role, relkind, reads >= 1', q{relname = 'seen' AND node = '2two'}), '2two|standby|r|t', 'relations, by their names');

# ---- who may ----

sub as
{
	my ($role, $statement) = @_;
	my ($status, $out, $error) = $primary->psql('postgres', "SET ROLE $role; $statement");
	return $error || $out;
}
is(as('monitor', q{SELECT node_state FROM gv_stat_flashcache WHERE node = '2two'}), 'up', 'a monitor may look');
like(as('nobody', "SELECT * FROM $_"), qr/permission denied for view $_/, "not everybody may look at $_")
  foreach qw(gv_stat_flashcache gv_stat_flashcache_relation gv_flashcache_advice gv_flashcache_warmth pg_flashcache_nodes);
like(as('nobody', q{SELECT * FROM pg_flashcache_ask_nodes('pg_stat_flashcache')}), qr/permission denied for function/, 'nor ask by themselves');
like(as('monitor', q{SELECT * FROM pg_flashcache_ask_nodes('pg_authid')}), qr/nodes are not asked for "pg_authid"/, 'nor for anything else');
like(as('monitor', q{SELECT pg_flashcache_add_node('x', 'host=x')}), qr/permission denied for function/, 'a monitor adds no node');
like(as('monitor', q{SELECT pg_flashcache_remove_node('1one')}), qr/permission denied for function/, 'nor removes one');
unlike(as('monitor', 'SELECT * FROM pg_user_mappings'), qr/@{[SECRET]}/, 'nor sees a password');
like(as('monitor', q{SELECT flash_nodes.dblink_get_connections()}), qr/permission denied for schema flash_nodes/, 'nor could use a connection that is left');
is(sql('SELECT count(*) FROM gv_stat_flashcache', 'SELECT flash_nodes.dblink_get_connections() IS NULL'), "7\nt", 'none is left');
is(sql(q{SELECT count(*) FROM pg_stat_statements WHERE query ~ '} . SECRET . q{'}), 0, 'nor does pg_stat_statements have a password');

sql('GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO weak');
is(as('weak', q{CREATE SERVER pg_flashcache_8evil TYPE 'pg_flashcache' FOREIGN DATA WRAPPER dblink_fdw OPTIONS (host '127.0.0.1')}), '', 'who may make servers');
is(shown($primary, 'gv_stat_flashcache', 'node_state, node_reason', q{node = '8evil'}), 'refused|the foreign server belongs to weak, who is no superuser', 'has none asked with the rights of another');
sql('DROP SERVER pg_flashcache_8evil');

my $number = sql(q{SELECT oid FROM pg_foreign_server WHERE srvname = 'pg_flashcache_1one'});
is(sql("SELECT flash_nodes.dblink_connect('pg_flashcache node $number', '@{[conninfo($primary, 'bare')]}')", q{SELECT node_state, state FROM gv_stat_flashcache WHERE node = '1one'}), "OK\nup|active",
	'a connection that the user has made under that name is not used');

sql('CREATE DATABASE owned OWNER weak');
$primary->safe_psql('owned', q{CREATE SCHEMA ours; CREATE EXTENSION pg_flashcache SCHEMA ours; CREATE EXTENSION dblink});
(undef, undef, my $error) = $primary->psql('owned', q{SELECT ours.pg_flashcache_add_node('one', 'host=x')});
like($error, qr/ERROR:  dblink is in schema public, which belongs to weak, who is no superuser/, 'dblink in a schema of somebody else is not used');

# ---- rows that are none of this version ----

sql('CREATE DATABASE odd');
$primary->safe_psql('odd', q{CREATE EXTENSION pg_flashcache; ALTER EXTENSION pg_flashcache DROP VIEW pg_stat_flashcache; ALTER VIEW pg_stat_flashcache RENAME TO other;
	CREATE TABLE pg_stat_flashcache (hits text); INSERT INTO pg_stat_flashcache VALUES ('many'); ALTER EXTENSION pg_flashcache ADD TABLE pg_stat_flashcache; GRANT SELECT ON pg_stat_flashcache TO watcher});
add('8odd', conninfo($primary, 'odd'));
is(shown($primary, 'gv_stat_flashcache', 'node, node_state, node_reason', q{node IN ('1one', '8odd')}), qq{1one|up|\n8odd|refused|invalid input syntax for type bigint: "many"},
	'a node whose rows do not fit keeps nobody from seeing the others');
sql(q{SELECT pg_flashcache_remove_node('8odd')});

# ---- slow ----

add('9held', conninfo($primary, 'held'), '2 seconds');
my $holder = $primary->background_psql('held');
$holder->query_safe('BEGIN; LOCK TABLE pg_stat_flashcache IN ACCESS EXCLUSIVE MODE');
is(shown($primary, 'gv_stat_flashcache', 'node, node_state, state', q{node IN ('1one', '2two', '9held')}), "1one|up|active\n2two|up|active\n9held|slow|", 'a node that does not answer in time');
is(sql(q{SELECT node_time_us >= 2000000 FROM gv_stat_flashcache WHERE node = '9held'}), 't', 'was waited for');
{
	my (undef, $out, $error) = $primary->psql('postgres', "SET statement_timeout = '1s'; SELECT count(*) FROM gv_stat_flashcache;\nRESET statement_timeout; SELECT coalesce(flash_nodes.dblink_get_connections(), '{}')", on_error_stop => 0);
	like($error, qr/canceling statement due to statement timeout/, 'whoever asks may stop waiting');
	is($out, '{}', 'and no connection is left then');
}
$holder->query_safe('COMMIT');
$holder->quit;
is(shown($primary, 'gv_stat_flashcache', 'node_state', q{node = '9held'}), 'up', 'it is there again');
sql(q{SELECT pg_flashcache_remove_node('9held')});

# Whoever accepts a connection, and says nothing. From 16 on dblink waits for it as long as the session does.
my $listener = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1') or die $!;
add('9silent', "host=127.0.0.1 port=@{[$listener->sockport]} user=watcher", '2 seconds');
if ($version < 16)
{
	is(shown($primary, 'gv_stat_flashcache', 'node, node_state', q{node IN ('1one', '9silent')}), "1one|up\n9silent|down", 'a server that says nothing');
}
else
{
	refused("SET statement_timeout = '1s'; SELECT count(*) FROM gv_stat_flashcache", qr/statement timeout\nHINT:  It was connecting to node "9silent"/, 'a server that says nothing');
}
$listener->close;
is(shown($primary, 'gv_stat_flashcache', 'node, node_state', q{node IN ('1one', '9silent')}), "1one|up\n9silent|down", 'and is gone');

# ---- dumps ----

sql('CREATE DATABASE copied');
my $dump = $primary->basedir . '/dump.sql';
$primary->command_ok([ 'pg_dump', '-f', $dump, $primary->connstr('postgres') ], 'a dump');
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, $primary->connstr('copied') ], 'is read into another database');
is($primary->safe_psql('copied', 'SELECT node, node_state FROM gv_stat_flashcache ORDER BY node'), shown($primary, 'gv_stat_flashcache', 'node, node_state'), 'which has the same nodes');

# ---- nodes that go ----

sql("SELECT pg_flashcache_remove_node('$_')") foreach qw(1one 3old 4bare 6nowhere 7weak 9silent);
refused(q{SELECT pg_flashcache_remove_node('1one')}, qr/ERROR:  there is no node "1one"/, 'a node that is not there');
$standby->stop('fast');
is(shown($primary, 'gv_stat_flashcache', 'node, node_state, state'), "2two|down|\n5gone|down|", 'all are down, and it says so');
sql('DROP EXTENSION dblink CASCADE');
is(shown($primary, 'gv_stat_flashcache', 'node, node_state'), 'primary|up', 'without dblink there are no nodes');
done_testing();

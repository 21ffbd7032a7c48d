# The views gv_... where somebody means no good: the owner of a database or a schema, here or on a node; who may create objects in
# the extension's schema; and a node that is no PostgreSQL, and says what no server says. Nobody gets rights that he did not have,
# and no node keeps anybody from seeing the others.

use strict;
use warnings;

use FlashCache;
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant SECRET => "p\xc3\xa4ss_tOpS3cret";

my $node = fc_new_node('primary', conf => 'pg_flashcache.max_policy_files = 100');
my $superuser = $node->safe_psql('postgres', 'SELECT current_user');

# Where the nodes are: a text that is none is none in this encoding.
$node->safe_psql('postgres', q{CREATE DATABASE world TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'});
$node->safe_psql('world', 'CREATE EXTENSION pg_flashcache');

sub sql { return $node->safe_psql('world', join '; ', @_) }

# As a role: what it is told, or the error.
sub as
{
	my ($role, $database, $statement) = @_;
	my ($status, $out, $error) = $node->psql($database, "SET SESSION AUTHORIZATION $role; $statement");
	return $error || $out;
}

sub conninfo
{
	my ($database) = @_;
	return sprintf "host=%s port=%d user=flash_monitor dbname=%s", $node->host, $node->port, $database;
}

sub add
{
	my ($database, $name, $conninfo, $schema) = @_;
	$conninfo =~ s/'/''/g;
	return $node->psql($database, sprintf q{SELECT %s.pg_flashcache_add_node('%s', '%s')}, $schema // 'public', $name, $conninfo);
}

# Whatever can be put in the place of what is in the schema of the extension: each tells who has run it. The names of functions are
# those that are, or were once, called there.
sub trap
{
	my ($schema) = @_;
	my $traps = qq{
		CREATE FUNCTION $schema.fall(what text) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN
			INSERT INTO traps.caught VALUES (current_user, what); RETURN true; END \$\$;
		CREATE FUNCTION $schema.pg_flashcache_dblink() RETURNS text LANGUAGE plpgsql AS \$\$ BEGIN
			INSERT INTO traps.caught VALUES (current_user, 'dblink'); RETURN 'flash_nodes'; END \$\$;
		CREATE FUNCTION $schema.pg_flashcache_ask_nodes(view text, OUT node text) LANGUAGE plpgsql AS \$\$ BEGIN
			INSERT INTO traps.caught VALUES (current_user, 'ask_nodes'); END \$\$;
		CREATE TABLE $schema.pg_flashcache_policy_rules (kind text, schemaname text, objname text, policy text);
		CREATE FUNCTION $schema.pg_flashcache_policy_changed() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
			INSERT INTO traps.caught VALUES (current_user, 'policy'); RETURN NEW; END \$\$;
		CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON $schema.pg_flashcache_policy_rules
			FOR EACH ROW EXECUTE FUNCTION $schema.pg_flashcache_policy_changed();
	};
	foreach my $view (qw(pg_stat_flashcache pg_stat_flashcache_relation pg_flashcache_advice pg_flashcache_warmth))
	{
		$traps .= qq{
		CREATE DOMAIN $schema.trap_$view AS text CHECK ($schema.fall('type $view'));
		CREATE TABLE $schema.$view (state $schema.trap_$view, reads bigint);
		CREATE FUNCTION $schema.to_jsonb($schema.$view) RETURNS jsonb LANGUAGE plpgsql AS \$\$ BEGIN
			INSERT INTO traps.caught VALUES (current_user, 'to_jsonb'); RETURN '{}'; END \$\$;
		GRANT ALL ON $schema.$view TO PUBLIC;
		};
	}
	return $traps;
}

use constant CAUGHT => q{CREATE SCHEMA traps; CREATE TABLE traps.caught (who name, what text); GRANT USAGE ON SCHEMA traps TO PUBLIC; GRANT ALL ON traps.caught TO PUBLIC};

sub caught { return $node->safe_psql($_[0], q{SELECT DISTINCT who, what FROM traps.caught ORDER BY 1, 2}) }

sql('CREATE ROLE app LOGIN', 'CREATE ROLE dev LOGIN', 'CREATE ROLE watcher LOGIN IN ROLE pg_monitor', 'CREATE ROLE flash_monitor LOGIN IN ROLE pg_monitor',
	'CREATE SCHEMA flash_nodes', 'CREATE EXTENSION dblink SCHEMA flash_nodes');

# ---- who owns the database, and with it the schema of the extension ----

sql('CREATE DATABASE appdb OWNER app');
$node->safe_psql('appdb', 'CREATE EXTENSION pg_flashcache; CREATE SCHEMA flash_nodes; CREATE EXTENSION dblink SCHEMA flash_nodes');
my ($status, undef, $error) = add('appdb', 'n1', conninfo('postgres'));
like($error, qr/ERROR:  the extension is in schema public, which belongs to app, who is no superuser\nHINT:  Create the extension in a schema of a superuser/,
	'no node is added where somebody else owns the schema of the extension');

# It was a superuser's when the node was added; then its owner changes, and everything in the schema.
$node->safe_psql('appdb', 'ALTER SCHEMA public OWNER TO ' . $superuser);
is((add('appdb', 'n1', conninfo('postgres')))[0], 0, 'a node is added where a superuser does');
is(as('watcher', 'appdb', 'SELECT node, node_state FROM public.gv_stat_flashcache'), 'n1|up', 'and is shown');
$node->safe_psql('appdb', 'ALTER SCHEMA public OWNER TO pg_database_owner');
as('app', 'appdb', CAUGHT . '; ALTER SCHEMA public RENAME TO pub2; CREATE SCHEMA public; GRANT USAGE ON SCHEMA public TO PUBLIC; ' . trap('public'));
is(caught('appdb'), '', 'nothing has been called yet');
foreach my $view (qw(gv_stat_flashcache gv_stat_flashcache_relation gv_flashcache_advice gv_flashcache_warmth))
{
	like(as('watcher', 'appdb', "SELECT node FROM pub2.$view"), qr/ERROR:  the extension is in schema pub2, which belongs to app, who is no superuser/, "$view is refused then");
}
is((add('appdb', 'n2', conninfo('postgres'), 'pub2'))[0], 3, 'and so is another node');
is(caught('appdb'), '', 'nothing of the owner has been called');

# Policies are not refused there: their table is found as a member of the extension.
is($node->safe_psql('appdb', q{SELECT pub2.pg_flashcache_set_policy('database', 'appdb', 'keep');
	SELECT (SELECT count(*) FROM pub2.pg_flashcache_policy_rules), (SELECT count(*) FROM public.pg_flashcache_policy_rules)}) =~ s/^\n//r, '1|0', 'a policy goes to its table');
ok($node->poll_query_until('appdb', q{SELECT state = 'known' AND rules = 1 FROM pub2.pg_stat_flashcache_policy_databases WHERE datname = 'appdb'}), 'and is found there');
is(caught('appdb'), '', 'without anything of the owner');

# Also where nothing would be refused, nothing is looked up by name.
$node->safe_psql('appdb', "ALTER SCHEMA pub2 OWNER TO $superuser");
is(as('watcher', 'appdb', "SELECT node, node_state FROM pub2.$_ LIMIT 1"), 'n1|up', "$_ of a schema that has another name now")
  foreach qw(gv_stat_flashcache gv_stat_flashcache_relation gv_flashcache_advice gv_flashcache_warmth);
is(caught('appdb'), '', 'without anything of the schema that has its old name');
is(sql(q{SELECT rolsuper FROM pg_roles WHERE rolname = 'app'}), 'f', 'its owner is what he was');

# ---- who may create objects in the schema of the extension, on a node ----

sql("CREATE DATABASE $_") foreach qw(shop older);
$node->safe_psql('shop', 'CREATE EXTENSION pg_flashcache; GRANT CREATE ON SCHEMA public TO dev; ' . CAUGHT);
$node->safe_psql('older', q{CREATE EXTENSION pg_flashcache VERSION '1.0'; GRANT CREATE ON SCHEMA public TO dev; } . CAUGHT);
like(as('dev', $_, q{CREATE FUNCTION public.to_jsonb(public.pg_stat_flashcache) RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO traps.caught VALUES (current_user, 'to_jsonb'); RETURN '{}'; END $$; SELECT 'made'}), qr/^made$/, "dev has a function that fits better, in $_") foreach qw(shop older);
like(as('dev', 'older', q{CREATE FUNCTION public.fall() RETURNS text LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO traps.caught VALUES (current_user, 'view'); RETURN 'flash'; END $$; CREATE VIEW public.pg_flashcache_advice AS SELECT public.fall() AS kind;
	GRANT SELECT ON public.pg_flashcache_advice TO PUBLIC; SELECT 'made'}), qr/^made$/, 'and the view that the version there does not have');
foreach my $database (qw(shop older appdb))
{
	is((add('world', $database, conninfo($database)))[0], 0, "a node whose database is $database");
}
$node->safe_psql('appdb', 'ALTER SCHEMA pub2 OWNER TO app');
is(as('watcher', 'world', 'SELECT node, node_state, node_reason, state FROM gv_stat_flashcache ORDER BY node'),
	"appdb|refused|the extension there is in schema pub2, which belongs to app, who is no superuser|\nolder|up||active\nshop|up||active", 'nodes of databases of others');
is(as('watcher', 'world', 'SELECT DISTINCT node, node_state, node_reason FROM gv_flashcache_advice ORDER BY node'),
	"appdb|refused|the extension there is in schema pub2, which belongs to app, who is no superuser\nolder|lacking|version 1.0 of the extension there has no pg_flashcache_advice\nshop|up|", 'a view that the extension there does not have');
as('app', 'appdb', 'ALTER SCHEMA public RENAME TO traps2; ALTER SCHEMA pub2 RENAME TO public');
is(as('watcher', 'world', q{SELECT node_state FROM gv_stat_flashcache WHERE node = 'appdb'}), 'refused', 'whatever name the schema has');
$node->safe_psql('shop', 'ALTER VIEW pg_flashcache_warmth OWNER TO dev');
is(as('watcher', 'world', q{SELECT node_state, node_reason FROM gv_flashcache_warmth WHERE node = 'shop'}),
	'refused|pg_flashcache_warmth there belongs to dev, who is no superuser', 'a view whose owner could make another of it');
is(caught($_), '', "nothing of others has been called in $_") foreach qw(shop older appdb);

# Who may have triggers on the table of policies has none that runs when a policy is set.
$node->safe_psql('shop', 'GRANT TRIGGER ON pg_flashcache_policy_rules TO dev');
like(as('dev', 'shop', q{CREATE FUNCTION public.fall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO traps.caught VALUES (current_user, 'trigger'); RETURN NEW; END $$;
	CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON pg_flashcache_policy_rules FOR EACH ROW EXECUTE FUNCTION public.fall(); SELECT 'made'}), qr/^made$/, 'a trigger on the table of policies');
(undef, undef, $error) = $node->psql('shop', q{SELECT pg_flashcache_set_policy('database', 'shop', 'keep')});
like($error, qr/ERROR:  the table of rules is not as the extension has made it/, 'keeps them from being set');

# The settings of a database are its owner's, over there as well.
$node->safe_psql('shop', 'CREATE SCHEMA evil AUTHORIZATION dev; GRANT USAGE ON SCHEMA evil TO PUBLIC');
as('dev', 'shop', trap('evil') . q{;
	CREATE FUNCTION evil.eq(name, text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO traps.caught VALUES (current_user, '='); RETURN true; END $$;
	CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = text, FUNCTION = evil.eq)});
sql('ALTER DATABASE shop SET search_path = evil, pg_catalog, public');
is(as('watcher', 'world', q{SELECT node_state, state FROM gv_stat_flashcache WHERE node = 'shop'}), 'up|active', 'a search path there');
is(caught('shop'), '', 'finds nothing');
sql("SELECT pg_flashcache_remove_node('$_')") foreach qw(shop older appdb);

# ---- a node that is no PostgreSQL ----

# What it does is in the name of the database that is asked for.
my $listener = IO::Socket::INET->new(Listen => 20, LocalAddr => '127.0.0.1') or die $!;

sub message { return $_[0] . pack('N', 4 + length $_[1]) . $_[1] }

sub complaint
{
	my ($severity, $code, $text, $context) = @_;
	return message('E', "S$severity\0V$severity\0C$code\0M$text\0" . ($context ? "W$context\0" : '') . "\0");
}

sub columns
{
	return message('T', pack('n', scalar @_) . join '', map { "$_\0" . pack('NnNnNn', 0, 0, 25, -1 & 0xffff, -1 & 0xffffffff, 0) } @_);
}

sub row { return message('D', pack('n', scalar @_) . join '', map { defined $_ ? pack('N', length $_) . $_ : "\xff\xff\xff\xff" } @_) }

my %said = (
	fatal  => complaint('FATAL', '53300', "zzz \xf0"),
	latin  => complaint('FATAL', '28000', "Datenbank \xbbpostgres\xab ist \\ zu"),
	told   => complaint('FATAL', '28000', "you said @{[SECRET]} \xf0"),
	error  => complaint('ERROR', '42501', "zzz \xf0"),
	assert => complaint('ERROR', 'P0004', 'assertion failed'),
	cancel => complaint('ERROR', '57014', "canceled \xf0", "somewhere \xf0"),
	row    => columns('a' .. 'g') . row('primary', '1.1', undef, '', '', '', '') . message('C', "SELECT 1\0") .
	  columns('d') . row("{\"state\":\"\xff\"}") . message('C', "SELECT 1\0"),
	role   => columns('a' .. 'g') . row("\xf0", '1.1', undef, '', '', '', '') . message('C', "SELECT 1\0"));

sub read_all
{
	my ($socket, $wanted) = @_;
	my $data = '';
	while (length $data < $wanted)
	{
		sysread($socket, $data, $wanted - length $data, length $data) or POSIX::_exit(0);
	}
	return $data;
}

sub serve
{
	my ($socket) = @_;
	my $start;
	for (;;)
	{
		$start = read_all($socket, unpack('N', read_all($socket, 4)) - 4);
		last if unpack('N', $start) == 196608;
		syswrite $socket, 'N';    # neither SSL nor GSSAPI
	}
	my %parameter = (split /\0/, substr $start, 4);
	my $words = $said{ $parameter{database} };
	if ($words =~ /^E....SFATAL/s)
	{
		syswrite $socket, $words;
		POSIX::_exit(0);
	}
	syswrite $socket, message('R', pack('N', 0)) . message('S', "client_encoding\0UTF8\0") . message('S', "server_version\0" . "15.0\0") . message('K', pack('NN', 1, 1)) . message('Z', 'I');
	for (;;)
	{
		my $kind = read_all($socket, 1);
		read_all($socket, unpack('N', read_all($socket, 4)) - 4);
		POSIX::_exit(0) if $kind eq 'X';
		syswrite $socket, $words . message('Z', 'I');
	}
}

my $fake = fork;
if (!$fake)
{
	# Nothing of this ends as a test does: that would stop the server.
	$SIG{CHLD} = 'IGNORE';
	while (my $socket = $listener->accept)
	{
		serve($socket) if !fork;
		$socket->close;
	}
	POSIX::_exit(0);
}
END { kill 'KILL', $fake if $fake }
my $port = $listener->sockport;
$listener->close;

sub fake_node
{
	my ($words) = @_;
	my $oldest = $node->pg_version >= 18 ? 'max_protocol_version=3.0' : '';
	is((add('world', 'zfake', "host=127.0.0.1 port=$port user=x sslmode=disable gssencmode=disable $oldest dbname=$words password=" . SECRET))[0],
		0, "a node that says: $words");
	my $answer = as('watcher', 'world', 'SELECT node, node_state, state, node_reason FROM gv_stat_flashcache ORDER BY node');
	sql(q{SELECT pg_flashcache_remove_node('zfake')});
	return $answer;
}

add('world', 'n1', conninfo('postgres'));
my $good = "n1|up|active|\n";
is(fake_node('fatal'), $good . q{zfake|refused||connection to server at "127.0.0.1", port } . $port . q{ failed: FATAL:  zzz \360}, 'a login that is refused with what is no text');
is(fake_node('latin'), $good . q{zfake|refused||connection to server at "127.0.0.1", port } . $port . q{ failed: FATAL:  Datenbank \273postgres\253 ist \\\\ zu}, 'in another encoding');
is(fake_node('told'), $good . q{zfake|refused||connection to server at "127.0.0.1", port } . $port . q{ failed: FATAL:  you said *** \360}, 'with a password that is no ASCII');
is(fake_node('error'), $good . q{zfake|refused||zzz \360}, 'an error');
is(fake_node('assert'), $good . 'zfake|refused||assertion failed', 'an error that OTHERS does not catch');
is(fake_node('cancel'), $good . q{zfake|slow||the query was canceled there: canceled \360}, 'a query that is canceled there');
is(fake_node('row'), $good . 'zfake|refused||invalid byte sequence for encoding "UTF8": 0xff', 'a row');
like(fake_node('role'), qr/^\Q$good\Ezfake\|refused\|\|invalid byte sequence for encoding "UTF8": 0xf0/, 'a role');
is(sql('SELECT count(*) FROM gv_stat_flashcache', 'SELECT flash_nodes.dblink_get_connections() IS NULL'), "1\nt", 'no connection is left');
kill 'KILL', $fake;
waitpid $fake, 0;
$fake = 0;

# ---- the time that a node has ----

($status, undef, $error) = add('world', 'z', 'host=127.0.0.1 connect_timeout=0');
like($error, qr/ERROR:  connect_timeout cannot be in the connection string of a node\nHINT:  The third argument/, 'a time to connect that is not that of the node');
add('world', 'z', 'host=127.0.0.1');
sql(q{ALTER SERVER pg_flashcache_z OPTIONS (SET connect_timeout '0')});
is(sql(q{SELECT timeout IS NULL FROM pg_flashcache_nodes WHERE node = 'z'}), 't', 'nor can it be set afterwards');
is(sql(q{SELECT node, node_state, node_reason FROM gv_stat_flashcache ORDER BY node}), "n1|up|\nz|refused|the foreign server has no connect_timeout of 1 to 60 seconds", 'so that such a node would be waited for');

done_testing();

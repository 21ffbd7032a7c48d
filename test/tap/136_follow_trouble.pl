# pg_flashcache.follow in trouble: connections that are wrong, refused, without rights, to the wrong server, or never
# answered; who may see what; settings of databases and roles; and that neither a stop nor a promotion waits.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use IO::Socket::INET;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $conf = <<'END';
zero_damaged_pages = on
bgwriter_lru_maxpages = 0
checkpoint_timeout = 1h
max_logical_replication_workers = 0
max_parallel_workers_per_gather = 0
max_worker_processes = 16
pg_flashcache.follow_interval = 1s
pg_flashcache.follow_buffers = off
END
my $primary = fc_new_node('primary', size => '4MB', buffers => '2MB', streaming => 1, conf => $conf);
fc_everywhere($primary);
$primary->safe_psql('postgres', $_) foreach (
	'CREATE ROLE weak LOGIN', 'CREATE ROLE watcher LOGIN IN ROLE pg_monitor',
	'CREATE DATABASE plain TEMPLATE template0', 'CREATE DATABASE target');
fc_table($primary, 'target', 'first',  'first',  50);
fc_table($primary, 'target', 'second', 'second', 50);
$primary->safe_psql('target', 'SELECT count(*) FROM first; SELECT count(*) FROM second; CHECKPOINT');
$primary->safe_psql('target', q{SELECT * FROM pg_flashcache_prewarm('first')});
my $standby = fc_new_standby('standby', $primary, size => '4MB', buffers => '2MB', conf => $conf);
fc_replayed($primary, $standby);
$standby->safe_psql('postgres', 'CHECKPOINT');
$standby->restart;
fc_wait_active($standby);

sub setting
{
	my ($name, $value) = @_;
	$standby->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.$name = \$value\$$value\$value\$");
	$standby->reload;
	return;
}

sub wait_warmth
{
	my ($condition, $name) = @_;
	my $came = $standby->poll_query_until('postgres', "SELECT $condition FROM pg_flashcache_warmth");
	ok($came, $name) or diag($standby->safe_psql('postgres', q{SELECT to_jsonb(w) FROM pg_flashcache_warmth w}));
	return;
}

sub fails
{
	my ($conninfo, $reason, $name) = @_;
	setting('follow_conninfo', $conninfo);
	wait_warmth("state = 'failed' AND reason = \$r\$$reason\$r\$", $name);
	return;
}

# ---- connections ----

setting('follow_conninfo', 'password=topsecret oops');
setting('follow', 'on');
fails('password=topsecret oops', 'pg_flashcache.follow_conninfo, or primary_conninfo, is not a valid connection string', 'a connection string with a mistake');
fails('user=nobody password=topsecret', 'the other server has refused the connection: see its log', 'a role that is not there');
fails('user=weak',        'the role may not call pg_flashcache_export_map() on the other server', 'a role without the right');
$primary->safe_psql('postgres', 'CREATE ROLE owner; ALTER SCHEMA public OWNER TO owner');
fails('dbname=postgres', 'the schema of the extension on the other server belongs to a role that is no superuser', 'a schema whose owner could put another function into its place');
$primary->safe_psql('postgres', 'ALTER SCHEMA public OWNER TO pg_database_owner');
fails('dbname=plain',     'the database that was connected to does not have the extension pg_flashcache', 'a database without the extension');
fails('dbname=nowhere',   'the other server has refused the connection: see its log', 'no such database');
fails('host=127.0.0.1 port=1', 'no server answers at that address', 'nobody there');
fails($standby->connstr('postgres'), 'the connection leads to this server itself', 'itself');
{
	my $other = PostgreSQL::Test::Cluster->new('other');
	$other->init;
	$other->start;
	fails($other->connstr('postgres'), 'the other server is of another cluster: its system identifier differs', 'another cluster');
	$other->stop('immediate');
}
is($standby->safe_psql('postgres', 'SELECT pulled_at IS NULL, rounds, loaded FROM pg_flashcache_warmth'), 't|0|0', 'nothing has come of it');
unlike(join("\n", grep { !/ALTER SYSTEM|parameter "pg_flashcache.follow_conninfo" changed/ } split /\n/, slurp_file($standby->logfile)),
	qr/topsecret/, 'no password is in the log');
is(() = slurp_file($standby->logfile) =~ /LOG:  pg_flashcache cannot follow another server's cache: pg_flashcache.follow_conninfo, or primary_conninfo, is not a valid connection string/g, 1, 'a line in the log for each cause');

# ---- settings over there, and here: the standby is a copy ----

$primary->safe_psql('postgres', "ALTER DATABASE target SET $_") foreach (
	'role = weak', 'search_path = nowhere', 'default_transaction_isolation = serializable',
	'statement_timeout = 1', 'default_transaction_deferrable = on');
$primary->safe_psql('postgres', 'ALTER ROLE watcher SET search_path = nowhere');
setting('follow_conninfo', 'user=watcher dbname=target');
wait_warmth('here = 50 AND loaded = 50 AND pages = 50', 'settings of a database and of a role do not count');
is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(1)'), 't', 'it is warm');

# ---- the follower is cancelled while a loader waits for write_limit ----

setting('write_limit', '8kB');
{
	local $ENV{PGOPTIONS} = '-c role=none -c search_path=public -c statement_timeout=0';
	$primary->safe_psql('target', q{SELECT * FROM pg_flashcache_prewarm('second')});
}
my $loader_sql = q{SELECT coalesce(max(pid), 0) FROM pg_stat_activity WHERE backend_type = 'pg_flashcache map loader'};
ok($standby->poll_query_until('postgres', q{SELECT count(*) > 0 FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit'}), 'a loader waits');
my $loader = $standby->safe_psql('postgres', $loader_sql);
is($standby->safe_psql('postgres', q{SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE backend_type = 'pg_flashcache follower'}), 't', 'the follower is cancelled');
ok($standby->poll_query_until('postgres', "SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $loader)"), 'its loader ends with the round');
setting('write_limit', '0');
wait_warmth('here = 100 AND pages = 100', 'it goes on by itself');
is($standby->safe_psql('postgres', 'SELECT pg_flashcache_is_warm(1)'), 't', 'and is warm');

# ---- rights ----

{
	my (undef, undef, $error) = $standby->psql('postgres', 'SET ROLE weak; SHOW pg_flashcache.follow_conninfo');
	like($error, qr/ERROR: .*(must be superuser|permission denied)/, 'the connection string is for superusers');
	(undef, undef, $error) = $standby->psql('postgres', 'SET ROLE weak; TABLE pg_flashcache_warmth');
	like($error, qr/ERROR:  permission denied for view pg_flashcache_warmth/, 'the view is for those who watch');
	(undef, undef, $error) = $standby->psql('postgres', 'SET ROLE weak; SELECT pg_flashcache_is_warm()');
	like($error, qr/ERROR:  permission denied for function pg_flashcache_is_warm/, 'and the function');
	is($standby->safe_psql('postgres', 'SET ROLE watcher; SELECT pg_flashcache_is_warm(), pages FROM pg_flashcache_warmth'), 't|100', 'pg_monitor may look');
}

# ---- nobody waits ----

# One that accepts connections, and never says a word.
my $silent = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', Proto => 'tcp') or die "no socket: $!";
my $to_silent = 'host=127.0.0.1 connect_timeout=3600 port=' . $silent->sockport;

# The process that has the connection, a child of the follower.
sub connection
{
	my $pid = $standby->safe_psql('postgres', q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'pg_flashcache follower'});
	my $child = '';

	for (my $i = 0; $child eq '' && $i < 10 * $PostgreSQL::Test::Utils::timeout_default; $i++)
	{
		$child = slurp_file("/proc/$pid/task/$pid/children") =~ s/\s.*//sr;
		# until it is connected to that one, and no longer to another
		$child = '' if $child ne '' && $standby->safe_psql('postgres', 'SELECT age > 2 FROM pg_flashcache_warmth') ne 't';
		select(undef, undef, undef, 0.1) if $child eq '';
	}
	die 'there is no connection' if $child eq '';
	return $child;
}

sub is_gone
{
	my ($pid, $name) = @_;
	for (my $i = 0; -d "/proc/$pid" && $i < 10 * $PostgreSQL::Test::Utils::timeout_default; $i++)
	{
		select(undef, undef, undef, 0.1);
	}
	return ok(!-d "/proc/$pid", $name);
}

setting('follow_conninfo', $to_silent);
wait_warmth('too_old', 'a map gets too old');
is($standby->safe_psql('postgres', 'SELECT state, pages, here, pg_flashcache_is_warm(0) FROM pg_flashcache_warmth'), 'pulling|100|100|f', 'it is known, but no longer relied on');
{
	my $pid = connection();
	my ($group, $session) = (split ' ', slurp_file("/proc/$pid/stat") =~ s/.*\) //sr)[2, 3];
	is("$group $session", "$pid $pid", 'it is in a session of its own: an immediate stop, which signals the group, makes no core of it');
	$standby->stop('fast');
	is_gone($pid, 'a fast stop does not wait for a server that does not answer');
}
{
	# to the writer's limit, with a loader that waits for it
	$standby->append_conf('postgresql.auto.conf', "pg_flashcache.write_limit = '8kB'\npg_flashcache.follow_conninfo = 'dbname=postgres'\n");
	$standby->start;
	fc_wait_active($standby);
	$standby->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_progress_flashcache_prewarm WHERE phase = 'waiting for write_limit'})
	  or die 'no loader waits for the limit';
	$standby->stop('fast');
	ok(1, 'nor does it wait for a loader');
	unlike(slurp_file($standby->logfile), qr/(ERROR|FATAL):  .*(pg_flashcache (writer|follower|map)|flash cache)/, 'without an error in the log');
}
{
	$standby->append_conf('postgresql.auto.conf', "pg_flashcache.write_limit = 0\n");
	$standby->start;
	fc_wait_active($standby);
	wait_warmth('here = 100', 'warm again');
	# the primary is gone: it goes on to try
	$primary->stop('immediate');
	wait_warmth(q{state = 'failed' AND reason = 'no server answers at that address' AND pages = 100}, 'the primary has stopped');
	setting('follow_conninfo', $to_silent);
	wait_warmth(q{state = 'pulling'}, 'and another does not answer');
	my $pid = connection();
	$standby->promote;
	is_gone($pid, 'promotion does not wait, and ends it');
	wait_warmth(q{state = 'off' AND reason = 'this server is not a standby'}, 'there is no follower on a primary');
}
fc_is_clean($standby);
done_testing();

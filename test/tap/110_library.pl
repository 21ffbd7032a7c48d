# The library under other names and in other places: the writer is always that of the copy which the server has preloaded,
# and who calls another copy is told so. What the writer says when it ends.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use File::Copy;
use FlashCache;
use FlashCacheServer;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($libdir) = run_command([ 'pg_config', '--pkglibdir' ]);
my $elsewhere = PostgreSQL::Test::Utils::tempdir();
my $copy      = "$elsewhere/pg_flashcache.so";

copy("$libdir/pg_flashcache.so", $copy) or die "copy: $!";

# The view comes from that file from now on. (18 and later look for "$libdir/..." in dynamic_library_path, too.)
sub view_from
{
	my ($node, $file) = @_;

	$node->safe_psql('postgres',
		$node->safe_psql('postgres', q{SELECT pg_get_functiondef('pg_flashcache_stat'::regproc)}) =~ s/\$libdir\/pg_flashcache/$file/r);
	return;
}

# Ends the writer and waits for the next one; returns the state of the cache then.
sub next_writer
{
	my ($node, $signal) = @_;
	my $pid = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');

	kill $signal, $pid;
	$node->poll_query_until('postgres', q{SELECT verdict = 'no writer' FROM pg_stat_flashcache}) or die 'it has a writer';
	$node->poll_query_until('postgres', "SELECT writer_pid <> $pid FROM pg_stat_flashcache") or die 'no writer came back';
	return $node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache');
}

# A server whose search path for libraries changes, so that another copy would be found.
{
	my $node = fc_new_node('path');
	my $log  = -s $node->logfile;

	view_from($node, "$libdir/pg_flashcache.so");
	$node->append_conf('postgresql.conf', "dynamic_library_path = '$elsewhere:\$libdir'");
	$node->reload;
	is(next_writer($node, 'TERM'), 'active', 'other library path: a writer that got SIGTERM is replaced');
	like(slurp_file($node->logfile, $log), qr/"pg_flashcache writer" \(PID \d+\) exited with exit code 1/,
		'SIGTERM from an administrator: the log says so');
	unlike(slurp_file($node->logfile, $log), qr/terminated by signal/, 'other library path: nothing crashed');

	if ($node->pg_version >= 18)
	{
		is($node->safe_psql('postgres', q{SELECT module_name || ' ' || version FROM pg_get_loaded_modules() WHERE file_name LIKE 'pg_flashcache%'}),
			'pg_flashcache ' . $node->safe_psql('postgres', q{SELECT extversion FROM pg_extension WHERE extname = 'pg_flashcache'}),
			'the library names itself and the version of the extension');
	}

	$log = -s $node->logfile;
	$node->stop;
	unlike(slurp_file($node->logfile, $log), qr/pg_flashcache writer.*exit/, 'end of the server: the writer ends without a word');
}

# Preloaded by a path. The extension's functions come from $libdir, where another copy lies.
{
	my $node = fc_new_node('preloaded_by_path', start => 0);

	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$copy'");
	$node->start;
	$node->wait_for_log(qr/pg_flashcache is active/);
	my ($rc, undef, $stderr) = $node->psql('postgres', 'CREATE EXTENSION pg_flashcache; SELECT * FROM pg_stat_flashcache');
	is($rc, 3, 'preloaded by a path: functions of another copy raise an error');
	like($stderr,
		qr/ERROR:  this is not the copy of the pg_flashcache library that the server has preloaded\nDETAIL:  The function is from "\Q$libdir\E\/pg_flashcache.so", preloaded is "\Q$copy\E"\./,
		'preloaded by a path: and say which is which');

	# The view, of the copy that is preloaded; then without the file.
	view_from($node, $copy);
	is($node->safe_psql('postgres', 'SELECT state FROM pg_stat_flashcache'), 'active', 'preloaded by a path: active');
	unlink $copy or die "unlink: $!";
	my $log = -s $node->logfile;
	is(next_writer($node, 'TERM'), 'active', 'library removed from disk: a new writer runs the copy of the postmaster');
	unlike(slurp_file($node->logfile, $log), qr/terminated by signal/, 'library removed from disk: nothing crashed');
	$node->stop;
	copy("$libdir/pg_flashcache.so", $copy) or die "copy: $!";
}

# Not preloaded: who makes the extension is told, once in a session. Then preloaded, in a server of a single user.
{
	my $node = PostgreSQL::Test::Cluster->new('not_preloaded');

	$node->init;
	$node->start;
	my ($rc, undef, $stderr) = $node->psql('postgres', 'CREATE EXTENSION pg_flashcache; DROP EXTENSION pg_flashcache; CREATE EXTENSION pg_flashcache');
	is($rc, 0, 'not preloaded: the extension is made');
	is_deeply([ $stderr =~ /^.*(?:WARNING|HINT): .*$/mg ],
		[
			'psql:<stdin>:1: WARNING:  pg_flashcache is not in shared_preload_libraries: there will be no cache',
			q{HINT:  Set shared_preload_libraries = 'pg_flashcache', appended to what is there, and restart the server.}
		],
		'not preloaded: one warning, with the line to write');
	is(fc_view($node), 'detached|pg_flashcache is not in shared_preload_libraries|', 'not preloaded: the view says so');
	$node->stop;

	$node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_flashcache'");
	my ($out, $err) = ('', '');
	PostgreSQL::Test::Utils::run_log(
		[ 'postgres', '--single', '-D', $node->data_dir, 'postgres' ],
		'<', \"SELECT state, reason FROM pg_stat_flashcache\n", '>', \$out, '2>', \$err);
	like($out, qr/state = "disabled".*reason = "a single-user server has no background processes"/s, 'single user: the view says why');
	unlike($err, qr/WARNING/, 'single user: no warning');

	# As pg_upgrade starts it.
	my @pg_ctl = ('pg_ctl', '-w', '-D', $node->data_dir, '-l', $node->logfile);
	PostgreSQL::Test::Utils::system_or_bail(@pg_ctl, '-o', '-b', 'start');
	is(fc_view($node), 'disabled|the server is run by pg_upgrade|', 'pg_upgrade: the view says why');
	(undef, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	like($stderr, qr/is disabled: the server is run by pg_upgrade\nHINT:  It takes part again when the server is started as usual/,
		'pg_upgrade: nothing in the configuration is to be changed');
	PostgreSQL::Test::Utils::system_or_bail(@pg_ctl, 'stop');
}

# Preloaded twice.
{
	my $node = fc_new_node('twice', start => 0);

	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'pg_flashcache,$copy'");
	$node->start;
	fc_create_sql($node);
	fc_wait_active($node);
	is_deeply([ fc_warnings($node) ], ['pg_flashcache is preloaded already; another copy of its library is left alone'],
		'preloaded twice: one warning');
	$node->stop;

	# A name for the writer has room for 95 bytes before 17: the path goes where it fits.
	my $long = "$elsewhere/" . 'x' x 200;
	mkdir $long or die "mkdir: $!";
	copy($copy, "$long/pg_flashcache.so") or die "copy: $!";
	$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "'$long/pg_flashcache.so'");
	my $log = -s $node->logfile;
	$node->start;
	if ($node->pg_version < 17)
	{
		like(slurp_file($node->logfile, $log),
			qr/WARNING:  pg_flashcache is disabled: the path of its library is longer than 95 bytes\n/,
			'long path: no cache, one warning');
	}
	else
	{
		$node->wait_for_log(qr/pg_flashcache is active/, $log);
		pass('long path: active');
	}
	ok(fc_works($node), 'long path: the server works');
	$node->stop;
}

done_testing();

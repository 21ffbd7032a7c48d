# FlashCacheServer - servers that differ from the stock one: a patched program, a preloaded library
#
#   use FlashCacheServer;
#   my $install = fc_server_copy();                      # bin of its own, the rest shared
#   fc_patch_version("$install/bin/postgres", 160000);
#   my $node = fc_odd_node('name', install => $install, preload => $library);
#   my @warnings = fc_warnings($node);
#
# The patches look for what they change in the program itself, so they work on any minor release, and die if it is not
# there exactly once.

package FlashCacheServer;

use strict;
use warnings;

use Exporter 'import';
use File::Basename;
use File::Copy;
use File::Path qw(make_path);
use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(
  fc_server_copy fc_patch_version fc_patch_table fc_table_calls fc_library
  fc_odd_node fc_start_odd fc_warnings fc_works fc_view
  fc_start_with fc_is_refused fc_is_waited_for fc_ask
);

my $source = dirname(__FILE__) . '/../../src';

sub config
{
	my ($option) = @_;
	my ($out) = run_command([ 'pg_config', $option ]);
	return $out;
}

# PostgreSQL finds its share and lib directories relative to its own program file. So the programs are copied, the rest
# is linked, at the same places relative to each other. Returns what Cluster->new calls install_path.
sub fc_server_copy
{
	my %place = map { $_ => config("--$_") } qw(bindir pkglibdir sharedir);
	my $root   = PostgreSQL::Test::Utils::tempdir_short();
	my $common = $place{bindir};

	$common = dirname($common) while grep { index($_, "$common/") != 0 } values %place;
	my %copy = map { $_ => $root . substr($place{$_}, length $common) } keys %place;
	make_path($copy{bindir}, dirname($copy{sharedir}), dirname($copy{pkglibdir}));
	foreach my $program (qw(postgres initdb pg_ctl psql pg_config pg_controldata))
	{
		copy("$place{bindir}/$program", "$copy{bindir}/$program") or die "copy: $!";
		chmod 0755, "$copy{bindir}/$program";
	}
	symlink $place{sharedir},  $copy{sharedir}  or die "symlink: $!";
	symlink $place{pkglibdir}, $copy{pkglibdir} or die "symlink: $!";
	return dirname($copy{bindir});
}

# Replaces the only occurrence of some bytes in a file.
sub patch
{
	my ($file, $old, $new, $what) = @_;
	my $bytes = slurp_file($file);
	my $at    = index($bytes, $old);

	die "$what: not found in $file" if $at < 0;
	die "$what: found twice in $file" if index($bytes, $old, $at + 1) >= 0;
	substr($bytes, $at, length $old) = $new;
	open my $fh, '>:raw', $file or die "$file: $!";
	print $fh $bytes;
	close $fh or die "$file: $!";
	return;
}

# server_version_num is a setting whose default, minimum and maximum are the same number.
sub fc_patch_version
{
	my ($program, $version) = @_;
	my ($text) = run_command([ 'pg_config', '--version' ]);
	my ($major, $minor) = $text =~ /PostgreSQL (\d+)(?:\.(\d+))?/ or die "unknown version: $text";

	patch($program, pack('l<3', ($major * 10000 + ($minor // 0)) x 3), pack('l<3', ($version) x 3), 'server_version_num');
	return;
}

# The functions in the server's storage-manager table, in order; '' for an entry that is empty.
sub fc_table_calls
{
	my ($text)  = run_command([ 'pg_config', '--version' ]);
	my ($major) = $text =~ /PostgreSQL (\d+)/ or die "unknown version: $text";
	my $v       = $major >= 17 ? 'v' : '';

	return ('mdinit', '', qw(mdopen mdclose mdcreate mdexists mdunlink mdextend), $major >= 16 ? 'mdzeroextend' : (),
		'mdprefetch', $major >= 18 ? 'mdmaxcombine' : (), "mdread$v", $major >= 18 ? 'mdstartreadv' : (),
		"mdwrite$v", qw(mdwriteback mdnblocks mdtruncate mdimmedsync), $major >= 17 ? 'mdregistersync' : (),
		$major >= 18 ? 'mdfd' : ());
}

# Address of an exported function of the program.
sub address_of
{
	my ($program, $function) = @_;
	my ($out) = run_command([ 'nm', '-D', '--defined-only', $program ]);
	my ($address) = $out =~ /^([0-9a-f]+) T $function$/m or die "$function is not exported by $program";
	return hex $address;
}

# The entry that should lead to $from leads to $to instead. The table is filled by relocations "base + addend"; that of
# an entry is the one whose neighbour leads to the function before it.
sub fc_patch_table
{
	my ($program, $before, $from, $to) = @_;
	my ($out) = run_command([ 'readelf', '-rW', $program ]);
	my %addend = map { /^([0-9a-f]{16})\s+[0-9a-f]{16}\s+R_\S+_RELATIV\S*\s+([0-9a-f]+)$/ ? (hex $1, hex $2) : () }
	  split /\n/, $out;
	my ($want, $old, $new) = map { address_of($program, $_) } ($before, $from, $to);
	my @at = grep { $addend{$_} == $old && ($addend{ $_ - 8 } // 0) == $want } keys %addend;

	die "found " . @at . " entries of $from after $before" if @at != 1;
	my ($info) = $out =~ /^0*@{[ sprintf '%x', $at[0] ]}\s+([0-9a-f]{16})\s/m or die 'no relocation';
	patch($program, pack('Q<3', $at[0], hex $info, $old), pack('Q<3', $at[0], hex $info, $new), "relocation of $from");
	return;
}

# Compiles a library from C text and files of the extension's source; returns its path.
sub fc_library
{
	my ($name, $text, @files) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir();

	open my $fh, '>', "$dir/$name.c" or die "$name.c: $!";
	print $fh $text;
	close $fh;
	system_or_bail('gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Wextra', '-Werror', '-D_GNU_SOURCE', "-I$source",
		'-o', "$dir/$name.so", "$dir/$name.c", (map { "$source/$_" } @files), '-ldl');
	return "$dir/$name.so";
}

# Like fc_new_node, started but not waited for.
sub fc_odd_node
{
	my ($name, %option) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name, $option{install} ? (install_path => $option{install}) : ());

	$node->init;
	$node->append_conf('postgresql.conf', fc_conf($node, %option));
	fc_start_odd($node, $option{preload});
	$node->safe_psql('postgres', 'CREATE EXTENSION pg_flashcache');
	return $node;
}

# Starts a node with a library preloaded into the server.
sub fc_start_odd
{
	my ($node, $preload) = @_;
	local $ENV{LD_PRELOAD} = $preload if defined $preload;

	$node->start;
	return;
}

# The warnings of the cache in the log, without their prefix; but for that of a file beside the data directory, which is
# where the files of most tests are.
sub fc_warnings
{
	my ($node, $offset) = @_;
	return map { s/.*WARNING:\s+//r } grep { /WARNING:.*flash/ && !/@{[FC_BESIDE]}/ }
	  split /\n/, slurp_file($node->logfile, $offset // 0);
}

# Does the server store and find things?
sub fc_works
{
	my ($node) = @_;
	return $node->safe_psql(
		'postgres', q{
		DROP TABLE IF EXISTS works;
		CREATE TABLE works AS SELECT n, repeat('x', 1000) AS pad FROM generate_series(1, 2000) n;
		CREATE INDEX ON works (n);
		CHECKPOINT;
		SELECT count(*), sum(n) FROM works WHERE n > 0;
	}) eq '2000|2001000';
}

# state|reason|attached_by
sub fc_view
{
	my ($node) = @_;
	return $node->safe_psql('postgres', 'SELECT state, reason, attached_by FROM pg_stat_flashcache');
}

# Starts with the file; returns where its log begins.
sub fc_start_with
{
	my ($node, $file, $size) = @_;
	my $offset = -e $node->logfile ? -s $node->logfile : 0;

	$node->adjust_conf('postgresql.conf', 'pg_flashcache.file', "'$file'");
	$node->adjust_conf('postgresql.conf', 'pg_flashcache.size', "'" . ($size // '512kB') . "'");
	$node->start;
	return $offset;
}

# What only root can do: see root-places.sh.
sub fc_ask
{
	my ($places, $word) = @_;
	open my $ask, '>', "$places/ask" or die "ask: $!";
	print $ask "$word\n";
	close $ask;
	open my $answer, '<', "$places/answer" or die "answer: $!";
	my $said = <$answer>;
	close $answer;
	die "$word: $said" if $said !~ /^(done|held elsewhere)$/;
	return $said eq "done\n";
}

# One refusal. `repair` removes the cause; without it the cache stays off.
sub fc_is_refused
{
	my ($node, $what, $file, $reason, $hint, $repair, $size) = @_;
	my $offset = fc_start_with($node, $file, $size);

	# The writer opens the device, some time after the server has started.
	$node->wait_for_log(qr/WARNING: .* is off: .*\n.*DETAIL: .*\n.*HINT: /, $offset);
	my @warnings = fc_warnings($node, $offset);
	my $log      = slurp_file($node->logfile, $offset);

	$node->safe_psql('postgres', 'CREATE EXTENSION IF NOT EXISTS pg_flashcache');
	is_deeply(\@warnings, ["pg_flashcache is off: $reason"], "$what: one warning");
	# A remedy that needs a restart is not one for pg_flashcache_enable().
	$hint .= ' pg_flashcache_enable() tries at once.' if $hint !~ /restart the server/;
	like($log, qr/HINT:  \Q$hint\E$/m, "$what: with a hint");
	is(fc_view($node), "off|$reason|interception", "$what: the view says so");

	my ($rc, undef, $stderr) = $node->psql('postgres', 'SELECT pg_flashcache_enable()');
	is($rc, 3, "$what: not repaired, not enabled");
	like($stderr, qr/ERROR:  pg_flashcache could not be enabled: \Q$reason\E/, "$what: enable says why");
	if ($repair)
	{
		$repair->();
		is($node->safe_psql('postgres', 'SELECT pg_flashcache_enable()'), 't', "$what: repaired, enabled");
		is(fc_view($node), 'active||interception', "$what: active");
	}
	$node->stop;
	return;
}

# The device is somebody else's for a moment, as that of a process which was killed: the writer waits for it, at the pause
# point. `take` takes it and returns a handle, which gives it back when closed. The log is looked at from the offset on.
sub fc_is_waited_for
{
	my ($node, $what, $point, $take, $offset) = @_;

	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	my $taken = $take->();
	fc_failpoint($node, $point, 'pause');
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
	$node->reload;
	fc_failpoint_wait($node, $point);
	is(fc_view($node), 'starting|the flash device is being opened|interception', "$what: the view says what it waits for");
	my (undef, undef, $stderr) = $node->psql('postgres', q{SET statement_timeout = '200ms'; SELECT pg_flashcache_enable()});
	like($stderr, qr/ERROR:  canceling statement due to statement timeout/, "$what: enable waits as well");
	close($taken);
	fc_failpoint($node, $point, 'off');
	fc_wait_active($node);
	is_deeply([ fc_warnings($node, $offset) ], [], "$what: waited for, no warning");
	return;
}

1;

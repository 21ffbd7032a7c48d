# FlashCacheDevices - what the tests of a cache with several devices share
#
#   use FlashCacheDevices;
#   add($node, $path, 3 * MB);
#   my $asked = ask($node, 'SELECT pg_flashcache_scrub()');
#   like(answer($asked), qr/.../, 'what it says');

package FlashCacheDevices;

use strict;
use warnings;

use Exporter 'import';
use FlashCache;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

our @EXPORT = qw(
  devices device wait_device_state device_processes stop_new_process add
  in_file fill goes_off ask answer
);

sub devices
{
	my ($node, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM pg_stat_flashcache_device ORDER BY 1");
}

# Of one of them; the first one is 1.
sub device
{
	my ($node, $no, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM pg_stat_flashcache_device WHERE device = $no");
}

sub wait_device_state
{
	my ($node, $no, $state) = @_;
	$node->poll_query_until('postgres', "SELECT state = '$state' FROM pg_stat_flashcache_device WHERE device = $no")
	  or die "device $no is not $state: " . device($node, $no, 'state, reason');
	return;
}

# The processes of devices, the writer's children.
sub device_processes
{
	my ($node) = @_;
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	return map { $_ => 1 } grep { $_ } split /\s+/, slurp_file("/proc/$writer/task/$writer/children");
}

# Stops the process of a device that was not there before, as soon as it is there; returns it.
sub stop_new_process
{
	my ($node, %known) = @_;
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		my %now = device_processes($node);
		my ($new) = grep { !$known{$_} } keys %now;
		if ($new)
		{
			kill 'STOP', $new;
			return $new;
		}
		usleep(100_000);
	}
	die 'no new process';
}

# Adds a device; returns its process.
sub add
{
	my ($node, $path, $size) = @_;
	my %before = device_processes($node);
	$node->safe_psql('postgres', "SELECT pg_flashcache_add_device('$path', $size)");
	my %after = device_processes($node);
	my ($pid) = grep { !$before{$_} } keys %after;
	return $pid;
}

# How often a text is in a file.
sub in_file
{
	my ($text, $path) = @_;
	return scalar(() = slurp_file($path) =~ /$text/g);
}

# A table on flash, or as much of it as fits; its pages can be found in these files.
sub fill
{
	my ($node, $table, $pages, $text, @files) = @_;
	$node->safe_psql('postgres', qq{
		CREATE TABLE $table (n int, val text);
		ALTER TABLE $table ALTER val SET STORAGE PLAIN;
		INSERT INTO $table SELECT n, '$text' || repeat('x', 5000) FROM generate_series(1, $pages) n;
		VACUUM $table;
		CHECKPOINT});
	for my $round (1 .. 50)
	{
		# What is there may have been read, on a busy machine, until no page of it gives way.
		my $replace = $round > 5 ? 'true' : 'false';
		fc_evict($node, $table);
		$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('$table', replace => $replace)");
		return if !grep { !in_file($text, $_) } @files;
	}
	die fc_in_flash($node, $table) . " of $pages pages of $table are on flash";
}

# A device other than the last one fails, and is switched off.
sub goes_off
{
	my ($node, $control, $table, $no) = @_;
	fc_evict($node, $table);
	fc_failpoint($control, 'store_read', 'error', $no);
	for (1 .. 50)
	{
		$node->safe_psql('postgres', "SELECT count(val) FROM $table");
		last if $control->query_safe("SELECT state FROM pg_stat_flashcache_device WHERE device = $no") eq 'off';
		fc_evict($node, $table);
	}
	fc_failpoint($control, 'store_read', 'off');
	is($control->query_safe("SELECT state FROM pg_stat_flashcache_device WHERE device = $no"), 'off', "device $no is off");
	return;
}

# Asks for something, and returns when the writer has been asked; the answer comes later, without notices: on a machine that is
# busy, a session that waits for a while says so.
sub ask
{
	my ($node, $sql) = @_;
	my %asked = (out => '', err => '');
	local $ENV{PGOPTIONS} = '-c client_min_messages=warning';
	$asked{psql} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', $sql ], '<', \undef, '>', \$asked{out}, '2>', \$asked{err});
	my ($name) = $sql =~ /(pg_flashcache_\w+)/;
	$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'SELECT%$name%' AND pid <> pg_backend_pid() AND state = 'active' AND wait_event_type IN ('IPC', 'Extension')")
	  or die "$name is not waited for";
	return \%asked;
}

sub answer
{
	my ($asked) = @_;
	$asked->{psql}->finish;
	return "$asked->{out}$asked->{err}";
}

1;

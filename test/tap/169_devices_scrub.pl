# A device that hangs keeps the writer no longer than io_timeout, in a scrub or when it is resized; one that answers the writer
# is no longer suspect. A scrub ends, also if a device hangs while it is opened and there is no io_timeout; it asks one that fails
# three times, no more.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant MB => 1 << 20;

my $suspect = 'another device did not answer; this one is tried before it is used again';

my $node = fc_new_node('main',
	size => '2MB',
	conf => "pg_flashcache.max_size = '16MB'\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n"
	  . "max_logical_replication_workers = 0\npg_flashcache.extents = off\n");
my ($second, $third) = map { $node->basedir . "/$_" } qw(second third);
my %process = map { $_ => add($node, $_, 2 * MB) } $second, $third;
fill($node, 't', 600, 'mark', $second, $third);
my $control = fc_control($node);
fc_failpoint($control, 'probe_due', 'error');

sub limit
{
	my ($limit) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.io_timeout = '$limit'");
	$node->reload;
	$node->poll_query_until('postgres', 'SHOW pg_flashcache.io_timeout', $limit) or die 'no reload';
	fc_writer_round($node);
	return;
}

sub scrub
{
	my ($rc, $out, $err) = $node->psql('postgres', 'SELECT slots_erased FROM pg_flashcache_scrub(true)', timeout => $PostgreSQL::Test::Utils::timeout_default, timed_out => \my $late);
	return $late ? 'it does not end' : $out . $err;
}

sub states { return join(', ', split /\n/, devices($node, "device || ' ' || state")) }

# Calls that were not answered: of the device, and in all.
sub counted
{
	return $node->safe_psql('postgres', 'SELECT d.timeouts, d.read_errors, c.timeouts, c.read_errors FROM pg_stat_flashcache_device d, pg_stat_flashcache c WHERE device = 2');
}

sub enable_second
{
	$node->safe_psql('postgres', "SELECT pg_flashcache_enable_device('$second')");
	is(states(), '1 active, 2 active, 3 active', 'all are in use');
	return;
}

# ---- it hangs, and only the writer waits ----

limit('1s');
kill 'STOP', $process{$second};
my $hung = qr/^the flash device did not answer for 1000 ms/;
like(scrub(), qr/DETAIL:  512 slots were erased, 256 could not be written/, 'a scrub erases what the others have');
kill 'CONT', $process{$second};
is(states(), '1 active, 2 off, 3 active', 'it is off');
like(device($node, 2, 'reason'), $hung, 'the scrub has waited for io_timeout');
is(counted(), '1|1|1|1', 'which is counted');
limit('1min');
enable_second();

limit('1s');
kill 'STOP', $process{$second};
my ($rc, $out, $err) = $node->psql('postgres', "SELECT pg_flashcache_resize_device('$second', @{[3 * MB]})");
kill 'CONT', $process{$second};
like($err, qr/the flash device did not answer for 1000 ms/, 'resizing it has waited for io_timeout');
is(counted(), '2|2|2|2', 'which is counted once: while it hangs, it is not asked for the other size');
is(states(), '1 active, 2 off, 3 active', 'it is off');
limit('1min');
enable_second();

# ---- a session waits in vain ----

# Those that are suspect are not tried; but a scrub asks them.
fill($node, 'u', 600, 'marq', $second, $third);
fc_evict($node, 'u');
limit('1s');
fc_failpoint($control, 'suspect_due', 'error');
fc_failpoint($control, 'store_read', 'delay:8000000', 2);
$node->safe_psql('postgres', 'SELECT count(val) FROM u');
fc_failpoint($control, 'store_read', 'off');
is(states(), '1 active, 2 off, 3 active', 'it is off');
is(join('|', map { device($node, $_, 'reason') } 1, 3), "$suspect|$suspect", 'the others are suspect');
limit('1min');
like(scrub(), qr/DETAIL:  512 slots were erased, 256 could not be written/, 'a scrub erases what they have');
is(join('|', map { device($node, $_, 'reason') } 1, 3), '|', 'they have answered it, and are not suspect any more');
fc_failpoint($control, 'suspect_due', 'off');
enable_second();

# ---- it hangs while it is opened ----

limit('0');
fill($node, 'v', 600, 'marw', $second);
goes_off($node, $control, 'v', 2);
kill 'STOP', $process{$second};
my $asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
fc_writer_round($node);
like(scrub(), qr/DETAIL:  512 slots were erased, 256 could not be written/, 'without io_timeout: a scrub ends');
kill 'CONT', $process{$second};
is(answer($asked), "\n", 'it is opened when it answers');
is(scrub(), 768, 'the next one erases all');

# ---- it fails ----

# Three failures in a row are enough (D4): nothing more is asked of it, also while the cache is disabled, and nothing can go off.
sub set_enabled
{
	my ($enabled) = @_;
	$node->append_conf('postgresql.conf', "pg_flashcache.enabled = $enabled");
	$node->reload;
	fc_wait_state($node, $enabled eq 'on' ? 'active' : 'disabled');
	return;
}
limit('1min');
foreach my $enabled ('on', 'off')
{
	my $name = "enabled = $enabled";
	set_enabled($enabled);
	my $had = device($node, 2, 'write_errors');
	fc_failpoint($control, 'store_write', 'error', 2);
	like(scrub(), qr/DETAIL:  512 slots were erased, 256 could not be written/, "$name: a scrub erases what the others have");
	fc_failpoint($control, 'store_write', 'off');
	is(device($node, 2, 'write_errors') - $had, 3, "$name: and does not ask the one that fails again and again");
	is(scrub(), 768, "$name: the next one erases all") if $enabled eq 'off';
	enable_second() if $enabled eq 'on';
}
set_enabled('on');

# ---- it can't be flushed ----

# The others are, and the scrub says what may be left. That device goes off, as with any flush (D4).
fc_failpoint($control, 'store_sync', 'error', 2);
like(scrub(), qr/DETAIL:  512 slots were erased, 256 could not be written/, 'what was not flushed is not erased');
fc_failpoint($control, 'store_sync', 'off');
is(states(), '1 active, 2 off, 3 active', 'it is off');
like(device($node, 2, 'reason'), qr/could not flush "\Q$second\E"/, 'for that reason');
enable_second();
is(scrub(), 768, 'the next one erases all');

$control->quit;
$node->stop;

done_testing();

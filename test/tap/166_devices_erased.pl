# Slots are erased while devices come, go, or are somebody else's: what pg_flashcache_scrub() promises holds for all of them.

use strict;
use warnings;

use Fcntl qw(:flock);
use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant MB => 1 << 20;

my $conf = "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\npg_flashcache.max_size = '16MB'\n";

# ---- what comes while slots are erased ----

{
	my $node = fc_new_node('scrub', size => '2MB', conf => $conf);
	my $first = fc_flash_file($node);
	my ($second, $third) = map { $node->basedir . "/$_" } qw(second third);
	my $control = fc_control($node);

	# Erases; returns when the first device is erased. The third comes last, and is slow.
	my $scrub = sub {
		fc_failpoint($control, 'store_write', 'delay:3000000', 3);
		my $asked = ask($node, 'SELECT slots_erased > 0 FROM pg_flashcache_scrub()');
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if !in_file('SECRET', $first);
			usleep(100_000);
		}
		is(in_file('SECRET', $first), 0, 'the first is erased');
		return $asked;
	};

	add($node, $_, 3 * MB) foreach $second, $third;
	fill($node, 's', 120, 'small', $first);
	# hits of s keep it there, on the first device; of t there are so many that each has some
	my $hit = sub {
		for (1 .. 2)
		{
			fc_evict($node, 's');
			$node->safe_psql('postgres', 'SELECT count(val) FROM s');
		}
	};
	$hit->();
	fill($node, 't', 900, 'SECRET', $first, $second);
	fc_failpoint($control, 'probe_due', 'error');

	# a device is added
	$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");
	$node->safe_psql('postgres', 'DROP TABLE t; CHECKPOINT');
	cmp_ok(in_file('SECRET', $second), '>', 0, 'added: the removed one has pages of the dropped table');
	my $scrub_asked = $scrub->();
	my $asked = ask($node, "SELECT pg_flashcache_add_device('$second', @{[3 * MB]})");
	fc_failpoint($control, 'store_write', 'off');
	is(answer($scrub_asked), "t\n", 'added: erased');
	is(answer($asked), "\n", 'added while it was');
	is(in_file('SECRET', $_), 0, "added: no page of the dropped table is in $_") foreach $first, $second, $third;

	# another file, with what it had before
	$hit->();
	fill($node, 't', 900, 'SECRET', $first);
	system_or_bail('cp', '-p', $first, "$first.before");
	$node->safe_psql('postgres', 'DROP TABLE t; CHECKPOINT');
	cmp_ok(in_file('SECRET', "$first.before"), '>', 0, 'replaced: a copy of the first has pages of the dropped table');
	$scrub_asked = $scrub->();
	rename "$first.before", $first or die $!;
	goes_off($node, $control, 's', 1);
	$asked = ask($node, 'SELECT pg_flashcache_enable()');
	fc_failpoint($control, 'store_write', 'off');
	is(answer($scrub_asked), "t\n", 'replaced: erased');
	is(answer($asked), "t\n", 'replaced while it was');
	is(in_file('SECRET', $_), 0, "replaced: no page of the dropped table is in $_") foreach $first, $second, $third;

	# one goes off when it has been erased, and is not flushed: its process ends, and the next one does not find the file
	fill($node, 't', 900, 'SECRET', $first, $second);
	$node->safe_psql('postgres', 'DROP TABLE t; CHECKPOINT');
	$scrub_asked = $scrub->();
	for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
	{
		last if !in_file('SECRET', $second);
		usleep(100_000);
	}
	my %processes = device_processes($node);
	my ($process) = grep { my $pid = $_; grep { (readlink $_ // '') eq $second } glob "/proc/$pid/fd/*" } keys %processes;
	rename $second, "$second.away" or die $!;
	kill 'KILL', $process or die 'no process';
	fc_failpoint($control, 'store_write', 'off');
	like(answer($scrub_asked), qr/ERROR:  the flash cache could not be erased\nDETAIL:  \d+ slots were erased, [1-9]\d* could not be written/,
		'off: a scrub says that what it has erased there may come back');
	is(devices($node, 'device, state'), "1|active\n2|off\n3|active", 'off: it is');
	$control->quit;
	$node->stop;
}

# ---- a disabled cache is erased, and somebody else has one of its devices ----

{
	my $node = fc_new_node('held', size => '8MB', conf => $conf);
	my $second = $node->basedir . '/second';
	add($node, $second, 3 * MB);
	$node->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
	$node->reload;
	fc_wait_state($node, 'disabled');
	open my $held, '+<', $second or die $!;
	flock $held, LOCK_EX | LOCK_NB or die $!;
	my $control = fc_control($node);
	my $erased = $control->query_safe('SELECT slots_erased FROM pg_stat_flashcache');
	my $asked = ask($node, 'SELECT slots_erased FROM pg_flashcache_scrub(true)');
	$node->poll_query_until('postgres', "SELECT slots_erased > $erased FROM pg_stat_flashcache") or die 'nothing is erased';
	close $held;
	like(answer($asked), qr/DETAIL:  1024 slots were erased, 384 could not be written/, 'held: one that could not be had is tried once');
	is($node->safe_psql('postgres', 'SELECT slots_erased FROM pg_flashcache_scrub(true)'), 1408, 'held: it can be had again');
	$control->quit;
	$node->stop;
}

done_testing();

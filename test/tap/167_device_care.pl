# Trouble in a series, a writer that ends in the middle of a change, a stop without a log, one file under two names, and
# what is said about each device.

use strict;
use warnings;

use FlashCache;
use FlashCacheDevices;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant MB => 1 << 20;

my $conf = "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\npg_flashcache.max_size = '16MB'\n";

# ---- a series of trouble ----

{
	my $node = fc_new_node('series', size => '2MB', conf => $conf);
	my $second = $node->basedir . '/second';
	add($node, $second, 2 * MB);
	fill($node, 't', 250, 'text', fc_flash_file($node), $second);
	my $control = fc_control($node);
	foreach my $no (2, 1)
	{
		my $path = $no == 1 ? fc_flash_file($node) : $second;
		my $offset = -s $node->logfile;
		foreach my $round (1 .. 3)
		{
			goes_off($node, $control, 't', $no);
			$node->wait_for_log(qr/(?:pg_flashcache does not use "\Q$path\E".*?){$round}/s, $offset);
			last if $no == 1 && $round == 3;
			$node->poll_query_until('postgres', "SELECT state = 'active' FROM pg_stat_flashcache_device WHERE device = $no") or die "$no is not back";
		}
		$node->wait_for_log(qr/(?:tries again by itself.*?){3}/s, $offset);
		my @said = slurp_file($node->logfile, $offset) =~ /(WARNING|LOG):  pg_flashcache does not use "\Q$path\E".*?It tries again by itself in (\d+) s/sg;
		is("@said", 'WARNING 1 LOG 2 LOG 4', "series: device $no, one warning, and the pauses grow");
	}
	$node->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
	$node->poll_query_until('postgres', "SELECT state = 'active' FROM pg_stat_flashcache_device WHERE device = 1") or die '1 is not back';
	my $offset = -s $node->logfile;
	goes_off($node, $control, 't', 1);
	$node->wait_for_log(qr/WARNING:  pg_flashcache does not use.*?It tries again by itself in 1 s/s, $offset);
	$control->quit;
	$node->stop;
}

# ---- a writer that ends in the middle ----

SKIP:
{
	my $node = fc_new_node('middle', size => '2MB', conf => $conf);
	# as in 160_devices
	skip 'seen on 15 only', 6 if $node->pg_version >= 16;
	my $second = $node->basedir . '/second';
	my $pid = add($node, $second, 3 * MB);
	fill($node, 't', 300, 'text', $second);
	my $control = fc_control($node);
	my $writer = sub { return $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache') };
	my $ends = sub {
		my ($former) = @_;
		kill 'TERM', $former or die 'no writer';
		fc_failpoint($control, 'fill_staged', 'off');
		kill 'CONT', $pid;
		$node->poll_query_until('postgres', "SELECT writer_pid <> $former FROM pg_stat_flashcache") or die 'no new writer';
	};
	my $is_active = sub { return $node->poll_query_until('postgres', "SELECT state = 'active' FROM pg_stat_flashcache_device WHERE device = 2") };

	# while it is drained
	my $former = $writer->();
	kill 'STOP', $former or die 'no writer';
	my $asked = ask($node, "SELECT pg_flashcache_disable_device('$second')");
	fc_failpoint($control, 'fill_staged', 'pause');
	$control->query_safe('CREATE TABLE w AS SELECT * FROM t; SELECT count(*) FROM w');
	kill 'CONT', $former;
	fc_failpoint_wait($control, 'fill_staged');
	is($control->query_safe('SELECT state FROM pg_stat_flashcache_device WHERE device = 2'), 'disabled', 'disabling: it is');
	$ends->($former);
	# the session may see that there is no writer, before the next one tells it
	like(answer($asked), qr/could not disable the device: /, 'disabling: nothing has come of it');
	ok($is_active->(), 'disabling: it is in use');

	# while it is opened
	$node->safe_psql('postgres', "SELECT pg_flashcache_disable_device('$second')");
	$former = $writer->();
	fc_failpoint($control, 'store_open', 'delay:10000000', 2);
	$asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
	ok($node->poll_query_until('postgres', "SELECT state = 'starting' FROM pg_stat_flashcache_device WHERE device = 2"), 'enabling: it is being opened');
	fc_failpoint($control, 'store_open', 'off');
	kill 'TERM', $former or die 'no writer';
	$node->poll_query_until('postgres', "SELECT writer_pid <> $former FROM pg_stat_flashcache") or die 'no new writer';
	answer($asked);
	ok($is_active->(), 'enabling: it is in use');
	$node->restart;
	fc_wait_active($node);
	ok($is_active->(), 'enabling: and after a restart');
	$control->quit;
	$node->stop;
}

# ---- nothing is copied that would not be found again ----

{
	my $node = fc_new_node('copied', size => '3MB', buffers => '4MB', conf => $conf . "pg_flashcache.persistence = on\n");
	my $second = $node->basedir . '/second';
	add($node, $second, 8 * MB);
	fill($node, 's', 300, 'text', fc_flash_file($node), $second);
	my $control = fc_control($node);
	fc_failpoint($control, 'probe_due', 'error');
	goes_off($node, $control, 's', 1);
	$node->poll_query_until('postgres', 'SELECT NOT writing FROM pg_stat_flashcache_persistence') or die 'the log has not ended';
	# it stays in shared buffers
	$node->safe_psql('postgres', q{
		CREATE TABLE t (n int, val text);
		ALTER TABLE t ALTER val SET STORAGE PLAIN;
		INSERT INTO t SELECT n, 'COPIED' || repeat('x', 5000) FROM generate_series(1, 200) n;
		CHECKPOINT});
	is(in_file('COPIED', $second), 0, 'copied: nothing is on flash before the stop');
	$control->quit;
	$node->stop;
	is(in_file('COPIED', $second), 0, 'copied: nothing is copied there, since no log says so');
}

# ---- one file, two spellings ----

{
	my $node = fc_new_node('spelling', size => '2MB', conf => $conf);
	my $base = $node->basedir;
	add($node, "$base/second", 3 * MB);
	mkdir "$base/folder" or die $!;
	my $change = sub {
		my ($what, $path) = @_;
		my (undef, undef, $err) = $node->psql('postgres', "SELECT pg_flashcache_${what}_device('$path'" . ($what eq 'add' ? ', ' . 3 * MB : '') . ')');
		return $err =~ s/^psql:<stdin>:1: ERROR:  //r =~ s/\n.*//sr;
	};
	like($change->('add', $_), qr/"\Q$_\E" is a device of the cache already$/, "$_: is one already") foreach "$base/./second", "$base//second", "/.$base/.//second";
	like($change->('add', "$base/./flash"), qr/is the first device of the cache, pg_flashcache.file$/, 'so is the first');
	like($change->('add', "$base/folder/../$_->[0]"), qr/ is device $_->[1] of the cache already, under another name$/, "$_->[0]: seen when it is opened")
	  foreach [ 'second', 2 ], [ 'flash', 1 ];
	is($change->('disable', "$base/./second"), '', 'disabled by another spelling');
	like($change->('add', "$base/folder/../second"), qr/ is device 2 of the cache already, under another name$/, 'one that is disabled');
	$node->restart;
	fc_wait_active($node);
	like($change->('add', "$base/folder/../second"), qr/ is device 2 of the cache already, under another name$/, 'one that has not been opened since the start');
	is($change->('enable', "$base//second"), '', 'it can be enabled');
	is(devices($node, 'device, state'), "1|active\n2|active", 'and is');
	$node->stop;
}

# ---- what to do is said of the device ----

{
	my $node = fc_new_node('hints', size => '2MB', conf => $conf);
	my $base = $node->basedir;
	my $hint = sub {
		my ($what, $path) = @_;
		my (undef, undef, $err) = $node->psql('postgres', "SELECT pg_flashcache_${what}_device('$path'" . ($what eq 'add' ? ', ' . 3 * MB : '') . ')');
		return $err =~ /HINT:  (.*)/ ? $1 : $err;
	};
	my $overwrite = sub {
		open my $fh, '>', "$base/$_[0]" or die $!;
		print $fh 'x' x 100_000;
		close $fh or die $!;
	};
	$overwrite->('other');
	chmod 0600, "$base/other" or die $!;
	is($hint->('add', "$base/other"), 'Name another path; or, if nobody needs what is in it, move it elsewhere.', 'added: a file of somebody else');
	is($hint->('add', $node->data_dir . '/other'), 'Choose a path on local flash outside the data directory.', 'added: in the data directory');
	is($hint->('add', $base), 'Name a regular file or a block device.', 'added: a folder');

	add($node, "$base/second", 3 * MB);
	$node->stop;
	$overwrite->('second');
	$node->start;
	fc_wait_active($node);
	like($hint->('enable', "$base/second"), qr/^If nobody needs what is in it, move it elsewhere\. Then pg_flashcache_remove_device\(\) and/, 'in the list: overwritten');
	rename "$base/second", "$base/away" or die $!;
	like($hint->('enable', "$base/second"), qr/If the file is gone for good: pg_flashcache_remove_device\(\), then pg_flashcache_add_device\(\)\.$/, 'in the list: gone');
	is($hint->('remove', "$base/second") . $hint->('add', "$base/second"), '', 'and that is what helps');
	is(devices($node, 'device, state'), "1|active\n2|active", 'it is in use');
	$node->stop;
}

done_testing();

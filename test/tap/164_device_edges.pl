# Several devices: what lies behind the end of one is left alone; one that hangs holds nobody up, neither those who read nor
# those who replace it; one whose content was in doubt begins empty.

use strict;
use warnings;

use Fcntl qw(:flock);
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

use constant { MB => 1 << 20, HEADER => 65536 };

my $conf = "bgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\nmax_logical_replication_workers = 0\npg_flashcache.max_size = '16MB'\n";

sub devices
{
	my ($node, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM pg_stat_flashcache_device ORDER BY 1");
}

# The processes of devices, the writer's children.
sub device_processes
{
	my ($node) = @_;
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	return map { $_ => 1 } grep { $_ } split /\s+/, slurp_file("/proc/$writer/task/$writer/children");
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

# ---- behind the end of a device ----

{
	# 320 slots, in chunks of 128; the log lies behind them
	my $node = fc_new_node('partial', size => '2560kB', conf => $conf . "pg_flashcache.persistence = on\n");
	my $first = fc_flash_file($node);
	my $second = $node->basedir . '/second';
	add($node, $second, 1064960);    # 130 slots
	fc_table($node, 'postgres', 't', 'v1', 250);
	fc_to_flash($node, 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	$node->poll_query_until('postgres', 'SELECT stamp_checkpoint = checkpoint_lsn FROM pg_stat_flashcache_persistence, pg_control_checkpoint()') or die 'no stamp';
	my @sizes = (-s $first, -s $second);
	$node->safe_psql('postgres', 'SELECT * FROM pg_flashcache_scrub()');
	is(join(' ', -s $first, -s $second), "@sizes", 'a scrub leaves alone what lies behind the slots of a device');
	is($node->safe_psql('postgres', 'SELECT slots FROM pg_stat_flashcache'), 450, 'with as many slots as there are');
	my $used = $node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache');
	$node->stop('immediate');
	$node->start;
	fc_wait_active($node);
	is($node->safe_psql('postgres', 'SELECT refused FROM pg_stat_flashcache_persistence'), '', 'the log is as it was');
	cmp_ok($node->safe_psql('postgres', 'SELECT used FROM pg_stat_flashcache'), '>', $used / 2, 'and so is the cache, after a crash');
	$node->stop;
}

# ---- one that hangs is replaced ----

{
	my $node = fc_new_node('replaced', size => '3MB', conf => $conf . "pg_flashcache.io_timeout = 300ms\n");
	my $base = $node->basedir;
	my $pid = add($node, "$base/second", 3 * MB);
	kill 'STOP', $pid or die 'no process';
	$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$base/second')");
	is(devices($node, 'device, state'), '1|active', 'one that hangs is removed');
	add($node, "$base/third", 3 * MB);
	like(devices($node, 'path, state'), qr{/third\|active$}m, 'and another one takes its place while it does');
	is(() = devices($node, 'state') =~ /active/g, 2, 'which is active');
	kill 'CONT', $pid;
	$node->stop;
}

# ---- one that hangs is not waited for again and again ----

{
	my $node = fc_new_node('waits', size => '1MB', buffers => '2MB', conf => $conf . "pg_flashcache.io_timeout = 1s\npg_flashcache.max_size = '32MB'\neffective_io_concurrency = 64\n");
	add($node, $node->basedir . '/second', 20 * MB);
	fc_table($node, 'postgres', 't', 'v1', 1500);
	# most of them will do
	for (1 .. 50)
	{
		$node->safe_psql('postgres', 'SELECT count(val) FROM t');
		fc_evict($node, 't');
		last if fc_in_flash($node, 't') > 1300;
	}
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	$session->query_safe('SELECT count(*) FROM t WHERE id < 0');
	fc_evict($node, 't');
	fc_failpoint($control, 'store_read', 'delay:16000000', 2);
	# it closes what hangs, and is busy here
	kill 'STOP', $writer or die 'no writer';
	$session->query_safe('SELECT count(val) FROM t');
	kill 'CONT', $writer;
	is($control->query_safe('SELECT timeouts FROM pg_stat_flashcache_device WHERE device = 2'), 1, 'a session waits once for a device that hangs');
	fc_failpoint($control, 'store_read', 'off');
	$control->quit;
	$session->quit;
	$node->stop('immediate');
}

# ---- a descriptor that came too late, or could not be closed ----

{
	my $node = fc_new_node('late', size => '1MB', conf => $conf);
	my $second = $node->basedir . '/second';
	fc_table($node, 'postgres', 't', 'v1', 300);
	fc_evict($node, 't');
	my $control = fc_control($node);
	my $session = $node->background_psql('postgres');
	my $pid     = $session->query_safe('SELECT pg_backend_pid()');
	my $has     = sub { return scalar grep { /^\Q$second\E/ } map { readlink $_ // () } glob "/proc/$pid/fd/*" };
	my $read    = sub { return $session->query_safe('SELECT count(val) FROM t') };

	# It has been removed, and its space comes free when nobody has it open.
	my $removed = sub {
		my ($what) = @_;
		for (1 .. 100)
		{
			fc_evict($node, 't');
			$read->();
			last if !$has->();
			usleep(100_000);
		}
		is($has->(), 0, "$what: the session closes it");
	};
	my $fill = sub {
		add($node, $second, 3 * MB);
		fc_evict($node, 't');
		$node->safe_psql('postgres', q{SELECT pg_flashcache_prewarm('t')});
	};
	my $remove = sub {
		$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");
		unlink $second or die $!;
	};

	fc_failpoint($control, 'probe_due', 'error');
	# the first device is open: it is the second that comes late
	$read->();
	$fill->();
	is($has->(), 0, 'opened too late: it was not open before');
	fc_failpoint($control, 'store_late', 'error');
	is($read->(), 300, 'opened too late: the query is answered');
	fc_failpoint($control, 'store_late', 'off');
	like(devices($node, 'device, state'), qr/^2\|off$/m, 'opened too late: it is off');
	$remove->();
	$removed->('opened too late');

	$fill->();
	$read->();
	is($has->(), 1, 'not closed: it is open');
	fc_failpoint($control, 'store_close', 'error');
	$remove->();
	for (1 .. 3)
	{
		fc_evict($node, 't');
		$read->();
	}
	is($has->(), 1, 'not closed: it could not be');
	fc_failpoint($control, 'store_close', 'off');
	$removed->('not closed');
	$control->quit;
	$session->quit;
	$node->stop;
}

# ---- content in doubt ----

{
	my $node = fc_new_node('doubt', size => '3MB', conf => $conf);
	my $second = $node->basedir . '/second';
	add($node, $second, MB);
	fc_table($node, 'postgres', 't', 'v1', 300);
	fc_to_flash($node, 't');
	fc_failpoint($node, 'probe_due', 'error');
	fc_failpoint($node, 'store_read', 'misplaced', 1);
	$node->safe_psql('postgres', 'SELECT count(val) FROM t');
	fc_failpoint($node, 'store_read', 'off');
	is((split /\n/, devices($node, 'device, state'))[0], '1|off', 'one whose pages are wrong goes off');
	$node->safe_psql('postgres', "SELECT pg_flashcache_remove_device('$second')");
	$node->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
	fc_wait_active($node);
	# it may be filling already
	cmp_ok(fc_in_flash($node, 't'), '<', 100, 'and begins empty, also when it is the only one by then');
	$node->stop;
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
	for (1 .. 50)
	{
		fc_evict($node, $table);
		$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('$table')");
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

# Asks for something, and returns when the writer has been asked; the answer comes later.
sub ask
{
	my ($node, $sql) = @_;
	my %asked = (out => '', err => '');
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
	fill($node, 's', 60, 'small', $first);
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

	# one goes off when it has been erased, and is not flushed
	$hit->();
	fill($node, 't', 900, 'SECRET', $first);
	$node->safe_psql('postgres', 'DROP TABLE t; CHECKPOINT');
	$scrub_asked = $scrub->();
	goes_off($node, $control, 's', 1);
	fc_failpoint($control, 'store_write', 'off');
	like(answer($scrub_asked), qr/ERROR:  the flash cache could not be erased\nDETAIL:  \d+ slots were erased, [1-9]\d* could not be written/,
		'off: a scrub says that what it has erased there may come back');
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
	my %children = device_processes($node);
	$former = $writer->();
	kill 'STOP', keys %children;
	$asked = ask($node, "SELECT pg_flashcache_enable_device('$second')");
	ok($node->poll_query_until('postgres', "SELECT state = 'starting' FROM pg_stat_flashcache_device WHERE device = 2"), 'enabling: it is being opened');
	kill 'TERM', $former or die 'no writer';
	kill 'CONT', keys %children;
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

# The journal of records on flash: K4, K11 and K18 of src/warm.md.
#
# What the log adds to the bytes written to flash, to the block; that entries survive of which only a listed record is
# there, or only one of a stretch whose turn it was; that a block which is torn takes what it has along and nothing else;
# and that both halves of the rule are needed.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

use constant PAGE      => 8192;
use constant SLOTS     => 4096;
use constant STRETCHES => 11;
use constant BLOCKS    => 2 * STRETCHES + 4 * 8;
use constant ROOTS     => 65536 + PAGE * SLOTS;
use constant JOURNAL   => ROOTS + PAGE * 4;
use constant LISTED    => 0xFFFFFFFF;

my $pages = 40;
my $conf  = "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\n"
  . "checkpoint_timeout = 1h\nmax_wal_size = '4GB'\nrestart_after_crash = off\n";

sub read_flash
{
	my ($node, $at, $bytes) = @_;
	open my $fh, '<', fc_flash_file($node) or die $!;
	binmode $fh;
	seek $fh, $at, 0 or die $!;
	read($fh, my $content, $bytes) == $bytes or die 'the file of the cache is too short';
	close $fh or die $!;
	return $content;
}

# The root that counts.
sub root
{
	my ($node) = @_;
	my ($root) = sort { $b->{number} <=> $a->{number} } map {
		my %root;
		@root{qw(number log next)} = unpack '@24QQQ', read_flash($node, ROOTS + PAGE * $_, 48);
		\%root
	} 0, 1;
	return $root;
}

# The blocks of the journal, in order of their numbers, with their records: [slot, relation].
sub journal
{
	my ($node) = @_;
	my $log = root($node)->{log};
	my $all = read_flash($node, JOURNAL, PAGE * BLOCKS);
	my @blocks;

	foreach my $place (0 .. BLOCKS - 1)
	{
		my $content = substr $all, PAGE * $place, PAGE;
		my %block   = (place => $place);
		@block{qw(first log number group hand turn n)} = unpack 'x4 V QQQ x12 VVV', $content;
		next if $block{log} != $log;
		$block{listed} = $block{first} == LISTED;
		die "block $block{number} is in place $place" if $block{number} % BLOCKS != $place;
		foreach my $i (0 .. $block{n} - 1)
		{
			push @{ $block{records} }, $block{listed}
			  ? [ unpack 'V x8 V', substr $content, 56 + 24 * $i, 24 ]
			  : [ $block{first} + $i, unpack 'x8 V', substr $content, 56 + 20 * $i, 20 ];
		}
		push @blocks, \%block;
	}
	my @sorted = sort { $a->{number} <=> $b->{number} } @blocks;
	return @sorted;
}

# The slots of which the newest record in these blocks is of that relation.
sub newest
{
	my ($rel, @blocks) = @_;
	my (%seen, @slots);

	foreach my $block (reverse @blocks)
	{
		foreach my $record (reverse @{ $block->{records} // [] })
		{
			next if $seen{ $record->[0] }++;
			push @slots, $record->[0] if $record->[1] == $rel;
		}
	}
	return @slots;
}

# Of these slots, those that were in use when the server was stopped. (Nothing was invalidated after that: the map comes last.)
sub in_use
{
	my ($node, @slots) = @_;
	my $map = substr slurp_file($node->data_dir . '/pg_flashcache.stop'), -SLOTS / 8;
	return grep { vec $map, $_, 1 } @slots;
}

sub new_node
{
	my ($name) = @_;
	my $node = fc_new_node($name, size => '32MB', conf => $conf);
	fc_everywhere($node);
	fc_table($node, 'postgres', 't', 'v1', $pages);
	fc_table($node, 'postgres', 'u', 'v1', $pages);
	return $node;
}

sub persistence
{
	my ($node, $column) = @_;
	return $node->safe_psql('postgres', "SELECT $column FROM pg_stat_flashcache_persistence");
}

# About so many pages are written to flash, into whatever slots the hand comes to.
my %many;

sub write_pages
{
	my ($node, $n) = @_;
	my $table = 'many' . @{ $many{ $node->name } //= [] };
	push @{ $many{ $node->name } }, [ $table, $n ];
	fc_table($node, 'postgres', $table, 'v1', $n);
	fc_push_out($node, fc_tag($node, 'postgres', $table));
	fc_writer_round($node);
	return;
}

# All of them are read.
sub read_all
{
	my ($node) = @_;
	fc_fetch($node, 'postgres', @$_) foreach @{ $many{ $node->name } };
	fc_writer_round($node);
	return;
}

# Until so many blocks of the journal have been written. `t` is read meanwhile, so that it stays on flash; and none of it
# lies where the hand is in the end, since the trials of the next start take these slots.
sub write_blocks
{
	my ($node, $n) = @_;
	my $rel = fc_tag($node, 'postgres', 't')->{rel};
	my $end = (journal($node))[-1]->{number} + $n;
	for (1 .. 60)
	{
		my @blocks = journal($node);
		my $hand   = $blocks[-1]->{hand};
		return if $blocks[-1]->{number} >= $end && !grep { ($_ - $hand) % SLOTS < 400 } newest($rel, @blocks);
		fc_fetch($node, 'postgres', 't', $pages);
		write_pages($node, 500);
	}
	die "$n blocks are not written";
}

sub start
{
	my ($node, $broken) = @_;
	local $ENV{FC_BREAK} = $broken // '';
	$node->start;
	fc_wait_active($node);
	return;
}

sub crash
{
	my ($node, $broken) = @_;
	fc_kill_server($node);
	start($node, $broken);
	is(persistence($node, 'refused'), '', 'the log is loaded');
	return;
}

sub is_quiet
{
	my ($node) = @_;
	my %trouble = fc_stat($node, qw(verify_failures checksum_failures read_errors write_errors slots_retired));
	is_deeply([ grep { $trouble{$_} } keys %trouble ], [], 'nothing went wrong');
	return;
}

sub is_right
{
	my ($node, $name) = @_;
	fc_is_warm($node, fc_tag($node, 'postgres', 't'), $pages, "$name: every page is restored");
	fc_is_read($node, 'postgres', 't', 'v1', $pages, "$name: and read from flash, and right");
	is_quiet($node);
	return;
}

# What is written, to the block.
my $node = new_node('main');
is(-s fc_flash_file($node), JOURNAL + PAGE * BLOCKS, 'the journal lies behind roots and maps');
fc_warm($node, undef, 'postgres', 't', 'u');
fc_stamp($node);
{
	# A page of a catalog may come at any time.
	my $taken   = sub { my %now = fc_stat($node, qw(inserts insert_skip_not_current)); return @now{qw(inserts insert_skip_not_current)} };
	my @counts  = [ $taken->() ];
	fc_stamp($node);
	my $bytes  = persistence($node, 'log_bytes');
	my @before = journal($node);
	my $root   = root($node);
	push @counts, [ $taken->() ];
	for (1 .. 40)
	{
		# in small steps: the journal has room for so many groups only
		last if { fc_stat($node, 'inserts') }->{inserts} >= $counts[1]->[0] + 1200;
		write_pages($node, 100);
	}
	push @counts, [ $taken->() ];
	fc_stamp($node);
	my @new = grep { $_->{number} > $before[-1]->{number} } journal($node);
	$bytes  = persistence($node, 'log_bytes') - $bytes;
	push @counts, [ $taken->() ];
	my @listed  = grep { $_->{listed} } @new;
	my @turns   = grep { !$_->{listed} } @new;
	my %groups  = map { $_->{group} => 1 } @new;
	my $records = 0;
	$records += $_->{n} foreach @listed;
	my $stamps = root($node)->{number} - $root->{number};

	cmp_ok($records, '>=', 1200, 'so many pages have come to flash');
	cmp_ok($records, '>=', $counts[2]->[0] - $counts[1]->[0], 'each of them is listed');
	cmp_ok($records, '<=', $counts[3]->[0] - $counts[0]->[0] + $counts[3]->[1] - $counts[0]->[1], 'and nothing else');
	is(scalar @new, $new[-1]->{number} - $before[-1]->{number}, 'each block has the next number');
	is(scalar @listed, scalar keys %groups, 'one block of a group lists them');
	is_deeply([ map { $_->{first} / 406 } @turns ], [ map { ($turns[0]->{first} / 406 + $_) % STRETCHES } 0 .. $#turns ],
		'stretches have their turn');
	is(scalar @turns, scalar @listed, 'as many as there are blocks that list slots');
	is($bytes, PAGE * (@new + 2 * $stamps), 'nothing else is written but a map and a root for each stamp');
	# a group of 64 slots or more, and one for each stamp
	cmp_ok(scalar @new, '<=', 2 * ($records / 64 + $stamps), 'so much in all');
}

# After a crash: what has been taken since the stamp, too.
crash($node);
is_right($node, 'a crash');

# The journal goes round: what is listed of `t` is overwritten, and a stretch in turn has it.
foreach my $broken (0, 1)
{
	my $here = $broken ? new_node('turn') : $node;
	if ($broken)
	{
		$here->stop;
		start($here, 'K18-turn');
		fc_warm($here, undef, 'postgres', 't');
		fc_stamp($here);
	}
	my $tag   = fc_tag($here, 'postgres', 't');
	my $begin = (journal($here))[-1]->{number};
	write_blocks($here, BLOCKS + 2);
	fc_is_warm($here, $tag, $pages, 'gone round: the pages are on flash');
	fc_stamp($here);
	my @blocks = journal($here);
	is(scalar @blocks, BLOCKS, 'gone round: the journal is full');
	cmp_ok($blocks[0]->{number}, '>', $begin, 'gone round: what was listed then is overwritten');
	if ($broken)
	{
		is(scalar newest($tag->{rel}, @blocks), 0, 'K18-turn broken: no record of them is left');
		crash($here);
		fc_is_gone($here, $tag, 'K18-turn broken: none is restored');
		is_quiet($here);
		$here->stop('immediate');
		next;
	}
	is(scalar newest($tag->{rel}, @blocks), $pages, 'gone round: each has a record');
	crash($here);
	is_right($here, 'gone round');
}

# Of a slot the newest record counts. Each slot has been in use several times by now.
foreach my $broken (0, 1)
{
	write_pages($node, 500);
	fc_stamp($node);
	crash($node, $broken ? 'K18' : '');
	read_all($node);
	my $wrong = persistence($node, 'restored_wrong');
	if ($broken) { cmp_ok($wrong, '>', 0, 'K18 broken: slots have other pages than their records') }
	else { is($wrong, 0, 'K18 kept: none has') }
	is_quiet($node);
}

# A group that is torn by a crash. What could not be read may be right the next time: another log takes over.
$node->stop;
start($node);
fc_warm($node, undef, 'postgres', 't', 'u');
fc_stamp($node);
{
	my $log = root($node)->{log};
	fc_failpoint($node, 'log_write', 'torn');
	write_pages($node, 100);
	crash($node);
	cmp_ok(persistence($node, 'torn_blocks'), '>=', 1, 'torn by a crash: it is seen');
	is_right($node, 'torn by a crash');
	fc_warm($node, undef, 'postgres', 't', 'u');
	write_pages($node, 200);
	fc_stamp($node);
	write_pages($node, 200);
	isnt(root($node)->{log}, $log, 'torn by a crash: there is another log');
	crash($node);
	is_right($node, 'torn by a crash, and another');
}

# More slots are taken than a group can list: then it has whole stretches of them.
{
	$node->stop;
	local $ENV{FC_WARM_LISTED} = 10;
	start($node);
	fc_warm($node, undef, 'postgres', 't', 'u');
	my $number = (journal($node))[-1]->{number};
	write_blocks($node, 100);
	my @new    = grep { $_->{number} > $number } journal($node);
	my @listed = grep { $_->{listed} } @new;
	is(scalar(grep { $_->{n} > 10 } @listed), 0, 'stretches: a few slots are listed');
	cmp_ok(@new - @listed, '>=', 2 * @listed, 'stretches: of the others there are stretches');
	fc_stamp($node);
	crash($node);
	is_right($node, 'stretches');
}

# Another writer in the same run goes on where the one before it has left the log complete. If that one has not, it does not
# know which slots have no record: it writes all stretches, then goes on.
foreach my $complete (1, 0)
{
	$node->stop;
	start($node, $complete ? '' : 'left');
	my $writer = $node->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
	fc_warm($node, undef, 'postgres', 't', 'u');
	fc_stamp($node);
	my $end = root($node)->{next};
	kill 'TERM', $writer or die "no writer: $!";
	$node->poll_query_until('postgres', "SELECT state = 'active' AND writer_pid <> $writer FROM pg_stat_flashcache") or die 'no writer';
	write_pages($node, 100);
	for (1 .. 100)
	{
		last if $complete || (journal($node))[-1]->{number} >= $end + STRETCHES;
		fc_writer_round($node);
	}
	my @new = grep { $_->{number} >= $end } journal($node);
	my %first = map { $_->{first} => 1 } grep { !$_->{listed} } @new;
	if ($complete) { is(scalar(grep { $_->{listed} } @new), @new / 2, 'another writer: it goes on') }
	else { is(scalar keys %first, STRETCHES, 'another writer: all stretches are written') }
	crash($node);
	is_right($node, 'another writer');
}

# A block that is spoilt takes along what only it has, and nothing else.
fc_warm($node, undef, 'postgres', 't', 'u');
fc_stamp($node);
{
	my %tag = map { $_ => fc_tag($node, 'postgres', $_) } qw(t u);
	my ($u, %left, $spoilt, $label);
	# A stretch may have had its turn right after a page of `u` was listed. Then it is in two blocks.
	for my $try (1 .. 20)
	{
		$label = "v$try";
		fc_rewrite_rows($node, 'postgres', 'u', $label);
		fc_warm($node, undef, 'postgres', 'u');
		$u = fc_tag_flash($node, $tag{u});
		$node->stop;
		my @blocks = journal($node);
		die 'pages have no record' if in_use($node, newest($tag{u}->{rel}, @blocks)) != $u || in_use($node, newest($tag{t}->{rel}, @blocks)) != $pages;
		my $without = sub {
			my ($out, $table) = @_;
			return scalar in_use($node, newest($tag{$table}->{rel}, grep { $_ != $out } @blocks));
		};
		my @last = @blocks[ -12 .. -1 ];
		my @rest = map { $without->($_, 'u') } @last;
		my ($least) = sort { $rest[$a] <=> $rest[$b] } 0 .. $#last;
		$spoilt = $last[$least];
		%left = map { $_ => $without->($spoilt, $_) } qw(t u);
		last if $left{u} < $u;
		start($node);
	}
	cmp_ok($left{u}, '<', $u, 'spoilt: a block that has pages of u');
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	seek $fh, JOURNAL + PAGE * $spoilt->{place} + PAGE / 2, 0;
	print $fh "\x5A" x (PAGE / 2);
	close $fh;
	start($node);
	is(persistence($node, 'torn_blocks, refused'), '1|', 'spoilt: it is seen');
	fc_is_warm($node, $tag{$_}, $left{$_}, "spoilt: what other blocks have of $_ is restored") foreach qw(t u);
	fc_is_read($node, 'postgres', 't', 'v1', $pages, 'spoilt: the rows are right',     'any');
	fc_is_read($node, 'postgres', 'u', $label, $pages, 'spoilt: the rows of u are right', 'any');
	is_quiet($node);
}

# More of it is missing than a crash explains: older records are not taken for the newest ones.
fc_warm($node, undef, 'postgres', 't', 'u');
fc_stamp($node);
$node->stop;
{
	start($node);
	write_blocks($node, 26);
	fc_kill_server($node);
	my @blocks = journal($node);
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	foreach my $block (grep { $_->{number} >= root($node)->{next} && $_->{number} < $blocks[-1]->{number} } @blocks)
	{
		seek $fh, JOURNAL + PAGE * $block->{place}, 0;
		print $fh "\0" x PAGE;
	}
	close $fh;
	start($node);
	is(persistence($node, 'refused'), 'blocks of its log are missing', 'too many blocks are missing');
	is(persistence($node, 'restored'), '', 'too many blocks are missing: nothing is restored');
	fc_is_read($node, 'postgres', 't', 'v1', $pages, 'too many blocks are missing: the rows are right', 'any');
	is_quiet($node);
}

$node->stop;

# ---- what is restored wrongly, and how long that is expected ----

my $edges = new_node('edges');
fc_warm($edges, undef, 'postgres', 't', 'u');
write_pages($edges, 500) for 1 .. 12;
is($edges->safe_psql('postgres', 'SELECT used > 0.9 * slots FROM pg_stat_flashcache'), 't', 'each slot has had a page');

# Which relation each slot has a page of, by these blocks.
sub by_slot
{
	my %of;
	foreach my $block (@_) { $of{ $_->[0] } = $_->[1] foreach @{ $block->{records} // [] } }
	return \%of;
}

# Slots that have another relation without these blocks.
sub stale_without
{
	my ($out, @blocks) = @_;
	my %out  = map { $_->{number} => 1 } @$out;
	my $all  = by_slot(@blocks);
	my $left = by_slot(grep { !$out{ $_->{number} } } @blocks);
	return grep { $all->{$_} && $left->{$_} && $all->{$_} != $left->{$_} } keys %$all;
}

# So many bytes of four blocks that are durable, from there on, become something else. The server is stopped for that, when
# slots have older records in others.
sub spoil
{
	my ($node, $from, $bytes) = @_;
	my @spoilt;
	for (1 .. 30)
	{
		write_pages($node, 100);
		fc_stamp($node);
		$node->stop;
		my @blocks = journal($node);
		@spoilt = grep { $_->{listed} } @blocks[ -8 .. -1 ];
		last if stale_without(\@spoilt, @blocks) > 50;
		@spoilt = ();
		start($node);
	}
	die 'no slot has an older record' if @spoilt != 4;
	open my $fh, '+<', fc_flash_file($node) or die $!;
	binmode $fh;
	foreach my $block (@spoilt)
	{
		seek $fh, JOURNAL + PAGE * $block->{place} + $from, 0;
		print $fh "\x5A" x $bytes;
	}
	close $fh or die $!;
	return;
}

# Blocks are spoilt: older records of their slots count. These are doubtful, also if another log takes them over, since the
# device was away, and after a clean restart.
spoil($edges, PAGE / 2, PAGE / 2);
start($edges);
is(persistence($edges, 'torn_blocks, refused'), '4|', 'blocks are spoilt: it is seen');
kill 'KILL', fc_device_process($edges) or die 'no device process';
$edges->safe_psql('postgres', 'CHECKPOINT');
fc_wait_state($edges, 'off');
$edges->safe_psql('postgres', 'SELECT pg_flashcache_enable()');
fc_wait_active($edges);
fc_stamp($edges);
$edges->stop;
start($edges);
is(persistence($edges, 'torn_blocks, refused'), '0|', 'another log has no such block');
read_all($edges);
cmp_ok(persistence($edges, 'restored_wrong'), '>', 0, 'some slots have other pages than their entries');
is_quiet($edges);
write_blocks($edges, 60);

# Blocks that were durable are lost, wholly or with their first half: the device has been set back, maybe.
foreach my $bytes (PAGE / 2, PAGE)
{
	spoil($edges, 0, $bytes);
	start($edges);
	is(persistence($edges, 'refused'), 'blocks of its log are lost that were durable', "$bytes bytes of blocks are lost: nothing is restored");
	fc_warm($edges, undef, 'postgres', 't');
	write_pages($edges, 500) for 1 .. 6;
}

# Slots and journal, but not the roots, are set back to a moment right before the hand came to the slots of `t`: what lies there agrees
# with the records, and is of pages that have changed since.
foreach my $what ('broken', 'kept', 'after another writer')
{
	my $broken = $what eq 'broken';
	my $label  = "back $what";
	my $tag   = fc_tag($edges, 'postgres', 't');
	my (@slots, $taken);
	fc_rewrite_rows($edges, 'postgres', 't', $label);
	fc_warm($edges, undef, 'postgres', 't');
	for (1 .. 100)
	{
		fc_stamp($edges);
		my @blocks = journal($edges);
		@slots = newest($tag->{rel}, @blocks);
		last if grep { ($_ - $blocks[-1]->{hand}) % SLOTS < 400 } @slots;
		write_pages($edges, 200);
	}
	my $copy = read_flash($edges, 0, JOURNAL + PAGE * BLOCKS);
	fc_rewrite_rows($edges, 'postgres', 't', "$label again");
	for (1 .. 20)
	{
		write_pages($edges, 60);
		fc_stamp($edges);
		my $of = by_slot(journal($edges));
		$taken = grep { $of->{$_} && $of->{$_} != $tag->{rel} } @slots;
		last if $taken > @slots / 2;
	}
	cmp_ok($taken, '>', @slots / 2, 'the slots have other pages by now');
	if ($what eq 'after another writer')
	{
		my $writer = $edges->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache');
		kill 'TERM', $writer or die $!;
		$edges->poll_query_until('postgres', "SELECT writer_pid <> $writer FROM pg_stat_flashcache WHERE writer_pid IS NOT NULL") or die 'no new writer';
		fc_writer_round($edges);
	}
	$edges->stop;
	open my $fh, '+<', fc_flash_file($edges) or die $!;
	binmode $fh;
	seek $fh, 65536, 0;
	print $fh substr $copy, 65536, PAGE * SLOTS;
	seek $fh, JOURNAL, 0;
	print $fh substr $copy, JOURNAL;
	close $fh or die $!;
	start($edges, $broken ? 'K18-lost' : '');
	fc_fetch($edges, 'postgres', 't', $pages);
	if ($broken)
	{
		my %now = fc_stat($edges, 'verify_failures');
		cmp_ok($now{verify_failures}, '>', 0, 'set back, K18 broken: stale pages');
	}
	else
	{
		is(persistence($edges, 'refused'), 'blocks of its log are lost that were durable', "set back: nothing is restored: $what");
		is_quiet($edges);
	}
	$edges->stop;
	unlink fc_flash_file($edges) or die $!;
	start($edges);
	write_pages($edges, 500) for 1 .. 8;
	fc_warm($edges, undef, 'postgres', 't');
	fc_stamp($edges);
	write_blocks($edges, 60);
}

# A block that cannot be read costs its records; a root, all of them: it may be the newer one.
foreach my $what ('block', 'root')
{
	fc_warm($edges, undef, 'postgres', 't');
	fc_stamp($edges);
	$edges->stop;
	my @blocks = journal($edges);
	my $at = $what eq 'root' ? root($edges)->{number} % 2 : 4 + $blocks[-9]->{place};
	{
		local $ENV{FC_ARM} = 'log_read error ' . ($at + 1);
		start($edges);
	}
	if ($what eq 'block')
	{
		is(persistence($edges, 'torn_blocks, refused'), '1|', 'a block cannot be read: the log is loaded');
		cmp_ok(persistence($edges, 'restored'), '>', SLOTS / 2, 'a block cannot be read: pages are restored');
	}
	else
	{
		like(persistence($edges, 'refused'), qr/^a root of its log on .* can't be read$/, 'a root cannot be read: nothing is restored');
	}
	is({ fc_stat($edges, 'switch_offs') }->{switch_offs}, 0, "a $what cannot be read: the device stays in use");
	# with nothing armed
	$edges->stop;
	start($edges);
	write_pages($edges, 500) for 1 .. 2;
	write_blocks($edges, 60);
}

# The slots in use of a relation whose newest record is in that block, and an older one, of another relation, elsewhere.
sub hidden_by
{
	my ($node, $rel, $block, @blocks) = @_;
	my $all  = by_slot(@blocks);
	my $left = by_slot(grep { $_ != $block } @blocks);
	return in_use($node, grep { $all->{$_} == $rel && $left->{$_} && $left->{$_} != $rel } keys %$all);
}

# A block that cannot be read at one start can be at the next. By then its pages have changed, and nothing on flash was to be
# removed for that; so its records, which are the newest of their slots, must not count again. And a scrub erases what these
# slots hold, which nothing says.
sub on_file
{
	my ($node, $label) = @_;
	my $content = slurp_file(fc_flash_file($node));
	return scalar grep { index($content, md5_hex("$label $_")) >= 0 } 1 .. $pages;
}

foreach my $what ('broken', 'kept', 'scrub', 'cut')
{
	my $broken = $what eq 'broken';
	my $rel = fc_tag($edges, 'postgres', 't')->{rel};
	my ($block, $most) = (undef, 0);
	for (1 .. 30)
	{
		fc_rewrite_rows($edges, 'postgres', 't', "before $what");
		write_pages($edges, 100);
		fc_warm($edges, undef, 'postgres', 't');
		fc_stamp($edges);
		$edges->stop;
		my @blocks = journal($edges);
		foreach my $one (@blocks)
		{
			# of those that a writer reads first, and not all of them
			next if $what eq 'cut' && ($one->{place} > $blocks[-1]->{place} || $blocks[-1]->{place} == BLOCKS - 1);
			my @hidden = hidden_by($edges, $rel, $one, @blocks);
			($block, $most) = ($one, scalar @hidden) if @hidden > $most;
		}
		last if $most >= $pages / 2;
		($block, $most) = (undef, 0);
		start($edges);
	}
	die 'no block hides older records' if !$block;
	if ($what eq 'cut')
	{
		# The writer ends while it loads the log, and the next one can read the block.
		$edges->append_conf('postgresql.conf', 'pg_flashcache.enabled = off');
		$edges->start;
		fc_wait_state($edges, 'disabled');
		my $control = fc_control($edges);
		fc_failpoint($control, 'log_read',  'error', 4 + $block->{place} + 1);
		fc_failpoint($control, 'warm_load', 'pause');
		$edges->append_conf('postgresql.conf', 'pg_flashcache.enabled = on');
		$edges->reload;
		fc_failpoint_wait($control, 'warm_load');
		kill 'TERM', $edges->safe_psql('postgres', 'SELECT writer_pid FROM pg_stat_flashcache') or die $!;
		fc_failpoint($control, $_, 'off') foreach 'log_read', 'warm_load';
		$control->quit;
		fc_wait_active($edges);
	}
	else
	{
		local $ENV{FC_ARM} = 'log_read error ' . (4 + $block->{place} + 1);
		start($edges, $broken ? 'K18-spoilt' : '');
	}
	is(persistence($edges, 'torn_blocks, refused'), $what eq 'cut' ? '0|' : '1|', "a block cannot be read once, $what: the log is loaded");
	if ($what eq 'scrub')
	{
		my $old = fc_tag($edges, 'postgres', 't');
		$edges->safe_psql('postgres', "TRUNCATE t; INSERT INTO t SELECT id, @{[ fc_value_sql('v1') ]} FROM generate_series(1, $pages) id");
		$edges->safe_psql('postgres', 'CHECKPOINT');
		is(fc_tag_flash($edges, $old), 0, 'a block cannot be read once: the table had other pages, and none of them is in use');
		cmp_ok(on_file($edges, "before $what"), '>', 0, 'and there is something of them on flash');
		$edges->safe_psql('postgres', 'SELECT * FROM pg_flashcache_scrub()');
		is(on_file($edges, "before $what"), 0, 'after a scrub there is nothing');
		next;
	}
	fc_rewrite_rows($edges, 'postgres', 't', 'after');
	fc_stamp($edges);
	crash($edges);
	cmp_ok(persistence($edges, 'restored'), '>', SLOTS / 2, 'a block can be read again: pages are restored');
	fc_fetch($edges, 'postgres', 't', $pages);
	if ($broken)
	{
		my %now = fc_stat($edges, 'verify_failures');
		cmp_ok($now{verify_failures}, '>', 0, 'a block can be read again, K18 broken: stale pages');
		$edges->stop;
		unlink fc_flash_file($edges) or die $!;
		start($edges);
		write_pages($edges, 500) for 1 .. 8;
	}
	else
	{
		is_quiet($edges);
	}
}

# The turn goes on over all ends that lose nothing, so that no record is overwritten before its stretch had its turn.
foreach my $end ('stop', 'crash')
{
	foreach my $run (1 .. 4)
	{
		write_pages($edges, 100);
		fc_stamp($edges);
		if ($end eq 'stop') { $edges->stop; start($edges) }
		else { crash($edges) }
		my @before = journal($edges);
		my ($last) = reverse grep { !$_->{listed} } @before;
		write_pages($edges, 10);
		fc_stamp($edges);
		my ($next) = grep { !$_->{listed} && $_->{number} > $before[-1]->{number} } journal($edges);
		is($next->{first} / 406, ($last->{first} / 406 + 1) % STRETCHES, "after a $end the next stretch has its turn");
	}
}
$edges->stop;
done_testing();

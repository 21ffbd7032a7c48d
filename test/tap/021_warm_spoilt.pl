# The journal of records on flash (src/warm.md) where it has been spoilt, lost, set back, or cannot be read: what is restored wrongly,
# and how long that is expected; that no page from before a change is read; and that the turn goes on over all ends of a server.

use strict;
use warnings;

use Digest::MD5 qw(md5_hex);
use FlashCache;
use FlashCacheJournal;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

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
	# Nothing is filled until the next start: a page that comes to flash again has a newer record, which hides what is tested here.
	$edges->append_conf('postgresql.conf', 'zero_damaged_pages = on');
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
		$edges->append_conf('postgresql.conf', 'zero_damaged_pages = off');
		$edges->restart;
		fc_wait_active($edges);
		write_pages($edges, 500);
		$edges->restart;
		fc_wait_active($edges);
		my $used = { fc_stat($edges, 'used') }->{used};
		cmp_ok($used, '>', 100, 'pages are restored');
		$edges->safe_psql('postgres', 'SELECT * FROM pg_flashcache_scrub()');
		cmp_ok({ fc_stat($edges, 'used') }->{used}, '>=', $used, 'with the scrub the doubt has ended: the next one takes none of them');
		next;
	}
	fc_rewrite_rows($edges, 'postgres', 't', 'after');
	fc_stamp($edges);
	$edges->append_conf('postgresql.conf', 'zero_damaged_pages = off');
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

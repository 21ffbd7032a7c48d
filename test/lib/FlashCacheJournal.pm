# What the tests of the log of persistence share: what it looks like on flash (warm_format.h), a server whose journal goes round
# within seconds, and pages to fill it with. None of the names has a prefix: these are scripts of one kind.
package FlashCacheJournal;

use strict;
use warnings;

use Exporter qw(import);
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw($pages PAGE SLOTS STRETCHES BLOCKS ROOTS JOURNAL LISTED
  read_flash root journal newest in_use new_node persistence write_pages read_all write_blocks start crash is_quiet is_right);

use constant PAGE      => 8192;
use constant SLOTS     => 4096;
use constant STRETCHES => 11;
use constant BLOCKS    => 2 * STRETCHES + 4 * 8;
use constant ROOTS     => 65536 + PAGE * SLOTS;
use constant JOURNAL   => ROOTS + PAGE * 4;
use constant LISTED    => 0xFFFFFFFF;

our $pages = 40;
my $conf = "pg_flashcache.persistence = on\nmax_logical_replication_workers = 0\nbgwriter_lru_maxpages = 0\n"
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

1;

# The journal of records on flash: K4, K11 and K18 of src/warm.md.
#
# What the log adds to the bytes written to flash, to the block; that entries survive of which only a listed record is
# there, or only one of a stretch whose turn it was; that a block which is torn takes what it has along and nothing else;
# and that both halves of the rule are needed.

use strict;
use warnings;

use FlashCache;
use FlashCacheJournal;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

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

done_testing();

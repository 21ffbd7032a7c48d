
# With page checksums and without: what comes back from flash passes for a page read from disk, hint bits are kept, and a
# sequence goes on where it was.
#
# The checksum in a buffer is that of the page's last read or write, mostly an old one, so a copy needs a new one.
# Without checksums setting a hint bit is not logged and leaves the LSN as it is: the page is another one with the
# same LSN.
#
# Fails without: PageSetChecksumInplace in cache_fill.c (with checksums: "invalid page in block"); the invalidation in
# fc_smgr_write (hint bits and numbers of the sequence are lost, verify_failures).

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages     = 40;
my $committed = 256;    # HEAP_XMIN_COMMITTED

foreach my $checksums (1, 0)
{
	my $with = $checksums ? 'with checksums' : 'without checksums';
	my $node = fc_new_node(
		$checksums ? 'with' : 'without',
		checksums => $checksums,
		size      => '32MB',
		conf      => 'max_logical_replication_workers = 0');
	is($node->safe_psql('postgres', 'SHOW data_checksums'), $checksums ? 'on' : 'off', "$with: set up");
	fc_everywhere($node);

	# ---- written by the checkpointer, then evicted clean ----

	fc_table($node, 'postgres', 't', 'v1', $pages);
	my $t = fc_tag($node, 'postgres', 't');
	$node->safe_psql('postgres', 'CHECKPOINT');
	my $on_disk = sub {
		my ($expression) = @_;
		return $node->safe_psql('postgres', "SELECT string_agg(($expression)::text, ' ' ORDER BY block) "
			  . "FROM generate_series(0, $pages - 1) block, "
			  . "pg_read_binary_file(pg_relation_filepath('t'), block * 8192, 8192) page");
	};
	my $from_buffers = sub {
		my ($expression) = @_;
		return $node->safe_psql('postgres', "SELECT string_agg(($expression)::text, ' ' ORDER BY block) "
			  . "FROM generate_series(0, $pages - 1) block, get_raw_page('t', block) page");
	};
	my $lsn      = '(page_header(page)).lsn';
	my $checksum = '(page_header(page)).checksum = CASE WHEN ' . $checksums . ' = 1 THEN page_checksum(page, block) ELSE 0 END';
	my $hinted   = "(SELECT count(*) FROM heap_page_items(page) WHERE t_infomask & $committed <> 0)";
	my $all      = sub { return join ' ', ($_[0]) x $pages };

	# Into flash without anybody looking at the rows.
	for (1 .. 50)
	{
		last if fc_tag_flash($node, $t) == $pages && fc_tag_buffers($node, $t) == 0;
		$node->safe_psql('postgres', "SELECT pg_prewarm('t'); CHECKPOINT");
		fc_push_out($node, $t);
	}
	fc_is_warm($node, $t, $pages, "$with: all pages are in flash");
	my %moved = fc_delta($node, sub { is($from_buffers->($checksum), $all->('true'), "$with: pages from flash have right checksums") },
		'verify_failures');
	is($moved{verify_failures}, 0, "$with: and are those of the disk");

	# ---- hint bits ----

	is($from_buffers->($hinted), $all->(0), "$with: pages from flash have no hint bits yet");
	my $before = $on_disk->($lsn);
	fc_push_out($node, $t);
	fc_is_warm($node, $t, $pages, "$with: all pages are in flash before hint bits are set");
	fc_fetch($node, 'postgres', 't', $pages);
	$node->safe_psql('postgres', 'CHECKPOINT');
	is($on_disk->($hinted), $all->(1), "$with: hint bits are on disk");
	my $after = $on_disk->($lsn);
	if ($checksums)
	{
		isnt($after, $before, "$with: setting them was logged");
	}
	else
	{
		is($after, $before, "$with: setting them left every LSN as it was");
	}
	fc_push_out($node, $t);
	is($from_buffers->($hinted), $all->(1), "$with: hint bits come back");
	fc_bring($node, 'postgres', 't');
	is($from_buffers->($hinted),   $all->(1),      "$with: from flash as well");
	is($from_buffers->($checksum), $all->('true'), "$with: with right checksums");
	fc_push_out($node, $t);
	fc_is_read($node, 'postgres', 't', 'v1', $pages, "$with: the rows are right");

	# ---- a sequence ----

	$node->safe_psql('postgres', 'CREATE SEQUENCE s');
	my $s    = fc_tag($node, 'postgres', 's');
	my $next = 1;
	for my $turn (1 .. 5)
	{
		my $numbers = $node->safe_psql('postgres', "SELECT string_agg(nextval('s')::text, ' ') FROM generate_series(1, 7)");
		is($numbers, join(' ', $next .. $next + 6), "$with: a sequence goes on where it was, turn $turn");
		$next += 7;
		fc_bring($node, 'postgres', 's');
		fc_is_warm($node, $s, 1, "$with: its page is in flash, turn $turn");
	}

	# The first number after a checkpoint is logged together with 32 more, which a crash then skips.
	$node->safe_psql('postgres', 'CHECKPOINT');
	is($node->safe_psql('postgres', "SELECT nextval('s')"), $next, "$with: a sequence goes on before a crash");
	$node->stop('immediate');
	$node->start;
	fc_wait_active($node);
	is($node->safe_psql('postgres', "SELECT nextval('s')"), $next + 32 + 1, "$with: and after it");

	fc_is_quiet($node);
	$node->stop;
	command_ok([ 'pg_checksums', '--check', '-D', $node->data_dir ], "$with: the data files pass pg_checksums") if $checksums;
}

done_testing();


# A database is dropped, and another one gets its OID.
#
# Copies of a template keep the template's file numbers, so with the OID every tag comes back. The copy is made behind the
# storage manager (strategy file_copy) or through shared buffers (wal_log); both strategies are tried after each other in
# both orders. Last, a creation fails half-way: what it had copied by then was in flash, and nothing names it any more.
#
# Fails without: fc_attach_events (pages left behind by DROP DATABASE; old rows and verify_failures after CREATE DATABASE);
# the wrapped redo there (the same on the standby); both invalidations of CREATE DATABASE ("after a failed creation").

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Utils;
use Test::More;

my $pages = 40;
my $oid   = 70000;
my ($primary, $standby) = fc_pair();
$primary->safe_psql('postgres', 'CREATE DATABASE origin');
fc_table($primary, 'origin', 't', 'v0', $pages);

my $version = 0;
my $tag;
my $table = 't';

# Makes d from the changed template; every page that it had the last time must be forgotten.
sub create
{
	my ($strategy) = @_;
	my $label = 'v' . ++$version;
	my $name  = "$strategy, $label";

	fc_rewrite_rows($primary, 'origin', $table, $label);
	$primary->safe_psql('postgres', "CREATE DATABASE d OID = $oid TEMPLATE origin STRATEGY $strategy");
	$tag //= fc_tag($primary, 'd', $table);
	is_deeply(fc_tag($primary, 'd', $table), $tag, "$name: the tag is the same each time");
	is($tag->{db}, $oid, "$name: and so is the OID");
	is($tag->{rel}, fc_tag($primary, 'origin', $table)->{rel}, "$name: the file number is that of the template");
	fc_replayed($primary, $standby);
	foreach my $node ($primary, $standby)
	{
		fc_is_read($node, 'd', $table, $label, $pages, "$name: the rows are right", 'any');
		fc_bring($node, 'd', $table);
		fc_is_read($node, 'd', $table, $label, $pages, "$name: from flash as well");
		fc_push_out($node, $tag);
		fc_is_warm($node, $tag, $pages, "$name: before the database is dropped its pages are in flash");
	}
	return;
}

sub drop
{
	$primary->safe_psql('postgres', 'DROP DATABASE d');
	fc_replayed($primary, $standby);
	foreach my $node ($primary, $standby)
	{
		fc_is_gone($node, $tag, 'afterwards none is');
		is( $node->safe_psql('postgres', "SELECT count(*) FROM pg_flashcache_pages WHERE reldatabase = $oid"),
			0, $node->name . ': nor any other of the database');
	}
	return;
}

# Each after itself and after the other.
foreach my $strategy ('file_copy', 'wal_log', 'wal_log', 'file_copy', 'file_copy')
{
	create($strategy);
	drop();
}

# ---- after a failed creation ----

# By wal_log the copy passes through shared buffers, and what is evicted from them goes to flash. A file that is missing
# ends it; tables in between, of four times the buffers together, push the pages of "late" out before. Files are copied in
# the order of pg_class: these come last there, and are few, for each file that is made forgets one counter's relations.
$primary->safe_psql('origin', 'VACUUM FULL pg_class');
$table = 'late';
fc_table($primary, 'origin', $table, 'v' . $version, $pages);
$primary->safe_psql('origin', "CREATE TABLE between_$_ AS SELECT id FROM generate_series(1, 226 * 64) id") foreach 1 .. 8;
$primary->safe_psql('origin', 'CHECKPOINT');
my $origin = fc_tag($primary, 'origin', $table);
$tag = { %$origin, db => $oid, name => "d.$table ($origin->{spc}/$oid/$origin->{rel})" };
my $file = $primary->data_dir . '/' . $primary->safe_psql('origin', "SELECT pg_relation_filepath('between_8')");
is($primary->safe_psql('origin',
		q{SELECT string_agg(relname, ' ' ORDER BY ctid) FROM pg_class
		  WHERE ctid >= (SELECT ctid FROM pg_class WHERE relname = 'late') AND relname !~ 'toast|late_'}),
	join(' ', 'late', map { "between_$_" } 1 .. 8), 'after a failed creation: the files are copied in the order that it needs');
rename $file, "$file.away" or die "could not rename $file: $!";
for (1 .. 50)
{
	my ($code, undef, $error) =
	  $primary->psql('postgres', "CREATE DATABASE d OID = $oid TEMPLATE origin STRATEGY wal_log");
	die "this was to fail" if $code == 0;
	die "failed, but otherwise: $error" if $error !~ /could not open file "base\/\d+\/\d+"/;
	last if fc_tag_flash($primary, $tag) > 0;
}
rename "$file.away", $file or die "could not rename $file back: $!";
my $left = fc_tag_flash($primary, $tag);
cmp_ok($left, '>', 0, 'after a failed creation: pages of the database that came to nothing are in flash');
create('file_copy');
drop();

fc_is_quiet($primary, $standby);
$standby->stop;
$primary->stop;
done_testing();

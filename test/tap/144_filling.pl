# A cache that fills: its free slots are found wherever they are, also behind a long stretch of pages that are wanted.

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/../lib";
use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# 1,024 slots.
my $node = fc_new_node('main', size => '8MB',
	conf => "pg_flashcache.admission = page\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nautovacuum = off\n");
fc_everywhere($node);
fc_table($node, 'postgres', $_->[0], $_->[0], $_->[1]) foreach [ 'wanted', 200 ], [ 'gone', 600 ], [ 'asked', 300 ];
$node->safe_psql('postgres', 'SELECT count(*) FROM wanted; SELECT count(*) FROM gone; SELECT count(*) FROM asked; CHECKPOINT');
fc_evict($node, $_) foreach qw(wanted gone asked);
foreach my $on ('off', 'on')
{
	$node->safe_psql('postgres', "ALTER SYSTEM SET pg_flashcache.enabled = $on");
	$node->reload;
	fc_wait_state($node, $on eq 'on' ? 'active' : 'disabled');
}

# Pages that were hit, behind them pages whose slots are free again, and the hand is behind these.
$node->safe_psql('postgres', "SELECT pg_flashcache_prewarm('$_')") foreach qw(wanted gone);
foreach (1 .. 3)
{
	fc_fetch($node, 'postgres', 'wanted', 200);
	fc_evict($node, 'wanted');
}
is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_flashcache_pages WHERE relfilenode = pg_relation_filenode('wanted') AND refcount >= 1}),
	200, 'pages that are wanted');
$node->safe_psql('postgres', 'DROP TABLE gone');
fc_writer_round($node);

# Behind the hand there are fewer free slots than pages; these fit into 80% of all with those that are there, some of the catalogs
# included.
my %refused = fc_delta($node, sub { is(fc_to_flash($node, 'asked'), 300, 'all pages come to flash') }, 'insert_skip_not_useful');
is($refused{insert_skip_not_useful}, 0, 'none was refused');
is(fc_in_flash($node, 'wanted'), 200, 'and none had to go');
fc_is_read($node, 'postgres', 'asked', 'asked', 300, 'they are read from there');
fc_is_clean($node);
done_testing();

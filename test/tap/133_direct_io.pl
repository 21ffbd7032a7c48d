# A server that reads and writes its data files with direct I/O: what the cache reads and writes there is aligned as well.

use strict;
use warnings;

use FlashCache;
use FlashCacheMore;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = fc_new_node('main', size => '8MB', start => 0);
plan skip_all => 'debug_io_direct is of 16 and later' if $node->pg_version < 16;
$node->append_conf('postgresql.conf', 'debug_io_direct = data');
plan skip_all => 'no direct I/O here' if !$node->start(fail_ok => 1);
fc_create_sql($node);
fc_wait_active($node);

fc_table($node, 'postgres', 't', 'v1', 40);
fc_to_flash($node, 't');
fc_is_read($node, 'postgres', 't', 'v1', 40, 'pages come from flash, and are compared with the disk');
$node->restart;
fc_wait_active($node);
is($node->safe_psql('postgres', q{SELECT blocks_read, loaded FROM pg_flashcache_prewarm('t')}), '40|40', 'prewarm reads the file');
fc_is_read($node, 'postgres', 't', 'v1', 40, 'what it loaded is right');
fc_is_clean($node);

done_testing();

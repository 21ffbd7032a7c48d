# pg_flashcache.admission = auto is as the candidate that the miniatures prefer, also when that becomes another one.

use strict;
use warnings;

use FlashCache;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# Pages of one set are wanted eight times in a row, and never again: a page is worth its slot at once, and those that were
# wanted often before stand in its way. Where the best of the candidates takes every page, `page` is far behind.
use constant { SET => 384, SETS => 4, TIMES => 8, STEP => 64 };

my $node = fc_new_node('main', size => '4MB',
	conf => "pg_flashcache.admission = auto\nbgwriter_lru_maxpages = 0\ncheckpoint_timeout = 1h\nmax_logical_replication_workers = 0\n");
my $pages = SET * SETS;
$node->safe_psql('postgres', qq{
	CREATE TABLE t (v text);
	ALTER TABLE t ALTER v SET STORAGE PLAIN;
	INSERT INTO t SELECT repeat('x', 5000) FROM generate_series(1, $pages);
	VACUUM t;
	CHECKPOINT;
	-- so few pages between two rounds of the writer that it can follow
	CREATE FUNCTION wanted(first int, pages int) RETURNS void AS \$\$
	BEGIN
		FOR blk IN first .. first + pages - 1 LOOP
			PERFORM v FROM t WHERE ctid = format('(%s,1)', blk)::tid;
		END LOOP;
	END \$\$ LANGUAGE plpgsql;
});

sub shown
{
	return $node->safe_psql('postgres',
		'SELECT string_agg(candidate, $$ $$) FILTER (WHERE in_force), string_agg(candidate, $$ $$) FILTER (WHERE chosen) FROM pg_flashcache_admission');
}

is(shown(), 'page|page', 'by page at first');
for (my $n = 0; $n < 3 * SETS && shown() ne 'all|all'; $n++)
{
	my $set = $n % SETS;
	my $once = join ' ', map { "SELECT wanted(@{[$set * SET + $_ * STEP]}, @{[STEP]}); SELECT pg_flashcache_enable();" } 0 .. SET / STEP - 1;
	$node->safe_psql('postgres', $once x TIMES);
}
is(shown(), 'all|all', 'auto is as what has become the best')
  or diag($node->safe_psql('postgres', 'TABLE pg_flashcache_admission'));
fc_is_clean($node);
$node->stop;
done_testing();


# The SQL of pgflash's metrics (pgflash/monitoring/metrics.py) on every major version: for a role that is just a monitor
# each query has as many columns as it should, and no metric is NULL or negative. The stage monitoring tests what is made of
# it, on one version. Views that the extension does not have are left out.

use strict;
use warnings;

use File::Basename;
use FlashCache;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = dirname(__FILE__) . '/../..';
my $list = <<'END';
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import importlib.util
found = importlib.util.spec_from_file_location("metrics", sys.argv[1] + "/pgflash/monitoring/metrics.py")
metrics = importlib.util.module_from_spec(found)
sys.modules["metrics"] = metrics
found.loader.exec_module(metrics)
for group in metrics.GROUPS:
    for version in metrics.VERSIONS:
        query = " ".join(group.query(version, "public").split()) if group.of(version) else ""
        print(group.name, version, len(group.labels), len(group.of(version)), query, sep="\t")
END

my ($stdout, $stderr);
ok(IPC::Run::run([ 'python3', '-c', $list, $root ], '>', \$stdout, '2>', \$stderr), 'the table of metrics is read');
is($stderr, '', 'without a word');

my $node = fc_new_node('main', conf => 'compute_query_id = on');
$node->safe_psql('postgres', 'CREATE ROLE monitor LOGIN IN ROLE pg_monitor; SELECT count(*) FROM pg_class, pg_attribute');
$node->safe_psql('postgres', q{SELECT pg_flashcache_report_drive(path, 'sdz', 'model', true, 30, 100, 10, 0, 41, 1000000) FROM pg_stat_flashcache_device});

my %ran;
foreach my $line (split /\n/, $stdout)
{
	my ($name, $version, $labels, $metrics, $query) = split /\t/, $line;
	next if !$query;
	my ($view) = $query =~ /public\.(\w+)/;
	next if $view && $node->safe_psql('postgres', "SELECT to_regclass('public.$view') IS NULL") eq 't';
	my $rows = $node->safe_psql('postgres', "SET ROLE monitor; $query");
	my @wrong;
	foreach my $row (split /\n/, $rows)
	{
		my @values = split /\|/, $row, -1;
		push @wrong, $row if @values != $labels + $metrics || grep { !/^[0-9.e+-]+$/ || $_ < 0 } @values[ $labels .. $#values ];
	}
	is("@wrong", '', "$name, objects of $version");
	$ran{$name} = $rows ne '' ? 'rows' : 'none';
}
ok($ran{$_}, "$_ was there") foreach qw(pg_flashcache pg_flashcache_state pg_flashcache_verdict pg_flashcache_settings
  pg_flashcache_persistence);
# One has reported; how long it lasts is known after an hour.
is($ran{"pg_flashcache_drive$_->[0]"}, $_->[1], "drives: $_->[0]") foreach [ '', 'rows' ], [ '_health', 'rows' ], [ '_wear', 'rows' ], [ '_temperature', 'rows' ], [ '_life', 'none' ];

done_testing();

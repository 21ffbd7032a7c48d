# What the tests of policies share.
package FlashCachePolicies;

use strict;
use warnings;

use Exporter qw(import);
use Test::More;

our @EXPORT = qw(fc_in_force_sql fc_looked_sql fc_is_soon);

# fc_in_force_sql(relation): the policy in force of a relation.
sub fc_in_force_sql
{
	my ($relation) = @_;
	return "SELECT max(in_force) FROM pg_flashcache_policies WHERE relid = '$relation'::regclass";
}

# fc_looked_sql(database): when it was looked at last, in seconds.
sub fc_looked_sql
{
	my ($database) = @_;
	return "SELECT coalesce(extract(epoch FROM last_look), 0) FROM pg_stat_flashcache_policy_databases WHERE datname = '$database'";
}

# fc_is_soon(node, name, query, expected, database): one test: so it is, long before the minute is over after which a database
# with rules is looked at anyway.
sub fc_is_soon
{
	my ($node, $name, $query, $expected, $database) = @_;
	my $found = '';
	my $end   = time + 25;
	while (time < $end)
	{
		$found = $node->safe_psql($database // 'postgres', $query);
		return pass($name) if $found eq $expected;
		select(undef, undef, undef, 0.1);
	}
	is($found, $expected, $name);
	diag($node->safe_psql('postgres', 'TABLE pg_stat_flashcache_policy_databases'));
	return;
}

1;

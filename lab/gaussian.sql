-- pgbench's select-only transaction with skewed keys: two thirds of the accesses go to a fifth of the table.
\set aid random_gaussian(1, 100000 * :scale, 5)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;

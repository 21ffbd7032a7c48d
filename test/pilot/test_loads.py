"""What the drivers print, as they printed it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgflash.lab import pgbench
from pgflash.lab.pgbench import percentile, percentiles
from pgflash.pilot.loads import sysbench, tpcc
from pgflash.pilot.target import Place

PGBENCH = """pgbench (15.20)
transaction type: load.sql
number of clients: 16
number of transactions actually processed: 40560
number of failed transactions: 3 (0.007%)
latency average = 23.667 ms
initial connection time = 12.345 ms
tps = 676.012345 (without initial connection time)
"""

SYSBENCH = """[ 1s ] thds: 2 tps: 106.76 qps: 1723.07 (r/w/o: 1507.58/0.00/215.50 lat (ms,99%): 44.98 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 2 tps: 120.11 qps: 1920.00 (r/w/o: 1680.00/0.00/240.00) lat (ms,99%): 31.37 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       7.430 |*****                                    5
      10.270 |**************************************** 90
      31.370 |**                                       4
      44.980 |*                                        1

SQL statistics:
    transactions:                        100    (49.95 per sec.)
    queries:                             1600   (799.20 per sec.)
    ignored errors:                      2      (1.00 per sec.)

Latency (ms):
         min:                                    7.21
         avg:                                   10.91
         max:                                   44.02
         99th percentile:                       31.37
"""

GO_TPC = """[Current] NEW_ORDER - Takes(s): 1.0, Count: 50, TPM: 3000.0, Sum(ms): 900.0, Avg(ms): 18.0, 50th(ms): 16.8, 90th(ms): 30.0, 95th(ms): 37.7, 99th(ms): 50.3, 99.9th(ms): 60.0, Max(ms): 60.8
[Current] NEW_ORDER_ERR - Takes(s): 1.0, Count: 1, TPM: 60.0, Sum(ms): 4.0, Avg(ms): 4.0, 50th(ms): 4.0, 90th(ms): 4.0, 95th(ms): 4.0, 99th(ms): 4.0, 99.9th(ms): 4.0, Max(ms): 4.0
Finished
[Summary] NEW_ORDER - Takes(s): 2.0, Count: 100, TPM: 3000.0, Sum(ms): 1800.0, Avg(ms): 18.0, 50th(ms): 16.8, 90th(ms): 30.0, 95th(ms): 37.7, 99th(ms): 50.3, 99.9th(ms): 60.0, Max(ms): 60.8
[Summary] NEW_ORDER_ERR - Takes(s): 2.0, Count: 1, TPM: 30.0, Sum(ms): 4.0, Avg(ms): 4.0, 50th(ms): 4.0, 90th(ms): 4.0, 95th(ms): 4.0, 99th(ms): 4.0, 99.9th(ms): 4.0, Max(ms): 4.0
[Summary] PAYMENT - Takes(s): 2.0, Count: 100, TPM: 3000.0, Sum(ms): 200.0, Avg(ms): 2.0, 50th(ms): 2.0, 90th(ms): 3.0, 95th(ms): 4.0, 99th(ms): 5.0, 99.9th(ms): 6.0, Max(ms): 6.0
tpmC: 3000.0, tpmTotal: 6000.0, efficiency: 100.0%
"""


def test_pgbench() -> None:
    result = pgbench.parse_output(PGBENCH)
    assert result is not None
    assert (result.transactions, result.tps, result.average_ms, result.errors) == (40560, 676.012345, 23.667, 3)


def test_pgbench_that_failed() -> None:
    assert pgbench.parse_output("pgbench: error: connection to server failed") is None


def test_pgbench_log(tmp_path: Path) -> None:
    first, second = tmp_path / "latency.1", tmp_path / "latency.1.1"
    first.write_text("0 1 1000 0 100 5\n0 2 3000 0 101 7\n0 3 failed 0 101 7\n")
    second.write_text("1 1 2000 0 100 9\n")
    over_all, over_time = pgbench.latencies([first, second])
    assert over_all == {"p50": 2.0, "p95": 3.0, "p99": 3.0}
    assert over_time == [[0, 1.0, 2.0, 2.0], [1, 3.0, 3.0, 3.0]]


def test_sysbench() -> None:
    result = sysbench.parse_output(SYSBENCH)
    assert result is not None
    assert (result.transactions, result.tps, result.average_ms, result.errors) == (100, 49.95, 10.91, 2)
    assert result.percentiles == {"p50": 10.27, "p95": 10.27, "p99": 31.37}
    assert result.over_time == [[1.0, None, None, 44.98], [2.0, None, None, 31.37]]


def test_go_tpc() -> None:
    result = tpcc.parse_output(GO_TPC)
    assert result is not None
    assert (result.transactions, result.tps, result.average_ms, result.errors) == (200, 100.0, 10.0, 1)
    assert result.percentiles == {"p50": 16.8, "p95": 37.7, "p99": 50.3}
    assert result.over_time == [[0.0, 16.8, 37.7, 50.3]]
    assert result.more == {"new_orders_per_minute": 3000.0}


@pytest.mark.parametrize("parse", [sysbench.parse_output, tpcc.parse_output])
def test_no_report_is_no_result(parse: object) -> None:
    assert callable(parse)
    assert parse("FATAL: unable to connect") is None


@pytest.mark.parametrize(("share", "expected"), [(50, 2.0), (75, 3.0), (95, 4.0), (99, 4.0), (1, 1.0)])
def test_percentiles_are_of_the_nearest_rank(share: float, expected: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == expected


def test_percentiles_of_nothing() -> None:
    assert percentiles([]) == {}


def test_how_drivers_reach_a_server() -> None:
    place = Place("db", 5433, "me", "it's", password="secret", more=(("sslmode", "verify-full"), ("sslrootcert", "/ca.pem")))
    assert place.conninfo() == r"host='db' port='5433' user='me' dbname='it\'s' sslmode='verify-full' sslrootcert='/ca.pem'"
    assert place.env() == {"PGPASSWORD": "secret", "PGSSLMODE": "verify-full", "PGSSLROOTCERT": "/ca.pem"}
    assert Place("/socket", 5432, "me", "x").env() == {}

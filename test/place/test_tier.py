"""Tiers by age, on native partitions and on those of pg_partman."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgflash.errors import ArgumentError
from pgflash.place.tier import Partition, Tier, place, read_rules

from .servers import Server, needs_partman, needs_server, tool

ACCEPT = ("--accept-loss-of-redundancy", "--window=now")


def rules(path: Path, server: Server, database: str, table: str, tiers: str) -> str:
    file = path / "tiers.toml"
    file.write_text(f"dsn = \"{server.dsn(database)}\"\n[[table]]\nname = '{table}'\n{tiers}")
    return str(file)


THREE = """
[[table.tier]]
tablespace = "flash"
newest = 2
[[table.tier]]
tablespace = "pg_default"
younger = "100 days"
[[table.tier]]
tablespace = "slow"
"""


def test_which_tier() -> None:
    """Newest first: one in the future, then by days since they ended."""
    found = [Partition(number, str(number), -number, number > 0, ago) for number, ago in enumerate((-2.0, -1.0, 1.0, 5.0, 20.0))]
    tiers = [Tier(tablespace="a", newest=2), Tier(tablespace="b", younger="10 s"), Tier(tablespace="c")]
    assert [space for _, space in place(found, tiers, {"10 s": 10.0})] == ["a", "a", "a", "b", "c"]
    assert [partition.oid for partition, _ in place(found, tiers[:1], {})] == [0, 1, 2]


@pytest.mark.parametrize(
    "text, said",
    [
        ("x = 1", "dsn"),
        ("dsn = ''\n[[table]]\nname = 't'\ntier = []", "tier"),
        (
            "dsn = ''\n[[table]]\nname = 't'\n[[table.tier]]\ntablespace = 'a'\n[[table.tier]]\ntablespace = 'b'",
            "tier a: either newest or younger",
        ),
        ("dsn = ''\n[[table]]\nname = 't'\n[[table.tier]]\ntablespace = 'a'\nnewest = -1", "newest"),
        ("dsn = ", "Invalid value"),
    ],
)
def test_wrong_rules(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    with pytest.raises(ArgumentError) as error:
        read_rules(file)
    assert said in error.value.message


@needs_server
def test_native(server: Server, database: str, tmp_path: Path) -> None:
    """Twelve months, an odd name, one partition in the future, one partitioned again, and a default."""
    server.sql(
        'CREATE TABLE "e v" (at timestamptz NOT NULL, i int) PARTITION BY RANGE (at)',
        'CREATE INDEX ON "e v" (i)',
        """DO $$ DECLARE m date := date_trunc('month', now()) - interval '11 months'; BEGIN FOR n IN 0..12 LOOP
          EXECUTE format('CREATE TABLE %I PARTITION OF "e v" FOR VALUES FROM (%L) TO (%L)' ||
            CASE WHEN n = 3 THEN ' PARTITION BY LIST (i)' ELSE '' END,
            'p ' || lpad(n::text, 2, '0'), m + n * interval '1 month', m + (n + 1) * interval '1 month');
        END LOOP; END $$""",
        'CREATE TABLE sub PARTITION OF "p 03" DEFAULT',
        'CREATE TABLE rest PARTITION OF "e v" DEFAULT',
        "INSERT INTO \"e v\" SELECT now() - n * interval '1 day', n FROM generate_series(0, 300) n",
        database=database,
    )
    file = rules(tmp_path, server, database, 'public."e v"', THREE)
    dry = tool("tier", "apply", file, "--dry-run", "--json")
    assert dry.returncode == 0, dry.stderr
    planned = {move["object"]: move["to"] for move in json.loads(dry.stdout)["moves"]}
    assert planned["table public.p 11"] == planned["index public.p 11_i_idx"] == "flash" and not server.moves(database)
    done = tool("tier", "apply", file, *ACCEPT)
    assert done.returncode == 0, done.stdout + done.stderr
    where = {
        name: server.where(f'"{name}"', database) for name in ("p 12", "p 11", "p 10", "p 09", "p 08", "p 01", "p 01_i_idx", "sub", "rest")
    }
    assert where == {
        "p 12": "flash", "p 11": "flash", "p 10": "flash", "p 09": "pg_default", "p 08": "pg_default", "p 01": "slow", "p 01_i_idx": "slow",
        "sub": "slow", "rest": "pg_default",
    }  # fmt: skip
    assert server.sql('SELECT count(*) FROM "e v"', database=database) == 301
    logged = server.moves(database)
    assert {(move["state"], move["origin"]) for move in logged} == {("done", "tier")}
    again = tool("tier", "apply", file, *ACCEPT)
    assert again.returncode == 0 and "0 done, 0 for later, 0 failed" in again.stdout
    assert server.moves(database) == logged
    # back is for what place has moved
    assert tool("place", "back", server.dsn(database), "--window=now").returncode == 0
    assert server.where('"p 11"', database) == "flash"


@needs_server
def test_by_number(server: Server, database: str, tmp_path: Path) -> None:
    """Those ahead of the newest one that holds rows are in the future."""
    server.sql("CREATE TABLE n (i bigint NOT NULL) PARTITION BY RANGE (i)", database=database)
    for number in range(6):
        server.sql(f"CREATE TABLE n{number} PARTITION OF n FOR VALUES FROM ({number * 100}) TO ({number * 100 + 100})", database=database)
    server.sql("INSERT INTO n SELECT generate_series(0, 350)", database=database)
    file = rules(tmp_path, server, database, "public.n", '[[table.tier]]\ntablespace = "flash"\nnewest = 2\n')
    assert tool("tier", "apply", file, *ACCEPT).returncode == 0
    assert [server.where(f"n{number}", database) for number in range(6)] == ["pg_default"] * 2 + ["flash"] * 4
    file = rules(tmp_path, server, database, "public.n", '[[table.tier]]\ntablespace = "flash"\nyounger = "1 day"\n')
    refused = tool("tier", "apply", file, *ACCEPT)
    assert refused.returncode == 2 and "a tier by age does not apply" in refused.stderr
    refused = tool("tier", "apply", rules(tmp_path, server, database, "public.n0", THREE), *ACCEPT)
    assert refused.returncode == 2 and "not partitioned by RANGE" in refused.stderr


@needs_server
@needs_partman
def test_pg_partman(server: Server, database: str, tmp_path: Path) -> None:
    server.sql(
        "CREATE SCHEMA partman",
        "CREATE EXTENSION pg_partman SCHEMA partman",
        "CREATE TABLE m (at timestamptz NOT NULL)  PARTITION BY RANGE (at)",
        "SELECT partman.create_parent('public.m', 'at', 'native', 'daily', p_premake := 2,"
        " p_start_partition := to_char(now() - interval '6 days', 'YYYY-MM-DD'))",
        "INSERT INTO m SELECT now() - n * interval '1 day' FROM generate_series(0, 6) n",
        database=database,
    )
    tiers = '[[table.tier]]\ntablespace = "flash"\nyounger = "60 hours"\n[[table.tier]]\ntablespace = "slow"\n'
    file = rules(tmp_path, server, database, "public.m", tiers)
    done = tool("tier", "apply", file, *ACCEPT)
    assert done.returncode == 0, done.stdout + done.stderr
    where = "SELECT coalesce(s.spcname, '-'), count(*) FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid LEFT JOIN pg_tablespace s ON s.oid = reltablespace WHERE inhparent = 'm'::regclass GROUP BY 1 ORDER BY 1"
    with server.connect(database) as connection:
        counts = dict(connection.execute(where).fetchall())
    # Two to come, today, and the two or three that ended less than 60 hours ago; the default stays.
    assert counts["-"] == 1 and counts["flash"] + counts["slow"] == 9 and counts["flash"] in (5, 6)
    assert server.sql("SELECT count(*) FROM m", database=database) == 7

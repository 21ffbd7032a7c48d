"""Names that users choose: no markup, no commands of a terminal, and true in JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from pgflash import safe, shown

from .conftest import Database

MARKUP = "x[/foo]y[bold]"
HIDDEN = 'a\x1b[31mRED\x1b]0;owned\x07\u202etxt.\x9bm\n"|q'
SEEN = "a\\x1b[31mRED\\x1b]0;owned\\x07\\u202etxt.\\x9bm\\x0a"


def clean(text: str) -> bool:
    return not any(unicodedata.category(char) in ("Cc", "Cf") and char != "\n" for char in text)


def test_what_is_shown() -> None:
    assert shown.visible(HIDDEN) == SEEN + '"|q' and shown.visible("Größe 表") == "Größe 表"
    assert shown.visible("a\nb\tc", lines=True) == "a\nb\\x09c" and shown.visible("\U000e0041") == "\\U000e0041"
    assert shown.cell(MARKUP).plain == MARKUP and not shown.cell(MARKUP).spans
    text = shown.json_text({"name": HIDDEN + "\x7f\U000e0041ü"}, indent=1)
    assert clean(text) and json.loads(text) == {"name": HIDDEN + "\x7f\U000e0041ü"} and "ü" in text


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pgflash", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "COLUMNS": "1000"}, check=False, timeout=300)
    assert done.returncode == 0 and clean(done.stdout) and clean(done.stderr), (arguments, done.stdout, done.stderr)
    return done


def test_names_of_users(database: Database, tmp_path: Path) -> None:
    """Of a database, tables and tablespaces, and a note: in every command that shows them."""
    name = "d[/foo]\x1b[2J"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    dsn = make_conninfo(database.dsn, dbname=name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION pg_flashcache")
        run("snapshot", "--note", "see [/this]\x1b[1m", "--dsn", dsn)
        for table in (MARKUP, HIDDEN):
            made = sql.SQL("CREATE TABLE {} AS SELECT i, repeat('x', 1000) FROM generate_series(1, 2000) i").format(sql.Identifier(table))
            connection.execute(made)
            connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table)))
        connection.execute("SELECT pg_stat_force_next_flush()")
        assert connection.execute("SELECT 1").fetchone()
        run("snapshot", "--dsn", dsn)
        (oid,) = connection.execute("SELECT oid::bigint FROM pg_class WHERE relname = %s", (HIDDEN,)).fetchone() or ("",)
    listed = run("report", "--list", "--dsn", dsn).stdout
    assert "see [/this]\\x1b[1m" in listed
    page = tmp_path / "page.html"
    markdown = SEEN.removesuffix("\\x0a").translate({ord(char): f"\\{char}" for char in "\\[]"})
    assert markdown in run("report", "1", "2", "--dsn", dsn).stdout
    run("report", "1", "2", "--html", str(page), "--dsn", dsn)
    body = page.read_text("utf-8").rpartition("</script>\n</head>")[2].rpartition("<script>")[0]
    assert SEEN.removesuffix("\\x0a") in body and clean(body) and MARKUP in body
    rows = json.loads(run("report", "1", "2", "--json", "--dsn", dsn).stdout)["changes"]
    assert {MARKUP, HIDDEN} <= {row["labels"]["name"] for row in rows}

    top = run("top", dsn, "--once", "--interval", "0.1").stdout
    assert "d[/foo]\\x1b[2J" in top

    html = tmp_path / "advice.html"
    advice = run("place", "advise", dsn, "--flash", "100MB", "--disk-ms", "5", "--html", str(html)).stdout
    assert f"table public.{MARKUP}" in advice and f"table public.{SEEN}" in advice  # among what to move
    body = html.read_text("utf-8")
    assert f"table public.{SEEN}" in body and clean(body.rpartition("</script>")[2])
    objects = [f"--object={sql.Identifier('public', table).as_string(None)}" for table in (MARKUP, HIDDEN)]
    script = run("place", "script", dsn, "--tablespace", "fast", *objects, "--temporary").stdout
    assert f"-- table public.{SEEN}" in script
    # The script is what it says it is: psql, with the names that were meant.
    subprocess.run(
        [f"{database.server.bin}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn],
        input=script,
        text=True,
        check=True,
        capture_output=True,
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        moved = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND reltablespace <> 0 AND relnamespace = 2200"
        ).fetchone()
        assert moved == (2,)
        assert connection.execute("SHOW temp_tablespaces").fetchone() == ("fast",)
        policies = connection.execute(
            "SELECT count(*) FROM pg_flashcache_policy_rules WHERE policy = 'none' AND objname IN (%s, %s)", (MARKUP, HIDDEN)
        )
        assert policies.fetchone() == (2,)
    applied = ("--window", "now", "--accept-loss-of-redundancy", "--assume-room", "10GB")
    back = run("place", "apply", dsn, "--tablespace", "pg_default", *objects, *applied)
    assert f"table public.{SEEN}" in back.stderr and MARKUP in back.stderr
    status = run("place", "status", dsn).stdout
    assert "[/foo]" in status and "\\x1b" in status  # in a narrow column
    moves = json.loads(run("place", "status", dsn, "--json").stdout)["moves"]
    assert {move["oid"] for move in moves} >= {oid} and {move["name"] for move in moves} == {MARKUP, HIDDEN}


def test_bytes_that_are_no_text(database: Database) -> None:
    """A name in a shared catalog is of the encoding of whoever made it: a database of UTF-8 shows it as it is, and so does pgflash."""
    empty = "TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE raw {empty} ENCODING 'SQL_ASCII'".encode())
        connection.execute(f"CREATE DATABASE utf {empty} ENCODING 'UTF8'".encode())
    with psycopg.connect(make_conninfo(database.dsn, dbname="raw", client_encoding="SQL_ASCII"), autocommit=True) as connection:
        connection.execute(b'CREATE DATABASE "caf\xe9" ' + f"{empty} ENCODING 'SQL_ASCII'".encode())
    where = "FROM pg_database WHERE oid > (SELECT oid FROM pg_database WHERE datname = 'utf')"
    shown_as = "caf\ufffd"
    with safe.connect(make_conninfo(database.dsn, dbname="utf")) as connection:
        for kind in ("name", "text", "varchar", "bpchar"):
            assert connection.execute(f"SELECT datname::{kind} {where}".encode()).fetchall() == [(shown_as,)], kind
        for made in ("json", "jsonb"):
            query = f"SELECT {made}_build_object('name', datname) {where}"
            assert connection.execute(query.encode()).fetchall() == [({"name": shown_as},)], made
        assert connection.execute("SELECT 'Größe 表'::text").fetchone() == ("Größe 表",), "what is text stays what it is"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE utf")
    with psycopg.connect(make_conninfo(database.dsn, dbname="raw", client_encoding="SQL_ASCII"), autocommit=True) as connection:
        connection.execute(b'DROP DATABASE "caf\xe9"')
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("DROP DATABASE raw")


def test_a_database_without_an_encoding(database: Database) -> None:
    """Names there are bytes: those that are no UTF-8 take nothing away, those that are stay what they are, and so do statements."""
    name = f"{database.name}_bytes"
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING 'SQL_ASCII'".encode())
    dsn = make_conninfo(database.dsn, dbname=name)
    try:
        with psycopg.connect(make_conninfo(dsn, client_encoding="SQL_ASCII"), autocommit=True) as connection:
            connection.execute('CREATE SCHEMA "Größe"'.encode())
            connection.execute('CREATE EXTENSION pg_flashcache SCHEMA "Größe"'.encode())
            made = b" AS SELECT i, repeat('x', 1000) FROM generate_series(1, 2000) i"
            run("snapshot", "--dsn", dsn)
            for table in (b'"tab\xff\xfe"', '"表"'.encode()):
                connection.execute(b"CREATE TABLE " + table + made)
                connection.execute(b"SELECT count(*) FROM " + table + b" WHERE repeat <> '\xe9\xff'")
            connection.execute("SELECT pg_stat_force_next_flush()")
            connection.execute("SELECT 1")
            run("snapshot", "--note", "wie groß?", "--dsn", dsn)
            rows = json.loads(run("report", "1", "2", "--json", "--dsn", dsn).stdout)["changes"]
            assert {"tab\ufffd\ufffd", "表"} <= {row["labels"]["name"] for row in rows}
            assert "wie groß?" in run("report", "1", "2", "--dsn", dsn).stdout
            run("diff", "1..2", "1..2", "--dsn", dsn)
            (top,) = json.loads(run("top", dsn, "--json", "--interval", "0.1").stdout)["servers"]
            assert top["ok"] and top["relations"] is not None and top["statements"] is not None
            sampled = [sys.executable, "-m", "pgflash", "monitoring", "sample", dsn]  # of all databases: those of other tests, too
            assert 'relname="tab\ufffd\ufffd"' in subprocess.run(sampled, capture_output=True, text=True, check=True, timeout=300).stdout
            assert {"tab\ufffd\ufffd", "表"} <= {
                row["name"]
                for row in json.loads(run("place", "advise", dsn, "--flash", "100MB", "--disk-ms", "5", "--json").stdout)["objects"]
            }
            with safe.connect(dsn) as ours:
                assert ours.execute("SELECT 'Größe 表', %s::text, relkind, oid::regclass FROM pg_class WHERE relname = '表'", ("ü",)).fetchone() == (
                    "Größe 表", "ü", "r", 'public."表"',
                )  # fmt: skip
    finally:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name}".encode())

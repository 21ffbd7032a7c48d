"""A database whose owner is not trusted: nothing of hers runs as whoever looks at it with pgflash. In whose schema the extension may be."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from pgflash import safe
from pgflash.errors import MachineError
from pgflash.pilot import db
from pgflash.place import mover, objects
from pgflash.place.journal import MARK, Journal

from .conftest import Database

ROLES = (
    'DO $$ BEGIN CREATE ROLE alice LOGIN; CREATE ROLE "Alice" LOGIN; CREATE ROLE safe_monitor LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$',
    "GRANT pg_monitor TO safe_monitor",
)
RAN = "LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_catalog.nextval('evil.ran'); RETURN"
# A sequence, since it goes on even if what calls it fails. The first statements of the tools call some of these.
TRAPS = (
    "CREATE SCHEMA evil", "GRANT USAGE ON SCHEMA evil TO PUBLIC", "CREATE SEQUENCE evil.ran", "GRANT ALL ON SEQUENCE evil.ran TO PUBLIC",
    f"CREATE FUNCTION evil.f() RETURNS text {RAN} ''; END $$",
    f"CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text {RAN} pg_catalog.set_config($1, $2, $3); END $$",
    f"CREATE FUNCTION evil.current_setting(text) RETURNS text {RAN} pg_catalog.current_setting($1); END $$",
    f"CREATE FUNCTION evil.quote_ident(text) RETURNS text {RAN} pg_catalog.quote_ident($1); END $$",
    f"CREATE FUNCTION evil.same(name, name) RETURNS boolean {RAN} pg_catalog.nameeq($1, $2); END $$",
    "CREATE OPERATOR evil.= (LEFTARG = name, RIGHTARG = name, FUNCTION = evil.same)",
)  # fmt: skip
# With what they end: well, or what is found is advice; and where they refuse.
COMMANDS = {
    "snapshot": (("snapshot", "--dsn"), {0}, 3), "report": (("report", "--list", "--dsn"), {0}, 3), "top": (("top", "--json"), {0}, 7),
    "monitoring": (("monitoring", "sample", "--json"), {0}, 3), "doctor": (("doctor", "--json", "--seconds", "0"), {0, 10, 11}, 0),
    "advise": (("place", "advise", "--json", "--flash", "1GB", "--for", "0"), {0}, 3), "status": (("place", "status", "--json"), {0}, 0),
}  # fmt: skip


def tool(command: str, dsn: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "pgflash", *COMMANDS[command][0], dsn]
    return subprocess.run(line, capture_output=True, text=True, env=dict(os.environ), check=False, timeout=300)


def as_alice(database: Database, *statements: str) -> None:
    with psycopg.connect(database.as_user("alice"), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def ran(database: Database) -> bool:
    return database.sql("SELECT is_called FROM evil.ran") == "t"


@pytest.fixture
def hers(empty_database: Database) -> Database:
    """alice's database, with her traps; no extension yet."""
    empty_database.sql(*ROLES, f"ALTER DATABASE {empty_database.name} OWNER TO alice")
    as_alice(empty_database, *TRAPS)
    return empty_database


@pytest.mark.parametrize("command", COMMANDS)
def test_her_search_path(hers: Database, command: str) -> None:
    hers.sql("CREATE SCHEMA flashcache", "CREATE EXTENSION pg_flashcache SCHEMA flashcache")
    as_alice(hers, f"ALTER DATABASE {hers.name} SET search_path = evil, pg_catalog")
    with psycopg.connect(hers.dsn) as careless:
        careless.execute("SELECT set_config('search_path', 'pg_catalog', false)")
    assert ran(hers), "the trap works"
    hers.sql("ALTER SEQUENCE evil.ran RESTART")
    done = tool(command, hers.dsn)
    assert not ran(hers)
    assert done.returncode in COMMANDS[command][1], done.stdout + done.stderr


def test_her_search_path_and_pilot(hers: Database) -> None:
    as_alice(hers, f"ALTER DATABASE {hers.name} SET search_path = evil, pg_catalog")
    with db.connect(hers.dsn) as connection:
        assert "database.xact_commit" in db.counters(connection)
    assert not ran(hers)


def test_a_schema_whose_name_is_sql(hers: Database) -> None:
    hers.sql("CREATE EXTENSION pg_flashcache")
    as_alice(hers, """ALTER SCHEMA public RENAME TO "x'||evil.f()||'" """)
    done = tool("report", hers.as_user("safe_monitor"))
    assert not ran(hers)
    assert done.returncode == 0, done.stderr


def test_her_view_of_that_name(hers: Database) -> None:
    as_alice(hers, "CREATE VIEW evil.pg_stat_flashcache AS SELECT evil.f() AS hits")
    with db.connect(hers.dsn) as connection:
        assert db.cache_view(connection) == "" and db.cache_row(connection) == {}
        hers.sql("CREATE SCHEMA flashcache", "CREATE EXTENSION pg_flashcache SCHEMA flashcache")
        assert db.cache_view(connection) == "flashcache.pg_stat_flashcache"
        assert db.cache_row(connection)["state"]
    assert not ran(hers)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_superuser_and_her_schema(hers: Database, command: str) -> None:
    """In public, which is hers; it may be looked at by a role that is only a monitor, and by all once it is the superuser's."""
    _, well, refuses = COMMANDS[command]
    hers.sql("CREATE EXTENSION pg_flashcache")
    for dsn in (hers.dsn, f"{hers.dsn} options='-c role=safe_monitor'"):
        done = tool(command, dsn)
        if refuses:
            assert done.returncode == refuses, done.stdout + done.stderr
            said = (done.stdout + done.stderr).replace('\\"', '"')
            assert 'is in schema "public", which belongs to "alice", who is no superuser' in said and "pg_monitor" in said
    if command == "doctor":
        checks = {check["id"]: check for check in json.loads(tool(command, hers.dsn).stdout)["checks"]}
        assert 'belongs to "alice"' in json.dumps(checks["server.cache_state"]).replace('\\"', '"')
    if command not in ("snapshot", "doctor"):
        assert tool(command, hers.as_user("safe_monitor")).returncode == 0
    hers.sql("ALTER SCHEMA public OWNER TO postgres")
    done = tool(command, hers.dsn)
    assert done.returncode in well, done.stdout + done.stderr
    assert not ran(hers)


def test_whose_schema(hers: Database) -> None:
    """The rule itself, from both sides."""
    hers.sql("CREATE EXTENSION pg_flashcache")
    with safe.connect(hers.dsn) as trusting, safe.connect(hers.as_user("safe_monitor")) as monitor:
        found = safe.extension(trusting)
        assert found and found.schema == "public" and 'belongs to "alice"' in found.danger
        with pytest.raises(MachineError):
            safe.require(found)
        with db.connect(hers.dsn) as connection, pytest.raises(MachineError, match="belongs to"):
            db.cache_view(connection)
        found = safe.extension(monitor)
        assert found and not found.danger
        safe.require(found)
        hers.sql("GRANT postgres TO safe_monitor")
        try:
            found = safe.extension(monitor)
            assert found and found.danger, "a member can become what it is a member of"
        finally:
            hers.sql("REVOKE postgres FROM safe_monitor")
        hers.sql(f"ALTER DATABASE {hers.name} OWNER TO postgres")
        found = safe.extension(trusting)
        assert found and not found.danger, "pg_database_owner is who owns the database"
        hers.sql("ALTER SCHEMA public OWNER TO alice")
        found = safe.extension(trusting)
        assert found and found.danger
        assert safe.extension(trusting, "pg_profile") is None


def test_policies_are_left_out(hers: Database) -> None:
    hers.sql("CREATE EXTENSION pg_flashcache")
    with mover.connect(hers.dsn) as connection:
        function, danger = mover.policy_function(connection)
        assert function == "" and 'belongs to "alice"' in danger
        hers.sql("ALTER SCHEMA public OWNER TO postgres")
        assert mover.policy_function(connection) == ("public.pg_flashcache_set_policy", "")


def test_a_journal_of_a_role_whose_name_differs_in_case(hers: Database) -> None:
    as_alice(
        hers, "CREATE SCHEMA pgflash", f"COMMENT ON SCHEMA pgflash IS '{MARK}'", 'GRANT USAGE ON SCHEMA pgflash TO "Alice"',
        "CREATE TABLE pgflash.place_journal ()",
    )  # fmt: skip
    with mover.connect(hers.as_user("Alice")) as connection, pytest.raises(MachineError, match="belongs to alice, not to Alice"):
        Journal(connection).exists()
    with mover.connect(hers.as_user("alice")) as connection:
        assert Journal(connection).exists()


def settings(connection: safe.Connection) -> tuple[str, str]:
    found = connection.execute("SELECT current_setting('search_path'), current_setting('work_mem')").fetchone()
    assert found
    return found[0].replace(" ", ""), found[1]


def test_options_of_the_user_stay(hers: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    as_alice(hers, f"ALTER DATABASE {hers.name} SET search_path = evil, pg_catalog")
    with safe.connect(f"{hers.dsn} options='-c work_mem=5MB'") as connection:
        assert settings(connection) == ("pg_catalog,pg_temp", "5MB")
        connection.execute("RESET search_path")
        assert settings(connection) == ("pg_catalog,pg_temp", "5MB")
        assert safe.users_options(connection.info.get_parameters()["options"]) == "-c work_mem=5MB"
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=6MB")
    with safe.connect(hers.dsn) as connection:
        assert settings(connection) == ("pg_catalog,pg_temp", "6MB")
    assert not ran(hers)


@contextmanager
def pooler(path: str) -> Iterator[int]:
    """The port of one that takes no options, as PgBouncer; all else goes to the server."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.close()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            start = client.recv(65536)
            if b"\0options\0" in start:
                body = b"SFATAL\0C08P01\0Munsupported startup parameter in options: search_path\0\0"
                client.sendall(b"E" + struct.pack("!i", len(body) + 4) + body)
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(path)
            server.sendall(start)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=pump, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def test_a_pooler_that_takes_no_options(hers: Database) -> None:
    as_alice(hers, f"ALTER DATABASE {hers.name} SET search_path = evil, pg_catalog")
    with pooler(f"{hers.server.folder}/socket/.s.PGSQL.5432") as port:
        dsn = f"host=127.0.0.1 port={port} user=postgres dbname={hers.name} sslmode=disable gssencmode=disable"
        with safe.connect(dsn) as connection:
            assert settings(connection)[0] == "pg_catalog,pg_temp"
    assert not ran(hers)


def test_moved_objects_keep_the_rules_of_their_user(database: Database) -> None:
    """A moved object gets the policy none, and loses it when it is put back; a rule that was there before stays."""
    database.sql("CREATE TABLE moved (id int)", "CREATE TABLE chosen (id int)", "SELECT pg_flashcache_set_policy('chosen', 'keep')")
    with mover.Mover(database.dsn, mover.Options(), lambda *_: None) as moving:
        found = {name: objects.by_oid(moving.control, int(database.sql(f"SELECT '{name}'::regclass::oid"))) for name in ("moved", "chosen")}
        rules = "SELECT string_agg(objname || ' ' || policy, ', ' ORDER BY objname) FROM pg_flashcache_policy_rules"
        for back, expected in ((False, "chosen keep, moved none"), (True, "chosen keep")):
            for item in found.values():
                assert item is not None and moving.set_policy(item, back) == ""
            assert database.sql(rules) == expected
    database.sql("DROP TABLE moved, chosen", "SELECT pg_flashcache_set_policy('relation', 'public.chosen', 'default')")

"""One server for all tests; each test has a database of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .servers import Server, made


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    yield from made()


@pytest.fixture
def database(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    server.sql(f"CREATE DATABASE {name}")
    yield name
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")

"""What checks of several areas ask for, and how they say that it is not there."""

from __future__ import annotations

from pgflash.doctor.check import CannotLook, DoesNotApply
from pgflash.doctor.facts import Facts
from pgflash.doctor.facts.places import Place
from pgflash.doctor.facts.server import Server

PG = "https://www.postgresql.org/docs/current"
KERNEL = "https://docs.kernel.org"
GB = 1 << 30
MB = 1 << 20


def server_of(facts: Facts) -> Server:
    if facts.server is None:
        raise CannotLook(facts.no_server)
    return facts.server


def cache_of(facts: Facts) -> Server:
    """The server, if it has the library preloaded."""
    server = server_of(facts)
    if not server.has_cache:
        raise DoesNotApply("pg_flashcache is not in shared_preload_libraries")
    return server


def local_server(facts: Facts) -> Server:
    server = server_of(facts)
    if not server.local:
        raise CannotLook(server.not_local)
    return server


def places(facts: Facts, *roles: str) -> list[Place]:
    """Those of these roles that can be seen; raises if there is none."""
    wanted = facts.role(*roles)
    found = [place for place in wanted if not place.unseen]
    if found:
        return found
    if wanted:
        raise CannotLook(wanted[0].unseen)
    if roles == ("flash",):
        raise CannotLook("no path of the cache is known: name it with --flash PATH")
    if facts.server is None:
        raise CannotLook("no path is known: name the server, or the paths with --data PATH and --flash PATH")
    raise CannotLook("the server shows its paths to superusers and members of pg_read_all_settings only")


def with_device(facts: Facts, *roles: str) -> list[Place]:
    found = [place for place in places(facts, *roles) if place.block]
    if not found:
        first = places(facts, *roles)[0]
        kind = first.mount.kind if first.mount else "unknown"
        raise CannotLook(f"no block device is seen behind {first.path} (file system: {kind})")
    return found


def quoted(path: str) -> str:
    return path if all(letter.isalnum() or letter in "/._-+:@" for letter in path) else "'" + path.replace("'", "'\\''") + "'"

"""States of a cache that are trouble, and those that somebody wants: `disabled` is either, and only the reason tells."""

from __future__ import annotations

from typing import Any

SIZE_0 = "pg_flashcache.size is 0"
NOT_ENABLED = "pg_flashcache.enabled is off"
WANTED = (SIZE_0, NOT_ENABLED)  # reasons of a cache that is disabled since its settings say so
START_S = 60.0  # a start takes less, as a rule


def not_started(stat: dict[str, Any], seconds: float | None) -> bool:
    """Of a row of pg_stat_flashcache, and how long it has been in its state: it is wanted, and could not start, or still does not."""
    if stat["state"] == "starting":
        return seconds is not None and seconds > START_S
    return stat["state"] == "disabled" and stat["reason"] not in WANTED

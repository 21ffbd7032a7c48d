"""What the agent answers to which path: a status for load balancers, and a text."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pgflash.agent.keeper import Keeper
from pgflash.cluster.look import Seen
from pgflash.shown import json_text

JSON = "application/json"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
OK, WRONG, NOTHING, NOT_NOW = 200, 400, 404, 503


@dataclass(frozen=True)
class Answer:
    status: int
    text: str
    kind: str = JSON


def _json(status: int, **values: object) -> Answer:
    return Answer(status, json_text(values) + "\n")


@dataclass(frozen=True)
class Answers:
    """All paths. `oldest_s`: how old an answer may be that several share."""

    looks: Keeper[Seen]
    metrics: Keeper[str]
    share: float
    oldest_s: float
    longest_s: float

    def to(self, target: str) -> Answer:
        try:
            parts = urllib.parse.urlsplit(target)
            path = parts.path.rstrip("/") or "/"
            given = urllib.parse.parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), max_num_fields=4)
        except ValueError:
            return _json(WRONG, error="the request cannot be read")
        if path == "/liveness":
            return _json(OK, state="the agent runs")
        if path == "/metrics":
            return self._metrics()
        checks: dict[str, tuple[set[str], Callable[[Seen, float | None], bool]]] = {
            "/": (set(), lambda _seen, _share: True),
            "/health": (set(), lambda _seen, _share: True),
            "/status": (set(), lambda _seen, _share: True),
            "/primary": (set(), lambda seen, _share: not seen.standby),
            "/replica": ({"share"}, lambda seen, share: seen.standby and (share is None or seen.is_warm(share))),
            "/active": (set(), lambda seen, _share: seen.state == "active"),
            "/warm": ({"share"}, lambda seen, share: is_warm(seen, self.share if share is None else share)),
        }
        if path not in checks:
            return _json(NOTHING, error="there is no such path", paths=[*sorted(checks), "/liveness", "/metrics"])
        names, check = checks[path]
        if set(given) - names:
            return _json(WRONG, error=f"{path} takes {' and '.join(sorted(names)) or 'no query'}")
        share = None
        if "share" in given:
            share = _share(given["share"][-1])
            if share is None:
                return _json(WRONG, error="share is a number from 0 to 1, such as 0.9")
        seen, problem = self.looks.get(self.oldest_s, self.longest_s)
        if seen is None:
            return _json(NOT_NOW, error=problem)
        if path == "/status":
            return _json(OK, **_without_reasons(seen.as_json()))
        return _json(OK if check(seen, share) else NOT_NOW, **summary(seen))

    def _metrics(self) -> Answer:
        text, problem = self.metrics.get(self.oldest_s, self.longest_s)
        return _json(NOT_NOW, error=problem) if text is None else Answer(OK, text, METRICS)


def is_warm(seen: Seen, share: float) -> bool:
    """A standby by the map of the server that it follows. A primary follows nobody: it is what others are measured by."""
    return seen.is_warm(share) if seen.standby else seen.state == "active"


def _without_reasons(values: dict[str, Any]) -> dict[str, Any]:
    """They name files and servers, and whoever asks has no login: the word of the state is what is left of them."""
    return {
        name: {**value, "reason": value["state"] if value["reason"] else None} if isinstance(value, dict) and "reason" in value else value
        for name, value in values.items()
    } | {"devices_off": [{"device": row["device"]} for row in values["devices_off"]]}


def summary(seen: Seen) -> dict[str, object]:
    return {
        "role": seen.role, "cluster": seen.cluster, "cache": seen.state, "reason": seen.state if seen.reason else None, "hit_ratio": seen.hit_ratio,
        "fill": seen.fill, "warmth": seen.share, "follows": seen.warmth["state"] if seen.warmth else None,
        "replay_delay_s": seen.replay_delay_s, "timeline": seen.timeline, "version": seen.version,
    }  # fmt: skip


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 1 else None

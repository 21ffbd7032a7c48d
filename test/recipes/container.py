#!/usr/bin/env python3
"""Reads container/Containerfile and compose.yaml: what can be known of them without a container engine.

usage: container.py ROOT      last line `N passed, N failed`
"""

import re
import sys
from pathlib import Path

import yaml

KNOWN = {"FROM", "ENV", "RUN", "COPY", "WORKDIR", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction and what follows it, without comments, on one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in re.sub(r"\\\n\s*", " ", lines).splitlines() if line)]


def checks(root: Path) -> dict[str, bool]:
    steps = instructions((root / "container/Containerfile").read_text("utf-8"))
    compose = yaml.safe_load((root / "container/compose.yaml").read_text("utf-8"))
    service = compose["services"]["db"]
    entry = (root / "container/entrypoint.sh").read_text("utf-8")
    set_by = {name for word, rest in steps if word == "ENV" for name in re.findall(r"(\w+)=", rest)}
    copied = [rest.split()[:-1] for word, rest in steps if word == "COPY" and "--from" not in rest]
    volumes = set(re.findall(r'"([^"]+)"', next(rest for word, rest in steps if word == "VOLUME")))
    user_at = max(i for i, (word, _) in enumerate(steps) if word == "USER")
    return {
        "only instructions that are known": {word for word, _ in steps} <= KNOWN,
        "bases are of Debian": {rest.split()[0] for word, rest in steps if word == "FROM"} == {"debian:12"},
        "the major is the same everywhere": set(re.findall(r"postgresql(?:-server-dev)?[-/](\d+)", str(steps))) == {"15"},
        "what is copied is there": all((root / name).exists() for names in copied for name in names),
        "the server does not run as root": steps[user_at][1] == "postgres" and not any(word == "RUN" for word, _ in steps[user_at:]),
        "package lists are removed": all("rm -rf /var/lib/apt/lists/*" in rest for word, rest in steps[-12:] if word == "RUN" and "apt-get" in rest),
        "data and cache lie on volumes": {item.split(":")[1] for item in service["volumes"]} == volumes,
        "named volumes are declared": {item.split(":")[0] for item in service["volumes"]} == set(compose["volumes"]),
        "the recipe that compose builds is there": (root / "container" / service["build"]["context"] / service["build"]["dockerfile"]).is_file(),
        "the entry point knows what compose sets": all(name in entry for name in service["environment"]),
        "what the entry point takes for granted is set": {"PGDATA", "FLASHCACHE_FILE", "FLASHCACHE_SIZE"} <= set_by,
        "secrets are declared": set(service["secrets"]) == set(compose["secrets"]),
    }


def main() -> int:
    results = checks(Path(sys.argv[1]))
    for what, good in results.items():
        if not good:
            print(f"not ok: {what}")
    failed = sum(not good for good in results.values())
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

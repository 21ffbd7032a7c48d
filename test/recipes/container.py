#!/usr/bin/env python3
"""Reads what container/ has: what can be known of it without a container engine, and without Kubernetes.

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


def size(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Gi|GB)", text).groups()
    return int(number)


def manifests(root: Path) -> dict[str, bool]:
    folder = root / "container"
    documents = [item for name in ("kubernetes.yaml", "cloudnative-pg.yaml") for item in yaml.safe_load_all((folder / name).read_text("utf-8"))]
    kinds = {item["kind"]: item for item in documents}
    pod = kinds["StatefulSet"]["spec"]["template"]["spec"]
    postgres = pod["containers"][0]
    environment = {item["name"]: item.get("value", "") for item in postgres["env"]}
    mounts = {item["name"]: item["mountPath"] for item in postgres["volumeMounts"]}
    flash = next(item for item in pod["volumes"] if item["name"] == "flash")["ephemeral"]["volumeClaimTemplate"]["spec"]
    claims = {item["metadata"]["name"] for item in kinds["StatefulSet"]["spec"]["volumeClaimTemplates"]}
    image = (folder / "Containerfile").read_text("utf-8")
    user = pod["securityContext"]
    cluster = kinds["Cluster"]["spec"]
    database = kinds["Database"]["spec"]
    parameters = cluster["postgresql"]["parameters"]
    scratch = cluster["ephemeralVolumeSource"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]
    extension = cluster["postgresql"]["extensions"][0]
    made_for = re.search(r"pg_flashcache:(\S+)-(\d+)-(\w+) ", (folder / "Containerfile.extension").read_text("utf-8"))
    version = re.search(r"default_version = '(.+)'", (root / "pg_flashcache.control").read_text("utf-8"))[1]
    return {
        "the cache lies on the volume for it": environment["FLASHCACHE_FILE"].startswith(f"{mounts['flash']}/"),
        "which is larger than the cache": size(flash["resources"]["requests"]["storage"]) > size(environment["FLASHCACHE_SIZE"]),
        "each mount has a volume": set(mounts) == claims | {"flash"},
        "the image's user runs it, and owns the volumes": f"--gid {user['fsGroup']} postgres" in image
        and f"--uid {user['runAsUser']} --gid {user['runAsGroup']}" in image,
        "the entry point knows the environment": all(name in (folder / "entrypoint.sh").read_text("utf-8") for name in environment),
        "both name the profile": user["seccompProfile"] == cluster["seccompProfile"] == {"type": "Localhost", "localhostProfile": "profiles/pg_flashcache.json"},
        "the operator's scratch volume has the cache, and room": parameters["pg_flashcache.file"].startswith("/controller/")
        and size(scratch) > size(parameters["pg_flashcache.size"]),
        "the library is preloaded, from the extension's image": cluster["postgresql"]["shared_preload_libraries"] == ["pg_flashcache"]
        and extension["name"] == "pg_flashcache",
        "the images are for the same server": made_for is not None
        and extension["image"]["reference"].endswith(f"pg_flashcache:{made_for[1]}-{made_for[2]}-{made_for[3]}")
        and cluster["imageName"].endswith(f":{made_for[2]}-minimal-{made_for[3]}")
        and version == made_for[1],
        "the database is of that cluster": kinds["Database"]["spec"]["cluster"]["name"] == kinds["Cluster"]["metadata"]["name"],
        "and the extension in a schema of the superuser": {"name": database["extensions"][0].get("schema"), "owner": "postgres"} in database.get("schemas", []),
    }


def main() -> int:
    results = checks(Path(sys.argv[1])) | manifests(Path(sys.argv[1]))
    for what, good in results.items():
        if not good:
            print(f"not ok: {what}")
    failed = sum(not good for good in results.values())
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

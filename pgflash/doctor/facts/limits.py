"""Limits of a process (/proc/PID/limits), and those of its control group and of the groups above it, version 1 or 2."""

from __future__ import annotations

from dataclasses import dataclass, field

from pgflash.doctor.facts.machine import Machine

NO_LIMIT = 1 << 62

Limits = dict[str, int | None]
"""Soft limits by the names of /proc/PID/limits; None is unlimited."""


@dataclass
class Control:
    memory: int | None = None
    """The lowest memory limit; None is none."""
    memory_at: str = ""
    high: int | None = None
    """memory.high: from there on the group is slowed down. Version 2."""
    io: dict[str, str] = field(default_factory=dict)
    """Limits by major:minor."""


def limits_of(machine: Machine, pid: int) -> Limits | None:
    found: Limits = {}
    for line in machine.text(f"/proc/{pid}/limits").splitlines()[1:]:
        name, soft = line[:26].strip(), line[26:].split()
        if soft:
            found[name] = int(soft[0]) if soft[0].isdigit() else None
    return found or None


def _chain(point: str, root: str, path: str) -> list[str]:
    """Folders of a group and of those above it, as far as they are mounted here."""
    inner = path[len(root) :] if root != "/" and path.startswith(root) else path
    words = [word for word in inner.split("/") if word and word != ".."]
    return [point + "".join(f"/{word}" for word in words[:count]) for count in range(len(words), -1, -1)]


def control_of(machine: Machine, pid: int | None) -> Control:
    found = Control()
    mounts = machine.mounts()
    for line in machine.text(f"/proc/{pid or 'self'}/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        for mount in mounts:
            unified = mount.kind == "cgroup2" and number == "0"
            names = set(controllers.split(",")) - {""}
            if not unified and not (mount.kind == "cgroup" and names & mount.options & {"memory", "blkio"}):
                continue
            for folder in _chain(mount.point, mount.root, path):
                _add(machine, found, folder, unified)
    return found


def _add(machine: Machine, found: Control, folder: str, unified: bool) -> None:
    limit = machine.number(f"{folder}/{'memory.max' if unified else 'memory.limit_in_bytes'}")
    if limit is not None and limit < NO_LIMIT and (found.memory is None or limit < found.memory):
        found.memory, found.memory_at = limit, folder
    if unified:
        high = machine.number(f"{folder}/memory.high")
        if high is not None and (found.high is None or high < found.high):
            found.high = high
        for line in machine.text(f"{folder}/io.max").splitlines():
            number, _, rest = line.partition(" ")
            words = " ".join(word for word in rest.split() if not word.endswith("=max"))
            if words:
                found.io.setdefault(number, words)
        return
    for name in ("read_bps", "write_bps", "read_iops", "write_iops"):
        for line in machine.text(f"{folder}/blkio.throttle.{name}_device").splitlines():
            number, _, value = line.partition(" ")
            if value:
                found.io[number] = " ".join([*found.io.get(number, "").split(), f"{name}={value}"])

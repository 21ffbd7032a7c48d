"""Area memory: how the kernel manages it."""

from __future__ import annotations

from collections.abc import Iterable

from pgflash.doctor.check import CannotLook, DoesNotApply, Finding, Severity, Write, check
from pgflash.doctor.checks.common import GB, KERNEL, MB, PG, local_server
from pgflash.doctor.facts import Facts
from pgflash.units import show_bytes

VM = f"{KERNEL}/admin-guide/sysctl/vm.html"
SYSCTL = "/proc/sys/vm"
KEEP = "lasting: {name} = {value} in /etc/sysctl.d/60-postgresql.conf"


def _here(facts: Facts) -> None:
    if facts.server and not facts.server.local:
        raise CannotLook(facts.server.not_local)


def _number(facts: Facts, name: str) -> int:
    _here(facts)
    found = facts.machine.number(f"{SYSCTL}/{name}")
    if found is None:
        raise CannotLook(f"vm.{name} cannot be read")
    return found


def _sysctl(name: str, seen: int, value: int, undo: str = "") -> Finding:
    change = Write(f"{SYSCTL}/{name}", str(value), f"{SYSCTL}/{undo}" if undo else "")
    return Finding(f"vm.{undo or name}", f"is {seen}", change=change, keep=KEEP.format(name=f"vm.{name}", value=value))


@check(
    "memory", "huge_pages", "Large shared memory is in huge pages",
    question="With 8 GB of shared memory or more: are there huge pages for it?",
    why="Each process has page tables for all of the shared memory that it touches; with 2 MB pages they are 512 times smaller.",
    source=f"{PG}/kernel-resources.html#LINUX-HUGE-PAGES",
)  # fmt: skip
def huge_pages(facts: Facts) -> Iterable[Finding]:
    server = local_server(facts)
    size = server.bytes("shared_memory_size") or server.bytes("shared_buffers")
    wanted = int(server.number("shared_memory_size_in_huge_pages"))
    if size < 8 * GB or wanted <= 0:
        raise DoesNotApply(f"shared memory is {show_bytes(size)}")
    total = facts.machine.memory.get("HugePages_Total", 0)
    keep = KEEP.format(name="vm.nr_hugepages", value=wanted)
    if server.get("huge_pages") == "off":
        yield Finding(
            "huge_pages", "is off", (f"sysctl -w vm.nr_hugepages={wanted}", keep, "ALTER SYSTEM SET huge_pages = 'try'; then restart")
        )
    elif server.get("huge_pages_status") == "off" or total < wanted:
        what = f"are {total}, the server needs {wanted}"
        yield Finding("vm.nr_hugepages", what, (f"sysctl -w vm.nr_hugepages={wanted}", keep, "restart the server"))


@check(
    "memory", "transparent_huge_pages", "Transparent huge pages are not forced on processes",
    question="Are transparent huge pages used for all memory (always)?",
    why="The kernel then joins and splits pages in the background and at page faults, which PostgreSQL's documentation discourages.",
    source=f"{PG}/runtime-config-resource.html#GUC-HUGE-PAGES; {KERNEL}/admin-guide/mm/transhuge.html",
)  # fmt: skip
def transparent(facts: Facts) -> Iterable[Finding]:
    _here(facts)
    path = "/sys/kernel/mm/transparent_hugepage/enabled"
    text = facts.machine.text(path)
    if not text:
        raise DoesNotApply("the kernel has none")
    if "[always]" in text:
        keep = "lasting: transparent_hugepage=madvise on the kernel's command line"
        yield Finding(path, "is always", change=Write(path, "madvise"), keep=keep)


@check(
    "memory", "swappiness", "The kernel does not swap the server out for page cache",
    question="With swap: is vm.swappiness at most 10?",
    why="At the default of 60 the kernel swaps out idle parts of shared_buffers in favour of page cache, and reads them back from disk.",
    source=f"{VM}#swappiness",
)  # fmt: skip
def swappiness(facts: Facts) -> Iterable[Finding]:
    seen = _number(facts, "swappiness")
    if not facts.machine.memory.get("SwapTotal"):
        raise DoesNotApply("no swap")
    if seen > 10:
        yield _sysctl("swappiness", seen, 10)


@check(
    "memory", "dirty_background", "The kernel begins to write early",
    question="May at most 1 GB of dirty pages pile up before the kernel writes in the background?",
    why="What has piled up is written at once at the end of a checkpoint, and reads wait behind it.",
    source=f"{VM}#dirty-background-bytes; {PG}/runtime-config-wal.html#GUC-CHECKPOINT-FLUSH-AFTER",
)  # fmt: skip
def dirty_background(facts: Facts) -> Iterable[Finding]:
    limit, ratio = _number(facts, "dirty_background_bytes"), _number(facts, "dirty_background_ratio")
    if limit > GB:
        yield _sysctl("dirty_background_bytes", limit, 256 * MB)
    elif limit == 0 and facts.machine.memory.get("MemTotal", 0) * ratio // 100 > GB:
        yield _sysctl("dirty_background_bytes", ratio, 256 * MB, undo="dirty_background_ratio")


@check(
    "memory", "dirty_limit", "Writers are not stopped for gigabytes",
    question="Does the kernel stop writers at 4 GB of dirty pages at most?",
    why="Beyond the limit every process that writes waits until the device has caught up, which takes minutes with a slow one.",
    source=f"{VM}#dirty-bytes",
)  # fmt: skip
def dirty_limit(facts: Facts) -> Iterable[Finding]:
    limit, ratio = _number(facts, "dirty_bytes"), _number(facts, "dirty_ratio")
    if limit > 4 * GB:
        yield _sysctl("dirty_bytes", limit, GB)
    elif limit == 0 and facts.machine.memory.get("MemTotal", 0) * ratio // 100 > 4 * GB:
        yield _sysctl("dirty_bytes", ratio, GB, undo="dirty_ratio")


@check(
    "memory", "overcommit", "The kernel does not promise more memory than there is",
    question="On a machine for the server alone: is vm.overcommit_memory 2?",
    why="Otherwise the OOM killer ends processes of the server when memory is short, instead of one allocation failing.",
    source=f"{PG}/kernel-resources.html#LINUX-MEMORY-OVERCOMMIT",
)  # fmt: skip
def overcommit(facts: Facts) -> Iterable[Finding]:
    local_server(facts)
    if facts.machine.in_container:
        raise DoesNotApply("in a container: the host's is what counts")
    seen = _number(facts, "overcommit_memory")
    if seen != 2:
        first = "set vm.overcommit_ratio so that CommitLimit in /proc/meminfo leaves room for shared memory and all sessions"
        yield Finding("vm.overcommit_memory", f"is {seen}", (first, "sysctl -w vm.overcommit_memory=2"))


@check(
    "memory", "zone_reclaim", "The page cache may use the memory of all nodes", severity=Severity.PROBLEM,
    question="Is vm.zone_reclaim_mode 0?",
    why="Otherwise a node that is full drops page cache instead of using the memory of another.",
    source=f"{VM}#zone-reclaim-mode",
)  # fmt: skip
def zone_reclaim(facts: Facts) -> Iterable[Finding]:
    seen = _number(facts, "zone_reclaim_mode")
    if seen != 0:
        yield _sysctl("zone_reclaim_mode", seen, 0)


@check(
    "memory", "numa", "Shared memory is spread over the NUMA nodes",
    question="Does shared memory take most of one node?",
    why="It is taken from the node of the process that touches it first; a node that it fills has none left for its own processes.",
    source=f"{KERNEL}/admin-guide/mm/numa_memory_policy.html (interleave); systemd.exec(5), NUMAPolicy=",
)  # fmt: skip
def numa(facts: Facts) -> Iterable[Finding]:
    server = local_server(facts)
    nodes = [name for name in facts.machine.names("/sys/devices/system/node") if name.startswith("node") and name[4:].isdigit()]
    if len(nodes) < 2:
        raise DoesNotApply("one node")
    sizes = []
    for name in nodes:
        words = facts.machine.text(f"/sys/devices/system/node/{name}/meminfo").split()
        if "MemTotal:" in words:
            sizes.append(int(words[words.index("MemTotal:") + 1]) * 1024)
    shared = server.bytes("shared_memory_size") or server.bytes("shared_buffers")
    if sizes and shared > min(sizes) * 3 // 4:
        policy = facts.machine.text(f"/proc/{server.postmaster}/numa_maps").splitlines()
        if any(" interleave" in line for line in policy):
            return
        what = f"{len(nodes)} nodes, the smallest of {show_bytes(min(sizes))}; shared memory is {show_bytes(shared)}"
        yield Finding(
            "NUMA", what, ("systemctl edit postgresql@.service: [Service] NUMAPolicy=interleave and NUMAMask=all, then restart the server",)
        )

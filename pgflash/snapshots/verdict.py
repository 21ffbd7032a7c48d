"""What an interval, or the difference between two, comes to: in words, with the numbers that they rest on."""

from __future__ import annotations

from pgflash.pilot.report.model import Verdict
from pgflash.snapshots.facts import Facts
from pgflash.snapshots.waits import CPU, DISK, FLASH, REST, TEMPORARY, USER_IO, DatabaseTime
from pgflash.units import counted, show_ms, show_number

POINTS = 0.05  # of database time: a smaller change is called none
MATTERS = 0.20  # user I/O below this share is not what limits
FEW_SAMPLES_S = 30.0  # database time below this is too little to conclude from


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%" if share >= 0.1 or share == 0 else f"{100 * share:.1f}%"


def limit(time: DatabaseTime) -> str:
    """What most of database time was spent on, user I/O taken together."""
    groups = time.by_group()
    io = sum(groups.pop(name, 0.0) for name in (USER_IO, DISK, FLASH))
    groups["user I/O"] = io
    return max(groups, key=lambda name: groups[name])


def of_one(facts: Facts) -> Verdict:
    return _slower(_of_one(facts), facts)


def _slower(found: Verdict, facts: Facts, whose: str = "") -> Verdict:
    """Nothing good is said of flash that is slower than what it replaces without saying so."""
    cache = facts.cache
    if cache is None or not cache.hits or not cache.slower:
        return found
    words = f"{found.headline.removesuffix('.')}; but flash was slower{whose} than what it replaces"
    return Verdict(
        "no" if found.verdict == "buy" else found.verdict,
        f"{words} ({show_ms(cache.flash_read_ms or 0.0)} a page, the disk {show_ms(cache.disk_read_ms or 0.0)}).",
        found.sentences,
    )


def _of_one(facts: Facts) -> Verdict:
    time, cache = facts.time, facts.cache
    sentences: list[str] = []
    if time is None or time.seconds <= 0:
        return Verdict("open", "Nothing to conclude: no database time was counted.", _cache_words(facts))
    load = f"sessions at work: {show_number(time.seconds / facts.seconds)} on average" if facts.seconds else ""
    if load:
        sentences.append(f"Database time was {show_number(time.seconds)} s in {show_number(facts.seconds)} s; {load}.")
    sentences += _cache_words(facts)
    if time.seconds < FEW_SAMPLES_S:
        sentences.append(f"That is little: below {FEW_SAMPLES_S:.0f} s of database time shares are not reliable.")
    io = time.user_io
    if io is None:
        return Verdict("open", "What database time was spent on is not known: nothing tells waits for I/O from the processor.", sentences)
    words = f"User I/O was {percent(io)} of database time, {_rest(time)}"
    works = cache is not None and cache.hits > 0
    if io < MATTERS:
        what = "data files are" if limit(time) == TEMPORARY else "storage is"
        return Verdict("buy" if works else "no", f"{words}: {what} not what limits; {_limit_words(time)}.", sentences)
    of_flash = time.share(FLASH) or 0.0
    if works and of_flash > io / 2:
        return Verdict("little", f"{words}: most of it was reads from flash; {_limit_words(time)}.", sentences)
    if works:
        assert cache is not None
        found = f"flash answered {percent(cache.hit_ratio)} of the reads that it could have"
        return Verdict("little", f"{words}: the disk still limits, though {found}.", sentences)
    return Verdict("little", f"{words}: the disk limits, and flash answered no reads.", sentences)


def _rest(time: DatabaseTime) -> str:
    cpu = time.share(CPU) or 0.0
    return f"CPU {percent(cpu)}" if not time.of(REST) else f"CPU and other waits {percent(time.share(CPU, REST))}"


def _limit_words(time: DatabaseTime) -> str:
    return f"next limit: {limit(time)}"


def _cache_words(facts: Facts) -> list[str]:
    cache = facts.cache
    if cache is None:
        return ["Of the cache nothing is known here."]
    if cache.state != "active":
        reason = f" ({cache.reason})" if cache.reason else ""
        words = [f"At the end the cache was {cache.state}{reason}."]
    else:
        words = []
    if cache.hits:
        times = (
            f"; a page took {show_ms(cache.flash_read_ms)} from flash and {show_ms(cache.disk_read_ms)} from disk"
            if cache.flash_read_ms and cache.disk_read_ms
            else ""
        )
        words.append(f"Flash answered {percent(cache.hit_ratio)} of the reads that it could have ({counted(cache.hits, 'page')}){times}.")
        if cache.slower:
            own = f" The view pg_stat_flashcache says: {cache.verdict}." if cache.verdict else ""
            words.append(f"Reads that flash answered took longer than those that it did not.{own}")
    if cache.errors:
        words.append(
            f"There {'was' if cache.errors == 1 else 'were'} {counted(cache.errors, 'error')} of the flash device: see docs/operation.md."
        )
    return words


# --- two of them ----------------------------------------------------------------------------------------------


def of_two(a: Facts, b: Facts) -> Verdict:
    """What B has become, against A."""
    return _slower(_of_two(a, b), b, " in B")


def _of_two(a: Facts, b: Facts) -> Verdict:
    sentences = _per_transaction(a, b)
    sentences += [f"In B: {words[0].lower() + words[1:]}" for words in _cache_words(b)]
    if a.time is None or b.time is None or not a.time.seconds or not b.time.seconds:
        return Verdict("open", "Nothing to conclude: one of the intervals has no database time.", sentences)
    for name, facts in (("A", a), ("B", b)):
        assert facts.time is not None
        if facts.time.seconds < FEW_SAMPLES_S:
            sentences.append(f"{name} has only {show_number(facts.time.seconds)} s of database time: its shares are not reliable.")
    if a.time.source != b.time.source:
        sentences.append(f"Database time comes from different sources: of A from {a.time.words}; of B from {b.time.words}.")
    before, after = a.time.user_io, b.time.user_io
    if before is None or after is None:
        return Verdict("open", "What database time was spent on is not known for both intervals.", sentences)
    words = f"User I/O {_change(before, after)} of database time, {_cpu_change(a.time, b.time)}"
    fell, rose = before - after >= POINTS, after - before >= POINTS
    hits = b.cache.hits if b.cache else 0.0
    hits_before = a.cache.hits if a.cache else 0.0
    more_flash = hits / b.seconds > hits_before / a.seconds if a.seconds and b.seconds else False
    if fell and hits and more_flash:
        return Verdict("buy", f"{words}: the cache works; {_limit_words(b.time)}.", sentences)
    if fell:
        return Verdict("little", f"{words}, but not by the cache: flash answered {'no more' if hits else 'no'} reads.", sentences)
    if rose:
        return Verdict("no", f"{words}: user I/O weighs more than before; {_limit_words(b.time)}.", sentences)
    return Verdict("little", f"{words}: no change to speak of; {_limit_words(b.time)}.", sentences)


def _change(before: float, after: float) -> str:
    if abs(before - after) < POINTS:
        return f"stayed at {percent(after)} (before: {percent(before)})"
    return f"{'fell' if after < before else 'rose'} from {percent(before)} to {percent(after)}"


def _cpu_change(a: DatabaseTime, b: DatabaseTime) -> str:
    groups = (CPU, REST) if a.of(REST) or b.of(REST) else (CPU,)
    name = "CPU and other waits" if len(groups) > 1 else "CPU"
    return f"{name} {_change(a.share(*groups) or 0.0, b.share(*groups) or 0.0)}"


def _per_transaction(a: Facts, b: Facts) -> list[str]:
    found = []
    before, after = a.time_per_transaction_ms, b.time_per_transaction_ms
    if before and after:
        found.append(f"Database time of a transaction: {show_ms(before)} in A, {show_ms(after)} in B ({relative(before, after)}).")
    if a.transactions and b.transactions and a.seconds and b.seconds:
        x, y = a.transactions / a.seconds, b.transactions / b.seconds
        found.append(f"Transactions a second: {show_number(x)} in A, {show_number(y)} in B ({relative(x, y)}).")
    return found


def relative(before: float | None, after: float | None) -> str:
    """Change in percent."""
    if before is None or after is None:
        return "-"
    if before == after:
        return "0%"
    if before == 0:
        return "new"
    change = 100 * (after - before) / before
    return f"{change:+,.0f}%" if abs(change) >= 10 or round(change) == change else f"{change:+.1f}%"

"""The figures that were published for flash caches and flash storage under databases, as far as they gave numbers.

They are of another system, Oracle Database with its Smart Flash Cache (11g Release 2) on disk arrays: what can be compared is the shape
and the factor, never the milliseconds. They are drawn beside ours only, and each time with their source.
"""

from __future__ import annotations

SOURCE = "Oracle Database Smart Flash Cache, 11g Release 2"
LEGEND = f"published for {SOURCE}, other hardware"

# Average query response by size of the flash cache: 300 GB database, 10 GB memory (1 : 30).
DATABASE_GB = 300
RESPONSE_MS = {0: 3500.0, 20: 515.0, 40: 376.0, 60: 256.0, 80: 198.0, 100: 120.0, 120: 95.0, 140: 77.0}
RESPONSE_WORDS = (
    f"Published for {SOURCE} (300 GB database, 10 GB memory): 3,500 ms without flash, 77 ms with 140 GB (47%): 45 times faster."
)

# A thousand users: everything on disk; indexes and temporary files on flash; everything on flash.
THREE_WAYS_MS = {"disk": 905.0, "hybrid": 156.0, "flash": 15.0}
THREE_WAYS_WORDS = f"Published for {SOURCE} (1,000 users): 905 ms on disk, 156 ms with indexes and temporary files on flash (5.8 times), 15 ms all on flash (60 times)."

# Read-only OLTP, 72 GB of data, 8 GB memory.
KNEE_SHARE = 0.90
KNEE_FACTOR = 5.0
KNEE_WORDS = (
    f"Published for {SOURCE} (read-only OLTP, 72 GB of data, 8 GB memory): no gain beyond about 65 GB of flash (90% of the data),"
    " response almost 5 times faster; disk reads and flash writes both fall as the cache grows."
)

TPS_LOW = 1024.0
TPS_HIGH = 7000.0
USERS_WORDS = f"Published for {SOURCE}: 1,024 transactions a second against more than 7,000, by number of users."

CACHE_OR_MOVE_WORDS = f"Published for {SOURCE}, without numbers: moving the nine objects most read to flash beat the cache; using the cache as well made it worse."
FRONT_WORDS = (
    f"Published for {SOURCE} (Texas Memory Systems, Flash on Flash, March 2012): in front of storage that is itself flash the effect of the"
    " cache was negligible."
)
TUNING_WORDS = f"Published for {SOURCE}, without numbers: scheduler, access times and alignment were tuned before measuring."


def response_shares() -> list[tuple[float, float]]:
    """Share of the database, milliseconds."""
    return [(size / DATABASE_GB, ms) for size, ms in RESPONSE_MS.items()]


def response_near(share: float) -> float | None:
    """The published response at about this share of the database."""
    near = min(response_shares(), key=lambda pair: abs(pair[0] - share))
    return near[1] if abs(near[0] - share) <= 0.015 else None

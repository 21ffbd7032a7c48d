"""Where the figures come from that were published for flash caches and flash storage under databases. Each is with ours in figures/.

They are of another system, Oracle Database with its Smart Flash Cache (11g Release 2) on disk arrays: what can be compared is the shape
and the factor, never the milliseconds. They are drawn beside ours only, and each time with their source.
"""

from __future__ import annotations

SOURCE = "Oracle Database Smart Flash Cache, 11g Release 2"
LEGEND = f"published for {SOURCE}, other hardware"

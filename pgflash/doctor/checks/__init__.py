"""The checks, one module an area. Importing this registers all of them."""

from pgflash.doctor.checks import devices, health, limits, memory, mounts, server, waits

__all__ = ["devices", "health", "limits", "memory", "mounts", "server", "waits"]

"""Clusters: servers that replicate each other or share the data, and their caches, seen and changed together."""

"""The pilot study: scenario -> runs (JSON lines) -> report."""

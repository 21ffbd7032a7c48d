"""The published measurements: one file a figure in figures/. docs/bench.md says how to read them."""

"""What monitoring tools read of pg_flashcache: one table of metrics (metrics.py), and the files made from it."""

"""pgflash: command line tool of pg_flashcache.

It speaks SQL and reads the operating system; of the extension it knows what docs/views.md and docs/settings.md say.
"""

__version__ = "1.1.0"

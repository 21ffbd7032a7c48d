"""Snapshots of a server's statistics, and reports of the time between them. docs/snapshots.md is for users.

A snapshot holds, by section, by how much counters moved since the snapshot before it: an interval is the sum of its snapshots.

server.py     connecting, what has to be there, taking and dropping snapshots
sampler.py    what sessions wait for, once a second; the processors of a local server
schedule.py   a snapshot every so often, over restarts of the server
moments.py    durations, and snapshots by number or time
interval.py   the sum of the snapshots between two
facts.py      what a report says of an interval, as numbers
waits.py      database time, and what it was spent on
verdict.py    the same in words
report.py     figures and tables of one interval; diff.py of two side by side
render.py     HTML and Markdown
commands.py   the command line
"""

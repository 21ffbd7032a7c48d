"""pgflash top: what the caches of several servers do now. sample.py looks, rates.py compares two looks, watch.py has a thread
for each server, screen.py shows, cli.py has the command."""

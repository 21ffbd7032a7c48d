"""The lab: slow disks, memory limits and private clusters on one machine, for the pilot study, bench/ and demo.sh.

It needs Python's own library only, so that it runs wherever a server does: in a folder of another Debian suite, on a bare machine.
"""

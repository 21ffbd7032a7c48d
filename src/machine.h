/*-------------------------------------------------------------------------
 *
 * machine.h
 *	  How much memory there is, before any is asked for.
 *
 * Nothing here raises, or includes postgres.h: the same code runs in the
 * postmaster and in unit tests, there on made-up files.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_MACHINE_H
#define FC_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes of memory that this process and its children can have together: that
 * of the machine, or the lowest limit of its control group and those above
 * it (version 1 or 2), whichever is less; 0 if unknown.  `root` is put in
 * front of the paths of /proc and /sys.
 */
extern uint64_t fc_machine_memory(const char *root);

/*
 * Would the kernel map so much shared memory now?  It is mapped and let go
 * of, untouched.  `flags` are further flags of mmap(2), such as those for
 * huge pages; errno is set if not.
 */
extern bool fc_machine_can_map(size_t bytes, int flags);

/* The same for System V shared memory (shared_memory_type = sysv). */
extern bool fc_machine_can_share(size_t bytes, bool huge);

#endif							/* FC_MACHINE_H */

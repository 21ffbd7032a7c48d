/*-------------------------------------------------------------------------
 *
 * writer_patience.h
 *	  What a session that waits for the writer tells its user: that the writer
 *	  itself waits, and for which device.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WRITER_PATIENCE_H
#define FC_WRITER_PATIENCE_H

#include "postgres.h"

/*
 * Once a second, while a session waits: a NOTICE if a device has not answered
 * the writer for a while.  *told, false at first: it has been raised.  Raises
 * an error only where waiting does, if the session is cancelled.
 */
extern void fc_writer_tell_wait(bool *told);

#endif							/* FC_WRITER_PATIENCE_H */

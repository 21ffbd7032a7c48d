/*-------------------------------------------------------------------------
 *
 * reason.c
 *	  See reason.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "reason.h"

static void fill(FcReason *why, const char *hint, bool restart, const char *fmt, va_list args) pg_attribute_printf(4, 0);

/* What was cut off at the end of its memory does not end within a character (of UTF-8). */
static void
clip(char *message)
{
	size_t		len = strlen(message);

	while (len > 0 && IS_HIGHBIT_SET(message[len - 1]) && (message[len - 1] & 0xC0) == 0x80)
		len--;
	if (len > 0 && IS_HIGHBIT_SET(message[len - 1]))
		len--;
	message[len] = '\0';
}

static void
fill(FcReason *why, const char *hint, bool restart, const char *fmt, va_list args)
{
	if (vsnprintf(why->message, sizeof(why->message), fmt, args) >= (int) sizeof(why->message))
		clip(why->message);
	strlcpy(why->hint, hint, sizeof(why->hint));
	why->restart = restart;
}

bool
fc_fail(FcReason *why, const char *hint, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fill(why, hint, false, fmt, args);
	va_end(args);
	return false;
}

bool
fc_fail_restart(FcReason *why, const char *hint, const char *fmt,...)
{
	va_list		args;

	va_start(args, fmt);
	fill(why, hint, true, fmt, args);
	va_end(args);
	return false;
}

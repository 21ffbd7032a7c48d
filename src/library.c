/*-------------------------------------------------------------------------
 *
 * library.c
 *	  See library.h.
 *
 * Copies find each other by a rendezvous variable of the server: it belongs to
 * the process, and is inherited from the postmaster with the preloaded copy.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "postgres.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "fmgr.h"
#include "library.h"
#include "miscadmin.h"

const char *
fc_library_path(void)
{
	static char path[MAXPGPATH];
	Dl_info		info;

	if (path[0] == '\0')
		strlcpy(path, dladdr(path, &info) != 0 && info.dli_fname != NULL ? info.dli_fname : "pg_flashcache",
				sizeof(path));
	return path;
}

static const char **
preloaded(void)
{
	return (const char **) find_rendezvous_variable("pg_flashcache");
}

bool
fc_library_claim(void)
{
	const char **claimed = preloaded();

	if (*claimed != NULL)
		return false;
	*claimed = fc_library_path();
	return true;
}

const char *
fc_library_preloaded(void)
{
	const char *claimed = *preloaded();

	/* by address: a file that was replaced has the same name */
	return claimed == fc_library_path() ? NULL : claimed;
}

static bool
same_file(const char *a, const char *b)
{
	struct stat sa;
	struct stat sb;

	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

bool
fc_library_name(char *name, size_t len)
{
	char		standard[MAXPGPATH];

	if (strlcpy(name, fc_library_path(), len) < len)
		return true;
	snprintf(standard, sizeof(standard), "%s/pg_flashcache" DLSUFFIX, pkglib_path);
	strlcpy(name, "$libdir/pg_flashcache", len);
	return same_file(fc_library_path(), standard);
}

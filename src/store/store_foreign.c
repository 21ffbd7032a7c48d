/*-------------------------------------------------------------------------
 *
 * store_foreign.c
 *	  See store_foreign.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "store/store_foreign.h"

/* A data directory has it, and each database's folder in it. */
#define VERSION_FILE "PG_VERSION"

static bool
has_version(int folder)
{
	struct statfs fs;
	struct stat st;

	/* where each name that is looked up may be mounted, and waited for */
	if (fstatfs(folder, &fs) != 0 || (uint32) fs.f_type == AUTOFS_SUPER_MAGIC)
		return false;
	return fstatat(folder, VERSION_FILE, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) == 0 && !S_ISDIR(st.st_mode);
}

/* PG_15_202209061: of a server of that version, in a tablespace. */
static bool
is_of_tablespace(const char *name)
{
	static const char digits[] = "0123456789";
	const char *at;
	size_t		n;

	if (strncmp(name, "PG_", 3) != 0)
		return false;
	at = name + 3;
	n = strspn(at, "0123456789.");
	if (n == 0 || at[n] != '_')
		return false;
	at += n + 1;
	return strspn(at, digits) == 9 && at[9] == '\0';
}

void
fc_foreign_come_to(FcForeign *foreign, int folder, const char *at, const char *name)
{
	if (foreign->kind != FC_FOREIGN_NONE)
	{
		if (name == NULL)
			foreign->linked = true;
		else
			foreign->depth += strcmp(name, "..") == 0 ? -1 : 1;
		if (foreign->linked || foreign->depth >= 0)
			return;
		foreign->kind = FC_FOREIGN_NONE;	/* only passed by */
	}
	if (name == NULL)
		name = "";
	if (is_of_tablespace(name))
		foreign->kind = FC_FOREIGN_TABLESPACE;
	else if (has_version(folder))
		foreign->kind = FC_FOREIGN_DATA;
	strlcpy(foreign->folder, at, sizeof(foreign->folder));
	foreign->depth = 0;
}

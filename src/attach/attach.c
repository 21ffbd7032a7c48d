/*-------------------------------------------------------------------------
 *
 * attach/attach.c
 *	  See attach/attach.h.
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

#include "attach.h"
#include "shape.h"
#include "table.h"
#include "utils/guc.h"

static bool attached = false;

/*
 * What servers export that have more than one storage manager, by
 * registration or by a hook: all of these are forks, each with an interface of
 * its own.  Their relations need not go through md's table, so to find it there
 * would prove nothing.
 */
static const char *const foreign[] = {
	"smgr_register",
	"storage_manager_id",
	"storage_manager_string",
	"MdSMgrId",
	"smgr_hook",
	"smgr_init_hook",
};

static int
running_version(void)
{
	const char *version = GetConfigOption("server_version_num", true, false);

	return version ? (int) strtol(version, NULL, 10) : 0;
}

static bool
intercept(const FcShape *shape, char *reason, size_t reason_len)
{
	FcTable		table;

	fc_table_find(shape->md, shape->entries, &table);
	if (table.matches != 1)
	{
		snprintf(reason, reason_len,
				 "the server's storage-manager table was found %d times instead of once",
				 table.matches);
		return false;
	}
	if (!fc_table_replace(&table, shape->ours))
	{
		snprintf(reason, reason_len, "could not write to the server's storage-manager table: %m");
		return false;
	}
	return true;
}

bool
fc_attach(char *reason, size_t reason_len, char *hint, size_t hint_len)
{
	const FcShape *shape = fc_shape();
	int			version = running_version();

	strlcpy(hint, "PostgreSQL runs normally without the cache. Please report the exact version of your server.", hint_len);
	if (version < shape->min_version || version >= shape->max_version)
	{
		snprintf(reason, reason_len, "server version %d is not known", version);
		return false;
	}
	for (int i = 0; i < lengthof(foreign); i++)
		if (dlsym(RTLD_DEFAULT, foreign[i]) != NULL)
		{
			snprintf(reason, reason_len,
					 "the server has a storage-manager interface that is not known (\"%s\")", foreign[i]);
			return false;
		}
	attached = intercept(shape, reason, reason_len);
	return attached;
}

const char *
fc_attach_way_name(void)
{
	return attached ? "interception" : NULL;
}

FcTested
fc_attach_self_test(char *reason, size_t len)
{
	MemoryContext caller = CurrentMemoryContext;
	volatile FcTested tested = FC_TEST_FAILED;

	PG_TRY();
	{
		if (!fc_shape_exercise())
			strlcpy(reason, "self-test read back another page than it wrote", len);
		else if (fc_shape_not_called() != NULL)
		{
			snprintf(reason, len, "self-test: the server does not call %s through its table",
					 fc_shape_not_called());
			tested = FC_TEST_NOT_CALLED;
		}
		else
			tested = FC_TEST_PASSED;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		fc_shape_clean_up();
		snprintf(reason, len, "self-test could not be carried out: %s", error->message);
		FreeErrorData(error);
	}
	PG_END_TRY();
	return tested;
}

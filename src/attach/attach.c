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

#include "attach/attach.h"
#include "attach/shape.h"
#include "attach/table.h"
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

#define STAYS_OUT_HINT "PostgreSQL runs normally without the cache. Please report the exact version of your server."

static bool
intercept(const FcShape *shape, void *const *ours, FcReason *why)
{
	FcTable		table;

	fc_table_find(shape->md, shape->entries, &table);
	if (table.matches != 1)
		return fc_fail(why, STAYS_OUT_HINT, "the server's storage-manager table was found %d times instead of once",
					   table.matches);
	if (!fc_table_replace(&table, ours))
		return fc_fail(why, STAYS_OUT_HINT, "could not write to the server's storage-manager table: %m");
	return true;
}

static bool
attach(bool listening, FcReason *why)
{
	const FcShape *shape = fc_shape();
	int			version = running_version();

	if (version < shape->min_version || version >= shape->max_version)
		return fc_fail(why, STAYS_OUT_HINT, "server version %d is not known", version);
	for (int i = 0; i < lengthof(foreign); i++)
		if (dlsym(RTLD_DEFAULT, foreign[i]) != NULL)
			return fc_fail(why, STAYS_OUT_HINT, "the server has a storage-manager interface that is not known (\"%s\")",
						   foreign[i]);
	return intercept(shape, listening ? shape->listening : shape->ours, why);
}

bool
fc_attach(FcReason *why)
{
	attached = attach(false, why);
	return attached;
}

bool
fc_attach_listener(FcReason *why)
{
	return attach(true, why);
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

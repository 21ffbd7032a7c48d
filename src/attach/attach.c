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

static FcAttachWay way = FC_ATTACHED_NOT;

/*
 * The registration API proposed to PostgreSQL ("extensible storage manager"):
 * a named table of the stock calls in the stock order, and a variable that
 * says which manager new relations use.
 */
typedef struct RegisteredSmgr
{
	const char *name;
	void	   *call[FC_SHAPE_MAX_ENTRIES];
} RegisteredSmgr;

typedef uint8 (*RegisterFunction) (const RegisteredSmgr *smgr, Size relation_size);

static int
running_version(void)
{
	const char *version = GetConfigOption("server_version_num", true, false);

	return version ? (int) strtol(version, NULL, 10) : 0;
}

static FcAttachWay
try_registration(const FcShape *shape, RegisterFunction register_smgr,
				 char *reason, size_t reason_len)
{
	static RegisteredSmgr ours = {.name = "flashcache"};
	uint8	   *chosen = dlsym(RTLD_DEFAULT, "storage_manager_id");

	/*
	 * Forks of PostgreSQL have functions of this name with other tables.
	 * Without the rest of the API it is not the one known here.
	 */
	if (chosen == NULL || dlsym(RTLD_DEFAULT, "MdSMgrId") == NULL)
	{
		strlcpy(reason, "the server has a storage-manager registration API that is not known", reason_len);
		return FC_ATTACHED_NOT;
	}
	for (int i = 0; i < shape->entries; i++)
		ours.call[i] = shape->ours[i] ? shape->ours[i] : shape->md[i];
	*chosen = register_smgr(&ours, 0);
	return FC_ATTACHED_BY_REGISTRATION;
}

static FcAttachWay
try_interception(const FcShape *shape, char *reason, size_t reason_len)
{
	FcTable		table;

	fc_table_find(shape->md, shape->entries, &table);
	if (table.matches != 1)
	{
		snprintf(reason, reason_len,
				 "the server's storage-manager table was found %d times instead of once",
				 table.matches);
		return FC_ATTACHED_NOT;
	}
	if (!fc_table_replace(&table, shape->ours))
	{
		snprintf(reason, reason_len, "could not write to the server's storage-manager table: %m");
		return FC_ATTACHED_NOT;
	}
	return FC_ATTACHED_BY_INTERCEPTION;
}

FcAttachWay
fc_attach(char *reason, size_t reason_len, char *hint, size_t hint_len)
{
	const FcShape *shape = fc_shape();
	int			version = running_version();
	RegisterFunction register_smgr;

	strlcpy(hint, "PostgreSQL runs normally without the cache. Please report the exact version of your server.", hint_len);
	if (version < shape->min_version || version >= shape->max_version)
	{
		snprintf(reason, reason_len, "server version %d is not known", version);
		return FC_ATTACHED_NOT;
	}
	register_smgr = (RegisterFunction) dlsym(RTLD_DEFAULT, "smgr_register");
	if (register_smgr != NULL)
		way = try_registration(shape, register_smgr, reason, reason_len);
	else
		way = try_interception(shape, reason, reason_len);
	return way;
}

const char *
fc_attach_way_name(void)
{
	switch (way)
	{
		case FC_ATTACHED_BY_REGISTRATION:
			return "registration";
		case FC_ATTACHED_BY_INTERCEPTION:
			return "interception";
		case FC_ATTACHED_NOT:
			break;
	}
	return NULL;
}

bool
fc_attach_self_test(char *reason, size_t len)
{
	MemoryContext caller = CurrentMemoryContext;
	bool		ok = false;

	reason[0] = '\0';
	PG_TRY();
	{
		ok = fc_shape_exercise();
		if (!ok)
			strlcpy(reason, "self-test read back another page than it wrote", len);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(caller);
		error = CopyErrorData();
		FlushErrorState();
		snprintf(reason, len, "self-test failed: %s", error->message);
		FreeErrorData(error);
		ok = false;
	}
	PG_END_TRY();
	if (ok && fc_shape_not_called() != NULL)
	{
		snprintf(reason, len, "self-test: the server does not call %s through its table",
				 fc_shape_not_called());
		ok = false;
	}
	return ok;
}

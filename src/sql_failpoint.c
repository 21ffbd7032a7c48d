/*-------------------------------------------------------------------------
 *
 * sql_failpoint.c
 *	  Pause points and faults, set from SQL by tests, which declare these
 *	  functions: the extension script does not.  In a build with -DFC_FAILPOINTS
 *	  only (failpoint.h); there is nothing here in any other.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "failpoint.h"
#include "miscadmin.h"
#include "sql_row.h"

#ifdef FC_FAILPOINTS

FC_EXPORT Datum fc_failpoint_set(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_failpoint_wait(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_failpoint_set);
PG_FUNCTION_INFO_V1(fc_failpoint_wait);

static FcFailpointId
failpoint_argument(FunctionCallInfo fcinfo, int nargs)
{
	static const Oid args[] = {TEXTOID, TEXTOID, OIDOID};
	char	   *name;
	int			id;

	check_declared(fcinfo, VOIDOID, false, nargs, args);
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	id = fc_failpoint_by_name(name);
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to use failpoints")));
	if (id < 0 || fc_failpoints == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no failpoint \"%s\"", name)));
	return (FcFailpointId) id;
}

Datum
fc_failpoint_set(PG_FUNCTION_ARGS)
{
	FcFailpointId id = failpoint_argument(fcinfo, PG_NARGS() > 2 ? 3 : 2);
	char	   *action = text_to_cstring(PG_GETARG_TEXT_PP(1));
	FcFault		fault;

	if (!fc_failpoint_action(action, &fault))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown action \"%s\"", action),
				 errhint("See src/failpoint.h.")));
	fc_failpoint_arm(id, fault, PG_NARGS() > 2 ? PG_GETARG_OID(2) : InvalidOid);
	PG_RETURN_VOID();
}

Datum
fc_failpoint_wait(PG_FUNCTION_ARGS)
{
	FcFailpointId id = failpoint_argument(fcinfo, 1);

	for (int i = 0; fc_failpoint_paused(id) == 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 60 * 1000)
			ereport(ERROR, (errmsg("nobody came to the failpoint within a minute")));
		pg_usleep(1000);
	}
	PG_RETURN_VOID();
}

#endif							/* FC_FAILPOINTS */

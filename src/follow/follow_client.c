/*-------------------------------------------------------------------------
 *
 * follow/follow_client.c
 *	  The process that has the connection: asks another server for its map.
 *
 * libpq is that of the server's own libpqwalreceiver, which has it loaded: this
 * library is neither built with it nor linked to it.  Its interface has not
 * changed since its file is called libpq.so.5.
 *
 * What libpq says in words stays here: it may quote what it was given, and so
 * a password that is in the wrong place.  The follower learns a number, and the
 * SQLSTATE of a query.
 *
 * Settings of the database or the role over there do not count: what matters
 * is set, and every object is named with its schema, which is that of the
 * extension.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "catalog/pg_authid_d.h"
#include "catalog/pg_type_d.h"
#include "child.h"
#include "fmgr.h"
#include "follow/follow_internal.h"
#include "port/pg_bswap.h"
#include "postgres_ext.h"
#include "settings.h"
#include "utils/memutils.h"
#include "utils/ps_status.h"

#define MAX_PARAMETERS 64
#define CONNECT_TIMEOUT "10"
#define APPLICATION "pg_flashcache follower"

/* ---- libpq ---- */

typedef struct PGconn PGconn;
typedef struct PGresult PGresult;

/* As it is in libpq-fe.h. */
typedef struct Option
{
	char	   *keyword;
	char	   *envvar;
	char	   *compiled;
	char	   *val;
	char	   *label;
	char	   *dispchar;
	int			dispsize;
} Option;

enum
{
	CONNECTION_OK = 0,
	PGRES_COMMAND_OK = 1,
	PGRES_TUPLES_OK = 2,
	PGRES_SINGLE_TUPLE = 9,
	PQPING_OK = 0,
	PQPING_REJECT = 1,
};

static struct
{
	Option	   *(*conninfoParse) (const char *conninfo, char **errmsg);
	PGconn	   *(*connectdbParams) (const char *const *keywords, const char *const *values, int expand_dbname);
	int			(*pingParams) (const char *const *keywords, const char *const *values, int expand_dbname);
	int			(*status) (const PGconn *conn);
	int			(*serverVersion) (const PGconn *conn);
	PGresult   *(*exec) (PGconn *conn, const char *query);
	PGresult   *(*execParams) (PGconn *conn, const char *command, int nParams, const Oid *paramTypes, const char *const *paramValues,
							   const int *paramLengths, const int *paramFormats, int resultFormat);
	int			(*sendQueryParams) (PGconn *conn, const char *command, int nParams, const Oid *paramTypes,
									const char *const *paramValues, const int *paramLengths, const int *paramFormats, int resultFormat);
	int			(*setSingleRowMode) (PGconn *conn);
	PGresult   *(*getResult) (PGconn *conn);
	int			(*resultStatus) (const PGresult *res);
	char	   *(*resultErrorField) (const PGresult *res, int fieldcode);
	int			(*ntuples) (const PGresult *res);
	int			(*nfields) (const PGresult *res);
	Oid			(*ftype) (const PGresult *res, int column);
	int			(*fformat) (const PGresult *res, int column);
	char	   *(*getvalue) (const PGresult *res, int row, int column);
	int			(*getlength) (const PGresult *res, int row, int column);
	int			(*getisnull) (const PGresult *res, int row, int column);
	void		(*clear) (PGresult *res);
	void		(*finish) (PGconn *conn);
}			pq;

static const struct
{
	const char *name;
	void	   *where;
}			functions[] = {
	{"PQconninfoParse", &pq.conninfoParse},
	{"PQconnectdbParams", &pq.connectdbParams},
	{"PQpingParams", &pq.pingParams},
	{"PQstatus", &pq.status},
	{"PQserverVersion", &pq.serverVersion},
	{"PQexec", &pq.exec},
	{"PQexecParams", &pq.execParams},
	{"PQsendQueryParams", &pq.sendQueryParams},
	{"PQsetSingleRowMode", &pq.setSingleRowMode},
	{"PQgetResult", &pq.getResult},
	{"PQresultStatus", &pq.resultStatus},
	{"PQresultErrorField", &pq.resultErrorField},
	{"PQntuples", &pq.ntuples},
	{"PQnfields", &pq.nfields},
	{"PQftype", &pq.ftype},
	{"PQfformat", &pq.fformat},
	{"PQgetvalue", &pq.getvalue},
	{"PQgetlength", &pq.getlength},
	{"PQgetisnull", &pq.getisnull},
	{"PQclear", &pq.clear},
	{"PQfinish", &pq.finish},
};

bool
fc_follow_client_load(void)
{
	static bool loaded = false;
	MemoryContext context = CurrentMemoryContext;

	if (loaded)
		return true;
	PG_TRY();
	{
		load_file("libpqwalreceiver", false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		return false;
	}
	PG_END_TRY();
	/* the server makes what it loads visible to all */
	for (int i = 0; i < lengthof(functions); i++)
	{
		void	   *function = dlsym(RTLD_DEFAULT, functions[i].name);

		if (function == NULL)
			return false;
		memcpy(functions[i].where, &function, sizeof(function));
	}
	loaded = true;
	return true;
}

/* ---- telling ---- */

static int	out;				/* the pipe */

static void
tell(const FcFollowMessage *message, const void *data)
{
	struct iovec part[2] = {
		{unconstify(FcFollowMessage *, message), sizeof(*message)},
		{unconstify(void *, data), (size_t) message->bytes}
	};

	for (int i = 0; i < 2; i++)
		while (part[i].iov_len > 0)
		{
			ssize_t		n = write(out, part[i].iov_base, part[i].iov_len);

			if (n < 0 && errno == EINTR)
				continue;
			if (n <= 0)
				_exit(0);		/* nobody listens any more */
			part[i].iov_base = (char *) part[i].iov_base + n;
			part[i].iov_len -= n;
		}
}

static void
__attribute__((noreturn))
fail(FcFollowWhy why, const char *sqlstate)
{
	FcFollowMessage message = {.what = FC_TELL_FAILED,.why = why};

	for (int i = 0; sqlstate != NULL && i < 5 && ((sqlstate[i] >= '0' && sqlstate[i] <= '9') || (sqlstate[i] >= 'A' && sqlstate[i] <= 'Z')); i++)
		message.sqlstate[i] = sqlstate[i];
	tell(&message, NULL);
	_exit(0);
}

static void
tell_plain(FcFollowTell what)
{
	FcFollowMessage message = {.what = what};

	tell(&message, NULL);
}

/* ---- connecting ---- */

typedef struct Parameters
{
	int			n;
	const char *keyword[MAX_PARAMETERS + 1];
	const char *value[MAX_PARAMETERS + 1];
} Parameters;

static void
set(Parameters *p, const char *keyword, const char *value)
{
	int			i = 0;

	while (i < p->n && strcmp(p->keyword[i], keyword) != 0)
		i++;
	if (i == MAX_PARAMETERS)
		fail(FC_WHY_BAD_CONNINFO, NULL);
	p->keyword[i] = keyword;
	p->value[i] = value;
	p->n = Max(p->n, i + 1);
}

static const char *
get(const Parameters *p, const char *keyword)
{
	for (int i = 0; i < p->n; i++)
		if (strcmp(p->keyword[i], keyword) == 0)
			return p->value[i];
	return NULL;
}

static void
parse(Parameters *p, const char *conninfo)
{
	Option	   *options = pq.conninfoParse(conninfo, NULL);

	if (options == NULL)
		fail(FC_WHY_BAD_CONNINFO, NULL);
	for (const Option *option = options; option->keyword != NULL; option++)
		if (option->val != NULL && option->val[0] != '\0')
			set(p, option->keyword, option->val);
}

/*
 * What the setting names, and where it names no server, the rest of
 * primary_conninfo.  No password of that goes to another server.
 */
static void
make_parameters(Parameters *p, const char *primary, const char *follow)
{
	Parameters	own = {0};

	parse(&own, follow);
	if (get(&own, "host") == NULL && get(&own, "hostaddr") == NULL && get(&own, "service") == NULL)
	{
		parse(p, primary);

		/*
		 * the standby's name, by which its primary may know it; and the word
		 * of a walreceiver
		 */
		set(p, "application_name", APPLICATION);
		if (get(p, "dbname") != NULL && strcmp(get(p, "dbname"), "replication") == 0)
			set(p, "dbname", "postgres");
		if (get(p, "host") == NULL && get(p, "hostaddr") == NULL && get(p, "service") == NULL)
			fail(FC_WHY_NO_PRIMARY, NULL);
	}
	for (int i = 0; i < own.n; i++)
		set(p, own.keyword[i], own.value[i]);
	if (get(p, "application_name") == NULL)
		set(p, "application_name", APPLICATION);
	if (get(p, "dbname") == NULL)
		set(p, "dbname", "postgres");
	if (get(p, "connect_timeout") == NULL)
		set(p, "connect_timeout", CONNECT_TIMEOUT);
	set(p, "replication", "false");
	set(p, "client_encoding", "SQL_ASCII");
}

static PGconn *
connect_to(const Parameters *p)
{
	PGconn	   *conn = pq.connectdbParams(p->keyword, p->value, 0);

	if (conn != NULL && pq.status(conn) == CONNECTION_OK)
		return conn;
	switch (pq.pingParams(p->keyword, p->value, 0))
	{
		case PQPING_OK:
			fail(FC_WHY_REFUSED, NULL);
		case PQPING_REJECT:
			fail(FC_WHY_NOT_READY, NULL);
		default:
			fail(FC_WHY_NO_ANSWER, NULL);
	}
}

/* ---- asking ---- */

static void
check(PGconn *conn, const PGresult *result, int expected)
{
	const char *sqlstate;

	if (result != NULL && pq.resultStatus(result) == expected)
		return;
	sqlstate = result != NULL ? pq.resultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
	if (sqlstate == NULL || pq.status(conn) != CONNECTION_OK)
		fail(FC_WHY_LOST, NULL);
	fail(strcmp(sqlstate, "42501") == 0 ? FC_WHY_NO_RIGHT : FC_WHY_QUERY, sqlstate);
}

static void
command(PGconn *conn, const char *sql)
{
	PGresult   *result = pq.exec(conn, sql);

	check(conn, result, PGRES_COMMAND_OK);
	pq.clear(result);
}

/* One row of those types, in binary, or none. */
static PGresult *
row_of(PGconn *conn, const char *sql, int ncolumns, const Oid *types)
{
	PGresult   *result = pq.execParams(conn, sql, 0, NULL, NULL, NULL, NULL, 1);

	check(conn, result, PGRES_TUPLES_OK);
	if (pq.nfields(result) != ncolumns || pq.ntuples(result) > 1)
		fail(FC_WHY_BAD_MAP, NULL);
	for (int i = 0; i < ncolumns; i++)
		if (pq.ftype(result, i) != types[i] || pq.fformat(result, i) != 1)
			fail(FC_WHY_BAD_MAP, NULL);
	return result;
}

static uint64
number(const PGresult *result, int column, int bytes)
{
	const char *value = pq.getvalue(result, 0, column);
	uint64		n = 0;

	if (pq.getisnull(result, 0, column) || pq.getlength(result, 0, column) != bytes)
		fail(FC_WHY_BAD_MAP, NULL);
	for (int i = 0; i < bytes; i++)
		n = n << 8 | (uint8) value[i];
	return n;
}

static void
recognize(PGconn *conn, const FcFollowSelf *self)
{
	static const Oid types[] = {INT8OID, TIMESTAMPTZOID, INT4OID};
	PGresult   *result = row_of(conn,
								"SELECT (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s), "
								"pg_catalog.pg_postmaster_start_time(), "
								"pg_catalog.current_setting('port')::pg_catalog.int4",
								lengthof(types), types);

	if (pq.ntuples(result) != 1)
		fail(FC_WHY_BAD_MAP, NULL);
	if (number(result, 0, 8) != self->system)
		fail(FC_WHY_OTHER_CLUSTER, NULL);
	/* to the microsecond: two servers do not start so */
	if (number(result, 1, 8) == (uint64) self->started && number(result, 2, 4) == (uint64) self->port)
		fail(FC_WHY_ITSELF, NULL);
	pq.clear(result);
}

/* The query for the map. */
StaticAssertDecl(ROLE_PG_DATABASE_OWNER == 6171, "OID of pg_database_owner");

static const char *
map_query(PGconn *conn)
{
	static const Oid types[] = {TEXTOID, BOOLOID, BOOLOID};
	static char query[1024];
	PGresult   *result = row_of(conn,
								"SELECT pg_catalog.quote_ident(n.nspname::pg_catalog.text), o.rolsuper, "
								"EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.pronamespace OPERATOR(pg_catalog.=) n.oid "
								"AND p.proname OPERATOR(pg_catalog.=) 'pg_flashcache_export_map'::pg_catalog.name "
								"AND p.pronargs OPERATOR(pg_catalog.=) 2::pg_catalog.int2) "
								"FROM pg_catalog.pg_extension e "
								"JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace "
								"JOIN pg_catalog.pg_database d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() "
								"JOIN pg_catalog.pg_roles o ON o.oid OPERATOR(pg_catalog.=) CASE "
								"WHEN n.nspowner OPERATOR(pg_catalog.=) 6171::pg_catalog.oid "	/* pg_database_owner */
								"THEN d.datdba ELSE n.nspowner END "
								"WHERE e.extname OPERATOR(pg_catalog.=) 'pg_flashcache'::pg_catalog.name",
								lengthof(types), types);
	int			length;

	if (pq.ntuples(result) == 0)
		fail(FC_WHY_NO_EXTENSION, NULL);
	length = pq.getlength(result, 0, 0);
	if (pq.getisnull(result, 0, 0) || length > 256 || memchr(pq.getvalue(result, 0, 0), '\0', length) != NULL)
		fail(FC_WHY_BAD_MAP, NULL);

	/*
	 * Whoever owns the schema may rename it before the function is called,
	 * and let its name mean one of his own, which has the rights of the role
	 * that asks.
	 */
	if (pq.getisnull(result, 0, 1) || pq.getvalue(result, 0, 1)[0] == 0)
		fail(FC_WHY_UNTRUSTED, NULL);

	/*
	 * the arguments' types are given: no other function of that name fits
	 * better.  That of 1.0 has one, and no map of shared_buffers.
	 */
	snprintf(query, sizeof(query),
			 "SELECT reltablespace, reldatabase, relfilenode, heat, first_block, bitmap "
			 "FROM %.*s.pg_flashcache_export_map(NULL::pg_catalog.oid%s)", length, pq.getvalue(result, 0, 0),
			 fc_setting_follow_buffers && !pq.getisnull(result, 0, 2) && pq.getvalue(result, 0, 2)[0] != 0 ? ", true::pg_catalog.bool" : "");
	pq.clear(result);
	return query;
}

static void
tell_row(const PGresult *result)
{
	FcFollowMessage message = {.what = FC_TELL_ROW};
	FcMapRow	row = {0};

	row.rel.spc = (Oid) number(result, 0, 4);
	row.rel.db = (Oid) number(result, 1, 4);
	row.rel.rel = (Oid) number(result, 2, 4);
	row.heat = (int) number(result, 3, 2);
	row.first = (int64) number(result, 4, 8);
	row.nbytes = pq.getlength(result, 0, 5);
	if (pq.getisnull(result, 0, 5) || row.nbytes > FC_MAP_BYTES)
		fail(FC_WHY_BAD_MAP, NULL);
	memcpy(row.bits, pq.getvalue(result, 0, 5), row.nbytes);
	message.bytes = (int) offsetof(FcMapRow, bits) + row.nbytes;
	tell(&message, &row);
}

static void
pull(PGconn *conn)
{
	static const Oid types[] = {OIDOID, OIDOID, OIDOID, INT2OID, INT8OID, BYTEAOID};
	PGresult   *result;
	bool		ended = false;

	if (!pq.sendQueryParams(conn, map_query(conn), 0, NULL, NULL, NULL, NULL, 1) || !pq.setSingleRowMode(conn))
		fail(FC_WHY_LOST, NULL);
	while ((result = pq.getResult(conn)) != NULL)
	{
		if (pq.resultStatus(result) != PGRES_SINGLE_TUPLE)
		{
			check(conn, result, PGRES_TUPLES_OK);
			ended = true;
		}
		if (pq.nfields(result) != lengthof(types))
			fail(FC_WHY_BAD_MAP, NULL);
		for (int i = 0; i < lengthof(types); i++)
			if (pq.ftype(result, i) != types[i] || pq.fformat(result, i) != 1)
				fail(FC_WHY_BAD_MAP, NULL);
		for (int i = 0; i < pq.ntuples(result); i++)
			tell_row(result);
		pq.clear(result);
	}
	if (!ended)
		fail(FC_WHY_LOST, NULL);
}

/* ---- the process ---- */

static void
on_sigterm(int signo)
{
	_exit(0);
}

void
fc_follow_client(const char *primary, const char *follow, const FcFollowSelf *self, int fd)
{
	Parameters	p = {0};
	PGconn	   *conn;

	/*
	 * It may end at any moment, and always with status 0: where the
	 * postmaster is process 1 of a container, an orphan that is killed would
	 * be taken for a server process that has crashed.
	 */
	fc_child_begin();
	(void) signal(SIGTERM, on_sigterm);
	(void) prctl(PR_SET_PDEATHSIG, SIGTERM);
	out = fd;
	if (!fc_child_descriptors(fd) || !fc_child_memory(NULL))
		_exit(0);
	init_ps_display("pg_flashcache follower connection");

	make_parameters(&p, primary, follow);
	conn = connect_to(&p);
	tell_plain(FC_TELL_CONNECTED);
	command(conn, "SET search_path = pg_catalog, pg_temp; SET ROLE NONE; SET statement_timeout = 0; "
			"SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0; "
			"SET default_transaction_isolation = 'read committed'");
	if (pq.serverVersion(conn) >= 170000)
		command(conn, "SET transaction_timeout = 0");
	recognize(conn, self);
	pull(conn);
	tell_plain(FC_TELL_DONE);
	pq.finish(conn);
	_exit(0);
}

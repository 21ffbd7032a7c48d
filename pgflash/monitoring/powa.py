"""A module for PoWA: SQL that has PoWA take snapshots of pg_flashcache, and SQL that takes this away again.

PoWA 4.1 (Debian 12: postgresql-15-powa) keeps in powa_functions which functions it calls for a module, for each server: at a
snapshot, at an aggregate (many snapshots into one row), at a purge and at a reset. It calls them by their bare names, as its
background worker's superuser, so they are in its schema, which is public; all that they name has a schema, and each sets its
search_path. The helpers of PoWA find their tables by search_path, and so are not called here.

For a server other than its own, powa-collector copies what NAME_src(0) gives there into the table NAME_src_tmp here.
"""

from __future__ import annotations

from pgflash.monitoring.exporters import made
from pgflash.monitoring.metrics import SERVER, STATEMENTS, Group, Metric

MODULE = "pg_flashcache"
# Relations are those of one database, and PoWA looks from a database of its own; histograms have too many rows.
NAMES = {"powa_flashcache": SERVER, "powa_flashcache_statement": STATEMENTS}
RESET = "stats_reset_timestamp_seconds"
SAFE = "SET search_path = pg_catalog, pg_temp"
OPERATIONS = ("snapshot", "aggregate", "purge", "reset")


def powa(version: str, schema: str, dsn: str) -> dict[str, str]:
    parts = {name: group for name, group in NAMES.items() if group.of(version)}
    return {"powa-register.sql": _register(parts, version, schema), "powa-unregister.sql": _unregister(version, schema)}


def _type(metric: Metric) -> str:
    return "double precision" if metric.unit == "seconds" else "bigint"


def _joined(lines: list[str], indent: int) -> str:
    return (",\n" + " " * indent).join(lines)


def _own(what: str) -> str:
    """Stops unless PoWA is one that this is for, and nobody else has made, or can make, what its superuser will run."""
    return f"""DO $do$
DECLARE
  found text;
BEGIN
  SELECT extversion INTO found FROM pg_extension WHERE extname = 'powa';
  IF found IS NULL OR found !~ '^4\\.1\\.' THEN
    RAISE EXCEPTION 'this is for PoWA 4.1, and this database has %', COALESCE('PoWA ' || found, 'none')
      USING HINT = 'Connect to the database of PoWA''s repository, which is usually called powa.';
  END IF;
  SELECT string_agg(name, ', ' ORDER BY name) INTO found FROM (
    SELECT relname::text AS name, relowner AS owner FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT typname, typowner FROM pg_type WHERE typnamespace = 'public'::regnamespace
    UNION ALL SELECT proname, proowner FROM pg_proc WHERE pronamespace = 'public'::regnamespace
  ) o WHERE starts_with(name, 'powa_flashcache') AND owner <> (SELECT oid FROM pg_roles WHERE rolname = current_user);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION 'not made by %: %', current_user, found
      USING HINT = 'PoWA would run what somebody else can change. {what} as the role that made them, or drop them.';
  END IF;
END
$do$;
"""


def _where(schema: str) -> str:
    return f"""DO $do$
DECLARE
  place text;
  owner_is_super boolean;
BEGIN
  SELECT n.nspname, r.rolsuper OR (r.rolname = 'pg_database_owner' AND dr.rolsuper) INTO place, owner_is_super
  FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace JOIN pg_roles r ON r.oid = n.nspowner
    JOIN pg_database d ON d.datname = current_database() JOIN pg_roles dr ON dr.oid = d.datdba
  WHERE e.extname = '{MODULE}';
  IF place <> '{schema}' THEN
    RAISE EXCEPTION 'pg_flashcache is in the schema %, and this is for {schema}', place
      USING HINT = 'Make the file again with pgflash monitoring write --schema.';
  END IF;
  IF NOT owner_is_super THEN
    RAISE EXCEPTION 'the schema % of pg_flashcache belongs to somebody who is no superuser', place
      USING HINT = 'Its owner could have PoWA run anything as a superuser. ALTER SCHEMA ... OWNER TO a superuser.';
  END IF;
END
$do$;
"""


def _register(parts: dict[str, Group], version: str, schema: str) -> str:
    text = f"""-- {made(version, schema)}
-- A module for PoWA 4.1 (Debian 12: postgresql-15-powa). As a superuser, in the database of PoWA:
--   psql -X -d powa -f powa-register.sql
-- It may be run again, after an upgrade of pg_flashcache or pgflash: what has been recorded is kept. On another server that
-- powa-collector reads, run it as well, and here: SELECT public.powa_flashcache_register(N), where N is the server's id in
-- powa_servers.
\\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog, pg_temp;

{_own("Run this")}
{_where(schema)}
-- No snapshot runs meanwhile.
DO $do$ BEGIN PERFORM FROM public.powa_snapshot_metas ORDER BY srvid FOR UPDATE; END $do$;
"""
    for name, group in parts.items():
        text += "\n" + _tables(name, group, version) + _functions(name, group, version, schema) + _views(name, group, version)
    return text + "\n" + _registration(list(parts)) + "\nCOMMIT;\n"


def _tables(name: str, group: Group, version: str) -> str:
    labels = [f"{label} text NOT NULL" for label, _ in group.labels]
    keys = "".join(f"  {label},\n" for label in labels)
    columns = [f"('{metric.name}', '{_type(metric)}')" for metric in group.of(version)]
    fields = [f"{metric.name} {_type(metric)}" for metric in group.of(version)]
    server = "FOREIGN KEY (srvid) REFERENCES public.powa_servers (id) MATCH FULL ON UPDATE CASCADE ON DELETE CASCADE"
    return f"""-- {group.title}. Columns and their units: docs/monitoring.md of pg_flashcache, {group.name}_...

DROP VIEW IF EXISTS public.{name}_rates;
DROP VIEW IF EXISTS public.{name}_samples;

-- A type of before gets the columns that are new.
DO $do$
DECLARE
  item record;
BEGIN
  IF to_regtype('public.{name}_history_record') IS NULL THEN
    CREATE TYPE public.{name}_history_record AS (ts timestamp with time zone);
  END IF;
  FOR item IN
    SELECT * FROM (VALUES
      {_joined(columns, 6)}
    ) wanted(name, type)
    WHERE NOT EXISTS (
      SELECT FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
      WHERE c.oid = 'public.{name}_history_record'::regclass AND a.attname = wanted.name AND NOT a.attisdropped)
  LOOP
    EXECUTE format('ALTER TYPE public.{name}_history_record ADD ATTRIBUTE %I %s', item.name, item.type);
  END LOOP;
END
$do$;

CREATE TABLE IF NOT EXISTS public.{name}_history (
  srvid integer NOT NULL,
{keys}  coalesce_range tstzrange NOT NULL,
  records public.{name}_history_record[] NOT NULL,
  {server}
);
CREATE INDEX IF NOT EXISTS {name}_history_ts ON public.{name}_history (srvid, upper(coalesce_range));

CREATE TABLE IF NOT EXISTS public.{name}_history_current (
  srvid integer NOT NULL,
{keys}  record public.{name}_history_record NOT NULL,
  {server}
);
CREATE INDEX IF NOT EXISTS {name}_history_current_srvid ON public.{name}_history_current (srvid);

DROP TABLE IF EXISTS public.{name}_src_tmp;
CREATE UNLOGGED TABLE public.{name}_src_tmp (
  srvid integer NOT NULL,
  ts timestamp with time zone NOT NULL,
  {_joined(labels + fields, 2)}
);
"""


def _function(name: str, returns: str, body: str, declared: str = "") -> str:
    """The caller holds the lock of its server's row already, or this fails."""
    return f"""
DROP FUNCTION IF EXISTS public.{name}(integer);
CREATE FUNCTION public.{name}(_srvid integer) RETURNS {returns}
LANGUAGE plpgsql {SAFE} AS $body$
{declared}BEGIN
{body}
END
$body$;
"""


def _functions(name: str, group: Group, version: str, schema: str) -> str:
    labels = [label for label, _ in group.labels]
    metrics = group.of(version)
    columns = ["ts timestamp with time zone", *(f"{label} text" for label in labels), *(f"{m.name} {_type(m)}" for m in metrics)]
    casted = [*(f"q.{label}::text" for label in labels), *(f"q.{m.name}::{_type(m)}" for m in metrics)]
    spooled = [f"t.{item}" for item in ("ts", *labels, *(m.name for m in metrics))]
    query = group.query(version, schema).replace("\n", "\n      ")
    keys = "".join(f", {label}" for label in labels)
    of_s, of_c = ("".join(f", {alias}.{label}" for label in labels) for alias in "sc")
    lock = "  PERFORM FROM public.powa_snapshot_metas WHERE srvid = _srvid FOR UPDATE NOWAIT;\n"
    source = f"""  IF _srvid = 0 THEN
    RETURN QUERY SELECT now(), {", ".join(casted)} FROM (
      {query}
    ) q;
  ELSE
    RETURN QUERY SELECT {", ".join(spooled)} FROM public.{name}_src_tmp t WHERE t.srvid = _srvid;
  END IF;"""
    snapshot = f"""{lock}  INSERT INTO public.{name}_history_current (srvid{keys}, record)
    SELECT _srvid{of_s}, jsonb_populate_record(NULL::public.{name}_history_record, to_jsonb(s)) FROM public.{name}_src(_srvid) s;
  DELETE FROM public.{name}_src_tmp WHERE srvid = _srvid;"""
    aggregate = f"""{lock}  INSERT INTO public.{name}_history (srvid{keys}, coalesce_range, records)
    SELECT c.srvid{of_c}, tstzrange(min((c.record).ts), max((c.record).ts), '[]'), array_agg(c.record ORDER BY (c.record).ts)
    FROM public.{name}_history_current c WHERE c.srvid = _srvid GROUP BY c.srvid{of_c};
  DELETE FROM public.{name}_history_current WHERE srvid = _srvid;"""
    purge = f"""{lock}  IF _srvid = 0 THEN
    kept := current_setting('powa.retention')::interval;
  ELSE
    SELECT retention INTO STRICT kept FROM public.powa_servers WHERE id = _srvid;
  END IF;
  DELETE FROM public.{name}_history WHERE srvid = _srvid AND upper(coalesce_range) < now() - kept;"""
    reset = "".join(f"  DELETE FROM public.{name}_{table} WHERE srvid = _srvid;\n" for table in ("history", "history_current", "src_tmp"))
    return (
        _function(f"{name}_src", f"TABLE (\n  {_joined(columns, 2)}\n)", source, "#variable_conflict use_column\n")
        + _function(f"{name}_snapshot", "void", snapshot)
        + _function(f"{name}_aggregate", "void", aggregate)
        + _function(f"{name}_purge", "void", purge, "DECLARE\n  kept interval;\n")
        + _function(f"{name}_reset", "boolean", reset + "  RETURN true;")
    )


def _views(name: str, group: Group, version: str) -> str:
    """Samples as they were taken, and what happened in between."""
    labels = [label for label, _ in group.labels]
    metrics = group.of(version)
    fields = ["ts", *(metric.name for metric in metrics)]
    old = ", ".join(["h.srvid", *(f"h.{label}" for label in labels), *(f"r.{field}" for field in fields)])
    new = ", ".join(["c.srvid", *(f"c.{label}" for label in labels), *(f"(c.record).{field}" for field in fields)])
    shown = [f"s.{label}" for label in labels] + ["s.ts", "s.ts - (s.before).ts AS interval"]
    for metric in metrics:
        if metric.kind == "gauge":
            shown.append(f"s.{metric.name}")
        else:
            now, before = f"s.{metric.name}", f"(s.before).{metric.name}"
            rate = metric.name.removesuffix("_total") + "_per_second"
            shown.append(f"CASE WHEN {now} >= {before} THEN ({now} - {before}) / s.seconds END AS {rate}")
    seconds = "NULLIF(extract(epoch FROM l.ts - (l.before).ts)::double precision, 0)"
    if any(metric.name == RESET for metric in metrics):
        seconds = f"CASE WHEN l.{RESET} = (l.before).{RESET} THEN {seconds} END"
    partition = ", ".join(["s.srvid", *(f"s.{label}" for label in labels)])
    return f"""
CREATE VIEW public.{name}_samples AS
  SELECT {old}
  FROM public.{name}_history h, unnest(h.records) r
  UNION ALL
  SELECT {new}
  FROM public.{name}_history_current c;
COMMENT ON VIEW public.{name}_samples IS 'What PoWA has recorded of pg_flashcache, a row for each snapshot.';

CREATE VIEW public.{name}_rates AS
  SELECT s.srvid, {_joined(shown, 4)}
  FROM (
    SELECT l.*, {seconds} AS seconds
    FROM (
      SELECT s.*, lag(s) OVER (PARTITION BY {partition} ORDER BY s.ts) AS before FROM public.{name}_samples s
    ) l
  ) s;
COMMENT ON VIEW public.{name}_rates IS
  'The same with counters by second since the snapshot before; NULL where they were reset in between.';
"""


def _registration(names: list[str]) -> str:
    rows = [f"('snapshot', '{name}_snapshot', '{name}_src')" for name in names]
    rows += [f"('{operation}', '{name}_{operation}', NULL)" for name in names for operation in OPERATIONS[1:]]
    rows.append("('unregister', 'powa_flashcache_unregister', NULL)")
    # extname stays NULL: pg_dump leaves out powa_extensions, which it would refer to.
    register = f"""  IF _srvid = 0 AND NOT EXISTS (SELECT FROM pg_extension WHERE extname = '{MODULE}') THEN
    RETURN false;
  END IF;
  INSERT INTO public.powa_functions (srvid, module, operation, function_name, query_source, added_manually, enabled)
    SELECT _srvid, '{MODULE}', v.operation, v.function_name, v.query_source, true, true
    FROM (VALUES
      {_joined(rows, 6)}
    ) v(operation, function_name, query_source)
    WHERE NOT EXISTS (
      SELECT FROM public.powa_functions f WHERE f.srvid = _srvid AND f.module = '{MODULE}' AND f.function_name = v.function_name);
  RETURN true;"""
    unregister = f"""  DELETE FROM public.powa_functions WHERE srvid = _srvid AND module = '{MODULE}';
  RETURN true;"""
    return f"""-- For which servers: powa_flashcache_register(N), and powa_flashcache_unregister(N), which DROP EXTENSION calls too.
{_function("powa_flashcache_register", "boolean", register)}{_function("powa_flashcache_unregister", "boolean", unregister)}
-- This one, if pg_flashcache is in this database.
DO $do$ BEGIN PERFORM public.powa_flashcache_register(0); END $do$;
"""


def _unregister(version: str, schema: str) -> str:
    dropped = "".join(
        f"""DROP VIEW IF EXISTS public.{name}_rates, public.{name}_samples;
DROP TABLE IF EXISTS public.{name}_history, public.{name}_history_current, public.{name}_src_tmp;
DROP TYPE IF EXISTS public.{name}_history_record;
"""
        + "".join(f"DROP FUNCTION IF EXISTS public.{name}_{operation}(integer);\n" for operation in ("src", *OPERATIONS))
        for name in NAMES
    )
    return f"""-- {made(version, schema)}
-- Takes the module for PoWA 4.1 out of this database, WITH ALL THAT IT HAS RECORDED, for all servers:
--   psql -X -d powa -f powa-unregister.sql
-- To stop taking snapshots and keep them: SELECT public.powa_flashcache_unregister(0) (or another server's id).
\\set ON_ERROR_STOP on
BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog, pg_temp;

{_own("Run this")}
DO $do$ BEGIN PERFORM FROM public.powa_snapshot_metas ORDER BY srvid FOR UPDATE; END $do$;
DELETE FROM public.powa_functions WHERE module = '{MODULE}';
{dropped}DROP FUNCTION IF EXISTS public.powa_flashcache_register(integer), public.powa_flashcache_unregister(integer);
COMMIT;
"""

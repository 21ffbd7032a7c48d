"""Extensions that a test machine does not have: others of their names, with the views and functions that pgflash uses.

That of pg_profile has its functions' names, arguments and columns, what they do to other extensions, and a page of the form of its
reports. The page draws its sections as pg_profile's does: titles and texts are markup, what is in cells is not.
"""

from __future__ import annotations

# The server's next sample: what the table `results` says.
_PROFILE = """
CREATE TABLE @extschema@.results (server name PRIMARY KEY, result text);
INSERT INTO @extschema@.results VALUES ('local', 'OK');
CREATE TABLE @extschema@.taken (sample integer PRIMARY KEY, sample_time timestamp (0) with time zone);

CREATE FUNCTION @extschema@.take_sample() RETURNS TABLE (server name, result text, elapsed interval day to second (2)) LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM @extschema@.results r WHERE r.server = 'local' AND r.result = 'OK') THEN
        INSERT INTO @extschema@.taken SELECT coalesce(max(t.sample), 0) + 1, now() FROM @extschema@.taken t;
        DELETE FROM @extschema@.ws;
        IF EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_stat_statements') THEN
            PERFORM @extschema@.pg_stat_statements_reset();
        END IF;
    END IF;
    RETURN QUERY SELECT r.server, r.result, '1 s'::interval day to second (2) FROM @extschema@.results r;
END $$;

CREATE FUNCTION @extschema@.show_samples(days integer = NULL)
RETURNS TABLE (sample integer, sample_time timestamp (0) with time zone, sizes_collected boolean) LANGUAGE sql AS
    'SELECT sample, sample_time, false FROM @extschema@.taken ORDER BY sample';

CREATE FUNCTION @extschema@.page(data jsonb) RETURNS text LANGUAGE sql AS $$ SELECT
    '<!DOCTYPE html><html lang="en"><head><script>const data=' || data::text || '</script><title>Stand-in</title></head><body>'
    '<div id="container"></div><script>'
    'function draw(sections, parent) { for (const one of sections) {'
    '  const box = parent.appendChild(document.createElement("div")); box.id = one.sect_id;'
    '  box.appendChild(document.createElement("h3")).innerHTML = one.tbl_cap;'
    '  if (one.content) { const said = box.appendChild(document.createElement("div"));'
    '    said.className = one.content.class; said.innerHTML = one.content.text; }'
    '  (one.header || []).forEach((header, i) => { const table = box.appendChild(document.createElement("table"));'
    '    const head = table.insertRow(-1);'
    '    header.columns.forEach(column => { head.appendChild(document.createElement("th")).innerHTML = column.caption; });'
    '    for (const values of one.data[i]) { const row = table.insertRow(-1);'
    '      header.columns.forEach(column => row.insertCell(-1).appendChild(document.createTextNode(values[column.id]))); } });'
    '  draw(one.sections || [], box); } }'
    'draw(data.sections, document.getElementById("container"));'
    '</script></body></html>' $$;

CREATE FUNCTION @extschema@.sections() RETURNS jsonb LANGUAGE sql AS $$ SELECT
    '[{"sect_id": "rep_details", "tbl_cap": "Report details"}, {"sect_id": "srvstat", "tbl_cap": "Server statistics", "sections": []}]'::jsonb $$;

CREATE FUNCTION @extschema@.get_report(start_id integer, end_id integer, description text = NULL, with_growth boolean = false,
    db_exclude name[] = NULL) RETURNS text LANGUAGE sql AS $$
    SELECT @extschema@.page(jsonb_build_object('type', 1, 'datasets', '{}'::jsonb, 'sections', @extschema@.sections(),
        'properties', jsonb_build_object('start1_id', start_id, 'end1_id', end_id))) $$;

CREATE FUNCTION @extschema@.get_diffreport(start1_id integer, end1_id integer, start2_id integer, end2_id integer,
    description text = NULL, with_growth boolean = false, db_exclude name[] = NULL) RETURNS text LANGUAGE sql AS $$
    SELECT @extschema@.page(jsonb_build_object('type', 2, 'datasets', '{}'::jsonb, 'sections', @extschema@.sections(), 'properties',
        jsonb_build_object('start1_id', start1_id, 'end1_id', end1_id, 'start2_id', start2_id, 'end2_id', end2_id))) $$;
"""
# Version and script; pg_profile is made last, and knows the others.
STAND_INS = {
    "pg_wait_sampling": ("1.1", "CREATE TABLE @extschema@.ws (pid int, event_type text, event text, queryid bigint, count bigint);"
        "CREATE VIEW @extschema@.pg_wait_sampling_profile AS SELECT * FROM @extschema@.ws;"),
    "pg_stat_kcache": ("2.2.1", "CREATE TABLE @extschema@.kc (datname name, exec_user_time float8, exec_system_time float8, exec_reads bigint);"
        "CREATE VIEW @extschema@.pg_stat_kcache AS SELECT * FROM @extschema@.kc;"),
    "pg_profile": ("4.11", _PROFILE),
}  # fmt: skip

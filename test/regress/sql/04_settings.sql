-- The settings, and what they refuse.
SELECT name, vartype, context, unit, boot_val, min_val, enumvals FROM pg_settings
WHERE name LIKE 'pg\_flashcache.%' ORDER BY name COLLATE "C";

ALTER SYSTEM SET pg_flashcache.file = 'relative/path';
ALTER SYSTEM SET pg_flashcache.size = '504kB';
ALTER SYSTEM SET pg_flashcache.size = '100kB';
ALTER SYSTEM SET pg_flashcache.size = '12kB';
ALTER SYSTEM SET pg_flashcache.write_limit = '4kB';
ALTER SYSTEM SET pg_flashcache.io_timeout = '100us';
ALTER SYSTEM SET pg_flashcache.max_shutdown_delay = '100us';
ALTER SYSTEM SET pg_flashcache.size = '16TB';
ALTER SYSTEM SET pg_flashcache.write_limit = '1025GB';
-- the message has units from 16 on
\set VERBOSITY sqlstate
ALTER SYSTEM SET pg_flashcache.size = '-8kB';
ALTER SYSTEM SET pg_flashcache.write_limit = -1;
\set VERBOSITY default
ALTER SYSTEM SET pg_flashcache.size = 'large';
ALTER SYSTEM SET pg_flashcache.admission = 'sometimes';
ALTER SYSTEM SET pg_flashcache.os_cache_probe = 'on';
ALTER SYSTEM SET pg_flashcache.enabled = 'perhaps';
ALTER SYSTEM SET pg_flashcache.keep_stats = 'perhaps';
SET pg_flashcache.xyz = 1;
-- not in a session
SET pg_flashcache.file = '/tmp/flash';
SET pg_flashcache.size = '1MB';
SET pg_flashcache.enabled = off;
SET pg_flashcache.admission = 'reuse';
SET pg_flashcache.os_cache_probe = 'off';
SET pg_flashcache.write_limit = 1;
SET pg_flashcache.keep_stats = off;
-- the one that may be set in a session, by a superuser
SET pg_flashcache.verify = off;
SHOW pg_flashcache.verify;
RESET pg_flashcache.verify;
SHOW pg_flashcache.verify;
-- what can be on or off takes the spellings that the server's own take, and no shorter ones
SELECT word, set_config('pg_flashcache.track_statements', word, false) AS shown
FROM unnest('{off,auto,on,true,false,yes,no,1,0}'::text[]) word;
SET pg_flashcache.track_statements = true;
SHOW pg_flashcache.track_statements;
SET pg_flashcache.track_statements = 0;
SHOW pg_flashcache.track_statements;
SET pg_flashcache.track_statements = 't';
SET pg_flashcache.track_statements = 'sometimes';
RESET pg_flashcache.track_statements;
SHOW pg_flashcache.track_statements;
ALTER SYSTEM SET pg_flashcache.extents = 'yes';
ALTER SYSTEM SET pg_flashcache.extents = 'n';
ALTER SYSTEM RESET pg_flashcache.extents;
ALTER SYSTEM SET pg_flashcache.bypass = 0;
ALTER SYSTEM SET pg_flashcache.bypass = 1;
ALTER SYSTEM RESET pg_flashcache.bypass;
ALTER SYSTEM SET pg_flashcache.os_cache_probe = false;
ALTER SYSTEM SET pg_flashcache.os_cache_probe = true;
ALTER SYSTEM RESET pg_flashcache.os_cache_probe;
-- the limits are allowed
ALTER SYSTEM SET pg_flashcache.size = '512kB';
ALTER SYSTEM SET pg_flashcache.size = '17179869176kB';
ALTER SYSTEM SET pg_flashcache.size = 0;
ALTER SYSTEM RESET pg_flashcache.size;
-- with units and without
ALTER SYSTEM SET pg_flashcache.write_limit = '20MB';
ALTER SYSTEM SET pg_flashcache.write_limit = '1TB';
ALTER SYSTEM SET pg_flashcache.write_limit = '8kB';
ALTER SYSTEM SET pg_flashcache.write_limit = 20;
ALTER SYSTEM SET pg_flashcache.write_limit = '20MB/s';
ALTER SYSTEM RESET pg_flashcache.write_limit;
ALTER SYSTEM SET pg_flashcache.io_timeout = '2s';
ALTER SYSTEM RESET pg_flashcache.io_timeout;
-- what is shown is what is in use, to the last digit
ALTER SYSTEM SET pg_flashcache.write_limit = '1234567kB';
ALTER SYSTEM SET pg_flashcache.io_timeout = '12345.6ms';
SELECT pg_reload_conf() \g /dev/null
SELECT pg_flashcache_enable() \g /dev/null
\c
SHOW pg_flashcache.write_limit;
SHOW pg_flashcache.io_timeout;
ALTER SYSTEM SET pg_flashcache.write_limit = '1001.5kB';
SELECT pg_reload_conf() \g /dev/null
SELECT pg_flashcache_enable() \g /dev/null
\c
SHOW pg_flashcache.write_limit;
SELECT pg_size_bytes(current_setting('pg_flashcache.write_limit')) AS a_second,
  pg_size_bytes(current_setting('pg_flashcache.size')) = slots * 8192 AS size FROM pg_stat_flashcache;
ALTER SYSTEM RESET pg_flashcache.write_limit;
ALTER SYSTEM RESET pg_flashcache.io_timeout;
SELECT pg_reload_conf() \g /dev/null
-- already active
SELECT pg_flashcache_enable();
SELECT state, reason FROM pg_stat_flashcache;

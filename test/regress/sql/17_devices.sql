-- Devices: what drives say of themselves, who may report it, and bad input that changes nothing.
SELECT current_setting('pg_flashcache.file') AS file \gset
CREATE VIEW shown AS
  SELECT device, path = current_setting('pg_flashcache.file') AS first, drive, model, health, passed, used_percent AS used, spare_percent AS spare,
    media_errors AS errors, temperature AS temp, written, written_today >= 0 AS today, rated_bytes_a_day AS rated, days_left AS days,
    reported IS NOT NULL AS reported, age >= '0' AS age
  FROM pg_stat_flashcache_device_health;
-- nothing has been reported
SELECT * FROM shown;
SELECT cache_written_today >= 0 AS counted FROM pg_stat_flashcache_device_health;
-- all that a drive may say
SELECT pg_flashcache_report_drive(:'file', 'nvme0n1', 'A Drive', true, 12, 55, 10, 0, 41, 1000000, 500000);
SELECT * FROM shown;
-- more was written; its own assessment fails; its rating is as before
SELECT pg_flashcache_report_drive(:'file', 'nvme0n1', 'A Drive', false, 12, 55, 10, 3, 41, 1000500);
SELECT * FROM shown;
-- names: for databases of all encodings, and not too long
SELECT pg_flashcache_report_drive(:'file', repeat('x', 100), E'a\tb', used_percent => 130);
SELECT length(drive), model, health, used_percent, passed FROM pg_stat_flashcache_device_health;
-- spare blocks: at the threshold, below it, all of them
CREATE FUNCTION spared(threshold integer, spare integer, OUT health integer, OUT shown integer) LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_flashcache_report_drive(current_setting('pg_flashcache.file'), 'sdz', spare_percent => spare, spare_threshold => threshold);
  SELECT h.health, h.spare_threshold INTO health, shown FROM pg_stat_flashcache_device_health h;
END
$$;
SELECT threshold, spare, s.health, s.shown
FROM (VALUES (0, 0), (0, 1), (10, 55), (99, 99), (99, 100), (100, 95), (100, 100)) v (threshold, spare), spared(threshold, spare) s;
-- a drive that says nothing, and is not the one that was rated
SELECT pg_flashcache_report_drive(:'file', 'sda');
SELECT * FROM shown;
-- what makes no sense changes nothing
SELECT pg_flashcache_report_drive(:'file', 'sdb', used_percent => -1);
SELECT pg_flashcache_report_drive(:'file', 'sdb', spare_percent => 101);
SELECT pg_flashcache_report_drive(:'file', 'sdb', temperature => 5000);
SELECT pg_flashcache_report_drive(:'file', 'sdb', written => -5);
SELECT pg_flashcache_report_drive(:'file', 'sdb', rated_bytes_a_day => 0);
SELECT pg_flashcache_report_drive(:'file', '');
SELECT pg_flashcache_report_drive(:'file', '  ');
SELECT pg_flashcache_report_drive(:'file', E'sdb\n');
SELECT pg_flashcache_report_drive(:'file', E'sdb\x7f');
SELECT pg_flashcache_report_drive('/no/such/device', 'sdb');
SELECT pg_flashcache_report_drive(NULL, 'sdb');
SELECT pg_flashcache_report_drive(:'file', NULL);
SELECT drive FROM shown;
-- who may
CREATE ROLE fc_reports;
GRANT pg_monitor TO fc_reports;
SET ROLE fc_reports;
SELECT drive FROM pg_stat_flashcache_device_health;
SELECT pg_flashcache_report_drive('/no/such/device', 'sdb');
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_flashcache_report_drive(text, text, text, boolean, integer, integer, integer, bigint, integer, bigint, bigint) TO fc_reports;
SET ROLE fc_reports;
SELECT pg_flashcache_report_drive('/no/such/device', 'sdb');
RESET ROLE;
REVOKE pg_monitor FROM fc_reports;
SET ROLE fc_reports;
SELECT drive FROM pg_stat_flashcache_device_health;
SELECT * FROM pg_flashcache_device_health_rows();
RESET ROLE;
DROP OWNED BY fc_reports;
DROP ROLE fc_reports;
-- declared otherwise than by the script
CREATE FUNCTION health_one(OUT device integer) RETURNS SETOF integer AS '$libdir/pg_flashcache', 'fc_device_health_rows' LANGUAGE C;
SELECT * FROM health_one();
CREATE FUNCTION report_less(text, text) RETURNS void AS '$libdir/pg_flashcache', 'fc_report_drive' LANGUAGE C;
SELECT report_less('/x', 'y');
CREATE FUNCTION devices_one(OUT device integer) RETURNS SETOF integer AS '$libdir/pg_flashcache', 'fc_devices_rows' LANGUAGE C;
SELECT * FROM devices_one();
CREATE FUNCTION add_less(text) RETURNS void AS '$libdir/pg_flashcache', 'fc_add_device' LANGUAGE C;
SELECT add_less('/x');
CREATE FUNCTION remove_more(text, bigint) RETURNS void AS '$libdir/pg_flashcache', 'fc_remove_device' LANGUAGE C;
SELECT remove_more('/x', 1);
-- bad input
SELECT pg_flashcache_add_device('relative', 1 << 20);
SELECT pg_flashcache_add_device('/tmp/fc_no_such_folder/x', 1);
SELECT pg_flashcache_resize_device('/no/such/device', -1);
SELECT pg_flashcache_remove_device('/no/such/device');
SELECT pg_flashcache_enable_device('/no/such/device');
SELECT pg_flashcache_disable_device('/no/such/device');
SELECT count(*) AS devices FROM pg_stat_flashcache_device;
DROP VIEW shown;
DROP FUNCTION spared(integer, integer), health_one(), report_less(text, text), devices_one(), add_less(text), remove_more(text, bigint);

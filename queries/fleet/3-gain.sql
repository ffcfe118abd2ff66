-- Which databases would write and read least in comparison with today, if each role had its best recordsize?
-- Views fleet_gain_role, fleet_gain (a row per database, by bytes saved per second) and fleet_gain_total (one row).
-- Run traces.sql, summary.sql and cost.sql before. This is arithmetic, not a measurement (docs/fleet.md).
--
--   rank                place by saved_bytes_s
--   host, database      all recordings of a database count together
--   traces, duration_s  recordings, and the sum of their lengths in seconds, at least 1
--   changes             roles whose best recordsize differs from the present one: role:present>best, in bytes
--   assumed             whether a present recordsize in changes is assumed, because datasets.tsv does not contain it
--   write_bytes, read_bytes  bytes that the database wrote and read
--   present_write_bytes, best_write_bytes  bytes of records and indirect blocks written at the present and the best recordsizes
--   present_load_bytes, best_load_bytes    bytes of records read, each once in a recording
--   saved_write_bytes, saved_load_bytes    the differences
--   saved_bytes_s       both differences per second of recording
--   saved_share         saved bytes / bytes at the present recordsizes

CREATE OR REPLACE VIEW fleet_gain_role AS
WITH cost AS (
    SELECT t.host, t.database, f.role, f.mountpoint, f.recordsize AS present_recordsize, bool_and(f.recorded) AS recorded, c.recordsize, c.present,
           sum(c.record_bytes + c.indirect_bytes)::BIGINT AS write_cost, sum(c.load_bytes)::BIGINT AS load_cost, sum(c.cost)::BIGINT AS cost
    FROM fleet_cost c JOIN fleet_file f USING (id, file) JOIN fleet_trace t USING (id)
    GROUP BY ALL
), good AS (
    SELECT *, cost <= min(cost) OVER role * (1 + coalesce(getvariable('slack'), 0.1)) AS good
    FROM cost WINDOW role AS (PARTITION BY host, database, role, mountpoint, present_recordsize)
), choice AS (
    SELECT *, coalesce(max(recordsize) FILTER (good AND present) OVER role, max(recordsize) FILTER (good) OVER role) AS best_recordsize
    FROM good WINDOW role AS (PARTITION BY host, database, role, mountpoint, present_recordsize)
)
SELECT host, database, role, mountpoint, present_recordsize, best_recordsize, recorded,
       max(write_cost) FILTER (present) AS present_write_bytes, max(write_cost) FILTER (recordsize = best_recordsize) AS best_write_bytes,
       max(load_cost) FILTER (present) AS present_load_bytes, max(load_cost) FILTER (recordsize = best_recordsize) AS best_load_bytes
FROM choice
GROUP BY ALL;

CREATE OR REPLACE VIEW fleet_gain AS
WITH duration AS (
    SELECT host, database, count(*) AS traces, greatest(sum(duration_s), 1) AS duration_s FROM fleet_trace GROUP BY ALL
), moved AS (
    SELECT host, database, sum(write_bytes)::BIGINT AS write_bytes, sum(read_bytes)::BIGINT AS read_bytes
    FROM fleet_file JOIN fleet_trace USING (id) GROUP BY ALL
), saved AS (
    SELECT host, database,
           coalesce(string_agg(role || ':' || present_recordsize || '>' || best_recordsize, ' ' ORDER BY role, mountpoint, present_recordsize)
               FILTER (best_recordsize <> present_recordsize), '') AS changes,
           coalesce(bool_or(NOT recorded) FILTER (best_recordsize <> present_recordsize), false) AS assumed,
           sum(present_write_bytes)::BIGINT AS present_write_bytes, sum(best_write_bytes)::BIGINT AS best_write_bytes,
           sum(present_load_bytes)::BIGINT AS present_load_bytes, sum(best_load_bytes)::BIGINT AS best_load_bytes
    FROM fleet_gain_role
    GROUP BY ALL
)
SELECT row_number() OVER (ORDER BY (present_write_bytes - best_write_bytes + present_load_bytes - best_load_bytes) / duration_s DESC, host, database) AS rank,
       host, database, d.traces, d.duration_s, s.changes, s.assumed, m.write_bytes, m.read_bytes,
       present_write_bytes, best_write_bytes, present_load_bytes, best_load_bytes,
       present_write_bytes - best_write_bytes AS saved_write_bytes, present_load_bytes - best_load_bytes AS saved_load_bytes,
       round((saved_write_bytes + saved_load_bytes) / d.duration_s, 0) AS saved_bytes_s,
       round((saved_write_bytes + saved_load_bytes) / nullif(present_write_bytes + present_load_bytes, 0), 4) AS saved_share
FROM saved s JOIN duration d USING (host, database) JOIN moved m USING (host, database);

CREATE OR REPLACE VIEW fleet_gain_total AS
SELECT count(*) AS databases, count_if(changes <> '') AS databases_with_changes, sum(traces)::BIGINT AS traces, sum(duration_s) AS duration_s,
       sum(write_bytes)::BIGINT AS write_bytes, sum(read_bytes)::BIGINT AS read_bytes,
       sum(present_write_bytes)::BIGINT AS present_write_bytes, sum(best_write_bytes)::BIGINT AS best_write_bytes,
       sum(present_load_bytes)::BIGINT AS present_load_bytes, sum(best_load_bytes)::BIGINT AS best_load_bytes,
       sum(saved_write_bytes)::BIGINT AS saved_write_bytes, sum(saved_load_bytes)::BIGINT AS saved_load_bytes,
       sum(saved_bytes_s) AS saved_bytes_s,
       round((sum(saved_write_bytes) + sum(saved_load_bytes)) / nullif(sum(present_write_bytes) + sum(present_load_bytes), 0), 4) AS saved_share
FROM fleet_gain;

SELECT * FROM fleet_gain ORDER BY rank LIMIT 1000;
SELECT * FROM fleet_gain_total;

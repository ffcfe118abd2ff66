-- Which files have a recordsize that does not fit their I/O? Table fleet_recordsize, a row per trace and file;
-- ../2-recordsize.sql describes the columns. This is arithmetic, not a measurement (docs/fleet.md).

DROP TABLE IF EXISTS fleet_recordsize;
CREATE TABLE fleet_recordsize ENGINE = MergeTree ORDER BY tuple() AS
WITH good AS (
    SELECT *, cost <= min(cost) OVER (PARTITION BY id, file) * (1 + {slack:Float64}) AS good FROM fleet_cost
), best AS (
    SELECT *, max(if(good AND present, recordsize, 0)) OVER (PARTITION BY id, file) AS present_if_good,
           if(present_if_good > 0, present_if_good, max(if(good, recordsize, 0)) OVER (PARTITION BY id, file)) AS best_recordsize
    FROM good
), candidate AS (
    SELECT id, file, best_recordsize,
           maxIf(record_bytes + indirect_bytes, present) AS present_write, maxIf(load_often_bytes, present) AS present_read,
           maxIf(cost, present) AS present_cost,
           maxIf(record_bytes + indirect_bytes, recordsize = best_recordsize) AS best_write,
           maxIf(load_often_bytes, recordsize = best_recordsize) AS best_read, maxIf(cost, recordsize = best_recordsize) AS best_cost,
           maxIf(record_bytes, recordsize = 4096) AS b4k, maxIf(record_bytes, recordsize = 8192) AS b8k,
           maxIf(record_bytes, recordsize = 16384) AS b16k, maxIf(record_bytes, recordsize = 32768) AS b32k,
           maxIf(record_bytes, recordsize = 65536) AS b64k, maxIf(record_bytes, recordsize = 131072) AS b128k,
           maxIf(record_bytes, recordsize = 262144) AS b256k, maxIf(record_bytes, recordsize = 524288) AS b512k,
           maxIf(record_bytes, recordsize = 1048576) AS b1m
    FROM best GROUP BY id, file, best_recordsize
), shape AS (
    SELECT f.id AS id, f.file AS file, maxIf(c.recordsize, c.writes_aligned >= 0.99 * f.writes AND f.writes > 0) AS write_alignment,
           maxIf(c.recordsize, c.reads_aligned >= 0.99 * f.reads AND f.reads > 0) AS read_alignment,
           maxIf(c.writes_partial, c.recordsize = f.recordsize) AS writes_partial
    FROM fleet_candidate AS c JOIN fleet_file AS f ON f.id = c.id AND f.file = c.file
    GROUP BY id, file
)
SELECT t.host AS host, t.date AS date, t.database AS database, f.role AS role, f.path AS path, f.recordsize AS recordsize, f.recorded AS recorded,
       c.best_recordsize AS best_recordsize, f.writes AS writes, f.write_bytes AS write_bytes, f.reads AS reads, f.read_bytes AS read_bytes,
       round(f.write_bytes / nullIf(f.writes, 0), 0) AS mean_write, round(f.read_bytes / nullIf(f.reads, 0), 0) AS mean_read,
       round(f.writes_4k / nullIf(f.writes, 0), 4) AS writes_4k, round(f.writes_16k / nullIf(f.writes, 0), 4) AS writes_16k,
       round(f.writes_128k / nullIf(f.writes, 0), 4) AS writes_128k, s.write_alignment AS write_alignment, s.read_alignment AS read_alignment,
       round(s.writes_partial / nullIf(f.writes, 0), 4) AS partial_share,
       round(c.present_write / nullIf(f.write_bytes, 0), 2) AS write_amp, round(c.best_write / nullIf(f.write_bytes, 0), 2) AS best_write_amp,
       round(b4k / nullIf(f.write_bytes, 0), 2) AS wa_4k, round(b8k / nullIf(f.write_bytes, 0), 2) AS wa_8k,
       round(b16k / nullIf(f.write_bytes, 0), 2) AS wa_16k, round(b32k / nullIf(f.write_bytes, 0), 2) AS wa_32k,
       round(b64k / nullIf(f.write_bytes, 0), 2) AS wa_64k, round(b128k / nullIf(f.write_bytes, 0), 2) AS wa_128k,
       round(b256k / nullIf(f.write_bytes, 0), 2) AS wa_256k, round(b512k / nullIf(f.write_bytes, 0), 2) AS wa_512k,
       round(b1m / nullIf(f.write_bytes, 0), 2) AS wa_1m,
       round(c.present_read / nullIf(f.read_bytes, 0), 2) AS read_amp, round(c.best_read / nullIf(f.read_bytes, 0), 2) AS best_read_amp,
       c.present_cost - c.best_cost AS excess_bytes, t.trace AS trace
FROM candidate AS c
JOIN fleet_file AS f ON f.id = c.id AND f.file = c.file
JOIN shape AS s ON s.id = c.id AND s.file = c.file
JOIN fleet_trace AS t ON t.id = c.id;

SELECT * FROM fleet_recordsize WHERE excess_bytes > 0 ORDER BY excess_bytes DESC, trace, path LIMIT 1000;

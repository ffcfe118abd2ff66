-- Which files have a recordsize that does not fit their I/O? View fleet_recordsize, a row per trace and file.
-- Run traces.sql, summary.sql and cost.sql before. This is arithmetic, not a measurement (docs/fleet.md).
--
--   host, date, database, role, path  the file
--   recordsize            present recordsize in bytes; recorded: whether datasets.tsv says so, otherwise it is assumed
--   best_recordsize       the present one if it is good; otherwise the largest good candidate. Good: its cost exceeds the least by at most slack
--   writes, write_bytes, reads, read_bytes
--   mean_write, mean_read bytes per operation
--   writes_4k, writes_16k, writes_128k  share of the writes of at most that size
--   write_alignment, read_alignment     largest candidate that divides the offset and length of 99 % of them; 0: none does
--   partial_share         share of the writes that are smaller than a present record and not sequential: read, change, write
--   write_amp             bytes of touched records and indirect blocks / bytes written, at the present recordsize
--   best_write_amp        the same at best_recordsize
--   wa_4k ... wa_1m       the same without indirect blocks, at each candidate
--   read_amp              bytes of records read, each once in an interval / bytes read, at the present recordsize; best_read_amp
--   excess_bytes          cost at the present recordsize minus cost at best_recordsize

CREATE OR REPLACE VIEW fleet_recordsize AS
WITH least AS (
    SELECT id, file, min(cost) AS least FROM fleet_cost GROUP BY ALL
), good AS (
    SELECT c.*, c.cost <= l.least * (1 + coalesce(getvariable('slack'), 0.1)) AS good FROM fleet_cost c JOIN least l USING (id, file)
), best AS (
    SELECT id, file, coalesce(max(recordsize) FILTER (good AND present), max(recordsize) FILTER (good)) AS best_recordsize
    FROM good GROUP BY ALL
), candidate AS (
    SELECT c.id, c.file, b.best_recordsize,
           max(record_bytes + indirect_bytes) FILTER (present) AS present_write, max(load_often_bytes) FILTER (present) AS present_read,
           max(cost) FILTER (present) AS present_cost,
           max(record_bytes + indirect_bytes) FILTER (c.recordsize = b.best_recordsize) AS best_write,
           max(load_often_bytes) FILTER (c.recordsize = b.best_recordsize) AS best_read,
           max(cost) FILTER (c.recordsize = b.best_recordsize) AS best_cost,
           max(record_bytes) FILTER (c.recordsize = 4096) AS b4k, max(record_bytes) FILTER (c.recordsize = 8192) AS b8k,
           max(record_bytes) FILTER (c.recordsize = 16384) AS b16k, max(record_bytes) FILTER (c.recordsize = 32768) AS b32k,
           max(record_bytes) FILTER (c.recordsize = 65536) AS b64k, max(record_bytes) FILTER (c.recordsize = 131072) AS b128k,
           max(record_bytes) FILTER (c.recordsize = 262144) AS b256k, max(record_bytes) FILTER (c.recordsize = 524288) AS b512k,
           max(record_bytes) FILTER (c.recordsize = 1048576) AS b1m
    FROM fleet_cost c JOIN best b USING (id, file)
    GROUP BY ALL
), shape AS (
    SELECT f.id, f.file, coalesce(max(c.recordsize) FILTER (c.writes_aligned >= 0.99 * f.writes AND f.writes > 0), 0) AS write_alignment,
           coalesce(max(c.recordsize) FILTER (c.reads_aligned >= 0.99 * f.reads AND f.reads > 0), 0) AS read_alignment,
           max(c.writes_partial) FILTER (c.recordsize = f.recordsize) AS writes_partial
    FROM fleet_candidate c JOIN fleet_file f USING (id, file)
    GROUP BY ALL
)
SELECT t.host, t.date, t.database, f.role, f.path, f.recordsize, f.recorded, c.best_recordsize, f.writes, f.write_bytes, f.reads, f.read_bytes,
       round(f.write_bytes / nullif(f.writes, 0), 0) AS mean_write, round(f.read_bytes / nullif(f.reads, 0), 0) AS mean_read,
       round(f.writes_4k / nullif(f.writes, 0), 4) AS writes_4k, round(f.writes_16k / nullif(f.writes, 0), 4) AS writes_16k,
       round(f.writes_128k / nullif(f.writes, 0), 4) AS writes_128k, s.write_alignment, s.read_alignment,
       round(s.writes_partial / nullif(f.writes, 0), 4) AS partial_share,
       round(c.present_write / nullif(f.write_bytes, 0), 2) AS write_amp, round(c.best_write / nullif(f.write_bytes, 0), 2) AS best_write_amp,
       round(b4k / nullif(f.write_bytes, 0), 2) AS wa_4k, round(b8k / nullif(f.write_bytes, 0), 2) AS wa_8k,
       round(b16k / nullif(f.write_bytes, 0), 2) AS wa_16k, round(b32k / nullif(f.write_bytes, 0), 2) AS wa_32k,
       round(b64k / nullif(f.write_bytes, 0), 2) AS wa_64k, round(b128k / nullif(f.write_bytes, 0), 2) AS wa_128k,
       round(b256k / nullif(f.write_bytes, 0), 2) AS wa_256k, round(b512k / nullif(f.write_bytes, 0), 2) AS wa_512k,
       round(b1m / nullif(f.write_bytes, 0), 2) AS wa_1m,
       round(c.present_read / nullif(f.read_bytes, 0), 2) AS read_amp, round(c.best_read / nullif(f.read_bytes, 0), 2) AS best_read_amp,
       c.present_cost - c.best_cost AS excess_bytes, t.trace
FROM candidate c
JOIN fleet_file f USING (id, file)
JOIN shape s USING (id, file)
JOIN fleet_trace t USING (id);

SELECT * FROM fleet_recordsize WHERE excess_bytes > 0 ORDER BY excess_bytes DESC, trace, path LIMIT 1000;

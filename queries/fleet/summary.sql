-- Scans the events of the traces once and keeps their sums, on which the questions 1 to 5 work. Run traces.sql before.
-- docs/fleet.md defines the terms and the formulas.
--
-- fleet_file, a row per trace and file with events:
--   id, file, path, role, recordsize, ...  as in fleet_path; size is at least the largest offset that was read or written
--   events                             events of every kind
--   reads, writes, read_bytes, write_bytes
--   reads_sequential, writes_sequential  operations that begin where the thread's previous one in this direction ended
--   writes_4k, writes_16k, writes_128k   writes of at most that size
--   syncs, sync_ns, sync_max_ns        calls of fsync and fdatasync, the sum and maximum of their durations
--   flagged_writes                     writes that were durable when they returned (O_SYNC, O_DSYNC)
--   synced_writes, synced_bytes        flagged writes, and writes that a later sync call on the file made durable
--   synced_small                       synced writes below 32K, which the log contains
--   blocks_read, blocks_written, blocks  distinct blocks of 128K
-- fleet_candidate, a row per trace, file and candidate recordsize (4K to 1M, and the present one):
--   writes_partial    writes smaller than a record and not sequential
--   writes_aligned    writes whose offset and length are multiples of the recordsize; reads_aligned likewise
--   written_records   distinct records written, summed over the intervals
--   written_indirect  distinct groups of 1024 records written, summed over the intervals
--   loaded_records    distinct records that were read, or written in part by a write that is not sequential
--   loaded_in_intervals  the same, but distinct within an interval, and summed over the intervals

CREATE OR REPLACE TEMP TABLE fleet_operation AS
SELECT id, file, is_write, txg, "offset", len, flagged,
       coalesce(lag("offset" + len) OVER (PARTITION BY id, file, tid, is_write ORDER BY t_ns, "offset") = "offset", false) AS sequential,
       t_ns
FROM (
    SELECT id, file, op = 'write' AS is_write, (t_ns // (coalesce(getvariable('txg_seconds'), 5) * 1e9)::BIGINT)::INTEGER AS txg,
           "offset", len, (flags & 2) <> 0 AS flagged, tid, t_ns
    FROM fleet_event
    WHERE op IN ('read', 'write')
);

CREATE OR REPLACE TABLE fleet_file AS
WITH called AS (
    SELECT id, file, count(*) AS events, count_if(op IN ('fsync', 'fdatasync')) AS syncs,
           coalesce(sum(dur_ns) FILTER (op IN ('fsync', 'fdatasync')), 0)::BIGINT AS sync_ns,
           coalesce(max(dur_ns) FILTER (op IN ('fsync', 'fdatasync')), 0) AS sync_max_ns,
           max(t_ns) FILTER (op IN ('fsync', 'fdatasync')) AS last_sync
    FROM fleet_event
    GROUP BY ALL
), moved AS (
    SELECT o.id, o.file, max(o."offset" + o.len) AS extent,
           count_if(NOT is_write) AS reads, count_if(is_write) AS writes,
           coalesce(sum(len) FILTER (NOT is_write), 0)::BIGINT AS read_bytes, coalesce(sum(len) FILTER (is_write), 0)::BIGINT AS write_bytes,
           count_if(NOT is_write AND sequential) AS reads_sequential, count_if(is_write AND sequential) AS writes_sequential,
           count_if(is_write AND len <= 4096) AS writes_4k, count_if(is_write AND len <= 16384) AS writes_16k,
           count_if(is_write AND len <= 131072) AS writes_128k, count_if(is_write AND flagged) AS flagged_writes,
           count_if(is_write AND (flagged OR o.t_ns < c.last_sync)) AS synced_writes,
           coalesce(sum(len) FILTER (is_write AND (flagged OR o.t_ns < c.last_sync)), 0)::BIGINT AS synced_bytes,
           count_if(is_write AND (flagged OR o.t_ns < c.last_sync) AND len < 32768) AS synced_small
    FROM fleet_operation o JOIN called c USING (id, file)
    GROUP BY ALL
), block AS (
    SELECT id, file, block, bool_or(NOT is_write) AS is_read, bool_or(is_write) AS is_written
    FROM (SELECT id, file, is_write, unnest(range("offset" >> 17, (("offset" + len - 1) >> 17) + 1)) AS block FROM fleet_operation WHERE len > 0)
    GROUP BY ALL
), blocks AS (
    SELECT id, file, count_if(is_read) AS blocks_read, count_if(is_written) AS blocks_written, count(*) AS blocks FROM block GROUP BY ALL
)
SELECT p.* EXCLUDE (size), greatest(p.size, coalesce(m.extent, 0)) AS size, c.events, c.syncs, c.sync_ns, c.sync_max_ns,
       coalesce(COLUMNS(m.* EXCLUDE (id, file, extent)), 0), coalesce(COLUMNS(b.* EXCLUDE (id, file)), 0)
FROM called c
JOIN fleet_path p USING (id, file)
LEFT JOIN moved m USING (id, file)
LEFT JOIN blocks b USING (id, file);

-- Equal operations of an interval touch the same records, so one of each is enough. s is the recordsize's logarithm.
CREATE OR REPLACE TEMP TABLE fleet_touch AS
SELECT o.id, o.file, o.is_write, o.txg, o."offset", o.len, o.sequential, count(*) AS n
FROM fleet_operation o GROUP BY ALL;

CREATE OR REPLACE TABLE fleet_candidate AS
WITH candidate AS (
    SELECT id, file, unnest(list_distinct(list_append(range(12, 21), log2(recordsize)::BIGINT)))::INTEGER AS s FROM fleet_file
    WHERE reads + writes > 0
), shape AS (
    SELECT c.id, c.file, c.s, sum(n) FILTER (is_write AND len > 0 AND len < (1::BIGINT << s) AND NOT sequential) AS writes_partial,
           sum(n) FILTER (is_write AND ("offset" | len) & ((1::BIGINT << s) - 1) = 0) AS writes_aligned,
           sum(n) FILTER (NOT is_write AND ("offset" | len) & ((1::BIGINT << s) - 1) = 0) AS reads_aligned
    FROM candidate c JOIN fleet_touch o USING (id, file)
    GROUP BY ALL
), written_record AS (
    SELECT DISTINCT c.id, c.file, c.s, o.txg, unnest(range("offset" >> s, (("offset" + len - 1) >> s) + 1)) AS record
    FROM candidate c JOIN fleet_touch o USING (id, file)
    WHERE is_write AND len > 0
), written_group AS (
    SELECT id, file, s, txg, record >> 10 AS indirect, count(*) AS records FROM written_record GROUP BY ALL
), written AS (
    SELECT id, file, s, sum(records) AS written_records, count(*) AS written_indirect FROM written_group GROUP BY ALL
), read_record AS (
    SELECT c.id, c.file, c.s, o.txg, o.is_write, o."offset", o.len, unnest(range("offset" >> s, (("offset" + len - 1) >> s) + 1)) AS record
    FROM candidate c JOIN fleet_touch o USING (id, file)
    WHERE len > 0 AND NOT (is_write AND sequential)
), loaded_record AS (
    SELECT id, file, s, record, count(DISTINCT txg) AS intervals
    FROM read_record
    WHERE NOT is_write OR (record << s) < "offset" OR ((record + 1) << s) > "offset" + len
    GROUP BY ALL
), loaded AS (
    SELECT id, file, s, count(*) AS loaded_records, sum(intervals) AS loaded_in_intervals FROM loaded_record GROUP BY ALL
)
SELECT id, file, 1::BIGINT << s AS recordsize,
       coalesce(writes_partial, 0)::BIGINT AS writes_partial,
       coalesce(writes_aligned, 0)::BIGINT AS writes_aligned,
       coalesce(reads_aligned, 0)::BIGINT AS reads_aligned,
       coalesce(written_records, 0)::BIGINT AS written_records,
       coalesce(written_indirect, 0)::BIGINT AS written_indirect,
       coalesce(loaded_records, 0)::BIGINT AS loaded_records,
       coalesce(loaded_in_intervals, 0)::BIGINT AS loaded_in_intervals
FROM candidate
LEFT JOIN shape USING (id, file, s)
LEFT JOIN written USING (id, file, s)
LEFT JOIN loaded USING (id, file, s);

DROP TABLE fleet_touch;
DROP TABLE fleet_operation;

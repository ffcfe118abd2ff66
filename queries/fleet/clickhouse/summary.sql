-- Scans the events of the traces with ClickHouse and keeps their sums. Run traces.sql before; it names the parameters.
-- The tables fleet_file and fleet_candidate are those of ../summary.sql, and the view fleet_cost is that of ../cost.sql; they describe the
-- columns.

DROP TABLE IF EXISTS fleet_operation;
CREATE TABLE fleet_operation ENGINE = MergeTree ORDER BY (id, file) AS
SELECT id, file, is_write, txg, offset, len, flagged,
       lagInFrame(offset + len, 1, -1) OVER (PARTITION BY id, file, tid, is_write ORDER BY t_ns, offset
           ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) = offset AS sequential,
       t_ns
FROM (
    SELECT cityHash64(CAST(_path AS String)) AS id, file, op = 'write' AS is_write, toInt32(intDiv(t_ns, toInt64({txg_seconds:Float64} * 1e9))) AS txg,
           offset, len, bitAnd(flags, 2) <> 0 AS flagged, tid, t_ns
    FROM file({traces:String}, 'Parquet', 't_ns Int64, op String, file UInt32, offset Int64, len Int64, tid UInt32, flags UInt16')
    WHERE op IN ('read', 'write')
);

DROP TABLE IF EXISTS fleet_file;
CREATE TABLE fleet_file ENGINE = MergeTree ORDER BY (id, file) AS
WITH called AS (
    SELECT cityHash64(CAST(_path AS String)) AS id, file, toInt64(count()) AS events, toInt64(countIf(op IN ('fsync', 'fdatasync'))) AS syncs,
           sumIf(dur_ns, op IN ('fsync', 'fdatasync')) AS sync_ns, maxIf(dur_ns, op IN ('fsync', 'fdatasync')) AS sync_max_ns,
           maxIf(t_ns, op IN ('fsync', 'fdatasync')) AS last_sync
    FROM file({traces:String}, 'Parquet', 't_ns Int64, dur_ns Int64, op String, file UInt32')
    GROUP BY id, file
), moved AS (
    SELECT o.id AS id, o.file AS file, max(offset + len) AS extent,
           toInt64(countIf(NOT is_write)) AS reads, toInt64(countIf(is_write)) AS writes,
           sumIf(len, NOT is_write) AS read_bytes, sumIf(len, is_write) AS write_bytes,
           toInt64(countIf(NOT is_write AND sequential)) AS reads_sequential, toInt64(countIf(is_write AND sequential)) AS writes_sequential,
           toInt64(countIf(is_write AND len <= 4096)) AS writes_4k, toInt64(countIf(is_write AND len <= 16384)) AS writes_16k,
           toInt64(countIf(is_write AND len <= 131072)) AS writes_128k, toInt64(countIf(is_write AND flagged)) AS flagged_writes,
           toInt64(countIf(is_write AND (flagged OR t_ns < last_sync))) AS synced_writes,
           sumIf(len, is_write AND (flagged OR t_ns < last_sync)) AS synced_bytes,
           toInt64(countIf(is_write AND (flagged OR t_ns < last_sync) AND len < 32768)) AS synced_small
    FROM fleet_operation AS o JOIN called AS c ON c.id = o.id AND c.file = o.file
    GROUP BY id, file
), block AS (
    SELECT id, file, arrayJoin(range(bitShiftRight(offset, 17), bitShiftRight(offset + len - 1, 17) + 1)) AS block,
           max(NOT is_write) AS is_read, max(is_write) AS is_written
    FROM fleet_operation WHERE len > 0
    GROUP BY id, file, block
), blocks AS (
    SELECT id, file, toInt64(countIf(is_read)) AS blocks_read, toInt64(countIf(is_written)) AS blocks_written, toInt64(count()) AS blocks
    FROM block GROUP BY id, file
)
SELECT p.id AS id, p.file AS file, p.path AS path, p.role AS role, p.mountpoint AS mountpoint, p.recordsize AS recordsize,
       p.compression AS compression, p.logbias AS logbias, p.recorded AS recorded, greatest(p.size, m.extent) AS size,
       c.events AS events, c.syncs AS syncs, c.sync_ns AS sync_ns, c.sync_max_ns AS sync_max_ns,
       m.* EXCEPT (id, file, extent), b.* EXCEPT (id, file)
FROM called AS c
JOIN fleet_path AS p ON p.id = c.id AND p.file = c.file
LEFT JOIN moved AS m ON m.id = c.id AND m.file = c.file
LEFT JOIN blocks AS b ON b.id = c.id AND b.file = c.file;

-- Equal operations of an interval touch the same records, so one of each is enough. s is the recordsize's logarithm.
DROP TABLE IF EXISTS fleet_touch;
CREATE TABLE fleet_touch ENGINE = MergeTree ORDER BY (id, file) AS
SELECT o.id AS id, o.file AS file, is_write, txg, offset, len, sequential, toInt64(count()) AS n,
       any(arrayDistinct(arrayPushBack(range(12, 21), toUInt8(round(log2(f.recordsize)))))) AS candidates
FROM fleet_operation AS o JOIN fleet_file AS f ON f.id = o.id AND f.file = o.file
GROUP BY id, file, is_write, txg, offset, len, sequential;

DROP TABLE IF EXISTS fleet_candidate;
CREATE TABLE fleet_candidate ENGINE = MergeTree ORDER BY (id, file, recordsize) AS
WITH candidate AS (
    SELECT id, file, arrayJoin(arrayDistinct(arrayPushBack(range(12, 21), toUInt8(round(log2(recordsize)))))) AS s
    FROM fleet_file WHERE reads + writes > 0
), shape AS (
    SELECT id, file, arrayJoin(candidates) AS s, sumIf(n, is_write AND len > 0 AND len < bitShiftLeft(toInt64(1), s) AND NOT sequential) AS writes_partial,
           sumIf(n, is_write AND bitAnd(bitOr(offset, len), bitShiftLeft(toInt64(1), s) - 1) = 0) AS writes_aligned,
           sumIf(n, NOT is_write AND bitAnd(bitOr(offset, len), bitShiftLeft(toInt64(1), s) - 1) = 0) AS reads_aligned
    FROM fleet_touch GROUP BY id, file, s
), touched AS (
    SELECT id, file, s, txg, is_write, sequential, offset, len,
           arrayJoin(range(bitShiftRight(offset, s), bitShiftRight(offset + len - 1, s) + 1)) AS record
    FROM (SELECT *, arrayJoin(candidates) AS s FROM fleet_touch WHERE len > 0)
), written AS (
    SELECT id, file, s, toInt64(sum(records)) AS written_records, toInt64(count()) AS written_indirect
    FROM (
        SELECT id, file, s, txg, bitShiftRight(record, 10) AS indirect, count() AS records
        FROM (SELECT DISTINCT id, file, s, txg, record FROM touched WHERE is_write)
        GROUP BY id, file, s, txg, indirect
    )
    GROUP BY id, file, s
), loaded AS (
    SELECT id, file, s, toInt64(count()) AS loaded_records, toInt64(sum(intervals)) AS loaded_in_intervals
    FROM (
        SELECT id, file, s, record, uniqExact(txg) AS intervals
        FROM touched
        WHERE NOT (is_write AND sequential)
          AND (NOT is_write OR bitShiftLeft(record, s) < offset OR bitShiftLeft(record + 1, s) > offset + len)
        GROUP BY id, file, s, record
    )
    GROUP BY id, file, s
)
SELECT c.id AS id, c.file AS file, bitShiftLeft(toInt64(1), c.s) AS recordsize,
       writes_partial, writes_aligned, reads_aligned, written_records, written_indirect, loaded_records, loaded_in_intervals
FROM candidate AS c
LEFT JOIN shape AS h ON h.id = c.id AND h.file = c.file AND h.s = c.s
LEFT JOIN written AS w ON w.id = c.id AND w.file = c.file AND w.s = c.s
LEFT JOIN loaded AS l ON l.id = c.id AND l.file = c.file AND l.s = c.s;

DROP TABLE fleet_touch;
DROP TABLE fleet_operation;

DROP VIEW IF EXISTS fleet_cost;
CREATE VIEW fleet_cost AS
SELECT id, file, recordsize, present, record_bytes, indirect_bytes, load_bytes, load_often_bytes,
       record_bytes + indirect_bytes + load_bytes AS cost
FROM (
    SELECT c.id AS id, c.file AS file, c.recordsize AS recordsize, c.recordsize = f.recordsize AS present,
           if(f.size <= c.recordsize, intDiv(f.size + 511, 512) * 512, c.recordsize) AS block,
           if(f.size <= c.recordsize, 0,
              2 * greatest(4096, 32 * least(1024, intDiv(f.size + c.recordsize - 1, c.recordsize)))) AS indirect,
           written_records * block AS record_bytes, written_indirect * indirect AS indirect_bytes,
           loaded_records * block AS load_bytes, loaded_in_intervals * block AS load_often_bytes
    FROM fleet_candidate AS c JOIN fleet_file AS f ON f.id = c.id AND f.file = c.file
);

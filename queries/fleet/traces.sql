-- Reads the footers of the traces: run this file first, then summary.sql, cost.sql, and the questions 1 to 5 (docs/fleet.md).
--
-- Variables, to be set before:
--   traces              glob of the traces, or a list of globs
--   datasets            glob of the hosts' datasets.tsv, if collected; the path contains host=NAME like those of the traces
--   default_recordsize  recordsize of files whose dataset is not recorded, in bytes (131072, OpenZFS's default)
--   txg_seconds         length of an interval that stands for a transaction group (5, zfs_txg_timeout)
--   slack               a recordsize counts as good if its cost exceeds the least cost by at most this share (0.1)
--
-- fleet_trace, a row per trace:
--   trace       path of the trace
--   id          hash of that path; the key of the trace in all tables
--   host, date  from host=NAME and date=DAY in the path; without them, host is the name of the file and date is empty
--   database    recorded subject, such as dir:/var/lib/mysql
--   kernel, cores, creator            from the footer; cores 0: unknown
--   duration_s                        length of the recording in seconds
--   lost_events, unseen               events dropped, and operations that the recorder could not see
--   trace_bytes                       size of the trace in bytes
-- fleet_dataset, a row per host and dataset, from datasets.tsv:
--   host, mountpoint, recordsize (bytes), compression, logbias, arc_bytes (limit of the ARC in bytes)
-- fleet_path, a row per trace and file of its table:
--   id, file, path, role ('unknown' if empty), size (bytes at the end), mountpoint, recordsize (bytes), compression, logbias,
--   recorded (whether the recordsize comes from datasets.tsv)

CREATE OR REPLACE VIEW fleet_event AS
SELECT hash(filename) AS id, t_ns, dur_ns, op, file, "offset", len, tid, flags
FROM read_parquet(getvariable('traces'), filename = true);

CREATE OR REPLACE TABLE fleet_trace AS
WITH meta AS (
    SELECT file_name AS trace, decode(value)::JSON AS m
    FROM parquet_kv_metadata(getvariable('traces'))
    WHERE decode(key) = 'poolwright.meta'
), sizes AS (
    SELECT filename AS trace, size AS trace_bytes FROM read_blob(getvariable('traces'))
)
SELECT
    hash(trace) AS id,
    trace,
    CASE WHEN trace LIKE '%host=%' THEN regexp_extract(trace, 'host=([^/]+)', 1)
         ELSE regexp_extract(trace, '([^/]+?)(\.parquet)?$', 1) END AS host,
    regexp_extract(trace, 'date=([^/]+)', 1) AS date,
    m ->> '$.subject' AS database,
    m ->> '$.host' AS kernel,
    coalesce((m ->> '$.cores')::INTEGER, 0) AS cores,
    m ->> '$.creator' AS creator,
    (m ->> '$.duration_ns')::BIGINT / 1e9 AS duration_s,
    (m ->> '$.lost_events')::BIGINT AS lost_events,
    coalesce(list_sum((m ->> '$.unseen[*][1]')::BIGINT[]), 0)::BIGINT AS unseen,
    trace_bytes
FROM meta JOIN sizes USING (trace);

-- read_text, unlike read_csv, accepts a glob without files.
CREATE OR REPLACE TABLE fleet_dataset AS
WITH line AS (
    SELECT regexp_extract(filename, 'host=([^/]+)', 1) AS host, string_split(unnest(string_split(content, chr(10))), chr(9)) AS f
    FROM read_text(coalesce(getvariable('datasets'), 'no such file'))
)
SELECT DISTINCT host, f[1] AS mountpoint, try_cast(f[2] AS BIGINT) AS recordsize, f[3] AS compression, f[4] AS logbias,
       try_cast(f[5] AS BIGINT) AS arc_bytes
FROM line
WHERE f[1] LIKE '/%' AND try_cast(f[2] AS BIGINT) > 0;

-- A file belongs to the dataset of its host with the longest mountpoint that contains it.
CREATE OR REPLACE TABLE fleet_path AS
WITH entry AS (
    SELECT file_name AS trace, (decode(value)::JSON -> '$[*]')::JSON[] AS files
    FROM parquet_kv_metadata(getvariable('traces'))
    WHERE decode(key) = 'poolwright.files'
), numbered AS (
    SELECT trace, unnest(range(len(files))) AS file, unnest(files) AS f FROM entry
), path AS (
    SELECT t.id, t.host, n.file::UINTEGER AS file, n.f ->> '$.path' AS path, coalesce(nullif(n.f ->> '$.role', ''), 'unknown') AS role,
           (n.f ->> '$.size')::BIGINT AS size
    FROM numbered n JOIN fleet_trace t USING (trace)
), mount AS (
    SELECT p.id, p.file, arg_max(d, length(d.mountpoint)) AS d
    FROM path p JOIN fleet_dataset d
        ON d.host = p.host AND (d.mountpoint = '/' OR starts_with(p.path, d.mountpoint || '/'))
    GROUP BY ALL
)
SELECT p.id, p.file, p.path, p.role, p.size, coalesce(m.d.mountpoint, '') AS mountpoint,
       coalesce(m.d.recordsize, getvariable('default_recordsize'), 131072)::BIGINT AS recordsize,
       coalesce(m.d.compression, '') AS compression, coalesce(m.d.logbias, '') AS logbias, m.d IS NOT NULL AS recorded
FROM path p LEFT JOIN mount m USING (id, file);

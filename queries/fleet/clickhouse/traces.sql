-- Reads the footers of the traces with ClickHouse: run this file first, then summary.sql, then the questions 1 to 5 (docs/fleet.md).
--
-- Parameters (clickhouse local --param_traces=..., or SET param_traces = '...'):
--   traces              glob of the traces; for an object store, replace file( by s3( in traces.sql and summary.sql
--   datasets            glob of the hosts' datasets.tsv; a pattern without matches, such as none-*, if they were not collected
--   default_recordsize  recordsize of files whose dataset is not recorded, in bytes (131072 is OpenZFS's default)
--   txg_seconds         length of an interval that stands for a transaction group (5 is zfs_txg_timeout); used by summary.sql
--   slack               a recordsize counts as good if its cost exceeds the least cost by at most this share (0.1); used by 2 and 3
--
-- The tables fleet_trace, fleet_dataset and fleet_path are those of ../traces.sql, which describes their columns. `recorded` is 0 or 1.
-- ClickHouse does not show a Parquet file's key-value metadata, so this file reads each trace as bytes and finds the last footer:
-- the last 8 bytes are its length and PAR1; a key is followed by a field header (18 hexadecimal), the length of the value as a
-- variable-length integer, and the value. One trace per thread is in memory as a whole.

DROP TABLE IF EXISTS fleet_footer;
CREATE TABLE fleet_footer ENGINE = MergeTree ORDER BY tuple() AS
WITH
    reinterpretAsUInt32(substring(raw_blob, -8, 4)) AS footer_length,
    substring(raw_blob, -8 - footer_length, footer_length) AS footer,
    -- Start and length of the value of a key.
    (key) -> position(footer, key) + length(key) AS start,
    (at) -> reinterpretAsUInt64(substring(footer, at, 5)) AS word,
    (w) -> arrayFirstIndex(i -> bitAnd(bitShiftRight(w, 8 * (i - 1)), 128) = 0, [1, 2, 3, 4, 5]) AS digits,
    (w) -> arraySum(i -> if(i <= digits(w), bitShiftLeft(bitAnd(bitShiftRight(w, 8 * (i - 1)), 127), 7 * (i - 1)), 0), [1, 2, 3, 4, 5]) AS value_length,
    (key) -> substring(footer, start(key) + digits(word(start(key))), value_length(word(start(key)))) AS value
SELECT CAST(_path AS String) AS trace, length(raw_blob) AS trace_bytes,
       value('\x0fpoolwright.meta\x18') AS meta, value('\x10poolwright.files\x18') AS files
FROM file({traces:String}, 'RawBLOB', 'raw_blob String');

DROP TABLE IF EXISTS fleet_trace;
CREATE TABLE fleet_trace ENGINE = MergeTree ORDER BY id AS
SELECT
    cityHash64(trace) AS id,
    trace,
    if(position(trace, 'host=') > 0, extract(trace, 'host=([^/]+)'), extract(trace, '([^/]+?)(?:\\.parquet)?$')) AS host,
    extract(trace, 'date=([^/]+)') AS date,
    JSONExtractString(meta, 'subject') AS database,
    JSONExtractString(meta, 'host') AS kernel,
    JSONExtractInt(meta, 'cores') AS cores,
    JSONExtractString(meta, 'creator') AS creator,
    JSONExtractInt(meta, 'duration_ns') / 1e9 AS duration_s,
    JSONExtractInt(meta, 'lost_events') AS lost_events,
    toInt64(arraySum(x -> x.2, JSONExtract(meta, 'unseen', 'Array(Tuple(String, UInt64))'))) AS unseen,
    trace_bytes
FROM fleet_footer;

DROP TABLE IF EXISTS fleet_dataset;
CREATE TABLE fleet_dataset ENGINE = MergeTree ORDER BY host AS
SELECT DISTINCT extract(CAST(_path AS String), 'host=([^/]+)') AS host, f[1] AS mountpoint, toInt64OrZero(f[2]) AS recordsize, f[3] AS compression, f[4] AS logbias,
       toInt64OrNull(f[5]) AS arc_bytes
FROM (SELECT _path, splitByChar('\t', line) AS f FROM file({datasets:String}, 'LineAsString', 'line String'))
WHERE startsWith(f[1], '/') AND recordsize > 0;

-- A file belongs to the dataset of its host with the longest mountpoint that contains it.
DROP TABLE IF EXISTS fleet_path;
CREATE TABLE fleet_path ENGINE = MergeTree ORDER BY (id, file) AS
WITH path AS (
    SELECT t.id AS id, t.host AS host, toUInt32(n.1 - 1) AS file, n.2.1 AS path, if(n.2.2 = '', 'unknown', n.2.2) AS role, toInt64(n.2.3) AS size
    FROM (
        SELECT trace, arrayJoin(arrayZip(arrayEnumerate(entries), entries)) AS n
        FROM (SELECT trace, JSONExtract(files, 'Array(Tuple(path String, role String, size UInt64))') AS entries FROM fleet_footer)
    ) AS e
    JOIN fleet_trace AS t ON t.trace = e.trace
), mount AS (
    SELECT p.id AS id, p.file AS file, argMax((d.mountpoint, d.recordsize, d.compression, d.logbias), length(d.mountpoint)) AS d
    FROM path AS p JOIN fleet_dataset AS d ON d.host = p.host
    WHERE d.mountpoint = '/' OR startsWith(p.path, concat(d.mountpoint, '/'))
    GROUP BY id, file
)
SELECT p.id AS id, p.file AS file, p.path AS path, p.role AS role, p.size AS size, m.d.1 AS mountpoint,
       if(m.d.2 > 0, m.d.2, {default_recordsize:Int64}) AS recordsize, m.d.3 AS compression, m.d.4 AS logbias, m.d.2 > 0 AS recorded
FROM path AS p LEFT JOIN mount AS m ON m.id = p.id AND m.file = p.file;

DROP TABLE fleet_footer;

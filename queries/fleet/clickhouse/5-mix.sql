-- How do the databases use their files: reads or writes, in order or not, and how much of them? Table fleet_mix, a row per database;
-- ../5-mix.sql describes the columns.

DROP TABLE IF EXISTS fleet_mix;
CREATE TABLE fleet_mix ENGINE = MergeTree ORDER BY tuple() AS
WITH totals AS (
    SELECT t.id AS id, t.host AS host, t.database AS database, any(t.duration_s) AS duration_s, sum(f.reads) AS reads, sum(f.writes) AS writes,
           sum(f.read_bytes) AS read_bytes, sum(f.write_bytes) AS write_bytes, sum(f.reads_sequential) AS reads_sequential,
           sum(f.writes_sequential) AS writes_sequential, sum(f.blocks_read) * 131072 AS read_set, sum(f.blocks_written) * 131072 AS write_set,
           sum(f.blocks) * 131072 AS working_set, sum(f.size) AS file_bytes
    FROM fleet_trace AS t JOIN fleet_file AS f ON f.id = t.id
    GROUP BY id, host, database
), arc AS (
    SELECT host, max(d.arc_bytes) AS arc_bytes FROM fleet_dataset AS d GROUP BY host
), mix AS (
    SELECT host, database, greatest(sum(x.duration_s), 1) AS duration_s, sum(x.reads) AS reads, sum(x.writes) AS writes,
           sum(x.read_bytes) AS read_bytes, sum(x.write_bytes) AS write_bytes, sum(x.reads_sequential) AS reads_sequential,
           sum(x.writes_sequential) AS writes_sequential, max(read_set) AS read_set_bytes, max(write_set) AS write_set_bytes,
           max(working_set) AS working_set_bytes, max(x.file_bytes) AS file_bytes
    FROM totals AS x GROUP BY host, database
)
SELECT m.host AS host, m.database AS database, m.duration_s AS duration_s, round(reads / duration_s, 3) AS reads_s, round(writes / duration_s, 3) AS writes_s,
       round(read_bytes / duration_s, 0) AS read_bytes_s, round(write_bytes / duration_s, 0) AS write_bytes_s,
       round(reads / nullIf(reads + writes, 0), 4) AS read_share, round(read_bytes / nullIf(read_bytes + write_bytes, 0), 4) AS read_byte_share,
       round(reads_sequential / nullIf(reads, 0), 4) AS sequential_reads, round(writes_sequential / nullIf(writes, 0), 4) AS sequential_writes,
       read_set_bytes, write_set_bytes, working_set_bytes, file_bytes, a.arc_bytes AS arc_bytes,
       round(working_set_bytes / a.arc_bytes, 4) AS arc_ratio
FROM mix AS m LEFT JOIN arc AS a ON a.host = m.host;

SELECT * FROM fleet_mix ORDER BY arc_ratio DESC NULLS LAST, host, database LIMIT 1000;

-- How do the databases use their files: reads or writes, in order or not, and how much of them? View fleet_mix, a row per database.
-- Run traces.sql and summary.sql before.
--
--   host, database      all recordings of a database count together
--   duration_s          sum of the lengths of the recordings in seconds, at least 1
--   reads_s, writes_s, read_bytes_s, write_bytes_s  operations and bytes per second
--   read_share, read_byte_share  share of the reads in reads and writes, by operations and by bytes
--   sequential_reads, sequential_writes  share of them that begin where the thread's previous one on the file ended
--   read_set_bytes, write_set_bytes, working_set_bytes  bytes of distinct 128K blocks that were read, written, or either;
--                       the largest of the recordings. It grows with their length, so it is a lower bound of the working set
--   file_bytes          sizes of the files with events; the largest of the recordings
--   arc_bytes           limit of the host's ARC; NULL if not recorded
--   arc_ratio           working_set_bytes / arc_bytes: above 1, the recording alone does not fit into the ARC

CREATE OR REPLACE VIEW fleet_mix AS
WITH trace AS (
    SELECT t.id, t.host, t.database, t.duration_s, sum(reads)::BIGINT AS reads, sum(writes)::BIGINT AS writes, sum(read_bytes)::BIGINT AS read_bytes,
           sum(write_bytes)::BIGINT AS write_bytes, sum(reads_sequential)::BIGINT AS reads_sequential,
           sum(writes_sequential)::BIGINT AS writes_sequential, sum(blocks_read)::BIGINT * 131072 AS read_set,
           sum(blocks_written)::BIGINT * 131072 AS write_set, sum(blocks)::BIGINT * 131072 AS working_set, sum(size)::BIGINT AS file_bytes
    FROM fleet_trace t JOIN fleet_file f USING (id)
    GROUP BY ALL
), arc AS (
    SELECT host, max(arc_bytes) AS arc_bytes FROM fleet_dataset GROUP BY host
), mix AS (
    SELECT host, database, greatest(sum(duration_s), 1) AS duration_s, sum(reads)::BIGINT AS reads, sum(writes)::BIGINT AS writes,
           sum(read_bytes)::BIGINT AS read_bytes, sum(write_bytes)::BIGINT AS write_bytes, sum(reads_sequential)::BIGINT AS reads_sequential,
           sum(writes_sequential)::BIGINT AS writes_sequential, max(read_set) AS read_set_bytes, max(write_set) AS write_set_bytes,
           max(working_set) AS working_set_bytes, max(file_bytes) AS file_bytes
    FROM trace GROUP BY ALL
)
SELECT m.host, m.database, duration_s, round(reads / duration_s, 3) AS reads_s, round(writes / duration_s, 3) AS writes_s,
       round(read_bytes / duration_s, 0) AS read_bytes_s, round(write_bytes / duration_s, 0) AS write_bytes_s,
       round(reads / nullif(reads + writes, 0), 4) AS read_share, round(read_bytes / nullif(read_bytes + write_bytes, 0), 4) AS read_byte_share,
       round(reads_sequential / nullif(reads, 0), 4) AS sequential_reads, round(writes_sequential / nullif(writes, 0), 4) AS sequential_writes,
       read_set_bytes, write_set_bytes, working_set_bytes, file_bytes, a.arc_bytes, round(working_set_bytes / a.arc_bytes, 4) AS arc_ratio
FROM mix m LEFT JOIN arc a USING (host);

SELECT * FROM fleet_mix ORDER BY arc_ratio DESC NULLS LAST, host, database LIMIT 1000;

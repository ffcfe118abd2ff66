-- Which traces are there, and what do they contain? View fleet_inventory, a row per trace. Run traces.sql and summary.sql before.
--
--   host, date, database    see traces.sql
--   duration_s              length of the recording in seconds
--   events, lost_events     recorded events, and events that were lost; a trace with many lost ones understates everything
--   unseen                  operations that the recorder could not see
--   reads, writes, syncs    operations
--   read_bytes, write_bytes bytes moved by them
--   synced_share            share of the writes that are durable: flagged, or followed by a sync of the file
--   files                   files with events
--   recordsizes, compressions  of the datasets of these files, in bytes, with commas; empty if not recorded
--   bytes_per_event         size of the trace per event, in bytes
--   trace                   path of the trace

CREATE OR REPLACE VIEW fleet_inventory AS
WITH file AS (
    SELECT id, sum(events)::BIGINT AS events, sum(reads)::BIGINT AS reads, sum(writes)::BIGINT AS writes, sum(syncs)::BIGINT AS syncs,
           sum(read_bytes)::BIGINT AS read_bytes, sum(write_bytes)::BIGINT AS write_bytes, sum(synced_writes) AS synced_writes, count(*) AS files,
           string_agg(DISTINCT recordsize::VARCHAR, ',' ORDER BY recordsize::VARCHAR) FILTER (recorded) AS recordsizes,
           string_agg(DISTINCT compression, ',' ORDER BY compression) FILTER (recorded) AS compressions
    FROM fleet_file GROUP BY id
)
SELECT t.host, t.date, t.database, t.duration_s, coalesce(f.events, 0) AS events, t.lost_events, t.unseen,
       coalesce(f.reads, 0) AS reads, coalesce(f.writes, 0) AS writes, coalesce(f.syncs, 0) AS syncs,
       coalesce(f.read_bytes, 0) AS read_bytes, coalesce(f.write_bytes, 0) AS write_bytes,
       round(f.synced_writes / nullif(f.writes, 0), 4) AS synced_share, coalesce(f.files, 0) AS files,
       coalesce(f.recordsizes, '') AS recordsizes, coalesce(f.compressions, '') AS compressions,
       round(t.trace_bytes / nullif(f.events, 0), 1) AS bytes_per_event, t.trace
FROM fleet_trace t LEFT JOIN file f USING (id);

SELECT * FROM fleet_inventory ORDER BY host, date, trace;

-- Which databases wait for many small synced writes? View fleet_sync, a row per database and role with synced writes or syncs.
-- Run traces.sql and summary.sql before. These are candidates for trials, not measurements (docs/fleet.md).
--
--   host, database, role, logbias  logbias of the datasets, with commas; empty if not recorded
--   duration_s           sum of the lengths of the recordings in seconds, at least 1
--   syncs_s              calls of fsync and fdatasync per second
--   flagged_writes_s     writes per second that were durable when they returned (O_SYNC, O_DSYNC)
--   commits_s            both: the rate at which the log is forced
--   synced_writes, synced_bytes  writes that are durable (see 1-inventory.sql), and their bytes
--   synced_share         share of the writes
--   small_share          share of the synced writes below 32K, whose data the log contains (zfs_immediate_write_sz)
--   bytes_per_commit     synced_bytes / commits
--   log_bytes_s          bytes per second that the log writes for them: bytes_per_commit + 192, rounded up to 4K, times commits_s
--   sync_wait_share      duration of the sync calls / duration of the recordings; with several threads, it can exceed 1
--   mean_sync_ms, max_sync_ms  milliseconds per sync call
--   candidate            slog: commits_s is at least 50 and bytes_per_commit below 64K; logbias: bytes_per_commit is at least 64K and
--                        synced bytes are at least 1M per second; otherwise empty

CREATE OR REPLACE VIEW fleet_sync AS
WITH duration AS (
    SELECT host, database, greatest(sum(duration_s), 1) AS duration_s FROM fleet_trace GROUP BY ALL
), role AS (
    SELECT t.host, t.database, f.role, coalesce(string_agg(DISTINCT f.logbias, ',' ORDER BY f.logbias) FILTER (f.logbias <> ''), '') AS logbias,
           sum(syncs)::BIGINT AS syncs, sum(flagged_writes)::BIGINT AS flagged_writes, sum(f.syncs + f.flagged_writes)::BIGINT AS commits, sum(writes)::BIGINT AS writes,
           sum(synced_writes)::BIGINT AS synced_writes, sum(synced_bytes)::BIGINT AS synced_bytes, sum(synced_small)::BIGINT AS synced_small,
           sum(sync_ns)::BIGINT AS sync_ns, max(sync_max_ns) AS sync_max_ns
    FROM fleet_file f JOIN fleet_trace t USING (id)
    GROUP BY ALL
)
SELECT r.host, r.database, r.role, r.logbias, d.duration_s,
       round(syncs / d.duration_s, 3) AS syncs_s, round(flagged_writes / d.duration_s, 3) AS flagged_writes_s,
       round(commits / d.duration_s, 3) AS commits_s, synced_writes, synced_bytes, round(synced_writes / nullif(writes, 0), 4) AS synced_share,
       round(synced_small / nullif(synced_writes, 0), 4) AS small_share, round(synced_bytes / commits, 0) AS bytes_per_commit,
       round(ceil((synced_bytes / commits + 192) / 4096) * 4096 * commits / d.duration_s, 0) AS log_bytes_s,
       round(sync_ns / 1e9 / d.duration_s, 4) AS sync_wait_share,
       round(sync_ns / 1e6 / nullif(syncs, 0), 3) AS mean_sync_ms, round(sync_max_ns / 1e6, 3) AS max_sync_ms,
       CASE WHEN commits / d.duration_s >= 50 AND synced_bytes / commits < 65536 THEN 'slog'
            WHEN synced_bytes / commits >= 65536 AND synced_bytes / d.duration_s >= 1048576 THEN 'logbias'
            ELSE '' END AS candidate
FROM role r JOIN duration d USING (host, database)
WHERE commits > 0;

SELECT * FROM fleet_sync ORDER BY commits_s DESC, host, database, role LIMIT 1000;

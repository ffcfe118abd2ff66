-- Which databases wait for many small synced writes? Table fleet_sync, a row per database and role with synced writes or syncs;
-- ../4-sync.sql describes the columns. These are candidates for trials, not measurements (docs/fleet.md).

DROP TABLE IF EXISTS fleet_sync;
CREATE TABLE fleet_sync ENGINE = MergeTree ORDER BY tuple() AS
WITH duration AS (
    SELECT host, database, greatest(sum(t.duration_s), 1) AS duration_s FROM fleet_trace AS t GROUP BY host, database
), roles AS (
    SELECT t.host AS host, t.database AS database, f.role AS role,
           arrayStringConcat(arraySort(groupUniqArrayIf(f.logbias, f.logbias <> '')), ',') AS logbias,
           sum(f.syncs) AS syncs, sum(f.flagged_writes) AS flagged_writes, sum(f.syncs + f.flagged_writes) AS commits, sum(f.writes) AS writes,
           sum(f.synced_writes) AS synced_writes, sum(f.synced_bytes) AS synced_bytes, sum(f.synced_small) AS synced_small,
           sum(f.sync_ns) AS sync_ns, max(f.sync_max_ns) AS sync_max_ns
    FROM fleet_file AS f JOIN fleet_trace AS t ON t.id = f.id
    GROUP BY host, database, role
)
SELECT r.host AS host, r.database AS database, r.role AS role, r.logbias AS logbias, d.duration_s AS duration_s,
       round(syncs / d.duration_s, 3) AS syncs_s, round(flagged_writes / d.duration_s, 3) AS flagged_writes_s,
       round(commits / d.duration_s, 3) AS commits_s, synced_writes, synced_bytes, round(synced_writes / nullIf(writes, 0), 4) AS synced_share,
       round(synced_small / nullIf(synced_writes, 0), 4) AS small_share, round(synced_bytes / commits, 0) AS bytes_per_commit,
       round(ceil((synced_bytes / commits + 192) / 4096) * 4096 * commits / d.duration_s, 0) AS log_bytes_s,
       round(sync_ns / 1e9 / d.duration_s, 4) AS sync_wait_share,
       round(sync_ns / 1e6 / nullIf(syncs, 0), 3) AS mean_sync_ms, round(sync_max_ns / 1e6, 3) AS max_sync_ms,
       multiIf(commits / d.duration_s >= 50 AND synced_bytes / commits < 65536, 'slog',
               synced_bytes / commits >= 65536 AND synced_bytes / d.duration_s >= 1048576, 'logbias', '') AS candidate
FROM roles AS r JOIN duration AS d ON d.host = r.host AND d.database = r.database
WHERE commits > 0;

SELECT * FROM fleet_sync ORDER BY commits_s DESC, host, database, role LIMIT 1000;

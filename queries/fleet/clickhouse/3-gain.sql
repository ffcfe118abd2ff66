-- Which databases would write and read least in comparison with today, if each role had its best recordsize?
-- Tables fleet_gain_role, fleet_gain and fleet_gain_total; ../3-gain.sql describes the columns. This is arithmetic, not a measurement
-- (docs/fleet.md).

DROP TABLE IF EXISTS fleet_gain_role;
CREATE TABLE fleet_gain_role ENGINE = MergeTree ORDER BY tuple() AS
WITH costs AS (
    SELECT t.host AS host, t.database AS database, f.role AS role, f.mountpoint AS mountpoint, f.recordsize AS present_recordsize,
           min(f.recorded) AS recorded, c.recordsize AS recordsize, c.present AS present,
           sum(c.record_bytes + c.indirect_bytes) AS write_cost, sum(c.load_bytes) AS load_cost, write_cost + load_cost AS cost
    FROM fleet_cost AS c JOIN fleet_file AS f ON f.id = c.id AND f.file = c.file JOIN fleet_trace AS t ON t.id = c.id
    GROUP BY host, database, role, mountpoint, present_recordsize, recordsize, present
), good AS (
    SELECT *, cost <= min(cost) OVER (PARTITION BY host, database, role, mountpoint, present_recordsize) * (1 + {slack:Float64}) AS good
    FROM costs
), choice AS (
    SELECT *, max(if(good AND present, recordsize, 0)) OVER (PARTITION BY host, database, role, mountpoint, present_recordsize) AS present_if_good,
           if(present_if_good > 0, present_if_good,
              max(if(good, recordsize, 0)) OVER (PARTITION BY host, database, role, mountpoint, present_recordsize)) AS best_recordsize
    FROM good
)
SELECT host, database, role, mountpoint, present_recordsize, best_recordsize, min(recorded) AS recorded,
       maxIf(write_cost, present) AS present_write_bytes, maxIf(write_cost, recordsize = best_recordsize) AS best_write_bytes,
       maxIf(load_cost, present) AS present_load_bytes, maxIf(load_cost, recordsize = best_recordsize) AS best_load_bytes
FROM choice
GROUP BY host, database, role, mountpoint, present_recordsize, best_recordsize;

DROP TABLE IF EXISTS fleet_gain;
CREATE TABLE fleet_gain ENGINE = MergeTree ORDER BY tuple() AS
WITH duration AS (
    SELECT host, database, toInt64(count()) AS traces, greatest(sum(t.duration_s), 1) AS duration_s
    FROM fleet_trace AS t GROUP BY host, database
), moved AS (
    SELECT host, database, sum(f.write_bytes) AS write_bytes, sum(f.read_bytes) AS read_bytes
    FROM fleet_file AS f JOIN fleet_trace AS t ON t.id = f.id GROUP BY host, database
), saved AS (
    SELECT host, database,
           arrayStringConcat(arrayMap(x -> x.4, arraySort(groupArrayIf(
               (role, mountpoint, present_recordsize, concat(role, ':', toString(present_recordsize), '>', toString(best_recordsize))),
               best_recordsize <> present_recordsize))), ' ') AS changes,
           maxIf(NOT recorded, best_recordsize <> present_recordsize) AS assumed,
           sum(r.present_write_bytes) AS present_write_bytes, sum(r.best_write_bytes) AS best_write_bytes,
           sum(r.present_load_bytes) AS present_load_bytes, sum(r.best_load_bytes) AS best_load_bytes
    FROM fleet_gain_role AS r GROUP BY host, database
)
SELECT row_number() OVER (ORDER BY (present_write_bytes - best_write_bytes + present_load_bytes - best_load_bytes) / d.duration_s DESC, s.host, s.database) AS rank,
       s.host AS host, s.database AS database, d.traces AS traces, d.duration_s AS duration_s, s.changes AS changes, s.assumed AS assumed,
       m.write_bytes AS write_bytes, m.read_bytes AS read_bytes,
       s.present_write_bytes AS present_write_bytes, s.best_write_bytes AS best_write_bytes,
       s.present_load_bytes AS present_load_bytes, s.best_load_bytes AS best_load_bytes,
       s.present_write_bytes - s.best_write_bytes AS saved_write_bytes, s.present_load_bytes - s.best_load_bytes AS saved_load_bytes,
       round((saved_write_bytes + saved_load_bytes) / d.duration_s, 0) AS saved_bytes_s,
       round((saved_write_bytes + saved_load_bytes) / nullIf(s.present_write_bytes + s.present_load_bytes, 0), 4) AS saved_share
FROM saved AS s
JOIN duration AS d ON d.host = s.host AND d.database = s.database
JOIN moved AS m ON m.host = s.host AND m.database = s.database;

DROP TABLE IF EXISTS fleet_gain_total;
CREATE TABLE fleet_gain_total ENGINE = MergeTree ORDER BY tuple() AS
SELECT toInt64(count()) AS databases, toInt64(countIf(changes <> '')) AS databases_with_changes, sum(g.traces) AS traces, sum(g.duration_s) AS duration_s,
       sum(g.write_bytes) AS write_bytes, sum(g.read_bytes) AS read_bytes,
       sum(g.present_write_bytes) AS present_write_bytes, sum(g.best_write_bytes) AS best_write_bytes,
       sum(g.present_load_bytes) AS present_load_bytes, sum(g.best_load_bytes) AS best_load_bytes,
       sum(g.saved_write_bytes) AS saved_write_bytes, sum(g.saved_load_bytes) AS saved_load_bytes, sum(g.saved_bytes_s) AS saved_bytes_s,
       round((sum(g.saved_write_bytes) + sum(g.saved_load_bytes)) / nullIf(sum(g.present_write_bytes) + sum(g.present_load_bytes), 0), 4) AS saved_share
FROM fleet_gain AS g;

SELECT * FROM fleet_gain ORDER BY rank LIMIT 1000;
SELECT * FROM fleet_gain_total;

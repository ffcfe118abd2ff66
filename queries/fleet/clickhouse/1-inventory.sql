-- Which traces are there, and what do they contain? Table fleet_inventory, a row per trace; ../1-inventory.sql describes the columns.

DROP TABLE IF EXISTS fleet_inventory;
CREATE TABLE fleet_inventory ENGINE = MergeTree ORDER BY tuple() AS
WITH totals AS (
    SELECT id, sum(f.events) AS events, sum(f.reads) AS reads, sum(f.writes) AS writes, sum(f.syncs) AS syncs,
           sum(f.read_bytes) AS read_bytes, sum(f.write_bytes) AS write_bytes, sum(f.synced_writes) AS synced_writes, toInt64(count()) AS files,
           arrayStringConcat(arraySort(groupUniqArrayIf(toString(f.recordsize), recorded)), ',') AS recordsizes,
           arrayStringConcat(arraySort(groupUniqArrayIf(f.compression, recorded)), ',') AS compressions
    FROM fleet_file AS f GROUP BY id
)
SELECT t.host AS host, t.date AS date, t.database AS database, t.duration_s AS duration_s, f.events AS events, t.lost_events AS lost_events,
       t.unseen AS unseen, f.reads AS reads, f.writes AS writes, f.syncs AS syncs, f.read_bytes AS read_bytes, f.write_bytes AS write_bytes,
       round(f.synced_writes / nullIf(f.writes, 0), 4) AS synced_share, f.files AS files, f.recordsizes AS recordsizes,
       f.compressions AS compressions, round(t.trace_bytes / nullIf(f.events, 0), 1) AS bytes_per_event, t.trace AS trace
FROM fleet_trace AS t LEFT JOIN totals AS f ON f.id = t.id;

SELECT * FROM fleet_inventory ORDER BY host, date, trace;

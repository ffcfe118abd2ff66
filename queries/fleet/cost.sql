-- Defines the view fleet_cost, bytes of a trace's file with a candidate recordsize. Run summary.sql or load.sql before.
--
--   present         whether the file's dataset has this recordsize now
--   record_bytes    records written: written_records times the size of a block
--   indirect_bytes  indirect blocks written with them
--   load_bytes      records read, each once in the recording (a cache that keeps everything)
--   load_often_bytes  records read, each once in an interval (a cache that keeps the last seconds)
--   cost            record_bytes + indirect_bytes + load_bytes
-- A file that fits into one record has one block of its size, rounded up to 512 bytes, and no indirect block.
-- An indirect block has 1024 pointers of 128 bytes, compresses to a quarter, at least 4K, and is written twice.
CREATE OR REPLACE VIEW fleet_cost AS
SELECT id, file, recordsize, present, record_bytes, indirect_bytes, load_bytes, load_often_bytes,
       record_bytes + indirect_bytes + load_bytes AS cost
FROM (
    SELECT id, file, c.recordsize, c.recordsize = f.recordsize AS present,
           CASE WHEN f.size <= c.recordsize THEN (f.size + 511) // 512 * 512 ELSE c.recordsize END AS block,
           CASE WHEN f.size <= c.recordsize THEN 0
                ELSE 2 * greatest(4096, 32 * least(1024, (f.size + c.recordsize - 1) // c.recordsize)) END AS indirect,
           written_records * block AS record_bytes, written_indirect * indirect AS indirect_bytes,
           loaded_records * block AS load_bytes, loaded_in_intervals * block AS load_often_bytes
    FROM fleet_candidate c JOIN fleet_file f USING (id, file)
);

-- Loads the sums that save.sql saved for batches of traces. Run cost.sql and the questions 1 to 5 afterwards.
--
-- Variable, to be set before:
--   summaries  glob of the directories, such as summaries/*

CREATE OR REPLACE TABLE fleet_trace AS FROM read_parquet(getvariable('summaries') || '/trace.parquet');
CREATE OR REPLACE TABLE fleet_dataset AS SELECT DISTINCT * FROM read_parquet(getvariable('summaries') || '/dataset.parquet');
CREATE OR REPLACE TABLE fleet_file AS FROM read_parquet(getvariable('summaries') || '/file.parquet');
CREATE OR REPLACE TABLE fleet_candidate AS FROM read_parquet(getvariable('summaries') || '/candidate.parquet');

-- Saves the sums of summary.sql as Parquet files into an existing directory, some KiB per trace, so that traces can be scanned in batches.
-- Run summary.sql before. load.sql reads the sums of many batches.
--
-- Variable, to be set before:
--   summary  the directory

COPY fleet_trace TO (getvariable('summary') || '/trace.parquet') (FORMAT parquet, COMPRESSION zstd);
COPY fleet_dataset TO (getvariable('summary') || '/dataset.parquet') (FORMAT parquet, COMPRESSION zstd);
COPY fleet_file TO (getvariable('summary') || '/file.parquet') (FORMAT parquet, COMPRESSION zstd);
COPY fleet_candidate TO (getvariable('summary') || '/candidate.parquet') (FORMAT parquet, COMPRESSION zstd);

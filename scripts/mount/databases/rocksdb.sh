#!/usr/bin/env bash
# RocksDB under db_bench: plain, with direct I/O, or with memory-mapped reads and writes.
#
# usage: see lib.sh in this directory
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../lib.sh"
# shellcheck source=scripts/mount/databases/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

DB=$MNT/rocksdb
case $VARIANT in
    direct) HOW=(--use_direct_reads --use_direct_io_for_flush_and_compaction) ;;
    mmap) HOW=(--mmap_read --mmap_write) ;;
    *) HOW=() ;;
esac

bench() {
    db_bench --db="$DB" --num=60000 --value_size=400 --write_buffer_size=2097152 --target_file_size_base=1048576 \
        --max_bytes_for_level_base=4194304 --verify_checksum=true --compression_type=none --seed=7 \
        --stats_per_interval=0 ${HOW[@]+"${HOW[@]}"} "$@" >"$WORK/bench.log" 2>&1 \
        || { tail -n 3 "$WORK/bench.log"; return 1; }
    none -iE 'corrupt|error:|fail' "$WORK/bench.log"
}

content() { ldb --db="$DB" scan --hex | sha256sum; ldb --db="$DB" dump --count_only | grep -E '^Keys in range'; }

if [ "$VERB" = fill ]; then
    bench --benchmarks=fillseq,overwrite,readrandom,deleterandom,compact
    bench --use_existing_db --threads=3 --duration="$LOAD_SECONDS" --benchmarks=readrandomwriterandom
    bench --use_existing_db --num=2000 --sync=true --threads=2 --benchmarks=overwrite,seekrandom
fi
bench --use_existing_db --benchmarks=verifychecksum,readseq
ldb --db="$DB" checkconsistency | tee "$WORK/consistency.log"
grep -qx OK "$WORK/consistency.log"
sst_dump --file="$DB" --command=verify >"$WORK/sst.log" 2>&1 || { tail -n 3 "$WORK/sst.log"; exit 1; }
same content content

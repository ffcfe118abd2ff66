#!/usr/bin/env bash
# Prints how compressible files are, based on samples spread evenly over each of them.
#
# usage: compressibility.sh FILE...
#
# For each file: its size, the share of samples that are all zero (space that the database keeps in reserve), and of
# the others the order-0 entropy of the bytes (8 bits: noise) and the compression ratio of gzip -6 for samples of 128
# KiB, each compressed separately as by a file system. These figures describe only the data; the savings of a ZFS
# setting also depend on records and sectors: see poolwright estimate.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../../scripts/lib.sh"

SAMPLES=24
SAMPLE_BYTES=131072

# places FILE: prints the places to read, in units of a sample.
places() {
    local units=$(($(stat -c %s -- "$1") / SAMPLE_BYTES)) i
    [ $units -gt 0 ] || { echo 0; return; }
    for ((i = 0; i < (units < SAMPLES ? units : SAMPLES); i++)); do
        echo $((units <= SAMPLES ? i : i * units / SAMPLES))
    done
}

entropy() {
    od -An -v -tu1 -w64 "$1" | awk '{ for (i = 1; i <= NF; i++) n[$i]++; total += NF }
        END { for (v in n) h -= n[v] / total * log(n[v] / total) / log(2); printf "%.2f", h }'
}

report() {
    local file=$1 raw=0 packed=0 count=0 empty=0 place
    : >"$SCRATCH/kept"
    for place in $(places "$file"); do
        dd if="$file" of="$SCRATCH/sample" bs=$SAMPLE_BYTES skip="$place" count=1 status=none
        count=$((count + 1))
        if [ "$(tr -d '\0' <"$SCRATCH/sample" | head -c 1 | wc -c)" -eq 0 ]; then
            empty=$((empty + 1))
            continue
        fi
        cat "$SCRATCH/sample" >>"$SCRATCH/kept"
        raw=$((raw + $(stat -c %s "$SCRATCH/sample")))
        packed=$((packed + $(gzip -6 <"$SCRATCH/sample" | wc -c)))
    done
    printf '  %-20s %7s MiB %7s%% %12s %14s\n' "$(basename "$file")" $(($(stat -c %s -- "$file") / 1048576)) \
        $((empty * 100 / count)) "$(entropy "$SCRATCH/kept")" "$(awk -v a="$raw" -v b="$packed" 'BEGIN { printf "%.2fx", b ? a / b : 1 }')"
}

case ${1:-} in
    -h | --help) usage_from "$0"; exit 0 ;;
    '') die 2 "no file given; see --help" ;;
esac
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
printf '  %-20s %11s %8s %12s %14s\n' file size empty "bits a byte" "gzip -6, 128K"
for file in "$@"; do report "$file"; done

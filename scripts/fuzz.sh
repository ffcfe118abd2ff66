#!/usr/bin/env bash
# Coverage-guided fuzzing of all parsers of external input (`make fuzz`).
#
# usage: scripts/fuzz.sh [--seconds N] [--keep] [--no-install] [TARGET...]
#
#   --seconds N   time for each target (600)
#   --keep        afterwards adds small inputs that reach new code to fuzz/corpus
#   TARGET        a target of fuzz/fuzz_targets (default: all)
#
# Runs one process at a time, at the lowest priority. Output is in target/fuzz: inputs that reach new code in corpus/TARGET, inputs
# that crash, hang or take too much memory in artifacts/TARGET, and libFuzzer's messages in TARGET.log.
# Needs a nightly toolchain (rustup toolchain install nightly).
#
# Exit status: 0 no failure found, 1 a target failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

SECONDS_EACH=600
KEEP=no
INSTALL=yes
TARGETS=()
# Memory limit of a target in MiB, and time limit of one input in seconds.
RSS_LIMIT=2048
INPUT_LIMIT=25
# Limits of --keep: bytes of one input; bytes and number of the inputs of one target in fuzz/corpus.
KEEP_BYTES=16384
KEEP_TOTAL=65536
KEEP_FILES=120

OUT=$POOLWRIGHT_ROOT/target/fuzz
PATH=$POOLWRIGHT_ROOT/target/tools/bin:$PATH

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --seconds) SECONDS_EACH=${2:-}; shift ;;
            --seconds=*) SECONDS_EACH=${1#*=} ;;
            --keep) KEEP=yes ;;
            --no-install) INSTALL=no ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *)
                [ -e "$POOLWRIGHT_ROOT/fuzz/fuzz_targets/$1.rs" ] || die 2 "unknown target '$1'; known: $(all_targets | xargs)"
                TARGETS+=("$1") ;;
        esac
        shift
    done
    [[ $SECONDS_EACH =~ ^[1-9][0-9]*$ ]] || die 2 "--seconds takes a number of seconds, not '$SECONDS_EACH'"
    [ ${#TARGETS[@]} -gt 0 ] || mapfile -t TARGETS < <(all_targets)
}

all_targets() { find "$POOLWRIGHT_ROOT/fuzz/fuzz_targets" -name '*.rs' -printf '%f\n' | sed 's/\.rs$//' | sort; }

check_tools() {
    rustup run nightly rustc --version >/dev/null 2>&1 \
        || die 1 "fuzzing needs a nightly toolchain; install one with: rustup toolchain install nightly"
    [ $INSTALL = no ] || "$POOLWRIGHT_ROOT/scripts/install.sh" --for fuzz
}

# The engine's C is linked as for AddressSanitizer (crates/openzfs/build.rs).
build() {
    cd "$POOLWRIGHT_ROOT/fuzz"
    RUSTFLAGS="${RUSTFLAGS:-} --cfg poolwright_sanitize" \
        nice -n 19 cargo +nightly fuzz build --target-dir "$OUT"
}

# lengths TARGET: the input lengths. Longer inputs are slower and reach no more code. For targets that interpret the input as a
# list of changes, coverage does not lead the fuzzer to longer inputs, so they start with a dozen changes of 12 bytes each.
lengths() {
    case $1 in
        import | log) printf '%s\n' -max_len=145 -len_control=0 ;;
        campaign | trace) echo -max_len=16384 ;;
        *) echo -max_len=8192 ;;
    esac
}

# SQLite's amalgamation defines tables with the same name twice, which AddressSanitizer reports as a violation.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_odr_violation=0}

# fuzz TARGET: libFuzzer writes to the first directory and reads all.
fuzz() {
    local target=$1 program dictionary=() seeds=() lengths
    [ "$target" != campaign ] || seeds=("$POOLWRIGHT_ROOT/campaigns")
    mapfile -t lengths < <(lengths "$target")
    program=$OUT/$(rustc -vV | sed -n 's/^host: //p')/release/$target
    mkdir -p "$OUT/corpus/$target" "$OUT/artifacts/$target" "$POOLWRIGHT_ROOT/fuzz/corpus/$target"
    [ ! -e "$POOLWRIGHT_ROOT/fuzz/dicts/$target" ] || dictionary=("-dict=$POOLWRIGHT_ROOT/fuzz/dicts/$target")
    nice -n 19 "$program" -max_total_time="$SECONDS_EACH" -rss_limit_mb=$RSS_LIMIT -timeout=$INPUT_LIMIT \
        "${lengths[@]}" ${dictionary[@]+"${dictionary[@]}"} -print_final_stats=1 \
        -artifact_prefix="$OUT/artifacts/$target/" "$OUT/corpus/$target" "$POOLWRIGHT_ROOT/fuzz/corpus/$target" \
        ${seeds[@]+"${seeds[@]}"} >"$OUT/$target.log" 2>&1
}

# figures TARGET: the figures in the last lines of its log.
figures() {
    local log=$OUT/$1.log
    printf '%-10s %12s executions, %6s edges, %6s features\n' "$1" \
        "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
        "$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)" \
        "$(sed -n 's/.* ft: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)"
}

# keep TARGET: adds the inputs that increase the coverage of fuzz/corpus, the smallest first.
keep() {
    local target=$1 into=$POOLWRIGHT_ROOT/fuzz/corpus/$1 merged file total files
    merged=$(mktemp -d "$OUT/merged.XXXXXX")
    "$OUT/$(rustc -vV | sed -n 's/^host: //p')/release/$target" -merge=1 -rss_limit_mb=$RSS_LIMIT \
        "$merged" "$into" "$OUT/corpus/$target" >/dev/null 2>&1 || warn "cannot merge the inputs of $target"
    total=$(find "$into" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }')
    files=$(find "$into" -type f | wc -l)
    while IFS= read -r file; do
        total=$((total + $(stat -c %s "$file"))) files=$((files + 1))
        if [ "$total" -gt $KEEP_TOTAL ] || [ "$files" -gt $KEEP_FILES ]; then break; fi
        cp -n "$file" "$into/"
    done < <(find "$merged" -type f -size -${KEEP_BYTES}c -printf '%s %p\n' | sort -n | cut -d ' ' -f 2-)
    rm -rf "$merged"
}

main() {
    local target failed=()
    parse_arguments "$@"
    check_tools
    step "Build the targets" build
    # Temporary files of the targets, which a crash leaves behind.
    TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-fuzz.XXXXXX")
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
    for target in "${TARGETS[@]}"; do
        step "$target, $SECONDS_EACH s" fuzz_one "$target"
    done
    echo
    for target in "${TARGETS[@]}"; do figures "$target"; done
    [ ${#failed[@]} -eq 0 ] || die 1 "failed: ${failed[*]}; the inputs are in target/fuzz/artifacts"
}

# Sets `failed`, a variable of main.
fuzz_one() {
    fuzz "$1" || { failed+=("$1"); tail -n 25 "$OUT/$1.log"; }
    [ $KEEP = no ] || keep "$1"
}

main "$@"

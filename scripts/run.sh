#!/usr/bin/env bash
# Shows Poolwright on a live database, starting from nothing (`make run`).
#
# usage: scripts/run.sh [--for 20s] [--goal balanced] [--scale 1] [--no-install]
#
# Installs missing packages (scripts/install.sh), builds Poolwright, starts a private MariaDB on a Unix socket in a scratch
# directory under TMPDIR (or /tmp; needs 4 GiB), fills it, runs an OLTP load on it, and runs `poolwright tune`, which records the
# database for the given time, prints the plan, and writes plan.json and report.html to the root of the repository. At the end,
# and on Ctrl-C, the script stops and removes everything that it started.
#
# Exit status: 0 done (also if the plan keeps today's settings), 1 failed, 2 wrong usage, 130 interrupted.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb
NEEDED_MIB=4096
WARM_UP=5
RECORD_FOR=20s
# Smaller than the data, as on a real server: otherwise every read would hit the cache.
ARC=160M
BUDGET=100s
GOAL=balanced
SCALE=1
INSTALL=yes
SCRATCH=
LOAD_GROUP=
TUNE_GROUP=

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage_from "$0"; exit 0 ;;
            --no-install) INSTALL=no; shift; continue ;;
        esac
        [ $# -ge 2 ] || die 2 "unknown argument '$1', or its value is missing; see --help"
        case $1 in
            --for) RECORD_FOR=$2 ;;
            --goal) GOAL=$2 ;;
            --scale) SCALE=$2 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
    [[ $RECORD_FOR =~ ^[0-9]+s$ ]] || die 2 "--for takes whole seconds, such as 30s, not '$RECORD_FOR'"
}

# The exit handler; a second Ctrl-C must not interrupt it.
clean_up() {
    local status=$?
    trap '' INT TERM HUP
    trap - EXIT ERR
    set +e
    if [ -n "$TUNE_GROUP" ]; then end_group "$TUNE_GROUP"; fi
    if [ -n "$LOAD_GROUP" ]; then end_group "$LOAD_GROUP"; fi
    if [ -n "$SCRATCH" ]; then
        "$MARIADB/server.sh" stop "$SCRATCH"
        rm -rf -- "$SCRATCH"
        say "Removed $SCRATCH"
    fi
    exit "$status"
}

make_scratch() {
    local parent=${TMPDIR:-/tmp} free
    free=$(free_mib "$parent")
    [ "$free" -ge $NEEDED_MIB ] || die 1 "$parent has $free MiB free and $NEEDED_MIB are needed; set TMPDIR to a directory with more space"
    SCRATCH=$(mktemp -d "$parent/poolwright-run.XXXXXX")
    say "Scratch directory: $SCRATCH"
}

build() { (cd "$POOLWRIGHT_ROOT" && cargo build --release -p poolwright); }

# Runs in its own process group, so that the script can end all of it.
start_load() {
    local seconds=$((WARM_UP + ${RECORD_FOR%s} + WARM_UP))
    setsid "$MARIADB/load.sh" "$SCRATCH" --time "$seconds" </dev/null >"$SCRATCH/load.log" 2>&1 &
    LOAD_GROUP=$!
    say "OLTP load with 4 threads for $seconds s, in the background"
    sleep "$WARM_UP"
    kill -0 "$LOAD_GROUP" 2>/dev/null || { tail -n 20 "$SCRATCH/load.log" >&2; die 1 "the load exited immediately (its output is above)"; }
}

# As root, the tuner gets its own process group, so that the script can end all of it. sudo may ask for a password at the
# terminal, so it stays in the foreground, where Ctrl-C reaches the tuner directly.
tune() {
    local status=0
    local command=("$POOLWRIGHT_ROOT/target/release/poolwright" tune "$SCRATCH/data" --for "$RECORD_FOR" --goal "$GOAL" --arc "$ARC" --budget "$BUDGET"
        --plan "$POOLWRIGHT_ROOT/plan.json" --report "$POOLWRIGHT_ROOT/report.html")
    if [ "$(id -u)" -ne 0 ] && command -v sudo >/dev/null 2>&1; then
        say "Recording needs root: the next command runs with sudo."
        sudo -- "${command[@]}" || status=$?
        sudo chown -- "$(id -u):$(id -g)" "$POOLWRIGHT_ROOT/plan.json" "$POOLWRIGHT_ROOT/report.html" 2>/dev/null || true
    else
        setsid "${command[@]}" </dev/null &
        TUNE_GROUP=$!
        wait "$TUNE_GROUP" || status=$?
        end_group "$TUNE_GROUP"
        TUNE_GROUP=
    fi
    case $status in
        0) ;;
        4) say "Verdict: keep today's settings; no setting was better beyond noise." ;;
        *) die "$status" "poolwright tune ended with status $status (its message is above)" ;;
    esac
}

# The load ends soon after the recording.
report_load() {
    wait "$LOAD_GROUP" || warn "the load ended with an error: $(tail -n 1 "$SCRATCH/load.log")"
    LOAD_GROUP=
    grep -E 'transactions:|95th percentile' "$SCRATCH/load.log" | sed 's/^ */  load: /' || true
}

main() {
    parse_arguments "$@"
    local began=$SECONDS
    [ $INSTALL = no ] || step "Install what is missing" "$POOLWRIGHT_ROOT/scripts/install.sh" --for run
    step "Build" build
    trap clean_up EXIT
    trap 'exit 130' INT HUP
    trap 'exit 143' TERM
    make_scratch
    step "Start a private MariaDB" "$MARIADB/server.sh" start "$SCRATCH"
    step "Fill it" "$MARIADB/fill.sh" "$SCRATCH" --scale "$SCALE"
    step "Start the load" start_load
    step "Record, estimate, replay, tune" tune
    step "The load's own figures" report_load
    printf '\nDone in %d s. The plan is in plan.json, the evidence in report.html (open it in a browser).\n' $((SECONDS - began))
}

main "$@"

#!/usr/bin/env bash
# Checks the alert rules with promtool, or regenerates their files.
#
# usage: scripts/alerts.sh [--check]
#
# Without an argument, writes the files that are generated from the table of rules: packaging/prometheus/ and docs/alerts.md. With
# --check, promtool checks the rule file, runs each rule's two examples (one that fires and one that does not), and checks the
# metrics of a running exporter and of all captured pools. If promtool is not installed, it is taken from Debian's package
# prometheus, unpacked into target/tools.
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$POOLWRIGHT_ROOT"

RULES=packaging/prometheus
PROGRAM=${CARGO_TARGET_DIR:-target}/release/poolwright
EXPORTER=

# find_promtool: sets PROMTOOL.
find_promtool() { PROMTOOL=$(command -v promtool) || PROMTOOL=$(unpacked prometheus)/usr/bin/promtool; }

check_rules() {
    "$PROMTOOL" check rules "$RULES/poolwright.rules.yml"
    # promtool prints only the failures.
    (cd "$RULES" && limited 900 "$PROMTOOL" test rules poolwright.test.yml)
}

# start_exporter PROGRAM: sets EXPORTER to its process, and ADDRESS.
start_exporter() {
    "$1" serve --listen 127.0.0.1:0 >"$SCRATCH/address" &
    EXPORTER=$!
    for _ in $(seq 600); do
        ADDRESS=$(cat "$SCRATCH/address")
        [ -z "$ADDRESS" ] || return 0
        sleep 0.1
    done
    die 1 "the exporter did not start within a minute"
}

check_metrics() {
    local golden
    SCRATCH=$(mktemp -d)
    trap '[ -z "$EXPORTER" ] || kill "$EXPORTER"; rm -rf "$SCRATCH"' EXIT
    start_exporter "$PROGRAM"
    curl -fsS --max-time 60 "$ADDRESS" >"$SCRATCH/metrics"
    grep -q '^poolwright_exporter_info' "$SCRATCH/metrics" || die 1 "the exporter sent no metrics"
    "$PROMTOOL" check metrics <"$SCRATCH/metrics"
    for golden in crates/monitor/tests/golden/*.prom; do
        "$PROMTOOL" check metrics <"$golden" || die 1 "promtool rejects $golden (see above)"
    done
}

main() {
    case ${1:-} in
        '')
            REWRITE=1 step "Write the files" cargo test --release --locked -p poolwright-monitor --test integration rules
            ;;
        --check)
            find_promtool
            step "Check the rules and their examples" check_rules
            # `make test` has built it, with the features of all crates: another build would take minutes.
            [ -x "$PROGRAM" ] || step "Build the exporter" cargo build --release --locked -p poolwright
            step "Check the metrics" check_metrics
            ;;
        -h | --help) usage_from "$0" ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
}

main "$@"

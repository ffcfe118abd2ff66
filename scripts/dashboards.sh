#!/usr/bin/env bash
# Checks the Grafana dashboards (packaging/grafana): compares them with the models of grafana-foundation-sdk, and parses their
# queries with promtool.
#
# usage: scripts/dashboards.sh [DIR]
#
# The models are in the Python environment of the tests (target/venv, or $POOLWRIGHT_VENV); scripts/install.sh --for test
# installs it. promtool is in Debian's package prometheus; $PROMTOOL names another one. The script skips checks whose program
# is not installed, and reports that. `cargo test -p poolwright-monitor dashboards` needs neither, and compares metrics and
# labels with the table of metrics.
#
# Exit status: 0 done, 1 a check failed, or nothing could be checked, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3
PROMTOOL=${PROMTOOL:-promtool}
HERE=$POOLWRIGHT_ROOT/scripts/dashboards

check() {
    local directory=$1 checked=0 rules
    [ -d "$directory" ] || die 2 "'$directory' is not a directory"
    if "$PYTHON" -c 'import grafana_foundation_sdk' 2>/dev/null; then
        "$PYTHON" "$HERE/schema.py" "$directory"/*.json || die 1 "these dashboards do not match Grafana's schema (see above)"
        say "Grafana's schema: ok"
        checked=1
    else
        warn "the schema was NOT checked: $PYTHON cannot import grafana_foundation_sdk"
    fi
    if command -v "$PROMTOOL" >/dev/null 2>&1; then
        rules=$(mktemp --suffix=.yml)
        # shellcheck disable=SC2064 # the name is known now
        trap "rm -f -- '$rules'" EXIT
        python3 "$HERE/rules.py" "$directory"/*.json >"$rules"
        "$PROMTOOL" check rules --lint=none "$rules"
        checked=1
    else
        warn "the queries were NOT parsed: promtool is not installed"
    fi
    [ $checked = 1 ] || die 1 "nothing could be checked; install the packages named above"
}

main() {
    case ${1:-} in
        -h | --help) usage_from "$0" ;;
        -*) die 2 "unknown argument '$1'; see --help" ;;
        *)
            [ $# -le 1 ] || die 2 "too many arguments; see --help"
            check "${1:-$POOLWRIGHT_ROOT/packaging/grafana}"
            ;;
    esac
}

main "$@"

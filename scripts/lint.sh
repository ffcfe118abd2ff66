#!/usr/bin/env bash
# Checks formatting, lints, layers, names, calls by path, licences, advisories, scripts and links: `make lint`.
#
# usage: scripts/lint.sh [--no-install]
#
# Exit status: 0 clean, 1 findings, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

cargo_deny() {
    if command -v cargo-deny >/dev/null 2>&1; then
        cargo-deny "$@"
    else
        "$POOLWRIGHT_ROOT/target/tools/bin/cargo-deny" "$@"
    fi
}

# The advisories are a git repository. If it is unreachable, the other checks run nevertheless. In CI an advisory is a warning,
# because an advisory published after a commit does not make the commit wrong.
dependencies() {
    local fetched
    cargo_deny --log-level error check --hide-inclusion-graph licenses bans sources
    if fetched=$(cargo_deny fetch db 2>&1); then
        cargo_deny --log-level error check --disable-fetch --hide-inclusion-graph advisories || {
            [ "${CI:-}" = true ] || die 1 "a dependency has an advisory or was withdrawn (see above)"
            warn "a dependency has an advisory or was withdrawn (see above)"
        }
    else
        say "Advisories were NOT checked: the advisory database could not be fetched ($(printf '%s\n' "$fetched" | grep -m 1 '^fatal:' || echo 'see cargo deny fetch db'))."
    fi
}

shell_scripts() {
    find scripts workloads .ci -type f \( -name '*.sh' -o -path '.ci/run' \) -print0 | xargs -0 shellcheck -x -P .
    find scripts workloads -name '*.py' -print0 | xargs -0 -r python3 -c '
import ast, sys
for path in sys.argv[1:]:
    ast.parse(open(path, encoding="utf-8").read(), path)'
}

main() {
    local install=yes
    case ${1:-} in
        '') ;;
        --no-install) install=no ;;
        -h | --help) usage_from "$0"; exit 0 ;;
        *) die 2 "unknown argument '$1'; see --help" ;;
    esac
    [ $install = no ] || step "Install packages for the lints" "$POOLWRIGHT_ROOT/scripts/install.sh" --for lint
    cd "$POOLWRIGHT_ROOT"
    step "Shell and Python scripts" shell_scripts
    step "Links of the documentation" python3 scripts/lint/links.py .
    step "Results of the campaigns in the documentation" python3 scripts/lab/docs.py --check
    step "Dependencies between crates and modules" python3 scripts/lint/layers.py .
    step "Names" python3 scripts/lint/names.py .
    step "Calls by path in the crates that run as root" python3 scripts/lint/by_path.py .
    step "Formatting (cargo fmt)" cargo fmt --all --check
    step "Licences, sources and advisories of the dependencies (cargo deny)" dependencies
    step "Lints (clippy)" cargo clippy --release --locked --workspace --all-targets -- -D warnings
    # With --workspace, cargo uses the dependencies as they are checked already.
    step "Lints of the feature fault-injection (clippy)" cargo clippy --release --locked --workspace \
        --features poolwright-openzfs/fault-injection --test power --test faults --test torn --test stress --test device --test interrupted -- -D warnings
    # Nothing is linked, so libFuzzer, which is C++, is not compiled.
    step "Fuzz targets (cargo check)" env CUSTOM_LIBFUZZER_PATH=/unused/libunused.a cargo check --locked --manifest-path fuzz/Cargo.toml
}

main "$@"

#!/usr/bin/env bash
# Installs the program, its man pages, completions, campaigns, drivers and JSON Schemas, or removes them again.
#
# usage: scripts/install-program.sh [--remove]
#
# Writes to DESTDIR/PREFIX only (defaults: empty, /usr/local). Run `make build` first. Also installs Prometheus's rules and Grafana's
# dashboards, if packaging/prometheus and packaging/grafana exist. The lab's drivers keep their tools in XDG_CACHE_HOME/poolwright
# (~/.cache/poolwright).
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
cd "$POOLWRIGHT_ROOT"

ROOT=${DESTDIR:-}${PREFIX:-/usr/local}
PROGRAM=${CARGO_TARGET_DIR:-target}/release/poolwright
# Debian's zsh does not search /usr/share/zsh/site-functions.
ZSH=$ROOT/share/zsh/site-functions
[ "${PREFIX:-}" != /usr ] || ZSH=$ROOT/share/zsh/vendor-completions

remove() {
    rm -f -- "$ROOT/bin/poolwright" "$ROOT/share/man/man1/poolwright.1" "$ROOT"/share/man/man1/poolwright-*.1 \
        "$ROOT/share/bash-completion/completions/poolwright" "$ZSH/_poolwright" \
        "$ROOT/share/fish/vendor_completions.d/poolwright.fish"
    rm -rf -- "$ROOT/share/poolwright"
}

install_all() {
    local made dir
    [ -x "$PROGRAM" ] || die 1 "$PROGRAM does not exist; build it with 'make build'"
    made=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-install.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf -- '$made'" EXIT
    "$PROGRAM" generate "$made"
    install -D -m 755 "$PROGRAM" "$ROOT/bin/poolwright"
    install -d "$ROOT/share/man/man1"
    rm -f -- "$ROOT"/share/man/man1/poolwright-*.1
    install -m 644 "$made"/man1/*.1 "$ROOT/share/man/man1/"
    install -D -m 644 "$made/bash/poolwright.bash" "$ROOT/share/bash-completion/completions/poolwright"
    install -D -m 644 "$made/zsh/_poolwright" "$ZSH/_poolwright"
    install -D -m 644 "$made/fish/poolwright.fish" "$ROOT/share/fish/vendor_completions.d/poolwright.fish"
    rm -rf -- "$ROOT/share/poolwright"
    install -d "$ROOT/share/poolwright"
    cp -R campaigns "$ROOT/share/poolwright/"
    cp -R workloads "$ROOT/share/poolwright/"
    cp -R "$made/schema" "$ROOT/share/poolwright/"
    for dir in packaging/prometheus packaging/grafana; do
        [ ! -d "$dir" ] || cp -R "$dir" "$ROOT/share/poolwright/"
    done
    find "$ROOT/share/poolwright" \( -name __pycache__ -o -name target \) -prune -exec rm -rf -- {} +
    say "Installed in $ROOT. The command is $ROOT/bin/poolwright; 'man poolwright' describes it."
}

case ${1:-} in
    '') install_all ;;
    --remove) remove; say "Removed from $ROOT." ;;
    -h | --help) usage_from "$0" ;;
    *) die 2 "unknown argument '$1'; see --help" ;;
esac

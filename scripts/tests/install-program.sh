#!/usr/bin/env bash
# Tests `make install` in a scratch directory: the installed program runs, each verb has a man page, the shell completions parse, the
# lab finds its campaigns, the JSON Schemas are installed, and `make uninstall` removes all files.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SCRATCH=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-test.XXXXXX")
trap 'rm -rf -- "$SCRATCH"' EXIT
PREFIX=/opt/poolwright
ROOT=$SCRATCH$PREFIX

fail() { die 1 "install-program: $*"; }

installed() {
    local verb page
    DESTDIR=$SCRATCH PREFIX=$PREFIX "$POOLWRIGHT_ROOT/scripts/install-program.sh" >/dev/null
    cd "$SCRATCH"
    env -u POOLWRIGHT_HOME "$ROOT/bin/poolwright" lab list | grep -q '^  *ldap-import\|^ldap-import' \
        || fail "the installed program does not list the campaigns"
    for verb in '' -estimate -record -trace -mrc -replay -tune -confirm -pool -pool-create -dataset -mount -lab -lab-run; do
        page=$ROOT/share/man/man1/poolwright$verb.1
        [ -s "$page" ] || fail "no man page poolwright$verb(1)"
    done
    for page in "$ROOT"/share/man/man1/*; do
        case ${page##*/} in *trial* | *drive* | *mount-log* | *generate*) fail "a hidden verb has the man page ${page##*/}" ;; esac
    done
    diff -r "$POOLWRIGHT_ROOT/docs/schema" "$ROOT/share/poolwright/schema" || fail "the schemas differ from docs/schema"
    grep -q '^\.SH OPTIONS' "$ROOT/share/man/man1/poolwright-tune.1" || fail "poolwright-tune(1) has no options"
    bash -n "$ROOT/share/bash-completion/completions/poolwright"
    grep -q -- '--budget' "$ROOT/share/fish/vendor_completions.d/poolwright.fish" || fail "no completion of --budget for fish"
    grep -q '^#compdef poolwright' "$ROOT/share/zsh/site-functions/_poolwright" || fail "no completion for zsh"
}

completed() {
    local words
    # shellcheck disable=SC2016 # the inner shell expands it
    words=$(bash -c 'source "$1"; COMP_WORDS=(poolwright tu); COMP_CWORD=1; _poolwright poolwright tu poolwright; echo "${COMPREPLY[*]}"' \
        bash "$ROOT/share/bash-completion/completions/poolwright")
    [ "$words" = tune ] || fail "bash completes 'poolwright tu' to '$words'"
}

removed() {
    local left
    DESTDIR=$SCRATCH PREFIX=$PREFIX "$POOLWRIGHT_ROOT/scripts/install-program.sh" --remove >/dev/null
    left=$(find "$ROOT" -type f)
    [ -z "$left" ] || fail "left behind: $left"
}

installed
completed
removed

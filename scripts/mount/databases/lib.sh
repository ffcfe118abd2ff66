# shellcheck shell=bash
# Functions that the databases' scripts share. Usage of each: SCRIPT fill|check VARIANT MOUNT WORK
# `fill` makes a database on MOUNT, loads it for LOAD_SECONDS and stops it. `check` checks the same files after an export and an import of
# the pool. WORK is a directory outside the mount, for sockets, logs, process ids (*.pid) and expected contents.

VERB=${1:?} VARIANT=${2:?} MNT=${3:?} WORK=${4:?}
LOAD_SECONDS=${LOAD_SECONDS:-5}
PYTHON=$POOLWRIGHT_ROOT/target/venv-mount/bin/python
export VERB VARIANT MNT WORK LOAD_SECONDS PYTHON

# await SECONDS COMMAND...: repeats the command until it succeeds; fails after SECONDS.
await() {
    local tries=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { say "timed out waiting for: $*"; return 1; }
        sleep 0.1
    done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# none GREP-ARGUMENT...: fails if grep finds a line, and shows it.
none() {
    if grep "$@"; then return 1; fi
}

# same NAME COMMAND...: `fill` keeps the output of the command; `check` compares the output with the kept one.
same() {
    local kept=$WORK/$1.kept found=$WORK/$1.found
    shift
    "$@" >"$found"
    [ -s "$found" ] || { say "nothing to compare: $* printed nothing"; return 1; }
    if [ "$VERB" = fill ]; then
        mv "$found" "$kept"
    elif ! cmp -s "$kept" "$found"; then
        diff "$kept" "$found" | head -n 4
        say "the contents differ from those before the export: $*"
        return 1
    fi
}

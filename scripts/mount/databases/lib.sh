# shellcheck shell=bash
# What the databases' scripts share. Each is called as: SCRIPT fill|check VARIANT MOUNT WORK
# fill makes a database on MOUNT, loads it for LOAD_SECONDS and stops it; check runs on the same files after the pool
# was exported and imported. WORK is outside the mount: sockets, logs, process ids (*.pid) and what must be found again.

VERB=${1:?} VARIANT=${2:?} MNT=${3:?} WORK=${4:?}
LOAD_SECONDS=${LOAD_SECONDS:-5}
PYTHON=$POOLWRIGHT_ROOT/target/venv-mount/bin/python
export VERB VARIANT MNT WORK LOAD_SECONDS PYTHON

# await SECONDS COMMAND...: tries until it succeeds.
await() {
    local tries=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || { say "waited in vain for: $*"; return 1; }
        sleep 0.1
    done
}

gone() { ! kill -0 "$1" 2>/dev/null; }

# none GREP-ARGUMENTS...: fails, and shows it, where grep finds something.
none() {
    if grep "$@"; then return 1; fi
}

# same WHAT COMMAND...: in fill keeps what the command prints, in check compares with it.
same() {
    local kept=$WORK/$1.kept found=$WORK/$1.found
    shift
    "$@" >"$found"
    [ -s "$found" ] || { say "nothing to compare: $* printed nothing"; return 1; }
    if [ "$VERB" = fill ]; then
        mv "$found" "$kept"
    elif ! cmp -s "$kept" "$found"; then
        diff "$kept" "$found" | head -n 4
        say "the content is not what it was before the export: $*"
        return 1
    fi
}

# shellcheck shell=bash
# Functions for the scripts that scripts/test-kernel.sh runs in the guest. scripts/vm/run.sh packs this file as /guest.sh. Each result is a line
# that starts with "pass" or "fail".

pass() { printf 'pass\t%s\n' "$*"; }
fail() { printf 'fail\t%s\n' "$*"; }

# A pipe that never has data, to wait without starting a program.
mkfifo /tmp/never
exec {NEVER}<>/tmp/never
# pause SECONDS: waits. Its status is that of a time limit.
pause() { read -rt "$1" -u "$NEVER"; }

# expect TEXT COMMAND...: runs a command that must succeed. Its output is in /tmp/said.
expect() {
    local text=$1 status=0
    shift
    "$@" >/tmp/said 2>&1 || status=$?
    if [ $status -eq 0 ]; then
        pass "$text"
    else
        fail "$text: '$*' gave $status: $(tail -n 8 /tmp/said | tr '\n' ' ')"
        return 1
    fi
}

# refused TEXT MESSAGE COMMAND...: runs a command that must be refused (exit status 3) with this message.
refused() {
    local text=$1 message=$2 status=0
    shift 2
    "$@" >/tmp/said 2>&1 || status=$?
    if [ $status -eq 3 ] && grep -q "$message" /tmp/said; then
        pass "$text"
    else
        fail "$text: '$*' gave $status: $(tr '\n' ' ' </tmp/said)"
    fi
}

# install_programs PROGRAM...: puts programs and the libraries of /disk/lib into directories of the system. Poolwright does not pass PATH and
# LD_LIBRARY_PATH on to what it runs for a database.
install_programs() {
    mkdir -p /usr/local/bin /usr/lib
    ln -sf "$@" /usr/local/bin/
    ln -sf /disk/lib/* /usr/lib/
}

# same TEXT A B: two texts must be equal.
same() {
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1: '$2' is not '$3'"; fi
}

# shellcheck shell=bash
# Functions that the scripts share: messages, timed steps, exit statuses. Scripts source this file.

# Report the command if the script ends because of an unexpected failure.
set -E
trap 'printf "%s: line %s: failed: %s\n" "${0##*/}" "$LINENO" "$BASH_COMMAND" >&2' ERR

POOLWRIGHT_ROOT=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
export POOLWRIGHT_ROOT

# The scripts and tests expect decimal points, English messages and bytewise order.
export LC_ALL=C.UTF-8

# Find tools installed by rustup also if the shell has not read the login files (sudo, CI).
if ! command -v cargo >/dev/null 2>&1 && [ -x "${CARGO_HOME:-${HOME:-/root}/.cargo}/bin/cargo" ]; then
    PATH="${CARGO_HOME:-${HOME:-/root}/.cargo}/bin:$PATH"
fi
# zdb, mariadbd and similar programs are in sbin, which is not in every user's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
export PATH

say() { printf '%s\n' "$*"; }
warn() { printf 'warning: %s\n' "$*" >&2; }

# die STATUS MESSAGE...: 1 the work failed, 2 wrong usage, 3 refused for safety.
die() {
    local status=$1
    shift
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit "$status"
}

# usage_from FILE: prints the help text of a script, which is the comment at its top.
usage_from() { sed -n '2,/^[^#]/{/^#/!d;s/^# \{0,1\}//;p}' "$1"; }

# step TITLE COMMAND...: runs a command under a heading and prints its duration. Do not write `step … || …`: in that context the
# shell ignores failures inside the command and loses its status.
step() {
    local title=$1 began=$SECONDS
    shift
    printf '\n== %s\n' "$title"
    "$@"
    printf '== %s: %d s\n' "$title" $((SECONDS - began))
}

# limited SECONDS COMMAND...: runs a program with a time limit. A program that exceeds it is reported and killed; the status is 124.
limited() {
    local seconds=$1
    shift
    "$POOLWRIGHT_ROOT/scripts/limit.py" --program "$seconds" "$@"
}

# as_root COMMAND...: runs a command as root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null 2>&1; then
        sudo -- "$@"
    else
        die 1 "'$1' needs root, and sudo is not installed. Run this script as root, or install sudo."
    fi
}

# build_for_tests: cargo's builds after this go to target/test, hardly optimized and without line tables, which takes half the time,
# and with OpenZFS's assertions.
# The programs in target/release, with which figures are measured, stay as they are.
build_for_tests() {
    export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target/test}
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0 POOLWRIGHT_OPENZFS_ASSERTIONS=1
}

# unpacked PACKAGE [PACKAGE...]: unpacks Debian's packages, without those that they depend on, into a directory below target/tools
# that is named after the first one, and prints it. Downloads them the first time.
unpacked() {
    local dir=$POOLWRIGHT_ROOT/target/tools/$1 package
    for package in "$@"; do
        [ ! -e "$dir/.$package" ] || continue
        warn "$package is not installed; unpacking Debian's package into target/tools."
        mkdir -p "$dir"
        rm -f -- "$dir/$package"_*.deb
        (cd "$dir" && apt-get -q download "$package" >&2 && dpkg -x "$package"_*.deb . && touch ".$package") \
            || die 1 "the package $package could not be downloaded (see above); run 'apt-get update', or install it."
    done
    printf '%s\n' "$dir"
}

# can_unpack PACKAGE [PACKAGE...]: whether `unpacked` has unpacked these packages, or apt knows them.
can_unpack() {
    local dir=$POOLWRIGHT_ROOT/target/tools/$1 package
    for package in "$@"; do
        [ -e "$dir/.$package" ] || apt-get -qq --print-uris download "$package" >/dev/null 2>&1 || return 1
    done
}

# free_mib DIR: free space of the file system of DIR, in MiB.
free_mib() { df --output=avail -BM -- "$1" | tail -n 1 | tr -dc '0-9'; }

# end_group PID [SECONDS]: sends SIGTERM to the process group of PID, and SIGKILL after SECONDS (10).
end_group() {
    local pid=$1 patience=${2:-10} waited=0
    kill -TERM -- "-$pid" 2>/dev/null || return 0
    while kill -0 -- "-$pid" 2>/dev/null; do
        if [ "$waited" -ge $((patience * 10)) ]; then
            kill -KILL -- "-$pid" 2>/dev/null || true
            break
        fi
        sleep 0.1
        waited=$((waited + 1))
    done
}

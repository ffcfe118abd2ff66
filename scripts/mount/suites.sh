#!/usr/bin/env bash
# Runs public file-system test suites on a mounted pool.
#
# usage: scripts/mount/suites.sh [--modes through,pages,writeback] [--only SUITE,…] [--seconds N]
#
#   --modes    caching modes of the mount (default: all three)
#   --only     some of: pjdfstest fsx fio stress-ng dbench cpython lmdb-tests
#   --seconds  length of each stressor of stress-ng (default 2)
#
# Prints a line for each failed test, with its last messages, and whether it also fails on the host's file system; then a table with a
# line for each suite and mode.
#
# Environment: POOLWRIGHT_REFERENCE=DIR is a directory on the host's file system (default /var/tmp); POOLWRIGHT_KEEP_LOGS=DIR keeps the
# logs of failures in DIR. Requires root, and the packages that scripts/mount/install.sh installs.
#
# Exit status: 0 every failed test fails on the host's file system too, 1 a test failed on the mount only, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=scripts/mount/common.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/common.sh"

SUITES=(pjdfstest fsx fio stress-ng dbench cpython lmdb-tests)
MODES=through,pages,writeback
STRESS_SECONDS=2
# Time limit of a test in seconds.
PATIENCE=300
TOOLS=$POOLWRIGHT_ROOT/target/tools/bin
VENV=$POOLWRIGHT_ROOT/target/venv-mount

# Stressors that exercise a file system.
STRESSORS=(access aio aiol chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup fallocate fanotify fault
    fcntl fiemap file-ioctl filename flock fpunch fsize fstat getdent handle hdd inode-flags inotify io iomix io-uring lease link locka
    lockf lockofd mknod mmap mmapfork mmaphuge mmapmany msync open readahead rename revio rmap seek sendfile splice
    symlink sync-file touch utime xattr zero)
# Stressors with other options than the defaults, such as mapped files.
VARIANTS=('mmap --mmap-file' 'mmap --mmap-file --mmap-async' 'mmap --mmap-file --mmap-odirect' 'hdd --hdd-opts direct,wr-rnd,rd-rnd'
    'hdd --hdd-opts dsync,wr-seq' 'hdd --hdd-opts utimes,iovec' 'seek --seek-punch' 'aio --aio-requests 32' 'iomix --iomix-bytes 16m'
    'lockf --lockf-nonblock')

CPYTHON=(test_os test_posix test_fcntl test_mmap test_largefile test_shutil test_tempfile test_pathlib test_glob test_file
    test_io test_zipfile test_tarfile test_dbm test_shelve test_mailbox test_stat test_fileio)

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --modes) MODES=${2:?} ;;
            --only) IFS=, read -ra SUITES <<<"${2:?}" ;;
            --seconds) STRESS_SECONDS=${2:?} ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift 2
    done
}

# A suite consists of two functions. tests_SUITE prints its tests, one on each line. run_SUITE TEST DIR runs a test in an empty
# directory; its status is 0 if the test passed, 77 if it cannot run here, anything else if it failed.

# The crate needs two users with groups of the same names, which Debian has.
tests_pjdfstest() {
    sed 's/^ *//' <<'MODULES'
        chmod
        chown
        ftruncate
        link
        mkdir
        mkfifo
        mknod
        open
        posix_fallocate
        rename
        rmdir
        symlink
        truncate
        unlink
        utimensat
MODULES
}
run_pjdfstest() {
    local status=0
    cat >"$LOGS/pjdfstest.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["games", "games"], ["daemon", "daemon"]]
TOML
    mkdir -p "$LOGS/other"
    chmod 755 "$2"
    "$TOOLS/pjdfstest" -c "$LOGS/pjdfstest.toml" -p "$2" -s "$LOGS/other" "$1::" 2>&1 | sed 's/\x1b\[[0-9;]*m//g' || status=$?
    return $status
}

# Each test: length of the file, alignment of the operations, size of the largest operation, number of operations.
tests_fsx() {
    printf '%s\n' '262144 1 65536 6000' '65536 1 4096 6000' '2000000 1 300000 3000' '1048576 4096 131072 4000' '100000 512 40000 5000' \
        '8000000 1 1500000 800'
}
run_fsx() {
    local flen align most count room=0
    read -r flen align most count <<<"$1"
    # Aligned lengths can become 0, which posix_fallocate must refuse.
    [ "$align" -gt 1 ] || room=3
    cat >"$LOGS/fsx.toml" <<TOML
flen = $flen
[opsize]
min = $align
max = $most
align = $align
[weights]
close_open = 1
invalidate = 2
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 5
fsync = 2
fdatasync = 2
posix_fallocate = $room
punch_hole = 5
sendfile = 3
posix_fadvise = 1
copy_file_range = 4
TOML
    "$TOOLS/fsx" -q -f "$LOGS/fsx.toml" -N "$count" -S "$((flen + align))" -P "$LOGS" "$2/fsx"
}

tests_fio() {
    cat <<'JOBS'
random-sizes --rw=randwrite --bsrange=512-128k --bs_unaligned --verify=crc32c --size=64m
overwritten --rw=randwrite --bs=3k --norandommap --io_size=48m --verify=md5 --size=16m --fsync=50
direct-aio --rw=randwrite --bsrange=4k-64k --direct=1 --ioengine=libaio --iodepth=16 --verify=crc32c --size=64m
direct-io_uring --rw=randwrite --bsrange=4k-64k --direct=1 --ioengine=io_uring --iodepth=16 --verify=crc32c --size=64m
overlapping --rw=randwrite --bsrange=4k-256k --direct=1 --ioengine=libaio --iodepth=16 --serialize_overlap=1 --norandommap --verify=xxhash --size=32m --io_size=96m
mapped --rw=randwrite --bs=4k --ioengine=mmap --verify=crc32c --size=64m --fsync=500
mapped-over --rw=randwrite --bs=4k --ioengine=mmap --norandommap --io_size=96m --verify=crc32c --size=32m
threads-one-file --rw=randwrite --bsrange=1k-64k --bs_unaligned --numjobs=4 --size=16m --offset_increment=16m --filename=one --verify=crc32c --thread
threads-own-files --rw=randrw --bsrange=4k-64k --numjobs=4 --size=16m --nrfiles=8 --verify=crc32c --thread
synced --rw=randwrite --bs=4k --sync=1 --verify=crc32c --size=4m
data-synced --rw=randwrite --bs=16k --fdatasync=1 --verify=crc32c --size=16m
sequential --rw=write --bs=1m --verify=sha256 --size=256m
backwards --rw=write:-16k --bs=8k --verify=crc32c --size=16m
vectors --rw=randwrite --bsrange=512-64k --bs_unaligned --ioengine=pvsync2 --verify=crc32c --size=32m
pattern-sparse --rw=randwrite --bs=8k --size=6g --io_size=24m --verify=pattern --verify_pattern=%o
small-files --rw=randwrite --bs=1k --nrfiles=400 --filesize=1k-40k --size=8m --verify=crc32c --openfiles=50
JOBS
}
run_fio() {
    local name words
    read -r name words <<<"$1"
    # shellcheck disable=SC2086
    (cd "$LOGS" && fio --name="$name" --directory="$2" --group_reporting --verify_fatal=1 --verify_dump=0 --randrepeat=1 \
        --minimal --thread $words)
}

tests_stress-ng() { printf '%s\n' "${STRESSORS[@]}" "${VARIANTS[@]}"; }
run_stress-ng() {
    local name words status=0
    read -r name words <<<"$1"
    # shellcheck disable=SC2086
    (cd "$LOGS" && stress-ng "--$name" 2 $words --verify --timeout "$STRESS_SECONDS" --temp-path "$2" --oomable) || status=$?
    case $status in
        3 | 4) return 77 ;; # no resource, not implemented here
        *) return $status ;;
    esac
}

tests_dbench() { printf '%s\n' '4' '8 -s' '2 -S -F'; }
run_dbench() {
    # shellcheck disable=SC2086
    dbench -D "$2" -t 5 ${1#* } ${1%% *} 2>&1 | tee "$LOGS/dbench.out" | tail -n 3
    grep -q '^Throughput' "$LOGS/dbench.out"
}

tests_cpython() { printf '%s\n' "${CPYTHON[@]}"; }
run_cpython() {
    # No tests of servers and threads.
    TMPDIR=$2 /usr/bin/python3 -m test --tempdir "$2" -W -u largefile "$1"
}

tests_lmdb-tests() { find "$VENV/source/tests" -name '*_test.py' -printf '%f\n' | sort; }
run_lmdb-tests() {
    (cd "$LOGS" && TMPDIR=$2 "$VENV/bin/python" -m pytest -q -p no:cacheprovider "$VENV/source/tests/$1")
}

# in_directory SUITE TEST DIR LOG: runs one test; sets its status.
in_directory() {
    rm -rf -- "$3"
    mkdir "$3" || return 1
    export -f "run_$1" say warn
    LOGS=$LOGS TOOLS=$TOOLS VENV=$VENV STRESS_SECONDS=$STRESS_SECONDS timeout -k 5 $PATIENCE \
        bash -c "set -o pipefail; run_$1 \"\$1\" \"\$2\"" _ "$2" "$3" >"$4" 2>&1 </dev/null
}

# failure_text LOG: the messages of a failed test.
failure_text() {
    local found
    found=$(grep -iE 'FAILED|stress-ng: fail|error|verify:|assert|mismatch|panic|diff' "$1" | tail -n 3 | tr '\n' ' ' || true)
    [ -n "$found" ] || found=$(last_line "$1" 2)
    printf '%s' "$found" | tr -s '[:space:]' ' ' | cut -c 1-400
}

# one_test SUITE MODE TEST: runs and counts a test; reports a failure.
one_test() {
    local status=0 there=0 log=$LOGS/test.log kept
    in_directory "$1" "$3" "$MNT/t" "$log" || status=$?
    case $status in
        0) PASSES=$((PASSES + 1)); return ;;
        77) LEFT_OUT="$LEFT_OUT ${3%% *}"; return ;;
    esac
    in_directory "$1" "$3" "$REFERENCE" "$LOGS/reference.log" || there=$?
    kept=$(failure_text "$log")
    if [ -n "${POOLWRIGHT_KEEP_LOGS:-}" ]; then
        cp "$log" "$POOLWRIGHT_KEEP_LOGS/$1-$2-${3//[^a-zA-Z0-9_-]/_}.log"
    fi
    if [ $there -eq 0 ]; then
        FAILURES=$((FAILURES + 1))
        printf '%s (%s) %s: FAILED, status %s: %s\n' "$1" "$2" "$3" "$status" "$kept"
    else
        ALIKE=$((ALIKE + 1))
        printf '%s (%s) %s: also fails on the host'\''s file system (%s): %s\n' "$1" "$2" "$3" "$there" "$kept"
    fi
    if ! mount_alive; then
        say "  the mount process has ended: $(last_line "$SCRATCH/serve.log" 2)"
        mount_discard
        mount_up "$2"
    fi
}

suite() {
    local tests test
    PASSES=0 FAILURES=0 ALIKE=0 LEFT_OUT=
    mapfile -t tests < <("tests_$1")
    for test in "${tests[@]}"; do one_test "$1" "$2" "$test"; done
    TABLE+=("$(printf '%-12s %-10s %6d %6d %6d   %s' "$1" "$2" $PASSES $FAILURES $ALIKE "${LEFT_OUT:-–}")")
    FAILED=$((FAILED + FAILURES))
    PASSED=$((PASSED + PASSES))
}

main() {
    local mode modes name
    parse_arguments "$@"
    "$POOLWRIGHT_ROOT/scripts/mount/install.sh" --check || die 1 "required packages are missing; run scripts/mount/install.sh"
    mount_prepare
    REFERENCE=$(mktemp -d "${POOLWRIGHT_REFERENCE:-/var/tmp}/poolwright-reference.XXXXXX")
    trap 'mount_cleanup; rm -rf -- "$REFERENCE"' EXIT
    LOGS=$SCRATCH/logs
    mkdir "$LOGS"
    TABLE=()
    IFS=, read -ra modes <<<"$MODES"
    for mode in "${modes[@]}"; do
        mount_up "$mode"
        for name in "${SUITES[@]}"; do suite "$name" "$mode"; done
        rm -rf -- "$MNT/t"
        mount_down || { say "the mount ($mode) failed to unmount cleanly"; FAILED=$((FAILED + 1)); }
        mount_discard
    done
    printf '\n%-12s %-10s %6s %6s %6s   %s\n' suite mode passed failed "both" "cannot run here"
    printf '%s\n' "${TABLE[@]}"
    summary || exit 1
}

main "$@"

#!/usr/bin/env bash
# Tests that the engine and a kernel's OpenZFS, in a virtual machine, read each other's pools (`make test-kernel`).
#
# usage: scripts/test-kernel.sh [--no-install] [--no-build] [--keep] [--all | PART...]
#
# Parts (default: out in replay volumelog crash vdevs apply truth, 25 minutes without truth; --all: all, four hours):
#   out      the engine makes a pool; the kernel imports, reads, scrubs and changes it; the engine reads it again
#   in       the kernel makes a pool; the engine reads and changes it; the kernel reads and scrubs it
#   replay   the engine crashes (SIGKILL); the kernel replays its intent log
#   volumelog  the engine crashes with a volume; the kernel replays its intent log
#   crash    the kernel crashes (reset); the engine replays its intent log
#   vdevs    the engine attaches, replaces and adds vdevs and spares; the kernel imports, scrubs and changes them; the engine reads the result
#   apply    a plan is applied to the kernel's datasets and undone (poolwright apply, undo)
#   truth    predictions for a small SQLite compared with the kernel (scripts/truth.sh): each setting is measured and predicted
#   inspect  `poolwright inspect` finds planted faults of a pool, a PostgreSQL, a MariaDB, a SQLite and an etcd, and none in a sound set-up
#   newpool  a tree moves to another pool and back (poolwright apply --new-pool, undo); runs are killed
#   standby  a PostgreSQL server under load moves to another pool with a standby server (poolwright apply --new-pool --standby), and back
#   resets   the guest is reset at random points of poolwright apply and undo, boots again, and continues or undoes the run
#   newpoolresets  the guest is reset at random points of apply --new-pool and of undo after it, boots again, and continues or undoes the run
#   units    a plan is applied and undone with a PostgreSQL that is a unit of systemd: stopped, masked, started; runs are killed and interrupted
#   databases  a plan is applied and undone with a PostgreSQL and a MariaDB under load
#   backup   backups of a PostgreSQL under load are made, killed, restored and removed (poolwright backup)
#   send     backups are sent to another pool, interrupted and continued, encrypted, through a remote shell (poolwright backup send)
#   space    the kernel's allocations against `poolwright estimate --full`, for many settings and files
#   trials   trials in datasets of a kernel's pool: `poolwright replay --on` (records a database: requires root)
#   lab      a campaign in datasets of a kernel's pool: `poolwright lab run --on`
#   recorded  recordings of I/O on a dataset of the kernel: the column zfs of docs/recorded-io.md (REWRITE=1 writes it)
#   arc      replays of traces on the engine and in the kernel's datasets: ARC hits, bytes written (records them: requires root)
#
# Trees are compared name by name: object number, type, permissions, owners, size, links, device, time, block size, content
# and extended attributes. --keep leaves pools and manifests in target/vm/work. --no-build uses the programs in target/release
# as they are. The virtual machine is unpacked into target/vm (scripts/vm/packages.sh); no kernel module is loaded on this
# machine. The environment variables POOLWRIGHT_NODES (20000) and POOLWRIGHT_SEED (1) set the size and the seed of the trees;
# POOLWRIGHT_SMALL_FILES (a quarter of the nodes) is the number of small files in `apply`, POOLWRIGHT_RESETS (50) the number of
# resets in each direction, POOLWRIGHT_BACKUPS (5) the number of backups. POOLWRIGHT_TRACES names a copy of the directory
# target/vm/work/arc of an earlier `arc --keep`, whose recordings are replayed instead of new ones. See docs/kernel-tests.md.
#
# Exit status: 0 all passed, 1 a test failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=scripts/vm/disk.sh
. "$POOLWRIGHT_ROOT/scripts/vm/disk.sh"
# shellcheck source=scripts/vm/vdevs_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/vdevs_part.sh"
# shellcheck source=scripts/vm/space_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/space_part.sh"
# shellcheck source=scripts/vm/backup_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/backup_part.sh"
# shellcheck source=scripts/vm/send_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/send_part.sh"
# shellcheck source=scripts/vm/trials_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/trials_part.sh"
# shellcheck source=scripts/vm/lab_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/lab_part.sh"
# shellcheck source=scripts/vm/standby_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/standby_part.sh"
# shellcheck source=scripts/vm/units_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/units_part.sh"
# shellcheck source=scripts/vm/recorded_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/recorded_part.sh"
# shellcheck source=scripts/vm/arc_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/arc_part.sh"
# shellcheck source=scripts/vm/truth_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_part.sh"
# shellcheck source=scripts/vm/inspect_part.sh
. "$POOLWRIGHT_ROOT/scripts/vm/inspect_part.sh"

NODES=${POOLWRIGHT_NODES:-20000}
SEED=${POOLWRIGHT_SEED:-1}
SMALL_FILES=${POOLWRIGHT_SMALL_FILES:-$((NODES / 4))}
RESETS=${POOLWRIGHT_RESETS:-50}
BACKUPS=${POOLWRIGHT_BACKUPS:-5}
WORK=$POOLWRIGHT_ROOT/target/vm/work
TREE=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/engine-tree
VOLUME=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/engine-volume
PROGRAM=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright
# Field of the manifest that a replay sets to the current time.
TIME_FIELD=10
SHORT_PARTS=(out in replay volumelog crash vdevs apply truth)
ALL_PARTS=("${SHORT_PARTS[@]}" inspect newpool standby resets newpoolresets units databases backup send trials lab space recorded arc)
PASSED=0
FAILED=0

pass() { PASSED=$((PASSED + 1)); say "  pass  $*"; }
fail() { FAILED=$((FAILED + 1)); say "  FAIL  $*"; }

# expect TEXT COMMAND...: runs a command that must succeed.
expect() {
    local text=$1 status=0
    shift
    "$@" 2>"$WORK/said" || status=$?
    if [ $status -eq 0 ]; then
        pass "$text$(sed 's/^/ (/;s/$/)/' "$WORK/said" | tr '\n' ' ')"
    else
        fail "$text: status $status: $(tail -n 5 "$WORK/said" | cut -c 1-300 | tr '\n' ' ')"
        return 1
    fi
}

# guest DISK STATUS STEP ARGUMENT...: runs one step of scripts/vm/steps.sh (or of GUEST_STEPS) in the virtual machine, counts its results, and
# checks its status.
guest() {
    local disk=$1 expected=$2 status=0 word rest began=$SECONDS
    shift 2
    "$POOLWRIGHT_ROOT/scripts/vm/run.sh" --seconds "${GUEST_SECONDS:-1800}" ${GUEST_REBOOTS:+--reboot} --disk "$disk" "$POOLWRIGHT_ROOT/scripts/vm/${GUEST_STEPS:-steps.sh}" "$@" >"$WORK/console" || status=$?
    while IFS=$'\t' read -r word rest; do
        case $word in
            pass) pass "$rest" ;;
            fail) fail "$rest" ;;
        esac
    done <"$WORK/console"
    if [ $status -eq "$expected" ]; then
        pass "the guest ended with the expected status (step $1, $((SECONDS - began)) s)"
    else
        fail "the guest ended with status $status, not $expected (step $1); its last lines: $(tail -n 15 "$WORK/console")"
    fi
}

# report_table FILE: prints a table; its lines that start with "pass" or "fail" and a tab are results.
report_table() {
    local line
    while IFS= read -r line; do
        case $line in
            pass$'\t'*) pass "${line#*$'\t'}" ;;
            fail$'\t'*) fail "${line#*$'\t'}" ;;
            *) say "  $line" ;;
        esac
    done <"$1"
}

# same TEXT EXPECTED FOUND [untimed]: two manifests must be equal and not empty; untimed ignores the times.
same() {
    local text=$1 names fields=1-
    [ "${4:-}" != untimed ] || fields=1-$((TIME_FIELD - 1)),$((TIME_FIELD + 1))-
    names=$(wc -l <"$2" || true)
    cut -f "$fields" "$2" >"$WORK/expected"
    cut -f "$fields" "$3" >"$WORK/found" || true
    if [ "${names:-0}" -gt 0 ] && cmp -s "$WORK/expected" "$WORK/found"; then
        pass "$text: $names names equal"
    else
        diff "$WORK/expected" "$WORK/found" >"$3.diff" || true
        fail "$text: $(grep -c '^<' "$3.diff" || true) of $names names differ or are missing, $(grep -c '^>' "$3.diff" || true) found instead; the first (all: ${3#"$POOLWRIGHT_ROOT/"}.diff):"
        # awk, unlike head, reads to the end: a closed pipe would count as a failure.
        awk '/^[<>]/ && ++n <= 6 { print "        " substr($0, 1, 400) }' "$3.diff"
    fi
}

# no_leaks POOL FILE: zdb reads and counts all blocks.
no_leaks() {
    local dir status=0
    dir=$(mktemp -d "$WORK/zdb.XXXXXX")
    # zdb searches a directory, which must contain this pool only.
    ln "$2" "$dir/pool"
    zdb -e -p "$dir" -bcc "$1" >"$WORK/zdb.out" 2>&1 || status=$?
    rm -r "$dir"
    if [ $status -eq 0 ] && grep -q 'No leaks (block sum matches space maps exactly)' "$WORK/zdb.out"; then
        pass "$1: zdb -bcc: no leaks, $(awk '/bp count:/ { print $3 }' "$WORK/zdb.out") blocks"
    else
        fail "$1: zdb -bcc: status $status: $(grep -m 3 -iE 'leak|error|mismatch' "$WORK/zdb.out" | tr '\n' ' ')"
    fi
}

# read_here POOL FILE MANIFEST [FLAG]: the engine reads the pool and writes a manifest.
read_here() { expect "$1: the engine reads it${4:+ ($4)}" into "$3" "$TREE" list "$2" ${4:+"$4"} || true; }

into() {
    local file=$1
    shift
    "$@" >"$file"
}

part_out() {
    local pool=tree$SEED disk=$WORK/out.disk
    cd "$WORK"
    expect "$pool: the engine makes $NODES nodes" "$TREE" make "$WORK/$pool" "$SEED" "$NODES" || return 0
    read_here "$pool" "$pool" "$pool.here"
    no_leaks "$pool" "$pool"
    disk_make "$disk" 3G "$pool"
    guest "$disk" 0 take_and_change "$pool" "$((SEED + 100))" $((NODES / 20))
    disk_get "$disk" "$WORK" "$pool" "$pool.read" "$pool.changed"
    same "$pool: the kernel reads what the engine made" "$pool.here" "$pool.read"
    read_here "$pool" "$pool" "$pool.after"
    same "$pool: the engine reads what the kernel changed" "$pool.changed" "$pool.after"
    no_leaks "$pool" "$pool"
}

part_in() {
    local pool=kernel$SEED disk=$WORK/in.disk
    cd "$WORK"
    disk_make "$disk" 3G
    guest "$disk" 0 make "$pool" "$SEED" $((NODES / 10))
    disk_get "$disk" "$WORK" "$pool" "$pool.made"
    [ -s "$pool" ] || { fail "$pool: the guest's disk does not contain the kernel's pool"; return 0; }
    # First read-only: the file must not change.
    sha256sum "$pool" >"$pool.sum"
    read_here "$pool" "$pool" "$pool.read-only" --read-only
    expect "$pool: reading it changed no byte" sha256sum --quiet -c "$pool.sum" || true
    same "$pool: the engine, read-only, reads what the kernel made" "$pool.made" "$pool.read-only"
    read_here "$pool" "$pool" "$pool.here"
    same "$pool: the engine, read-write, reads what the kernel made" "$pool.made" "$pool.here"
    expect "$pool: the engine changes it" "$TREE" change "$pool" "$SEED" $((NODES / 40)) --utf8=formd || true
    read_here "$pool" "$pool" "$pool.changed"
    no_leaks "$pool" "$pool"
    disk_make "$disk" 3G "$pool"
    guest "$disk" 0 take "$pool"
    disk_get "$disk" "$WORK" "$pool.read"
    same "$pool: the kernel reads what the engine changed" "$pool.changed" "$pool.read"
}

# crash_here SEED [FLAG]: makes a pool with operations in its log, and kills the engine.
crash_here() {
    local pool=tree$1 status=0
    expect "$pool: the engine makes 1500 nodes" "$TREE" make "$WORK/$pool" "$1" 1500 || return 0
    # The redirection hides the shell's message about the killed child.
    { "$TREE" crash "$pool" "$(($1 + 1000))" 300 ${2:+"$2"} >"$pool.expected" || status=$?; } 2>"$WORK/said"
    if [ $status -eq 137 ] && [ -s "$pool.expected" ]; then
        pass "$pool: killed after 300 committed operations in each dataset"
    else
        fail "$pool: engine-tree crash ended with status $status instead of 137: $(tail -n 3 "$WORK/said")"
    fi
}

# crash_volume_here POOL SEED PROPERTY=VALUE...: makes a pool with a volume whose last writes are only in its log, and kills the engine.
crash_volume_here() {
    local pool=$1 status=0
    { "$VOLUME" "$WORK/$pool" "$WORK/$pool.image" "${@:2}" || status=$?; } 2>"$WORK/said"
    if [ $status -eq 137 ] && [ -s "$pool.image" ]; then
        pass "$pool: killed after 400 operations on a volume, 299 of them only in the log with ${*:3}"
    else
        fail "$pool: engine-volume ended with status $status instead of 137: $(tail -n 3 "$WORK/said")"
    fi
}

# all_kinds TEXT POOL...: the logs of these pools must contain records of every kind that a log can contain.
all_kinds() {
    local text=$1 pool dataset kind missing=() kinds=(CREATE MKDIR SYMLINK REMOVE RMDIR LINK RENAME RENAME_EXCHANGE
        RENAME_WHITEOUT WRITE TRUNCATE SETATTR SETSAXATTR CLONE_RANGE)
    shift
    for pool in "$@"; do
        mkdir "$WORK/zdb"
        ln "$WORK/$pool" "$WORK/zdb/pool"
        for dataset in / /small /middle /large; do
            # LC_ALL=C, -a: names need not be valid text.
            zdb -e -p "$WORK/zdb" -iii "$pool$dataset" 2>/dev/null | LC_ALL=C grep -aoE '\bTX_[A-Z_]+ +len' | cut -d ' ' -f 1 || true
        done
        rm -r "$WORK/zdb"
    done | sort | uniq -c >"$WORK/kinds"
    for kind in "${kinds[@]}"; do
        grep -q " TX_$kind$" "$WORK/kinds" || missing+=("$kind")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        pass "$text: $(awk '{ n += $1 } END { print n }' "$WORK/kinds") records of all ${#kinds[@]} kinds"
    else
        fail "$text: no record of the kinds ${missing[*]}"
    fi
}

part_replay() {
    local pool pools=() n disk=$WORK/replay.disk
    cd "$WORK"
    for n in 1 2 3 4 5 6; do
        # The last two also have empty extended attributes, for which the log format has no record.
        if [ $n -le 4 ]; then crash_here "$((SEED * 100 + n))" --no-empty; else crash_here "$((SEED * 100 + n))"; fi
        pools+=("tree$((SEED * 100 + n))")
    done
    for pool in "${pools[@]}"; do
        cp --sparse=always "$pool" "$pool.copy"
    done
    all_kinds "the logs to be replayed" "${pools[@]}"
    disk_make "$disk" 4G "${pools[@]}"
    guest "$disk" 0 replay "${pools[@]}"
    disk_get "$disk" "$WORK" "${pools[@]}" "${pools[@]/%/.replayed}"
    for pool in "${pools[@]}"; do
        same "$pool: the kernel replays what the engine acknowledged" "$pool.expected" "$pool.replayed" untimed
        read_here "$pool" "$pool.copy" "$pool.own"
        same "$pool: the engine replays what it acknowledged" "$pool.expected" "$pool.own" untimed
        no_leaks "$pool" "$pool"
    done
}

part_volumelog() {
    local number=0 pools=() settings disk=$WORK/volumelog.disk
    cd "$WORK"
    for settings in 'volblocksize=4K compression=lz4' 'volblocksize=16K compression=off' 'volblocksize=64K compression=lz4' \
        'volblocksize=128K compression=zstd-1 logbias=throughput'; do
        number=$((number + 1))
        # shellcheck disable=SC2086 # words
        crash_volume_here "volume$number" $((SEED * 100 + number)) $settings
        pools+=("volume$number" "volume$number.image")
    done
    disk_make "$disk" 4G "${pools[@]}"
    guest "$disk" 0 replay_volumes volume1 volume2 volume3 volume4
    rm -f "$disk"
}

# crash_there POOL SEED KIND...: the kernel makes a pool with operations in its log; the guest is reset.
crash_there() {
    local pool=$1 seed=$2 disk=$WORK/crash.disk
    shift 2
    disk_make "$disk" 3G
    # 125: a reset ends the guest without a status.
    guest "$disk" 125 crash "$pool" "$seed" 400 200 "$@"
    disk_get "$disk" "$WORK" "$pool" "$pool.synced"
    [ -s "$pool" ] || { fail "$pool: the guest's disk does not contain the kernel's pool"; return 1; }
}

# back_to_kernel POOL STEP RESULT: runs a step on the pool in a new guest.
back_to_kernel() {
    disk_make "$WORK/crash.disk" 3G "$1"
    guest "$WORK/crash.disk" 0 "$2" "$1"
    disk_get "$WORK/crash.disk" "$WORK" "$3"
}

part_crash() {
    local n pool
    cd "$WORK"
    for n in 1 2; do
        pool=kernel$((SEED * 100 + n))
        crash_there "$pool" "$((SEED * 100 + n))" dnodes formd posix || continue
        read_here "$pool" "$pool" "$pool.here"
        same "$pool: the engine replays what the kernel synced" "$pool.synced" "$pool.here" untimed
        no_leaks "$pool" "$pool"
        back_to_kernel "$pool" take "$pool.read"
        same "$pool: the kernel reads the same after the engine's replay" "$pool.here" "$pool.read"
    done
    # The engine refuses a log with attribute directories (xattr=dir), and must leave it unchanged.
    pool=kernel$((SEED * 100 + 3))
    crash_there "$pool" "$((SEED * 100 + 3))" xattrdir || return 0
    if "$TREE" list "$pool" >"$WORK/refused" 2>&1 || ! grep -q "$pool/xattrdir: its intent log cannot be replayed" "$WORK/refused"; then
        fail "$pool: the engine did not refuse a log with attribute directories: $(tail -n 2 "$WORK/refused" | cut -c 1-300)"
    else
        pass "$pool: the engine refuses a log with attribute directories"
    fi
    back_to_kernel "$pool" replay "$pool.replayed"
    same "$pool: the kernel replays the log after the refusal" "$pool.synced" "$pool.replayed" untimed
}

# add_libraries DIR PROGRAM...: copies the libraries of programs.
add_libraries() {
    local into=$1
    shift
    ldd "$@" 2>/dev/null | sed -n 's|^[^/]*=> \(/[^ ]*\).*|\1|p' | sort -u | xargs -I{} cp -Lf {} "$into/"
}

# program_disk DISK SIZE [FUNCTION]: makes a disk with the program, its libraries and a template of a plan for a dataset on /srv/db. The
# function adds further files to a directory.
program_disk() {
    local stage=$WORK/program
    rm -rf "$stage"
    mkdir -p "$stage/bin" "$stage/lib"
    strip -o "$stage/bin/poolwright" "$PROGRAM"
    cp -L "$(command -v chattr)" "$stage/bin/"
    add_libraries "$stage/lib" "$PROGRAM" "$stage/bin/chattr"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/plan.py" /srv/db tank/db >"$stage/plan.template"
    [ $# -lt 3 ] || "$3" "$stage"
    disk_make "$1" "$2" "$stage"/*
    rm -rf "$stage"
}

postgres_programs() { dirname "$(readlink -f "$(command -v initdb || ls -d /usr/lib/postgresql/*/bin/initdb)")"; }

# postgres_make [TEXT]: makes a PostgreSQL in $WORK/postgres/db, with a table whose text is this expression of n.
postgres_make() {
    local data=$WORK/postgres text=${1:-"repeat('row ', 50)"} bin user=()
    bin=$(postgres_programs)
    rm -rf "$data"
    mkdir -p "$data"
    [ "$(id -u)" -ne 0 ] || { chown nobody "$data"; user=(setpriv --reuid nobody --clear-groups); }
    # The guest has no table of time zones; GMT needs none.
    TZ=GMT "${user[@]}" "$bin/initdb" -D "$data/db" -U postgres -A trust --no-locale -E UTF8 -k >"$WORK/initdb.log"
    printf '%s\n' "CREATE TABLE t (id int PRIMARY KEY, v text);" \
        "INSERT INTO t SELECT n, $text FROM generate_series(1, 40000) n;" >"$WORK/postgres.sql"
    "${user[@]}" "$bin/postgres" --single -D "$data/db" postgres <"$WORK/postgres.sql" >"$WORK/initdb.log" 2>&1
}

# postgres_data DIR: a PostgreSQL with a table, and its programs below DIR/usr.
postgres_data() {
    local bin
    bin=$(postgres_programs)
    postgres_make
    mkdir -p "$1/usr/lib/postgresql" "$1/usr/share/postgresql"
    tar -C "$WORK/postgres/db" -cf "$1/postgres.tar" .
    cp "$POOLWRIGHT_ROOT/scripts/vm/database.sh" "$1/"
    # The server finds both directories relative to its program.
    cp -rL "${bin%/bin}" "$1/usr/lib/postgresql/"
    cp -rL "/usr/share/postgresql/$(basename "${bin%/bin}")" "$1/usr/share/postgresql/"
    add_libraries "$1/lib" "$bin/postgres" "$bin/psql" "$bin/pg_ctl" "$bin/pg_checksums"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/plan.py" /srv/db tank/db --database PostgreSQL --log pg_wal >"$1/postgres.template"
}

# mariadb_make [TEXT]: makes a MariaDB in $WORK/mariadb, with a table whose text is this expression of seq.
mariadb_make() {
    local data=$WORK/mariadb text=${1:-"repeat('row ', 50)"}
    rm -rf "$data"
    mariadb-install-db --no-defaults --datadir="$data" --skip-test-db --auth-root-authentication-method=normal --force >"$WORK/install.log" 2>&1
    printf '%s\n' "CREATE DATABASE test;" "USE test;" "CREATE TABLE t (id int PRIMARY KEY, v text) ENGINE=InnoDB;" \
        "INSERT INTO t SELECT seq, $text FROM seq_1_to_40000;" >"$WORK/mariadb.sql"
    mariadbd --no-defaults --datadir="$data" --bootstrap --user="$(id -un)" <"$WORK/mariadb.sql" >"$WORK/install.log" 2>&1
}

# mariadb_data DIR: a MariaDB with a table, and its programs in DIR/bin.
mariadb_data() {
    mariadb_make
    tar -C "$WORK/mariadb" -cf "$1/mariadb.tar" .
    cp "$POOLWRIGHT_ROOT/scripts/vm/database.sh" "$1/"
    mkdir -p "$1/usr/share"
    cp -rL /usr/share/mysql "$1/usr/share/"
    cp -L "$(command -v mariadbd)" "$(command -v mariadb)" "$1/bin/"
    add_libraries "$1/lib" "$(command -v mariadbd)" "$(command -v mariadb)"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/plan.py" /srv/db tank/db --database 'MariaDB / MySQL' >"$1/mariadb.template"
}

part_apply() {
    local disk=$WORK/apply.disk
    program_disk "$disk" 12G
    GUEST_STEPS=apply.sh guest "$disk" 0 tree "$SEED" $((NODES / 10))
    program_disk "$disk" 12G
    GUEST_STEPS=apply.sh GUEST_SECONDS=$((1800 + SMALL_FILES / 20)) guest "$disk" 0 cases "$SMALL_FILES"
    rm -f "$disk"
}

# resets_programs DIR: programs for scripts/vm/resets.sh: busybox has none that copy a sparse file or print nanoseconds.
resets_programs() {
    cp -L "$(command -v cp)" "$(command -v stat)" "$1/bin/"
    add_libraries "$1/lib" "$1/bin/cp" "$1/bin/stat"
    cp "$POOLWRIGHT_ROOT"/scripts/vm/{reset_rounds,described_tree}.sh "$1/"
    python3 "$POOLWRIGHT_ROOT/scripts/vm/plan.py" /srv/db tank/db --log wal >"$1/plan.template"
}

no_kernel_failure() {
    if grep -qE 'Kernel panic|VERIFY|Oops|BUG:' "$WORK/console"; then
        fail "the guest's kernel failed: $(grep -m 3 -E 'Kernel panic|VERIFY|Oops|BUG:' "$WORK/console" | tr '\n' ' ')"
    fi
}

part_resets() {
    local disk=$WORK/resets.disk
    say "  seed $SEED, $RESETS resets of apply and $RESETS of undo"
    program_disk "$disk" 12G resets_programs
    GUEST_STEPS=resets.sh GUEST_REBOOTS=yes GUEST_SECONDS=$((900 + RESETS * 2 * 180)) guest "$disk" 0 resets "$SEED" $((NODES / 200)) "$RESETS"
    no_kernel_failure
    rm -f "$disk"
}

# moved_tree DIR: the functions for a tree that moves, and for resets while it does.
moved_tree() { cp "$POOLWRIGHT_ROOT"/scripts/vm/{moved_tree,reset_rounds}.sh "$1/"; }

part_newpool() {
    local disk=$WORK/newpool.disk
    program_disk "$disk" 8G moved_tree
    GUEST_STEPS=new_pool.sh GUEST_SECONDS=3600 guest "$disk" 0 new_pool "$SEED" $((NODES / 50))
    rm -f "$disk"
}

part_newpoolresets() {
    local disk=$WORK/newpoolresets.disk rounds=$(((RESETS + 1) / 2))
    say "  seed $SEED, $rounds resets of apply --new-pool and $rounds of undo"
    program_disk "$disk" 8G moved_tree
    GUEST_STEPS=new_pool_resets.sh GUEST_REBOOTS=yes GUEST_SECONDS=$((900 + rounds * 2 * 180)) \
        guest "$disk" 0 resets "$SEED" $((NODES / 200)) "$rounds"
    no_kernel_failure
    rm -f "$disk"
}

part_databases() {
    local disk=$WORK/apply.disk
    program_disk "$disk" 12G postgres_data
    GUEST_STEPS=apply.sh guest "$disk" 0 database postgres 8K
    program_disk "$disk" 12G mariadb_data
    GUEST_STEPS=apply.sh guest "$disk" 0 database mariadb 16K
    rm -f "$disk"
}

main() {
    local install=yes build=yes keep=no parts=() part
    while [ $# -gt 0 ]; do
        case $1 in
            --no-install) install=no ;;
            --no-build) build=no ;;
            --keep) keep=yes ;;
            --all) parts=("${ALL_PARTS[@]}") ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            out | in | replay | volumelog | crash | vdevs | apply | truth | inspect | newpool | standby | resets | newpoolresets | units | databases | backup | send | trials | lab | space | recorded | arc) parts+=("$1") ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift
    done
    [ ${#parts[@]} -gt 0 ] || parts=("${SHORT_PARTS[@]}")
    [ $install = no ] || step "Install required packages" "$POOLWRIGHT_ROOT/scripts/install.sh" --for test
    cd "$POOLWRIGHT_ROOT"
    [ $build = no ] || step "Build" cargo build --release --locked -p poolwright-devtools --bin engine-tree --bin engine-volume
    [ $build = no ] || [ -x "$PROGRAM" ] || step "Build the program" cargo build --release --locked -p poolwright --bin poolwright
    step "The virtual machine" "$POOLWRIGHT_ROOT/scripts/vm/image.sh"
    rm -rf "$WORK"
    mkdir -p "$WORK"
    for part in "${parts[@]}"; do
        step "Part $part" "part_$part"
    done
    [ $keep = yes ] || [ $FAILED -gt 0 ] || rm -rf "$WORK"
    say
    say "$PASSED passed, $FAILED failed"
    [ $FAILED -eq 0 ] || exit 1
}

main "$@"

# shellcheck shell=bash
# The workload `postgresql` of `truth.sh`: pgbench's TPC-B with tables of 450 MB and 64 MB of shared buffers.

LAB=postgresql
LAB_SIZE=1.5
# shellcheck source=scripts/vm/truth_lab.sh
. "$POOLWRIGHT_ROOT/scripts/vm/truth_lab.sh"

# The guest has no files of time zones. The server knows this one.
workload_fill() { TZ=GMT lab_fill "$1"; }

workload_stage() {
    local installed share
    installed=$(find /usr/lib/postgresql -path '*/bin/postgres' | sort -V | tail -n 1)
    installed=${installed%/bin/postgres}
    share=/usr/share/postgresql/${installed##*/}
    lab_stage "$2"
    # The lab runs it as another user than root by means of a user namespace.
    add_programs "$2" unshare
    add_libraries "$2" "$installed"/bin/{postgres,pgbench,psql}
    # Neither the server's modules nor its compiler of expressions are used.
    mkdir -p "$2$installed"/{bin,lib} "$2$share"
    cp "$installed"/bin/{postgres,pgbench,psql} "$2$installed/bin/"
    cp -r "$share/." "$2$share/"
}

# shellcheck shell=bash
# The workload `mariadb` of `truth.sh`: workloads/mariadb with 425 MiB of tables and a buffer pool of 64M.
# scripts/truth/guest.sh describes the functions.

MARIADB=$POOLWRIGHT_ROOT/workloads/mariadb

workload_fill() {
    local status=0
    "$MARIADB/server.sh" start "$1" --buffer-pool 256M
    "$MARIADB/fill.sh" "$1" --scale "$SIZE" || status=$?
    "$MARIADB/server.sh" stop "$1"
    return $status
}

workload_stage() {
    local filled
    # The database may have been moved since.
    filled=$(sed -n 's|^datadir = \(.*\)/data$|\1|p' "$1/my.cnf")
    add_programs "$2" mariadbd mariadb sysbench realpath
    mkdir -p "$2/usr/share"
    cp -r "$MARIADB" "$2/poolwright/workloads/"
    cp -rL /usr/share/mysql "$2/usr/share/"
    sed "s|^datadir = .*|datadir = $GUEST_DATA|; s|$filled|$GUEST_SCRATCH|; s|^innodb-buffer-pool-size.*|innodb-buffer-pool-size = 64M|" \
        "$1/my.cnf" >"$2/my.cnf"
    [ -z "$FLUSH" ] || echo "innodb-flush-method = $FLUSH" >>"$2/my.cnf"
}

workload_start() {
    mkdir -p "$2/tmp"
    # server.sh requires it and does not run it, because the database exists.
    ln -sf /bin/true /bin/mariadb-install-db
    cp /disk/my.cnf "$2/"
    "$MARIADB/server.sh" start "$2"
}

workload_stop() { "$MARIADB/server.sh" stop "$2"; }

workload_load() {
    rm -f "$2/log".*
    "$MARIADB/load.sh" "$2" --time "$3" --threads "$CLIENTS" --log "$2/log" >&2 || return
    cat "$2/log".*
}

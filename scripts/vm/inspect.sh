# shellcheck shell=bash
# The guest's part of the test of `poolwright inspect`: scripts/test-kernel.sh runs this script in the guest. It makes a sound set-up, plants one
# fault after the other, and removes each again. Each result is a line that starts with "pass" or "fail".
set -u
umask 022

export PATH=$PATH:/disk/bin LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/disk/state HOME=/root
POOL=tank
PARAMETERS=/sys/module/zfs/parameters

# shellcheck source=scripts/vm/guest.sh
. /guest.sh
# shellcheck source=scripts/vm/database.sh
. /disk/database.sh

# rules ARGUMENT...: the rules that find something, in one line; without the defects of this release, which are no planted faults.
rules() {
    poolwright inspect --json "$@" >/tmp/inspection 2>/tmp/said
    grep -oE '"rule": ?"[^"]*"' /tmp/inspection | sed 's/.*"\([^"]*\)"$/\1/' | grep -v '^known-defect$' | sort -u | tr '\n' ' '
}

# finds TEXT EXPECTED ARGUMENT...: inspects, and compares the rules.
finds() {
    local text=$1 expected=$2 found
    shift 2
    found=$(rules "$@")
    if [ "$found" = "$expected${expected:+ }" ]; then
        pass "$text: ${expected:-nothing}"
    else
        fail "$text: found '$found' instead of '$expected': $(tail -n 3 /tmp/said | tr '\n' ' ') $(cut -c 1-1500 /tmp/inspection | tr '\n' ' ')"
    fi
}

# property TEXT RULE DATASET PROPERTY=VALUE BACK [ARGUMENT...]: plants a value, and sets BACK afterwards.
property() {
    local rule=$1 dataset=$2 value=$3 back=$4
    shift 4
    zfs set "$value" "$dataset"
    finds "$dataset: $value" "$rule" "$@"
    zfs set "${value%%=*}=$back" "$dataset"
}

# parameter NAME VALUE BACK RULE: plants a value of a parameter of the module, and sets BACK afterwards.
parameter() {
    echo "$2" >"$PARAMETERS/$1"
    finds "$1=$2" "$4" --no-sample
    echo "$3" >"$PARAMETERS/$1"
}

mariadb_start() {
    as_database "mariadbd --no-defaults --datadir=$1 --socket=/tmp/socket --skip-networking --pid-file=/tmp/pid \
        --lc-messages-dir=/disk/usr/share/mysql --lc-messages=en_US --character-sets-dir=/disk/usr/share/mysql/charsets \
        --innodb-buffer-pool-size=64M --innodb-flush-neighbors=0 ${2:-} >/tmp/log 2>&1 &"
    for _ in $(seq 600); do
        mariadb --no-defaults -u root -S /tmp/socket -e 'SELECT 1' >/dev/null 2>&1 && return
        sleep 0.5
    done
    return 1
}

mariadb_stop() {
    kill "$(cat /tmp/pid)"
    for _ in $(seq 600); do
        [ -e /tmp/pid ] || return
        sleep 0.2
    done
    return 1
}

# postgres_set SETTING=VALUE
postgres_set() {
    SYSTEM=postgres sql "ALTER SYSTEM SET ${1%%=*} = '${1#*=}'" >/dev/null
    SYSTEM=postgres sql "SELECT pg_reload_conf()" >/dev/null
    sleep 1
}

# postgres_plant SETTING=VALUE BACK RULE
postgres_plant() {
    postgres_set "$1"
    finds "PostgreSQL: $1" "$3" --no-sample
    postgres_set "${1%%=*}=$2"
}

make_pool() {
    local file
    for file in a b l s; do truncate -s 1G "/disk/$file"; done
    expect "the kernel makes a pool" zpool create -f -o ashift=12 -O mountpoint=none -O compression=lz4 -O relatime=on -O xattr=sa \
        "$POOL" mirror /disk/a /disk/b log /disk/l
    zfs create -o mountpoint=/srv/mysql -o recordsize=16K "$POOL/mysql"
    zfs create -o mountpoint=/srv/pg -o recordsize=16K "$POOL/pg"
    zfs create -o mountpoint=/srv/shop -o recordsize=16K "$POOL/shop"
    zfs create -o mountpoint=/srv/etcd -o recordsize=16K "$POOL/etcd"
}

start_databases() {
    # The clients of the databases run without this environment.
    install_programs /disk/bin/mariadb
    SYSTEM=postgres database_files /srv/pg
    SYSTEM=mariadb database_files /srv/mysql
    chmod 700 /srv/pg
    cp /disk/shop.db /srv/shop/
    printf "wal_init_zero = off\nwal_recycle = off\nshared_buffers = 32MB\n" >>/srv/pg/postgresql.conf
    SYSTEM=postgres postgres_service /srv/pg
    expect "PostgreSQL starts" bash /tmp/start.sh
    SYSTEM=postgres sql "CREATE ROLE database SUPERUSER LOGIN" >/dev/null
    expect "MariaDB starts" mariadb_start /srv/mysql
    SYSTEM=mariadb sql "CREATE USER database@localhost IDENTIFIED VIA unix_socket; GRANT ALL ON *.* TO database@localhost" >/dev/null
    # The guest has no DNS resolver, so that etcd needs addresses instead of names.
    etcd --data-dir /srv/etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster default=http://127.0.0.1:2380 >/tmp/etcd.log 2>&1 &
    ETCD=$!
    for _ in $(seq 600); do [ -e /srv/etcd/member/snap/db ] && break; sleep 0.3; done
    [ -e /srv/etcd/member/snap/db ] || fail "etcd does not start: $(tail -n 3 /tmp/etcd.log)"
}

databases_are_known() {
    local system
    rules --no-sample >/dev/null
    for system in PostgreSQL "MariaDB / MySQL" SQLite etcd; do
        same "$system is found on its dataset" "$(grep -cF "\"system\":\"$system\"" /tmp/inspection)" 1
    done
    same "the settings of all servers are known" "$(grep -c 'the settings of' /tmp/inspection)" 0
    same "MariaDB's process is found" "$(grep -c 'mariadbd (process' /tmp/inspection)" 1
    pass "findings of the rule known-defect: $(grep -o '"rule":"known-defect"' /tmp/inspection | wc -l); $(grep -o '"unknown":.*' /tmp/inspection)"
}

plant_properties() {
    property sync-disabled "$POOL/mysql" sync=disabled standard --no-sample
    property checksum-off "$POOL/pg" checksum=off on --no-sample
    property primarycache "$POOL/pg" primarycache=metadata all --no-sample
    property log-vdev-unused "$POOL/pg" logbias=throughput latency --no-sample
    property dedup "$POOL/shop" dedup=on off --no-sample
    property atime "$POOL/shop" relatime=off on --no-sample
    property special-missing "$POOL/pg" special_small_blocks=4K 0 --no-sample
    property stale-block-size "$POOL/pg" recordsize=32K 16K --no-sample
    property "no-room-to-compress records-below-pages stale-block-size" "$POOL/pg" recordsize=4K 16K --no-sample
    property compression-off "$POOL/mysql" compression=off lz4 /srv/mysql
    zfs set acltype=posix "$POOL/shop"
    property xattr "$POOL/shop" xattr=dir sa --no-sample
    zfs set acltype=off "$POOL/shop"
    finds "all values are as before" "" --no-sample
}

plant_parameters() {
    local memory
    memory=$(($(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo) * 1024))
    parameter zfs_nocacheflush 1 0 flushes-off
    parameter zil_nocacheflush 1 0 flushes-off
    parameter zfs_arc_max $((memory - 33554432)) $((memory / 2)) memory-overcommitted
}

plant_settings() {
    postgres_plant full_page_writes=off on full-page-writes
    postgres_plant fsync=off on postgresql-fsync
    postgres_plant synchronous_commit=off on relaxed-commit
    postgres_plant wal_recycle=on off database-setting
    SYSTEM=mariadb sql "SET GLOBAL innodb_flush_log_at_trx_commit = 2"
    finds "MariaDB: innodb_flush_log_at_trx_commit=2" relaxed-commit --no-sample
    SYSTEM=mariadb sql "SET GLOBAL innodb_flush_log_at_trx_commit = 1; SET GLOBAL innodb_flush_neighbors = 1"
    finds "MariaDB: innodb_flush_neighbors=1" database-setting --no-sample
    SYSTEM=mariadb sql "SET GLOBAL innodb_flush_neighbors = 0"
    mariadb_stop
    expect "MariaDB starts without doublewrite" mariadb_start /srv/mysql --innodb-doublewrite=0
    finds "MariaDB: innodb_doublewrite=0" innodb-doublewrite --no-sample
    mariadb_stop
    # The same data in records of 128K, read with O_DIRECT.
    zfs create -o mountpoint=/srv/wide "$POOL/wide"
    cp -a /srv/mysql/. /srv/wide/
    chown 1000:1000 /srv/wide
    expect "MariaDB starts on records of 128K" mariadb_start /srv/wide
    finds "O_DIRECT on records of 128K" direct-past-arc --no-sample /srv/wide
    property "records-above-pages" "$POOL/wide" direct=disabled standard --no-sample /srv/wide
    mariadb_stop
    zfs destroy -r "$POOL/wide"
    expect "MariaDB starts as before" mariadb_start /srv/mysql
    finds "all settings are as before" "" --no-sample
}

plant_vdevs() {
    expect "a special vdev without redundancy" zpool add -f "$POOL" special /disk/s
    finds "a special vdev without redundancy" special-vdev-redundancy --no-sample
    property "special-takes-all special-vdev-redundancy" "$POOL/pg" special_small_blocks=16K 0 --no-sample
    expect "it is removed" zpool remove -w "$POOL" /disk/s
    zpool offline "$POOL" /disk/b
    finds "a side of the mirror is offline" pool-state --no-sample
    zpool online "$POOL" /disk/b
    zpool wait -t resilver "$POOL"
    finds "the pool is as before" "" --no-sample
}

plant_volumes() {
    local name device
    for name in 1 2 3; do truncate -s 300M "/disk/z$name"; done
    expect "a pool of raidz1" zpool create -f -o ashift=12 -O mountpoint=none -O compression=off rz raidz1 /disk/z1 /disk/z2 /disk/z3
    zfs create -s -V 100M -o volblocksize=8K rz/vm
    finds "a volume with blocks of 8K on raidz1" raidz-padding --no-sample rz
    zfs destroy rz/vm
    zpool destroy rz
    zfs create -s -V 200M -o volblocksize=4K "$POOL/vm"
    finds "a volume with blocks of one sector" no-room-to-compress --no-sample "$POOL/vm"
    zfs destroy "$POOL/vm"
    zfs create -s -V 200M -o volblocksize=16K "$POOL/vm"
    # What udev would do.
    for _ in $(seq 50); do compgen -G '/dev/zd*' >/dev/null && break; sleep 0.2; done
    mkdir -p "/dev/zvol/$POOL" /srv/vm
    for device in /dev/zd*; do ln -sfn "$device" "/dev/zvol/$POOL/vm"; done
    expect "a file system on a volume" /disk/bin/mke2fs -q -t ext4 "/dev/zvol/$POOL/vm"
    mount -t ext4 "/dev/zvol/$POOL/vm" /srv/vm
    cp /disk/shop.db /srv/vm/
    finds "a database on a volume" "" --no-sample /srv/vm
    same "it is found on the volume" "$(grep -cF "\"datasets\":[\"$POOL/vm\"]" /tmp/inspection)" 1
    property sync-disabled "$POOL/vm" sync=disabled standard --no-sample /srv/vm
    umount /srv/vm
    zfs destroy "$POOL/vm"
}

plant_space() {
    dd if=/dev/urandom of=/srv/shop/filler bs=1M count=780 2>/dev/null
    zpool sync
    finds "a pool beyond 80 %" pool-nearly-full --no-sample
    rm /srv/shop/filler
    zpool sync
    sleep 6
    zpool sync
}

# Another user sees the datasets, and not the databases' files.
other_user() {
    local status=0
    su -s /bin/bash nobody -c "LD_LIBRARY_PATH=/disk/lib POOLWRIGHT_STATE_DIR=/tmp/nobody PATH=$PATH poolwright inspect --json" >/tmp/inspection 2>/tmp/said || status=$?
    same "another user: it ends without an error" "$([ $status -le 1 ] && [ ! -s /tmp/said ] && echo yes)" yes
    same "another user: what is hidden is said" "$(grep -c 'only root can see its files' /tmp/inspection)" 1
}

step_faults() {
    local began
    database_system
    echo 'nobody:x:65534:65534::/tmp:/bin/bash' >>/etc/passwd
    make_pool
    start_databases
    began=$(cut -d. -f1 /proc/uptime)
    finds "a sound set-up" "" --no-sample
    finds "with samples of data that compresses to a small part of its blocks" small-records
    pass "it took $(($(cut -d. -f1 /proc/uptime) - began)) s in the guest, once without and once with samples"
    databases_are_known
    plant_properties
    plant_parameters
    plant_settings
    plant_vdevs
    plant_volumes
    plant_space
    other_user
    kill $ETCD
    mariadb_stop
    bash /tmp/stop.sh >/dev/null 2>&1
}

step=$1
shift
"step_$step" "$@"

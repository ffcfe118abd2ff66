#!/usr/bin/env bash
# Brings what the lab's drivers use and no Debian package has, into target/lab: only what is missing or out of date.
#
# usage: scripts/lab/fetch.sh [--test] [kv] [orientdb] [opendj] ...
#
#   kv         LevelDB, Berkeley DB JE, RocksDB and LMDB for the JVM, and our driver of them: target/lab/jvm/kv
#   orientdb   OrientDB and Lucene, and our driver of them: target/lab/jvm/orientdb
#   opendj     OpenDJ, an LDAP server: target/lab/opendj
#   --test     also runs the tests of the drivers that run in the JVM
#
# Without a name, all of them. Maven brings the JARs, from where it is set up to.
#
# Exit status: 0 done, 1 failed, 2 wrong usage.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

LAB=$POOLWRIGHT_ROOT/target/lab
JVM_DRIVERS=(kv orientdb)
OPENDJ=org.openidentityplatform.opendj:opendj-server-legacy:4.10.1:zip
UNPACK=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:unpack
TEST=no

# fingerprint DRIVER: of all that the driver's JARs are made from.
fingerprint() {
    find "$POOLWRIGHT_ROOT/workloads/jvm" \( -path '*/poolwright/driver/*' -o -path "*/poolwright/$1/*" -o -name pom.xml \) \
        -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum
}

# As Maven 3.8 and as 3.9 call it: how often a download is tried again.
RETRIES=(-Dmaven.wagon.http.retryHandler.count=5 -Daether.connector.http.retryHandler.count=5)

maven() { mvn -q -B "${RETRIES[@]}" -f "$POOLWRIGHT_ROOT/workloads/jvm/pom.xml" "-Dlab=$LAB" "$@"; }

# jvm DRIVER: the folder of JARs is replaced as a whole, so that no version stays beside its successor.
jvm() {
    local driver=$1 libs=$LAB/jvm/$1 made
    made=$(fingerprint "$driver")
    if [ $TEST = yes ]; then
        maven -P "$driver" test || die 1 "the tests of the $driver driver failed (above)."
    fi
    if [ -e "$libs/fingerprint" ] && [ "$(cat "$libs/fingerprint")" = "$made" ]; then
        say "target/lab/jvm/$driver is up to date."
        return
    fi
    say "Building the $driver driver with Maven, into target/lab/jvm/$driver (the first time it downloads)."
    rm -rf "$libs.new"
    maven -P "$driver" "-Dlibs=$libs.new" -Dmaven.test.skip=true package \
        || die 1 "Maven could not build the $driver driver (above); check the network, and Maven's own settings.xml."
    echo "$made" >"$libs.new/fingerprint"
    rm -rf "$libs"
    mv "$libs.new" "$libs"
}

# The archive's one folder becomes target/lab/opendj.
opendj() {
    local new=$LAB/opendj.new
    if [ -e "$LAB/opendj/fetched" ] && [ "$(cat "$LAB/opendj/fetched")" = "$OPENDJ" ]; then
        say "target/lab/opendj is up to date."
        return
    fi
    say "Fetching OpenDJ with Maven, into target/lab/opendj (80 MB)."
    rm -rf "$new"
    mkdir "$new"
    # The plugin writes a marker below the folder it is called in.
    (cd "$new" && mvn -q -B "${RETRIES[@]}" "$UNPACK" "-Dartifact=$OPENDJ" "-DoutputDirectory=$new") \
        || die 1 "Maven could not fetch OpenDJ (above); check the network, and Maven's own settings.xml."
    rm -rf "$LAB/opendj"
    mv "$new/opendj" "$LAB/opendj"
    rm -rf "$new"
    echo "$OPENDJ" >"$LAB/opendj/fetched"
}

main() {
    local name names=()
    while [ $# -gt 0 ]; do
        case $1 in
            --test) TEST=yes ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            -*) die 2 "unknown argument '$1'; see --help" ;;
            *) names+=("$1") ;;
        esac
        shift
    done
    [ ${#names[@]} -gt 0 ] || names=("${JVM_DRIVERS[@]}" opendj)
    command -v mvn >/dev/null 2>&1 || die 1 "Maven is not installed: scripts/install.sh --for lab"
    mkdir -p "$LAB"
    # Two at once would build in one folder.
    exec 9>"$LAB/fetch.lock"
    flock 9
    for name in "${names[@]}"; do
        case " ${JVM_DRIVERS[*]} " in *" $name "*) jvm "$name"; continue ;; esac
        case $name in
            opendj) opendj ;;
            *) die 2 "nothing is known by the name '$name'; see --help" ;;
        esac
    done
}

main "$@"

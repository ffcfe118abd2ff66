#!/usr/bin/env bash
# Downloads and builds the parts of the lab's drivers that no Debian package has, into target/lab. Skips what is up to date.
#
# usage: scripts/lab/fetch.sh [--test] [kv] [orientdb] [opendj] ...
#
#   kv         LevelDB, Berkeley DB JE, RocksDB and LMDB for the JVM, and their driver: target/lab/jvm/kv
#   orientdb   OrientDB and Lucene, and their driver: target/lab/jvm/orientdb
#   opendj     OpenDJ, an LDAP server: target/lab/opendj
#   --test     also run the tests of the JVM drivers
#
# Without a name, all of them. Maven downloads the JARs from the repositories in its configuration.
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

# fingerprint DRIVER: a checksum of the sources of the driver's JARs.
fingerprint() {
    find "$POOLWRIGHT_ROOT/workloads/jvm" \( -path '*/poolwright/driver/*' -o -path "*/poolwright/$1/*" -o -name pom.xml \) \
        -type f -print0 | LC_ALL=C sort -z | xargs -0 cat | sha256sum
}

# The number of retries of a download: the names of the option in Maven 3.8 and 3.9.
RETRIES=(-Dmaven.wagon.http.retryHandler.count=5 -Daether.connector.http.retryHandler.count=5)

maven() { mvn -q -B "${RETRIES[@]}" -f "$POOLWRIGHT_ROOT/workloads/jvm/pom.xml" "-Dlab=$LAB" "$@"; }

# jvm DRIVER: builds a driver. Replaces the whole directory of JARs, so that no old version remains.
jvm() {
    local driver=$1 libs=$LAB/jvm/$1 made
    made=$(fingerprint "$driver")
    if [ $TEST = yes ]; then
        maven -P "$driver" test || die 1 "the tests of the $driver driver failed (see above)"
    fi
    if [ -e "$libs/fingerprint" ] && [ "$(cat "$libs/fingerprint")" = "$made" ]; then
        say "target/lab/jvm/$driver is up to date."
        return
    fi
    say "Building the $driver driver with Maven in target/lab/jvm/$driver (the first build downloads its dependencies)."
    rm -rf "$libs.new"
    maven -P "$driver" "-Dlibs=$libs.new" -Dmaven.test.skip=true package \
        || die 1 "Maven cannot build the $driver driver (see above); check the network and Maven's settings.xml"
    echo "$made" >"$libs.new/fingerprint"
    rm -rf "$libs"
    mv "$libs.new" "$libs"
}

# Unpacks OpenDJ: the only directory of the archive becomes target/lab/opendj.
opendj() {
    local new=$LAB/opendj.new
    if [ -e "$LAB/opendj/fetched" ] && [ "$(cat "$LAB/opendj/fetched")" = "$OPENDJ" ]; then
        say "target/lab/opendj is up to date."
        return
    fi
    say "Downloading OpenDJ (80 MB) with Maven to target/lab/opendj."
    rm -rf "$new"
    mkdir "$new"
    # Change the directory, because the plugin writes a marker file below the current one.
    (cd "$new" && mvn -q -B "${RETRIES[@]}" "$UNPACK" "-Dartifact=$OPENDJ" "-DoutputDirectory=$new") \
        || die 1 "Maven cannot download OpenDJ (see above); check the network and Maven's settings.xml"
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
    command -v mvn >/dev/null 2>&1 || die 1 "Maven is not installed; install it with scripts/install.sh --for lab"
    mkdir -p "$LAB"
    # Only one instance at a time, because both would build in the same directory.
    exec 9>"$LAB/fetch.lock"
    flock 9
    for name in "${names[@]}"; do
        case " ${JVM_DRIVERS[*]} " in *" $name "*) jvm "$name"; continue ;; esac
        case $name in
            opendj) opendj ;;
            *) die 2 "unknown name '$name'; see --help" ;;
        esac
    done
}

main "$@"

#!/usr/bin/env bash
# Installs the missing packages that Poolwright needs on Debian 12 or 13.
#
# usage: scripts/install.sh [--for run|test|lint|fuzz|bench|lab|deb|all] [--dry-run] [--upgrade-zfs]
#
#   --for run      (the default) build dependencies and the packages of `make run`: a C compiler,
#                  clang, OpenZFS's build dependencies, and the MariaDB and sysbench programs
#   --for test     also the packages of the tests: fio, SQLite, zdb, the tools for the Debian package (lintian,
#                  cargo-deb in target/tools), and a Python environment in target/venv that reads traces
#   --for lint     build dependencies, shellcheck, and cargo-deny in target/tools
#   --for bench    like test, with PostgreSQL and the build dependencies of libcachesim's simulator
#   --for deb      build dependencies of Poolwright and its Debian package, lintian, and the tools that start small
#                  Debian systems for the tests of the package
#   --for lab      like run, with the databases and load generators of the campaigns
#   --for all      all of the above
#   --for fuzz     build dependencies, and cargo-fuzz in target/tools (not part of "all"); install the
#                  nightly toolchain with rustup
#   --dry-run      lists the missing packages and changes nothing
#   --upgrade-zfs  permits the script to replace an older OpenZFS on this machine
#
# The MariaDB packages contain only the programs; no service is set up. OpenZFS 2.3 comes from bookworm-backports contrib on
# Debian 12, and from contrib on Debian 13. If apt has no such source, the script adds the file
# /etc/apt/sources.list.d/poolwright-openzfs.sources, with the mirror that this machine already uses.
#
# Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused for safety.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/lib.sh"

EXTRA_SOURCE=/etc/apt/sources.list.d/poolwright-openzfs.sources
POLICY=/usr/sbin/policy-rc.d
CLUSTER_DIR=/etc/postgresql-common/createcluster.d
CARGO_DENY_VERSION=0.20.2
CARGO_FUZZ_VERSION=0.13.2
CARGO_DEB_VERSION=3.8.0
ZFS_MINIMUM=2.3
PURPOSE=run
DRY_RUN=no
UPGRADE_ZFS=no

BUILD_PACKAGES=(
    ca-certificates make gcc libc6-dev pkg-config clang llvm libelf-dev zlib1g-dev
    uuid-dev libblkid-dev libssl-dev libtirpc-dev # OpenZFS (scripts/openzfs.sh)
)
RUN_PACKAGES=(mariadb-server-core mariadb-client-core sysbench)
TEST_PACKAGES=(fio sqlite3 python3 python3-venv xfsprogs btrfs-progs fuse-overlayfs)
PACKAGING_PACKAGES=(dpkg-dev lintian systemd) # systemd-analyze checks the unit
DEB_PACKAGES=(debootstrap systemd-container curl procps) # scripts/deb/check.sh
BENCH_PACKAGES=(
    postgresql
    cmake g++ libglib2.0-dev libzstd-dev # libcachesim's simulator
)
LAB_PACKAGES=(
    python3
    fio victoria-metrics # timeseries
    slapd default-jre-headless maven # ldap-import
    etcd-server # truth.sh
    default-jdk-headless # kv-engines, orientdb-import: Maven needs the compiler, and brings only what runs
)
# Packages among these that start a service: the script prevents the start and disables the service.
LAB_SERVICES=(victoria-metrics slapd etcd-server)

# Packages from the OpenZFS source: zdb, which tests and benches compare with.
ZFS_PACKAGES=()

parse_arguments() {
    while [ $# -gt 0 ]; do
        case $1 in
            --for) PURPOSE=${2:-}; shift ;;
            --for=*) PURPOSE=${1#*=} ;;
            --dry-run) DRY_RUN=yes ;;
            --upgrade-zfs) UPGRADE_ZFS=yes ;;
            -h | --help) usage_from "$0"; exit 0 ;;
            *) die 2 "unknown argument '$1'; see --help" ;;
        esac
        shift
    done
    case $PURPOSE in
        run | test | lint | fuzz | bench | lab | deb | all) ;;
        *) die 2 "--for takes run, test, lint, fuzz, bench, lab, deb or all, not '$PURPOSE'" ;;
    esac
}

# wanted PURPOSE...: succeeds if the user asked for one of these, or for all.
wanted() {
    local purpose
    for purpose in "$@" all; do
        [ "$purpose" = "$PURPOSE" ] && return 0
    done
    return 1
}

# Functions that undo temporary changes.
UNDO=()

# Runs them when the script ends, for any reason. The shell handles a signal after the running program (apt-get) has ended, so the
# program keeps the temporary changes that it needs.
undo_at_end() {
    trap undo_all EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

undo_all() {
    local i
    trap '' HUP INT TERM
    for ((i = ${#UNDO[@]} - 1; i >= 0; i--)); do
        "${UNDO[i]}" || warn "${UNDO[i]} failed"
    done
    UNDO=()
}

# undo_now FUNCTION: runs the function now, and then removes it from the list.
undo_now() {
    "$1"
    forget "$1"
}

# forget FUNCTION: removes the function from the list.
forget() {
    local other left=()
    for other in "${UNDO[@]}"; do
        [ "$other" = "$1" ] || left+=("$other")
    done
    UNDO=(${left[@]+"${left[@]}"})
}

# is_to_undo FUNCTION: succeeds if the function is on the list.
is_to_undo() { case " ${UNDO[*]-} " in *" $1 "*) ;; *) return 1 ;; esac; }

installed_version() { dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | sed -n 's/^installed //p' | head -n 1 || true; }
candidate_version() { LC_ALL=C apt-cache policy "$1" | sed -n 's/^  Candidate: //p' | grep -v '(none)' || true; }

# Sets MISSING (packages from apt's present sources) and ZFS_MISSING (packages from the OpenZFS source).
find_missing() {
    local package needed=("${BUILD_PACKAGES[@]}")
    wanted run test bench lab && needed+=("${RUN_PACKAGES[@]}")
    wanted test bench && needed+=("${TEST_PACKAGES[@]}") && ZFS_PACKAGES=(zfsutils-linux)
    wanted test deb && needed+=("${PACKAGING_PACKAGES[@]}")
    wanted deb && needed+=("${DEB_PACKAGES[@]}")
    wanted bench && needed+=("${BENCH_PACKAGES[@]}")
    wanted lab && needed+=("${LAB_PACKAGES[@]}")
    wanted lint test && needed+=(shellcheck)
    MISSING=()
    for package in "${needed[@]}"; do
        [ -n "$(installed_version "$package")" ] || MISSING+=("$package")
    done
    ZFS_MISSING=()
    for package in "${ZFS_PACKAGES[@]}"; do
        recent_enough "$(installed_version "$package")" || ZFS_MISSING+=("$package")
    done
}

recent_enough() { [ -n "$1" ] && dpkg --compare-versions "$1" ge "$ZFS_MINIMUM"; }

# Sets CODENAME. Poolwright is tested on these two releases only.
check_release() {
    local id='' version=''
    if [ -r /etc/os-release ]; then
        id=$(. /etc/os-release && echo "${ID:-}")
        version=$(. /etc/os-release && echo "${VERSION_ID:-}")
    fi
    case $id:$version in
        debian:12) CODENAME=bookworm ;;
        debian:13) CODENAME=trixie ;;
        *) die 1 "unsupported system '${id:-unknown} ${version}': this script supports Debian 12 and 13.
hint: install ${MISSING[*]-} by hand" ;;
    esac
}

# Only the user may decide to replace another database server or OpenZFS release.
check_conflicts() {
    local other version
    other=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'mysql-server-core*' 'percona-*-server*' 2>/dev/null \
        | sed -n 's/^installed //p' | head -n 1 || true)
    case " ${MISSING[*]-} " in
        *" mariadb-server-core "*)
            [ -z "$other" ] || die 3 "$other is installed, and Debian does not permit MariaDB beside it. Nothing was changed." ;;
    esac
    version=$(installed_version zfsutils-linux)
    if [ -n "$version" ] && ! recent_enough "$version" && [ $UPGRADE_ZFS = no ]; then
        die 3 "OpenZFS $version is installed (zfsutils-linux), and Poolwright's tests need zdb $ZFS_MINIMUM or newer. Debian cannot install both. Nothing was changed.
hint: run this script with --upgrade-zfs to replace it; then also upgrade a kernel module (zfs-dkms) of the old version"
    fi
}

announce() {
    say "Missing packages (for: $PURPOSE):"
    [ ${#MISSING[@]} -eq 0 ] || say "  ${MISSING[*]}"
    [ ${#ZFS_MISSING[@]} -eq 0 ] || say "  ${ZFS_MISSING[*]} (zdb of OpenZFS $ZFS_MINIMUM or newer; no kernel module, no DKMS)"
    case " ${MISSING[*]-} " in
        *" mariadb-server-core "*) say "MariaDB: only the programs are installed; no service is set up and no daemon starts." ;;
    esac
    case " ${MISSING[*]-} " in
        *" postgresql "*) say "PostgreSQL: installed without a cluster, so no daemon starts; the package enables its (empty) service." ;;
    esac
    local services
    services=$(missing_services)
    [ -z "$services" ] || say "The lab starts its own servers: the services of ${services//$'\n'/, } are not started, and are disabled."
}

# The LAB_SERVICES that will be installed. A service that is already installed does not change.
missing_services() {
    local service
    for service in "${LAB_SERVICES[@]}"; do
        case " ${MISSING[*]-} " in *" $service "*) echo "$service" ;; esac
    done
}

refresh_lists() {
    say "Reading the package lists (apt-get update)."
    if ! as_root apt-get update -qq -o APT::Update::Error-Mode=any -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5; then
        warn "apt could not refresh all its lists (check the network); continuing with the present ones."
    fi
}

# Prints the version of OpenZFS, at least the minimum, that apt can install, if there is one.
zfs_available() {
    LC_ALL=C apt-cache madison zfsutils-linux 2>/dev/null | awk -F'|' '{gsub(/ /, "", $2); print $2}' \
        | while read -r version; do recent_enough "$version" && echo "$version"; done | head -n 1 || true
}

# Prints "SOURCEFILE:N URI" of the source of Debian's main component on this machine.
debian_mirror() {
    # In double quotes, the shell would expand apt's placeholders.
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(SOURCESENTRY) $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' \
        | awk -v codename="$CODENAME" '$3 == codename && $4 == "main" { print $1, $2; exit }'
}

# stanza_options SOURCEFILE:N: the options that define how apt trusts that source, as deb822 lines.
stanza_options() {
    local file=${1%:*} number=${1##*:}
    case $file in
        *.sources)
            # apt numbers the stanzas of a file, without paragraphs that contain only comments.
            awk -v wanted="$number" '
                /^[ \t]*$/ { if (seen) { stanza++; seen = 0 } keep = 0; next }
                /^#/ { next }
                { seen = 1 }
                stanza + 1 != wanted { next }
                /^[^ \t]/ { keep = (tolower($0) ~ /^(signed-by|trusted|check-valid-until):/) }
                keep { print }' "$file" ;;
        *)
            sed -n "${number}s/^[^[]*\[\([^]]*\)\].*/\1/p" "$file" | tr ' ' '\n' | sed -n \
                -e 's/^signed-by=/Signed-By: /p' -e 's/^trusted=/Trusted: /p' -e 's/^check-valid-until=/Check-Valid-Until: /p' ;;
    esac
}

remove_source() { as_root rm -f "$EXTRA_SOURCE"; }

# Adds the source of OpenZFS 2.3.
add_zfs_source() {
    local mirror entry uri suite
    suite=$CODENAME
    [ "$CODENAME" = bookworm ] && suite=bookworm-backports
    mirror=$(debian_mirror)
    [ -n "$mirror" ] || die 1 "apt's configuration has no source for Debian $CODENAME main, so the mirror for '$suite contrib' is unknown.
hint: add such a source and run this script again"
    entry=${mirror%% *} uri=${mirror#* }
    say "Adding the source of OpenZFS $ZFS_MINIMUM: $uri $suite contrib"
    say "  in $EXTRA_SOURCE"
    say "  (to remove it: rm $EXTRA_SOURCE && apt-get update)"
    [ $DRY_RUN = no ] || return 0
    UNDO+=(remove_source)
    {
        echo "# OpenZFS's zdb for Poolwright's tests; written by its scripts/install.sh."
        echo "# To remove the source, delete this file and run apt-get update."
        printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: contrib\n' "$uri" "$suite"
        stanza_options "$entry"
    } | as_root tee "$EXTRA_SOURCE" >/dev/null
    as_root chmod 644 "$EXTRA_SOURCE"
    if ! as_root apt-get update -qq -o APT::Update::Error-Mode=any -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 \
        -o Dir::Etc::sourcelist="$EXTRA_SOURCE" -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0; then
        undo_now remove_source
        die 1 "apt could not read '$suite contrib' from $uri (see above); the new source was removed again.
hint: check the network, and that the mirror has $suite"
    fi
    forget remove_source # apt has read the source, so keep it
}

# --no-remove keeps apt from removing the user's packages to resolve a conflict.
apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends --no-remove \
        -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5 -o Dpkg::Use-Pty=0 "$@" >"$APT_LOG" 2>&1 || {
        tail -n 25 "$APT_LOG" >&2
        die 1 "apt-get install failed for: $* (see its last lines above)
hint: check the network and try again"
    }
}

remove_cluster_switch() { as_root rm -f "$CLUSTER_DIR/poolwright.conf"; }
remove_cluster_dir() { as_root rmdir --ignore-fail-on-non-empty "$CLUSTER_DIR"; }

# PostgreSQL's package creates and starts a cluster unless this file forbids it. The script removes the file afterwards, because it
# would also apply to clusters that the user creates later.
install_postgresql() {
    if [ ! -d "$CLUSTER_DIR" ]; then
        UNDO+=(remove_cluster_dir)
        as_root mkdir -p "$CLUSTER_DIR"
    fi
    UNDO+=(remove_cluster_switch)
    echo "create_main_cluster = false" | as_root tee "$CLUSTER_DIR/poolwright.conf" >/dev/null
    apt_install postgresql
    undo_now remove_cluster_switch
    ! is_to_undo remove_cluster_dir || undo_now remove_cluster_dir
}

# zfs_family VERSION: the missing packages and their dependencies of exactly that version. apt would take a dependency that is
# not named from Debian 12's own 2.1.
zfs_family() {
    local package
    for package in "${ZFS_MISSING[@]}"; do
        echo "$package"
        LC_ALL=C apt-cache show "$package=$1" | sed -n 's/^Depends: //p' | tr ',' '\n' | sed -n "s/^ *\([^ ]*\) (= $1)\$/\1/p"
    done | sort -u
}

remove_policy() { as_root rm -f "$POLICY"; }

# install_without_services PACKAGE...: installs packages without starting their daemons, by a policy-rc.d. An existing policy is
# the user's and stays, unless a killed run of this script left it.
install_without_services() {
    local mark="written by Poolwright's scripts/install.sh" service units
    if [ ! -e "$POLICY" ] || grep -qF "$mark" "$POLICY"; then
        UNDO+=(remove_policy)
        printf '#!/bin/sh\n# %s, which removes it again\nexit 101\n' "$mark" | as_root tee "$POLICY" >/dev/null
        as_root chmod 755 "$POLICY"
    fi
    apt_install "$@"
    ! is_to_undo remove_policy || undo_now remove_policy
    ! command -v systemctl >/dev/null 2>&1 || for service in "$@"; do
        mapfile -t units < <(dpkg -L "$service" | sed -n 's|.*/systemd/system/\([^/@]*\.service\)$|\1|p')
        # A package with a script in /etc/init.d only has a unit of its own name.
        as_root systemctl disable --quiet "${units[@]:-$service}" || true
    done
}

remove_log() { rm -f "$APT_LOG"; }

install_packages() {
    local version='' suite package services plain=() zfs=()
    undo_at_end
    APT_LOG=$(mktemp)
    UNDO+=(remove_log)
    if [ ${#ZFS_MISSING[@]} -gt 0 ]; then
        version=$(zfs_available)
        [ -n "$version" ] || { add_zfs_source; version=$(zfs_available); }
        [ -n "$version" ] || die 1 "apt offers no OpenZFS $ZFS_MINIMUM or newer (zfsutils-linux).
hint: on Debian 12 it is in bookworm-backports, component contrib; Debian 12's own 2.1 is too old"
        suite=$(LC_ALL=C apt-cache madison zfsutils-linux | awk -v v="$version" '$3 == v { sub("/.*", "", $6); print $6; exit }')
        for package in $(zfs_family "$version"); do zfs+=("$package/$suite"); done
    fi
    mapfile -t services < <(missing_services)
    for package in ${MISSING[@]+"${MISSING[@]}"}; do
        case " postgresql ${services[*]-} " in
            *" $package "*) ;;
            *) plain+=("$package") ;;
        esac
        [ -n "$(candidate_version "$package")" ] || die 1 "apt has no package '$package'
hint: check the network and apt's sources, then try again"
    done
    [ ${#plain[@]} -eq 0 ] || { say "Installing ${plain[*]}"; apt_install "${plain[@]}"; }
    [ ${#zfs[@]} -eq 0 ] || { say "Installing ${ZFS_MISSING[*]} $version"; apt_install "${zfs[@]}"; }
    case " ${MISSING[*]-} " in
        *" postgresql "*) say "Installing postgresql"; install_postgresql ;;
    esac
    [ ${#services[@]} -eq 0 ] || { say "Installing ${services[*]}"; install_without_services "${services[@]}"; }
}

check_rust() {
    local minimum have
    minimum=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$POOLWRIGHT_ROOT/Cargo.toml")
    command -v cargo >/dev/null 2>&1 || die 1 "Rust is not installed (no cargo in PATH or ~/.cargo/bin)
hint: install $minimum or newer with rustup: 'apt install rustup && rustup default stable' on Debian 13, otherwise see https://rustup.rs"
    have=$(rustc --version | awk '{print $2}')
    dpkg --compare-versions "$have" ge "$minimum" || die 1 "Rust $have is too old; Poolwright needs $minimum or newer
hint: rustup update stable"
}

# Rebuilds the environment if the list of packages has changed.
python_environment() {
    local venv=$POOLWRIGHT_ROOT/target/venv list=$POOLWRIGHT_ROOT/scripts/requirements.txt
    if cmp -s "$list" "$venv/requirements.txt"; then
        return
    fi
    say "Installing Python packages for the tests into target/venv: $(grep -v '^#' "$list" | tr '\n' ' ')"
    [ $DRY_RUN = no ] || return 0
    rm -rf "$venv"
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --retries 10 --disable-pip-version-check --only-binary :all: -r "$list" \
        || die 1 "pip could not install the packages of scripts/requirements.txt into target/venv; check the network."
    cp "$list" "$venv/requirements.txt"
}

# cargo_tool NAME VERSION: builds a tool without optimization, which takes a third of the time; the tools mostly wait for others.
cargo_tool() {
    local name=$1 version=$2 tools=$POOLWRIGHT_ROOT/target/tools
    if command -v "$name" >/dev/null 2>&1 || [ -x "$tools/bin/$name" ]; then
        return
    fi
    say "Building $name $version into target/tools (a few minutes, once)"
    [ $DRY_RUN = no ] || return 0
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --root "$tools" \
        --target-dir "$tools/build" --version "$version" "$name" \
        || die 1 "$name could not be built (see above); check the network."
    rm -rf "$tools/build"
}

main() {
    parse_arguments "$@"
    command -v dpkg-query >/dev/null 2>&1 || die 1 "unsupported system (no dpkg): this script supports Debian 12 and 13"
    check_rust
    find_missing
    if [ ${#MISSING[@]} -gt 0 ] || [ ${#ZFS_MISSING[@]} -gt 0 ]; then
        check_release
        check_conflicts
        announce
        if [ $DRY_RUN = yes ]; then
            [ ${#ZFS_MISSING[@]} -eq 0 ] || [ -n "$(zfs_available)" ] || add_zfs_source
        else
            refresh_lists
            install_packages
        fi
    else
        say "All packages are installed (for: $PURPOSE)."
    fi
    wanted test bench && python_environment
    wanted test deb && cargo_tool cargo-deb "$CARGO_DEB_VERSION"
    wanted lint && cargo_tool cargo-deny "$CARGO_DENY_VERSION"
    [ "$PURPOSE" != fuzz ] || cargo_tool cargo-fuzz "$CARGO_FUZZ_VERSION"
    return 0
}

# A test sources this file for its functions.
if [ "${BASH_SOURCE[0]}" = "$0" ]; then
    main "$@"
fi

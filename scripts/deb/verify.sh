# shellcheck shell=bash
# Checks a package without installing it: its files, its unit, and lintian. Sourced, never run.

# The highest exposure that systemd-analyze may calculate for the unit, in tenths (of 100).
EXPOSURE_MAX=15

# Files that the package must have, besides those below share/poolwright.
PACKAGED_FILES=(
    usr/bin/poolwright
    usr/lib/systemd/system/poolwright-exporter.service
    usr/lib/systemd/system/poolwright-backup{,-verify,-archive,-send,-wal-send}@.{service,timer}
    usr/share/doc/poolwright/examples/poolwright-backup.conf
    etc/default/poolwright-exporter
    usr/share/doc/poolwright/{copyright,changelog.Debian.gz,third-party-licenses.gz}
    usr/share/man/man1/{poolwright,poolwright-serve,poolwright-tune}.1.gz
    usr/share/bash-completion/completions/poolwright
    usr/share/zsh/vendor-completions/_poolwright
    usr/share/fish/vendor_completions.d/poolwright.fish
)

# verify_package FILE
verify_package() {
    local file=$1 root
    root=$(mktemp -d "$WORK/verify.XXXXXX")
    # shellcheck disable=SC2064
    trap "rm -rf -- '$root'" EXIT
    dpkg-deb -x "$file" "$root"
    verify_files "$file" "$root"
    verify_licences "$root"
    verify_unit "$root"
    verify_backup_units "$root"
    verify_with_lintian "$file"
    rm -rf -- "$root"
    trap - EXIT
}

verify_files() {
    local file=$1 root=$2 name wrong
    for name in "${PACKAGED_FILES[@]}"; do
        [ -s "$root/$name" ] || die 1 "$file has no $name, or it is empty"
    done
    wrong=$(dpkg-deb -c "$file" | awk '$2 != "root/root" && $2 != "0/0"')
    [ -z "$wrong" ] || die 1 "files of $file that root does not own: $wrong"
    wrong=$(find "$root" \( -type f -o -type l \) ! -path "$root/usr/*" ! -path "$root/etc/default/*")
    [ -z "$wrong" ] || die 1 "$file has files in unexpected places: $wrong"
    [ "$(dpkg-deb -I "$file" conffiles)" = /etc/default/poolwright-exporter ] || die 1 "the options are not the only conffile"
    diff -r docs/schema "$root/usr/share/poolwright/schema" || die 1 "the schemas of $file differ from docs/schema"
    diff -rq -x __pycache__ campaigns "$root/usr/share/poolwright/campaigns" || die 1 "the campaigns of $file differ from campaigns"
    for name in prometheus grafana; do
        # A folder that the source does not have must not be in the package either.
        [ -d "packaging/$name" ] || [ -e "$root/usr/share/poolwright/$name" ] || continue
        diff -r "packaging/$name" "$root/usr/share/poolwright/$name" || die 1 "$name in $file differs from packaging/$name"
    done
    find "$root/usr/share/poolwright/workloads/lab" -name files -perm 755 | grep -q . || die 1 "the lab's drivers are not executable"
    say "Files: $(dpkg-deb -c "$file" | grep -vc '/$'), $(dpkg-deb -f "$file" Installed-Size) KiB installed"
}

# The format is DEP-5, each short name of a licence has its text, and each crate its notice.
verify_licences() {
    local doc=$1/usr/share/doc/poolwright name crates
    grep -q '^Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/$' "$doc/copyright" \
        || die 1 "the copyright file does not name its format"
    for name in MIT Apache-2.0 CDDL-1.0; do
        grep -A 1 "^License: $name\$" "$doc/copyright" | grep -q '^ [^ ]' || die 1 "the copyright file lacks the text of $name"
    done
    crates=$(zcat "$doc/third-party-licenses.gz" | sed '1,2d;/^$/,$d' | wc -l)
    [ "$crates" -ge 100 ] || die 1 "third-party-licenses.gz lists only $crates crates"
    say "Licences: copyright, and $crates crates"
}

# The units of backups, each as an instance. Installing the package enables none: only the exporter is in its scripts.
verify_backup_units() {
    local root=$1 messages units=(poolwright-backup{,-verify,-archive,-send,-wal-send}@name.{service,timer})
    command -v systemd-analyze >/dev/null 2>&1 || { say "The units of backups were NOT checked: systemd-analyze is not installed."; return; }
    messages=$(systemd-analyze verify --root="$root" --man=no --recursive-errors=no "${units[@]}" 2>&1) || die 1 "systemd-analyze verify: $messages"
    [ -z "$messages" ] || die 1 "systemd-analyze verify: $messages"
    # shellcheck disable=SC1091 # the file is in the package
    (set -eu; . "$root/usr/share/doc/poolwright/examples/poolwright-backup.conf") || die 1 "the example of settings is not valid"
    say "Units of backups: ${#units[@]}, none enabled"
}

# systemd-analyze reads the unit in the unpacked package, and needs no systemd that runs.
verify_unit() {
    local root=$1 unit=poolwright-exporter.service messages
    command -v systemd-analyze >/dev/null 2>&1 || { say "The unit was NOT checked: systemd-analyze is not installed."; return; }
    # The units that every unit refers to.
    mkdir -p "$root/usr/lib/systemd/system"
    cp /usr/lib/systemd/system/{sysinit,basic,shutdown,network,multi-user,timers,time-sync,time-set}.target "$root/usr/lib/systemd/system/"
    messages=$(systemd-analyze verify --root="$root" --man=no --recursive-errors=no "$unit" 2>&1) || die 1 "systemd-analyze verify: $messages"
    [ -z "$messages" ] || die 1 "systemd-analyze verify: $messages"
    messages=$(systemd-analyze security --no-pager --offline=true --root="$root" --threshold="$EXPOSURE_MAX" "$unit") \
        || die 1 "the unit is exposed more than planned: $messages"
    say "Unit: $(printf '%s\n' "$messages" | grep -o 'Overall exposure level.*')"
}

verify_with_lintian() {
    command -v lintian >/dev/null 2>&1 || { say "lintian is not installed, so it did NOT check the package."; return; }
    local dir status=0
    # lintian leaves a database in its TMPDIR.
    dir=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-lintian.XXXXXX")
    TMPDIR=$dir lintian --allow-root --fail-on error,warning "$1" || status=$?
    rm -rf -- "$dir"
    [ $status -eq 0 ] || die 1 "lintian rejects $1 (see above)"
    say "lintian: no errors, no warnings"
}

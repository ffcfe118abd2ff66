# shellcheck shell=bash
# The part `units` of scripts/test-kernel.sh, which sources this file: `poolwright apply --unit` and `undo --unit` under systemd.

# Packages with systemd. This machine's are used, as its PostgreSQL is.
SYSTEMD_PACKAGES=(systemd libsystemd-shared)

# systemd_files: the files of this machine's systemd, without documentation.
systemd_files() {
    local file
    dpkg -L "${SYSTEMD_PACKAGES[@]}" | while IFS= read -r file; do
        case $file in
            /usr/share/*) continue ;;
        esac
        # No directories, and no links that lead nowhere.
        if [ -e "$file" ] && [ ! -d "$file" ]; then printf '%s\n' "${file#/}"; fi
    done | sort -u
}

# units_stage DIR: a PostgreSQL and systemd, as an archive for the guest's root directory, for program_disk.
units_stage() {
    local root=$WORK/systemd file
    postgres_data "$1"
    rm -rf "$root"
    mkdir -p "$root/usr/lib"
    systemd_files >"$WORK/systemd.files"
    tar -C / --no-recursion --no-unquote -cf - -T "$WORK/systemd.files" | tar -C "$root" -xf -
    # The rest of its libraries. ldd fails for a script.
    find "$root" -type f -perm -u+x | while IFS= read -r file; do
        { ldd "$file" 2>/dev/null || true; } | sed -n 's|^[^/]*=> \(/[^ ]*\).*|\1|p'
    done | sort -u | xargs -I{} cp -Lf {} "$root/usr/lib/"
    tar -C "$root" -cf "$1/systemd.tar" .
    rm -rf "$root"
    mkdir -p "$1/util"
    cp -L "$(command -v mount)" "$1/util/"
    add_libraries "$1/lib" "$1/util/mount"
}

part_units() {
    local disk=$WORK/units.disk
    [ -x /lib/systemd/systemd ] || die 1 "systemd is not installed; run scripts/install.sh --for test"
    program_disk "$disk" 12G units_stage
    GUEST_STEPS=units.sh GUEST_SECONDS=3600 guest "$disk" 0 boot "$SEED"
    no_kernel_failure
    rm -f "$disk"
}

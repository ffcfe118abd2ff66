#!/usr/bin/env bash
# Builds the guest's initial RAM disk in target/vm: Debian's kernel modules, the ZFS module, zpool, zfs and zdb. A second run does nothing.
#
# usage: scripts/vm/image.sh
#
# The ZFS module is built from the sources of the zfs-dkms package and the unpacked kernel headers, which takes a few minutes once. It
# is never loaded on this machine.
#
# Exit status: 0 done or up to date, 1 failed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

VM=$POOLWRIGHT_ROOT/target/vm
HERE=$POOLWRIGHT_ROOT/scripts/vm
GUEST=$VM/guest
KERNEL=$VM/kernel

library_path() { find "$@" -name '*.so*' -printf '%h\n' | sort -u | paste -sd:; }

# The headers refer to /usr/src, the directory of an installed package.
relocate_headers() {
    local headers=$KERNEL/usr/src/linux-headers-$RELEASE
    sed -i "s|^include /usr/src/|include $KERNEL/usr/src/|" "$headers/Makefile"
    # With vmlinux, the build generates type information (BTF) with a program of another package. The tests need no BTF.
    rm -f "$headers/vmlinux"
    # Some releases of Debian have absolute links to the installed tools.
    find "$KERNEL/usr/src" "$KERNEL/usr/lib" -maxdepth 2 -type l | while read -r link; do
        case $(readlink "$link") in
            /usr/*) ln -sfn "$KERNEL$(readlink "$link")" "$link" ;;
        esac
    done
}

build_module() {
    local source build=$VM/build headers=$KERNEL/usr/src/linux-headers-$RELEASE
    [ ! -e "$VM/modules/zfs.ko" ] || return 0
    source=$(find "$GUEST/usr/src" -maxdepth 1 -name 'zfs-*')
    say "Building the guest's module, ${source##*/} for $RELEASE (log: target/vm/module.log)."
    relocate_headers
    rm -rf "$build" "$VM/modules"
    cp -a "$source" "$build"
    mkdir -p "$VM/modules"
    # A subshell, so that the script does not stay in a directory that it removes.
    (
        cd "$build"
        ./configure --disable-dependency-tracking --with-config=kernel --with-linux="${headers%-cloud-amd64}-common" \
            --with-linux-obj="$headers"
        make -j "$(nproc)"
    ) >"$VM/module.log" 2>&1 || {
        tail -n 25 "$VM/module.log" >&2
        die 1 "cannot build the guest's ZFS module (see above and target/vm/module.log)"
    }
    cp "$build/module/zfs.ko" "$build/module/spl.ko" "$VM/modules/"
    strip --strip-debug "$VM/modules"/*.ko
    rm -rf "$build"
}

# add_module FILE-NAME: adds one of the kernel's modules, decompressed, because decompression is slow in an emulated guest.
add_module() {
    local packed
    packed=$(find "$KERNEL/lib/modules/$RELEASE/kernel" -name "$1.ko*" | head -n 1)
    case $packed in
        '') return 0 ;; # compiled into this kernel
        *.xz) xz -dc "$packed" ;;
        *.zst) zstd -dc "$packed" ;;
        *) cat "$packed" ;;
    esac >"$ROOT/modules/$1.ko"
    strip --strip-debug "$ROOT/modules/$1.ko"
    echo "$1.ko" >>"$ROOT/modules/order"
}

# add_program NAME...: adds programs of the guest's packages and their libraries, preferably those of the guest's packages.
add_program() {
    local name path library libraries
    libraries=$(library_path "$GUEST")
    for name in "$@"; do
        path=$(find "$GUEST" -type f -path "*bin/$name" | head -n 1)
        [ -n "$path" ] || die 1 "the guest's packages contain no program '$name'"
        install -m 755 "$path" "$ROOT/bin/$name"
        # ldd fails for a static program, which needs no libraries.
        { LD_LIBRARY_PATH=$libraries ldd "$path" 2>/dev/null || true; } | sed -n 's|^[^/]*\(/[^ ]*\).*|\1|p' | while read -r library; do
            case $library in
                */ld-linux*) cp -L --parents "$library" "$ROOT/" ;;
                *) cp -Lf "$library" "$ROOT/lib/" ;;
            esac
        done
    done
}

pack() { (cd "$1" && find . | LD_LIBRARY_PATH='' "$(find "$VM/host" -type f -name cpio)" -o -H newc --quiet); }

# build_tree: the program `tree` (crates/tree), linked statically.
build_tree() {
    local host
    host=$(rustc -vV | sed -n 's/^host: //p')
    (cd "$POOLWRIGHT_ROOT" && RUSTFLAGS='-C target-feature=+crt-static' \
        cargo build --release --locked --quiet -p poolwright-tree --bin tree --target "$host" --target-dir "$VM/tree")
    install -m 755 "$VM/tree/$host/release/tree" "$ROOT/bin/tree"
}

build_image() {
    ROOT=$VM/root
    rm -rf "$ROOT"
    mkdir -p "$ROOT"/{bin,sbin,lib,lib64,modules,proc,sys,dev,tmp,etc/zfs,root,mnt,disk,run,usr/bin,usr/sbin,var}
    add_program busybox bash zpool zfs zdb
    # zdb loads this library by name at run time, so ldd does not list it.
    cp -L "$(gcc -print-file-name=libgcc_s.so.1)" "$ROOT/lib/"
    for module in $KERNEL_MODULES; do
        add_module "$module"
    done
    cp "$VM/modules"/*.ko "$ROOT/modules/"
    printf 'spl.ko\nzfs.ko\n' >>"$ROOT/modules/order"
    ln -s /proc/mounts "$ROOT/etc/mtab"
    build_tree
    # The engine's program, which uses zdb's libraries: it must refuse a pool that the kernel has imported.
    [ ! -x "$ENGINE_TREE" ] || strip -o "$ROOT/bin/engine-tree" "$ENGINE_TREE"
    install -m 755 "$HERE/init" "$ROOT/init"
    pack "$ROOT" >"$VM/image.new"
    mv "$VM/image.new" "$VM/image.cpio"
    rm -rf "$ROOT"
}

# A checksum of the inputs of the image. When it changes, the image is rebuilt.
fingerprint() {
    {
        cat "$HERE/image.sh" "$HERE/init" "$POOLWRIGHT_ROOT/Cargo.lock" "$POOLWRIGHT_ROOT"/crates/tree/src/*.rs
        sha256sum <"$VM/modules/zfs.ko"
        [ ! -x "$ENGINE_TREE" ] || sha256sum <"$ENGINE_TREE"
    } | sha256sum
}

main() {
    ENGINE_TREE=${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/engine-tree
    # In the order of loading.
    KERNEL_MODULES="crc16 crc32c_generic crc32c-intel libcrc32c mbcache jbd2 ext4 virtio_blk"
    "$HERE/packages.sh"
    RELEASE=$(basename "$KERNEL"/lib/modules/*)
    build_module
    if [ "$(fingerprint)" != "$(cat "$VM/image.is" 2>/dev/null)" ]; then
        say "Building the guest's initial RAM disk (Linux $RELEASE)."
        build_image
        fingerprint >"$VM/image.is"
    fi
}

main "$@"

#!/usr/bin/env bash
# Builds libcachesim's native, multi-threaded simulator for the bench.
#
# usage: scripts/mrc/cachesim.sh
#
# The wheel on PyPI lacks the program `cachesim`, which simulates many sizes on a pool of threads; the source package has it. The
# program is GPL and remains separate, in target/cachesim. Needs cmake, a C++ compiler, and the headers of GLib and zstd
# (Debian: cmake g++ pkg-config libglib2.0-dev libzstd-dev).
#
# Exit status: 0 target/cachesim/cachesim exists, 1 it could not be built, 3 a dependency is not installed.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

VERSION=$(sed -n 's/^libcachesim==//p' "$POOLWRIGHT_ROOT/scripts/requirements.txt")
TARGET=$POOLWRIGHT_ROOT/target/cachesim
PYTHON=${POOLWRIGHT_VENV:-$POOLWRIGHT_ROOT/target/venv}/bin/python3

[ ! -x "$TARGET/cachesim" ] || exit 0
for tool in cmake c++ pkg-config; do
    command -v $tool >/dev/null 2>&1 || die 3 "$tool is not installed"
done
pkg-config --exists glib-2.0 libzstd || die 3 "the headers of GLib or zstd are not installed (libglib2.0-dev libzstd-dev)"

work=$(mktemp -d "${TMPDIR:-/tmp}/poolwright-cachesim.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
"$PYTHON" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary libcachesim -d "$work" "libcachesim==$VERSION"
tar -xzf "$work/libcachesim-$VERSION.tar.gz" -C "$work"
cmake -S "$work/libcachesim-$VERSION/src/libCacheSim" -B "$work/build" -DENABLE_TESTS=OFF -DBUILD_SHARED_LIBS=OFF \
    -DCMAKE_BUILD_TYPE=Release >"$work/log" 2>&1 || die 1 "cmake: $(tail -n 5 "$work/log")"
cmake --build "$work/build" --target cachesim >>"$work/log" 2>&1 || die 1 "build: $(tail -n 5 "$work/log")"
mkdir -p "$TARGET"
mv "$work/build/bin/cachesim" "$TARGET/"

# shellcheck shell=bash
verify_package() { dpkg-deb -c "$1" | wc -l; lintian "$1"; }

#!/usr/bin/env bash
# Tests that the installer copies the trust options of the machine's own apt source, in both formats of source files.
set -euo pipefail
# shellcheck source=scripts/install.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../install.sh"

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT

# expect WHAT WANTED GOT
expect() {
    [ "$2" = "$3" ] || die 1 "$1: wanted
$2
got
$3"
}

cat >"$SCRATCH/debian.sources" <<'EOF'
# A paragraph of comments is not a stanza.

Types: deb
URIs: http://mirror.example/debian-security
Suites: trixie-security
Components: main

# A comment inside.
Types: deb
URIs: http://mirror.example/debian
Suites: trixie
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEZ
 -----END PGP PUBLIC KEY BLOCK-----
Check-Valid-Until: no
Architectures: amd64
EOF
expect "a stanza without a key" "" "$(stanza_options "$SCRATCH/debian.sources:1")"
expect "a stanza with the key in it" "Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEZ
 -----END PGP PUBLIC KEY BLOCK-----
Check-Valid-Until: no" "$(stanza_options "$SCRATCH/debian.sources:2")"

cat >"$SCRATCH/sources.list" <<'EOF'
deb http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg trusted=yes] http://mirror.example/debian bookworm main # [x]
EOF
expect "a line without options" "" "$(stanza_options "$SCRATCH/sources.list:1")"
expect "a line with options" "Signed-By: /usr/share/keyrings/a.gpg
Trusted: yes" "$(stanza_options "$SCRATCH/sources.list:2")"

recent_enough 2.3.2-2~bpo12+2 || die 1 "2.3.2 from backports was rejected as too old"
recent_enough 2.1.11-1+deb12u1 && die 1 "2.1.11 was accepted as recent enough"
say "apt sources: ok"

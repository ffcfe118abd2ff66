#!/usr/bin/env bash
# Tests from another host (a network namespace) that `poolwright serve` cannot be reached without encryption and authentication, and can
# be with both. Needs root, ip (iproute2), openssl and curl; without them, it is skipped.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

PROGRAM=${POOLWRIGHT:-${CARGO_TARGET_DIR:-$POOLWRIGHT_ROOT/target}/release/poolwright}
SPACE=poolwright-$$ LINK=pw$$ ADDRESS=10.231.77.1 PORT=19968
has() { command -v "$1" >/dev/null; }
if [ "$(id -u)" != 0 ] || ! has ip || ! has curl || ! has openssl || ! ip netns add "$SPACE" 2>/dev/null; then
    say "SKIPPED: a network namespace cannot be made, or ip, curl or openssl is missing"
    exit 0
fi
SCRATCH=$(mktemp -d)
SERVER=
clean_up() {
    [ -z "$SERVER" ] || kill "$SERVER" 2>/dev/null || true
    ip link delete "$LINK" 2>/dev/null || true
    ip netns delete "$SPACE" || true
    rm -rf -- "$SCRATCH"
}
trap clean_up EXIT
cd "$SCRATCH"
ip link add "$LINK" type veth peer name "${LINK}b"
ip link set "${LINK}b" netns "$SPACE"
ip address add "$ADDRESS/30" dev "$LINK"
ip link set "$LINK" up
ip -n "$SPACE" address add 10.231.77.2/30 dev "${LINK}b"
ip -n "$SPACE" link set "${LINK}b" up

# start ARGUMENT...: starts the exporter, and waits until it listens.
start() {
    [ -z "$SERVER" ] || kill "$SERVER"
    : >address
    "$PROGRAM" serve "$@" >address &
    SERVER=$!
    for _ in $(seq 300); do
        [ ! -s address ] || return 0
        sleep 0.1
    done
    die 1 "the exporter did not start within 30 s"
}

# other ARGUMENT...: prints the HTTP status that the other host gets, and 000 without a connection.
other() { ip netns exec "$SPACE" curl -s -o answer -w '%{http_code}' --max-time 20 "$@" || true; }

expect() { [ "$1" = "$2" ] || die 1 "$3: HTTP status $1 instead of $2"; }

start --listen 127.0.0.1:$PORT
expect "$(curl -s -o answer -w '%{http_code}' http://127.0.0.1:$PORT/metrics)" 200 "this host"
expect "$(other "http://$ADDRESS:$PORT/metrics")" 000 "another host, by the address of this host"
status=0
"$PROGRAM" serve --listen "$ADDRESS:$PORT" 2>refused || status=$?
{ [ $status = 3 ] && grep -q 'not be encrypted' refused; } || die 1 "an open address: status $status, $(cat refused)"

openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=test -addext "subjectAltName=IP:$ADDRESS" 2>/dev/null
status=0
"$PROGRAM" serve --listen "$ADDRESS:$PORT" --tls-cert cert.pem --tls-key key.pem 2>refused || status=$?
{ [ $status = 3 ] && grep -q 'any client could connect' refused; } || die 1 "TLS alone: status $status, $(cat refused)"

(umask 077 && openssl rand -hex 32 >token)
start --listen "$ADDRESS:$PORT" --tls-cert cert.pem --tls-key key.pem --token-file token
expect "$(other "http://$ADDRESS:$PORT/metrics")" 000 "another host without TLS"
expect "$(other --cacert cert.pem "https://$ADDRESS:$PORT/metrics")" 401 "another host without the token"
expect "$(other --cacert cert.pem -H "Authorization: Bearer $(cat token)" "https://$ADDRESS:$PORT/metrics")" 200 "another host with the token"
grep -q '^poolwright_exporter_info' answer || die 1 "the answer has no metrics"
say "serve-network: ok"

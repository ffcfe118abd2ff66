#!/usr/bin/env bash
# Tests that an interrupted installer, or one whose apt-get fails, removes the policy that keeps services from starting and the setting that
# keeps PostgreSQL from creating clusters. Left behind, both would affect packages that the user installs later.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT

# A fake apt-get, which reports that it runs and waits until the test lets it continue.
mkdir -p "$SCRATCH/bin"
cat >"$SCRATCH/bin/apt-get" <<'EOF'
#!/bin/sh
ls "$FAKE_ROOT" >"$FAKE_ROOT/seen"
touch "$FAKE_ROOT/running"
while [ ! -e "$FAKE_ROOT/go-on" ]; do sleep 0.05; done
exit "$(cat "$FAKE_ROOT/go-on")"
EOF
# A fake systemctl, so that the test does not affect services of this machine.
ln -s /bin/true "$SCRATCH/bin/systemctl"
chmod +x "$SCRATCH/bin/apt-get"

# Runs a function of install.sh in a separate process, with its files in a directory of the test.
cat >"$SCRATCH/run" <<EOF
#!/usr/bin/env bash
set -euo pipefail
. "$POOLWRIGHT_ROOT/scripts/install.sh"
as_root() { "\$@"; }
POLICY=\$FAKE_ROOT/policy-rc.d
CLUSTER_DIR=\$FAKE_ROOT/createcluster.d
APT_LOG=\$FAKE_ROOT/apt.log
undo_at_end
"\$@"
EOF
chmod +x "$SCRATCH/run"

# waits_for FILE: waits until the file exists. The time limit of the test ends a wait in vain.
waits_for() { while [ ! -e "$1" ]; do sleep 0.05; done; }

# case_of SIGNAL|STATUS FILE FUNCTION...: runs FUNCTION, sends it SIGNAL while apt-get runs (or makes apt-get exit with STATUS), and checks
# that no file is left. FILE must exist while apt-get runs.
case_of() {
    local how=$1 what=$2 pid status=0 left
    shift 2
    export FAKE_ROOT=$SCRATCH/root
    rm -rf "$FAKE_ROOT"
    mkdir "$FAKE_ROOT"
    # Job control; without it, background programs ignore SIGINT.
    set -m
    PATH="$SCRATCH/bin:$PATH" "$SCRATCH/run" "$@" >"$SCRATCH/said" 2>&1 &
    pid=$!
    set +m
    waits_for "$FAKE_ROOT/running"
    grep -qx "$what" "$FAKE_ROOT/seen" || die 1 "$*: no $what while apt-get ran"
    case $how in
        [0-9]*) echo "$how" >"$FAKE_ROOT/go-on" ;;
        *)
            kill -s "$how" "$pid"
            echo 0 >"$FAKE_ROOT/go-on.part"
            mv "$FAKE_ROOT/go-on.part" "$FAKE_ROOT/go-on" ;;
    esac
    wait "$pid" || status=$?
    case $how in
        0) [ "$status" -eq 0 ] || die 1 "$*: exit status $status: $(cat "$SCRATCH/said")" ;;
        *) [ "$status" -ne 0 ] || die 1 "$*: $how was ignored" ;;
    esac
    left=$(cd "$FAKE_ROOT" && find . -name policy-rc.d -o -name 'createcluster.d*' -o -name poolwright.conf)
    [ -z "$left" ] || die 1 "$*: $how left these files: $left"
}

for how in INT TERM HUP 100 0; do
    case_of "$how" policy-rc.d install_without_services slapd
    case_of "$how" createcluster.d install_postgresql
done

# A policy and a directory of the user stay unchanged.
export FAKE_ROOT=$SCRATCH/own
mkdir -p "$FAKE_ROOT/createcluster.d"
echo "exit 101 # mine" >"$FAKE_ROOT/policy-rc.d"
echo 100 >"$FAKE_ROOT/go-on"
for function in install_postgresql "install_without_services slapd"; do
    # shellcheck disable=SC2086
    PATH="$SCRATCH/bin:$PATH" "$SCRATCH/run" $function >"$SCRATCH/said" 2>&1 && die 1 "$function: apt-get's failure was ignored"
done
[ -d "$FAKE_ROOT/createcluster.d" ] || die 1 "the user's createcluster.d was removed"
[ "$(cat "$FAKE_ROOT/policy-rc.d")" = "exit 101 # mine" ] || die 1 "the user's policy was changed"

# A policy that a killed run left is replaced and removed.
printf '#!/bin/sh\n# %s, which removes it again\nexit 101\n' "written by Poolwright's scripts/install.sh" >"$FAKE_ROOT/policy-rc.d"
PATH="$SCRATCH/bin:$PATH" "$SCRATCH/run" install_without_services slapd >"$SCRATCH/said" 2>&1 && die 1 "apt-get's failure was ignored"
[ ! -e "$FAKE_ROOT/policy-rc.d" ] || die 1 "the policy of a killed run was left"
say "interrupted installs: ok"

#!/usr/bin/env bash
# An installer that is interrupted, or whose apt-get fails, must leave neither the policy that keeps services from starting
# nor the switch that keeps PostgreSQL from making clusters: both would go on to work for the user's own packages.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT

# An apt-get that says when it runs, and goes on until the test has sent its signal.
mkdir -p "$SCRATCH/bin"
cat >"$SCRATCH/bin/apt-get" <<'EOF'
#!/bin/sh
ls "$FAKE_ROOT" >"$FAKE_ROOT/seen"
touch "$FAKE_ROOT/running"
while [ ! -e "$FAKE_ROOT/go-on" ]; do sleep 0.05; done
exit "$(cat "$FAKE_ROOT/go-on")"
EOF
# The machine's own services are not to be touched.
ln -s /bin/true "$SCRATCH/bin/systemctl"
chmod +x "$SCRATCH/bin/apt-get"

# In a process of its own: install.sh, with what it writes below a folder of the test.
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

# waits_for FILE: the programs under test make it in a moment; the limit of this script ends a wait for nothing.
waits_for() { while [ ! -e "$1" ]; do sleep 0.05; done; }

# case_of SIGNAL|STATUS WHAT FUNCTION...: runs FUNCTION, sends it SIGNAL while apt-get runs (or has apt-get exit with
# STATUS), and looks at what is left. WHAT has to be there in the meantime.
case_of() {
    local how=$1 what=$2 pid status=0 left
    shift 2
    export FAKE_ROOT=$SCRATCH/root
    rm -rf "$FAKE_ROOT"
    mkdir "$FAKE_ROOT"
    # Job control, or the shell has a program in the background ignore Ctrl-C.
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
        *) [ "$status" -ne 0 ] || die 1 "$*: $how was overlooked" ;;
    esac
    left=$(cd "$FAKE_ROOT" && find . -name policy-rc.d -o -name 'createcluster.d*' -o -name poolwright.conf)
    [ -z "$left" ] || die 1 "$*: after $how these were left: $left"
}

for how in INT TERM HUP 100 0; do
    case_of "$how" policy-rc.d install_without_services slapd
    case_of "$how" createcluster.d install_postgresql
done

# A user's own policy and folder stay.
export FAKE_ROOT=$SCRATCH/own
mkdir -p "$FAKE_ROOT/createcluster.d"
echo "exit 101 # mine" >"$FAKE_ROOT/policy-rc.d"
echo 100 >"$FAKE_ROOT/go-on"
for function in install_postgresql "install_without_services slapd"; do
    # shellcheck disable=SC2086
    PATH="$SCRATCH/bin:$PATH" "$SCRATCH/run" $function >"$SCRATCH/said" 2>&1 && die 1 "$function: apt-get's failure was overlooked"
done
[ -d "$FAKE_ROOT/createcluster.d" ] || die 1 "the user's createcluster.d was removed"
[ "$(cat "$FAKE_ROOT/policy-rc.d")" = "exit 101 # mine" ] || die 1 "the user's policy was touched"

# One that a killed run left is taken over.
printf '#!/bin/sh\n# %s, which removes it again\nexit 101\n' "written by Poolwright's scripts/install.sh" >"$FAKE_ROOT/policy-rc.d"
PATH="$SCRATCH/bin:$PATH" "$SCRATCH/run" install_without_services slapd >"$SCRATCH/said" 2>&1 && die 1 "a failure was overlooked"
[ ! -e "$FAKE_ROOT/policy-rc.d" ] || die 1 "the policy of a killed run was left"
say "interrupted installs: ok"

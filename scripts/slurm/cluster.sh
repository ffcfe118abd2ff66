#!/usr/bin/env bash
# Starts and stops a private Slurm cluster on this machine, for tests. Installs nothing.
#
# usage: scripts/slurm/cluster.sh start DIR NODES
#        scripts/slurm/cluster.sh stop DIR
#        scripts/slurm/cluster.sh kill-node DIR N
#        scripts/slurm/cluster.sh start-node DIR N
#        scripts/slurm/cluster.sh restart-controller DIR
#        scripts/slurm/cluster.sh env DIR
#
#   start                start a controller and the nodes node1 to nodeNODES, and wait until they accept jobs
#   stop                 end all processes of the cluster, and its jobs
#   kill-node            kill nodeN and the jobs on it, as when a machine loses power
#   start-node           start nodeN again, and wait until it accepts jobs
#   restart-controller   kill the controller, and start it again after 2 s
#   env                  print the environment of sbatch, squeue, scancel, sinfo and scontrol
#
# DIR holds the whole state: configuration, MUNGE's key and socket, spool directories and logs. Several clusters can run, each with its
# own DIR. `stop` leaves DIR as it is; a later `start` in the same DIR continues with its jobs. To use the cluster in a shell:
#
#   eval "$(scripts/slurm/cluster.sh env DIR)"
#
# Each node has one CPU, so it runs one job at a time, and as many jobs run as there are nodes, however many processors this machine
# has. node1 and node2 have the feature `ssd`, the others have `hdd`. All daemons run as the user who starts them.
#
# The programs come from target/slurm/root, where scripts/slurm/packages.sh unpacks them, or from POOLWRIGHT_SLURM_ROOT.
#
# Exit status: 0 done, 1 failed, 2 wrong usage, 3 refused for safety.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "${BASH_SOURCE[0]}")/../lib.sh"

# The first line of the slurm.conf that this script writes. Without it, a directory is not a cluster's.
MARK="# Written by Poolwright's scripts/slurm/cluster.sh."
# Seconds until a node that does not answer counts as down.
NODE_TIMEOUT=10
# Seconds that a requeued job waits before it starts again: the lifetime of Slurm's job credentials (by default 120).
REQUEUE_DELAY=10
# Seconds that this script waits for daemons to answer.
PATIENCE=60

# set_dir DIR: sets DIR to the absolute path. Slurm's configuration cannot quote, and the path of a socket has 107 characters at most.
set_dir() {
    [ -n "${1:-}" ] || die 2 "no directory given; see --help"
    DIR=$(realpath -m -- "$1")
    case $DIR in
        *[!A-Za-z0-9/._+-]*) die 2 "invalid directory $DIR: only letters, digits and ._+-/ are possible" ;;
    esac
    [ ${#DIR} -le 70 ] || die 2 "invalid directory $DIR: longer than 70 characters"
}

is_cluster() { [ "$(head -n 1 "$DIR/slurm.conf" 2>/dev/null)" = "$MARK" ]; }

need_cluster() { is_cluster || die 2 "$DIR has no cluster; start one first"; }

need_running() { [ -n "$(running sbin/munged)" ] || die 1 "the cluster in $DIR is not running; start it first"; }

# set_node N: sets NODE to the name of a node of the cluster.
set_node() {
    NODE=node$1
    { [[ $1 =~ ^[0-9]+$ ]] && grep -q "^NodeName=$NODE " "$DIR/slurm.conf"; } || die 2 "the cluster in $DIR has no node '$1'"
}

# Prints the shell's commands that set up Slurm's programs.
environment() {
    # The shell that evaluates this expands the two variables.
    # shellcheck disable=SC2016
    printf 'export SLURM_CONF=%s\nexport PATH=%s:"$PATH"\nexport LD_LIBRARY_PATH=%s"${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\n' \
        "$DIR/slurm.conf" "$DIR/root/usr/bin" "$(libraries)"
}

# The directory of Slurm's plugins and of the library that all its programs need.
plugins() { dirname -- "$(find -L "$DIR/root/usr/lib" -name libslurmfull.so | head -n 1)"; }

libraries() {
    local plugins
    plugins=$(plugins)
    printf '%s:%s\n' "$plugins" "${plugins%/*}"
}

# free_ports COUNT: prints the first of COUNT successive TCP ports on which no program of this machine listens. They are below the ports
# that Linux gives to clients.
free_ports() {
    local used attempt first port
    # Column 2 is the local address, in hexadecimal digits; state 0A listens.
    used=$(awk '$4 == "0A" { sub(".*:", "", $2); print $2 }' /proc/net/tcp /proc/net/tcp6 2>/dev/null || true)
    for attempt in $(seq 100); do
        first=$((20000 + RANDOM % 10000))
        for ((port = first; port < first + $1; port++)); do
            ! grep -qx "$(printf '%04X' "$port")" <<<"$used" || continue 2
        done
        echo "$first"
        return
    done
    die 1 "no $1 successive ports are free after $attempt attempts"
}

# write_configuration NODES
write_configuration() {
    local nodes=$1 host address any=NoInAddrAny,NoCtldInAddrAny port memory node feature
    host=$(uname -n)
    host=${host%%.*}
    # Slurm listens either on the address of the host's name, or on all addresses. MUNGE authenticates all requests.
    address=$(getent ahostsv4 "$host" | awk 'NR == 1 { print $1 }' || true)
    case $address in
        127.*) ;;
        *) any='' address=127.0.0.1 ;;
    esac
    port=$(free_ports $((nodes + 1)))
    memory=$(awk '$1 == "MemTotal:" { print int($2 / 1024) }' /proc/meminfo)
    {
        cat <<END
$MARK
ClusterName=poolwright-test
SlurmctldHost=$host($address)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$DIR/munge.socket,cred_expire=$REQUEUE_DELAY
${any:+CommunicationParameters=$any}
PluginDir=$(plugins)
StateSaveLocation=$DIR/state
SlurmctldPidFile=$DIR/slurmctld.pid
SlurmctldLogFile=$DIR/slurmctld.log
SlurmctldSyslogDebug=quiet
SlurmdSpoolDir=$DIR/%n
SlurmdPidFile=$DIR/%n/slurmd.pid
SlurmdLogFile=$DIR/%n/slurmd.log
SlurmdSyslogDebug=quiet
SlurmdTimeout=$NODE_TIMEOUT
# A node has the CPUs that are written here, not those of this machine.
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
# Start a requeued job soon after its delay, not up to 30 s later.
SchedulerParameters=sched_interval=2,bf_interval=2
# No cgroups, which would need systemd or root.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
JobRequeue=1
ReturnToService=2
MinJobAge=300
KillWait=30
InactiveLimit=0
END
        for ((node = 1; node <= nodes; node++)); do
            feature=hdd
            [ $node -gt 2 ] || feature=ssd
            printf 'NodeName=node%s NodeHostname=localhost NodeAddr=%s Port=%s CPUs=1 RealMemory=%s Features=%s\n' \
                "$node" "$address" $((port + node)) "$memory" "$feature"
        done
        echo "PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE"
    } >"$DIR/slurm.conf"
    # slurmd of Debian 13 (24.11) ends without cgroups, although it needs none, unless they are disabled. Debian 12's (22.05) cannot
    # disable them.
    rm -f "$DIR/cgroup.conf"
    [[ $(client "$DIR/root/usr/sbin/slurmctld" -V) = *" 22."* ]] || echo "CgroupPlugin=disabled" >"$DIR/cgroup.conf"
}

# copy_program NAME SUBDIRECTORY: copies a daemon into the cluster's directory. Its processes are then recognized by the path of their
# program, without PID files, even if they change their names.
copy_program() {
    mkdir -p "$DIR/$2"
    rm -f "$DIR/$2/$1"
    cp -L "$DIR/root/usr/sbin/$1" "$DIR/$2/$1"
}

# running PATTERN: prints the processes whose program in the cluster's directory matches the pattern, also if it was deleted.
running() {
    find /proc -maxdepth 2 -path '/proc/[0-9]*/exe' \( -lname "$DIR/$1" -o -lname "$DIR/$1 (deleted)" \) -printf '%h\n' 2>/dev/null \
        | sed 's|/proc/||' || true
}

# jobs_on NODE: prints the processes of the jobs on a node: those with the environment of its jobs, and the descendants of these and of
# its slurmstepd processes. A process without this environment whose ancestors have ended is not found. EVERY_NODE stands for all nodes.
jobs_on() {
    local marked
    # Slurm's programs and this script may have the first variable, too.
    marked=$({ grep -lzsxF "SLURM_CONF=$DIR/slurm.conf" /proc/[0-9]*/environ || true; } \
        | { xargs -r grep -lzsx "SLURMD_NODENAME=$1" || true; } | tr -dc '0-9\n')
    { printf '%s\n' "$marked"; descendants "$marked $(running "$1/slurmstepd")"; } | sed '/^$/d' | sort -u
}

# As a pattern of file names and as a regular expression.
EVERY_NODE='node[0-9]*'

# descendants PIDS: prints the processes that these have started, directly or not.
descendants() {
    { grep -s '^PPid:' /proc/[0-9]*/status || true; } | tr -s '/:\t' ' ' | awk -v roots="${1//$'\n'/ }" '
        BEGIN { n = split(roots, queue) }
        { children[$5] = children[$5] " " $2 }
        END {
            for (i = 1; i <= n; i++) {
                count = split(children[queue[i]], found)
                for (j = 1; j <= count; j++) { print found[j]; queue[++n] = found[j] }
            }
        }'
}

# end_processes SECONDS PID...: sends SIGTERM, and SIGKILL to those that still run after SECONDS.
end_processes() {
    local limit=$((SECONDS + $1))
    shift
    [ $# -gt 0 ] || return 0
    kill -TERM "$@" 2>/dev/null || true
    while any_runs "$@"; do
        if [ "$SECONDS" -ge "$limit" ]; then
            kill -KILL "$@" 2>/dev/null || true
            return
        fi
        sleep 0.1
    done
}

# any_runs PID...: whether one of the processes runs. A process that has ended but whose parent does not wait for it has no program.
any_runs() {
    local pid
    for pid in "$@"; do
        ! readlink "/proc/$pid/exe" >/dev/null || return 0
    done
    return 1
}

# start_daemon NAME PROGRAM ARGUMENT...: starts a daemon in its own session, and sets DAEMON to its process. Its messages are in
# NAME.stderr, also those that come before it opens its log file.
start_daemon() {
    local name=$1 program=$2
    shift 2
    (
        eval "$(environment)"
        cd "$DIR"
        exec setsid "$DIR/$program" "$@"
    ) </dev/null >"$DIR/$name.stderr" 2>&1 &
    DAEMON=$!
}

start_munged() {
    start_daemon munged sbin/munged --foreground --force --socket="$DIR/munge.socket" --key-file="$DIR/munge.key" \
        --pid-file="$DIR/munged.pid" --seed-file="$DIR/munge.seed"
    wait_for munged client munge --no-input --socket="$DIR/munge.socket"
}

start_controller() {
    start_daemon slurmctld sbin/slurmctld -D -f "$DIR/slurm.conf"
    wait_for slurmctld controller_answers
}

controller_answers() { client scontrol ping | grep -q 'is UP'; }

start_slurmd() {
    start_daemon "$1" "$1/slurmd" -D -N "$1" -f "$DIR/slurm.conf" -d "$DIR/$1/slurmstepd"
    wait_for "$1" node_answers "$1"
}

# node_answers NODE: whether the controller gives jobs to the node. A * after the state means that the node does not answer.
node_answers() { client sinfo -h -n "$1" -o %t | grep -qxE 'idle|mix|alloc|comp'; }

# client PROGRAM ARGUMENT...: runs one of Slurm's programs.
client() (
    eval "$(environment)"
    exec "$@"
)

# wait_for NAME COMMAND...: waits until the command succeeds, while the process DAEMON runs.
wait_for() {
    local name=$1 limit=$((SECONDS + PATIENCE))
    shift
    until "$@" >/dev/null 2>&1; do
        if ! any_runs "$DAEMON"; then
            tail -n 5 "$DIR/$name.stderr" >&2
            die 1 "$name has ended (its last lines are above)"
        fi
        [ "$SECONDS" -lt "$limit" ] || die 1 "$name does not answer after $PATIENCE s; see $DIR/$name.stderr"
        sleep 0.2
    done
}

# start NODES
start() {
    local nodes=$1 root=${POOLWRIGHT_SLURM_ROOT:-$POOLWRIGHT_ROOT/target/slurm/root} node
    [[ $nodes =~ ^[1-9][0-9]?$ ]] || die 2 "the number of nodes is 1 to 99, not '$nodes'"
    if is_cluster; then
        [ -z "$(running '*')" ] || die 3 "the cluster in $DIR is running; stop it first"
    elif [ -n "$(ls -A "$DIR" 2>/dev/null)" ]; then
        die 3 "$DIR is not empty, and has no cluster of this script; name another directory"
    fi
    "$POOLWRIGHT_ROOT/scripts/slurm/packages.sh" "$root"
    mkdir -p "$DIR/state"
    ln -sfn "$(realpath "$root")" "$DIR/root"
    write_configuration "$nodes"
    STARTED=no
    trap 'if [ $STARTED = no ]; then stop; fi' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    [ -e "$DIR/munge.key" ] || client "$DIR/root/usr/sbin/mungekey" --create --keyfile "$DIR/munge.key"
    copy_program munged sbin
    copy_program slurmctld sbin
    start_munged
    start_controller
    for ((node = 1; node <= nodes; node++)); do
        copy_program slurmd "node$node"
        copy_program slurmstepd "node$node"
        start_slurmd "node$node"
    done
    STARTED=yes
    say "Slurm is running in $DIR (nodes: $nodes)."
}

# Ends everything: first the controller, which stores its state, then the jobs, and last munged, with which the others authenticate.
stop() {
    local pids jobs
    # A directory that has no cluster may contain other programs that are running, for example /usr.
    [ ! -e "$DIR" ] || is_cluster || return 0
    mapfile -t pids < <(running sbin/slurmctld)
    end_processes 10 "${pids[@]}"
    mapfile -t jobs < <(jobs_on "$EVERY_NODE")
    mapfile -t pids < <(running "$EVERY_NODE/*")
    [ ${#pids[@]} -eq 0 ] || kill -KILL "${pids[@]}" 2>/dev/null || true
    end_processes 5 "${jobs[@]}"
    kill_all "$EVERY_NODE"
    mapfile -t pids < <(running '*')
    end_processes 10 "${pids[@]}"
}

# kill_all NODE: sends SIGKILL to slurmd, slurmstepd and the jobs of a node, in this order, so that no slurmstepd can report that its job
# has ended. Repeats it for processes that were just being started.
kill_all() {
    local limit=$((SECONDS + 10)) daemons jobs
    while true; do
        mapfile -t jobs < <(jobs_on "$1")
        mapfile -t daemons < <(running "$1/slurmd"; running "$1/slurmstepd")
        [ ${#daemons[@]} -gt 0 ] || [ ${#jobs[@]} -gt 0 ] || return 0
        [ "$SECONDS" -lt "$limit" ] || die 1 "processes are still running 10 s after SIGKILL: ${daemons[*]} ${jobs[*]}"
        kill -KILL "${daemons[@]}" "${jobs[@]}" 2>/dev/null || true
        sleep 0.1
    done
}

# Starts the node's slurmd. A real machine boots longer than NODE_TIMEOUT, so the controller has requeued its jobs before slurmd registers.
# Here, setting the node down has this effect; otherwise the controller could show jobs as running for minutes that were killed. With
# ReturnToService=2, it accepts the node again when slurmd registers.
start_node() {
    [ -z "$(running "$NODE/slurmd")" ] || return 0
    client scontrol update nodename="$NODE" state=down reason="lost power" >/dev/null || warn "the controller does not answer"
    start_slurmd "$NODE"
}

restart_controller() {
    kill_controller
    sleep 2
    start_controller
}

# Sends SIGKILL to the controller when its stored state is up to date. Slurm stores changes at most 5 s late. A controller without its
# last changes would start the jobs of these seconds again, and would then drain their nodes ("Duplicate jobid").
kill_controller() {
    local pids limit=$((SECONDS + 30))
    mapfile -t pids < <(running sbin/slurmctld)
    [ ${#pids[@]} -gt 0 ] || return 0
    while [ "$SECONDS" -lt "$limit" ]; do
        if state_is_stored; then
            kill -STOP "${pids[@]}"
            ! state_is_stored || break
            kill -CONT "${pids[@]}"
        fi
        sleep 0.05
    done
    kill -KILL "${pids[@]}"
}

# state_is_stored: whether the controller has stored its state after its last message, which tells of each change, or has had the time.
state_is_stored() {
    [ "$DIR/state/job_state" -nt "$DIR/slurmctld.log" ] \
        || [ $(($(date +%s) - $(stat -c %Y "$DIR/slurmctld.log"))) -gt 6 ]
}

main() {
    local command=${1:-} argument=${3:-} count=2
    case $command in
        -h | --help) usage_from "$0"; exit 0 ;;
        start | kill-node | start-node) count=3 ;;
        stop | restart-controller | env) ;;
        *) die 2 "unknown command '$command'; see --help" ;;
    esac
    [ $# -eq $count ] || die 2 "$command takes $((count - 1)) arguments; see --help"
    set_dir "$2"
    case $command in
        start) start "$argument" ;;
        stop) stop ;;
        kill-node) need_cluster; set_node "$argument"; kill_all "$NODE" ;;
        start-node) need_cluster; need_running; set_node "$argument"; start_node ;;
        restart-controller) need_cluster; need_running; restart_controller ;;
        env) need_cluster; environment ;;
    esac
}

main "$@"

"""The study "replica": a primary on the host's file system, as in the report, and its replica on the dataset.

Three questions: does the replica keep up while only the primary is busy, does it keep up while it answers reads, and how
fast does it catch up?
"""

import contextlib
import secrets
import threading
import time

import innodb_load
import innodb_server
from common import driver, server
from common.driver import Failure
from innodb_server import MariaDb

BEAT_S = 0.05
CATCH_UP_S = 600


def servers(spec):
    """Copies the same data to both servers; that of the replica is on the dataset. The data was created without a binary
    log, so both begin with the empty position."""
    template = innodb_server.shop(spec, spec.get("shop", 0.1))
    innodb_server.put(template, _primary_data(spec))
    innodb_server.put(template, spec.path("replica"))


def writes(spec):
    """Writes at the given rate on the primary, without reads from the replica."""
    _under_load(spec, readers=False)


def reads(spec):
    """Writes at the given rate on the primary, while the replica answers reads at the given rate."""
    _under_load(spec, readers=True)


def backlog(spec):
    """Measures how fast the replica applies `backlog` transactions that the primary wrote while it was stopped."""
    with _both(spec) as (primary, replica):
        _follow(primary, replica)
        _caught_up(primary, replica)
        replica.sql("STOP SLAVE SQL_THREAD")
        with _load(spec, primary, "behind", "writes", rate=0, events=spec.get("backlog", 1000)) as load:
            innodb_load.finish(load)
        behind, reached = _position(primary, "gtid_binlog_pos"), _position(replica, "gtid_slave_pos")
        _fetched(primary, replica)
        with replica.session() as session, driver.measured(), driver.Progress(
                behind - reached, "transactions", watch=lambda: _position(session, "gtid_slave_pos") - reached):
            began = time.monotonic()
            replica.sql("START SLAVE SQL_THREAD")
            _caught_up(primary, replica)
            took = time.monotonic() - began
        driver.figure("catch_up_s", took, "s")
        driver.figure("apply_rate", (behind - reached) / took, "1/s")
        # Speed relative to the steady load of the other phases: below 1 the replica could not keep up with
        # that load.
        driver.figure("headroom", (behind - reached) / took / spec.get("write_rate", 100), "ratio")


# ---- the servers ----


def _primary_data(spec):
    # A campaign may put the primary on a dataset too.
    return spec.paths.get("primary", spec.scratch / "primary-data")


@contextlib.contextmanager
def _both(spec):
    """Starts the servers. The primary listens on the loopback interface, the replica only on its socket."""
    port = server.free_port()
    # The primary's durability is not measured, and must not be the bottleneck on the host's disk.
    primary = MariaDb(
        "primary", spec.scratch / "p", _primary_data(spec), skip_networking=None, bind_address="127.0.0.1", port=port,
        log_bin="mysql-bin", binlog_format="ROW", sync_binlog=0, innodb_flush_log_at_trx_commit=2,
        innodb_buffer_pool_size=spec.get("primary_buffer_pool", "128M"))
    replica = MariaDb(
        "replica", spec.scratch / "r", spec.path("replica"), server_id=2, read_only="ON", skip_slave_start="",
        relay_log="relay-bin", slave_parallel_threads=spec.get("slave_threads", 0),
        innodb_doublewrite=spec.get("doublewrite", "ON"), innodb_buffer_pool_size=spec.get("buffer_pool", "64M"))
    primary.port = port
    with primary, replica:
        try:
            yield primary, replica
        except BaseException:
            # Stop both at the same time: they share a short time limit.
            primary.ask_to_stop()
            raise


def _follow(primary, replica):
    """Starts the replication; port and password are new at each start."""
    password = secrets.token_hex(16)
    primary.sql(f"SET sql_log_bin = 0; CREATE OR REPLACE USER 'replica'@'127.0.0.1' IDENTIFIED BY '{password}'; "
                "GRANT REPLICATION SLAVE ON *.* TO 'replica'@'127.0.0.1'")
    replica.sql(f"STOP SLAVE; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, MASTER_USER = 'replica', "
                f"MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE")


def _caught_up(primary, replica):
    """Waits until the replica has applied everything that the primary has written so far."""
    position = primary.sql("SELECT @@gtid_binlog_pos")
    if position and replica.sql(f"SELECT MASTER_GTID_WAIT('{position}', {CATCH_UP_S})") != "0":
        raise Failure(f"the replica did not reach {position} within {CATCH_UP_S} s: {_trouble(replica)}")


def _fetched(primary, replica):
    """Waits until the replica has fetched the primary's whole log, whether it has applied it or not."""
    wanted = primary.sql("SELECT @@gtid_binlog_pos")
    until = time.monotonic() + CATCH_UP_S
    while _status(replica).get("Gtid_IO_Pos") != wanted:
        if time.monotonic() > until:
            raise Failure(f"the replica did not fetch the primary's log: {_trouble(replica)}")
        time.sleep(0.05)


def status(text):
    """Returns the result of SHOW SLAVE STATUS\\G as a dictionary."""
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines()) if value}


def _status(replica):
    return status(replica.sql("SHOW SLAVE STATUS\\G", names=True))


def _trouble(replica):
    seen = _status(replica)
    return seen.get("Last_SQL_Error") or seen.get("Last_IO_Error") or f"no error reported; see {replica.folder}/replica.log"


def _position(one, variable):
    """Returns the number of the last transaction in a GTID position (domain-server-number), or 0."""
    text = one.row(f"SELECT @@{variable}") if hasattr(one, "row") else one.sql(f"SELECT @@{variable}")
    return number_of(text)


def number_of(position):
    """Returns the number at the end of a GTID position of one domain."""
    return int(position.rsplit("-", 1)[-1]) if position else 0


# ---- load and lag ----


def _load(spec, mariadb, name, mix, rate, events=0):
    threads = spec.get("read_threads" if mix == "reads" else "write_threads", 4)
    seconds = 0 if events else spec.get("seconds", 10)
    return innodb_load.sysbench(mariadb, name, mix, threads, seconds, rate, spec.seed % 1_000_000, events)


def _under_load(spec, readers):
    with _both(spec) as (primary, replica):
        _follow(primary, replica)
        _caught_up(primary, replica)
        with Lag(primary, replica) as lag:
            with driver.measured(), driver.Progress(spec.get("seconds", 10), "s", watch=lag.elapsed):
                lag.begin()
                with contextlib.ExitStack() as running:
                    written = running.enter_context(_load(spec, primary, "writes", "writes", spec.get("write_rate", 100)))
                    if readers:
                        asked = running.enter_context(_load(spec, replica, "reads", "reads", spec.get("read_rate", 100)))
                        _say_load("read", innodb_load.finish(asked), spec.get("read_rate", 100))
                    _say_load("write", innodb_load.finish(written), spec.get("write_rate", 100))
            ended = time.monotonic()
            _caught_up(primary, replica)
            driver.figure("catch_up_s", time.monotonic() - ended, "s")
        driver.latency("lag", lag.seen)
        # The mean includes gaps: heartbeats that were not applied in time are in `lag` with their age.
        driver.figure("lag_mean_s", lag.mean_s(), "s")


def _say_load(what, result, rate):
    count, per_s, latencies = result
    driver.figure(f"{what}s_per_s", per_s, "1/s")
    if rate:
        driver.figure(f"{what}s_share", 100 * per_s / rate, "percent")
    driver.latency(what, latencies)


class Lag:
    """Measures the lag of the replica: the primary writes the time into a row twenty times a second, and the replica is
    queried as often. The series shows the age of that time, so up to 50 ms of it are due to the interval."""

    def __init__(self, primary, replica):
        self.primary, self.replica = primary, replica
        self.ended, self.began, self.failure = threading.Event(), None, None
        self.seen, self.sum_ns = driver.Latencies(), 0

    def __enter__(self):
        self.sessions = contextlib.ExitStack()
        write, ask = (self.sessions.enter_context(one.session()) for one in (self.primary, self.replica))
        write.do(self._beat())
        self.threads = [threading.Thread(target=self._keep, args=(step,)) for step in (
            lambda: write.do(self._beat()), lambda: self._look(int(ask.row("SELECT at FROM lab.beat WHERE id = 1"))))]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        self.sessions.close()
        if self.failure and kind is None:
            raise self.failure

    def begin(self):
        self.began = time.monotonic()

    def elapsed(self):
        return round(time.monotonic() - self.began, 3) if self.began else 0

    def mean_s(self):
        return self.sum_ns / max(self.seen.count, 1) / 1e9

    def _beat(self):
        return f"UPDATE lab.beat SET at = {time.time_ns()} WHERE id = 1"

    def _look(self, at):
        # 0: the first heartbeat has not arrived yet.
        if self.began and at:
            age = time.time_ns() - at
            self.seen.add(age)
            self.sum_ns += age
            driver.series("lag", age / 1e9, "s")

    def _keep(self, step):
        try:
            while not self.ended.wait(BEAT_S):
                step()
        except (Failure, OSError, ValueError) as why:
            self.failure = why if isinstance(why, Failure) else Failure(f"cannot read the replica's lag: {why}")

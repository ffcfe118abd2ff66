"""The study "replica": a primary on the host's file system, as in the report, and its replica on the dataset.

Three questions: does the replica keep up while only the primary is busy, does it still when it answers its share of the
reads, and how fast would it be if it had fallen behind?
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
    """Both get the same data; the replica's is on the dataset. It was made without a binary log, so both begin with the
    empty position."""
    template = innodb_server.shop(spec, spec.get("shop", 0.1))
    innodb_server.put(template, _primary_data(spec))
    innodb_server.put(template, spec.path("replica"))


def writes(spec):
    """Writes at the given rate on the primary; nobody reads from the replica."""
    _under_load(spec, readers=False)


def reads(spec):
    """The same, while the replica answers reads at the given rate."""
    _under_load(spec, readers=True)


def backlog(spec):
    """The replica has stopped applying while the primary wrote `backlog` transactions: how fast does it catch up?"""
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
        # How much faster than the steady load of the other phases: below 1 it could not keep up with that.
        driver.figure("headroom", (behind - reached) / took / spec.get("write_rate", 100), "ratio")


# ---- the servers ----


def _primary_data(spec):
    # A campaign may put the primary on a dataset too.
    return spec.paths.get("primary", spec.scratch / "primary-data")


@contextlib.contextmanager
def _both(spec):
    """The running servers. The primary listens on the loopback, the replica on its socket only."""
    port = server.free_port()
    # What the primary makes durable is not asked here, and on the host's disk it must not be what all wait for.
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
            # Both at once: there is little time for the two of them.
            primary.ask_to_stop()
            raise


def _follow(primary, replica):
    """Makes the replica follow; the port and the password are new at each start."""
    password = secrets.token_hex(16)
    primary.sql(f"SET sql_log_bin = 0; CREATE OR REPLACE USER 'replica'@'127.0.0.1' IDENTIFIED BY '{password}'; "
                "GRANT REPLICATION SLAVE ON *.* TO 'replica'@'127.0.0.1'")
    replica.sql(f"STOP SLAVE; CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {primary.port}, MASTER_USER = 'replica', "
                f"MASTER_PASSWORD = '{password}', MASTER_CONNECT_RETRY = 1, MASTER_USE_GTID = slave_pos; START SLAVE")


def _caught_up(primary, replica):
    """Waits until the replica has applied what the primary has written so far."""
    position = primary.sql("SELECT @@gtid_binlog_pos")
    if position and replica.sql(f"SELECT MASTER_GTID_WAIT('{position}', {CATCH_UP_S})") != "0":
        raise Failure(f"the replica did not reach {position} within {CATCH_UP_S} s: {_trouble(replica)}")


def _fetched(primary, replica):
    """Waits until the replica has all of the primary's log in its own folder, applied or not."""
    wanted = primary.sql("SELECT @@gtid_binlog_pos")
    until = time.monotonic() + CATCH_UP_S
    while _status(replica).get("Gtid_IO_Pos") != wanted:
        if time.monotonic() > until:
            raise Failure(f"the replica did not fetch the primary's log: {_trouble(replica)}")
        time.sleep(0.05)


def status(text):
    """SHOW SLAVE STATUS\\G as a dictionary."""
    return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in text.splitlines()) if value}


def _status(replica):
    return status(replica.sql("SHOW SLAVE STATUS\\G", names=True))


def _trouble(replica):
    seen = _status(replica)
    return seen.get("Last_SQL_Error") or seen.get("Last_IO_Error") or f"it says no error; {replica.folder}/replica.log"


def _position(one, variable):
    """The number of the last transaction in a GTID position (domain-server-number), 0 if there is none."""
    text = one.row(f"SELECT @@{variable}") if hasattr(one, "row") else one.sql(f"SELECT @@{variable}")
    return number_of(text)


def number_of(position):
    """The number at the end of a GTID position of one domain."""
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
        # Without gaps: the beats that were not applied in time are in `lag` with their age.
        driver.figure("lag_mean_s", lag.mean_s(), "s")


def _say_load(what, result, rate):
    count, per_s, latencies = result
    driver.figure(f"{what}s_per_s", per_s, "1/s")
    if rate:
        driver.figure(f"{what}s_share", 100 * per_s / rate, "percent")
    driver.latency(what, latencies)


class Lag:
    """How far the replica is behind: the primary writes the time into a row twenty times a second, and the replica is asked
    for it as often. What is shown is the age of that time, so up to 50 ms of it are the beat's own."""

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
        # 0: the first beat is not there yet.
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
            self.failure = why if isinstance(why, Failure) else Failure(f"asking for the replica's lag failed: {why}")

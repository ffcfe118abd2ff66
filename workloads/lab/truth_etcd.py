"""etcd on bbolt, whose clients put values of a kilobyte and get them, over a Unix socket. Each put is synced in etcd's own log first."""

import base64
import contextlib
import http.client
import json
import random
import socket
import subprocess

import truth_loads
import truth_sqlite
from common import driver, server

# Number of keys at size 1: 150 MB.
KEYS = 100_000
# etcd's limit of operations in a transaction is 128.
BATCH = 100
READY_S = 60
SOCKET, PEER_SOCKET = "client:0", "peer:0"


def check():
    """Yields a line for each missing requirement."""
    yield from server.missing("etcd", "etcd-server")


class Connection(http.client.HTTPConnection):
    """A connection to etcd's JSON interface."""

    def __init__(self, spec):
        super().__init__("etcd", timeout=60)
        self.path = spec.scratch / SOCKET

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))

    def ask(self, verb, request):
        """Returns the answer to a request."""
        self.request("POST", f"/v3/kv/{verb}", json.dumps(request), {"Content-Type": "application/json"})
        answer = self.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise OSError(f"etcd returned {answer.status}: {body[:200]}")
        return json.loads(body)


def put(key, draw):
    """Returns the request that sets a key to a new text."""
    value = f"{draw.random()} {truth_sqlite.body(draw)}"
    return {"key": _encoded(f"/registry/{key:08d}"), "value": _encoded(value)}


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


@contextlib.contextmanager
def running(spec, folder):
    """Runs etcd on a directory. It makes its sockets in the working directory."""
    command = [server.find("etcd"), "--data-dir", folder.absolute() / "etcd", "--listen-client-urls", f"unix://{SOCKET}",
               "--advertise-client-urls", f"unix://{SOCKET}", "--listen-peer-urls", f"unix://{PEER_SOCKET}",
               "--initial-advertise-peer-urls", "http://localhost:1", "--initial-cluster", "default=http://localhost:1",
               "--log-level", "error"]
    with server.Server("etcd", command, spec.scratch, cwd=spec.scratch) as etcd:
        etcd.wait_ready(lambda: Connection(spec).ask("range", {"key": _encoded("none")}) is not None, READY_S)
        yield


def prepare(spec, folder):
    """Prepares the keys."""
    keys, draw = max(1000, round(KEYS * spec.get("size", 1.0))), random.Random(1)
    with running(spec, folder / "data"):
        connection = Connection(spec)
        for first in range(0, keys, BATCH):
            batch = range(first, min(first + BATCH, keys))
            connection.ask("txn", {"success": [{"requestPut": put(key, draw)} for key in batch]})


@contextlib.contextmanager
def serving(spec):
    """Runs etcd on the dataset."""
    version = subprocess.run([server.find("etcd"), "--version"], capture_output=True, text=True, check=False)
    driver.version("etcd", version.stdout.split()[2])
    with running(spec, spec.path("data")):
        yield


class Clients(truth_loads.ProcessClients):
    """Three of four requests put a value."""

    @contextlib.contextmanager
    def connect(self, number):
        draw = self.spec.random(f"client {number}")
        keys = max(1000, round(KEYS * self.spec.get("size", 1.0)))
        with contextlib.closing(Connection(self.spec)) as connection:
            def transact():
                key = int(draw.random() ** 2 * keys)
                if draw.random() < 0.25:
                    connection.ask("range", {"key": _encoded(f"/registry/{key:08d}")})
                else:
                    connection.ask("put", put(key, draw))

            yield transact

"""VictoriaMetrics from the Debian package, on a loopback port."""

import contextlib
import http.client
import json
import subprocess
import threading

from common import driver, server

from .flat import unpack

PROGRAM = "victoria-metrics"


class Victoria:
    """The server, with its data below `root`. Seconds are counted from `EPOCH`."""

    EPOCH = 1_672_531_200  # 2023-01-01: long enough ago that no data is in the future

    def __init__(self, root, scratch, memory):
        self.port = server.free_port()
        arguments = [
            server.find(PROGRAM) or PROGRAM, f"-storageDataPath={root}", f"-httpListenAddr=127.0.0.1:{self.port}",
            "-retentionPeriod=100y", f"-memory.allowedBytes={memory}", "-search.latencyOffset=0s",
            "-search.disableCache=true", "-loggerLevel=WARN", "-storage.minFreeDiskSpaceBytes=0",
        ]
        self.root = root
        self._server = server.Server("victoria-metrics", arguments, scratch)
        # A separate connection for each thread.
        self._mine = threading.local()

    def __enter__(self):
        self._server.__enter__()
        self._server.wait_ready(lambda: self._ask("GET", "/health") == b"OK")
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Stops the server, which then writes its data in memory."""
        self._server.stop()

    def _ask(self, method, path, body=None):
        try:
            connection = getattr(self._mine, "connection", None)
            if connection is None:
                connection = self._mine.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request(method, path, body)
            reply = connection.getresponse()
            data = reply.read()
        except (OSError, http.client.HTTPException) as why:
            self._mine.connection = None
            raise OSError(f"VictoriaMetrics does not answer: {why}") from why
        if reply.status >= 300:
            raise driver.Failure(f"VictoriaMetrics refused {path.split('?')[0]}: {reply.status} {data[:200]!r}")
        return data

    def write(self, batch):
        """Writes a batch of (metric, first second, points) as lines of the server's import format."""
        self._ask("POST", "/api/v1/import", "".join(self._lines(batch)).encode())

    def _lines(self, batch):
        for metric, first, data in batch:
            values = unpack(data)
            present = [i for i, value in enumerate(values) if value is not None]
            if present:
                begin = self.EPOCH + first
                labels = f'"__name__":"m{metric % 100:02}","host":"host{metric // 100:03}"'
                stamps = ",".join(f"{begin + i}000" for i in present)
                numbers = ",".join(str(values[i]) for i in present)
                yield f'{{"metric":{{{labels}}},"values":[{numbers}],"timestamps":[{stamps}]}}\n'

    def read(self, metric, first, count):
        """Returns a period of a metric as lines of the server's export format."""
        begin = self.EPOCH + first
        query = f"m{metric % 100:02}%7Bhost%3D%22host{metric // 100:03}%22%7D"
        path = f"/api/v1/export?match%5B%5D={query}&start={begin}&end={begin + count - 1}"
        return self._ask("GET", path)


def count(answer):
    """Returns the number of samples in lines of the export format."""
    return sum(len(json.loads(line)["values"]) for line in answer.splitlines())


def version():
    """Returns the version of the package, because the packaged program does not know its version."""
    command = ["dpkg-query", "-W", "-f", "${Version}", "victoria-metrics"]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    return "unknown"

"""A file server: clients that read whole files, replace them safely, append to logs, and remove files."""

import contextlib
import os
import random

import truth_loads
from truth_sqlite import WORDS

# Number of files at size 1, of 48 KB on average: 430 MB.
FILES = 9_000
# Files of a directory.
DIRECTORY = 100
# The median size of a file in bytes; sizes are distributed as the exponential of a normal distribution with this deviation, up to 1 MiB.
MEDIAN, DEVIATION, LARGEST = 24_000, 1.2, 1 << 20

serving = truth_loads.nothing_to_serve


def check():
    """Yields nothing: files need no program."""
    return ()


class Texts:
    """Texts in which a few words are most frequent, as in natural language."""

    def __init__(self, draw):
        words = (WORDS[int(draw.random() ** 3 * len(WORDS))] for _ in range(400_000))
        self.draw, self.pool = draw, " ".join(words).encode()

    def text(self, size):
        """Returns this many bytes, which no other call returns."""
        start = self.draw.randrange(len(self.pool) - size)
        head = f"{self.draw.random()} ".encode()
        return (head + self.pool[start:start + size])[:size]

    def size(self):
        """Draws the size of a file."""
        return min(LARGEST, max(64, int(self.draw.lognormvariate(0, DEVIATION) * MEDIAN)))


def path_of(folder, number):
    """Returns the path of a file by its number."""
    return folder / f"{number // DIRECTORY:04}" / f"{number % DIRECTORY:02}.txt"


def count_of(spec):
    """Returns the number of files."""
    return max(200, round(FILES * spec.get("size", 1.0)))


def prepare(spec, folder):
    """Prepares the files."""
    texts = Texts(random.Random(1))
    for number in range(count_of(spec)):
        path = path_of(folder / "data", number)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(texts.text(texts.size()))


class Clients(truth_loads.ProcessClients):
    """Clients of which six in ten operations read a whole file."""

    @contextlib.contextmanager
    def connect(self, number):
        draw = self.spec.random(f"client {number}")
        yield Operation(self.spec.path("data"), number, count_of(self.spec), draw)


class Operation:
    """Performs one operation at each call."""

    def __init__(self, folder, client, count, draw):
        self.folder, self.client, self.count, self.draw = folder, client, count, draw
        self.texts = Texts(draw)

    def some(self):
        """Draws a file, most often one of a tenth of them."""
        return path_of(self.folder, int(self.draw.random() ** 2 * self.count) * 4799 % self.count)

    def __call__(self):
        draw = self.draw.random()
        if draw < 0.6:
            with contextlib.suppress(FileNotFoundError):
                self.some().read_bytes()
        elif draw < 0.85:
            self.replace(self.some())
        elif draw < 0.95:
            self.append()
        else:
            with contextlib.suppress(FileNotFoundError):
                self.some().unlink()

    def replace(self, path):
        """Writes a new file beside the old one, syncs it, and gives it its name."""
        new = path.with_suffix(f".new{self.client}")
        with new.open("wb") as file:
            file.write(self.texts.text(self.texts.size()))
            file.flush()
            os.fsync(file.fileno())
        new.rename(path)

    def append(self):
        """Adds a record to the client's log, and syncs it."""
        with (self.folder / f"log{self.client}").open("ab") as file:
            file.write(self.texts.text(self.draw.randint(200, 4000)))
            file.flush()
            os.fdatasync(file.fileno())

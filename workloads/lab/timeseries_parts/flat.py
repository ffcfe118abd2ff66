"""The file format of DalmatinerDB, as written by its `mstore` and `mmath` (both public, Erlang, 2014 to 2018).

A bucket's partition is a directory. It contains for every period of `points_per_file` seconds that begins at OFFSET:

    OFFSET.mstore   metric 0's points, then metric 1's, …: `points_per_file` points of 8 bytes each, a hole until written
    OFFSET.idx      OFFSET and points_per_file (64 bits each), then each metric's name after its length (16 bits)
    OFFSET.bitmap   per metric: points_per_file (64 bits) and a bit for each existing point; written when the file is closed

A point is one byte of type (0 nothing, 1 integer, 2 decimal) and 56 bits of value. Numbers are big-endian throughout. There
is no log and no fsync: as DalmatinerDB documents, a crash loses what was not written yet. Up to `cache_points` points of a
metric are kept in memory and written together; a query first writes them.
"""

import os
import struct

NONE, INT = 0, 1
POINT = 8
POINTS_PER_FILE = 604_800
CACHE_POINTS = 120
HEADER = struct.Struct(">qq")
BITS = struct.Struct(">Q")
_VALUE = (1 << 56) - 1
NOTHING = bytes(POINT)
# The type byte as a digit: whether the point exists.
_DIGITS = b"0" + b"1" * 255


def pack(values):
    """Encodes integers as points; None is a missing point."""
    words = [0 if value is None else INT << 56 | value & _VALUE for value in values]
    return bytearray(struct.pack(f">{len(words)}Q", *words))


def unpack(data):
    """Decodes points to values; None is a missing point."""
    words = struct.unpack(f">{len(data) // POINT}Q", data)
    return [None if word >> 56 == NONE else _signed(word & _VALUE) for word in words]


def presence(data):
    """Returns a number with a bit for each point, the first one lowest: whether the point exists."""
    return int(data[::POINT][::-1].translate(_DIGITS), 2)


def _signed(value):
    return value - (1 << 56) if value >> 55 else value


class File:
    """One period of all metrics of a partition."""

    def __init__(self, folder, offset, points):
        self.offset, self.points = offset, points
        base = os.path.join(folder, str(offset))
        # Opened first: a file without an index entry is empty.
        self._data, self._bitmap = (os.open(base + end, os.O_RDWR | os.O_CREAT, 0o644) for end in (".mstore", ".bitmap"))
        self._index = os.open(base + ".idx", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        if os.fstat(self._index).st_size == 0:
            os.write(self._index, HEADER.pack(offset, points))
        self._places = {name: i for i, name in enumerate(self._names())}
        self._bits = {}

    def _names(self):
        size = os.fstat(self._index).st_size
        text, at = os.pread(self._index, size, 0), HEADER.size
        if HEADER.unpack_from(text) != (self.offset, self.points):
            raise OSError(f"the index of offset {self.offset} has the header {HEADER.unpack_from(text)}")
        while at < size:
            length = int.from_bytes(text[at:at + 2], "big")
            yield text[at + 2:at + 2 + length]
            at += 2 + length

    def write(self, metric, first, data):
        """Writes points from second `first`. The index is written first: points may be lost, but never assigned to
        another metric."""
        place = self._places.get(metric)
        if place is None:
            place = self._places[metric] = len(self._places)
            os.write(self._index, len(metric).to_bytes(2, "big") + metric)
        at = first - self.offset
        os.pwrite(self._data, data, (place * self.points + at) * POINT)
        self._mark(place, at, data)

    def _mark(self, place, at, data):
        bits = self._bits.get(place)
        if bits is None:
            bits = self._bits[place] = self._read_bits(place)
        low, high = at // 8, (at + len(data) // POINT + 7) // 8
        now = int.from_bytes(bits[low:high], "little") | presence(data) << (at - low * 8)
        bits[low:high] = now.to_bytes(high - low, "little")

    def _read_bits(self, place):
        length = -(-self.points // 8)
        bits = os.pread(self._bitmap, length, place * (length + BITS.size) + BITS.size)
        return bytearray(bits.ljust(length, b"\0"))

    def read(self, metric, first, count):
        """Returns the bytes of `count` points, fewer at the end of the file."""
        place = self._places.get(metric)
        if place is None:
            return b""
        return os.pread(self._data, count * POINT, (place * self.points + first - self.offset) * POINT)

    def close(self):
        """Writes the changed bitmaps, and closes the files."""
        for place, bits in self._bits.items():
            block = BITS.pack(self.points) + bits
            os.pwrite(self._bitmap, block, place * len(block))
        for fd in (self._data, self._index, self._bitmap):
            os.close(fd)


class Store:
    """A bucket of metrics. A metric's partition is its number modulo `partitions`; DalmatinerDB hashes its name."""

    # Files of a partition: around the end of a period, metrics write to the old file and to the new one.
    MOST_OPEN = 2

    def __init__(self, root, points_per_file=POINTS_PER_FILE, partitions=4):
        self.root, self.points, self.partitions = root, points_per_file, partitions
        self._open = [[] for _ in range(partitions)]

    def _file(self, metric, second):
        files, offset = self._open[metric % self.partitions], second // self.points * self.points
        for file in files:
            if file.offset == offset:
                return file
        if len(files) == self.MOST_OPEN:
            files.pop(0).close()
        folder = os.path.join(self.root, "metrics", str(metric % self.partitions))
        os.makedirs(folder, exist_ok=True)
        files.append(File(folder, offset, self.points))
        return files[-1]

    @staticmethod
    def name(metric):
        """Returns the name in an agent's encoding: parts, each preceded by its length."""
        parts = (b"host%03d" % (metric // 100), b"base", b"m%02d" % (metric % 100))
        return b"".join(bytes([len(part)]) + part for part in parts)

    def write(self, metric, first, data):
        """Writes points from second `first` to their files."""
        while data:
            part = (self.points - first % self.points) * POINT
            self._file(metric, first).write(self.name(metric), first, data[:part])
            first, data = first + part // POINT, data[part:]

    def read(self, metric, first, count):
        """Reads the points of a period from its files; missing points have type 0."""
        found = b""
        while count > 0:
            part = min(count, self.points - first % self.points)
            data = self._file(metric, first).read(self.name(metric), first, part)
            found += data.ljust(part * POINT, b"\0")
            first, count = first + part, count - part
        return found

    def close(self):
        """Closes all files with their bitmaps; the next write opens them again."""
        for files in self._open:
            while files:
                files.pop().close()

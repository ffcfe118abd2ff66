"""DalmatinerDB's files, as its `mstore` and `mmath` write them (both public, Erlang, 2014 to 2018).

A bucket's partition is a folder. In it, for every stretch of `points_per_file` seconds that begins at OFFSET:

    OFFSET.mstore   metric 0's points, then metric 1's, …: `points_per_file` points of 8 bytes each, a hole until written
    OFFSET.idx      OFFSET and points_per_file (64 bits each), then each metric's name after its length (16 bits)
    OFFSET.bitmap   per metric: points_per_file (64 bits) and a bit for each point that is there; written when it is closed

A point is one byte of type (0 nothing, 1 a whole number, 2 a decimal) and 56 bits of value, big-endian. Numbers are big-
endian throughout. There is no log and no fsync: what was not written yet is lost in a crash, and DalmatinerDB says so.
Points are kept in memory, `cache_points` of a metric, and written together; a query has them written before it reads.
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
# A type's byte as the digit that says whether the point is there.
_DIGITS = b"0" + b"1" * 255


def pack(values):
    """Points of these whole numbers; None is a point that is not there."""
    words = [0 if value is None else INT << 56 | value & _VALUE for value in values]
    return bytearray(struct.pack(f">{len(words)}Q", *words))


def unpack(data):
    """The values, None where there is nothing."""
    words = struct.unpack(f">{len(data) // POINT}Q", data)
    return [None if word >> 56 == NONE else _signed(word & _VALUE) for word in words]


def presence(data):
    """A number with a bit for each point, the first lowest: whether it is there."""
    return int(data[::POINT][::-1].translate(_DIGITS), 2)


def _signed(value):
    return value - (1 << 56) if value >> 55 else value


class File:
    """One stretch of time of all metrics of a partition."""

    def __init__(self, folder, offset, points):
        self.offset, self.points = offset, points
        base = os.path.join(folder, str(offset))
        # Opened first: a file without an index entry is an empty one.
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
            raise OSError(f"the index of offset {self.offset} says {HEADER.unpack_from(text)}")
        while at < size:
            length = int.from_bytes(text[at:at + 2], "big")
            yield text[at + 2:at + 2 + length]
            at += 2 + length

    def write(self, metric, first, data):
        """Points from second `first` on. The index goes first: points may be lost, never be taken for another metric's."""
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
        """The bytes of `count` points; fewer, or none, where the file ends."""
        place = self._places.get(metric)
        if place is None:
            return b""
        return os.pread(self._data, count * POINT, (place * self.points + first - self.offset) * POINT)

    def close(self):
        """Writes the bitmaps that changed, and closes."""
        for place, bits in self._bits.items():
            block = BITS.pack(self.points) + bits
            os.pwrite(self._bitmap, block, place * len(block))
        for fd in (self._data, self._index, self._bitmap):
            os.close(fd)


class Store:
    """A bucket of metrics. A metric's partition is its number modulo `partitions`, where DalmatinerDB hashes its name."""

    # Of a partition: around the end of a stretch of time, metrics write into the old file and the new one.
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
        """As an agent names it: parts, each after its length."""
        parts = (b"host%03d" % (metric // 100), b"base", b"m%02d" % (metric % 100))
        return b"".join(bytes([len(part)]) + part for part in parts)

    def write(self, metric, first, data):
        """Points from second `first` on, into the files that they belong to."""
        while data:
            part = (self.points - first % self.points) * POINT
            self._file(metric, first).write(self.name(metric), first, data[:part])
            first, data = first + part // POINT, data[part:]

    def read(self, metric, first, count):
        """The points of a stretch, over the files that it lies in; of type 0 where there is nothing."""
        found = b""
        while count > 0:
            part = min(count, self.points - first % self.points)
            data = self._file(metric, first).read(self.name(metric), first, part)
            found += data.ljust(part * POINT, b"\0")
            first, count = first + part, count - part
        return found

    def close(self):
        """Closes all files, with their bitmaps; what is written now opens them again."""
        for files in self._open:
            while files:
                files.pop().close()

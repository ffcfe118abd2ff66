"""A load that overwrites random ranges of existing files and syncs them, like a database its pages."""

import contextlib
import ctypes
import mmap
import os

from loads import Load, Lost

BLOCK = 4096
KEEP_SIZE, PUNCH_HOLE = 1, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def punch(fd, at, length):
    """Punches a hole. (os.posix_fallocate has no modes.)"""
    if LIBC.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_long(at), ctypes.c_long(length)):
        raise OSError(ctypes.get_errno(), "fallocate")


def opened_until(end, path, flags):
    """Opens a file that `end`, an ExitStack, closes."""
    fd = os.open(path, flags)
    end.callback(os.close, fd)
    return fd


class Blocks(Load):
    """Each thread overwrites ranges of its own file, or of its part of a shared file, then syncs. Some changes are holes, some
    truncate and extend the file, and some are writes with O_DSYNC, which are acknowledged at once.

    After a crash, every byte must be as at the last acknowledged sync, except in ranges written since then: there each byte must be
    the old one or a written one.
    """

    name = "blocks"
    threads = 3
    SIZE = 3 << 20
    LENGTHS = (100, 512, 4096, 5000, 16384, 40000, 65536, 131072, 300000)

    def __init__(self, seed):
        super().__init__(seed)
        self.reset()

    def reset(self):
        self.images = [bytearray(self.SIZE) for _ in range(self.threads)]
        self.flying = [[] for _ in range(self.threads)]
        self.last = [0] * self.threads

    def prepare(self, directory):
        self.reset()
        for number in range(self.threads):
            path, at = self.place(directory, number)
            fd = os.open(path, os.O_RDWR | os.O_CREAT)
            os.pwrite(fd, self.images[number], at)
            os.fsync(fd)
            os.close(fd)

    def place(self, directory, number):
        """A thread's file, and the offset of its part. The first thread has its own file; the others share one."""
        return os.path.join(directory, "own" if number == 0 else "shared"), max(number - 1, 0) * self.SIZE

    def work(self, directory, number, stop):
        path, begin = self.place(directory, number)
        direct = self.draw.random() < 0.4
        flags = os.O_RDWR | (os.O_DIRECT if direct else 0)
        with contextlib.ExitStack() as opened:
            fd, durable = (opened_until(opened, path, flags | more) for more in (0, os.O_DSYNC))
            while not stop.is_set():
                for _ in range(self.draw.randint(1, 6)):
                    self.change(fd, durable, number, begin, direct)
                (os.fsync if self.draw.random() < 0.3 else os.fdatasync)(fd)
                for at, body in self.flying[number]:
                    self.images[number][at : at + len(body)] = body
                self.flying[number] = []
                self.acknowledged += 1

    def change(self, fd, durable, number, begin, direct):
        what = self.draw.random()
        if what < 0.75:
            self.overwrite(fd, number, begin, direct)
        elif what < 0.85:
            at, body = self.overwrite(durable, number, begin, direct)
            self.images[number][at : at + len(body)] = body
        elif what < 0.95 or number != 0:
            length = self.draw.choice(self.LENGTHS)
            at = self.somewhere(number, length)
            self.flying[number].append((at, bytes(length)))
            punch(fd, begin + at, length)
        else:
            at = self.draw.choice([0, self.somewhere(number, 0)])
            self.flying[number].append((at, bytes(self.SIZE - at)))
            os.ftruncate(fd, at)
            os.ftruncate(fd, self.SIZE)

    def somewhere(self, number, length):
        """A random offset, often the previous one, so that the log has several records of one block between two syncs."""
        if self.draw.random() < 0.4:
            self.last[number] = self.draw.randrange(self.SIZE)
        return min(self.last[number], self.SIZE - length)

    def overwrite(self, fd, number, begin, direct):
        length = self.draw.choice(self.LENGTHS)
        at = self.somewhere(number, length)
        if direct:
            length, at = -(-length // BLOCK) * BLOCK, at // BLOCK * BLOCK
            length = min(length, self.SIZE - at)
        body = self.draw.randbytes(length)
        # Page-aligned memory for direct I/O.
        memory = mmap.mmap(-1, length)
        memory[:] = body
        self.flying[number].append((at, body))
        done = 0
        while done < length:
            done += os.pwrite(fd, memoryview(memory)[done:], begin + at + done)
        return at, body

    def check(self, directory):
        for number in range(self.threads):
            path, begin = self.place(directory, number)
            with open(path, "rb") as file:
                file.seek(begin)
                found = file.read(self.SIZE)
            if number == 0:  # truncated and not extended yet: the missing bytes compare as zeros
                found = found.ljust(self.SIZE, b"\0")
            if len(found) != self.SIZE:
                raise Lost(f"{path}: {len(found)} bytes from {begin} on, expected {self.SIZE}")
            self.compare(number, found)
            self.images[number], self.flying[number] = bytearray(found), []

    def compare(self, number, found):
        image, flying = self.images[number], self.flying[number]
        edges = sorted({0, self.SIZE} | {at for at, _ in flying} | {at + len(body) for at, body in flying})
        for low, high in zip(edges, edges[1:]):
            wanted = [bytes(image[low:high])]
            wanted += [body[low - at : high - at] for at, body in flying if at <= low and high <= at + len(body)]
            if found[low:high] in wanted:
                continue
            wrong = [n for n in range(high - low) if all(found[low + n] != one[n] for one in wanted)]
            if wrong:
                first, last = low + wrong[0], low + wrong[-1]
                what = "never written" if len(wanted) == 1 else f"none of {len(wanted)} possible values"
                zeros = not any(found[low + n] for n in wrong)
                raise Lost(f"part {number}: {len(wrong)} bytes from {first} to {last} are {what}"
                           f"{', all zero' if zeros else ''} (synced range {low} to {high})")

"""A file system that is filled, and whose free space is as scattered as after months of use.

One big file of incompressible bytes takes the room and more, and then records of it, drawn at random, are punched out
until the file system is as full as wanted. On a file system without holes (ENOTSUP) this cannot be had, and it says so.
"""

import ctypes
import errno
import os

from common import driver

ROLE = "ballast"
STEP = 1 << 20
# Random bytes that are made once; each step takes another part of them.
BLOCK = 64 << 20
# Beyond this the file system refuses writes, or waits for what was freed.
MOST = 98
PUNCH_HOLE, KEEP_SIZE = 2, 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def age(spec):
    """Fills to `full` per cent as df shows it; up to `holes` per cent of the file system are scattered, in `piece`s."""
    path, draw = spec.path(ROLE) / "ballast", spec.random("ballast")
    full, piece = spec.get("full"), driver.size(spec.get("piece", "64K"))
    if not 0 <= full < MOST:
        raise driver.Failure(f"full = {full} is not a per cent from 0 to {MOST - 1}: beyond that nothing can be overwritten")
    first = room(path.parent, min(MOST, full + spec.get("holes", 10)))
    too_much = (first - room(path.parent, full)) // piece
    bytes_of = Bytes(draw)
    with driver.Progress(first + too_much * piece, "bytes") as progress:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        for at in range(0, first, STEP):
            os.pwrite(fd, bytes_of(STEP), at)
            progress.add(STEP)
        os.fsync(fd)
        for place in draw.sample(range(first // piece), too_much):
            punch(fd, place * piece, piece)
            progress.add(piece)
        os.fsync(fd)
        os.close(fd)


def punch(fd, offset, length):
    """Gives a stretch of a file back."""
    if _libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length) != 0:
        why = ctypes.get_errno()
        if why == errno.EOPNOTSUPP:
            raise driver.Failure("this file system cannot punch holes into files, so its free space cannot be scattered")
        raise OSError(why, os.strerror(why), "punching a hole")


def room(folder, full):
    """How many bytes are missing until the file system is `full` per cent full, in whole steps; 0 if it is fuller."""
    st = os.statvfs(folder)
    have = (st.f_blocks - st.f_bavail) * st.f_frsize
    return max(0, int(st.f_blocks * st.f_frsize * full / 100) - have) // STEP * STEP


def used(folder):
    """Per cent of the file system that are taken; of a pool, as of its last transaction group."""
    st = os.statvfs(folder)
    return 100 * (1 - st.f_bavail / st.f_blocks)


class Bytes:
    """Incompressible bytes from a seed, cheaply: pieces of one block, each from another place."""

    def __init__(self, draw):
        self._block, self._draw = draw.randbytes(BLOCK), draw

    def __call__(self, length):
        at = self._draw.randrange(BLOCK - length)
        return self._block[at:at + length]

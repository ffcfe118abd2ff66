"""Fills a file system, and scatters its free space as after months of use.

One big file of incompressible bytes first takes more space than wanted. Then records of it, drawn at random, are punched out
until the file system is as full as wanted. A file system without holes (ENOTSUP) is refused.
"""

import ctypes
import errno
import os

from common import driver

ROLE = "ballast"
STEP = 1 << 20
# Bytes of random data that are generated once; each step takes another part of them.
BLOCK = 64 << 20
# Above this per cent, the file system refuses writes or waits for freed space.
MOST = 98
PUNCH_HOLE, KEEP_SIZE = 2, 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


def age(spec):
    """Fills to `full` per cent according to df; up to `holes` per cent of the file system are scattered in `piece`s."""
    path, draw = spec.path(ROLE) / "ballast", spec.random("ballast")
    full, piece = spec.get("full"), driver.size(spec.get("piece", "64K"))
    if not 0 <= full < MOST:
        raise driver.Failure(f"full = {full} must be from 0 to {MOST - 1} per cent: above that nothing can be overwritten")
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
    """Punches a hole into a file."""
    if _libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, offset, length) != 0:
        why = ctypes.get_errno()
        if why == errno.EOPNOTSUPP:
            raise driver.Failure("this file system does not support punching holes, so its free space cannot be scattered")
        raise OSError(why, os.strerror(why), "punching a hole")


def room(folder, full):
    """Returns the bytes missing until the file system is `full` per cent full, in whole steps; 0 if it is fuller."""
    st = os.statvfs(folder)
    have = (st.f_blocks - st.f_bavail) * st.f_frsize
    return max(0, int(st.f_blocks * st.f_frsize * full / 100) - have) // STEP * STEP


def used(folder):
    """Returns the per cent of the file system that are used; for a pool, as of its last transaction group."""
    st = os.statvfs(folder)
    return 100 * (1 - st.f_bavail / st.f_blocks)


class Bytes:
    """Generates incompressible bytes from a seed: pieces of one random block, each from another offset."""

    def __init__(self, draw):
        self._block, self._draw = draw.randbytes(BLOCK), draw

    def __call__(self, length):
        at = self._draw.randrange(BLOCK - length)
        return self._block[at:at + length]

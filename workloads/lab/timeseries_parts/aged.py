"""A file system that is filled and aged, so that its free space is as scattered as after months of use.

One big file of incompressible bytes takes the room, and then records of it, drawn at random, are written anew: each
leaves a hole of its size where it was. On a file system that overwrites in place nothing is scattered by that.
"""

import os

from common import driver

ROLE = "ballast"
STEP = 1 << 20
# Different for each step, and made once: 64M of random bytes, of which each step takes a part.
POOL = 64 << 20


def age(spec):
    """Fills to `full` per cent as df shows it, then writes a share `churn` of that anew, in pieces of `piece` bytes."""
    path = spec.path(ROLE) / "ballast"
    draw = spec.random("ballast")
    bytes_of = Bytes(draw)
    wanted = room(path.parent, spec.get("full"))
    piece, churn = driver.size(spec.get("piece", "64K")), spec.get("churn", 0.3)
    again = int(wanted * churn)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    with driver.Progress(wanted + again, "bytes") as progress:
        for at in range(0, wanted, STEP):
            os.pwrite(fd, bytes_of(STEP), at)
            progress.add(STEP)
        os.fsync(fd)
        for _ in range(again // piece):
            os.pwrite(fd, bytes_of(piece), draw.randrange(wanted // piece) * piece)
            progress.add(piece)
        os.fsync(fd)
    os.close(fd)
    driver.figure("full", used(path.parent), "percent")


def room(folder, full):
    """How many bytes are missing until the file system is `full` per cent full, in whole steps; 0 if it is fuller."""
    if not 0 <= full < 99:
        raise driver.Failure(f"full = {full} is not a per cent from 0 to 98: beyond that nothing can be overwritten")
    st = os.statvfs(folder)
    have = (st.f_blocks - st.f_bavail) * st.f_frsize
    return max(0, int(st.f_blocks * st.f_frsize * full / 100) - have) // STEP * STEP


def used(folder):
    st = os.statvfs(folder)
    return 100 * (1 - st.f_bavail / st.f_blocks)


class Bytes:
    """Incompressible bytes from a seed, cheaply: pieces of one block, each from another place."""

    def __init__(self, draw):
        self._block, self._draw = draw.randbytes(POOL), draw

    def __call__(self, length):
        at = self._draw.randrange(POOL - length)
        return self._block[at:at + length]

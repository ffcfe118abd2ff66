"""Compares `poolwright estimate --full` with the space that a kernel's OpenZFS allocated (part `space` of scripts/test-kernel.sh).

usage: space.py settings                     prints the settings: ashift, dataset, recordsize, compression
       space.py estimate PROGRAM DATA OUT    estimates every file below DATA with all settings, and writes OUT (JSON)
       space.py compare OUT WORK             compares OUT with the pools WORK/space9... that the kernel filled, and its WORK/space.tsv

`compare` reads the block pointers of the pools with zdb. It prints a table, and lines that start with "pass" or "fail". It fails if a file
differs by a byte at level 0, or a data set by more than 0.5 % in total. Only the levels 3 to 9 of gzip may differ at level 0: see
GZIP_CAUSE.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

SETTINGS = {
    9: ["4K lz4", "8K zstd-3", "16K gzip-6", "16K lzjb", "32K zstd-1", "64K gzip-1", "128K off", "128K zle", "128K zstd-3", "1M lz4"],
    12: ["4K off", "8K lz4", "8K zstd-3", "16K lz4", "16K gzip-6", "16K zstd-1", "32K lzjb", "64K zle", "64K zstd-9", "128K off",
         "128K lz4", "128K zstd-3", "128K gzip-6", "1M zstd-3"],
    13: ["16K lz4", "16K zle", "32K zstd-3", "64K gzip-6", "64K lzjb", "128K off", "128K lz4", "1M zstd-3"],
}
TOTAL_BAR = 0.5  # per cent
# Linux has a zlib 1.1.3, which from level 3 on may end a deflate block after every 4096 symbols (zlib_tr_tally in lib/zlib_deflate). The
# engine has the system's libz, which does not. Without these lines, the kernel's code gives libz's sizes.
GZIP_CAUSE = "the kernel's zlib"
UNITS = {"K": 1 << 10, "M": 1 << 20}
DVA = re.compile(r"\b\d+:[0-9a-f]+:([0-9a-f]+)\b")
BLOCK = re.compile(r"^\s*[0-9a-f]+\s+L(\d+)\s+(.*?)\s*[0-9a-f]+L/[0-9a-f]+P")


def size(text):
    return int(text[:-1]) * UNITS[text[-1]]


def settings():
    for ashift, pairs in SETTINGS.items():
        for pair in pairs:
            recordsize, compression = pair.split()
            yield ashift, f"{recordsize}-{compression}", recordsize, compression


def estimate(program, data, out):
    """Estimates each file with all recordsizes and codecs, and each data set for its entropy and ratio."""
    pairs = list(settings())
    recordsizes = ",".join(sorted({p[2] for p in pairs}, key=size))
    codecs = ",".join(sorted({p[3] for p in pairs}))
    ashifts = ",".join(str(a) for a in SETTINGS)

    def run(path, *options):
        found = subprocess.run([program, "estimate", path, "--full", "--json", *options], check=True, capture_output=True, text=True)
        found = json.loads(found.stdout)
        assert (found["method"], found["ended"], found["skipped"], found["changed"]) == ("full", "done", [], 0), found
        return found

    files, sets = {}, {}
    for path in sorted(p for p in Path(data).rglob("*") if p.is_file()):
        found = run(path, "-o", f"recordsize={recordsizes}", "-o", f"compression={codecs}", "--ashift", ashifts)
        files[str(path.relative_to(data))] = {
            f"{cell['recordsize']} {cell['compression']} {cell['ashift']}": (cell["allocated_bytes"], cell["total_bytes"])
            for cell in found["cells"]
        }
    for path in sorted(Path(data).iterdir()):
        found = run(path, "-o", "recordsize=128K", "-o", "compression=lz4,zstd-3", "--ashift", "12")
        ratios = {cell["compression"]: cell["ratio"] for cell in found["cells"]}
        sets[path.name] = {"files": found["files"], "bytes": found["logical_bytes"], "entropy": found["entropy_bits"], "ratios": ratios}
    Path(out).write_text(json.dumps({"files": files, "sets": sets}))


def allocated(pool, directory, dataset):
    """The bytes that each file of a dataset has at level 0 and in all, by its block pointers."""
    # Six d: with five, zdb prints one of the copies of a block only.
    text = subprocess.run(["zdb", "-e", "-p", directory, "-dddddd", f"{pool}/{dataset}"], capture_output=True, check=True)
    files, level0, total, path = {}, 0, 0, None
    for line in text.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith("    Object  lvl"):
            level0, total, path = 0, 0, None
        elif line.startswith("\tpath\t"):
            path = line.split("\t")[2].lstrip("/")
        elif (found := BLOCK.match(line)) and path is not None:
            bytes_ = sum(int(asize, 16) for asize in DVA.findall(found.group(2)))
            total += bytes_
            level0 += bytes_ if found.group(1) == "0" else 0
            files[path] = (level0, total)
    return files


def of_kernel(work):
    """What the guest wrote: the bytes of each file by its `stat`, and `referenced` of each dataset."""
    stats, referenced = defaultdict(dict), {}
    for line in (Path(work) / "space.tsv").read_text().splitlines():
        kind, dataset, *rest = line.split("\t")
        if kind == "dataset":
            referenced[dataset] = int(rest[0])
        else:
            stats[dataset][rest[0].removeprefix("./")] = int(rest[1]) * 512
    return stats, referenced


def verdict(compression, files_apart, total):
    """Whether a bar is missed, and the known cause of a difference at level 0."""
    by_zlib = re.fullmatch("gzip-[3-9]", compression) is not None
    missed = abs(total) > TOTAL_BAR or (files_apart > 0 and not by_zlib)
    cause = GZIP_CAUSE if by_zlib and files_apart else ""
    return missed, " ".join(filter(None, ["MISSED" if missed else "", cause]))


def compare_dataset(setting, found, stats, referenced, estimates):
    """Prints the rows of a dataset; returns the number of bars missed."""
    ashift, _, recordsize, compression = setting
    sums = defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    missed = 0
    for path, cells in estimates["files"].items():
        level0, total = found.get(path, (0, 0))
        expected0, expected = cells[f"{size(recordsize)} {compression} {ashift}"]
        row = sums[path.split("/")[0]]
        for n, value in enumerate((level0, expected0, total, expected, 1, level0 != expected0)):
            row[n] += value
        # `stat` counts the file's dnode (512 bytes) too.
        if stats[path] != total + 512:
            missed += 1
            print(f"fail\tashift={ashift} {recordsize} {compression} {path}: zdb counts {total} bytes, stat {stats[path] - 512}")
    for name, (level0, expected0, total, expected, files, other) in sums.items():
        apart, share = level0 - expected0, 100 * (total - expected) / expected if expected else 0.0
        over, note = verdict(compression, other, share)
        missed += over
        print(f"{ashift:6} {recordsize:>6} {compression:11} {name:11} {files:5} {expected0:11} {level0:11} {apart:9} {other:6} "
              f"{expected:11} {total:11} {share:+7.3f}  {note}")
    own = referenced - sum(row[2] for row in sums.values())
    print(f"{ashift:6} {recordsize:>6} {compression:11} referenced {referenced}, of which the file system's own objects {own}")
    return missed


def compare(out, work):
    estimates = json.loads(Path(out).read_text())
    stats, referenced = of_kernel(work)
    for name, of in estimates["sets"].items():
        ratios = ", ".join(f"{codec} {ratio:.2f}" for codec, ratio in of["ratios"].items())
        print(f"data set {name}: {of['files']} files, {of['bytes']} bytes, entropy {of['entropy']:.2f} bits/byte, ratio at 128K: {ratios}")
    print("ashift record compression data set    files  level 0:            kernel     apart  files  total:           kernel")
    print("                                             estimate                            apart  estimate                    apart, %")
    with tempfile.TemporaryDirectory(dir=work) as directory:
        for ashift in SETTINGS:
            os.link(f"{work}/space{ashift}", f"{directory}/pool")
            for setting in (s for s in settings() if s[0] == ashift):
                dataset = f"space{ashift}/{setting[1]}"
                if dataset not in referenced:
                    print(f"fail\t{dataset}: the kernel did not fill it")
                    continue
                found = allocated(f"space{ashift}", directory, setting[1])
                missed = compare_dataset(setting, found, stats[dataset], referenced[dataset], estimates)
                title = f"ashift={ashift} recordsize={setting[2]} compression={setting[3]}"
                print(f"fail\t{title}: {missed} bars missed" if missed else f"pass\t{title}")
            os.unlink(f"{directory}/pool")


def main():
    commands = {"settings": (settings, 0), "estimate": (estimate, 3), "compare": (compare, 2)}
    command, count = commands.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if command is None or len(sys.argv) != 2 + count:
        print(__doc__, file=sys.stderr)
        return 2
    if command is settings:
        for row in settings():
            print(*row, sep="\t")
    else:
        command(*sys.argv[2:])
    return 0


if __name__ == "__main__":
    sys.exit(main())

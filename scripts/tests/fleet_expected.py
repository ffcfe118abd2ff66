"""Computes the answers to the questions of queries/fleet from events, one event at a time, by the definitions in docs/fleet.md.

Shares no code with the queries. A value that a query rounds is [value, digits].
"""

from collections import defaultdict

TXG_NS, SLACK, DEFAULT = 5 * 10**9, 0.1, 131072
CANDIDATES = [4096 << i for i in range(9)]
NAMES = {4096: "4k", 8192: "8k", 16384: "16k", 32768: "32k", 65536: "64k", 131072: "128k", 262144: "256k", 524288: "512k", 1 << 20: "1m"}


def share(part, whole, digits=4):
    return [part / whole if whole else None, digits]


class FileFigures:
    """The figures of one file of a trace."""

    def __init__(self, trace, number):
        entry = trace["files"][number]
        self.path, self.role = entry["path"], entry["role"] or "unknown"
        self.mount, self.recordsize, self.compression, self.logbias = "", DEFAULT, "", ""
        self.recorded = False
        for mount, recordsize, compression, logbias in (trace["datasets"] or ([], 0))[0]:
            below = mount == "/" or self.path[:len(mount) + 1] == mount + "/"
            if mount[0] == "/" and below and len(mount) > len(self.mount):
                self.mount, self.recordsize, self.compression, self.logbias, self.recorded = mount, recordsize, compression, logbias, True
        self.events = [event for event in trace["events"] if event["file"] == number]
        self.syncs = [event for event in self.events if event["op"] in ("fsync", "fdatasync")]
        self.moves = sorted((event for event in self.events if event["op"] in ("read", "write")), key=lambda event: (event["t_ns"], event["offset"]))
        self.size = max([entry["size"], *(event["offset"] + event["len"] for event in self.moves)])
        last, ends = max([event["t_ns"] for event in self.syncs], default=-1), {}
        for event in self.moves:
            stream = event["tid"], event["op"]
            event["sequential"] = ends.get(stream) == event["offset"]
            ends[stream] = event["offset"] + event["len"]
            event["synced"] = event["op"] == "write" and (bool(event["flags"] & 2) or event["t_ns"] < last)
        self.reads = [event for event in self.moves if event["op"] == "read"]
        self.writes = [event for event in self.moves if event["op"] == "write"]
        self.flagged = sum(1 for event in self.writes if event["flags"] & 2)
        self.synced = [event for event in self.writes if event["synced"]]
        self.read_bytes, self.write_bytes = total(self.reads), total(self.writes)
        self.blocks = {op: touched(events, 131072) for op, events in (("read", self.reads), ("write", self.writes))}
        self.costs = {r: self.cost(r) for r in sorted({*CANDIDATES, self.recordsize})} if self.moves else {}

    def cost(self, r):
        """(bytes of records written, of indirect blocks, of records loaded once, loaded once in an interval)."""
        written, loaded = set(), set()
        for event in self.moves:
            interval = event["t_ns"] // TXG_NS
            for record in records(event, r):
                if event["op"] == "write":
                    written.add((interval, record))
                whole = event["offset"] <= record * r and event["offset"] + event["len"] >= (record + 1) * r
                if event["op"] == "read" or not event["sequential"] and not whole:
                    loaded.add((interval, record))
        block, indirect = r, 2 * max(4096, 32 * min(1024, -(-self.size // r)))
        if self.size <= r:
            block, indirect = -(-self.size // 512) * 512, 0
        groups = {(interval, record // 1024) for interval, record in written}
        return len(written) * block, len(groups) * indirect, len({record for _, record in loaded}) * block, len(loaded) * block

    def alignment(self, events):
        fits = [r for r in self.costs if events and sum(e["offset"] % r == 0 and e["len"] % r == 0 for e in events) >= 0.99 * len(events)]
        return max(fits, default=0)


def total(events):
    return sum(event["len"] for event in events)


def records(event, r):
    return range(event["offset"] // r, -(-(event["offset"] + event["len"]) // r)) if event["len"] else ()


def touched(events, r):
    return {record for event in events for record in records(event, r)}


def best_of(costs, present):
    """The recordsize that the rule of docs/fleet.md chooses. costs: recordsize -> cost."""
    good = [r for r, cost in costs.items() if cost <= min(costs.values()) * (1 + SLACK)]
    return present if present in good else max(good)


def cost_sum(cost):
    return cost[0] + cost[1] + cost[2]


def answers(traces):
    figures = []
    for trace in traces:
        numbers = sorted({event["file"] for event in trace["events"]})
        figures.append((trace, [FileFigures(trace, number) for number in numbers]))
    databases = defaultdict(list)
    for trace, files in figures:
        databases[trace["host"], trace["subject"]].append((trace, files))
    gain = ranked([gain_of(*key, recordings) for key, recordings in databases.items()])
    return {
        "fleet_inventory": [inventory(trace, files) for trace, files in figures],
        "fleet_recordsize": [recordsize(trace, file) for trace, files in figures for file in files if file.moves],
        "fleet_gain": gain, "fleet_gain_total": [gain_total(gain)],
        "fleet_sync": [row for key, recordings in databases.items() for row in sync(*key, recordings)],
        "fleet_mix": [mix(*key, recordings) for key, recordings in databases.items()],
    }


def inventory(trace, files):
    writes = sum(len(file.writes) for file in files)
    return dict(host=trace["host"], date=trace["date"], database=trace["subject"], duration_s=float(trace["duration_s"]),
                events=len(trace["events"]), lost_events=trace["lost"], unseen=sum(n for _, n in trace["unseen"]),
                reads=sum(len(file.reads) for file in files), writes=writes, syncs=sum(len(file.syncs) for file in files),
                read_bytes=sum(file.read_bytes for file in files), write_bytes=sum(file.write_bytes for file in files),
                synced_share=share(sum(len(file.synced) for file in files), writes), files=len(files),
                recordsizes=",".join(sorted({str(file.recordsize) for file in files if file.recorded})),
                compressions=",".join(sorted({file.compression for file in files if file.recorded})))


def recordsize(trace, file):
    best = best_of({r: cost_sum(cost) for r, cost in file.costs.items()}, file.recordsize)
    present, chosen = file.costs[file.recordsize], file.costs[best]
    writes, wb, rb = len(file.writes), file.write_bytes, file.read_bytes

    def up_to(size):
        return share(sum(event["len"] <= size for event in file.writes), writes)

    partial = sum(event["len"] < file.recordsize and not event["sequential"] for event in file.writes if event["len"])
    row = dict(host=trace["host"], date=trace["date"], database=trace["subject"], role=file.role, path=file.path, recordsize=file.recordsize,
               recorded=file.recorded, best_recordsize=best, writes=writes, write_bytes=wb, reads=len(file.reads), read_bytes=rb,
               mean_write=share(wb, writes, 0), mean_read=share(rb, len(file.reads), 0), writes_4k=up_to(4096), writes_16k=up_to(16384),
               writes_128k=up_to(131072), write_alignment=file.alignment([e for e in file.writes]), read_alignment=file.alignment(file.reads),
               partial_share=share(partial, writes), write_amp=share(present[0] + present[1], wb, 2),
               best_write_amp=share(chosen[0] + chosen[1], wb, 2), read_amp=share(present[3], rb, 2), best_read_amp=share(chosen[3], rb, 2),
               excess_bytes=cost_sum(present) - cost_sum(chosen))
    return row | {f"wa_{name}": share(file.costs[r][0], wb, 2) for r, name in NAMES.items()}


def gain_of(host, database, recordings):
    groups = defaultdict(list)
    for _, files in recordings:
        for file in files:
            if file.costs:
                groups[file.role, file.mount, file.recordsize].append(file)
    sums, changes, assumed = [0, 0, 0, 0], [], False
    for (role, _, present), files in sorted(groups.items()):
        costs = {r: [sum(file.costs[r][i] for file in files) for i in range(3)] for r in files[0].costs}
        best = best_of({r: sum(cost) for r, cost in costs.items()}, present)
        if best != present:
            changes.append(f"{role}:{present}>{best}")
            assumed |= not all(file.recorded for file in files)
        for at, r in enumerate((present, best)):
            sums[at] += costs[r][0] + costs[r][1]
            sums[2 + at] += costs[r][2]
    seconds = float(sum(trace["duration_s"] for trace, _ in recordings))
    saved = sums[0] - sums[1], sums[2] - sums[3]
    return dict(host=host, database=database, traces=len(recordings), duration_s=seconds, changes=" ".join(changes), assumed=assumed,
                write_bytes=sum(file.write_bytes for _, files in recordings for file in files),
                read_bytes=sum(file.read_bytes for _, files in recordings for file in files),
                present_write_bytes=sums[0], best_write_bytes=sums[1], present_load_bytes=sums[2], best_load_bytes=sums[3],
                saved_write_bytes=saved[0], saved_load_bytes=saved[1], saved_bytes_s=[sum(saved) / seconds, 0],
                saved_share=share(sum(saved), sums[0] + sums[2]))


def ranked(rows):
    rows.sort(key=lambda row: (-row["saved_bytes_s"][0], row["host"], row["database"]))
    return [row | dict(rank=at + 1) for at, row in enumerate(rows)]


def gain_total(gain):
    names = ["traces", "write_bytes", "read_bytes", "present_write_bytes", "best_write_bytes", "present_load_bytes", "best_load_bytes",
             "saved_write_bytes", "saved_load_bytes"]
    sums = {name: sum(row[name] for row in gain) for name in names}
    saved, present = sums["saved_write_bytes"] + sums["saved_load_bytes"], sums["present_write_bytes"] + sums["present_load_bytes"]
    return sums | dict(databases=len(gain), databases_with_changes=sum(row["changes"] != "" for row in gain),
                       duration_s=float(sum(row["duration_s"] for row in gain)), saved_share=share(saved, present))


def sync(host, database, recordings):
    seconds = float(sum(trace["duration_s"] for trace, _ in recordings))
    roles = defaultdict(list)
    for _, files in recordings:
        for file in files:
            roles[file.role].append(file)
    for role, files in roles.items():
        calls = [event["dur_ns"] for file in files for event in file.syncs]
        flagged = sum(file.flagged for file in files)
        synced = [event for file in files for event in file.synced]
        commits, synced_bytes = len(calls) + flagged, total(synced)
        if not commits:
            continue
        each = synced_bytes / commits
        candidate = ""
        if commits / seconds >= 50 and each < 65536:
            candidate = "slog"
        elif each >= 65536 and synced_bytes / seconds >= 1 << 20:
            candidate = "logbias"
        yield dict(host=host, database=database, role=role, logbias=",".join(sorted({file.logbias for file in files} - {""})), duration_s=seconds,
                   syncs_s=[len(calls) / seconds, 3], flagged_writes_s=[flagged / seconds, 3], commits_s=[commits / seconds, 3],
                   synced_writes=len(synced), synced_bytes=synced_bytes, synced_share=share(len(synced), sum(len(file.writes) for file in files)),
                   small_share=share(sum(event["len"] < 32768 for event in synced), len(synced)), bytes_per_commit=[each, 0],
                   log_bytes_s=[-(-(each + 192) // 4096) * 4096 * commits / seconds, 0], sync_wait_share=[sum(calls) / 1e9 / seconds, 4],
                   mean_sync_ms=[sum(calls) / 1e6 / len(calls) if calls else None, 3], max_sync_ms=[max(calls, default=0) / 1e6, 3],
                   candidate=candidate)


def mix(host, database, recordings):
    seconds = float(sum(trace["duration_s"] for trace, _ in recordings))
    files = [file for _, of_trace in recordings for file in of_trace]
    reads, writes = [event for file in files for event in file.reads], [event for file in files for event in file.writes]
    rb, wb = total(reads), total(writes)

    def largest(size):
        return max(sum(size(file) for file in of_trace) for _, of_trace in recordings)

    datasets = recordings[0][0]["datasets"]
    arc = datasets[1] if datasets else None
    working_set = largest(lambda file: len(file.blocks["read"] | file.blocks["write"])) * 131072
    return dict(host=host, database=database, duration_s=seconds, reads_s=[len(reads) / seconds, 3], writes_s=[len(writes) / seconds, 3],
                read_bytes_s=[rb / seconds, 0], write_bytes_s=[wb / seconds, 0], read_share=share(len(reads), len(reads) + len(writes)),
                read_byte_share=share(rb, rb + wb), sequential_reads=share(sum(e["sequential"] for e in reads), len(reads)),
                sequential_writes=share(sum(e["sequential"] for e in writes), len(writes)),
                read_set_bytes=largest(lambda file: len(file.blocks["read"])) * 131072,
                write_set_bytes=largest(lambda file: len(file.blocks["write"])) * 131072, working_set_bytes=working_set,
                file_bytes=largest(lambda file: file.size), arc_bytes=arc, arc_ratio=[working_set / arc if arc else None, 4])

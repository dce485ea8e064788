#!/usr/bin/env python3
"""Times `fourtuple track` beside other tools that read a capture and keep flows, on the same file.

Usage: bench_flow_tools.py [CAPTURE] [--fourtuple PATH] [--rounds N] [--core N] [--only TOOL]... [--json FILE]

Each tool runs on one core, alone, with the file in the page cache, once a round; the rounds' order turns, so that
no tool always runs first. Without CAPTURE a file of 1 GiB is made (once) with the workspace's own generator. What is
compared is the whole program, from start to exit: read, decode, track, and write what it writes by default. Where
the CPU seconds are far below the seconds, something else ran on the core, or the tool slept. Tools that are not
installed are named and left out. Linux, Python 3.9, standard library only, and GNU time (Debian package time).

Debian packages of the peers: tcpdump softflowd nfdump (for nfpcapd) argus-server tshark.
"""

import argparse
import json
import mmap
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MIB = 1024 * 1024
TIME = "/usr/bin/time"


@dataclass
class Tool:
    """One line of the table: how to call a program, and how to know that it read the file."""

    name: str
    program: str
    # The arguments after the program's name. {file}: the capture; {dir}: an empty folder; {sink}: host:port that takes
    # UDP datagrams and never answers.
    words: tuple
    version: tuple
    # What the tool prints about how many packets it has read; the groups' sum must be the file's packets.
    proof: str = ""
    # True if it prints a line for each flow, too: keeping them would be timed, so one run more, not timed, is the proof.
    proof_apart: bool = False
    # What a reader must know to compare its figures fairly.
    note: str = ""
    seconds: list = field(default_factory=list)
    cpu: list = field(default_factory=list)
    peak: list = field(default_factory=list)
    fault: str = ""


def tools(fourtuple):
    """The programs, in the table's order. The first is what the others are compared with."""
    track = ("track", "--format")
    return [
        Tool("fourtuple track, ndjson", fourtuple, (*track, "ndjson", "{file}"), ("--version",),
             proof=r'^\{"summary":\{"packets":(\d+),', proof_apart=True),
        Tool("fourtuple track, text", fourtuple, (*track, "text", "{file}"), ("--version",),
             proof=r"^Capture\n +([\d,]+) packets$", proof_apart=True),
        # No tracking: what it costs to read and write the records, a lower bound for all that use libpcap.
        Tool("tcpdump (copy only)", "tcpdump", ("-r", "{file}", "-w", "/dev/null"), ("--version",)),
        # -m: its default of 8192 flows would throw flows out early; -6: IPv6 whatever the export format.
        Tool("softflowd", "softflowd", ("-d", "-6", "-m", "4000000", "-v", "9", "-n", "{sink}", "-p", "{dir}/pid",
                                        "-c", "{dir}/ctl", "-r", "{file}"), ("-h",),
             proof=r"Packets processed: (\d+)[\s\S]*Ignored packets: (\d+)"),
        Tool("nfpcapd", "nfpcapd", ("-r", "{file}", "-w", "{dir}"), ("-V",),
             proof=r"Processed: (\d+), skipped: (\d+)"),
        # -X: no configuration file of this machine.
        Tool("argus", "argus", ("-X", "-r", "{file}", "-w", "/dev/null"), ("-h",),
             note="sleeps whole seconds on its own timers, even for a tiny file; its CPU seconds are the fair figure"),
        Tool("tshark conv", "tshark", ("-q", "-n", "-z", "conv,udp", "-z", "conv,tcp", "-r", "{file}"), ("--version",)),
    ]


def count_packets(path):
    """The records of a pcap or the packet blocks of a pcapng file."""
    with open(path, "rb") as file:
        head = file.read(4)
        if head in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d"):
            return count_pcap(file, "little" if head[0] in (0xD4, 0x4D) else "big")
        if head == b"\x0a\x0d\x0d\x0a":
            return count_pcapng(file)
    raise SystemExit(f"{path}: neither pcap nor pcapng (a compressed file must be unpacked first)")


def count_pcap(file, order):
    """Walks the record headers of a pcap file."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place, packets, size = 24, 0, len(data)
        while place + 16 <= size:
            place += 16 + int.from_bytes(data[place + 8:place + 12], order)
            packets += 1
    return packets


def count_pcapng(file):
    """Walks the block headers of a pcapng file; each section has its own byte order."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place, packets, size, order = 0, 0, len(data), "little"
        while place + 12 <= size:
            if data[place:place + 4] == b"\x0a\x0d\x0d\x0a":
                order = "little" if data[place + 8:place + 12] == b"\x4d\x3c\x2b\x1a" else "big"
            length = int.from_bytes(data[place + 4:place + 8], order)
            if length < 12:
                raise SystemExit(f"{file.name}: a block of {length} bytes at offset {place}")
            packets += int.from_bytes(data[place:place + 4], order) in (2, 3, 6)
            place += length
    return packets


def make_capture():
    """Makes the default capture with the workspace's generator, once. Returns its path."""
    path = ROOT / "target" / "bench" / "flows-1GiB.pcap"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".pcap.tmp")
        subprocess.run(["cargo", "run", "--release", "-p", "fourtuple-bench", "--example", "make_capture", "--",
                        "--size", "1GiB", str(part)], cwd=ROOT, check=True)
        part.rename(path)
    return path


def into_page_cache(path):
    """Reads the file once, so that no tool waits for the disk."""
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


def run(tool, capture, packets, core, sink, limit):
    """One timed run; a tool that fails, or says that it read another number of packets, is out for good."""
    with tempfile.TemporaryDirectory(prefix="bench-flow-") as folder:
        said = Path(folder) / "said"
        work = Path(folder) / "work"
        work.mkdir()
        values = {"file": str(capture), "dir": str(work), "sink": sink}
        # GNU time in between, for the peak: a child's own figure starts with that of the process that forked it, and
        # this interpreter is larger than some of the tools.
        measured = Path(folder) / "measured"
        words = [TIME, "-q", "-f", "%M %U %S", "-o", measured, tool.program,
                 *(word.format(**values) for word in tool.words)]
        # A tool whose text is needed as proof writes a few lines; all else goes where `>/dev/null` would send it.
        with open(said, "wb") as log, open(os.devnull, "wb") as null:
            start = time.perf_counter()
            keep = tool.proof and not tool.proof_apart
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log if keep else null, stderr=log,
                                       start_new_session=True, preexec_fn=lambda: os.sched_setaffinity(0, {core}))
            status = wait(process, limit)
            seconds = time.perf_counter() - start
        text = said.read_text(errors="replace")
        peak, user, system = map(float, measured.read_text().split()) if status == 0 else (0, 0, 0)
    if status is None:
        tool.fault = f"stopped after {limit} s"
    elif status != 0:
        tool.fault = f"exit status {status}: {' '.join(text.split()[-30:])}"
    elif keep and (read := proven(tool, text)) != packets:
        tool.fault = f"says that it read {read} packets of {packets}"
    else:
        tool.seconds.append(seconds)
        tool.cpu.append(user + system)
        tool.peak.append(peak / 1024)


def proven(tool, text):
    """How many packets the tool says that it has read, or None."""
    found = re.search(tool.proof, text, re.MULTILINE)
    return sum(int(group.replace(",", "")) for group in found.groups()) if found else None


def prove(tool, capture, packets, limit):
    """A run that is not timed, for a tool that tells at the end of much text how many packets it has read."""
    words = [tool.program, *(word.format(file=str(capture)) for word in tool.words)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                                   start_new_session=True)
        end = b""
        timer = threading.Timer(limit, lambda: os.killpg(process.pid, signal.SIGKILL))
        timer.start()
        try:
            while part := process.stdout.read(MIB):
                end = (end + part)[-MIB:]
            status = process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()
            process.stdout.close()
        log.seek(0)
        said = log.read().decode(errors="replace")
    if status == -signal.SIGKILL:
        tool.fault = f"stopped after {limit} s"
    elif status != 0:
        tool.fault = f"exit status {status}: {' '.join(said.split()[-30:])}"
    elif (read := proven(tool, end.decode(errors="replace"))) != packets:
        tool.fault = f"says that it read {read} packets of {packets}"


def wait(process, limit):
    """Waits for a child; the status is None if it had to be stopped."""
    # Not Popen.wait(timeout): that polls, and a late look would be counted as the tool's time.
    late = threading.Event()

    def stop():
        late.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(limit, stop)
    timer.start()
    try:
        status = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    finally:
        timer.cancel()
    return None if late.is_set() else status


def version(tool):
    """The first line in what a tool says of itself that has a version number in it."""
    done = subprocess.run([tool.program, *tool.version], check=False, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = re.search(r"\b\d+\.\d+(\.\d+)*\S*", done.stdout)
    return found.group().rstrip(".)") if found else "unknown"


def machine(core):
    """Processor, core, kernel."""
    info = Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    return {"cpu": found.group(1) if found else platform.machine(), "cores": os.cpu_count(), "core": core,
            "kernel": f"{platform.system()} {platform.release()} {platform.machine()}"}


def summary(tool, packets, ours, copy):
    """A tool's figures: a dictionary as it goes into the JSON."""
    middle = statistics.median(tool.seconds)
    return {"tool": tool.name, "command": [Path(tool.program).name, *tool.words], "version": version(tool),
            "note": tool.note,
            "seconds": {"median": middle, "min": min(tool.seconds), "max": max(tool.seconds), "all": tool.seconds},
            "cpu_seconds_median": statistics.median(tool.cpu),
            "million_packets_per_second": packets / middle / 1e6, "peak_mib": max(tool.peak),
            "times_fourtuple": middle / ours if ours else None, "times_tcpdump": middle / copy if copy else None}


def report(options, capture, packets, line):
    """All figures of a run."""
    by_name = {tool.name: tool for tool in line}
    def median(name):
        # Both ratios are of medians of whole-program times; above 1 is slower than the tool in the column's name.
        tool = by_name.get(name)
        return statistics.median(tool.seconds) if tool and tool.seconds else None

    ours, copy = median("fourtuple track, ndjson"), median("tcpdump (copy only)")
    return {"machine": machine(options.core), "capture": {"name": capture.name, "bytes": capture.stat().st_size,
                                                          "packets": packets},
            "rounds": options.rounds, "left_out": {tool.name: tool.fault for tool in line if tool.fault},
            "tools": [summary(tool, packets, ours, copy) for tool in line if tool.seconds and not tool.fault]}


def markdown(figures):
    """The report as Markdown."""
    box, capture = figures["machine"], figures["capture"]
    heads = ("Tool", "Seconds, median (min-max)", "CPU seconds", "Million packets/s", "Peak MiB", "Time / fourtuple",
             "Time / tcpdump")
    rows = [f"| {' | '.join(heads)} |", "|---|---:|---:|---:|---:|---:|---:|"]
    for one in figures["tools"]:
        took = one["seconds"]
        cells = [one["tool"], f"{took['median']:.3f} ({took['min']:.3f}-{took['max']:.3f})",
                 f"{one['cpu_seconds_median']:.2f}", f"{one['million_packets_per_second']:.2f}",
                 f"{one['peak_mib']:.0f}"]
        cells += (f"{one[key]:.2f}" if one[key] else "-" for key in ("times_fourtuple", "times_tcpdump"))
        rows.append(f"| {' | '.join(cells)} |")
    versions = {one["command"][0]: one["version"] for one in figures["tools"]}
    rows += ["", f"{capture['name']}: {capture['packets']:,} packets, {capture['bytes'] / MIB:,.0f} MiB, in the page "
             f"cache; interleaved rounds: {figures['rounds']}; each alone on core {box['core']} of {box['cores']}.",
             "; ".join([box["cpu"], box["kernel"], *(f"{name} {number}" for name, number in versions.items())]) + "."]
    rows += [f"{one['tool']}: {one['note']}." for one in figures["tools"] if one["note"]]
    rows += [f"Left out: {name}: {why}." for name, why in figures["left_out"].items()]
    return "\n".join(rows)


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("capture", nargs="?", type=Path, help="a pcap or pcapng file, not compressed")
    parser.add_argument("--fourtuple", default=str(ROOT / "target" / "release" / "fourtuple"), metavar="PATH")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)), metavar="N",
                        help="the core that the tools run on (default: the last that this process may use)")
    parser.add_argument("--only", action="append", metavar="TOOL",
                        help="the tools whose name has this in it; repeatable")
    parser.add_argument("--timeout", type=float, default=1800, metavar="SECONDS", help="for one run of one tool")
    parser.add_argument("--json", metavar="FILE", help="write all figures there too; - for standard output alone")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.core not in os.sched_getaffinity(0):
        parser.error(f"core {options.core} is not one of {sorted(os.sched_getaffinity(0))}")
    return options


def main():
    """Runs the rounds and prints the table. Exit status 1: a tool that is installed failed, or none was left."""
    options = arguments()
    capture = options.capture or make_capture()
    if not capture.is_file():
        raise SystemExit(f"{capture}: no such file")
    if not os.access(TIME, os.X_OK):
        raise SystemExit(f"{TIME} is not installed (Debian package: time)")
    line = [tool for tool in tools(options.fourtuple)
            if not options.only or any(part in tool.name for part in options.only)]
    for tool in line:
        if not shutil.which(tool.program):
            tool.fault = "not installed" if "/" not in tool.program else "not built"
    missing = {tool.name for tool in line if tool.fault}
    packets = count_packets(capture)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        # Bound and never read: datagrams vanish when its buffer is full, and nobody answers that the port is closed.
        sink.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{sink.getsockname()[1]}"
        for tool in line:
            if tool.proof_apart and not tool.fault:
                prove(tool, capture, packets, options.timeout)
        for number in range(options.rounds):
            into_page_cache(capture)
            turn = number % max(1, len(line))
            for tool in line[turn:] + line[:turn]:
                if tool.fault:
                    continue
                if sys.stderr.isatty():
                    print(f"round {number + 1}/{options.rounds}: {tool.name}", file=sys.stderr)
                run(tool, capture, packets, options.core, address, options.timeout)
    figures = report(options, capture, packets, line)
    if options.json:
        text = json.dumps(figures, indent=2) + "\n"
        sys.stdout.write(text) if options.json == "-" else Path(options.json).write_text(text)
    if options.json != "-":
        print(markdown(figures))
    failed = any(tool.fault and tool.name not in missing for tool in line)
    return 1 if failed or not figures["tools"] else 0


if __name__ == "__main__":
    sys.exit(main())

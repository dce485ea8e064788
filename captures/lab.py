"""Network namespaces, wires and recorders for record.py.

Everything that a Lab makes (namespaces, the veth pairs inside, processes, its temporary folder) is gone when its
`with` block ends, whatever ended it. Nothing is made in the namespace that the script itself runs in except the
names of the namespaces, which carry the script's process number.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

# The three networks that RFC 5737 sets aside for documentation; IPv6 is 2001:db8:N::/64 (RFC 3849).
NET4 = {1: "192.0.2", 2: "198.51.100", 3: "203.0.113"}
PLAYERS = str(Path(__file__).with_name("players.py"))

# A namespace starts quiet: no router solicitations, no duplicate address detection, no ICMP rate limits.
SYSCTLS = (
    "net.ipv6.conf.default.accept_ra=0",
    "net.ipv6.conf.default.accept_dad=0",
    "net.ipv6.conf.default.router_solicitations=0",
    "net.ipv4.conf.default.rp_filter=0",
    "net.ipv4.conf.all.rp_filter=0",
    "net.ipv4.icmp_ratelimit=0",
    "net.ipv6.icmp.ratelimit=0",
)
# Whatever a card would do after the tap has seen the packet: checksums, cutting, gluing together.
OFFLOADS = ("tx", "rx", "sg", "tso", "gso", "gro", "tx-udp-segmentation")


def v4(net, host):
    """The IPv4 address of host number `host` in network `net`."""
    return f"{NET4[net]}.{host}"


def v6(net, host):
    """The IPv6 address of host number `host` in network `net`."""
    return f"2001:db8:{net}::{host:x}"


class Lab:
    """A set of namespaces with wires between them, and the processes that run there."""

    def __init__(self):
        self.nodes = []
        self.running = []
        self._folder = tempfile.TemporaryDirectory(prefix="fourtuple-record-")
        self.tmp = Path(self._folder.name)
        self.wires = 0

    def __enter__(self):
        return self

    def __exit__(self, *_exc):
        # A second signal must not cut the clean-up short.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            for process in reversed(self.running):
                stop(process)
            for node in self.nodes:
                subprocess.run(["ip", "netns", "del", node], check=False)
            self._folder.cleanup()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)

    def name(self, node):
        """The namespace's name as `ip netns` knows it."""
        return f"ft{os.getpid()}-{node}"

    def node(self, node, forward=False):
        """Makes a namespace; `forward` makes it a router."""
        name = self.name(node)
        subprocess.run(["ip", "netns", "add", name], check=True)
        self.nodes.append(name)
        extra = ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1") if forward else ()
        self.run(node, "sysctl", "-q", "-w", *SYSCTLS, *extra)
        self.run(node, "ip", "link", "set", "lo", "up")

    def wire(self, a, b, mtu=1500):
        """A veth pair; its ends are called after the node at the other end. Returns the two device names."""
        self.wires += 1
        ends = ((a, f"to-{b}"), (b, f"to-{a}"))
        subprocess.run(
            ["ip", "link", "add", ends[0][1], "netns", self.name(a), "type", "veth",
             "peer", "name", ends[1][1], "netns", self.name(b)], check=True)
        for number, (node, device) in enumerate(ends, 1):
            self.run(node, "ip", "link", "set", device, "address", f"02:00:00:00:{self.wires:02x}:{number:02x}",
                     "mtu", str(mtu))
            settings = [word for name in OFFLOADS for word in (name, "off")]
            self.run(node, "ethtool", "-K", device, *settings, quiet=True)
            self.run(node, "ip", "link", "set", device, "up")
        return ends[0][1], ends[1][1]

    def address(self, node, device, net, host):
        """Gives a device its IPv4 and IPv6 address."""
        self.run(node, "ip", "addr", "add", f"{v4(net, host)}/24", "dev", device)
        self.run(node, "ip", "-6", "addr", "add", f"{v6(net, host)}/64", "dev", device, "nodad")

    def default(self, node, net, host):
        """Sends all else that `node` has through host `host` of network `net`."""
        self.run(node, "ip", "route", "add", "default", "via", v4(net, host))
        self.run(node, "ip", "-6", "route", "add", "default", "via", v6(net, host))

    def command(self, node, *words):
        """The command line that runs `words` inside a node."""
        return ["ip", "netns", "exec", self.name(node), *map(str, words)]

    def run(self, node, *words, quiet=False, ok=(0,), env=None):
        """Runs a program inside a node to its end; another exit status than `ok` is an error."""
        done = subprocess.run(self.command(node, *words), check=False, text=True, errors="replace",
                              env={**os.environ, **(env or {})},
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        if ok is not None and done.returncode not in ok:
            raise RuntimeError(f"{node}: {' '.join(map(str, words))}: exit status {done.returncode}\n{done.stderr}")
        if done.stderr and not quiet and ok == (0,):
            print(done.stderr, end="", file=sys.stderr)
        return done.stdout

    def start(self, node, *words, cwd=None, env=None):
        """Starts a program inside a node; it ends with the lab at the latest."""
        log = open(self.tmp / f"log-{len(self.running)}", "wb")
        with log:
            process = subprocess.Popen(self.command(node, *words), cwd=cwd, stdin=subprocess.DEVNULL,
                                       env={**os.environ, **(env or {})}, stdout=log, stderr=log,
                                       start_new_session=True)
        process.log = Path(log.name)
        self.running.append(process)
        return process

    def player(self, node, *words):
        """Runs one of players.py's programs to its end."""
        return self.run(node, sys.executable, PLAYERS, *words)

    def start_player(self, node, *words):
        """Starts one of players.py's programs."""
        return self.start(node, sys.executable, PLAYERS, *words)

    def wait_port(self, node, kind, port):
        """Waits until something in `node` listens on a port; `kind` is tcp or udp."""
        flag = {"tcp": "-Hltn", "udp": "-Hlun"}[kind]
        for _ in range(100):
            if self.run(node, "ss", flag, "sport", "=", f":{port}"):
                return
            time.sleep(0.05)
        logs = "".join(process.log.read_text(errors="replace") for process in self.running)
        raise RuntimeError(f"{node}: nothing listens on {kind} port {port}\n{logs}")

    def wait_said(self, process, text):
        """Waits until a started program has printed `text`."""
        for _ in range(200):
            if text in process.log.read_text(errors="replace"):
                return
            if process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{' '.join(map(str, process.args[4:]))}: never said {text!r}:\n"
                           f"{process.log.read_text(errors='replace')}")

    def record(self, node, device, file, match=None, nano=False):
        """Starts to record what passes `device`: dumpcap for a name in .pcapng, tcpdump otherwise."""
        if file.endswith(".pcapng"):
            words = ["dumpcap", "-q", "-i", device, "-w", self.tmp / file, *(("-f", match) if match else ())]
            ready = "File: "
        else:
            words = ["tcpdump", "-U", "--immediate-mode", "-n", "-s", "0", "-Z", "root", "-i", device,
                     *(("--time-stamp-precision=nano",) if nano else ()), "-w", self.tmp / file,
                     *((match,) if match else ())]
            ready = "listening on"
        process = self.start(node, *words)
        self.wait_said(process, ready)
        time.sleep(0.1)
        return Recorder(process, self.tmp / file)


class Recorder:
    """A running tcpdump or dumpcap."""

    def __init__(self, process, path):
        self.process = process
        self.path = path

    def finish(self, settle=0.4):
        """Lets the last packets come in, stops, and refuses a capture with holes. Returns the file's path."""
        time.sleep(settle)
        stop(self.process, signal.SIGINT)
        said = self.process.log.read_text(errors="replace")
        lost = [int(number) for number in re.findall(r"(\d+) packets dropped", said)]
        lost += [int(number) for number in re.findall(r"received/dropped[^:]*: \d+/(\d+)", said)]
        if not lost or any(lost):
            raise RuntimeError(f"{self.path.name}: packets lost while recording, or the recorder failed:\n{said}")
        return self.path


def stop(process, sign=signal.SIGTERM):
    """Ends a process that a Lab started, with all that it started itself."""
    if process.poll() is None:
        os.killpg(process.pid, sign)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()

#!/usr/bin/env python3
"""Records the captures of this folder again, from real programs between network namespaces of its own.

Usage (as root):  record.py [--only NAME]... [--check] [--list]

Each function below makes one file. A file is put in place only when tshark finds every checksum in it right and
the packets that the file is there for are in it; the table in README.md is written anew from what is in the files.

Debian packages: iproute2 ethtool tcpdump tshark zstd curl openssl procps dnsmasq-base traceroute iputils-ping
dropbear-bin python3-pyftpdlib; and, for quic.pcap.gz alone, the Python package aioquic. Needs no netem: the
impaired cable of lossy.pcap is players.py.
"""

import argparse
import gzip
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

# The folder holds captures, not byte code.
sys.dont_write_bytecode = True

from lab import Lab, v4, v6  # noqa: E402

HERE = Path(__file__).resolve().parent
TOOLS = ("ip", "ss", "ethtool", "sysctl", "tcpdump", "dumpcap", "tshark", "capinfos", "zstd", "curl", "openssl",
         "dnsmasq", "getent", "traceroute", "ping", "dropbear", "dropbearkey", "dbclient")
RECORDINGS = []


def recording(file, shows, **expect):
    """Registers a function that records `file`. `expect`: at least so many packets match a display filter."""
    def register(function):
        RECORDINGS.append((file, shows, expect, function))
        return function
    return register


def pair(lab):
    """client (192.0.2.1, 2001:db8:1::1) and server (.2, ::2) on one wire; the server would forward."""
    lab.node("client")
    lab.node("server", forward=True)
    device, other = lab.wire("client", "server")
    lab.address("client", device, 1, 1)
    lab.address("server", other, 1, 2)
    lab.default("client", 1, 2)
    # Multicast listener reports of the fresh interfaces go out within their first second.
    time.sleep(1.2)


def chain(lab, *routers, mtu=()):
    """client, the routers in a row, server; wire N is network N; `mtu` sets a wire's MTU by its number."""
    row = ("client", *routers, "server")
    for node in row:
        lab.node(node, forward=node in routers)
    mtu = dict(mtu)
    for net, (a, b) in enumerate(zip(row, row[1:]), 1):
        left, right = lab.wire(a, b, mtu.get(net, 1500))
        lab.address(a, left, net, 1)
        lab.address(b, right, net, 2)
    last = len(row) - 1
    for place, node in enumerate(row):
        if place < last - 1:
            lab.default(node, place + 1, 2)
        elif place == last:
            lab.default(node, last, 1)
    for place, node in enumerate(routers, 1):
        for net in range(1, place):
            lab.run(node, "ip", "route", "add", f"{v4(net, 0)}/24", "via", v4(place, 1))
            lab.run(node, "ip", "-6", "route", "add", f"{v6(net, 0)}/64", "via", v6(place, 1))
    time.sleep(1.2)


def url(scheme, host, port, path=""):
    """A URL for an address of either family."""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{path}"


def certificate(lab):
    """A self-signed certificate for www.example.test. Returns its path and the key's."""
    cert, key = lab.tmp / "cert.pem", lab.tmp / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "30", "-subj", "/CN=www.example.test",
                    "-addext", "subjectAltName=DNS:www.example.test"], check=True, capture_output=True)
    return cert, key


def site(lab):
    """A folder with an HTTP server's files."""
    folder = lab.tmp / "site"
    folder.mkdir()
    (folder / "index.html").write_text("<!DOCTYPE html><title>sample</title><p>Hello.\n")
    (folder / "data.txt").write_text("".join(f"{line:05} the quick brown fox\n" for line in range(900)))
    return folder


def http_session(lab, host, file):
    """Three requests to Python's HTTP server, two of them over one curl process; one answer is 404."""
    pair(lab)
    lab.start("server", sys.executable, "-m", "http.server", "80", "--bind", "::", cwd=site(lab))
    lab.wait_port("server", "tcp", 80)
    recorder = lab.record("client", "to-server", file)
    lab.run("client", "curl", "-sS", "-o", "/dev/null", url("http", host, 80), "-o", "/dev/null",
            url("http", host, 80, "data.txt"))
    lab.run("client", "curl", "-sS", "-o", "/dev/null", url("http", host, 80, "missing"))
    return recorder.finish()


@recording("http.pcap", "HTTP over IPv4: curl fetches a page and a file, and asks for a third that is not there",
           **{"http.response.code == 200": 2, "http.response.code == 404": 1, "tcp.flags.syn == 1 && ip": 6})
def http(lab):
    return http_session(lab, v4(1, 2), "http.pcap")


@recording("http6.pcapng", "the same over IPv6",
           **{"http.response.code == 200": 2, "http.response.code == 404": 1, "tcp.flags.syn == 1 && ipv6": 6})
def http6(lab):
    return http_session(lab, v6(1, 2), "http6.pcapng")


@recording("https.pcap", "TLS 1.3 and TLS 1.2 between curl and openssl s_server, IPv4 and IPv6",
           **{"tls.handshake.type == 1": 3, "tls.app_data": 6, "tls.handshake.version == 0x0303": 3})
def https(lab):
    pair(lab)
    cert, key = certificate(lab)
    for flag, host in (("-4", v4(1, 2)), ("-6", f"[{v6(1, 2)}]")):
        server = lab.start("server", "openssl", "s_server", flag, "-accept", f"{host}:443", "-cert", cert, "-key", key,
                           "-www")
        lab.wait_said(server, "ACCEPT")
    recorder = lab.record("client", "to-server", "https.pcap")
    for host, version in ((v4(1, 2), "1.3"), (v6(1, 2), "1.3"), (v4(1, 2), "1.2")):
        name = f"www.example.test:443:{host if '.' in host else f'[{host}]'}"
        lab.run("client", "curl", "-sS", "-o", "/dev/null", "--cacert", cert, "--tls-max", version,
                "--resolve", name, "https://www.example.test/")
    return recorder.finish()


@recording("dns.pcap", "DNS: glibc's resolver (A and AAAA at once from one socket) and dnsmasq, over IPv4 and IPv6; "
           "the first name server never answers",
           **{"dns.flags.response == 1 && ip": 6, "dns.flags.response == 1 && ipv6": 4,
              "dns.flags.response == 0 && ip.dst == 192.0.2.99": 2, "dns.qry.type == 28": 6,
              "dns.flags.rcode == 3": 2})
def dns(lab):
    pair(lab)
    # Queries to .99 go to the server to be forwarded, and vanish there without a word.
    lab.run("server", "ip", "route", "add", "blackhole", f"{v4(1, 99)}/32")
    lab.run("client", "ip", "route", "add", f"{v4(1, 99)}/32", "via", v4(1, 2))
    lab.start("server", "dnsmasq", "--keep-in-foreground", "--no-resolv", "--no-hosts", "--conf-file=/dev/null",
              "--pid-file", "--user=root", "--local=/test/", "--host-record=www.example.test,192.0.2.80,2001:db8:1::80",
              "--host-record=mail.example.test,192.0.2.25", "--cname=ftp.example.test,www.example.test")
    lab.wait_port("server", "udp", 53)
    recorder = lab.record("client", "to-server", "dns.pcap")
    resolver = lab.tmp / "resolv.conf"
    # `ip netns exec` gives each command its own mount namespace, so this reaches no other program.
    look_up = f"mount --bind {resolver} /etc/resolv.conf && exec getent ahosts "
    for servers, names in (((v4(1, 99), v4(1, 2)), ("www.example.test",)),
                           ((v4(1, 2),), ("mail.example.test", "ftp.example.test", "none.example.test")),
                           ((v6(1, 2),), ("www.example.test", "mail.example.test"))):
        lines = [f"nameserver {server}\n" for server in servers]
        resolver.write_text("".join(lines) + "options timeout:1 attempts:1\n")
        for name in names:
            lab.run("client", "sh", "-c", look_up + name, ok=(0, 2))
    return recorder.finish()


@recording("quic.pcap.gz", "QUIC between two aioquic programs: handshake, two streams, close; IPv4 and IPv6",
           **{"quic.long.packet_type == 0": 4, "quic && ip": 8, "quic && ipv6": 8})
def quic(lab):
    if not importlib.util.find_spec("aioquic"):
        raise Skip("the Python package aioquic is not there")
    pair(lab)
    cert, key = certificate(lab)
    lab.start_player("server", "quic-server", 4433, cert, key)
    lab.wait_port("server", "udp", 4433)
    recorder = lab.record("client", "to-server", "quic.pcap")
    for host in (v4(1, 2), v6(1, 2)):
        lab.player("client", "quic-get", host, 4433, cert, "www.example.test")
    return recorder.finish()


@recording("ping.pcap", "ping over IPv4 and IPv6, with ARP and neighbour discovery; nanosecond time stamps",
           **{"icmp.type == 8": 4, "icmp.type == 0": 4, "icmpv6.type == 128": 4, "icmpv6.type == 129": 4, "arp": 2})
def ping(lab):
    pair(lab)
    recorder = lab.record("client", "to-server", "ping.pcap", nano=True)
    for host in (v4(1, 2), v6(1, 2)):
        lab.run("client", "ping", "-n", "-q", "-c", "4", "-i", "0.2", host)
    return recorder.finish()


@recording("traceroute.pcap", "UDP traceroute through two routers (time exceeded) to a host (port unreachable), "
           "IPv4 and IPv6, seen at the first router",
           **{"icmp.type == 11": 6, "icmp.type == 3 && icmp.code == 3": 3, "icmpv6.type == 3": 6,
              "icmpv6.type == 1 && icmpv6.code == 4": 3})
def traceroute(lab):
    chain(lab, "r1", "r2")
    recorder = lab.record("r1", "to-client", "traceroute.pcap")
    for flag, host in (("-4", v4(3, 2)), ("-6", v6(3, 2))):
        lab.run("client", "traceroute", flag, "-n", "-w", "1", "-m", "6", host)
    return recorder.finish()


@recording("ftp.pcap", "FTP, curl and pyftpdlib: PASV, PORT, EPSV and EPRT; down and up; IPv4 and IPv6",
           **{"ftp.request.command == \"PASV\"": 1, "ftp.request.command == \"PORT\"": 1,
              "ftp.request.command == \"EPSV\"": 2, "ftp.request.command == \"EPRT\"": 1,
              "ftp.request.command == \"STOR\"": 1, "ftp.response.code == 226": 5})
def ftp(lab):
    if not importlib.util.find_spec("pyftpdlib"):
        raise Skip("the Python package pyftpdlib is not there")
    pair(lab)
    folder = site(lab)
    lab.start("server", sys.executable, "-W", "ignore", "-m", "pyftpdlib", "-i", "::", "-p", "21", "-w", "-d", folder)
    lab.wait_port("server", "tcp", 21)
    recorder = lab.record("client", "to-server", "ftp.pcap")
    old, new = v4(1, 2), v6(1, 2)
    for host, words in ((old, ("--disable-epsv",)), (old, ("--disable-eprt", "--ftp-port", "-")), (old, ()),
                        (new, ("--ftp-port", "-")), (new, ("-T", folder / "index.html"))):
        upload = words[:1] == ("-T",)
        target = url("ftp", host, 21, "upload.html" if upload else "index.html")
        lab.run("client", "curl", "-sS", "-o", "/dev/null", *words, target)
    return recorder.finish()


@recording("ssh.pcapng.zst", "an SSH session, dbclient and dropbear, recorded on all devices at once (cooked headers)",
           **{"ssh.protocol": 2, "sll": 20, "ssh.message_code == 20": 2})
def ssh(lab):
    pair(lab)
    home = lab.tmp / "home"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    home.chmod(0o700)
    for key in ("client", "server"):
        subprocess.run(["dropbearkey", "-t", "ed25519", "-f", lab.tmp / key], check=True, capture_output=True)
    said = subprocess.run(["dropbearkey", "-y", "-f", lab.tmp / "client"], check=True, capture_output=True, text=True)
    public = next(line for line in said.stdout.splitlines() if line.startswith("ssh-"))
    (home / ".ssh" / "authorized_keys").write_text(public + "\n")
    (home / ".ssh" / "authorized_keys").chmod(0o600)
    passwd = lab.tmp / "passwd"
    passwd.write_text(f"root:x:0:0:root:{home}:/bin/sh\n")
    lab.start("server", "sh", "-c", f"mount --bind {passwd} /etc/passwd && "
              f"exec dropbear -F -E -s -p 22 -r {lab.tmp / 'server'} -P {lab.tmp / 'dropbear.pid'}")
    lab.wait_port("server", "tcp", 22)
    recorder = lab.record("client", "any", "ssh.pcapng")
    lab.run("client", "dbclient", "-y", "-y", "-i", lab.tmp / "client", f"root@{v4(1, 2)}", "uname; seq 1 400",
            env={"HOME": str(home)}, quiet=True)
    return recorder.finish()


@recording("refused.pcap", "closed TCP ports (RST), closed UDP ports (port unreachable), and a host that a router "
           "refuses to forward to (prohibited), IPv4 and IPv6",
           **{"tcp.flags.reset == 1 && ip": 2, "tcp.flags.reset == 1 && ipv6": 1, "icmp.code == 3 && icmp.type == 3": 2,
              "icmpv6.type == 1 && icmpv6.code == 4": 2, "icmp.type == 3 && icmp.code == 13": 1,
              "icmpv6.type == 1 && icmpv6.code == 1": 1})
def refused(lab):
    pair(lab)
    for address, version in ((f"{v4(1, 99)}/32", "-4"), (f"{v6(1, 99)}/128", "-6")):
        via = v4(1, 2) if version == "-4" else v6(1, 2)
        lab.run("server", "ip", version, "route", "add", "prohibit", address)
        lab.run("client", "ip", version, "route", "add", address, "via", via)
    recorder = lab.record("client", "to-server", "refused.pcap")
    for near, far in ((v4(1, 2), v4(1, 99)), (v6(1, 2), v6(1, 99))):
        for host, port in ((near, 80), (near, 8080), (far, 80)):
            lab.run("client", "curl", "-sS", "-m", "3", url("http", host, port), ok=(7, 28))
        lab.player("client", "udp-send", near, 5353, 32, 2)
        lab.player("client", "udp-send", near, 5354, 32, 1)
    return recorder.finish()


@recording("lossy.pcap", "a bulk transfer (150 KB) recorded in the middle of a path that loses 3 % on either side, "
           "delays by 4 ms and reorders: retransmissions seen twice or only once, gaps, SACK, duplicate ACKs",
           **{"tcp.analysis.retransmission || tcp.analysis.fast_retransmission": 2, "tcp.options.sack_le": 3,
              "tcp.analysis.duplicate_ack": 2, "tcp.analysis.out_of_order || tcp.analysis.lost_segment": 2,
              "tcp.len > 1000": 100, "tcp.flags.fin == 1": 2})
def lossy(lab):
    row = ("client", "cable1", "middle", "cable2", "server")
    for node in row:
        lab.node(node, forward=node == "middle")
    for cable, (a, b), net in (("cable1", ("client", "middle"), 1), ("cable2", ("middle", "server"), 2)):
        ends = []
        for host, node in enumerate((a, b), 1):
            device, other = lab.wire(node, cable)
            lab.address(node, device, net, host)
            lab.run(cable, "sysctl", "-q", "-w", f"net.ipv6.conf.{other}.disable_ipv6=1")
            ends.append(other)
        lab.start_player(cable, "impair", *ends, 0.03, 0.04, 4, net + 10)
    lab.default("client", 1, 2)
    lab.default("server", 2, 1)
    time.sleep(1.5)
    lab.start_player("server", "tcp-sink", 9000)
    lab.wait_port("server", "tcp", 9000)
    recorder = lab.record("middle", "to-cable1", "lossy.pcap")
    lab.player("client", "tcp-send", v4(2, 2), 9000, 150_000)
    return recorder.finish()


@recording("pmtu.pcap", "a transfer that meets a link of 1300 bytes: fragmentation needed and packet too big come "
           "back, the rest goes in smaller segments; then the same for ping; IPv4 and IPv6",
           **{"icmp.type == 3 && icmp.code == 4 && icmp.mtu == 1300": 2, "icmpv6.type == 2": 2,
              "tcp.len > 1300 && ip": 1, "tcp.len > 1300 && ipv6": 1, "tcp.flags.fin == 1": 4})
def pmtu(lab):
    chain(lab, "r1", "r2", mtu=((2, 1300),))
    lab.start_player("server", "tcp-sink", 9000)
    lab.wait_port("server", "tcp", 9000)
    recorder = lab.record("r1", "to-client", "pmtu.pcap")
    for host in (v4(3, 2), v6(3, 2)):
        lab.player("client", "tcp-send", host, 9000, 9_000)
    # What the client has learnt is forgotten, so that ping learns it again.
    lab.run("client", "ip", "route", "flush", "cache")
    lab.run("client", "ip", "-6", "route", "flush", "cache")
    for host in (v4(3, 2), v6(3, 2)):
        lab.run("client", "ping", "-n", "-q", "-M", "do", "-s", "1400", "-c", "1", "-W", "1", host, ok=(0, 1))
    return recorder.finish()


@recording("fragments.pcap", "UDP datagrams of 4,000 bytes and pings of 3,000, cut by the sender, and echoed, IPv4 and "
           "IPv6",
           **{"ip.flags.mf == 1 || ip.frag_offset > 0": 20, "ipv6.fraghdr": 20, "udp.length == 4008": 8,
              "icmp.type == 0": 2, "icmpv6.type == 129": 2})
def fragments(lab):
    pair(lab)
    lab.start_player("server", "udp-echo", 7)
    lab.wait_port("server", "udp", 7)
    recorder = lab.record("client", "to-server", "fragments.pcap")
    for host in (v4(1, 2), v6(1, 2)):
        lab.player("client", "udp-send", host, 7, 4000, 2)
        lab.run("client", "ping", "-n", "-q", "-s", "3000", "-c", "2", "-i", "0.2", host)
    return recorder.finish()


@recording("timewait.pcap", "one source port used three times: the SYN meets TIME_WAIT of the last connection, first "
           "where the server closes first, then where the client does; IPv4 and IPv6",
           **{"tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.srcport == 40000": 6,
              "tcp.flags.syn == 1 && tcp.flags.ack == 0 && tcp.srcport == 40001": 6, "tcp.flags.fin == 1": 24})
def timewait(lab):
    pair(lab)
    # Without it connect() refuses a port in TIME_WAIT; with it, it waits for the time stamp to move on by a second.
    lab.run("client", "sysctl", "-q", "-w", "net.ipv4.tcp_tw_reuse=1")
    lab.start_player("server", "tcp-closer", 9001)
    lab.start_player("server", "tcp-sink", 9002)
    for port in (9001, 9002):
        lab.wait_port("server", "tcp", port)
    recorder = lab.record("client", "to-server", "timewait.pcap")
    for host in (v4(1, 2), v6(1, 2)):
        lab.player("client", "tcp-reuse", host, 9001, 40000, "server", 0.05, 3)
        lab.player("client", "tcp-reuse", host, 9002, 40001, "client", 1.2, 3)
    return recorder.finish()


def chatting(lab, file, match, host):
    """Records the later part of a conversation of 20 lines."""
    pair(lab)
    lab.start_player("server", "chat-server", 7777)
    lab.wait_port("server", "tcp", 7777)
    client = lab.start_player("client", "chat", host, 7777, 20, 0.1)
    time.sleep(0.8)
    recorder = lab.record("client", "to-server", file, match=match)
    if client.wait(20):
        raise RuntimeError(client.log.read_text(errors="replace"))
    return recorder.finish()


@recording("midstream.pcap", "a capture that starts in the middle of a TCP connection, so without its SYNs",
           **{"tcp.flags.syn == 0 && tcp.len > 0": 10, "tcp.flags.fin == 1": 2})
def midstream(lab):
    return chatting(lab, "midstream.pcap", "tcp", v4(1, 2))


@recording("oneway.pcapng", "the server's half alone of a TCP connection over IPv6 that had begun before",
           **{"tcp.srcport == 7777 && tcp.len > 0": 5, "ipv6": 5})
def oneway(lab):
    return chatting(lab, "oneway.pcapng", f"tcp and src host {v6(1, 2)}", v6(1, 2))


class Skip(Exception):
    """A recording that cannot be made here."""


CHECKSUMS = [word for name in ("ip", "tcp", "udp") for word in ("-o", f"{name}.check_checksum:TRUE")]
# tshark also judges the packet that an ICMP error quotes, and calls it wrong when the quote is cut.
WRONG = ("ip.checksum.status == \"Bad\" || icmp.checksum.status == \"Bad\" || icmpv6.checksum.status == \"Bad\" || "
         "((tcp.checksum.status == \"Bad\" || udp.checksum.status == \"Bad\") && !icmp && !icmpv6)")


def count(path, match):
    """How many packets of a capture match a display filter."""
    # Two passes, so that the frame in which a datagram is reassembled or a segment is repeated is judged once.
    done = subprocess.run(["tshark", "-n", "-2", *CHECKSUMS, "-r", path, "-Y", match, "-T", "fields", "-e",
                           "frame.number"], check=True, capture_output=True, text=True)
    return len(done.stdout.split())


def check(path, expect):
    """Refuses a file with a wrong checksum, or without the packets that it is there for."""
    if wrong := count(path, WRONG):
        raise RuntimeError(f"{path.name}: {wrong} packets with a wrong checksum")
    if cut := count(path, "frame.cap_len < frame.len"):
        raise RuntimeError(f"{path.name}: {cut} packets are cut short")
    for match, least in expect.items():
        if (found := count(path, match)) < least:
            raise RuntimeError(f"{path.name}: {found} packets match `{match}`, expected at least {least}")


def pack(path, target):
    """Puts a recorded file in its place, compressed as its name says."""
    if target.suffix == ".gz":
        with gzip.GzipFile(target, "wb", mtime=0) as out:
            out.write(path.read_bytes())
    elif target.suffix == ".zst":
        subprocess.run(["zstd", "-q", "-f", "-19", path, "-o", target], check=True)
    else:
        shutil.copyfile(path, target)
    target.chmod(0o644)


def kind(path):
    """A file's format in words, as capinfos tells it, and the number of its packets."""
    said = subprocess.run(["capinfos", "-t", "-E", "-c", "-M", path], check=True, capture_output=True, text=True).stdout
    fields = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
    text = {key.strip(): value.strip() for key, value in fields.items()}
    form = "pcapng" if "pcapng" in text["File type"] else "pcap"
    form += ", nanoseconds" if text["File type"].startswith("nsec") else ""
    form += ", Linux cooked" if text["File encapsulation"] == "linux-sll" else ""
    form += {".gz": ", gzip", ".zst": ", zstd"}.get(path.suffix, "")
    return form, int(text["Number of packets"].split()[0])


def write_index():
    """Writes the table in README.md anew."""
    readme = HERE / "README.md"
    head, rest = readme.read_text().split("<!-- index -->\n")[0::2]
    rows = ["| File | Format | Packets | Bytes | Shows | Made by |", "|---|---|---:|---:|---|---|"]
    for file, shows, _, function in RECORDINGS:
        path = HERE / file
        if path.exists():
            form, packets = kind(path)
            rows.append(f"| `{file}` | {form} | {packets} | {path.stat().st_size:,} | {shows} | "
                        f"`{function.__name__}` |")
    mark = "<!-- index -->\n"
    readme.write_text(head + mark + "\n".join(rows) + "\n" + mark + rest)


def main():
    """Records what was asked for; the exit status says whether all of it is in place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", metavar="NAME", help="record this function's file alone; repeatable")
    parser.add_argument("--check", action="store_true", help="check the files that are here; record nothing")
    parser.add_argument("--list", action="store_true", help="say what there is to record")
    options = parser.parse_args()
    names = [function.__name__ for *_, function in RECORDINGS]
    if unknown := set(options.only or ()) - set(names):
        parser.error(f"no such recording: {', '.join(sorted(unknown))} (there are: {', '.join(names)})")
    if options.list:
        for file, shows, _, function in RECORDINGS:
            print(f"{function.__name__:<11} {file:<16} {shows}")
        return 0
    needed = ("tshark", "capinfos") if options.check else TOOLS
    if missing := [tool for tool in needed if not shutil.which(tool)]:
        parser.error(f"not installed: {', '.join(missing)} (the top of this script names the packages)")
    if not options.check and os.geteuid() != 0:
        parser.error("needs root, for network namespaces")
    # Ends in an exception, so that the labs are taken down.
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, lambda number, _frame: sys.exit(128 + number))
    status = 0
    for file, _, expect, function in RECORDINGS:
        if options.only and function.__name__ not in options.only:
            continue
        try:
            if options.check:
                check(HERE / file, expect)
            else:
                with Lab() as lab:
                    path = function(lab)
                    check(path, expect)
                    pack(path, HERE / file)
            print(f"{file}: fine")
        except Skip as why:
            print(f"{file}: skipped: {why}", file=sys.stderr)
        except (RuntimeError, OSError, subprocess.SubprocessError) as fault:
            print(f"{file}: {fault}", file=sys.stderr)
            status = 1
    if not options.check:
        write_index()
    return status


if __name__ == "__main__":
    sys.exit(main())

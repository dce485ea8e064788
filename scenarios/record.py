"""Run by record.sh, inside its network namespace."""

import ipaddress
import os
import select
import socket
import struct
import subprocess
import sys
import time

V4, V6 = socket.AF_INET, socket.AF_INET6
ETH0 = socket.if_nametoindex("eth0")
REUSEPORT = (socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
REUSEADDR = (socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
V6ONLY = (socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
MDNS = (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("=4s4si", socket.inet_aton("224.0.0.251"), bytes(4), ETH0))


def to_device(name):
    return (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name + b"\0")


heard, tell = os.pipe()
stay, go = os.pipe()


def process(name, sockets, uid=0, answers=False):
    """A process of a name that holds sockets, tells what they get, and ends with this script."""
    ready, there = os.pipe()
    if os.fork() == 0:
        os.close(go)
        with open("/proc/self/comm", "w") as comm:
            comm.write(name)
        held = []
        for family, local, peer, options in sockets:
            os.seteuid(uid)
            s = socket.socket(family, socket.SOCK_DGRAM)
            os.seteuid(0)
            for option in options:
                s.setsockopt(*option)
            s.bind(local)
            if peer:
                s.connect(peer)
            held.append(s)
        os.write(there, b"x")
        while True:
            readable, _, _ = select.select(held + [stay], [], [])
            if stay in readable:
                os._exit(0)
            for s in readable:
                payload, sender = s.recvfrom(2048)
                os.write(tell, f"{payload.decode()} {name}[{os.getpid()}]:{s.fileno()}\n".encode())
                if answers:
                    s.sendto(b"answer", sender)
    os.read(ready, 1)


process("systemd-resolve", [(V4, ("127.0.0.53", 53), None, [to_device(b"lo")])], 992)
process("named", [(V4, ("10.1.0.1", 53), None, []), (V6, ("fd01::1", 53), None, [])], answers=True)
process("dnsmasq", [(V4, ("0.0.0.0", 67), None, [to_device(b"eth0")])])
process("chronyd", [(V4, ("127.0.0.1", 323), None, []), (V6, ("::1", 323), None, [])])
# A QUIC server: three workers share the port, two clients have sockets of their own.
for _ in range(3):
    process("quicd", [(V4, ("0.0.0.0", 4433), None, [REUSEPORT])], 1000)
process("quicd", [
    (V4, ("10.1.0.1", 4433), ("10.1.0.9", 40000), [REUSEPORT]),
    (V4, ("10.1.0.1", 4433), ("10.1.0.9", 40001), [REUSEPORT]),
], 1000)
process("avahi-daemon", [
    (V4, ("0.0.0.0", 5353), None, [REUSEADDR, MDNS]),
    (V6, ("::", 5353), None, [V6ONLY, REUSEADDR]),
], 70)
process("chrome", [(V4, ("224.0.0.251", 5353), None, [REUSEADDR, MDNS])], 1000)
process("node", [
    (V6, ("::", 8000), None, []),
    (V6, ("::ffff:10.1.0.1", 8001), None, []),
    (V6, ("::", 8002), ("::ffff:10.1.0.9", 9), []),
    (V6, ("fd01::1", 8003), ("fd01::9", 77), []),
    (V6, ("fe80::ff:fe00:1", 8004, 0, ETH0), None, []),
], 1000)

A, B, A6, B6 = "10.1.0.9", "10.1.0.1", "fd01::9", "fd01::1"
DATAGRAMS = [
    (A, 40000, B, 4433), (A, 40001, B, 4433),  # the clients with sockets of their own
    *[(A, port, B, 4433) for port in range(40002, 40012)],  # others
    ("10.1.0.8", 40000, B, 4433),
    (A, 5000, B, 53), (A6, 5000, B6, 53),
    (A, 68, B, 67), (A, 68, "255.255.255.255", 67), (A, 68, "10.1.0.255", 67),
    (A, 5001, B, 323), (A6, 5001, B6, 323),  # only on the loopback addresses
    (A, 5353, "224.0.0.251", 5353), (A, 5354, B, 5353), (A6, 5353, B6, 5353),
    (A, 5002, B, 8000), (A6, 5002, B6, 8000),
    (A, 5003, B, 8001), (A6, 5003, B6, 8001),
    (A, 9, B, 8002), (A, 10, B, 8002), ("10.1.0.8", 9, B, 8002), (A6, 9, B6, 8002),
    (A6, 77, B6, 8003), (A6, 78, B6, 8003), ("fd01::8", 77, B6, 8003),
    ("fe80::9", 5004, "fe80::ff:fe00:1", 8004), (A6, 5004, B6, 8004),
    (A, 5005, B, 9999), (A6, 5005, B6, 9999),  # nobody at all
]


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(src, sport, dst, dport, payload):
    source, destination = ipaddress.ip_address(src), ipaddress.ip_address(dst)
    udp = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0) + payload
    pseudo = source.packed + destination.packed + struct.pack("!IxxxB", len(udp), 17)
    udp = udp[:6] + struct.pack("!H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]
    if destination.version == 4:
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + source.packed + destination.packed
        ip = ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:]
    else:
        ip = struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + source.packed + destination.packed
    mac = bytes.fromhex("020000000001")
    if destination.is_multicast:
        mac = bytes.fromhex("01005e") + bytes([destination.packed[1] & 127]) + destination.packed[2:]
    elif dst.endswith(".255"):
        mac = b"\xff" * 6
    kind = 0x0800 if destination.version == 4 else 0x86DD
    return mac + bytes.fromhex("020000000009") + struct.pack("!H", kind) + ip + udp


into = sys.argv[1]
with open(f"{into}/ss.txt", "w") as out:
    subprocess.run(["ss", "-uanpe"], check=True, stdout=out)

sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
sniffer.bind(("eth0", 3))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind(("peer", 0))
with open(f"{into}/datagrams.pcap", "wb") as pcap:
    pcap.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for number, (src, sport, dst, dport) in enumerate(DATAGRAMS):
        wire.send(frame(src, sport, dst, dport, str(number).encode()))
        time.sleep(0.02)
        while select.select([sniffer], [], [], 0)[0]:
            seen = sniffer.recv(65536)
            now = time.time_ns()
            pcap.write(struct.pack("<IIII", now // 10**9, now % 10**9 // 1000, len(seen), len(seen)) + seen)

time.sleep(0.2)
receivers = {}
while select.select([heard], [], [], 0)[0]:
    for line in os.read(heard, 65536).decode().splitlines():
        number, who = line.split()
        receivers.setdefault(int(number), []).append(who)
with open(f"{into}/received.txt", "w") as out:
    out.write("# sender, destination, and process[pid]:descriptor of the sockets that got it\n")
    for number, (src, sport, dst, dport) in enumerate(DATAGRAMS):
        who = " ".join(sorted(receivers.get(number, []))) or "nobody"
        out.write(f"{src} {sport} {dst} {dport} {who}\n")
os.close(go)

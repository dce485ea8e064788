#!/usr/bin/env python3
"""Makes invalid.pcap: one connection of which the capture point misses a part, and what becomes of it.

Usage:  make_invalid.py [OUT]

A client fetches a page. After the first segments the server's packets take another route, so that the capture point
(as a firewall there would) sees the client acknowledge data that it never saw. Later the route changes back, and
segments appear far above the window that it knows of. Everything here is valid to the two endpoints; a firewall that
drops INVALID packets would have cut the connection. The numbers are made up, the packets are whole, and the same run
gives the same file.
"""

import struct
import sys
from pathlib import Path

CLIENT, SERVER, OTHER = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]), bytes([192, 0, 2, 9])
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
SCALE = b"\x02\x04\x05\xb4\x01\x03\x03\x07\x04\x02\x01\x01"  # MSS 1460, window scale 7, SACK permitted


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ipv4(src, dst, protocol, payload, ident):
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), ident, 0x4000, 64, protocol, 0, src, dst)
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def tcp(src, dst, sport, dport, flags, seq, ack, window, payload=b"", options=b"", ident=0):
    offset = (20 + len(options)) // 4 << 4
    head = struct.pack(">HHIIBBHHH", sport, dport, seq, ack, offset, flags, window, 0, 0) + options
    pseudo = src + dst + struct.pack(">BBH", 0, 6, len(head) + len(payload))
    right = checksum(pseudo + head + payload)
    return ipv4(src, dst, 6, head[:16] + struct.pack(">H", right) + head[18:] + payload, ident)


def icmp(src, dst, kind, code, rest, body, ident=0):
    message = struct.pack(">BBHI", kind, code, 0, rest) + body
    return ipv4(src, dst, 1, message[:2] + struct.pack(">H", checksum(message)) + message[4:], ident)


def conversation():
    """(milliseconds, packet) of the story above."""
    def client(flags, seq, ack, payload=b"", options=b"", window=502):
        return tcp(CLIENT, SERVER, 40000, 80, flags, seq, ack, window, payload, options)

    def server(flags, seq, ack, payload=b"", options=b"", window=509):
        return tcp(SERVER, CLIENT, 80, 40000, flags, seq, ack, window, payload, options)

    segment = b"x" * 1448
    yield 0, client(SYN, 1000, 0, options=SCALE, window=64240)
    yield 10, server(SYN | ACK, 5000, 1001, options=SCALE, window=65160)
    yield 20, client(ACK, 1001, 5001)
    yield 21, client(PSH | ACK, 1001, 5001, b"GET /large HTTP/1.1\r\nHost: www.test\r\n\r\n")
    yield 31, server(ACK, 5001, 1040)
    yield 33, server(ACK, 5001, 1040, segment)
    yield 34, server(ACK, 6449, 1040, segment)
    yield 44, client(ACK, 1040, 7897)
    # From here on the server's segments pass elsewhere: the client acknowledges what was not seen.
    for n in range(1, 4):
        yield 50 + n, client(ACK, 1040, 7897 + n * 2 * 1448)
    # The route is back, 200,000 bytes later.
    for n in range(3):
        yield 90 + n, server(ACK, 207_897 + n * 1448, 1040, segment)
    yield 95, client(ACK, 1040, 212_241)
    # A late RST for an older state of the connection, as a middle box may send it.
    yield 97, server(RST, 5001, 0)
    yield 99, client(FIN | ACK, 1040, 212_241)
    # A SYN/ACK whose SYN was never seen, an answer to no ping, an error about no connection.
    yield 120, tcp(OTHER, CLIENT, 443, 40001, SYN | ACK, 77, 1, 65160)
    yield 130, icmp(OTHER, CLIENT, 0, 0, 0x0007_0001, b"pong")
    quoted = tcp(CLIENT, OTHER, 40002, 25, SYN, 1, 0, 64240)[:28]
    yield 140, icmp(OTHER, CLIENT, 3, 3, 0, quoted)
    yield 150, tcp(CLIENT, OTHER, 40003, 22, SYN | FIN, 1, 0, 1024)


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "invalid.pcap"
    ethernet = bytes.fromhex("020000000002 020000000001 0800")
    with out.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))
        for ms, packet in conversation():
            frame = ethernet + packet
            file.write(struct.pack("<IIII", 1_700_000_000, ms * 1000, len(frame), len(frame)) + frame)


if __name__ == "__main__":
    main()

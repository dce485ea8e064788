#!/usr/bin/env python3
"""Makes the seed corpus of the fuzz targets from the sample captures: fuzz/corpus/TARGET/NAME.

Seeds are small on purpose: a few packets each, so that a mutation hits something that matters.
"""

import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
# The order of LINKS in fuzz_targets/packet.rs.
LINKS = [0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276]


def put(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def records(path):
    """Link type, header and (record header, frame) pairs of a classic little-endian pcap."""
    data = path.read_bytes()
    magic, = struct.unpack_from("<I", data)
    if magic not in (0xA1B2C3D4, 0xA1B23C4D):
        return None
    link, = struct.unpack_from("<I", data, 20)
    out, at = [], 24
    while at < len(data):
        kept, = struct.unpack_from("<I", data, at + 8)
        out.append((data[at:at + 16], data[at + 16:at + 16 + kept]))
        at += 16 + kept
    return link & 0xFFFF, data[:24], out


def checksum(header):
    total = sum(struct.unpack(f">{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def v4_fragment(at, more, payload):
    header = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 7,
                                   at // 8 | more << 13, 64, 17, 0, b"\x0a\0\0\1", b"\x0a\0\0\2"))
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    return bytes(header) + payload


def v6_fragment(at, more, payload):
    fragment = struct.pack(">BBHI", 17, 0, at | more, 7) + payload
    addresses = bytes([0xFD] + [0] * 14 + [1]) + bytes([0xFD] + [0] * 14 + [2])
    return struct.pack(">IHBB", 6 << 28, len(fragment), 44, 64) + addresses + fragment


def record(packet, wait=0):
    return bytes([len(packet), wait]) + packet


def main():
    for path in sorted((ROOT / "captures").glob("*.pcap")):
        found = records(path)
        if found is None:
            continue
        link, header, packets = found
        name = path.stem
        small = [(h, f) for h, f in packets if len(f) <= 240][:12]
        put("capture", name, header + b"".join(h + f for h, f in small[:4]))
        if link in LINKS:
            for i, (_, frame) in enumerate(small[:3]):
                put("packet", f"{name}-{i}", bytes([LINKS.index(link), 0]) + frame)
        if link == 1:
            ip = [f[14:] for _, f in small if f[12:14] in (b"\x08\x00", b"\x86\xdd")]
            put("tracker", name, bytes([3]) + b"".join(record(p) for p in ip))
    payload = struct.pack(">HHHH", 1, 2, 72, 0) + bytes(64)
    parts = [(0, 1, payload[:24]), (24, 1, payload[24:48]), (48, 0, payload[48:])]
    for name, make in (("v4", v4_fragment), ("v6", v6_fragment)):
        whole = [make(*p) for p in parts]
        put("reassembly", f"{name}-in-order", b"".join(map(record, whole)))
        put("reassembly", f"{name}-reverse", b"".join(map(record, reversed(whole))))
        put("reassembly", f"{name}-twice", b"".join(map(record, whole[:2] + whole)))
        overlap = make(16, 1, payload[16:40])
        put("reassembly", f"{name}-overlap", b"".join(map(record, [whole[0], overlap, whole[2]])))
        put("tracker", f"{name}-fragments", bytes([2]) + b"".join(map(record, whole)))
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 262144, 20)
    packet = struct.pack("<IIIIIII", 6, 36, 0, 1, 2, 4, 4) + b"abcd" + struct.pack("<I", 36)
    simple = struct.pack("<III", 3, 20, 4) + b"abcd" + struct.pack("<I", 20)
    put("capture", "pcapng", section + interface + packet + simple)


if __name__ == "__main__":
    main()

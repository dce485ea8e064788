//! Any bytes as a frame of any link type: no panic, and what was parsed lies within the bytes.
#![no_main]

use fourtuple_packet::{L4, LinkType, Packet, decapsulate, quoted, redirect_quoted};
use libfuzzer_sys::fuzz_target;

const LINKS: [u16; 13] = [0, 1, 9, 12, 14, 50, 51, 101, 108, 113, 228, 229, 276];

fuzz_target!(|input: &[u8]| {
    let [link, longer, frame @ ..] = input else { return };
    let link = LinkType(LINKS[usize::from(*link) % LINKS.len()]);
    // Up to 255 bytes that the capture cut.
    let wire_len = frame.len() as u32 + u32::from(*longer);
    let Ok(inner) = decapsulate(link, frame, wire_len) else { return };
    assert!(inner.bytes.len() <= frame.len());
    assert!(inner.wire_len as usize >= inner.bytes.len());
    let Ok(packet) = Packet::parse(inner.bytes, inner.wire_len) else { return };
    assert!(packet.len <= inner.wire_len);
    assert!(packet.bytes.len() as u32 <= packet.len);
    assert!(packet.l4_offset <= packet.bytes.len());
    let _ = packet.verify_checksum();
    let _ = packet.looks_offloaded();
    if let L4::Icmp(icmp) = packet.l4 {
        let _ = quoted(packet.family, icmp.body);
        let _ = redirect_quoted(icmp.body);
    }
});

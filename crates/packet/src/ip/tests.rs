use super::*;
use crate::testing::ipv6;

fn malformed(bytes: &[u8]) -> L4Error {
    match Packet::parse(bytes, bytes.len() as u32).unwrap().l4 {
        L4::Malformed { why, .. } => why,
        other => panic!("{other:?}"),
    }
}

/// Linux 6.18.44 made an entry of protocol 250 or so of each of these: a header that reaches beyond the packet is
/// passed over, and what it announces needs no bytes.
#[test]
fn extension_headers_beyond_the_packet_are_passed_over() {
    for (first, rest) in [
        (60, &[250, 5, 1, 4, 0, 0, 0, 0][..]),
        (43, &[250, 5, 0, 0, 0, 0, 0, 0]),
        (51, &[250, 50, 0, 0, 0, 0, 0, 0]),
        (60, &[250, 0]),
        (44, &[250, 0, 0, 0]),
        (44, &[250, 0, 0, 1]),
    ] {
        let bytes = ipv6(first, rest);
        let packet = Packet::parse(&bytes, bytes.len() as u32).unwrap();
        assert!(matches!(packet.l4, L4::Other), "{first} {packet:?}");
        assert_eq!((packet.protocol, packet.l4_len()), (250, 0));
    }
}

/// These it called invalid, or dropped in reassembly.
#[test]
fn what_cannot_be_passed_over() {
    let cut = |protocol| L4Error::ExtensionCut { protocol };
    assert_eq!(
        malformed(&ipv6(60, &[17, 5, 1, 4, 0, 0, 0, 0])),
        L4Error::Short { there: 0, need: 8 }
    );
    assert_eq!(malformed(&ipv6(60, &[249])), cut(60));
    assert_eq!(malformed(&ipv6(44, &[250, 0, 0])), cut(44));
    assert_eq!(malformed(&ipv6(44, &[250, 0, 0, 8])), cut(44));
    // The header that is to blame is the one that reaches beyond.
    assert_eq!(malformed(&ipv6(60, &[44, 5, 1, 4, 0, 0, 0, 0])), cut(60));
    assert_eq!(malformed(&ipv6(59, &[1, 2, 3])), L4Error::NoNextHeader);
    // A second fragment header with an offset.
    let second = [44, 0, 0, 0, 0, 0, 0, 77, 17, 0, 0, 8, 0, 0, 0, 9, 0, 1, 0, 2, 0, 9, 0, 0, 1];
    assert_eq!(malformed(&ipv6(44, &second)), L4Error::Fragment);
}

/// Dropped before connection tracking.
#[test]
fn a_hop_by_hop_header_must_fit() {
    for (rest, says) in [(&[17, 5, 1, 4, 0, 0, 0, 0][..], 88), (&[17], 48), (&[17, 1], 56)] {
        let bytes = ipv6(0, rest);
        assert_eq!(
            Packet::parse(&bytes, bytes.len() as u32).unwrap_err(),
            IpError::HopByHop { says, there: bytes.len() as u32 }
        );
        // The capture's cut is no fault of the packet.
        let packet = Packet::parse(&bytes[..40], bytes.len() as u32);
        assert!(packet.is_ok() || rest.len() < 2);
    }
    let bytes = ipv6(0, &[250, 0, 1, 4, 0, 0, 0, 0]);
    assert!(Packet::parse(&bytes, 48).is_ok());
}

#[test]
fn a_cut_extension_header_is_the_captures_fault() {
    let bytes = ipv6(60, &[17, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2, 0, 8, 0, 0]);
    for kept in 40..56 {
        let packet = Packet::parse(&bytes[..kept], bytes.len() as u32).unwrap();
        assert!(matches!(packet.l4, L4::Malformed { why: L4Error::Cut, .. }), "{kept} {packet:?}");
    }
    assert!(matches!(Packet::parse(&bytes, 56).unwrap().l4, L4::Udp(_)));
}

use super::*;
use crate::testing::{ipv4, ipv6};

const PORTS: [u8; 8] = [0x12, 0x34, 0, 53, 0, 8, 0, 0];

#[test]
fn ports_need_four_bytes() {
    for proto in [6, 17, 132, 136] {
        for (family, whole) in
            [(Family::V4, ipv4(proto, &PORTS)), (Family::V6, ipv6(proto, &PORTS))]
        {
            let header = whole.len() - 8;
            let q = quoted(family, &whole[..header + 4]).unwrap();
            assert_eq!((q.family, q.protocol), (family, proto));
            assert_eq!(q.l4, QuotedL4::Ports(0x1234, 53));
            assert_eq!(
                quoted(family, &whole[..header + 3]),
                Err(QuoteError::TransportShort { there: 3, need: 4 })
            );
            assert_eq!(
                quoted(family, &whole[..header - 1]),
                Err(QuoteError::HeaderShort { there: header as u32 - 1, need: header as u32 })
            );
        }
    }
    let q = quoted(Family::V4, &ipv4(17, &PORTS)).unwrap();
    assert_eq!((&q.src[..5], &q.dst[..5]), (&[10, 0, 0, 1, 0][..], &[10, 0, 0, 2, 0][..]));
}

#[test]
fn icmp_needs_eight_bytes() {
    for proto in [1, 58] {
        let whole = ipv6(proto, &[8, 1, 0, 0, 0xab, 0xcd, 0, 1]);
        assert_eq!(
            quoted(Family::V6, &whole).unwrap().l4,
            QuotedL4::Icmp { ty: 8, code: 1, id: 0xabcd }
        );
        assert_eq!(
            quoted(Family::V6, &whole[..47]),
            Err(QuoteError::TransportShort { there: 7, need: 8 })
        );
    }
}

#[test]
fn others_need_nothing() {
    assert_eq!(quoted(Family::V4, &ipv4(50, &[])).unwrap().l4, QuotedL4::None);
    let gre = quoted(Family::V4, &ipv4(47, &[0x20, 1, 0x88, 0x0b, 0, 4, 0, 9])).unwrap();
    assert_eq!(gre.l4, QuotedL4::Gre(Gre { version: 1, protocol: 0x880b, call_id: Some(9) }));
}

#[test]
fn broken_lengths_and_checksums_are_not_looked_at() {
    let mut p = ipv4(17, &PORTS);
    p[2..4].copy_from_slice(&[0xff, 0xff]);
    p[10] ^= 0xff;
    assert!(quoted(Family::V4, &p).is_ok());
    p[0] = 0x4f;
    assert_eq!(quoted(Family::V4, &p), Err(QuoteError::HeaderShort { there: 28, need: 60 }));
    // Options are passed over.
    p[0] = 0x46;
    assert_eq!(quoted(Family::V4, &p).unwrap().l4, QuotedL4::Ports(8, 0));
}

#[test]
fn fragments_but_the_first_fail() {
    let mut p = ipv4(17, &PORTS);
    p[6] = 0x20;
    assert!(quoted(Family::V4, &p).is_ok());
    p[7] = 2;
    assert_eq!(quoted(Family::V4, &p), Err(QuoteError::Fragment { offset: 16 }));
    let v6 = |word: u8| ipv6(44, &[&[17, 0, 0, word, 0, 0, 0, 1][..], &PORTS].concat());
    assert_eq!(quoted(Family::V6, &v6(1)).unwrap().l4, QuotedL4::Ports(0x1234, 53));
    assert_eq!(quoted(Family::V6, &v6(0x18)), Err(QuoteError::Fragment { offset: 24 }));
}

#[test]
fn extension_headers_are_walked() {
    let rest = [&[17, 0, 0, 0, 0, 0, 0, 0][..], &PORTS].concat();
    let q = quoted(Family::V6, &ipv6(60, &rest)).unwrap();
    assert_eq!((q.protocol, q.l4), (17, QuotedL4::Ports(0x1234, 53)));
    assert_eq!(quoted(Family::V6, &ipv6(59, &[])), Err(QuoteError::Chain(L4Error::NoNextHeader)));
    assert!(matches!(
        quoted(Family::V6, &ipv6(60, &[17])),
        Err(QuoteError::Chain(L4Error::ExtensionCut { protocol: 60 }))
    ));
}

#[test]
fn redirects_tell_their_faults_apart() {
    let inner = ipv6(17, &PORTS);
    let body = |ty: u8, len: u8| [&[0; 32][..], &[ty, len, 0, 0, 0, 0, 0, 0], &inner].concat();
    assert_eq!(redirect_quoted(&body(4, 7)).unwrap().l4, QuotedL4::Ports(0x1234, 53));
    assert_eq!(redirect_quoted(&body(4, 0)), Err(RedirectError::ZeroLength));
    assert_eq!(redirect_quoted(&body(2, 1)), Err(RedirectError::OtherOption(2)));
    assert_eq!(redirect_quoted(&[0; 33]), Err(RedirectError::NoOption { there: 41 }));
    assert_eq!(redirect_quoted(&[]), Err(RedirectError::NoOption { there: 8 }));
    assert_eq!(
        redirect_quoted(&body(4, 7)[..50]),
        Err(RedirectError::Quote(QuoteError::HeaderShort { there: 10, need: 40 }))
    );
}

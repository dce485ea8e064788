use super::*;

const IP: &[u8] = &[0x45, 0, 0, 20, 1, 2, 3, 4, 5, 6];

fn frame(head: &[u8]) -> Vec<u8> {
    [head, IP].concat()
}

fn ethernet(rest: &[u8]) -> Vec<u8> {
    frame(&[&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], rest].concat())
}

fn open(link: LinkType, frame: &[u8]) -> Result<Inner<'_>, LinkError> {
    decapsulate(link, frame, frame.len() as u32)
}

/// The frame opens to `IP`, and cut anywhere before it, it gives `Cut` or `Short`, as the wire length says.
fn finds_ip(link: LinkType, frame: &[u8]) -> Inner<'_> {
    let inner = open(link, frame).unwrap();
    assert_eq!(inner.bytes, IP, "{link:?}");
    assert_eq!(inner.wire_len, IP.len() as u32);
    for cut in 0..frame.len() - IP.len() {
        match decapsulate(link, &frame[..cut], frame.len() as u32) {
            Err(LinkError::Cut { kept, need }) => {
                assert!(kept == cut as u32 && need > kept && need <= frame.len() as u32);
            }
            other => panic!("{link:?} cut to {cut}: {other:?}"),
        }
        match open(link, &frame[..cut]) {
            Err(LinkError::Short { there, need }) => {
                assert!(there == cut as u32 && need > there);
            }
            other => panic!("{link:?} of {cut} bytes: {other:?}"),
        }
    }
    inner
}

fn not_ip(link: LinkType, frame: &[u8]) -> NotIp {
    match open(link, frame) {
        Err(LinkError::NotIp { what }) => what,
        other => panic!("{link:?}: {other:?}"),
    }
}

#[test]
fn plain_ethernet() {
    for ty in [[0x08, 0x00], [0x86, 0xdd]] {
        let frame = ethernet(&ty);
        let inner = finds_ip(LinkType::ETHERNET, &frame);
        assert_eq!((inner.vlan, inner.vlan_tags), (None, 0));
        assert_eq!((inner.pppoe, inner.mpls_labels), (false, 0));
    }
}

#[test]
fn vlan_tags_of_any_kind_and_depth() {
    let frame = ethernet(&[0x81, 0, 0xe0, 0x64, 8, 0]);
    let inner = finds_ip(LinkType::ETHERNET, &frame);
    // The priority bits are not part of the id.
    assert_eq!((inner.vlan, inner.vlan_tags), (Some(100), 1));

    let frame = ethernet(&[0x88, 0xa8, 0, 1, 0x91, 0, 0, 2, 0x81, 0, 0x0f, 0xff, 8, 0]);
    let inner = finds_ip(LinkType::ETHERNET, &frame);
    assert_eq!((inner.vlan, inner.vlan_tags), (Some(4095), 3));

    let mut deep = Vec::new();
    for _ in 0..300 {
        deep.extend([0x81, 0, 0, 7]);
    }
    deep.extend([8, 0]);
    let frame = ethernet(&deep);
    let inner = finds_ip(LinkType::ETHERNET, &frame);
    assert_eq!((inner.vlan, inner.vlan_tags), (Some(7), 255));
}

#[test]
fn llc_and_snap() {
    let snap = |oui: [u8; 3], ty: [u8; 2]| [&[0, 18, 0xaa, 0xaa, 3][..], &oui, &ty].concat();
    let frame = ethernet(&snap([0, 0, 0], [8, 0]));
    finds_ip(LinkType::ETHERNET, &frame);
    // Padding behind the length is told apart.
    let mut padded = frame.clone();
    padded.extend([0; 20]);
    let inner = open(LinkType::ETHERNET, &padded).unwrap();
    assert_eq!((inner.bytes, inner.wire_len), (IP, IP.len() as u32));
    // A length beyond the frame is an error.
    assert_eq!(
        open(LinkType::ETHERNET, &ethernet(&[0, 200, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0])),
        Err(LinkError::Short { there: 32, need: 214 })
    );
    let cdp = not_ip(LinkType::ETHERNET, &ethernet(&snap([0, 0, 0x0c], [0x20, 0])));
    assert_eq!(cdp, NotIp::Snap { oui: 0x0c, ty: 0x2000 });
    assert_eq!(cdp.to_string(), "CDP");
    let stp = not_ip(LinkType::ETHERNET, &ethernet(&[0, 13, 0x42, 0x42, 3]));
    assert_eq!(stp, NotIp::Llc { dsap: 0x42, ssap: 0x42 });
    finds_ip(LinkType::ETHERNET, &ethernet(&[0, 13, 6, 6, 3]));
}

#[test]
fn other_ether_types_have_names() {
    let says = |ty: [u8; 2]| open(LinkType::ETHERNET, &ethernet(&ty)).unwrap_err().to_string();
    assert_eq!(says([0x08, 0x06]), "not IP: ARP");
    assert_eq!(says([0x88, 0xcc]), "not IP: LLDP");
    assert_eq!(says([0x88, 0x8e]), "not IP: EAPOL (802.1X)");
    assert_eq!(says([0x12, 0x34]), "not IP: EtherType 0x1234");
}

#[test]
fn pppoe_session_and_discovery() {
    let session = [0x88, 0x64, 0x11, 0, 0, 9, 0, 12, 0, 0x21];
    let frame = ethernet(&session);
    let inner = finds_ip(LinkType::ETHERNET, &frame);
    assert!(inner.pppoe);
    let mut padded = frame.clone();
    padded.extend([0; 30]);
    assert_eq!(open(LinkType::ETHERNET, &padded).unwrap(), inner);
    finds_ip(LinkType::PPP_ETHER, &frame[14..]);

    assert_eq!(
        not_ip(LinkType::ETHERNET, &ethernet(&[0x88, 0x63, 0x11, 9])),
        NotIp::PppoeDiscovery
    );
    let mut padt = frame.clone();
    padt[15] = 0xa7;
    assert_eq!(not_ip(LinkType::ETHERNET, &padt), NotIp::PppoeDiscovery);
    let mut version = frame.clone();
    version[14] = 0x21;
    assert_eq!(not_ip(LinkType::ETHERNET, &version), NotIp::PppoeVersion(0x21));
    let mut long = frame.clone();
    long[19] = 13;
    assert!(matches!(open(LinkType::ETHERNET, &long), Err(LinkError::Short { .. })));
    let mut lcp = frame;
    (lcp[20], lcp[21]) = (0xc0, 0x21);
    assert_eq!(not_ip(LinkType::ETHERNET, &lcp).to_string(), "PPP LCP");
}

#[test]
fn mpls_stacks() {
    for ty in [0x47, 0x48] {
        let frame = ethernet(&[0x88, ty, 0, 1, 0, 64, 0, 2, 0x01, 64]);
        assert_eq!(finds_ip(LinkType::ETHERNET, &frame).mpls_labels, 2);
    }
    let mut frame = ethernet(&[0x88, 0x47, 0, 1, 1, 64]);
    finds_ip(LinkType::MPLS, &frame[14..]);
    frame[18] = 0;
    assert_eq!(not_ip(LinkType::ETHERNET, &frame).to_string(), "MPLS pseudowire");
    frame[18] = 0x91;
    assert_eq!(not_ip(LinkType::ETHERNET, &frame), NotIp::Mpls { nibble: 9 });
    // No bottom of the stack.
    let endless = ethernet(&[0x88, 0x47, 0, 1, 0, 64, 0, 1, 0, 64]);
    assert!(matches!(
        open(LinkType::ETHERNET, &endless[..22]),
        Err(LinkError::Short { there: 22, need: 26 })
    ));
    finds_ip(LinkType::PPP, &frame_of_ppp(&[0x02, 0x81, 0, 1, 1, 64]));
    finds_ip(LinkType::PPP, &frame_of_ppp(&[0x02, 0x83, 0, 1, 1, 64]));
}

fn frame_of_ppp(head: &[u8]) -> Vec<u8> {
    frame(head)
}

#[test]
fn ppp_forms() {
    for head in [
        &[0x00, 0x21][..],
        &[0x21],
        &[0xff, 0x03, 0x00, 0x21],
        &[0xff, 0x03, 0x21],
        &[0x57],
        &[0x00, 0x57],
    ] {
        for link in [LinkType::PPP, LinkType::PPP_HDLC] {
            let frame = frame(head);
            assert_eq!(finds_ip(link, &frame).bytes, IP);
        }
    }
    finds_ip(LinkType::PPP_HDLC, &frame(&[0x0f, 0, 8, 0]));
    finds_ip(LinkType::C_HDLC, &frame(&[0x8f, 0, 0x86, 0xdd]));
    assert_eq!(not_ip(LinkType::PPP, &[0xc2, 0x23, 1]).to_string(), "PPP CHAP");
    assert_eq!(not_ip(LinkType::PPP, &[0x12, 0x34, 1]).to_string(), "PPP protocol 0x1234");
}

#[test]
fn cooked_captures() {
    let v1 = |hardware: [u8; 2], ty: [u8; 2]| {
        let mut h = [0u8; 16];
        h[2..4].copy_from_slice(&hardware);
        h[14..].copy_from_slice(&ty);
        frame(&h)
    };
    let v2 = |hardware: [u8; 2], ty: [u8; 2]| {
        let mut h = [0u8; 20];
        h[..2].copy_from_slice(&ty);
        h[8..10].copy_from_slice(&hardware);
        frame(&h)
    };
    finds_ip(LinkType::LINUX_SLL, &v1([0, 1], [8, 0]));
    finds_ip(LinkType::LINUX_SLL2, &v2([0, 1], [0x86, 0xdd]));
    // Netlink: the protocol field holds a netlink family, whatever its value.
    assert_eq!(not_ip(LinkType::LINUX_SLL, &v1([3, 0x38], [8, 0])).to_string(), "netlink messages");
    assert_eq!(not_ip(LinkType::LINUX_SLL2, &v2([0, 1], [8, 6])).to_string(), "ARP");
    assert_eq!(not_ip(LinkType::LINUX_SLL, &v1([0, 1], [0, 0x0c])).to_string(), "CAN");
    let mut tagged = v1([0, 1], [0x81, 0]);
    tagged.splice(16..16, [0, 5, 8, 0]);
    assert_eq!(finds_ip(LinkType::LINUX_SLL, &tagged).vlan, Some(5));
}

#[test]
fn loopback_families_in_both_byte_orders() {
    for family in [2u8, 10, 24, 28, 30] {
        for link in [LinkType::NULL, LinkType::LOOP] {
            finds_ip(link, &frame(&[0, 0, 0, family]));
            finds_ip(link, &frame(&[family, 0, 0, 0]));
        }
    }
    assert_eq!(not_ip(LinkType::NULL, &frame(&[7, 0, 0, 0])), NotIp::Family(7));
    assert_eq!(not_ip(LinkType::LOOP, &frame(&[0, 0, 0, 7])), NotIp::Family(7));
}

#[test]
fn raw_ip() {
    for n in [12, 14, 101, 228, 229] {
        finds_ip(LinkType(n), IP);
    }
    assert_eq!(open(LinkType::RAW, &[]).unwrap().wire_len, 0);
}

#[test]
fn unsupported_types_are_named() {
    let e = open(LinkType(127), IP).unwrap_err();
    assert_eq!(e, LinkError::Unsupported(LinkType(127)));
    assert_eq!(e.to_string(), "link type IEEE802_11_RADIOTAP (127) is not supported");
    assert_eq!(
        open(LinkType(40_000), IP).unwrap_err().to_string(),
        "link type unknown (40000) is not supported"
    );
}

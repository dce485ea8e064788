//! Every layer against random bytes, against generated packets, and against `etherparse`.

use etherparse::{
    IpFragOffset, NetSlice, PacketBuilder, PacketBuilderStep, SlicedPacket, TransportSlice,
    UdpHeader, VlanId,
};
use fourtuple_packet::{
    Checksum, ChecksumRule, Family, Inner, L4, LinkType, Packet, QuotedL4, decapsulate, quoted,
    redirect_quoted,
};
use proptest::prelude::*;

const LINKS: [u16; 16] = [0, 1, 9, 12, 14, 50, 51, 101, 104, 108, 113, 219, 228, 229, 276, 127];

/// Runs everything that takes bytes over a frame and checks what must hold of any answer.
fn exercise(link: LinkType, frame: &[u8], wire_len: u32) {
    let Ok(inner) = decapsulate(link, frame, wire_len) else {
        return;
    };
    let Inner { bytes, wire_len, .. } = inner;
    assert!(bytes.len() as u32 <= wire_len);
    assert!(frame.windows(bytes.len().max(1)).any(|w| w == bytes) || bytes.is_empty());
    packet(bytes, wire_len);
}

fn packet(bytes: &[u8], wire_len: u32) {
    let Ok(p) = Packet::parse(bytes, wire_len) else {
        return;
    };
    assert!(p.len <= wire_len && p.bytes.len() as u32 <= p.len);
    assert!(p.l4_offset <= p.bytes.len());
    assert_eq!(p.is_cut(), (p.bytes.len() as u32) < p.len);
    let _ = (p.verify_checksum(), p.looks_offloaded());
    let _ = p.verify_checksum_by(ChecksumRule::Standard);
    let _ = p.unassembled();
    if let L4::Icmp(icmp) = p.l4 {
        let _ = redirect_quoted(icmp.body);
        let _ = (quoted(Family::V4, icmp.body), quoted(Family::V6, icmp.body));
    }
}

/// Ports, ICMP or nothing behind an IP header.
#[derive(Clone, Copy, Debug)]
enum Transport {
    Tcp { seq: u32, ack: Option<u32>, syn: bool, window: u16 },
    Udp,
    Echo { seq: u16 },
}

#[derive(Clone, Debug)]
struct Flow {
    v6: bool,
    vlans: Vec<u16>,
    src: [u8; 16],
    dst: [u8; 16],
    ttl: u8,
    ports: (u16, u16),
    transport: Transport,
    payload: Vec<u8>,
}

fn flows() -> impl Strategy<Value = Flow> {
    let tcp = (any::<u32>(), any::<Option<u32>>(), any::<bool>(), any::<u16>())
        .prop_map(|(seq, ack, syn, window)| Transport::Tcp { seq, ack, syn, window });
    let transport = prop_oneof![
        tcp,
        Just(Transport::Udp),
        any::<u16>().prop_map(|seq| Transport::Echo { seq })
    ];
    (
        any::<bool>(),
        prop::collection::vec(0u16..4096, 0..3),
        any::<([u8; 16], [u8; 16], u8, (u16, u16))>(),
        transport,
        prop::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(v6, vlans, (src, dst, ttl, ports), transport, payload)| Flow {
            v6,
            vlans,
            src,
            dst,
            ttl,
            ports,
            transport,
            payload,
        })
}

fn v4(a: &[u8; 16]) -> [u8; 4] {
    a[..4].try_into().unwrap()
}

impl Flow {
    /// The frame, made by `etherparse`.
    fn frame(&self) -> Vec<u8> {
        let eth = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let id = |i: usize| VlanId::try_new(self.vlans[i]).unwrap();
        match (self.vlans.len(), self.v6) {
            (0, false) => self.rest(eth.ipv4(v4(&self.src), v4(&self.dst), self.ttl)),
            (0, true) => self.rest(eth.ipv6(self.src, self.dst, self.ttl)),
            (1, false) => {
                self.rest(eth.single_vlan(id(0)).ipv4(v4(&self.src), v4(&self.dst), self.ttl))
            }
            (1, true) => self.rest(eth.single_vlan(id(0)).ipv6(self.src, self.dst, self.ttl)),
            (_, false) => self.rest(eth.double_vlan(id(0), id(1)).ipv4(
                v4(&self.src),
                v4(&self.dst),
                self.ttl,
            )),
            (_, true) => {
                self.rest(eth.double_vlan(id(0), id(1)).ipv6(self.src, self.dst, self.ttl))
            }
        }
    }

    fn rest(&self, ip: PacketBuilderStep<etherparse::IpHeaders>) -> Vec<u8> {
        let mut out = Vec::new();
        let (sport, dport) = self.ports;
        match self.transport {
            Transport::Tcp { seq, ack, syn, window } => {
                let mut tcp = ip.tcp(sport, dport, seq, window);
                if let Some(ack) = ack {
                    tcp = tcp.ack(ack);
                }
                if syn {
                    tcp = tcp.syn();
                }
                tcp.write(&mut out, &self.payload).unwrap();
            }
            Transport::Udp => ip.udp(sport, dport).write(&mut out, &self.payload).unwrap(),
            Transport::Echo { seq } if self.v6 => {
                ip.icmpv6_echo_request(sport, seq).write(&mut out, &self.payload).unwrap();
            }
            Transport::Echo { seq } => {
                ip.icmpv4_echo_request(sport, seq).write(&mut out, &self.payload).unwrap();
            }
        }
        out
    }
}

fn address(a: &[u8; 16], v6: bool) -> [u8; 16] {
    let mut out = *a;
    if !v6 {
        out[4..].fill(0);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn random_bytes_never_panic(
        link in prop::sample::select(LINKS.to_vec()),
        bytes in prop::collection::vec(any::<u8>(), 0..160),
        more in 0u32..100,
    ) {
        exercise(LinkType(link), &bytes, bytes.len() as u32 + more);
        packet(&bytes, bytes.len() as u32 + more);
        // Most random bytes have no IP version; give them one.
        for version in [0x45, 0x4f, 0x60] {
            let mut bytes = bytes.clone();
            if let Some(first) = bytes.first_mut() {
                *first = version;
            }
            packet(&bytes, bytes.len() as u32 + more);
            let _ = quoted(Family::V4, &bytes);
            let _ = quoted(Family::V6, &bytes);
            let _ = redirect_quoted(&bytes);
        }
    }

    #[test]
    fn mutated_frames_never_panic(
        flow in flows(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut frame = flow.frame();
        for (at, value) in flips {
            let at = at.index(frame.len());
            frame[at] = value;
        }
        let kept = if cut { keep.index(frame.len()) } else { frame.len() };
        exercise(LinkType::ETHERNET, &frame[..kept], frame.len() as u32);
        exercise(LinkType::ETHERNET, &frame[..kept], kept as u32);
    }

    #[test]
    fn chains_of_extension_headers_never_panic(
        first in prop::sample::select(vec![0u8, 43, 44, 51, 60, 59, 6, 17, 58, 132]),
        units in prop::collection::vec(
            (prop::sample::select(vec![0u8, 43, 44, 51, 60, 59, 6, 17, 58, 132]), 0u8..4, any::<[u8; 6]>()),
            0..12,
        ),
        more in 0u32..30,
    ) {
        let mut bytes = vec![0u8; 40];
        (bytes[0], bytes[6]) = (0x60, first);
        for (next, len, rest) in &units {
            bytes.extend([*next, *len]);
            bytes.extend(rest);
        }
        let len = (bytes.len() - 40) as u16;
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        for kept in 0..=bytes.len() {
            packet(&bytes[..kept], bytes.len() as u32 + more);
            let _ = quoted(Family::V6, &bytes[..kept]);
        }
    }

    #[test]
    fn generated_packets_give_their_fields_back(flow in flows(), padding in 0usize..20) {
        let mut frame = flow.frame();
        let ip_len = frame.len() - 14 - 4 * flow.vlans.len();
        frame.extend(vec![0; padding]);
        let inner = decapsulate(LinkType::ETHERNET, &frame, frame.len() as u32).unwrap();
        prop_assert_eq!(inner.vlan, flow.vlans.last().copied());
        prop_assert_eq!(usize::from(inner.vlan_tags), flow.vlans.len());
        let p = Packet::parse(inner.bytes, inner.wire_len).unwrap();
        prop_assert_eq!(p.len as usize, ip_len);
        prop_assert_eq!(p.src, address(&flow.src, flow.v6));
        prop_assert_eq!(p.dst, address(&flow.dst, flow.v6));
        prop_assert_eq!(p.ttl, flow.ttl);
        let ports = match (p.l4, flow.transport) {
            (L4::Tcp(tcp), Transport::Tcp { seq, ack, syn, window }) => {
                prop_assert_eq!((tcp.seq, tcp.window), (seq, window));
                prop_assert_eq!(tcp.ack, ack.unwrap_or(0));
                prop_assert_eq!(tcp.flags, u8::from(syn) << 1 | u8::from(ack.is_some()) << 4);
                prop_assert_eq!(tcp.payload_len as usize, flow.payload.len());
                (tcp.sport, tcp.dport)
            }
            (L4::Udp(udp), Transport::Udp) => {
                prop_assert_eq!(usize::from(udp.length), 8 + flow.payload.len());
                (udp.sport, udp.dport)
            }
            (L4::Icmp(icmp), Transport::Echo { .. }) => {
                prop_assert_eq!(icmp.body, &flow.payload);
                prop_assert_eq!(icmp.ty, if flow.v6 { 128 } else { 8 });
                (icmp.id, flow.ports.1)
            }
            (l4, t) => return Err(TestCaseError::fail(format!("{t:?} read as {l4:?}"))),
        };
        prop_assert_eq!(ports, flow.ports);
        prop_assert_eq!(p.verify_checksum(), Checksum::Ok);
        prop_assert_eq!(p.verify_checksum_by(ChecksumRule::Standard), Checksum::Ok);

        // Quoted by an error, it leads to the same flow.
        let q = quoted(p.family, inner.bytes).unwrap();
        prop_assert_eq!((q.src, q.dst, q.protocol), (p.src, p.dst, p.protocol));
        match q.l4 {
            QuotedL4::Ports(s, d) => prop_assert_eq!((s, d), flow.ports),
            QuotedL4::Icmp { id, .. } => prop_assert_eq!(id, flow.ports.0),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
    }

    /// Bytes flipped behind the link layer: whatever both read, they read alike; and what `etherparse` takes for
    /// whole, so do we.
    #[test]
    fn agrees_with_etherparse(
        flow in flows(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
    ) {
        let mut frame = flow.frame();
        let link = 14 + 4 * flow.vlans.len();
        for (at, value) in flips {
            let at = link + at.index(frame.len() - link);
            frame[at] = value;
        }
        // The checksum of the IPv4 header is one of the things that only we look at.
        if !flow.v6 {
            let header = (usize::from(frame[link] & 15) * 4).clamp(20, frame.len() - link);
            frame[link + 10..link + 12].fill(0);
            let sum = header_sum(&frame[link..link + header]);
            frame[link + 10..link + 12].copy_from_slice(&sum.to_be_bytes());
        }
        let inner = decapsulate(LinkType::ETHERNET, &frame, frame.len() as u32).unwrap();
        let ours = Packet::parse(inner.bytes, inner.wire_len);
        let Ok(theirs) = SlicedPacket::from_ethernet(&frame) else { return Ok(()) };
        let (Some(net), Some(transport)) = (theirs.net, theirs.transport) else { return Ok(()) };
        // What it takes for a packet, we do.
        let p = ours.map_err(|e| TestCaseError::fail(format!("{e}")))?;
        match &net {
            NetSlice::Ipv4(ip) => {
                prop_assert_eq!(p.family, Family::V4);
                prop_assert_eq!(&p.src[..4], &ip.header().source());
                prop_assert_eq!(&p.dst[..4], &ip.header().destination());
                prop_assert_eq!(p.ttl, ip.header().ttl());
                prop_assert_eq!(p.len, u32::from(ip.header().total_len()));
                let fragment = ip.header().fragments_offset() != IpFragOffset::ZERO || ip.header().more_fragments();
                prop_assert_eq!(p.fragment.is_some(), fragment);
            }
            NetSlice::Ipv6(ip) => {
                prop_assert_eq!(p.family, Family::V6);
                prop_assert_eq!(p.src, ip.header().source());
                prop_assert_eq!(p.dst, ip.header().destination());
                prop_assert_eq!(p.ttl, ip.header().hop_limit());
            }
            NetSlice::Arp(_) => return Ok(()),
        }
        match (&transport, &p.l4) {
            (TransportSlice::Tcp(t), L4::Tcp(o)) => {
                prop_assert_eq!((t.source_port(), t.destination_port()), (o.sport, o.dport));
                prop_assert_eq!((t.sequence_number(), t.acknowledgment_number()), (o.seq, o.ack));
                prop_assert_eq!(t.window_size(), o.window);
                prop_assert_eq!(t.options(), o.options);
                let flags = [t.fin(), t.syn(), t.rst(), t.psh(), t.ack(), t.urg(), t.ece(), t.cwr()];
                let flags = flags.iter().rev().fold(0u8, |all, &bit| all << 1 | u8::from(bit));
                prop_assert_eq!(flags, o.flags);
                prop_assert_eq!(t.payload().len() as u32, o.payload_len);
            }
            (TransportSlice::Udp(t), L4::Udp(o)) => {
                let UdpHeader { source_port, destination_port, length, checksum } = t.to_header();
                prop_assert_eq!((source_port, destination_port), (o.sport, o.dport));
                prop_assert_eq!((length, checksum), (o.length, o.checksum));
            }
            (TransportSlice::Icmpv4(t), L4::Icmp(o)) => {
                prop_assert_eq!((t.type_u8(), t.code_u8()), (o.ty, o.code));
            }
            (TransportSlice::Icmpv6(t), L4::Icmp(o)) => {
                prop_assert_eq!((t.type_u8(), t.code_u8()), (o.ty, o.code));
            }
            // What only we call malformed: lengths of TCP and UDP that contradict the packet's.
            (_, L4::Malformed { .. }) => {}
            (t, o) => return Err(TestCaseError::fail(format!("{t:?} read as {o:?}"))),
        }
    }
}

fn header_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|c| u32::from(u16::from_be_bytes([c[0], *c.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

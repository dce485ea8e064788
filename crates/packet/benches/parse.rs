//! This crate's parser beside `etherparse`, on the frames that connection tracking sees most.
//!
//! `cargo bench -p fourtuple-packet --bench parse`

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use etherparse::{LaxSlicedPacket, NetSlice, PacketBuilder, SlicedPacket, TransportSlice, VlanId};
use fourtuple_packet::{Checksum, Instant, LinkType, Outcome, Packet, Reassembler, decapsulate};
use std::hint::black_box;

const PAYLOAD: usize = 1400;

fn frames() -> [(&'static str, Vec<u8>); 3] {
    let tcp = |ip: etherparse::PacketBuilderStep<etherparse::IpHeaders>| {
        let mut out = Vec::new();
        let tcp = ip.tcp(40_000, 443, 1, 1000).ack(7);
        tcp.write(&mut out, &[0x5a; PAYLOAD]).unwrap();
        out
    };
    let eth = || PacketBuilder::ethernet2([2; 6], [4; 6]);
    let id = VlanId::try_new(100).unwrap();
    [
        ("tcp4", tcp(eth().ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64))),
        ("tcp6", tcp(eth().ipv6([1; 16], [2; 16], 64))),
        ("vlan-tcp4", tcp(eth().single_vlan(id).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64))),
    ]
}

/// What a tuple needs, by this crate.
fn ours(frame: &[u8]) -> Packet<'_> {
    let inner = decapsulate(LinkType::ETHERNET, frame, frame.len() as u32).unwrap();
    Packet::parse(inner.bytes, inner.wire_len).unwrap()
}

/// The same with `etherparse`: addresses, ports, sequence numbers, flags, payload length.
fn theirs(sliced: &SlicedPacket<'_>) -> ([u8; 16], [u8; 16], u16, u16, u32, u32, bool, usize) {
    let (src, dst) = match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let mut a = ([0; 16], [0; 16]);
            a.0[..4].copy_from_slice(&ip.header().source());
            a.1[..4].copy_from_slice(&ip.header().destination());
            a
        }
        NetSlice::Ipv6(ip) => (ip.header().source(), ip.header().destination()),
        NetSlice::Arp(_) => unreachable!(),
    };
    let Some(TransportSlice::Tcp(t)) = &sliced.transport else { unreachable!() };
    (
        src,
        dst,
        t.source_port(),
        t.destination_port(),
        t.sequence_number(),
        t.acknowledgment_number(),
        t.syn(),
        t.payload().len(),
    )
}

/// The checks that a host makes: IPv4 header checksum and TCP checksum.
fn theirs_checked(sliced: &SlicedPacket<'_>) -> bool {
    let Some(TransportSlice::Tcp(t)) = &sliced.transport else { unreachable!() };
    match sliced.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            header.calc_header_checksum() == header.header_checksum
                && t.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap()
                    == t.checksum()
        }
        NetSlice::Ipv6(ip) => {
            t.calc_checksum_ipv6(ip.header().source(), ip.header().destination()).unwrap()
                == t.checksum()
        }
        NetSlice::Arp(_) => unreachable!(),
    }
}

fn parse(c: &mut Criterion) {
    for (name, frame) in frames() {
        let mut g = c.benchmark_group(format!("parse/{name}"));
        g.throughput(Throughput::Elements(1));
        // Ours verifies the IPv4 header checksum in this group, etherparse does not.
        g.bench_function("fourtuple", |b| {
            b.iter(|| {
                black_box(ours(black_box(&frame)));
            });
        });
        g.bench_function("etherparse", |b| {
            b.iter(|| black_box(theirs(&SlicedPacket::from_ethernet(black_box(&frame)).unwrap())));
        });
        g.bench_function("etherparse-lax", |b| {
            b.iter(|| {
                black_box(LaxSlicedPacket::from_ethernet(black_box(&frame)).unwrap())
                    .transport
                    .is_some()
            });
        });
        g.finish();
        let mut g = c.benchmark_group(format!("verify/{name}"));
        g.throughput(Throughput::Bytes(frame.len() as u64));
        g.bench_function("fourtuple", |b| {
            b.iter(|| assert_eq!(ours(black_box(&frame)).verify_checksum(), Checksum::Ok));
        });
        g.bench_function("etherparse", |b| {
            b.iter(|| {
                let sliced = SlicedPacket::from_ethernet(black_box(&frame)).unwrap();
                assert!(theirs_checked(&sliced));
                black_box(theirs(&sliced))
            });
        });
        g.finish();
    }
}

/// A datagram of three fragments, in order and reversed.
fn reassembly(c: &mut Criterion) {
    let mut parts = Vec::new();
    for (i, more) in [(0u16, 1u16), (185, 1), (370, 0)] {
        let word = i | more << 13;
        let mut out = Vec::new();
        let mut ip = etherparse::Ipv4Header::new(
            1480,
            64,
            etherparse::IpNumber::UDP,
            [10, 0, 0, 1],
            [10, 0, 0, 2],
        )
        .unwrap();
        ip.identification = 7;
        ip.dont_fragment = false;
        ip.more_fragments = more == 1;
        ip.fragment_offset = (word & 0x1fff).try_into().unwrap();
        ip.header_checksum = ip.calc_header_checksum();
        ip.write(&mut out).unwrap();
        out.extend([0x5a; 1480]);
        parts.push(out);
    }
    let mut g = c.benchmark_group("reassembly/3x1480");
    g.throughput(Throughput::Elements(3));
    for name in ["in-order", "reversed"] {
        let mut r = Reassembler::default();
        g.bench_function(name, |b| {
            b.iter(|| {
                let mut done = false;
                for p in &parts {
                    let packet = Packet::parse(black_box(p), p.len() as u32).unwrap();
                    done = matches!(r.push(Instant::ZERO, &packet, 0), Outcome::Complete(_));
                }
                assert!(done);
            });
        });
        parts.reverse();
    }
    g.finish();
}

criterion_group!(benches, parse, reassembly);
criterion_main!(benches);

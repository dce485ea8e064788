//! From a frame to its headers.

use std::hint::black_box;

use anyhow::{Result, ensure};
use etherparse::{PacketBuilder, SlicedPacket};
use fourtuple::packet::{Checksum, L4, decapsulate};
use fourtuple::{LinkType, Packet};

use crate::measure::{Case, Plan, Row, each, rounds};

struct Kind {
    name: &'static str,
    frames: Vec<Vec<u8>>,
}

type State = Vec<Kind>;

pub(crate) fn measure(plan: &Plan) -> Result<Vec<Row>> {
    let mut state = kinds()?;
    for kind in &state {
        for frame in &kind.frames {
            agree(frame)?;
        }
    }
    let mut cases = Vec::new();
    for (i, kind) in state.iter().enumerate() {
        let name = kind.name;
        cases.push(Case::new(format!("fourtuple parse, {name}"), move |s: &mut State, p| {
            Ok(each(&s[i].frames, p.operations, |f| {
                black_box(parse(f));
            }))
        }));
        let what = format!("fourtuple parse and checksum, {name}");
        cases.push(Case::new(what, move |s: &mut State, p| {
            Ok(each(&s[i].frames, p.operations, |f| {
                if let Some(packet) = black_box(parse(f)) {
                    black_box(packet.verify_checksum());
                }
            }))
        }));
        let what = format!("etherparse SlicedPacket, {name}");
        cases.push(Case::new(what, move |s: &mut State, p| {
            Ok(each(&s[i].frames, p.operations, |f| {
                let _ = black_box(SlicedPacket::from_ethernet(f));
            }))
        }));
    }
    rounds(plan, "parse", None, &mut state, cases)
}

#[inline(always)]
fn parse(frame: &[u8]) -> Option<Packet<'_>> {
    let inner = decapsulate(LinkType::ETHERNET, frame, frame.len() as u32).ok()?;
    Packet::parse(inner.bytes, inner.wire_len).ok()
}

/// Both must understand the frame, or it would be refusals that are timed.
fn agree(frame: &[u8]) -> Result<()> {
    let sliced = SlicedPacket::from_ethernet(frame)?;
    ensure!(sliced.transport.is_some(), "etherparse found no transport header");
    let packet = parse(frame);
    ensure!(
        packet.is_some_and(|p| {
            matches!(p.l4, L4::Tcp(_) | L4::Udp(_)) && p.verify_checksum() == Checksum::Ok
        }),
        "a generated frame was refused"
    );
    Ok(())
}

fn kinds() -> Result<State> {
    let mac = [2, 0, 0, 0, 0, 1];
    let link = || PacketBuilder::ethernet2(mac, mac);
    let v4 = || link().ipv4([10, 0, 0, 1], [172, 16, 0, 1], 64);
    let v6 = || link().ipv6([0x20; 16], [0x30; 16], 64);
    // Four of each, so that the cache has them all and no address is a constant to the compiler or the predictor.
    let make = |name, write: &dyn Fn(u16, &mut Vec<u8>) -> Result<()>| -> Result<Kind> {
        let mut frames = vec![Vec::new(); 4];
        for (port, frame) in (1..).zip(&mut frames) {
            write(port, frame)?;
        }
        Ok(Kind { name, frames })
    };
    let tcp = |size: usize| {
        move |port, out: &mut Vec<u8>| {
            Ok(v4().tcp(port, 443, 1, 65_000).ack(1).psh().write(out, &vec![7; size])?)
        }
    };
    Ok(vec![
        make("IPv4 TCP, 64 bytes of data", &tcp(64))?,
        make("IPv4 TCP, 1,400 bytes of data", &tcp(1400))?,
        make("IPv6 UDP, 64 bytes of data", &|port, out| {
            Ok(v6().udp(port, 53).write(out, &[7; 64])?)
        })?,
    ])
}

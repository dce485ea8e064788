//! Entries of the connection table, as ctnetlink tells them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

use crate::netlink::{attributes, number};

/// One direction's flow key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Tuple {
    /// Source address.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// What stands in for the ports.
    #[serde(flatten)]
    pub key: Key,
}

/// The protocol's part of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Key {
    /// Ports, or the keys of GRE.
    Ports {
        /// Source port.
        sport: u16,
        /// Destination port.
        dport: u16,
    },
    /// ICMP and ICMPv6.
    Icmp {
        /// Identifier.
        id: u16,
        /// Type.
        r#type: u8,
        /// Code.
        code: u8,
    },
    /// Protocols that are told apart by addresses only.
    None {},
}

/// TCP scale (shift count) and flag bits of both sides; flags are the kernel's
/// `IP_CT_TCP_FLAG_*` (1 scale, 2 SACK, 4 close init, 8 liberal, 16 unacknowledged, 32 maxack).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tcp {
    /// Scale of the side that sent the first packet.
    pub wscale_orig: u8,
    /// Scale of the other side.
    pub wscale_reply: u8,
    /// Flags of the first side.
    pub flags_orig: u8,
    /// Flags of the other side.
    pub flags_reply: u8,
}

/// SCTP verification tags of both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sctp {
    /// Tag that packets of the original direction carry.
    pub vtag_orig: u32,
    /// Tag that packets of the reply direction carry.
    pub vtag_reply: u32,
}

/// One entry at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Number by order of creation in this case, from 1.
    pub conn: u32,
    /// 4 or 6.
    pub l3: u8,
    /// L4 protocol number.
    #[serde(serialize_with = "protocol")]
    pub proto: u8,
    /// Tuple of the first packet.
    pub orig: Tuple,
    /// Tuple that replies have.
    pub reply: Tuple,
    /// TCP or SCTP state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// TCP's own part; absent when the kernel did not tell it (in a DESTROY event).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<Tcp>,
    /// SCTP's own part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sctp: Option<Sctp>,
    /// Status bits (`IPS_*`).
    #[serde(serialize_with = "status_names")]
    pub status: u32,
    /// Mark.
    pub mark: u32,
    /// Zone number.
    pub zone: u16,
    /// Packets in the original direction.
    pub packets_orig: u64,
    /// Bytes in the original direction.
    pub bytes_orig: u64,
    /// Packets in the reply direction.
    pub packets_reply: u64,
    /// Bytes in the reply direction.
    pub bytes_reply: u64,
    /// Time-out as last set, in seconds, without lengthening; none in a DESTROY event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Seconds left when it was read, rounded down by the kernel, with lengthening.
    #[serde(skip)]
    pub left: Option<u32>,
}

/// Status bit: a reply was seen.
pub const SEEN_REPLY: u32 = 1 << 1;
/// Status bit: two-way traffic by the protocol's rule.
pub const ASSURED: u32 = 1 << 2;
/// Status bit: in the table.
pub const CONFIRMED: u32 = 1 << 3;
/// Status bit: being removed.
pub const DYING: u32 = 1 << 9;

const STATUS: [&str; 16] = [
    "expected",
    "seen_reply",
    "assured",
    "confirmed",
    "src_nat",
    "dst_nat",
    "seq_adjust",
    "src_nat_done",
    "dst_nat_done",
    "dying",
    "fixed_timeout",
    "template",
    "nat_clash",
    "helper",
    "offload",
    "hw_offload",
];

const TCP_STATES: [&str; 10] = [
    "NONE",
    "SYN_SENT",
    "SYN_RECV",
    "ESTABLISHED",
    "FIN_WAIT",
    "CLOSE_WAIT",
    "LAST_ACK",
    "TIME_WAIT",
    "CLOSE",
    "SYN_SENT2",
];

const SCTP_STATES: [&str; 9] = [
    "NONE",
    "CLOSED",
    "COOKIE_WAIT",
    "COOKIE_ECHOED",
    "ESTABLISHED",
    "SHUTDOWN_SENT",
    "SHUTDOWN_RECD",
    "SHUTDOWN_ACK_SENT",
    "HEARTBEAT_SENT",
];

/// Names of the status bits that are set, lowest first.
pub fn status_list(status: u32) -> impl Iterator<Item = &'static str> {
    STATUS.into_iter().enumerate().filter(move |(bit, _)| status >> bit & 1 == 1).map(|(_, n)| n)
}

/// Serialises status bits as a list of names.
pub(crate) fn status_names<S: Serializer>(status: &u32, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(status_list(*status))
}

fn protocol<S: Serializer>(proto: &u8, to: S) -> Result<S::Ok, S::Error> {
    let name = match proto {
        1 => "icmp",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        50 => "esp",
        58 => "icmpv6",
        132 => "sctp",
        136 => "udplite",
        other => return to.serialize_u8(*other),
    };
    to.serialize_str(name)
}

/// A ctnetlink message of an entry, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// `CTA_ID` as the kernel holds it (host order).
    pub(crate) id: u32,
    /// The ORIGINAL tuple as received, for later requests.
    pub(crate) key: Vec<u8>,
    /// The entry; `conn` is 0 and `timeout` none.
    pub(crate) entry: Entry,
}

impl Message {
    /// Decodes the payload (nfgenmsg and attributes) of a NEW or DELETE message.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let family = *payload.first()?;
        let (mut orig, mut reply, mut id, mut key) = (None, None, 0, Vec::new());
        let mut entry = Entry {
            conn: 0,
            l3: if family == 10 { 6 } else { 4 },
            proto: 0,
            orig: Tuple { src: UNSET, dst: UNSET, key: Key::None {} },
            reply: Tuple { src: UNSET, dst: UNSET, key: Key::None {} },
            state: None,
            tcp: None,
            sctp: None,
            status: 0,
            mark: 0,
            zone: 0,
            packets_orig: 0,
            bytes_orig: 0,
            packets_reply: 0,
            bytes_reply: 0,
            timeout: None,
            left: None,
        };
        for (kind, value) in attributes(payload.get(4..)?) {
            match kind {
                1 => {
                    orig = tuple(value);
                    key = value.to_vec();
                }
                2 => reply = tuple(value),
                3 => entry.status = number(value) as u32,
                4 => protocol_info(value, &mut entry),
                7 => entry.left = Some(number(value) as u32),
                8 => entry.mark = number(value) as u32,
                9 => (entry.packets_orig, entry.bytes_orig) = counters(value),
                10 => (entry.packets_reply, entry.bytes_reply) = counters(value),
                12 => id = u32::from_ne_bytes(*value.first_chunk()?),
                18 => entry.zone = number(value) as u16,
                _ => {}
            }
        }
        (entry.orig, entry.proto) = orig?;
        entry.reply = reply?.0;
        Some(Self { id, key, entry })
    }
}

const UNSET: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        16 => Some(Ipv6Addr::from(*bytes.first_chunk::<16>()?).into()),
        _ => None,
    }
}

fn tuple(value: &[u8]) -> Option<(Tuple, u8)> {
    let (mut src, mut dst, mut proto) = (None, None, 0);
    let (mut ports, mut icmp) = ([None; 2], [None; 3]);
    for (kind, inner) in attributes(value) {
        for (field, bytes) in attributes(inner) {
            match (kind, field) {
                (1, 1 | 3) => src = address(bytes),
                (1, 2 | 4) => dst = address(bytes),
                (2, 1) => proto = number(bytes) as u8,
                (2, 2 | 3) => ports[usize::from(field) - 2] = Some(number(bytes) as u16),
                (2, 4..=9) => icmp[usize::from(field - 4) % 3] = Some(number(bytes) as u16),
                _ => {}
            }
        }
    }
    let key = match (ports, icmp) {
        ([Some(sport), Some(dport)], _) => Key::Ports { sport, dport },
        (_, [Some(id), Some(kind), Some(code)]) => {
            Key::Icmp { id, r#type: kind as u8, code: code as u8 }
        }
        _ => Key::None {},
    };
    Some((Tuple { src: src?, dst: dst?, key }, proto))
}

fn counters(value: &[u8]) -> (u64, u64) {
    let (mut packets, mut bytes) = (0, 0);
    for (kind, value) in attributes(value) {
        match kind {
            1 => packets = number(value),
            2 => bytes = number(value),
            _ => {}
        }
    }
    (packets, bytes)
}

fn protocol_info(value: &[u8], entry: &mut Entry) {
    for (protocol, inner) in attributes(value) {
        let mut fields = [None; 6];
        for (kind, bytes) in attributes(inner) {
            if let Some(slot) = fields.get_mut(usize::from(kind)) {
                // Flags come as two bytes, flags and mask.
                let bytes = if protocol == 1 && kind >= 4 { &bytes[..1] } else { bytes };
                *slot = Some(number(bytes) as u32);
            }
        }
        let state = fields[1].unwrap_or(0) as usize;
        if protocol == 1 {
            entry.state = TCP_STATES.get(state).copied();
            if let [_, _, Some(a), Some(b), Some(c), Some(d)] = fields {
                entry.tcp = Some(Tcp {
                    wscale_orig: a as u8,
                    wscale_reply: b as u8,
                    flags_orig: c as u8,
                    flags_reply: d as u8,
                });
            }
        } else if protocol == 3 {
            entry.state = SCTP_STATES.get(state).copied();
            if let [_, _, Some(vtag_orig), Some(vtag_reply), ..] = fields {
                entry.sctp = Some(Sctp { vtag_orig, vtag_reply });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::{attr, be32, encode, nest};

    #[test]
    fn decodes_a_tcp_entry() {
        let tuple = |kind, a: [u8; 4], b: [u8; 4], s: u16, d: u16| {
            nest(
                kind,
                &[
                    nest(1, &[attr(1, &a), attr(2, &b)]),
                    nest(2, &[attr(1, &[6]), attr(2, &s.to_be_bytes()), attr(3, &d.to_be_bytes())]),
                ],
            )
        };
        let info =
            [attr(1, &[3]), attr(2, &[7]), attr(3, &[14]), attr(4, &[33, 0]), attr(5, &[3, 0])];
        let mut payload = vec![2, 0, 0, 0];
        payload.extend(encode(&[
            tuple(1, [10, 0, 0, 1], [10, 0, 0, 2], 40000, 80),
            tuple(2, [10, 0, 0, 2], [10, 0, 0, 1], 80, 40000),
            be32(3, 0xe),
            be32(7, 531_999),
            nest(4, &[nest(1, &info)]),
            nest(9, &[attr(1, &5_u64.to_be_bytes()), attr(2, &420_u64.to_be_bytes())]),
            attr(12, &0x1234_5678_u32.to_ne_bytes()),
        ]));
        let message = Message::parse(&payload).unwrap();
        let entry = &message.entry;
        assert_eq!(message.id, 0x1234_5678);
        assert_eq!(entry.orig.key, Key::Ports { sport: 40000, dport: 80 });
        assert_eq!(entry.reply.src, IpAddr::from([10, 0, 0, 2]));
        assert_eq!(
            (entry.state, entry.status, entry.left),
            (Some("ESTABLISHED"), 14, Some(531_999))
        );
        assert_eq!((entry.packets_orig, entry.bytes_orig), (5, 420));
        let tcp = Tcp { wscale_orig: 7, wscale_reply: 14, flags_orig: 33, flags_reply: 3 };
        assert_eq!(entry.tcp, Some(tcp));
    }

    #[test]
    fn refuses_what_has_no_tuples() {
        assert!(Message::parse(&[2, 0, 0, 0]).is_none());
        assert!(Message::parse(&[]).is_none());
    }
}

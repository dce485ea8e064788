//! The JSON that `--format ndjson` prints, as types. One object a line. Fields may be added; none changes its meaning.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;

use fourtuple::conntrack as ct;
use fourtuple::packet::{Instant, protocol};
use serde::{Serialize, Serializer};

use crate::stamp::{Stamp, Stamper};

/// A line of `explain`.
#[derive(Debug, Serialize)]
pub(crate) struct Packet<'a> {
    /// Number of the record in its capture, from 1.
    pub(crate) packet: u64,
    /// The capture, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<&'a str>,
    /// Null if neither this packet nor one before it has a time stamp.
    pub(crate) time: Option<Stamp>,
    pub(crate) verdict: &'static str,
    /// `original`, `reply` or null.
    pub(crate) direction: Option<&'static str>,
    pub(crate) reason: &'static str,
    /// Prose; empty if there is nothing to add to the reason.
    #[serde(serialize_with = "as_text")]
    pub(crate) detail: ct::Detail,
    /// The connection after the packet. For invalid packets, the one whose tuple the packet bears.
    pub(crate) connection: Option<Connection>,
    /// What the packet did to the connection; absent if nothing of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) change: Option<Change>,
    /// Length of the IP packet on the wire, of the frame if there is none in it.
    pub(crate) length: u32,
    /// Addresses and ports in the packet; absent without IP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tuple: Option<PacketTuple>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) vlan: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fragment: Option<Fragment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp: Option<Segment>,
}

/// What a packet did to its connection.
#[derive(Debug, Serialize)]
pub(crate) struct Change {
    pub(crate) created: bool,
    pub(crate) ended: bool,
    /// State before and after, null if it did not change.
    pub(crate) state: Option<[&'static str; 2]>,
}

impl Change {
    pub(crate) fn of(change: ct::Change) -> Option<Self> {
        (change != ct::Change::default()).then(|| Self {
            created: change.created,
            ended: change.ended,
            state: change.state.map(|(from, to)| [from.name(), to.name()]),
        })
    }
}

/// Addresses and ports of a packet.
#[derive(Debug, Serialize)]
pub(crate) struct PacketTuple {
    pub(crate) protocol: &'static str,
    /// The protocol's number.
    pub(crate) protonum: u8,
    #[serde(flatten)]
    pub(crate) flow: Flow,
}

/// Where a fragment sits in its datagram.
#[derive(Debug, Serialize)]
pub(crate) struct Fragment {
    pub(crate) id: u32,
    /// In bytes.
    pub(crate) offset: u32,
    /// True iff more follow.
    pub(crate) more: bool,
}

/// A TCP header.
#[derive(Debug, Serialize)]
pub(crate) struct Segment {
    #[serde(serialize_with = "as_flags")]
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// As in the header, unscaled.
    pub(crate) window: u16,
    /// Bytes of payload.
    pub(crate) payload: u32,
}

/// One direction: addresses, what the protocol has in place of ports, counters.
#[derive(Debug, Serialize)]
pub(crate) struct Flow {
    pub(crate) src: IpAddr,
    pub(crate) dst: IpAddr,
    #[serde(skip_serializing_if = "Option::is_none")]
    sport: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dport: Option<u16>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    srckey: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dstkey: Option<u16>,
    /// Absent without accounting.
    #[serde(skip_serializing_if = "Option::is_none")]
    packets: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl Flow {
    /// Addresses without anything else.
    pub(crate) const fn between(src: IpAddr, dst: IpAddr) -> Self {
        Self {
            src,
            dst,
            sport: None,
            dport: None,
            icmp_type: None,
            code: None,
            id: None,
            srckey: None,
            dstkey: None,
            packets: None,
            bytes: None,
        }
    }

    pub(crate) fn of(tuple: &ct::Tuple) -> Self {
        let (sport, dport) = (Some(tuple.sport), Some(tuple.dport));
        let plain = Self::between(tuple.src_ip(), tuple.dst_ip());
        match tuple.protocol {
            protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
                Self { sport, dport, ..plain }
            }
            protocol::ICMP | protocol::ICMPV6 => Self {
                icmp_type: Some(tuple.icmp_type()),
                code: Some(tuple.icmp_code()),
                id: Some(tuple.sport),
                ..plain
            },
            protocol::GRE => Self { srckey: sport, dstkey: dport, ..plain },
            _ => plain,
        }
    }

    fn counted(tuple: &ct::Tuple, counters: Option<ct::Counters>) -> Self {
        Self {
            packets: counters.map(|c| c.packets),
            bytes: counters.map(|c| c.bytes),
            ..Self::of(tuple)
        }
    }
}

/// A connection, the same object everywhere.
#[derive(Debug, Serialize)]
pub(crate) struct Connection {
    /// Number, from 1 by order of creation.
    pub(crate) id: u64,
    pub(crate) protocol: &'static str,
    pub(crate) protonum: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    /// Whole seconds left.
    pub(crate) timeout: u64,
    #[serde(serialize_with = "as_names")]
    pub(crate) status: ct::Status,
    pub(crate) original: Flow,
    pub(crate) reply: Flow,
    pub(crate) zone: u16,
    pub(crate) net: u32,
    pub(crate) mark: u32,
    /// Absent with nf_conntrack_timestamp=0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start: Option<Stamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tcp: Option<Sides>,
    /// Why it ended, and when, in `track --ended` and DESTROY events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) end: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop: Option<Stamp>,
}

impl Connection {
    /// The connection as it is at `now`.
    pub(crate) fn at(conn: &ct::Connection, now: Instant, stamper: &mut Stamper) -> Self {
        let original = conn.tuple(ct::Direction::Original);
        let flow = |dir| Flow::counted(conn.tuple(dir), conn.counters(dir));
        Self {
            id: conn.number(),
            protocol: ct::protocol_name(original.protocol),
            protonum: original.protocol,
            state: conn.tcp_state().map(ct::TcpState::name),
            timeout: conn.remaining(now).as_secs(),
            status: conn.status(),
            original: flow(ct::Direction::Original),
            reply: flow(ct::Direction::Reply),
            zone: conn.zone().id,
            net: conn.net(),
            mark: conn.mark(),
            start: conn.start().map(|at| stamper.stamp(at)),
            tcp: match conn.proto() {
                ct::Proto::Tcp(track) => Some(Sides::of(track)),
                _ => None,
            },
            end: None,
            stop: None,
        }
    }
}

/// What TCP tracking knows of both sides.
#[derive(Debug, Serialize)]
pub(crate) struct Sides {
    original: Side,
    reply: Side,
}

/// What TCP tracking knows of the sender of one direction.
#[derive(Debug, Serialize)]
pub(crate) struct Side {
    wscale: u8,
    #[serde(serialize_with = "as_side_flags")]
    flags: ct::SideFlags,
}

impl Sides {
    fn of(track: &ct::TcpTrack) -> Self {
        let side = |dir| {
            let side = track.side(dir);
            Side { wscale: side.scale, flags: side.flags }
        };
        Self { original: side(ct::Direction::Original), reply: side(ct::Direction::Reply) }
    }
}

/// A line of `events`.
#[derive(Debug, Serialize)]
pub(crate) struct Event {
    /// `new`, `update` or `destroy`.
    pub(crate) event: &'static str,
    /// From 1, without gaps except where events were lost.
    pub(crate) sequence: u64,
    pub(crate) time: Option<Stamp>,
    /// The packet at which it was noticed; null for what was only noticed at the end of the capture.
    pub(crate) packet: Option<u64>,
    /// What changed: `reply`, `assured`, `protoinfo`, `mark`.
    pub(crate) changed: Vec<&'static str>,
    pub(crate) connection: Connection,
}

/// A line of `events` where some found no room.
#[derive(Debug, Serialize)]
pub(crate) struct Lost {
    pub(crate) lost: u64,
}

/// A line of `reasons`.
#[derive(Debug, Serialize)]
pub(crate) struct Reason {
    pub(crate) reason: &'static str,
    /// The verdicts it comes with.
    pub(crate) verdicts: Vec<&'static str>,
    pub(crate) explanation: &'static str,
}

/// A line of `--settings`.
#[derive(Debug, Serialize)]
pub(crate) struct Setting<'a> {
    pub(crate) setting: &'static str,
    pub(crate) value: &'a str,
    pub(crate) default: &'a str,
    /// Unit or range.
    pub(crate) takes: &'static str,
}

/// The last line of `track`.
#[derive(Debug, Serialize)]
pub(crate) struct SummaryLine {
    pub(crate) summary: Summary,
}

/// What was in the captures as a whole.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    pub(crate) packets: u64,
    /// Bytes of the frames on the wire.
    pub(crate) bytes: u64,
    /// Earliest and latest time stamp.
    pub(crate) first: Option<Stamp>,
    pub(crate) last: Option<Stamp>,
    /// Nanoseconds between them.
    pub(crate) span_ns: u64,
    /// Packets without a time stamp: they got that of the packet before.
    pub(crate) without_time: u64,
    /// Packets with a time before that of a packet before them: the clock stood still for them.
    pub(crate) clock_backwards: u64,
    /// Packets by verdict; all verdicts.
    pub(crate) verdicts: BTreeMap<&'static str, u64>,
    /// Packets by reason; those that occurred.
    pub(crate) reasons: BTreeMap<&'static str, u64>,
    pub(crate) connections: Connections,
    /// What was wrong with captures.
    pub(crate) damage: Vec<Damage>,
}

/// Connections, counted.
#[derive(Debug, Serialize)]
pub(crate) struct Connections {
    pub(crate) opened: u64,
    /// By cause; those that occurred.
    pub(crate) ended: BTreeMap<&'static str, u64>,
    /// At the end of the captures.
    pub(crate) live: u64,
    /// The most entries at one time, those included that had timed out but were not removed yet.
    pub(crate) peak: u64,
    /// Those that are live, by protocol and state.
    pub(crate) by_state: Vec<StateCount>,
}

/// Live connections of one protocol and state.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StateCount {
    pub(crate) protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<&'static str>,
    pub(crate) count: u64,
}

/// Why a capture was not read to its end.
#[derive(Debug, Serialize)]
pub(crate) struct Damage {
    pub(crate) file: String,
    /// In bytes; in the decompressed stream if it is compressed.
    pub(crate) offset: u64,
    pub(crate) error: String,
}

fn as_text<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(value)
}

fn as_names<S: Serializer>(status: &ct::Status, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(status.names())
}

fn as_side_flags<S: Serializer>(flags: &ct::SideFlags, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(flags.names())
}

fn as_flags<S: Serializer>(flags: &u8, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(crate::frame::flag_names(*flags))
}

//! What `demux --sockets --format ndjson` prints, as types.

use std::io;
use std::net::IpAddr;

use serde::Serialize;

use super::answer::{Answer, Goes, Question};
use super::host::Host;
use super::tally::Tally;
use crate::out::Out;
use crate::ss;
use crate::stamp::Stamp;

/// A line for a datagram.
#[derive(Debug, Serialize)]
pub(super) struct Datagram<'a> {
    /// Number of the record in its capture, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) packet: Option<u64>,
    /// The capture, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Stamp>,
    datagram: Ends<'a>,
    /// `delivered`, `port-unreachable` or `dropped`.
    result: &'static str,
    /// Numbers of the sockets that get it; empty if that is up to the kernel's choice in `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a [usize]>,
    /// `hash4`, `hash2`, `hash2-any`, `hash` or `copies`.
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<&'static str>,
    /// The members of the reuseport group, one of which gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a [usize]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    why: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    steps: &'a [String],
}

#[derive(Debug, Serialize)]
struct Ends<'a> {
    src: IpAddr,
    sport: u16,
    dst: IpAddr,
    dport: u16,
    /// The arrival device, null if unknown.
    device: Option<&'a str>,
}

impl<'a> Datagram<'a> {
    pub(super) fn of(host: &'a Host, q: &Question<'_>, answer: &'a Answer) -> Self {
        let none: &[usize] = &[];
        let (result, to, group, reason) = match &answer.goes {
            Goes::To(number) => ("delivered", Some(std::slice::from_ref(number)), None, None),
            Goes::Copies(numbers) => ("delivered", Some(numbers.as_slice()), None, None),
            Goes::OneOf(members) => ("delivered", Some(none), Some(members.as_slice()), None),
            Goes::Nowhere => ("port-unreachable", None, None, None),
            Goes::Dropped(reason) => ("dropped", None, None, Some(*reason)),
        };
        Self {
            packet: None,
            file: None,
            time: None,
            datagram: Ends {
                src: q.source.ip(),
                sport: q.source.port(),
                dst: q.destination.ip(),
                dport: q.destination.port(),
                device: answer.device.map(|d| host.device_name(d)),
            },
            result,
            to,
            table: answer.table,
            group,
            reason,
            why: &answer.why,
            steps: &answer.steps,
        }
    }
}

#[derive(Debug, Serialize)]
struct End {
    addr: IpAddr,
    port: u16,
}

impl From<&ss::End> for End {
    fn from(end: &ss::End) -> Self {
        Self { addr: end.addr, port: end.port }
    }
}

#[derive(Debug, Serialize)]
struct Process<'a> {
    name: &'a str,
    pid: u32,
    fd: Option<u32>,
}

/// A socket of the listing.
#[derive(Debug, Serialize)]
struct Socket<'a> {
    /// The place in the listing, from 1.
    id: usize,
    /// The line of the listing.
    line: usize,
    family: u8,
    connected: bool,
    local: End,
    peer: Option<End>,
    device: Option<&'a str>,
    v6only: bool,
    uid: u32,
    ino: Option<u64>,
    processes: Vec<Process<'a>>,
}

impl<'a> Socket<'a> {
    fn of(number: usize, s: &'a ss::Socket) -> Self {
        let process = |p: &'a ss::Process| Process { name: &p.name, pid: p.pid, fd: p.fd };
        Self {
            id: number,
            line: s.line,
            family: if s.local.addr.is_ipv4() { 4 } else { 6 },
            connected: s.connected,
            local: (&s.local).into(),
            peer: s.peer.as_ref().map(End::from),
            device: s.device.as_deref(),
            v6only: s.v6only,
            uid: s.uid,
            ino: s.inode,
            processes: s.processes.iter().map(process).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
struct SocketLine<'a> {
    socket: Socket<'a>,
}

/// All sockets, a line each, and a summary.
pub(super) fn listing(host: &Host, foreign: usize, out: &mut Out) -> io::Result<()> {
    for (i, s) in host.sockets.iter().enumerate() {
        out.json(&SocketLine { socket: Socket::of(i + 1, s) })?;
    }
    #[derive(Serialize)]
    struct Summary {
        sockets: usize,
        other_protocols: usize,
        assumed: Vec<String>,
    }
    #[derive(Serialize)]
    struct Line {
        summary: Summary,
    }
    let assumed = host.assumed_of_sockets();
    out.json(&Line {
        summary: Summary { sockets: host.sockets.len(), other_protocols: foreign, assumed },
    })
}

/// The last line.
#[derive(Debug, Serialize)]
pub(super) struct SummaryLine<'a> {
    summary: Summary<'a>,
}

#[derive(Debug, Serialize)]
struct Summary<'a> {
    /// Records of the captures.
    packets: u64,
    /// Datagrams that were put to the sockets.
    datagrams: u64,
    /// Every socket that got some.
    sockets: Vec<Received<'a>>,
    groups: Vec<Group>,
    port_unreachable: u64,
    /// By reason.
    dropped: std::collections::BTreeMap<&'static str, u64>,
    /// Destinations without a socket.
    missed: Vec<Missed>,
    /// Datagrams that the host sent itself.
    sent: u64,
    /// Fragments behind the first, which have no ports.
    fragments: u64,
    /// Records that are no UDP.
    not_udp: u64,
    assumed: &'a [String],
}

#[derive(Debug, Serialize)]
struct Received<'a> {
    datagrams: u64,
    socket: Socket<'a>,
}

#[derive(Debug, Serialize)]
struct Group {
    datagrams: u64,
    members: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct Missed {
    datagrams: u64,
    dst: IpAddr,
    dport: u16,
}

impl<'a> SummaryLine<'a> {
    pub(super) fn of(host: &'a Host, tally: &Tally, assumed: &'a [String]) -> Self {
        let mut sockets = Vec::new();
        for (i, &datagrams) in tally.by_socket.iter().enumerate().filter(|(_, n)| **n > 0) {
            let socket = host.socket(i + 1).map(|s| Socket::of(i + 1, s));
            sockets.extend(socket.map(|socket| Received { datagrams, socket }));
        }
        let group = |(members, &datagrams): (&Vec<usize>, &u64)| Group {
            datagrams,
            members: members.clone(),
        };
        let missed = tally.missed().into_iter();
        let missed =
            missed.map(|(to, datagrams)| Missed { datagrams, dst: to.ip(), dport: to.port() });
        Self {
            summary: Summary {
                packets: tally.packets,
                datagrams: tally.datagrams,
                sockets,
                groups: tally.by_group.iter().map(group).collect(),
                port_unreachable: tally.nowhere,
                dropped: tally.dropped.clone(),
                missed: missed.collect(),
                sent: tally.sent,
                fragments: tally.fragments,
                not_udp: tally.others,
                assumed,
            },
        }
    }
}

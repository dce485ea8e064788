//! Which socket of a host gets a datagram, and why.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use fourtuple::udp::{
    AddressKind, Datagram, DeviceId, Event, Found, Mismatch, SocketId, Table, Tuple, Via,
};

use super::describe::{reason, show};
use super::host::Host;
use crate::ss;

/// Who gets it, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Goes {
    To(usize),
    /// To one of these, and nobody but the kernel knows to which.
    OneOf(Vec<usize>),
    Copies(Vec<usize>),
    /// "Port unreachable".
    Nowhere,
    /// Silently, with a word that says why.
    Dropped(&'static str),
}

/// A datagram as it came in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    /// The device, if the datagram names one.
    pub(super) device: Option<&'a str>,
    /// Whether it has a checksum.
    pub(super) checksum: bool,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) goes: Goes,
    /// The table that it was found in.
    pub(super) table: Option<&'static str>,
    pub(super) why: String,
    /// Empty unless asked for.
    pub(super) steps: Vec<String>,
    pub(super) device: Option<DeviceId>,
}

impl Host {
    pub(super) fn ask(&self, q: &Question<'_>, steps: bool) -> Answer {
        let (to, port) = (q.destination.ip(), q.destination.port());
        let device = self.arrival(to, q.device);
        let answer =
            |goes, table, why: String| Answer { goes, table, why, steps: Vec::new(), device };
        let Some(tuple) = Tuple::new(q.source, q.destination) else {
            return answer(Goes::Nowhere, None, "addresses of two families".to_owned());
        };
        let mut datagram = Datagram::new(tuple);
        datagram.device = device;
        datagram.checksum = q.checksum;
        if matches!(self.table.router().what(to), AddressKind::Multicast | AddressKind::Broadcast) {
            let mut out = Vec::new();
            self.table.deliver(&datagram, &mut out);
            let numbers = self.numbered(&out);
            return match numbers.len() {
                0 => answer(Goes::Dropped("no-listener"), None, self.why_nobody(q, device)),
                n => {
                    let why = format!("every socket that matches gets a copy: {n}");
                    answer(Goes::Copies(numbers), Some("copies"), why)
                }
            };
        }
        if to.is_unspecified() || port == 0 {
            let why = "no datagram is delivered to such an address or port".to_owned();
            return answer(Goes::Dropped("not-local"), None, why);
        }
        let mut events: Vec<Event> = Vec::new();
        let found = self.table.lookup_traced(&datagram, &mut events);
        let told = if steps { self.steps(&events, q) } else { Vec::new() };
        let answer = match found {
            Some(_) if to.is_ipv6() && !q.checksum => {
                let why = reason("zero-checksum").unwrap_or_default().to_owned();
                answer(Goes::Dropped("zero-checksum"), None, why)
            }
            Some(found) => self.delivered(&found, &events, device),
            None => answer(Goes::Nowhere, None, self.why_nobody(q, device)),
        };
        Answer { steps: told, ..answer }
    }

    fn delivered(&self, found: &Found, events: &[Event], device: Option<DeviceId>) -> Answer {
        let number = self.number(found.socket);
        let table = match found.via {
            Via::Table(table) => table,
            _ => Table::Hash2,
        };
        let connected = self.socket(number).is_some_and(|s| s.connected);
        let mut why = match table {
            Table::Hash4 => "connected to exactly this sender".to_owned(),
            Table::Hash2 if connected => {
                "bound to the destination and connected to the sender".to_owned()
            }
            Table::Hash2 => "bound to the destination address".to_owned(),
            Table::Hash2Any => {
                "bound to any address, and no socket to the destination fits better".to_owned()
            }
            Table::Hash => "found by port alone".to_owned(),
        };
        if table != Table::Hash4 {
            let (best, equals, candidates) = scores(events, table);
            let _ = write!(why, "; score {best}, the best of {candidates}");
            if equals > 1 && !found.by_group {
                let _ = write!(why, "; the newest of {equals} equals, which ss lists first");
            }
        }
        let mut goes = Goes::To(number);
        if found.by_group {
            let members = self.table.group_of(found.socket).to_vec();
            let members: Vec<SocketId> = members
                .into_iter()
                .filter(|&m| self.table.info(m).is_ok_and(|i| !i.connected))
                .collect();
            if members.len() > 1 {
                let _ = write!(
                    why,
                    "; the kernel's secret hash, or a BPF program, chooses in the reuseport group of {}",
                    members.len()
                );
                goes = Goes::OneOf(self.numbered(&members));
            }
        }
        Answer { goes, table: Some(found.via.name()), why, steps: Vec::new(), device }
    }

    fn numbered(&self, sockets: &[SocketId]) -> Vec<usize> {
        let mut numbers: Vec<usize> = sockets.iter().map(|&s| self.number(s)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// What stands on the port, and what is wrong with each.
    fn why_nobody(&self, q: &Question<'_>, device: Option<DeviceId>) -> String {
        const SHOWN: usize = 4;
        let on_port = self.on_port(q.destination.port());
        if on_port.is_empty() {
            return format!("no socket has port {}", q.destination.port());
        }
        let mut why = String::new();
        for (i, &number) in on_port.iter().enumerate().take(SHOWN) {
            let Some(s) = self.socket(number) else { continue };
            let mismatch = mismatch(s, q, device.map(|d| self.device_name(d)));
            let _ =
                write!(why, "{}{}: {mismatch}", if i == 0 { "" } else { "; " }, self.name(number));
        }
        if on_port.len() > SHOWN {
            let _ = write!(why, "; and {} more sockets on the port", on_port.len() - SHOWN);
        }
        why
    }

    /// The look-up, step by step.
    fn steps(&self, events: &[Event], q: &Question<'_>) -> Vec<String> {
        let mut out = Vec::new();
        let mut rest = events;
        while let Some((event, behind)) = rest.split_first() {
            rest = behind;
            let same = refusal(event);
            let run = behind.iter().take_while(|e| same.is_some() && refusal(e) == same).count();
            // Of many sockets that fail alike a few are enough.
            if let (Some(why), 3..) = (same, run) {
                out.push(self.step(event, q));
                out.push(format!("  {run} more sockets: no candidates, {}", why.name()));
                rest = &behind[run..];
            } else {
                out.push(self.step(event, q));
            }
        }
        out
    }

    fn step(&self, event: &Event, q: &Question<'_>) -> String {
        let to = q.destination;
        let named = |s: &SocketId| self.name(self.number(*s));
        match event {
            Event::TupleSkipped => {
                "hash4, by 4-tuple: not looked at, the slot counts no connected socket".to_owned()
            }
            Event::Search(Table::Hash4, _) => {
                format!("hash4, by 4-tuple: connected to {} at {to}", q.source)
            }
            Event::Search(Table::Hash2, _) => format!("hash2, by port and address: bound to {to}"),
            Event::Search(Table::Hash2Any, _) => {
                format!("hash2, by port and address: bound to any address, port {}", to.port())
            }
            Event::Search(Table::Hash, _) => format!("hash, by port: {}", to.port()),
            Event::Tuple(s, Ok(())) => format!("  {}: the 4-tuple matches", named(s)),
            Event::Tuple(s, Err(why)) | Event::Score(s, Err(why)) => {
                format!("  {}: no candidate, {}", named(s), why.name())
            }
            Event::Score(s, Ok(score)) => format!("  {}: score {score}", named(s)),
            Event::Group { size, .. } => {
                format!("  that one stands in a reuseport group of {size}, which chooses by hash")
            }
            // No program is attached here.
            Event::GroupDrop | Event::Program(_) => "  a program decides".to_owned(),
        }
    }
}

fn refusal(event: &Event) -> Option<Mismatch> {
    match event {
        Event::Tuple(_, Err(why)) | Event::Score(_, Err(why)) => Some(*why),
        _ => None,
    }
}

/// The best score of the last reading of a table, how many have it, and how many have any.
fn scores(events: &[Event], table: Table) -> (i32, usize, usize) {
    let start = events.iter().rposition(|e| matches!(e, Event::Search(t, _) if *t == table));
    let scores = events[start.map_or(events.len(), |s| s + 1)..].iter().map_while(|e| match e {
        Event::Search(..) => None,
        Event::Score(_, Ok(score)) => Some(Some(*score)),
        _ => Some(None),
    });
    let all: Vec<i32> = scores.flatten().collect();
    let best = all.iter().copied().max().unwrap_or(0);
    (best, all.iter().filter(|&&s| s == best).count(), all.len())
}

/// The first thing that keeps a socket of the right port from a datagram.
fn mismatch(s: &ss::Socket, q: &Question<'_>, device: Option<&str>) -> String {
    let (to, from) = (q.destination.ip(), q.source);
    let local = s.local.addr.to_canonical();
    let speaks = match to {
        IpAddr::V4(_) => !s.v6only && (local.is_ipv4() || local.is_unspecified()),
        IpAddr::V6(_) => s.local.addr.is_ipv6() && (local.is_ipv6() || local.is_unspecified()),
    };
    if !speaks {
        return format!("takes no IPv{}", if to.is_ipv4() { 4 } else { 6 });
    }
    if !local.is_unspecified() && local != to {
        return format!("bound to {local}");
    }
    if let Some(peer) = &s.peer {
        let addr = peer.addr.to_canonical();
        if (addr != from.ip() && !addr.is_unspecified())
            || (peer.port != from.port() && peer.port != 0)
        {
            return format!("connected to {}", show(addr, peer.port));
        }
    }
    match (&s.device, device) {
        (Some(bound), Some(by)) if bound != by => format!("bound to device {bound}, not {by}"),
        (Some(bound), None) => {
            format!("bound to device {bound}; by which one does the datagram come? (--device)")
        }
        _ => "does not take it".to_owned(),
    }
}

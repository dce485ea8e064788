//! The choice of a port where the caller names none.

use fourtuple_hash::reduce;

use crate::claims::{Claim, Relation};
use crate::hash::Seeds;
use crate::profile::Rule;
use crate::route::Router;
use crate::sockets::NONE;
use crate::writer::Writer;

/// A set of ports.
struct Ports(Box<[u64; 1024]>);

impl Ports {
    fn set(&mut self, port: u16) {
        self.0[usize::from(port >> 6)] |= 1 << (port & 63);
    }

    fn has(&self, port: u16) -> bool {
        self.0[usize::from(port >> 6)] & 1 << (port & 63) != 0
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }
}

impl<R: Router> Writer<'_, R> {
    /// The range to choose from: each bound of the socket's own replaces the namespace's if it lies
    /// within that.
    fn port_range(&self, index: u32) -> (u16, u16) {
        let (low, high) = self.net(self.socket(index).net).config().port_range;
        let (own_low, own_high) = self.rare(index).map_or((0, 0), |r| r.port_range);
        let within = |port: u16| port != 0 && (low..=high).contains(&port);
        (
            if within(own_low) { own_low } else { low },
            if within(own_high) { own_high } else { high },
        )
    }

    /// A port in range that is not reserved and not taken: a random start, then slot by slot, and in
    /// each slot by random odd multiples of the table's size.
    pub(crate) fn free_port(&mut self, index: u32) -> Option<u16> {
        let (low, high) = self.port_range(index);
        if low > high {
            return None;
        }
        let span = u32::from(high - low) + 1;
        let first = low.wrapping_add(reduce(self.random(), span) as u16);
        let slots = self.ports.len();
        // 65536 slots make the step 0: each slot has one port.
        let step = (self.random() | 1).wrapping_mul(slots as u32) as u16;
        let mut taken = Ports(Box::new([0; 1024]));
        let s = self.socket(index);
        let config = self.net(s.net).config();
        let reserved = &config.reserved_ports;
        for offset in 0..slots {
            let start = first.wrapping_add(offset as u16);
            let usable = |port: u16| (low..=high).contains(&port) && !reserved.contains(&port);
            let mut port = start;
            let mut scanned = false;
            loop {
                if usable(port) {
                    if !scanned {
                        self.mark_taken(index, start, &mut taken);
                        scanned = true;
                    }
                    if !taken.has(port) && !self.claimed(index, port) {
                        return Some(port);
                    }
                }
                port = port.wrapping_add(step);
                if port == start {
                    break;
                }
            }
        }
        None
    }

    /// Marks the ports of one slot that conflicting sockets hold, as the kernel does: sockets that
    /// would share do not count.
    fn mark_taken(&self, index: u32, port: u16, taken: &mut Ports) {
        taken.clear();
        if !self.profile.has(Rule::PortChosenTwice) {
            return;
        }
        let s = self.socket(index);
        let claim = Claim::of(&s);
        let grouped = self.shared.group(index) != NONE;
        for other in self.ports.chain(&self.shared, Seeds::port(self.net(s.net), port)) {
            let theirs = Claim::of(&self.socket(other.index));
            if other.net == s.net && claim.relation(&theirs, grouped) == Relation::Conflict {
                taken.set(other.port);
            }
        }
    }

    /// In [`Profile::Strict`](crate::Profile::Strict): whether any socket of the port overlaps, willing
    /// to share or not.
    fn claimed(&self, index: u32, port: u16) -> bool {
        if self.profile.has(Rule::PortChosenTwice) {
            return false;
        }
        let s = self.socket(index);
        let claim = Claim::of(&s);
        self.state.claims.on(s.net, port).iter().any(|(e, _)| claim.overlaps(e))
    }
}

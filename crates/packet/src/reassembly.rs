//! Reassembly of IPv4 and IPv6 fragments as Linux connection tracking does it in front of its table.
//!
//! The rules are those of Linux 6.18 (`ip_defrag`, `nf_ct_frag6_gather`), each seen on a running kernel; they go back to
//! RFC 791, RFC 8200 section 4.5 and RFC 5722 (overlaps). The families differ, and the differences are kept.
//!
//! Not modelled: the receiving device as part of the key (IPv6 multicast and link-local destinations, VRFs), and the
//! ICMP errors that a host sends when a datagram's time is up.

mod queue;
mod store;
mod types;

pub use types::{
    Datagram, FragmentError, Incomplete, Limits, Outcome, PassThrough, ReassemblyCounters,
};

use crate::ip::{self, Family, Packet, protocol};
use crate::time::{Instant, Span};
use queue::{Added, Piece, Rules};
use store::{Key, Store};

/// Queues of one family whose time is up that one call removes at most. A call makes one queue at most, so queues
/// cannot pile up; the queue that a fragment belongs to is always judged by its own time.
const EXPIRE_PER_CALL: usize = 32;

/// Collects fragments into datagrams.
///
/// Memory is bounded by [`Limits`]: it is counted as Linux counts it, with the overhead of a packet buffer to each
/// fragment, and once it is above the mark every further fragment is refused until datagrams complete or time out.
/// What is really allocated is less than that count (and one datagram of 64 KiB per family for output).
///
/// It is the only part of this crate that allocates. Work for a fragment is bounded too: a binary search among the
/// runs of its datagram, and at completion one pass over it.
#[derive(Debug)]
pub struct Reassembler {
    limits: Limits,
    max_dist: u32,
    v4: Store,
    v6: Store,
    /// The last datagram completed: what [`Datagram::bytes`] points into.
    out: Vec<u8>,
    counters: ReassemblyCounters,
}

impl Reassembler {
    /// One that holds no fragments yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            max_dist: 64,
            v4: Store::default(),
            v6: Store::default(),
            out: Vec::new(),
            counters: ReassemblyCounters::default(),
        }
    }

    /// Sets `net.ipv4.ipfrag_max_dist`: an IPv4 datagram starts anew when more than this many fragments of others
    /// came from its source since its own last one (whose 16-bit id has then probably wrapped). Default 64; 0: never.
    #[must_use]
    pub const fn max_dist(mut self, fragments: u32) -> Self {
        self.max_dist = fragments;
        self
    }

    /// Takes a packet in. Fragments of one datagram must come with the same `user`: what the caller wants to keep
    /// apart (Linux: hook and zone of the template).
    ///
    /// `now` should not go backwards; if it does, time-outs come late.
    pub fn push(&mut self, now: Instant, packet: &Packet<'_>, user: u32) -> Outcome<'_> {
        let Some(fragment) = packet.fragment else {
            // A payload length of zero is not looked into.
            let cut = packet.is_for_reassembly() && packet.len > 40;
            return if cut { self.drop(FragmentError::HeaderCut) } else { Outcome::NotFragment };
        };
        self.counters.fragments += 1;
        let kept = packet.bytes;
        let header_at = fragment.header_at as usize;
        let (rules, header_end, payload_at) = match packet.family {
            Family::V4 => (Rules::V4, packet.l4_offset, packet.l4_offset),
            Family::V6 => {
                if let Some(reason) = passes(packet, header_at) {
                    self.counters.passed += 1;
                    return Outcome::PassThrough(reason);
                }
                (Rules::V6, header_at, header_at + 8)
            }
        };
        let piece = Piece {
            offset: fragment.offset,
            end: fragment.offset + packet.len - payload_at as u32,
            more: fragment.more,
            header: &kept[..header_end],
            payload: kept.get(payload_at..).unwrap_or(&[]),
            chain_at: fragment.chain_at as usize,
            next: match packet.family {
                Family::V4 => packet.protocol,
                Family::V6 => kept[header_at],
            },
            packet_len: packet.len,
        };
        let key = Key {
            src: packet.src,
            dst: packet.dst,
            id: fragment.id,
            // An IPv6 datagram is known without its protocol (RFC 8200, section 4.5).
            protocol: if packet.family == Family::V4 { packet.protocol } else { 0 },
            user,
        };
        self.gather(now, rules, key, &piece)
    }

    fn gather(&mut self, now: Instant, rules: Rules, key: Key, piece: &Piece<'_>) -> Outcome<'_> {
        let (timeout, limit) = self.limits_of(rules);
        let max_dist = if rules == Rules::V4 { self.max_dist } else { 0 };
        let store = match rules {
            Rules::V4 => &mut self.v4,
            Rules::V6 => &mut self.v6,
        };
        self.counters.expired += store.expire(now, EXPIRE_PER_CALL) as u64;
        // Asked before the fragment is added, so that the count may end above the mark by one fragment. Existing
        // datagrams are refused as well.
        if limit == 0 || store.charged() > limit {
            let used = store.charged();
            return self.drop(FragmentError::Memory { used, limit });
        }
        let (at, expired) = store.find_or_make(key, now, timeout, max_dist != 0);
        self.counters.expired += u64::from(expired);
        if max_dist != 0 && store.too_far(at, max_dist) {
            self.counters.failed += 1;
            store.restart(at, now, timeout);
        }
        let added = store.with_queue(at, |q| q.add(rules, piece));
        match added {
            Added::Waiting => Outcome::Waiting,
            Added::Complete => {
                let done = store.queue(at).finish(rules, &mut self.out);
                store.remove(at);
                match done {
                    Ok(facts) => {
                        self.counters.completed += 1;
                        Outcome::Complete(Datagram {
                            bytes: &self.out,
                            len: facts.len,
                            cut: (self.out.len() as u32) < facts.len,
                            fragments: facts.fragments,
                        })
                    }
                    Err(e) => self.fail(e),
                }
            }
            Added::Refused(e) => self.drop(e),
            Added::Kill(e) => {
                store.remove(at);
                self.fail(e)
            }
            Added::KillAndPass(reason) => {
                store.remove(at);
                self.counters.failed += 1;
                self.counters.passed += 1;
                Outcome::PassThrough(reason)
            }
        }
    }

    const fn limits_of(&self, rules: Rules) -> (Span, usize) {
        match rules {
            Rules::V4 => (self.limits.v4_timeout, self.limits.v4_high_thresh),
            Rules::V6 => (self.limits.v6_timeout, self.limits.v6_high_thresh),
        }
    }

    fn drop(&mut self, e: FragmentError) -> Outcome<'_> {
        match e {
            FragmentError::Duplicate { .. } => self.counters.duplicates += 1,
            FragmentError::Memory { .. } => self.counters.over_memory += 1,
            _ => self.counters.refused += 1,
        }
        Outcome::Dropped(e)
    }

    /// The fragment is dropped and so is all that was collected of its datagram.
    fn fail(&mut self, e: FragmentError) -> Outcome<'_> {
        self.counters.failed += 1;
        if matches!(e, FragmentError::Overlap { .. }) {
            self.counters.overlaps += 1;
        }
        Outcome::Dropped(e)
    }

    /// Drops what has timed out by `now`, all of it, and says how many datagrams that were. [`Self::push`] does this
    /// on its way; a caller whose traffic has stopped may want the memory back.
    pub fn expire(&mut self, now: Instant) -> usize {
        let n = self.v4.expire(now, usize::MAX) + self.v6.expire(now, usize::MAX);
        self.counters.expired += n as u64;
        n
    }

    /// What has happened so far.
    pub const fn counters(&self) -> ReassemblyCounters {
        self.counters
    }

    /// Memory in use as it is compared with the marks: IPv4, IPv6.
    pub const fn memory(&self) -> (usize, usize) {
        (self.v4.charged(), self.v6.charged())
    }

    /// The datagrams that wait for fragments, IPv4 first, by the time of their first fragment.
    pub fn incomplete(&self) -> impl Iterator<Item = Incomplete> + '_ {
        let v4 = self.v4.waiting(Family::V4);
        v4.chain(self.v6.waiting(Family::V6))
    }
}

impl Default for Reassembler {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

/// Why Linux does not collect this IPv6 fragment, if it does not.
fn passes(packet: &Packet<'_>, header_at: usize) -> Option<PassThrough> {
    let bytes = packet.bytes;
    if bytes[4..6] == [0, 0] {
        return Some(PassThrough::Jumbo);
    }
    let (need, there) = headers_end(bytes, packet.len, header_at)?;
    (need > there).then_some(PassThrough::HeadersTruncated { need, there })
}

/// Where the headers of a first fragment end and where the fragment does (`ipv6frag_thdr_truncated`; RFC 8200, section
/// 4.5, "must include all headers through the upper-layer header"). None if it is not a first one, or its header
/// chain cannot be followed.
fn headers_end(bytes: &[u8], len: u32, header_at: usize) -> Option<(u32, u32)> {
    let walk = ip::walk_from(bytes, len, protocol::FRAGMENT, header_at, 0);
    if walk.end.is_err() || walk.last_fragment.is_some_and(|f| f.offset != 0) {
        return None;
    }
    let header = match walk.protocol {
        protocol::TCP => 20,
        protocol::UDP | protocol::ICMPV6 => 8,
        _ => 1,
    };
    Some((walk.announced as u32 + header, len))
}

#[cfg(test)]
mod tests;

//! What a look-up reads of a socket: one cache line that does not change while it stands in a chain.
//!
//! A change of a socket's addresses, ports, device or flags makes a new entry, puts it in its place
//! and takes the old one out; so a look-up meets the socket as it was or as it is, never a mixture. An
//! entry that was taken out is used again, for whatever socket, under the next *version*. Links carry
//! the version of the entry they point to: who comes to an entry by a link from before its last use
//! sees that it is another one, and starts again at the head of the chain.

use crate::addr::{PLACEHOLDER, unmap};
use crate::net::NetId;
use crate::sockets::{Flags, Socket, SocketId};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// A place and its version or generation, in one word.
pub(crate) type Link = u64;

/// The end of a chain.
pub(crate) const NIL: Link = u64::MAX;

/// Place and version as a link.
#[inline]
pub(crate) const fn link(index: u32, version: u32) -> Link {
    (index as u64) << 32 | version as u64
}

#[inline]
pub(crate) const fn index_of(link: Link) -> u32 {
    (link >> 32) as u32
}

/// One socket in one chain.
///
/// Words: R (two), P (two), version and ports, socket and generation, device, flags and namespace.
/// Of an IPv4 socket the lower halves of R and P are its addresses, the upper ones are zero.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Entry {
    /// The next in the chain. It alone changes while the entry stands in one.
    pub(crate) next: AtomicU64,
    words: [AtomicU64; 7],
}

const VERSION: usize = 4;

/// A consistent copy of an entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct View {
    pub(crate) r: u128,
    pub(crate) p: u128,
    /// R and P of IPv4, where they do not follow from the IPv6 ones (see [`Flags::ODD4`]).
    pub(crate) odd: u64,
    pub(crate) port: u16,
    pub(crate) peer_port: u16,
    pub(crate) index: u32,
    pub(crate) generation: u32,
    pub(crate) device: u32,
    pub(crate) flags: Flags,
    pub(crate) net: NetId,
}

impl Entry {
    pub(crate) fn new() -> Self {
        Self { next: AtomicU64::new(NIL), words: std::array::from_fn(|_| AtomicU64::new(0)) }
    }

    /// Writer only.
    pub(crate) fn version(&self) -> u32 {
        (self.words[VERSION].load(Ordering::Relaxed) >> 32) as u32
    }

    /// The entry's contents and its link, if it is still the one that a link with `version` meant.
    #[inline]
    pub(crate) fn read(&self, version: u32) -> Option<(View, Link)> {
        // Pairs with the last store of `write`.
        let w4 = self.words[VERSION].load(Ordering::Acquire);
        if (w4 >> 32) as u32 != version {
            return None;
        }
        let word = |i: usize| self.words[i].load(Ordering::Relaxed);
        let (r, p) = ((word(0), word(1)), (word(2), word(3)));
        let (w5, w6) = (word(5), word(6));
        // Pairs with the stores of the chain's writer: what the link leads to is written before.
        let next = self.next.load(Ordering::Acquire);
        // If a word above was of a later use, so is the version below (`write` stores it first).
        fence(Ordering::Acquire);
        if self.words[VERSION].load(Ordering::Relaxed) != w4 {
            return None;
        }
        let view = View {
            r: u128::from(r.0) << 64 | u128::from(r.1),
            p: u128::from(p.0) << 64 | u128::from(p.1),
            odd: 0,
            port: (w4 >> 16) as u16,
            peer_port: w4 as u16,
            index: (w5 >> 32) as u32,
            generation: w5 as u32,
            device: (w6 >> 32) as u32,
            flags: Flags::from_bits((w6 >> 16) as u16),
            net: NetId(w6 as u16),
        };
        Some((view, next))
    }

    /// Makes the entry another one; it must not stand in a chain. Returns the link to it.
    pub(crate) fn write(&self, at: u32, view: &View) -> Link {
        // Odd while it is being written: no link has such a version.
        let version = self.version().wrapping_add(1);
        self.words[VERSION].store(u64::from(version) << 32, Ordering::Relaxed);
        // Pairs with the fence of `read`.
        fence(Ordering::Release);
        let set = |i: usize, word: u64| self.words[i].store(word, Ordering::Relaxed);
        set(0, (view.r >> 64) as u64);
        set(1, view.r as u64);
        set(2, (view.p >> 64) as u64);
        set(3, view.p as u64);
        set(5, u64::from(view.index) << 32 | u64::from(view.generation));
        let flags = u64::from(view.flags.bits16()) << 16;
        set(6, u64::from(view.device) << 32 | flags | u64::from(view.net.0));
        self.next.store(NIL, Ordering::Relaxed);
        let version = version.wrapping_add(1);
        let ports = u64::from(view.port) << 16 | u64::from(view.peer_port);
        self.words[VERSION].store(u64::from(version) << 32 | ports, Ordering::Release);
        link(at, version)
    }
}

impl View {
    /// What look-ups see of a socket.
    pub(crate) fn of(s: &Socket, index: u32) -> Self {
        let mut view = Self {
            r: s.r6,
            p: s.p6,
            odd: 0,
            port: s.port,
            peer_port: s.peer_port,
            index,
            generation: s.generation,
            device: s.device,
            flags: Flags::from_bits(s.flags.bits16()),
            net: s.net,
        };
        if !s.is6() {
            (view.r, view.p) = (u128::from(s.r4), u128::from(s.p4));
        }
        view.flags.set(Flags::ODD4, false);
        if (view.r4(), view.p4()) != (s.r4, s.p4) {
            view.flags.set(Flags::ODD4, true);
            view.odd = u64::from(s.r4) << 32 | u64::from(s.p4);
        }
        view
    }

    #[inline]
    pub(crate) const fn id(&self) -> SocketId {
        SocketId { index: self.index, generation: self.generation }
    }

    #[inline]
    pub(crate) const fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    #[inline]
    pub(crate) const fn is6(&self) -> bool {
        self.has(Flags::FAMILY6)
    }

    #[inline]
    pub(crate) const fn connected(&self) -> bool {
        self.has(Flags::CONNECTED)
    }

    /// An IPv6 socket at an IPv6 address.
    #[inline]
    pub(crate) const fn native6(&self) -> bool {
        self.is6() && self.r != 0 && unmap(self.r).is_none()
    }

    /// The IPv4 half of R.
    #[inline]
    pub(crate) const fn r4(&self) -> u32 {
        if !self.is6() {
            self.r as u32
        } else if self.has(Flags::ODD4) {
            (self.odd >> 32) as u32
        } else if self.r == 0 {
            0
        } else {
            match unmap(self.r) {
                Some(v4) => v4,
                None => PLACEHOLDER,
            }
        }
    }

    /// The IPv4 half of P.
    #[inline]
    pub(crate) const fn p4(&self) -> u32 {
        if !self.is6() {
            self.p as u32
        } else if self.has(Flags::ODD4) {
            self.odd as u32
        } else {
            match unmap(self.p) {
                Some(v4) => v4,
                None => 0,
            }
        }
    }
}

/// What does not change with a socket's place: one for each socket.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The entry that holds the socket's present state; [`NIL`] for none.
    pub(crate) entry: AtomicU64,
    /// The next socket of the port's chain.
    pub(crate) next: AtomicU64,
    /// Counts the stays in chains of ports; a link there names the stay it means.
    pub(crate) stay: AtomicU32,
    pub(crate) generation: AtomicU32,
    /// Index of the reuseport group, or [`NONE`](crate::sockets::NONE).
    pub(crate) group: AtomicU32,
    /// `SO_INCOMING_CPU`, as two's complement.
    cpu: AtomicU32,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            entry: AtomicU64::new(NIL),
            next: AtomicU64::new(NIL),
            stay: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            group: AtomicU32::new(crate::sockets::NONE),
            cpu: AtomicU32::new(u32::MAX),
        }
    }

    #[inline]
    pub(crate) fn cpu(&self) -> i32 {
        self.cpu.load(Ordering::Relaxed).cast_signed()
    }

    pub(crate) fn set_cpu(&self, cpu: i32) {
        self.cpu.store(cpu.cast_unsigned(), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::options::Family;

    #[test]
    fn one_cache_line() {
        assert_eq!((size_of::<Entry>(), align_of::<Entry>()), (64, 64));
        assert_eq!(size_of::<Seat>(), 32);
    }

    #[test]
    fn what_is_written_is_read_under_its_version_only() {
        let entry = Entry::new();
        let mut s = Socket::new(Family::V6, NetId(3));
        (s.r6, s.p6, s.r4, s.p4) = (u128::MAX - 7, 1 << 100, PLACEHOLDER, 0);
        (s.port, s.peer_port, s.device, s.generation) = (65_535, 1, u32::MAX, 9);
        s.flags.set(Flags::CONNECTED, true);
        let first = entry.write(5, &View::of(&s, 77));
        assert_eq!(index_of(first), 5);
        let (view, next) = entry.read(first as u32).unwrap();
        assert_eq!((view.r, view.p, view.port, view.peer_port), (s.r6, s.p6, 65_535, 1));
        assert_eq!((view.index, view.generation, view.device), (77, 9, u32::MAX));
        assert_eq!((view.net, view.connected(), view.is6(), next), (NetId(3), true, true, NIL));
        assert_eq!((view.r4(), view.p4(), view.has(Flags::ODD4)), (PLACEHOLDER, 0, false));
        let second = entry.write(5, &view);
        assert_ne!(first, second);
        assert!(entry.read(first as u32).is_none());
        assert!(entry.read(second as u32).is_some());
    }

    #[test]
    fn addresses_that_do_not_follow_are_odd() {
        let mut s = Socket::new(Family::V6, NetId::FIRST);
        assert!(!View::of(&s, 0).has(Flags::ODD4));
        s.p4 = 5;
        let view = View::of(&s, 0);
        assert!(view.has(Flags::ODD4));
        assert_eq!((view.r4(), view.p4()), (0, 5));
    }
}

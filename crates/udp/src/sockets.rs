//! The sockets themselves: a slab of fixed-size entries, indexed by a small id.

use std::net::{IpAddr, Ipv4Addr};

use crate::addr::is_multicast4;
use crate::net::NetId;
use crate::options::Family;
use crate::route::DeviceId;

/// A socket. An id is never given to a second socket (until 2^32 sockets used its place).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// The place in the slab: small, dense, and used again after a close.
    #[must_use]
    pub const fn index(self) -> u32 {
        self.index
    }
}

/// End of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// How many lists a socket can stand in.
pub(crate) const LISTS: usize = if cfg!(feature = "hash4") { 3 } else { 2 };

/// Neighbours in one chain, as indices into the slab.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) prev: u32,
    pub(crate) next: u32,
}

impl Link {
    pub(crate) const OUT: Self = Self { prev: NONE, next: NONE };
}

/// The booleans of a socket in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags(u32);

macro_rules! flags {
    ($($name:ident = $bit:literal,)*) => {
        impl Flags { $(pub(crate) const $name: Self = Self(1 << $bit);)* }
    };
}

flags! {
    IN_USE = 0,
    FAMILY6 = 1,
    CONNECTED = 2,
    HASHED = 3,
    V6ONLY = 4,
    REUSE = 5,
    REUSEPORT = 6,
    ADDR_LOCK = 7,
    PORT_LOCK = 8,
    // The port was chosen by bind, whether or not the caller named it.
    PORT_BY_BIND = 9,
    BROADCAST = 10,
    FREEBIND = 11,
    TRANSPARENT = 12,
    NO_PORT = 13,
    MC_ALL4 = 14,
    MC_ALL6 = 15,
    RECVERR4 = 16,
    RECVERR6 = 17,
    IN_HASH2 = 18,
    PRIVILEGED = 20,
    NO_CHECK6 = 21,
    PMTU_DONT4 = 22,
    PMTU_DONT6 = 23,
    // Made by connect_from beside sockets that bind would not have allowed.
    BY_TUPLE = 24,
}

#[cfg(feature = "hash4")]
flags! {
    IN_HASH4 = 19,
}

impl Flags {
    #[inline]
    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline]
    pub(crate) const fn set(&mut self, flag: Self, on: bool) {
        if on {
            self.0 |= flag.0;
        } else {
            self.0 &= !flag.0;
        }
    }
}

/// One membership in a multicast group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Membership {
    /// Whether a source was ever listed.
    pub(crate) listed: bool,
    pub(crate) group: IpAddr,
    pub(crate) device: DeviceId,
    /// Exclude mode: the listed sources are the ones that are not heard.
    pub(crate) exclude: bool,
    pub(crate) sources: Vec<IpAddr>,
}

/// What only few sockets have, and what no unicast look-up reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rare {
    pub(crate) memberships: Vec<Membership>,
    pub(crate) port_range: (u16, u16),
    pub(crate) multicast_if4: u32,
    pub(crate) multicast_source4: u32,
    pub(crate) multicast_if6: u32,
    pub(crate) unicast_if: u32,
}

/// A socket. Addresses are numbers in host order; "any" is 0.
///
/// `r` is the address received on, `s` the one sent from, `p` the peer's; each for both families,
/// because a dual-stack socket takes part in both kinds of look-up.
#[derive(Debug, Clone)]
pub(crate) struct Socket {
    pub(crate) r6: u128,
    pub(crate) p6: u128,
    pub(crate) s6: u128,
    pub(crate) r4: u32,
    pub(crate) p4: u32,
    pub(crate) s4: u32,
    pub(crate) flags: Flags,
    /// Index of the device the socket is bound to; 0 for none.
    pub(crate) device: u32,
    /// -1 for none.
    pub(crate) incoming_cpu: i32,
    /// Index of the reuseport group, or [`NONE`].
    pub(crate) group: u32,
    /// Place among the group's members.
    pub(crate) group_pos: u32,
    pub(crate) uid: u32,
    pub(crate) generation: u32,
    /// Hash of port and address under which the socket stands in the second table.
    pub(crate) hash2: u32,
    /// Hash of the 4-tuple under which the socket stands in the third table.
    #[cfg(feature = "hash4")]
    pub(crate) hash4: u32,
    pub(crate) links: [Link; LISTS],
    pub(crate) net: NetId,
    pub(crate) port: u16,
    pub(crate) peer_port: u16,
    pub(crate) rare: Option<Box<Rare>>,
}

impl Socket {
    pub(crate) fn new(family: Family, net: NetId) -> Self {
        let mut flags = Flags::default();
        flags.set(Flags::IN_USE, true);
        flags.set(Flags::FAMILY6, family == Family::V6);
        // The default of IP_MULTICAST_ALL differs by family, that of IPV6_MULTICAST_ALL does not.
        flags.set(Flags::MC_ALL4, family == Family::V4);
        flags.set(Flags::MC_ALL6, true);
        Self {
            r6: 0,
            p6: 0,
            s6: 0,
            r4: 0,
            p4: 0,
            s4: 0,
            flags,
            device: 0,
            incoming_cpu: -1,
            group: NONE,
            group_pos: 0,
            uid: 0,
            generation: 0,
            hash2: 0,
            #[cfg(feature = "hash4")]
            hash4: 0,
            links: [Link::OUT; LISTS],
            net,
            port: 0,
            peer_port: 0,
            rare: None,
        }
    }

    #[inline]
    pub(crate) const fn is6(&self) -> bool {
        self.flags.has(Flags::FAMILY6)
    }

    #[inline]
    pub(crate) const fn has(&self, flag: Flags) -> bool {
        self.flags.has(flag)
    }

    #[inline]
    pub(crate) const fn connected(&self) -> bool {
        self.flags.has(Flags::CONNECTED)
    }

    #[inline]
    pub(crate) const fn hashed(&self) -> bool {
        self.flags.has(Flags::HASHED)
    }

    #[cfg(feature = "hash4")]
    #[inline]
    pub(crate) const fn in_hash4(&self) -> bool {
        self.flags.has(Flags::IN_HASH4)
    }

    /// Whether R is the family's any. `::ffff:0.0.0.0` is not.
    #[inline]
    pub(crate) const fn any(&self) -> bool {
        if self.is6() { self.r6 == 0 } else { self.r4 == 0 }
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(Box::default)
    }

    /// Whether the kernel would send from this socket to a v4 group by another device.
    pub(crate) fn out_device4(&self, destination: u32) -> u32 {
        if self.device != 0 {
            return self.device;
        }
        let Some(rare) = &self.rare else { return 0 };
        if is_multicast4(destination) { rare.multicast_if4 } else { rare.unicast_if }
    }

    /// `getsockname`.
    pub(crate) fn local(&self) -> (IpAddr, u16) {
        let addr = if self.is6() {
            crate::addr::ip6(if self.r6 == 0 { self.s6 } else { self.r6 })
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(if self.r4 == 0 { self.s4 } else { self.r4 }))
        };
        (addr, self.port)
    }

    /// `getpeername`; `None` is `ENOTCONN`, which a peer with port 0 gets too.
    pub(crate) fn peer(&self) -> Option<(IpAddr, u16)> {
        if !self.connected() || self.peer_port == 0 {
            return None;
        }
        let addr = if self.is6() { crate::addr::ip6(self.p6) } else { crate::addr::ip4(self.p4) };
        Some((addr, self.peer_port))
    }
}

/// All sockets of a table.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    entries: Vec<Socket>,
    free: Vec<u32>,
}

impl Sockets {
    /// Puts a socket in; `None` if there are 2^32 - 1 already.
    pub(crate) fn insert(&mut self, mut socket: Socket) -> Option<SocketId> {
        if let Some(index) = self.free.pop() {
            let place = &mut self.entries[index as usize];
            let generation = place.generation.wrapping_add(1);
            socket.generation = generation;
            *place = socket;
            return Some(SocketId { index, generation });
        }
        let index = u32::try_from(self.entries.len()).ok().filter(|&i| i != NONE)?;
        self.entries.push(socket);
        Some(SocketId { index, generation: 0 })
    }

    pub(crate) fn remove(&mut self, index: u32) {
        let place = &mut self.entries[index as usize];
        place.flags.set(Flags::IN_USE, false);
        place.rare = None;
        self.free.push(index);
    }

    /// The index of a live socket.
    pub(crate) fn find(&self, id: SocketId) -> Option<u32> {
        let s = self.entries.get(id.index as usize)?;
        (s.generation == id.generation && s.has(Flags::IN_USE)).then_some(id.index)
    }

    pub(crate) fn id(&self, index: u32) -> SocketId {
        SocketId { index, generation: self[index].generation }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn live(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().enumerate().filter(|(_, s)| s.has(Flags::IN_USE)).map(|(i, _)| i as u32)
    }

    /// Bytes held, memberships not counted.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Socket>() + self.free.capacity() * size_of::<u32>()
    }
}

impl std::ops::Index<u32> for Sockets {
    type Output = Socket;

    #[inline]
    fn index(&self, index: u32) -> &Socket {
        &self.entries[index as usize]
    }
}

impl std::ops::IndexMut<u32> for Sockets {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Socket {
        &mut self.entries[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_id_stays_closed() {
        let mut sockets = Sockets::default();
        let a = sockets.insert(Socket::new(Family::V4, NetId::FIRST)).unwrap();
        sockets.remove(a.index);
        assert_eq!(sockets.find(a), None);
        let b = sockets.insert(Socket::new(Family::V4, NetId::FIRST)).unwrap();
        assert_eq!(b.index, a.index);
        assert_eq!(sockets.find(a), None);
        assert_eq!(sockets.find(b), Some(b.index));
        assert_eq!(sockets.len(), 1);
    }

    /// The third table costs a link and a hash in each socket, and without it both are gone.
    #[test]
    fn size_of_a_socket() {
        let expected = if cfg!(feature = "hash4") { 144 } else { 128 };
        assert_eq!(size_of::<Socket>(), expected);
        assert_eq!(LISTS, if cfg!(feature = "hash4") { 3 } else { 2 });
    }
}

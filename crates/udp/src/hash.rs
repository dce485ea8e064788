//! The three hashes.
//!
//! Who chooses the keys decides which function is used. Port and local address are the host's own:
//! the kernel's seeded mix is enough, under a seed of this table. The peer's half of a 4-tuple is
//! chosen by whoever sends: [`Profile::Strict`] hashes the whole tuple, without loss, with SipHash-2-4
//! under a key of the namespace. [`Profile::Linux`] uses the kernel's function (32-bit seed, IPv6
//! addresses folded), so that group members are chosen as the kernel chooses them for equal seeds.

use fourtuple_hash::{Key, SipHash24};

use crate::addr::unmap;
use crate::net::Net;
use crate::profile::Profile;

const BASE: u32 = 0xdead_beef;

/// The last mixing of Jenkins' lookup3 (public domain, 2006).
const fn finish(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// lookup3 of one word, as Linux calls it (the start value counts the word's four bytes).
pub(crate) const fn one_word(w: u32, seed: u32) -> u32 {
    let s = seed.wrapping_add(BASE).wrapping_add(4);
    finish(w.wrapping_add(s), s, s)
}

/// lookup3 of three words.
pub(crate) const fn three_words(w0: u32, w1: u32, w2: u32, seed: u32) -> u32 {
    let s = seed.wrapping_add(BASE).wrapping_add(12);
    finish(w0.wrapping_add(s), w1.wrapping_add(s), w2.wrapping_add(s))
}

/// lookup3 of an array of four words: one mix, then the fourth word.
pub(crate) const fn four_words(w: [u32; 4], seed: u32) -> u32 {
    let s = seed.wrapping_add(BASE).wrapping_add(4 << 2);
    let mut a = w[0].wrapping_add(s);
    let mut b = w[1].wrapping_add(s);
    let mut c = w[2].wrapping_add(s);
    a = a.wrapping_sub(c) ^ c.rotate_left(4);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(6);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(8);
    b = b.wrapping_add(a);
    a = a.wrapping_sub(c) ^ c.rotate_left(16);
    c = c.wrapping_add(b);
    b = b.wrapping_sub(a) ^ a.rotate_left(19);
    a = a.wrapping_add(c);
    c = c.wrapping_sub(b) ^ b.rotate_left(4);
    b = b.wrapping_add(a);
    finish(a.wrapping_add(w[3]), b, c)
}

/// A 128-bit address as four words in network order, as the kernel reads them on a little-endian
/// machine.
const fn words(addr: u128) -> [u32; 4] {
    let b = addr.to_be_bytes();
    [
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        u32::from_le_bytes([b[8], b[9], b[10], b[11]]),
        u32::from_le_bytes([b[12], b[13], b[14], b[15]]),
    ]
}

/// The word of the two ports: local in host order above, peer in network order below.
const fn ports(local: u16, peer: u16) -> u32 {
    (local as u32) << 16 | peer.swap_bytes() as u32
}

/// The secrets of one table, shared by its namespaces.
#[derive(Clone, Copy)]
pub(crate) struct Seeds {
    tuple4: u32,
    tuple6: u32,
    peer6: u32,
    profile: Profile,
}

impl std::fmt::Debug for Seeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seeds").field("profile", &self.profile).finish_non_exhaustive()
    }
}

impl Seeds {
    pub(crate) fn new(key: &Key, profile: Profile) -> Self {
        let a = SipHash24::u64x2(key, u64::from_le_bytes(*b"udp seed"), 0);
        let b = SipHash24::u64x2(key, u64::from_le_bytes(*b"udp seed"), 1);
        Self { tuple4: a as u32, tuple6: (a >> 32) as u32, peer6: b as u32, profile }
    }

    /// Slot number of a port before masking.
    #[inline]
    pub(crate) const fn port(net: &Net, port: u16) -> u32 {
        net.mix.wrapping_add(port as u32)
    }

    /// Port and IPv4 address. Any is 0 and shares its slots with IPv6's any.
    #[inline]
    pub(crate) const fn address4(net: &Net, addr: u32, port: u16) -> u32 {
        one_word(addr.swap_bytes(), net.mix) ^ port as u32
    }

    /// Port and IPv6 address; any and mapped addresses as the IPv4 ones, so that dual-stack sockets
    /// are found by IPv4 searches.
    #[inline]
    pub(crate) fn address6(net: &Net, addr: u128, port: u16) -> u32 {
        if addr == 0 {
            return Self::address4(net, 0, port);
        }
        match unmap(addr) {
            Some(v4) => Self::address4(net, v4, port),
            None => four_words(words(addr), net.mix) ^ u32::from(port),
        }
    }

    /// The 4-tuple, IPv4.
    #[inline]
    pub(crate) fn tuple4(&self, net: &Net, r: u32, port: u16, p: u32, peer_port: u16) -> u32 {
        match self.profile {
            Profile::Linux => {
                let seed = self.tuple4.wrapping_add(net.mix);
                three_words(r.swap_bytes(), p.swap_bytes(), ports(port, peer_port), seed)
            }
            // 12 bytes: one block and half of the last one.
            Profile::Strict => {
                let first = u64::from(r) << 32 | u64::from(p);
                let rest = u64::from(port) << 16 | u64::from(peer_port);
                SipHash24::blocks(&net.key, &[first], 12 << 56 | rest) as u32
            }
        }
    }

    /// The 4-tuple, IPv6; of a socket with a mapped address it is [`tuple4`](Self::tuple4).
    #[inline]
    pub(crate) fn tuple6(&self, net: &Net, r: u128, port: u16, p: u128, peer_port: u16) -> u32 {
        match self.profile {
            Profile::Linux => {
                let [.., local] = words(r);
                let [p0, p1, p2, p3] = words(p);
                let foreign = three_words(p0 ^ p1, p2, p3, self.peer6);
                let seed = self.tuple6.wrapping_add(net.mix);
                three_words(local, foreign, ports(port, peer_port), seed)
            }
            // 36 bytes: four blocks and half of the last one.
            Profile::Strict => {
                let blocks = [(r >> 64) as u64, r as u64, (p >> 64) as u64, p as u64];
                let rest = u64::from(port) << 16 | u64::from(peer_port);
                SipHash24::blocks(&net.key, &blocks, 36 << 56 | rest) as u32
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole of lookup3 for 32-bit words, in its general form, as a judge of the short ones.
    fn general(w: &[u32], seed: u32) -> u32 {
        let s = BASE.wrapping_add((w.len() as u32) << 2).wrapping_add(seed);
        let mut v = [s, s, s];
        let mut rest = w;
        while rest.len() > 3 {
            for i in 0..3 {
                v[i] = v[i].wrapping_add(rest[i]);
            }
            rest = &rest[3..];
            let steps: [(usize, usize, usize, u32); 6] = [
                (0, 2, 1, 4),
                (1, 0, 2, 6),
                (2, 1, 0, 8),
                (0, 2, 1, 16),
                (1, 0, 2, 19),
                (2, 1, 0, 4),
            ];
            for (x, z, y, k) in steps {
                v[x] = v[x].wrapping_sub(v[z]);
                v[x] ^= v[z].rotate_left(k);
                v[z] = v[z].wrapping_add(v[y]);
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            v[i] = v[i].wrapping_add(x);
        }
        if rest.is_empty() {
            return v[2];
        }
        let steps: [(usize, usize, u32); 7] =
            [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)];
        for (x, y, k) in steps {
            v[x] ^= v[y];
            v[x] = v[x].wrapping_sub(v[y].rotate_left(k));
        }
        v[2]
    }

    #[test]
    fn short_forms_are_the_general_form() {
        let w = [0x1234_5678, 0x9abc_def0, 0x0fed_cba9, 0x8765_4321];
        for seed in [0, 1, 0xdead_beef, u32::MAX] {
            assert_eq!(one_word(w[0], seed), general(&w[..1], seed));
            assert_eq!(three_words(w[0], w[1], w[2], seed), general(&w[..3], seed));
            assert_eq!(four_words(w, seed), general(&w, seed));
        }
    }

    /// From the driver of the published lookup3.c: hashword of the empty key under a seed of 0.
    #[test]
    fn empty_key_is_the_constant() {
        assert_eq!(general(&[], 0), 0xdead_beef);
    }
}

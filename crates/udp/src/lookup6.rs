//! The search's IPv6 half.

use std::net::Ipv6Addr;

use crate::addr::ip6;
use crate::datagram::{Arrival, device_matches};
use crate::entry::View;
use crate::hash::Seeds;
use crate::lookup::Key;
use crate::net::Net;
use crate::profile::{Profile, Rule};
use crate::selector::ProgramInput;
use crate::trace::Mismatch;

/// An IPv6 datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key6 {
    from: u128,
    to: u128,
    sport: u16,
    dport: u16,
}

impl Key6 {
    pub(crate) fn new(source: (Ipv6Addr, u16), destination: (Ipv6Addr, u16)) -> Self {
        Self {
            from: source.0.to_bits(),
            to: destination.0.to_bits(),
            sport: source.1,
            dport: destination.1,
        }
    }
}

impl Key for Key6 {
    const FLOOR: i32 = -1;
    const ANY: u128 = 0;
    type Addr = u128;

    #[inline]
    fn destination(&self) -> u128 {
        self.to
    }

    #[inline]
    fn port(&self) -> u16 {
        self.dport
    }

    #[inline]
    fn hash2(&self, net: &Net, addr: u128) -> u32 {
        Seeds::address6(net, addr, self.dport)
    }

    #[inline]
    fn flow(&self, seeds: &Seeds, net: &Net, addr: u128) -> u32 {
        seeds.tuple6(net, addr, self.dport, self.from, self.sport)
    }

    /// Peer port, peer address, device and CPU: 1 each in the kernel, as for IPv4 otherwise.
    #[inline]
    fn score(
        &self,
        s: &View,
        addr: u128,
        a: &Arrival,
        profile: Profile,
        cpu: i32,
    ) -> Result<i32, Mismatch> {
        let weight = if profile.has(Rule::V6WeightsEqual) { 1 } else { 4 };
        if s.net != a.net {
            return Err(Mismatch::Net);
        }
        if s.port != self.dport {
            return Err(Mismatch::Port);
        }
        if !s.is6() {
            return Err(Mismatch::Family);
        }
        if s.r != addr {
            return Err(Mismatch::Address);
        }
        let mut score = 0;
        if s.peer_port != 0 {
            if s.peer_port != self.sport {
                return Err(Mismatch::PeerPort);
            }
            score += weight;
        }
        if s.p != 0 {
            if s.p != self.from {
                return Err(Mismatch::Peer);
            }
            score += weight;
        }
        if !device_matches(s.device, a.dif, a.sdif, a.accept) {
            return Err(Mismatch::Device);
        }
        if s.device != 0 {
            score += weight;
        }
        if a.cpu >= 0 && cpu == a.cpu {
            score += 1;
        }
        Ok(score)
    }

    #[inline]
    fn is_tuple(&self, s: &View, a: &Arrival) -> Result<(), Mismatch> {
        if s.port != self.dport {
            Err(Mismatch::Port)
        } else if s.peer_port != self.sport {
            Err(Mismatch::PeerPort)
        } else if !s.is6() {
            Err(Mismatch::Family)
        } else if s.p != self.from {
            Err(Mismatch::Peer)
        } else if s.r != self.to {
            Err(Mismatch::Address)
        } else if s.net != a.net {
            Err(Mismatch::Net)
        } else if !device_matches(s.device, a.dif, a.sdif, a.tuple_accept) {
            Err(Mismatch::Device)
        } else {
            Ok(())
        }
    }

    fn input(&self, a: &Arrival, hash: u32) -> ProgramInput {
        ProgramInput {
            net: a.net,
            source: (ip6(self.from), self.sport),
            destination: (ip6(self.to), self.dport),
            device: a.dif,
            hash,
        }
    }
}

//! The search's IPv4 half.

use std::net::Ipv4Addr;

use crate::addr::ip4;
use crate::datagram::{Arrival, device_matches};
use crate::entry::View;
use crate::hash::Seeds;
use crate::lookup::Key;
use crate::net::Net;
use crate::profile::{Profile, Rule};
use crate::selector::ProgramInput;
use crate::sockets::Flags;
use crate::trace::Mismatch;

/// An IPv4 datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key4 {
    from: u32,
    to: u32,
    sport: u16,
    dport: u16,
}

impl Key4 {
    pub(crate) fn new(source: (Ipv4Addr, u16), destination: (Ipv4Addr, u16)) -> Self {
        Self {
            from: source.0.to_bits(),
            to: destination.0.to_bits(),
            sport: source.1,
            dport: destination.1,
        }
    }
}

impl Key for Key4 {
    const FLOOR: i32 = 0;
    const ANY: u32 = 0;
    type Addr = u32;

    #[inline]
    fn destination(&self) -> u32 {
        self.to
    }

    #[inline]
    fn port(&self) -> u16 {
        self.dport
    }

    #[inline]
    fn hash2(&self, net: &Net, addr: u32) -> u32 {
        Seeds::address4(net, addr, self.dport)
    }

    #[inline]
    fn flow(&self, seeds: &Seeds, net: &Net, addr: u32) -> u32 {
        seeds.tuple4(net, addr, self.dport, self.from, self.sport)
    }

    /// IPv4 sockets 2, dual-stack ones 1; peer address, peer port and device 4 each; CPU 1.
    #[inline]
    fn score(
        &self,
        s: &View,
        addr: u32,
        a: &Arrival,
        profile: Profile,
        cpu: i32,
    ) -> Result<i32, Mismatch> {
        if s.net != a.net {
            return Err(Mismatch::Net);
        }
        if s.port != self.dport {
            return Err(Mismatch::Port);
        }
        if s.has(Flags::V6ONLY) {
            return Err(Mismatch::Family);
        }
        if s.r4() != addr {
            return Err(Mismatch::Address);
        }
        if s.native6() && !profile.has(Rule::PlaceholderReachable) {
            return Err(Mismatch::Family);
        }
        let mut score = if s.is6() { 1 } else { 2 };
        if s.p4() != 0 {
            if s.p4() != self.from {
                return Err(Mismatch::Peer);
            }
            score += 4;
        }
        if s.peer_port != 0 {
            if s.peer_port != self.sport {
                return Err(Mismatch::PeerPort);
            }
            score += 4;
        }
        if !device_matches(s.device, a.dif, a.sdif, a.accept) {
            return Err(Mismatch::Device);
        }
        if s.device != 0 {
            score += 4;
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
        } else if s.p4() != self.from {
            Err(Mismatch::Peer)
        } else if s.r4() != self.to {
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
            source: (ip4(self.from), self.sport),
            destination: (ip4(self.to), self.dport),
            device: a.dif,
            hash,
        }
    }
}

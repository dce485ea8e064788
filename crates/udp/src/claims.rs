//! What sockets claim of a port, and when two claims cannot stand side by side.
//!
//! [`Claim::overlaps`] is the kernel's predicate. [`Claims`] counts equal claims per port, so that a
//! bind in [`Profile::Strict`](crate::Profile::Strict) compares itself with every socket of the port
//! at the cost of the *different* claims: ten thousand members of a group are one, and so are all
//! connected sockets of a server.

use std::collections::HashMap;

use crate::addr::unmap;
use crate::net::NetId;
use crate::sockets::{Flags, Socket};

/// The part of a socket that decides about conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    r6: u128,
    r4: u32,
    device: u32,
    uid: u32,
    six: bool,
    v6only: bool,
    reuse: bool,
    reuseport: bool,
}

/// IPv6 addresses as the conflict rules see them; an IPv4 socket counts as mapped.
#[derive(PartialEq, Eq)]
enum Class {
    Any,
    Mapped,
    Other,
}

/// What two claims on one port are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// They do not touch, or both allow to be reused.
    Apart,
    /// They overlap and may form a reuseport group.
    Shared,
    /// They overlap.
    Conflict,
}

impl Claim {
    pub(crate) fn of(s: &Socket) -> Self {
        Self {
            r6: s.r6,
            r4: s.r4,
            device: s.device,
            uid: s.uid,
            six: s.is6(),
            v6only: s.has(Flags::V6ONLY),
            reuse: s.has(Flags::REUSE),
            reuseport: s.has(Flags::REUSEPORT),
        }
    }

    pub(crate) const fn uid(&self) -> u32 {
        self.uid
    }

    fn class(&self) -> Class {
        if !self.six || unmap(self.r6).is_some() {
            Class::Mapped
        } else if self.r6 == 0 {
            Class::Any
        } else {
            Class::Other
        }
    }

    /// Whether some address belongs to both: `self` is the newcomer.
    pub(crate) fn overlaps(&self, e: &Self) -> bool {
        let v4 = || !e.v6only && (self.r4 == e.r4 || self.r4 == 0 || e.r4 == 0);
        if !self.six {
            return v4();
        }
        match (self.class(), e.class()) {
            (Class::Mapped, Class::Mapped) => v4(),
            (Class::Any, Class::Any) => true,
            (mine, Class::Any) => !(e.v6only && mine == Class::Mapped),
            (Class::Any, theirs) => !(self.v6only && theirs == Class::Mapped),
            (_, _) => e.six && self.r6 == e.r6,
        }
    }

    /// The newcomer `self` against an existing socket. `grouped`: the newcomer is in a reuseport
    /// group already, and cannot join another.
    pub(crate) fn relation(&self, e: &Self, grouped: bool) -> Relation {
        let devices = self.device == 0 || e.device == 0 || self.device == e.device;
        if (self.reuse && e.reuse) || !devices || !self.overlaps(e) {
            Relation::Apart
        } else if self.reuseport && e.reuseport && !grouped && self.uid == e.uid {
            Relation::Shared
        } else {
            Relation::Conflict
        }
    }
}

/// Claims by namespace and port. The ports are this host's choice, the hasher is keyed all the same.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    ports: HashMap<(NetId, u16), Vec<(Claim, u32)>>,
}

impl Claims {
    pub(crate) fn add(&mut self, net: NetId, port: u16, claim: Claim) {
        let claims = self.ports.entry((net, port)).or_default();
        match claims.iter_mut().find(|(c, _)| *c == claim) {
            Some((_, count)) => *count += 1,
            None => claims.push((claim, 1)),
        }
    }

    pub(crate) fn remove(&mut self, net: NetId, port: u16, claim: &Claim) {
        let Some(claims) = self.ports.get_mut(&(net, port)) else {
            return;
        };
        if let Some(place) = claims.iter().position(|(c, _)| c == claim) {
            claims[place].1 -= 1;
            if claims[place].1 == 0 {
                claims.swap_remove(place);
            }
        }
        if claims.is_empty() {
            self.ports.remove(&(net, port));
        }
    }

    /// The different claims on a port, each with the number of sockets that make it.
    pub(crate) fn on(&self, net: NetId, port: u16) -> &[(Claim, u32)] {
        self.ports.get(&(net, port)).map_or(&[], Vec::as_slice)
    }
}

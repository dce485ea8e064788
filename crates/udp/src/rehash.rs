//! Where a socket stands in the tables, and how it moves when its addresses change.

#[cfg(feature = "hash4")]
use crate::addr::unmap;
use crate::errno::Errno;
use crate::hash::Seeds;
use crate::profile::{Profile, Rule};
use crate::route::Router;
use crate::sockets::{Flags, NONE, Socket};
use crate::table::UdpTable;

impl<R: Router> UdpTable<R> {
    /// Slot hash of the first table.
    pub(crate) fn hash1_of(&self, s: &Socket) -> u32 {
        Seeds::port(self.net(s.net), s.port)
    }

    /// Slot hash of the second table.
    pub(crate) fn hash2_of(&self, s: &Socket) -> u32 {
        let net = self.net(s.net);
        if s.is6() {
            Seeds::address6(net, s.r6, s.port)
        } else {
            Seeds::address4(net, s.r4, s.port)
        }
    }

    /// Hash of the third table.
    #[cfg(feature = "hash4")]
    pub(crate) fn tuple_hash(&self, s: &Socket) -> u32 {
        let net = self.net(s.net);
        if s.is6() && unmap(s.r6).is_none() {
            self.seeds.tuple6(net, s.r6, s.port, s.p6, s.peer_port)
        } else {
            self.seeds.tuple4(net, s.r4, s.port, s.p4, s.peer_port)
        }
    }

    /// First entry into the tables, once the port is known. The kernel puts IPv6 sockets with
    /// `SO_REUSEPORT` at the tail, of both chains.
    pub(crate) fn hash_in(&mut self, index: u32) {
        let (hash1, hash2) =
            (self.hash1_of(&self.sockets[index]), self.hash2_of(&self.sockets[index]));
        let s = &mut self.sockets[index];
        s.hash2 = hash2;
        s.flags.set(Flags::HASHED, true);
        s.flags.set(Flags::IN_HASH2, true);
        let back =
            s.is6() && s.has(Flags::REUSEPORT) && self.profile.has(Rule::V6ReuseportAppended);
        self.ports.insert(&mut self.sockets, hash1, index, back);
        self.addresses.insert(&mut self.sockets, hash2, index, back);
    }

    /// Takes a socket out of all tables and its group. The port is free at once.
    pub(crate) fn unhash(&mut self, index: u32) {
        if !self.sockets[index].hashed() {
            return;
        }
        self.leave_group(index);
        #[cfg(feature = "hash4")]
        self.tuple_out(index);
        self.address_out(index);
        let hash1 = self.hash1_of(&self.sockets[index]);
        self.ports.remove(&mut self.sockets, hash1, index);
        let s = &mut self.sockets[index];
        s.flags.set(Flags::HASHED, false);
        s.flags.set(Flags::PORT_BY_BIND, false);
        s.port = 0;
    }

    fn address_out(&mut self, index: u32) {
        let s = &mut self.sockets[index];
        if s.has(Flags::IN_HASH2) {
            s.flags.set(Flags::IN_HASH2, false);
            let hash2 = s.hash2;
            self.addresses.remove(&mut self.sockets, hash2, index);
        }
    }

    #[cfg(feature = "hash4")]
    fn tuple_in(&mut self, index: u32) {
        let hash4 = self.tuple_hash(&self.sockets[index]);
        let s = &mut self.sockets[index];
        s.hash4 = hash4;
        s.flags.set(Flags::IN_HASH4, true);
        let hash2 = s.hash2;
        self.tuples.insert(&mut self.sockets, hash4, index);
        self.addresses.add_tuple(hash2);
    }

    /// Out of the third table, and off the counter of the slot the socket is registered in.
    #[cfg(feature = "hash4")]
    fn tuple_out(&mut self, index: u32) {
        let s = &mut self.sockets[index];
        if s.in_hash4() {
            s.flags.set(Flags::IN_HASH4, false);
            let (hash2, hash4) = (s.hash2, s.hash4);
            self.tuples.remove(&mut self.sockets, hash4, index);
            self.addresses.drop_tuple(hash2);
        }
    }

    /// As the kernel's rehash: after a change of R, or of the device.
    pub(crate) fn rehash_linux(&mut self, index: u32) {
        if !self.sockets[index].hashed() {
            return;
        }
        let hash2 = self.hash2_of(&self.sockets[index]);
        let old = self.sockets[index].hash2;
        let moved = self.addresses.slot(old) != self.addresses.slot(hash2);
        if moved || self.sockets[index].group != NONE {
            self.leave_group(index);
            if moved {
                self.addresses.remove(&mut self.sockets, old, index);
                self.addresses.insert(&mut self.sockets, hash2, index, false);
            }
        }
        #[cfg(feature = "hash4")]
        if self.sockets[index].in_hash4() {
            if self.sockets[index].any() {
                self.tuple_out(index);
            } else {
                self.tuple_move(index, old, hash2);
            }
        }
        self.sockets[index].hash2 = hash2;
    }

    #[cfg(feature = "hash4")]
    fn tuple_move(&mut self, index: u32, old2: u32, new2: u32) {
        let old = self.sockets[index].hash4;
        let new = self.tuple_hash(&self.sockets[index]);
        if self.tuples.slot(old) == self.tuples.slot(new) {
            self.sockets[index].hash4 = new;
        } else {
            self.tuples.remove(&mut self.sockets, old, index);
            self.sockets[index].hash4 = new;
            self.tuples.insert(&mut self.sockets, new, index);
        }
        if self.addresses.slot(old2) != self.addresses.slot(new2) {
            self.addresses.drop_tuple(old2);
            self.addresses.add_tuple(new2);
        }
    }

    /// The last step of a connect in the kernel: into the third table, unless it is there already
    /// (however stale), and out of the reuseport group.
    pub(crate) fn enter_tuples_linux(&mut self, index: u32) {
        #[cfg(feature = "hash4")]
        {
            let s = &self.sockets[index];
            if s.hashed() && !s.any() && !s.in_hash4() {
                self.leave_group(index);
                self.tuple_in(index);
            }
        }
        #[cfg(not(feature = "hash4"))]
        let _ = index;
    }

    /// Puts a socket where [`Profile::Strict`] wants it: in the third table if it is connected to one
    /// address and port, else in the second; in its group if it is not connected.
    pub(crate) fn settle(&mut self, index: u32) -> Result<(), Errno> {
        debug_assert_eq!(self.profile, Profile::Strict);
        if !self.sockets[index].hashed() {
            return Ok(());
        }
        self.leave_group(index);
        #[cfg(feature = "hash4")]
        self.tuple_out(index);
        self.address_out(index);
        let hash2 = self.hash2_of(&self.sockets[index]);
        self.sockets[index].hash2 = hash2;
        #[cfg(feature = "hash4")]
        {
            let s = &self.sockets[index];
            // A peer with port 0 stands for all its ports: only a score can find that.
            if s.connected() && s.peer_port != 0 && !s.any() {
                self.tuple_in(index);
                return Ok(());
            }
        }
        self.sockets[index].flags.set(Flags::IN_HASH2, true);
        self.addresses.insert(&mut self.sockets, hash2, index, false);
        let s = &self.sockets[index];
        if !s.connected() && s.has(Flags::REUSEPORT) {
            return self.join_group(index);
        }
        Ok(())
    }

    /// `SO_BINDTODEVICE`.
    pub(crate) fn set_device(&mut self, index: u32, device: u32) -> Result<(), Errno> {
        if self.profile == Profile::Linux {
            self.sockets[index].device = device;
            self.rehash_linux(index);
            return Ok(());
        }
        let mut wanted = self.sockets[index].clone();
        wanted.device = device;
        if wanted.hashed() {
            self.check_change(index, &wanted)?;
        }
        self.edit(index, |table| {
            table.sockets[index].device = device;
            table.settle(index)
        })
    }
}

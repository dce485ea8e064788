//! Where a socket stands in the tables, and how it moves when its addresses change.

#[cfg(feature = "hash4")]
use crate::addr::unmap;
use crate::errno::Errno;
use crate::hash::Seeds;
use crate::profile::{Profile, Rule};
use crate::route::Router;
use crate::sockets::{Flags, NONE, Socket};
use crate::table::UdpTable;
use crate::writer::Writer;

impl<R> UdpTable<R> {
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
}

impl<R: Router> Writer<'_, R> {
    /// First entry into the tables, once the port is known. The kernel puts IPv6 sockets with
    /// `SO_REUSEPORT` at the tail, of both chains.
    pub(crate) fn hash_in(&mut self, index: u32) {
        let hash2 = self.hash2_of(&self.socket(index));
        let appended = self.profile.has(Rule::V6ReuseportAppended);
        let s = self.socket_mut(index);
        s.hash2 = hash2;
        s.flags.set(Flags::HASHED, true);
        s.flags.set(Flags::IN_HASH2, true);
        let back = s.is6() && s.has(Flags::REUSEPORT) && appended;
        s.flags.set(Flags::TO_BACK, back);
        s.flags.set(Flags::PORT_BACK, back);
    }

    /// Takes a socket out of all tables and its group. The port is free at once.
    pub(crate) fn unhash(&mut self, index: u32) {
        if !self.socket(index).hashed() {
            return;
        }
        self.leave_group(index);
        let s = self.socket_mut(index);
        #[cfg(feature = "hash4")]
        s.flags.set(Flags::IN_HASH4, false);
        s.flags.set(Flags::IN_HASH2, false);
        s.flags.set(Flags::HASHED, false);
        s.flags.set(Flags::PORT_BY_BIND, false);
        s.port = 0;
    }

    #[cfg(feature = "hash4")]
    fn tuple_in(&mut self, index: u32) {
        let hash4 = self.tuple_hash(&self.socket(index));
        let s = self.socket_mut(index);
        s.hash4 = hash4;
        s.flags.set(Flags::IN_HASH4, true);
    }

    /// As the kernel's rehash: after a change of R, or of the device.
    pub(crate) fn rehash_linux(&mut self, index: u32) {
        if !self.socket(index).hashed() {
            return;
        }
        let hash2 = self.hash2_of(&self.socket(index));
        let moved = self.addresses.slot(self.socket(index).hash2) != self.addresses.slot(hash2);
        if moved || self.shared.group(index) != NONE {
            self.leave_group(index);
        }
        let s = self.socket_mut(index);
        if moved {
            s.flags.set(Flags::TO_BACK, false);
        }
        #[cfg(feature = "hash4")]
        if s.in_hash4() {
            if s.any() {
                s.flags.set(Flags::IN_HASH4, false);
            } else {
                self.tuple_in(index);
            }
        }
        self.socket_mut(index).hash2 = hash2;
    }

    /// The last step of a connect in the kernel: into the third table, unless it is there already
    /// (however stale), and out of the reuseport group.
    pub(crate) fn enter_tuples_linux(&mut self, index: u32) {
        #[cfg(feature = "hash4")]
        {
            let s = self.socket(index);
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
        if !self.socket(index).hashed() {
            return Ok(());
        }
        self.leave_group(index);
        let hash2 = self.hash2_of(&self.socket(index));
        let s = self.socket_mut(index);
        s.hash2 = hash2;
        s.flags.set(Flags::IN_HASH2, false);
        #[cfg(feature = "hash4")]
        {
            s.flags.set(Flags::IN_HASH4, false);
            // A peer with port 0 stands for all its ports: only a score can find that.
            if s.connected() && s.peer_port != 0 && !s.any() {
                self.tuple_in(index);
                return Ok(());
            }
        }
        let s = self.socket_mut(index);
        s.flags.set(Flags::IN_HASH2, true);
        s.flags.set(Flags::TO_FRONT, true);
        s.flags.set(Flags::TO_BACK, false);
        if !s.connected() && s.has(Flags::REUSEPORT) {
            return self.join_group(index);
        }
        Ok(())
    }

    /// `SO_BINDTODEVICE`.
    pub(crate) fn set_device(&mut self, index: u32, device: u32) -> Result<(), Errno> {
        self.edit(index, |w| {
            if w.profile == Profile::Linux {
                w.socket_mut(index).device = device;
                w.rehash_linux(index);
                return Ok(());
            }
            let mut wanted = w.socket(index);
            wanted.device = device;
            if wanted.hashed() {
                w.check_change(index, &wanted)?;
            }
            w.socket_mut(index).device = device;
            w.settle(index)
        })
    }
}

//! Joining, leaving and choosing within reuseport groups.

use std::sync::Arc;

use fourtuple_hash::reduce;

use crate::errno::Errno;
use crate::groups::{GroupKey, MAX_MEMBERS};
use crate::profile::Rule;
use crate::route::Router;
use crate::selector::{GroupSelector, ProgramInput, Selection};
use crate::sockets::{Flags, NONE, Socket, SocketId};
use crate::table::UdpTable;

/// What a group says to a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// This member.
    Member(u32),
    /// There is no group, or nobody in it who is not connected.
    Nobody,
    /// The selector refused.
    Drop,
}

impl GroupKey {
    fn of(s: &Socket) -> Self {
        Self {
            net: s.net,
            port: s.port,
            six: s.is6(),
            v6only: s.has(Flags::V6ONLY),
            device: s.device,
            uid: s.uid,
            r6: s.r6,
            r4: s.r4,
        }
    }
}

impl<R: Router> UdpTable<R> {
    /// Gives a reuseport group a selector, in place of an earlier one. A socket that is not bound yet
    /// forms a group of its own, as in the kernel, and so cannot join another's.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a socket without `SO_REUSEPORT` at the time of its bind, `EBADF` for a closed one.
    pub fn set_selector(
        &mut self,
        id: SocketId,
        selector: impl GroupSelector + 'static,
    ) -> Result<(), Errno> {
        let index = self.index(id)?;
        let s = &self.sockets[index];
        if s.group == NONE {
            if s.hashed() || !s.has(Flags::REUSEPORT) {
                return Err(Errno::EINVAL);
            }
            let group = self.groups.insert(None);
            self.add_member(group, index);
        }
        let group = self.sockets[index].group;
        self.groups[group].selector = Some(Arc::new(selector));
        Ok(())
    }

    fn add_member(&mut self, group: u32, index: u32) {
        let id = self.sockets.id(index);
        let g = &mut self.groups[group];
        let s = &mut self.sockets[index];
        s.group = group;
        s.group_pos = g.members.len() as u32;
        g.members.push(id);
        g.with_cpu += u32::from(s.incoming_cpu >= 0);
    }

    /// Takes a socket out of its group, if it is in one. The last member takes its place.
    pub(crate) fn leave_group(&mut self, index: u32) {
        let s = &mut self.sockets[index];
        let (group, pos) = (s.group, s.group_pos as usize);
        if group == NONE {
            return;
        }
        s.group = NONE;
        let g = &mut self.groups[group];
        g.with_cpu -= u32::from(s.incoming_cpu >= 0);
        g.members.swap_remove(pos);
        if let Some(moved) = g.members.get(pos) {
            self.sockets[moved.index].group_pos = pos as u32;
        }
        if g.members.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Finds or makes the group of a socket that has just got its port.
    pub(crate) fn join_group(&mut self, index: u32) -> Result<(), Errno> {
        let group = if self.profile.has(Rule::GroupSplit) {
            self.newest_partner_group(index)?
        } else {
            let key = GroupKey::of(&self.sockets[index]);
            let own = self.sockets[index].group;
            match self.groups.by_key(&key) {
                Some(group) => Some(group),
                // A group made by `set_selector` before the bind keeps its selector.
                None if own != NONE => {
                    self.groups.set_key(own, key);
                    None
                }
                None => Some(self.groups.insert(Some(key))),
            }
        };
        let Some(group) = group else { return Ok(()) };
        let own = self.sockets[index].group;
        if own == group {
            return Ok(());
        }
        // A socket that comes back from a connect, in the strict profile, is bound already.
        if self.groups[group].members.len() >= MAX_MEMBERS && !self.sockets[index].hashed() {
            return Err(Errno::EADDRINUSE);
        }
        self.leave_group(index);
        self.add_member(group, index);
        Ok(())
    }

    /// The newest socket that could be a partner decides, even if it is connected and in no group.
    fn newest_partner_group(&mut self, index: u32) -> Result<Option<u32>, Errno> {
        let s = &self.sockets[index];
        let hash = crate::hash::Seeds::port(self.net(s.net), s.port);
        let key = GroupKey::of(s);
        let partner = self.ports.chain(&self.sockets, hash).find(|&e| {
            let e_socket = &self.sockets[e];
            e != index && e_socket.has(Flags::REUSEPORT) && GroupKey::of(e_socket) == key
        });
        let Some(partner) = partner else {
            // A group from before the bind, made by a selector, is kept.
            let alone = self.sockets[index].group == NONE;
            return Ok(alone.then(|| self.groups.insert(None)));
        };
        if self.sockets[index].group != NONE
            && self.groups[self.sockets[index].group].members.len() != 1
        {
            return Err(Errno::EADDRINUSE);
        }
        if self.sockets[partner].group == NONE {
            let group = self.groups.insert(None);
            self.add_member(group, partner);
        }
        Ok(Some(self.sockets[partner].group))
    }

    pub(crate) fn set_incoming_cpu(&mut self, index: u32, cpu: i32) {
        let s = &mut self.sockets[index];
        let (before, after) = (u32::from(s.incoming_cpu >= 0), u32::from(cpu >= 0));
        s.incoming_cpu = cpu;
        if s.group != NONE {
            let g = &mut self.groups[s.group];
            g.with_cpu = g.with_cpu - before + after;
        }
    }

    /// The member of `index`'s group that shall have the datagram. `input` is only made for a
    /// selector; without a packet (ICMP errors) selectors are not asked.
    pub(crate) fn choose(
        &self,
        index: u32,
        cpu: i32,
        hash: u32,
        input: Option<impl FnOnce() -> ProgramInput>,
    ) -> Choice {
        let s = &self.sockets[index];
        if !s.has(Flags::REUSEPORT) || s.group == NONE {
            return Choice::Nobody;
        }
        let group = &self.groups[s.group];
        if let (Some(selector), Some(input)) = (&group.selector, input) {
            match selector.select(&input(), &group.members) {
                Selection::Drop => return Choice::Drop,
                Selection::Member(place) => {
                    if let Some(member) = group.members.get(place) {
                        return Choice::Member(member.index);
                    }
                }
                Selection::Hash => {}
            }
        }
        let n = group.members.len();
        let start = reduce(hash, n as u32) as usize;
        let mut first = Choice::Nobody;
        for member in group.members[start..].iter().chain(&group.members[..start]) {
            let m = &self.sockets[member.index];
            if m.connected() {
                continue;
            }
            if group.with_cpu == 0 || (cpu >= 0 && m.incoming_cpu == cpu) {
                return Choice::Member(member.index);
            }
            if first == Choice::Nobody {
                first = Choice::Member(member.index);
            }
        }
        first
    }
}

//! Joining, leaving and choosing within reuseport groups.

use std::sync::Arc;

use fourtuple_hash::reduce;

use crate::entry::View;
use crate::errno::Errno;
use crate::groups::{Group, GroupKey, MAX_MEMBERS};
use crate::hash::Seeds;
use crate::profile::Rule;
use crate::route::Router;
use crate::selector::{GroupSelector, ProgramInput, Selection};
use crate::sockets::{Flags, NONE, Socket, SocketId};
use crate::store::Sockets;
use crate::sync::Ordering;
use crate::table::UdpTable;
use crate::writer::Writer;

/// What a group says to a datagram.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// This member.
    Member(View),
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
        &self,
        id: SocketId,
        selector: impl GroupSelector + 'static,
    ) -> Result<(), Errno> {
        let mut w = self.write();
        let index = w.index(id)?;
        let s = w.socket(index);
        if self.shared.group(index) == NONE {
            if s.hashed() || !s.has(Flags::REUSEPORT) {
                return Err(Errno::EINVAL);
            }
            let group = w.state.groups.insert(&self.groups, None);
            w.add_member(group, index);
        }
        let members = self.members(index);
        if let Some(group) = self.groups.get(self.shared.group(index)) {
            group.set_selector(Arc::new(selector), members);
        }
        Ok(())
    }
}

impl<R> UdpTable<R> {
    /// The members of a socket's group. Whole only while no writer is at work.
    pub(crate) fn members(&self, index: u32) -> Vec<SocketId> {
        let group = self.groups.get(self.shared.group(index));
        let id = |m: u32| Sockets::id(&self.shared, m);
        group.map_or_else(Vec::new, |g| (0..g.count()).map(|p| id(g.member(p))).collect())
    }

    pub(crate) fn group_with(&self, index: u32) -> Option<&Group> {
        self.groups.get(self.shared.group(index))
    }

    /// A member that can be asked: one of this group still.
    fn member_view(&self, group: u32, index: u32, like: &View) -> Option<View> {
        let view = self.shared.view(index)?;
        let belongs = self.shared.group(index) == group
            && view.port == like.port
            && view.net == like.net
            && !view.connected();
        belongs.then_some(view)
    }

    /// The member of the group of `s` that shall have the datagram. `input` is only made for a
    /// selector; without a packet (ICMP errors) selectors are not asked.
    pub(crate) fn choose(
        &self,
        s: &View,
        cpu: i32,
        hash: u32,
        input: Option<impl FnOnce() -> ProgramInput>,
    ) -> Choice {
        let index = self.shared.group(s.index);
        let Some(group) = self.groups.get(index).filter(|_| s.has(Flags::REUSEPORT)) else {
            return Choice::Nobody;
        };
        if let Some(input) = input
            && let Some(selecting) = group.selecting()
        {
            match selecting.selector.select(&input(), &selecting.members) {
                Selection::Drop => return Choice::Drop,
                Selection::Member(place) => {
                    let member = selecting.members.get(place);
                    let view =
                        member.and_then(|m| self.shared.view(m.index).filter(|v| v.id() == *m));
                    if let Some(view) = view {
                        return Choice::Member(view);
                    }
                }
                Selection::Hash => {}
            }
        }
        let n = group.count();
        let start = reduce(hash, n.max(1));
        let mut first = Choice::Nobody;
        for place in (start..n).chain(0..start.min(n)) {
            let Some(m) = self.member_view(index, group.member(place), s) else { continue };
            if group.with_cpu() == 0 || (cpu >= 0 && self.shared.cpu(m.index) == cpu) {
                return Choice::Member(m);
            }
            if matches!(first, Choice::Nobody) {
                first = Choice::Member(m);
            }
        }
        first
    }
}

impl<R: Router> Writer<'_, R> {
    pub(crate) fn add_member(&mut self, group: u32, index: u32) {
        let table = self.table;
        let (Some(g), Some(seat)) = (table.groups.get(group), table.shared.seats.get(index)) else {
            return;
        };
        self.state.sockets.cold_mut(index).group_pos = g.push(index);
        g.add_with_cpu(i32::from(seat.cpu() >= 0));
        // Pairs with the load in `Shared::group`.
        seat.group.store(group, Ordering::Release);
        self.show_members(group, index);
    }

    /// A selector sees its group's members as they are.
    fn show_members(&self, group: u32, one: u32) {
        if let Some(g) = self.table.groups.get(group)
            && let Some(selecting) = g.selecting()
        {
            g.set_selector(selecting.selector.clone(), self.table.members(one));
        }
    }

    /// Takes a socket out of its group, if it is in one. The last member takes its place.
    pub(crate) fn leave_group(&mut self, index: u32) {
        let table = self.table;
        let group = table.shared.group(index);
        let (Some(g), Some(seat)) = (table.groups.get(group), table.shared.seats.get(index)) else {
            return;
        };
        seat.group.store(NONE, Ordering::Release);
        g.add_with_cpu(-i32::from(seat.cpu() >= 0));
        let place = self.state.sockets.cold(index).group_pos;
        if let Some(moved) = g.swap_remove(place) {
            self.state.sockets.cold_mut(moved).group_pos = place;
        }
        if g.count() == 0 {
            self.state.groups.remove(&table.groups, group);
        } else {
            self.show_members(group, g.member(0));
        }
    }

    /// Finds or makes the group of a socket that has just got its port.
    pub(crate) fn join_group(&mut self, index: u32) -> Result<(), Errno> {
        let table = self.table;
        let own = table.shared.group(index);
        let group = if table.profile.has(Rule::GroupSplit) {
            self.newest_partner_group(index)?
        } else {
            let key = GroupKey::of(&self.socket(index));
            match self.state.groups.by_key(&key) {
                Some(group) => Some(group),
                // A group made by `set_selector` before the bind keeps its selector.
                None if own != NONE => {
                    self.state.groups.set_key(own, key);
                    None
                }
                None => Some(self.state.groups.insert(&table.groups, Some(key))),
            }
        };
        let Some(group) = group else { return Ok(()) };
        if own == group {
            return Ok(());
        }
        let full = table.groups.get(group).is_some_and(|g| g.count() >= MAX_MEMBERS);
        // A socket that comes back from a connect, in the strict profile, is bound already.
        if full && !self.socket(index).hashed() {
            return Err(Errno::EADDRINUSE);
        }
        self.leave_group(index);
        self.add_member(group, index);
        Ok(())
    }

    /// The newest socket that could be a partner decides, even if it is connected and in no group.
    fn newest_partner_group(&mut self, index: u32) -> Result<Option<u32>, Errno> {
        let table = self.table;
        let s = self.socket(index);
        let hash = Seeds::port(table.net(s.net), s.port);
        let key = GroupKey::of(&s);
        let partner = table.ports.chain(&table.shared, hash).find(|e| {
            e.index != index
                && e.has(Flags::REUSEPORT)
                && GroupKey::of(&self.socket(e.index)) == key
        });
        let own = table.shared.group(index);
        let Some(partner) = partner else {
            // A group from before the bind, made by a selector, is kept.
            return Ok((own == NONE).then(|| self.state.groups.insert(&table.groups, None)));
        };
        if table.groups.get(own).is_some_and(|g| g.count() != 1) {
            return Err(Errno::EADDRINUSE);
        }
        if table.shared.group(partner.index) == NONE {
            let group = self.state.groups.insert(&table.groups, None);
            self.add_member(group, partner.index);
        }
        Ok(Some(table.shared.group(partner.index)))
    }

    pub(crate) fn set_incoming_cpu(&mut self, index: u32, cpu: i32) {
        let table = self.table;
        let Some(seat) = table.shared.seats.get(index) else { return };
        if let Some(group) = table.group_with(index) {
            group.add_with_cpu(i32::from(cpu >= 0) - i32::from(seat.cpu() >= 0));
        }
        seat.set_cpu(cpu);
    }
}

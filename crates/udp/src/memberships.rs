//! Joining and leaving multicast groups, and who has joined what.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::errno::Errno;
use crate::net::NetId;
use crate::options::SourceChange;
use crate::route::{DeviceId, Router};
use crate::sockets::{Flags, Membership, Rare, SocketId};
use crate::store::Sockets;
use crate::table::UdpTable;
use crate::writer::Writer;

/// Longest list of sources of one membership: `net.ipv4.igmp_max_msf` and `net.ipv6.mld_max_msf`.
const fn max_sources(group: IpAddr) -> usize {
    if group.is_ipv4() { 10 } else { 64 }
}

/// Which sockets have joined a group on a device.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    by_group: HashMap<(NetId, IpAddr, DeviceId), Vec<u32>>,
}

impl Joined {
    fn add(&mut self, net: NetId, group: IpAddr, device: DeviceId, index: u32) {
        self.by_group.entry((net, group, device)).or_default().push(index);
    }

    fn remove(&mut self, net: NetId, group: IpAddr, device: DeviceId, index: u32) {
        let key = (net, group, device);
        if let Some(sockets) = self.by_group.get_mut(&key) {
            if let Some(place) = sockets.iter().position(|&i| i == index) {
                sockets.swap_remove(place);
            }
            if sockets.is_empty() {
                self.by_group.remove(&key);
            }
        }
    }
}

impl Membership {
    /// Whether the filter lets datagrams of `source` through.
    pub(crate) fn allows(&self, source: IpAddr) -> bool {
        self.sources.contains(&source) != self.exclude
    }
}

/// The place of the membership in `group` on `device`.
fn position(rare: Option<&Rare>, group: IpAddr, device: DeviceId) -> Option<usize> {
    let memberships = &rare?.memberships;
    memberships.iter().position(|m| m.group == group && m.device == device)
}

impl<R: Router> UdpTable<R> {
    /// Joins a multicast group; all its sources are heard.
    ///
    /// # Errors
    ///
    /// `EINVAL` (not a group), `ENOPROTOOPT` (an IPv6 group on an IPv4 socket), `ENODEV`,
    /// `EADDRINUSE` (joined already), `ENOBUFS` (`igmp_max_memberships`).
    pub fn join(&self, id: SocketId, group: IpAddr, device: Option<DeviceId>) -> Result<(), Errno> {
        let mut w = self.write();
        let (index, device) = w.group_device(id, group, device)?;
        if position(w.rare(index), group, device).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        w.add_membership(index, group, device, true, Vec::new())?;
        w.show_memberships(index)
    }

    /// Leaves a group.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if the socket has not joined it there, else as [`join`](Self::join).
    pub fn leave(
        &self,
        id: SocketId,
        group: IpAddr,
        device: Option<DeviceId>,
    ) -> Result<(), Errno> {
        let mut w = self.write();
        let (index, device) = w.group_device(id, group, device)?;
        let at = position(w.rare(index), group, device).ok_or(Errno::EADDRNOTAVAIL)?;
        w.drop_membership(index, at);
        w.show_memberships(index)
    }

    /// Changes the source filter of a membership; adding a source joins.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the socket has not joined, or joined in the other mode; `EADDRNOTAVAIL` for a
    /// source that is listed already, or is not; `ENOBUFS` for a source beyond the 10th of an IPv4
    /// group, the 64th of an IPv6 one; else as [`join`](Self::join).
    pub fn change_source(
        &self,
        id: SocketId,
        group: IpAddr,
        device: Option<DeviceId>,
        change: SourceChange,
    ) -> Result<(), Errno> {
        let mut w = self.write();
        let (index, device) = w.group_device(id, group, device)?;
        let result = w.change_membership(index, group, device, change);
        // A call that fails may have changed the mode.
        w.show_memberships(index)?;
        result
    }
}

impl<R: Router> Writer<'_, R> {
    fn change_membership(
        &mut self,
        index: u32,
        group: IpAddr,
        device: DeviceId,
        change: SourceChange,
    ) -> Result<(), Errno> {
        let (source, exclude, add) = match change {
            SourceChange::Block(source) => (source, true, true),
            SourceChange::Unblock(source) => (source, true, false),
            SourceChange::Add(source) => (source, false, true),
            SourceChange::Drop(source) => (source, false, false),
        };
        let Some(at) = position(self.rare(index), group, device) else {
            if !exclude && add {
                return self.add_membership(index, group, device, false, vec![source]);
            }
            return Err(Errno::EINVAL);
        };
        let m = &mut self.rare_mut(index).memberships[at];
        if m.exclude != exclude {
            // The mode can change as long as no source was ever listed, and does even if what
            // follows fails.
            if m.listed {
                return Err(Errno::EINVAL);
            }
            m.exclude = exclude;
        }
        if add && m.sources.len() >= max_sources(group) {
            return Err(Errno::ENOBUFS);
        }
        m.listed |= add;
        match (m.sources.iter().position(|&s| s == source), add) {
            (None, true) => m.sources.push(source),
            (Some(place), false) => {
                m.sources.swap_remove(place);
                if !exclude && m.sources.is_empty() {
                    self.drop_membership(index, at);
                }
            }
            _ => return Err(Errno::EADDRNOTAVAIL),
        }
        Ok(())
    }

    fn group_device(
        &self,
        id: SocketId,
        group: IpAddr,
        device: Option<DeviceId>,
    ) -> Result<(u32, DeviceId), Errno> {
        let index = self.index(id)?;
        let s = self.socket(index);
        if group.is_ipv6() && !s.is6() {
            return Err(Errno::ENOPROTOOPT);
        }
        if !group.is_multicast() {
            return Err(Errno::EINVAL);
        }
        let device = device.or_else(|| self.router.group_device(s.net, group));
        let device = device.filter(|&d| self.router.has_device(s.net, d)).ok_or(Errno::ENODEV)?;
        Ok((index, device))
    }

    fn add_membership(
        &mut self,
        index: u32,
        group: IpAddr,
        device: DeviceId,
        exclude: bool,
        sources: Vec<IpAddr>,
    ) -> Result<(), Errno> {
        let net = self.socket(index).net;
        let limit = self.net(net).config().max_memberships;
        let memberships = &mut self.rare_mut(index).memberships;
        let same_family = memberships.iter().filter(|m| m.group.is_ipv4() == group.is_ipv4());
        if same_family.count() >= limit {
            return Err(Errno::ENOBUFS);
        }
        let listed = !sources.is_empty();
        memberships.push(Membership { group, device, exclude, sources, listed });
        self.state.joined.add(net, group, device, index);
        Ok(())
    }

    fn drop_membership(&mut self, index: u32, at: usize) {
        let net = self.socket(index).net;
        let m = self.rare_mut(index).memberships.remove(at);
        self.state.joined.remove(net, m.group, m.device, index);
    }

    /// Lets look-ups see a socket's memberships.
    fn show_memberships(&mut self, index: u32) -> Result<(), Errno> {
        let table = self.table;
        let memberships = self.rare(index).map_or(&[][..], |r| &r.memberships);
        table.shared.set_filter(Sockets::id(&table.shared, index), memberships);
        let any = !memberships.is_empty();
        self.edit(index, |w| {
            w.socket_mut(index).flags.set(Flags::MEMBER, any);
            Ok(())
        })
    }

    /// Leaves every group, as a close does.
    pub(crate) fn leave_all(&mut self, index: u32) {
        if self.rare(index).is_none_or(|r| r.memberships.is_empty()) {
            return;
        }
        let table = self.table;
        let net = self.socket(index).net;
        table.shared.set_filter(Sockets::id(&table.shared, index), &[]);
        for m in std::mem::take(&mut self.rare_mut(index).memberships) {
            self.state.joined.remove(net, m.group, m.device, index);
        }
    }

    /// Whether the host takes datagrams of `source` to `group` from `device`: some socket must have
    /// joined it there and want the source. The all-hosts groups need nobody.
    pub(crate) fn host_listens(
        &self,
        net: NetId,
        group: IpAddr,
        device: DeviceId,
        source: IpAddr,
    ) -> bool {
        let all_hosts = group == IpAddr::V4(Ipv4Addr::new(224, 0, 0, 1))
            || group == IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1))
            || group == IpAddr::V6(Ipv6Addr::new(0xff01, 0, 0, 0, 0, 0, 0, 1));
        all_hosts
            || self.state.joined.by_group.get(&(net, group, device)).is_some_and(|sockets| {
                sockets.iter().any(|&i| {
                    let rare = self.rare(i);
                    let membership = position(rare, group, device)
                        .and_then(|at| rare.map(|r| &r.memberships[at]));
                    membership.is_some_and(|m| m.allows(source))
                })
            })
    }
}

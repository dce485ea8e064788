//! Joining and leaving multicast groups, and who has joined what.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::errno::Errno;
use crate::net::NetId;
use crate::options::SourceChange;
use crate::route::{DeviceId, Router};
use crate::sockets::{Membership, Socket, SocketId};
use crate::table::UdpTable;

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

/// A socket's membership in `group`, on `device` if one is named.
fn position(s: &Socket, group: IpAddr, device: DeviceId) -> Option<usize> {
    let memberships = &s.rare.as_ref()?.memberships;
    memberships.iter().position(|m| m.group == group && m.device == device)
}

impl<R: Router> UdpTable<R> {
    /// Joins a multicast group; all its sources are heard.
    ///
    /// # Errors
    ///
    /// `EINVAL` (not a group), `ENOPROTOOPT` (an IPv6 group on an IPv4 socket), `ENODEV`,
    /// `EADDRINUSE` (joined already), `ENOBUFS` (`igmp_max_memberships`).
    pub fn join(
        &mut self,
        id: SocketId,
        group: IpAddr,
        device: Option<DeviceId>,
    ) -> Result<(), Errno> {
        let (index, device) = self.group_device(id, group, device)?;
        if position(&self.sockets[index], group, device).is_some() {
            return Err(Errno::EADDRINUSE);
        }
        self.add_membership(index, group, device, true, Vec::new())
    }

    /// Leaves a group.
    ///
    /// # Errors
    ///
    /// `EADDRNOTAVAIL` if the socket has not joined it there, else as [`join`](Self::join).
    pub fn leave(
        &mut self,
        id: SocketId,
        group: IpAddr,
        device: Option<DeviceId>,
    ) -> Result<(), Errno> {
        let (index, device) = self.group_device(id, group, device)?;
        let at = position(&self.sockets[index], group, device).ok_or(Errno::EADDRNOTAVAIL)?;
        self.drop_membership(index, at);
        Ok(())
    }

    /// Changes the source filter of a membership; adding a source joins.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the socket has not joined, or joined in the other mode; `EADDRNOTAVAIL` for a
    /// source that is listed already, or is not; `ENOBUFS` for a source beyond the 10th of an IPv4
    /// group, the 64th of an IPv6 one; else as [`join`](Self::join).
    pub fn change_source(
        &mut self,
        id: SocketId,
        group: IpAddr,
        device: Option<DeviceId>,
        change: SourceChange,
    ) -> Result<(), Errno> {
        let (index, device) = self.group_device(id, group, device)?;
        let (source, exclude, add) = match change {
            SourceChange::Block(source) => (source, true, true),
            SourceChange::Unblock(source) => (source, true, false),
            SourceChange::Add(source) => (source, false, true),
            SourceChange::Drop(source) => (source, false, false),
        };
        let Some(at) = position(&self.sockets[index], group, device) else {
            if !exclude && add {
                return self.add_membership(index, group, device, false, vec![source]);
            }
            return Err(Errno::EINVAL);
        };
        let m = &mut self.sockets[index].rare_mut().memberships[at];
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
        let s = &self.sockets[index];
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
        let net = self.sockets[index].net;
        let limit = self.net(net).config.max_memberships;
        let memberships = &mut self.sockets[index].rare_mut().memberships;
        let same_family = memberships.iter().filter(|m| m.group.is_ipv4() == group.is_ipv4());
        if same_family.count() >= limit {
            return Err(Errno::ENOBUFS);
        }
        let listed = !sources.is_empty();
        memberships.push(Membership { group, device, exclude, sources, listed });
        self.joined.add(net, group, device, index);
        Ok(())
    }

    fn drop_membership(&mut self, index: u32, at: usize) {
        let net = self.sockets[index].net;
        let m = self.sockets[index].rare_mut().memberships.remove(at);
        self.joined.remove(net, m.group, m.device, index);
    }

    /// Leaves every group, as a close does.
    pub(crate) fn leave_all(&mut self, index: u32) {
        let net = self.sockets[index].net;
        let Some(rare) = &mut self.sockets[index].rare else {
            return;
        };
        for m in std::mem::take(&mut rare.memberships) {
            self.joined.remove(net, m.group, m.device, index);
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
            || self.joined.by_group.get(&(net, group, device)).is_some_and(|sockets| {
                sockets.iter().any(|&i| {
                    let s = &self.sockets[i];
                    let membership = position(s, group, device)
                        .and_then(|at| s.rare.as_ref().map(|r| &r.memberships[at]));
                    membership.is_some_and(|m| m.allows(source))
                })
            })
    }
}

//! Routing by no more than devices and their addresses.

use std::net::{IpAddr, Ipv4Addr};

use crate::addr::{LOOPBACK4, is_multicast4, is_multicast6, needs_scope};
use crate::errno::Errno;
use crate::net::NetId;
use crate::route::{AddressKind, DeviceId, Route, RouteQuery, Router};

/// A device and its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The namespace it stands in.
    pub net: NetId,
    /// The name, for people.
    pub name: String,
    /// The index.
    pub id: DeviceId,
    /// Whether it is the loopback device.
    pub loopback: bool,
    /// Addresses with their prefix lengths in bits.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// Routing by the devices' prefixes. Every namespace has a loopback device `lo` with 127.0.0.1/8 and
/// ::1/128.
#[derive(Debug, Clone, Default)]
pub struct DeviceRoutes {
    devices: Vec<Device>,
}

/// Whether `a` and `b` agree in their first `bits` bits.
fn same_prefix(a: IpAddr, b: IpAddr, bits: u8) -> bool {
    match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => {
            let differ = a.to_bits() ^ b.to_bits();
            differ.leading_zeros() >= u32::from(bits)
        }
        (IpAddr::V6(a), IpAddr::V6(b)) => {
            (a.to_bits() ^ b.to_bits()).leading_zeros() >= u32::from(bits)
        }
        _ => false,
    }
}

/// The broadcast address of an IPv4 prefix; prefixes of 31 and 32 bits have none.
fn broadcast_of(addr: IpAddr, bits: u8) -> Option<u32> {
    match addr {
        IpAddr::V4(a) if bits < 31 => Some(a.to_bits() | (u32::MAX >> bits)),
        _ => None,
    }
}

impl DeviceRoutes {
    /// The loopback device of `net`.
    #[must_use]
    pub fn new(net: NetId) -> Self {
        let mut routes = Self::default();
        routes.add_net(net);
        routes
    }

    /// Gives a further namespace its loopback device.
    pub fn add_net(&mut self, net: NetId) {
        let lo = [
            (IpAddr::V4(Ipv4Addr::LOCALHOST), 8),
            (IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), 128),
        ];
        let id = self.add(net, "lo", &lo);
        if let Some(device) = self.devices.iter_mut().find(|d| d.id == id) {
            device.loopback = true;
        }
    }

    /// Adds a device. Prefix lengths longer than the address are taken as the address's length.
    ///
    /// # Panics
    ///
    /// After 2^32 - 1 devices.
    pub fn add(&mut self, net: NetId, name: &str, addresses: &[(IpAddr, u8)]) -> DeviceId {
        let id = u32::try_from(self.devices.len() + 1).ok().and_then(DeviceId::new);
        let id = id.expect("device indices are 32 bits wide");
        let clamp =
            |&(addr, bits): &(IpAddr, u8)| (addr, bits.min(if addr.is_ipv4() { 32 } else { 128 }));
        let addresses = addresses.iter().map(clamp).collect();
        self.devices.push(Device { net, name: name.to_owned(), id, loopback: false, addresses });
        id
    }

    /// Adds an address to a device; `false` if there is no such device.
    pub fn add_address(&mut self, net: NetId, name: &str, addr: IpAddr, bits: u8) -> bool {
        let Some(device) = self.devices.iter_mut().find(|d| d.net == net && d.name == name) else {
            return false;
        };
        device.addresses.push((addr, bits.min(if addr.is_ipv4() { 32 } else { 128 })));
        true
    }

    /// The device of this name.
    #[must_use]
    pub fn by_name(&self, net: NetId, name: &str) -> Option<DeviceId> {
        self.devices.iter().find(|d| d.net == net && d.name == name).map(|d| d.id)
    }

    /// All devices, in order of their indices.
    #[must_use]
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The device a datagram from `source` would come in by: the loopback device for this host's own
    /// addresses, else the one whose prefix holds the source, else the first.
    #[must_use]
    pub fn arrival_device(&self, net: NetId, source: IpAddr) -> Option<DeviceId> {
        if self.kind(net, source, None) == AddressKind::Local {
            return self.loopback(net);
        }
        self.connected(net, source, None)
            .map(|(d, _)| d.id)
            .or_else(|| self.default_device(net, source, None).map(|d| d.id))
            .or_else(|| self.of(net).find(|d| !d.loopback).map(|d| d.id))
    }

    fn of(&self, net: NetId) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(move |d| d.net == net)
    }

    fn loopback(&self, net: NetId) -> Option<DeviceId> {
        self.of(net).find(|d| d.loopback).map(|d| d.id)
    }

    fn device(&self, net: NetId, id: DeviceId) -> Option<&Device> {
        self.of(net).find(|d| d.id == id)
    }

    /// The longest prefix that holds `addr`, the first of equals.
    fn connected(
        &self,
        net: NetId,
        addr: IpAddr,
        out: Option<DeviceId>,
    ) -> Option<(&Device, IpAddr)> {
        let mut best: Option<(&Device, IpAddr, u8)> = None;
        for device in self.of(net).filter(|d| out.is_none_or(|o| o == d.id)) {
            for &(own, bits) in &device.addresses {
                if same_prefix(own, addr, bits) && best.is_none_or(|(_, _, b)| bits > b) {
                    best = Some((device, own, bits));
                }
            }
        }
        best.map(|(device, own, _)| (device, own))
    }

    fn default_device(&self, net: NetId, addr: IpAddr, out: Option<DeviceId>) -> Option<&Device> {
        self.of(net)
            .find(|d| !d.loopback && d.addresses.iter().any(|(a, _)| a.is_ipv4() == addr.is_ipv4()))
            .filter(|d| out.is_none_or(|o| o == d.id))
    }

    /// The loopback prefix is local as a whole, other prefixes only in the device's own address.
    fn is_local(device: &Device, own: IpAddr, bits: u8, addr: IpAddr) -> bool {
        let last = broadcast_of(own, bits).map(Ipv4Addr::from_bits).map(IpAddr::V4);
        own == addr || (device.loopback && same_prefix(own, addr, bits) && last != Some(addr))
    }

    pub(crate) fn local(
        &self,
        net: NetId,
        addr: IpAddr,
        out: Option<DeviceId>,
    ) -> Option<(&Device, IpAddr)> {
        self.of(net).filter(|d| out.is_none_or(|o| o == d.id)).find_map(|d| {
            let own = d.addresses.iter().find(|&&(own, bits)| Self::is_local(d, own, bits, addr));
            own.map(|&(own, _)| (d, own))
        })
    }

    fn first4(device: &Device) -> u32 {
        let first = device.addresses.iter().find_map(|(a, _)| match a {
            IpAddr::V4(a) => Some(a.to_bits()),
            IpAddr::V6(_) => None,
        });
        first.unwrap_or(0)
    }

    /// A source to send to others from: the device's first address that is not a loopback one, else
    /// the first of the other devices.
    fn outward4(&self, device: &Device) -> u32 {
        let outward = |d: &Device| match Self::first4(d) {
            a if a >> 24 == 127 => None,
            a => Some(a).filter(|&a| a != 0),
        };
        outward(device).or_else(|| self.of(device.net).find_map(outward)).unwrap_or(0)
    }

    fn route4(&self, q: &RouteQuery, mut dst: u32, src: Option<u32>) -> Result<Route, Errno> {
        let answer = |dst: u32, src: u32, broadcast| Route {
            destination: crate::addr::ip4(dst),
            source: crate::addr::ip4(src),
            broadcast,
        };
        if let Some(src) = src {
            let local = self.kind(q.net, crate::addr::ip4(src), None) == AddressKind::Local;
            if is_multicast4(src) {
                return Err(Errno::EINVAL);
            }
            if !(local || q.any_source) {
                return Err(Errno::ENETUNREACH);
            }
        }
        let out = match q.device {
            Some(id) => Some(self.device(q.net, id).ok_or(Errno::ENODEV)?),
            None => None,
        };
        if let (None, Some(src)) = (out, src)
            && (is_multicast4(dst) || dst == u32::MAX)
        {
            // Without a device named, the one that has the source address carries it, even lo.
            if self.local(q.net, crate::addr::ip4(src), None).is_some() {
                return Ok(answer(dst, src, dst == u32::MAX));
            }
        }
        if let Some(device) = out
            && (dst >> 8 == 0xe0_0000 || dst == u32::MAX)
        {
            let src = src.unwrap_or_else(|| self.outward4(device));
            return Ok(answer(dst, src, dst == u32::MAX));
        }
        if dst == 0 {
            dst = src.or_else(|| out.map(Self::first4)).filter(|&a| a != 0).unwrap_or(LOOPBACK4);
            return Ok(answer(dst, dst, false));
        }
        let to = crate::addr::ip4(dst);
        let (device, chosen, broadcast) = if let Some((_, own)) = self.local(q.net, to, q.device) {
            (None, own, false)
        } else if let Some((device, own)) = self.broadcast(q.net, dst, q.device) {
            (Some(device), own, true)
        } else if let Some((device, own)) = self.connected(q.net, to, q.device) {
            (Some(device), own, false)
        } else if let Some(device) = self.default_device(q.net, to, q.device).or(out) {
            (Some(device), crate::addr::ip4(self.outward4(device)), dst == u32::MAX)
        } else {
            return Err(Errno::ENETUNREACH);
        };
        let IpAddr::V4(chosen) = chosen else {
            return Err(Errno::ENETUNREACH);
        };
        let src = src.unwrap_or_else(|| chosen.to_bits());
        // A loopback source never leaves the host.
        if src >> 24 == 127 && device.is_some_and(|d| !d.loopback) {
            return Err(Errno::EINVAL);
        }
        Ok(answer(dst, src, broadcast))
    }

    /// What the query leaves open is settled first, and then the whole is asked again, so that a
    /// source that was chosen is tested like one that was given.
    fn route4_twice(&self, q: &RouteQuery, dst: u32, src: Option<IpAddr>) -> Result<Route, Errno> {
        let src = match src {
            Some(IpAddr::V4(src)) => Some(src.to_bits()),
            Some(IpAddr::V6(_)) => return Err(Errno::EINVAL),
            None => None,
        };
        match self.route4(q, dst, src)? {
            Route { destination: IpAddr::V4(d), source: IpAddr::V4(s), .. }
                if !s.is_unspecified() =>
            {
                self.route4(q, d.to_bits(), Some(s.to_bits()))
            }
            route => Ok(route),
        }
    }

    fn broadcast(&self, net: NetId, dst: u32, out: Option<DeviceId>) -> Option<(&Device, IpAddr)> {
        self.of(net).filter(|d| out.is_none_or(|o| o == d.id)).find_map(|d| {
            let own = d.addresses.iter().find(|&&(own, bits)| broadcast_of(own, bits) == Some(dst));
            own.map(|&(own, _)| (d, own))
        })
    }

    fn route6(&self, q: &RouteQuery, dst: u128, src: Option<u128>) -> Result<Route, Errno> {
        let to = crate::addr::ip6(dst);
        if let Some(id) = q.device
            && self.device(q.net, id).is_none()
        {
            return Err(Errno::ENODEV);
        }
        let local = self.local(q.net, to, q.device);
        let device = match local {
            Some((device, _)) => device,
            None if is_multicast6(dst) => match q.device {
                // The loopback device carries no IPv6 multicast.
                Some(id) => {
                    self.device(q.net, id).filter(|d| !d.loopback).ok_or(Errno::ENETUNREACH)?
                }
                None => self.default_device(q.net, to, None).ok_or(Errno::ENETUNREACH)?,
            },
            None => self
                .connected(q.net, to, q.device)
                .map(|(d, _)| d)
                .or_else(|| self.default_device(q.net, to, q.device))
                .ok_or(Errno::ENETUNREACH)?,
        };
        let source = match src {
            Some(src) => src,
            None if local.is_some() => dst,
            None => self.source6(q.net, device, dst).ok_or(Errno::EADDRNOTAVAIL)?,
        };
        Ok(Route { destination: to, source: crate::addr::ip6(source), broadcast: false })
    }

    /// RFC 6724 section 5, rules 1, 2 (link-local or not), 5 and 8.
    fn source6(&self, net: NetId, device: &Device, dst: u128) -> Option<u128> {
        // ::1 is of link-local scope (RFC 4007 section 4).
        let link = needs_scope(dst) || dst == 1;
        let mut best: Option<((bool, bool, u32), u128)> = None;
        for d in self.of(net).filter(|d| !link || d.id == device.id) {
            for (own, _) in &d.addresses {
                let IpAddr::V6(own) = own else { continue };
                let own = own.to_bits();
                let rank =
                    (needs_scope(own) == link, d.id == device.id, (own ^ dst).leading_zeros());
                if (device.loopback || !d.loopback) && best.is_none_or(|(r, _)| rank > r) {
                    best = Some((rank, own));
                }
            }
        }
        best.map(|(_, own)| own)
    }
}

impl Router for DeviceRoutes {
    fn kind(&self, net: NetId, addr: IpAddr, device: Option<DeviceId>) -> AddressKind {
        match addr {
            IpAddr::V4(v4) => {
                let v4 = v4.to_bits();
                if is_multicast4(v4) {
                    AddressKind::Multicast
                } else if v4 == u32::MAX || v4 >> 24 == 0 {
                    AddressKind::Broadcast
                } else if self.local(net, addr, None).is_some() {
                    AddressKind::Local
                } else if self.broadcast(net, v4, None).is_some() {
                    AddressKind::Broadcast
                } else {
                    AddressKind::Unicast
                }
            }
            IpAddr::V6(v6) => {
                let v6 = v6.to_bits();
                if is_multicast6(v6) {
                    return AddressKind::Multicast;
                }
                // Link-local and loopback addresses belong to their device alone.
                let device = device.filter(|_| needs_scope(v6) || v6 == 1);
                match self.local(net, addr, device) {
                    Some(_) => AddressKind::Local,
                    None => AddressKind::Unicast,
                }
            }
        }
    }

    fn has_device(&self, net: NetId, device: DeviceId) -> bool {
        self.device(net, device).is_some()
    }

    fn route(&self, q: &RouteQuery) -> Result<Route, Errno> {
        match (q.destination, q.source) {
            (IpAddr::V4(d), Some(IpAddr::V4(s))) if !d.is_unspecified() => {
                self.route4(q, d.to_bits(), Some(s.to_bits()))
            }
            (IpAddr::V4(d), source) => self.route4_twice(q, d.to_bits(), source),
            (IpAddr::V6(d), Some(IpAddr::V6(s))) => self.route6(q, d.to_bits(), Some(s.to_bits())),
            (IpAddr::V6(d), None) => self.route6(q, d.to_bits(), None),
            _ => Err(Errno::EINVAL),
        }
    }

    fn group_device(&self, net: NetId, group: IpAddr) -> Option<DeviceId> {
        self.default_device(net, group, None).map(|d| d.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(s: &str) -> IpAddr {
        s.parse().unwrap()
    }

    fn routes() -> (DeviceRoutes, DeviceId, DeviceId) {
        let mut r = DeviceRoutes::new(NetId::FIRST);
        let d0 = r.add(NetId::FIRST, "d0", &[(ip("10.1.0.1"), 24), (ip("fd01::1"), 64)]);
        let d1 = r.add(NetId::FIRST, "d1", &[(ip("10.1.0.129"), 25), (ip("fe80::5"), 64)]);
        (r, d0, d1)
    }

    fn ask(
        r: &DeviceRoutes,
        d: &str,
        s: Option<&str>,
        o: Option<DeviceId>,
    ) -> Result<String, Errno> {
        let q = RouteQuery {
            net: NetId::FIRST,
            destination: ip(d),
            source: s.map(ip),
            device: o,
            any_source: false,
        };
        r.route(&q).map(|a| a.source.to_string())
    }

    #[test]
    fn kinds() {
        let (r, d0, d1) = routes();
        let kind = |a, d| r.kind(NetId::FIRST, ip(a), d);
        assert_eq!(kind("10.1.0.1", None), AddressKind::Local);
        assert_eq!(kind("127.9.9.9", None), AddressKind::Local);
        assert_eq!(kind("127.255.255.255", None), AddressKind::Broadcast);
        assert_eq!(kind("10.1.0.255", None), AddressKind::Broadcast);
        assert_eq!(kind("10.1.0.2", None), AddressKind::Unicast);
        assert_eq!(kind("224.0.0.1", None), AddressKind::Multicast);
        assert_eq!(kind("fe80::5", Some(d1)), AddressKind::Local);
        assert_eq!(kind("fe80::5", Some(d0)), AddressKind::Unicast);
        assert_eq!(kind("fd01::1", Some(d1)), AddressKind::Local);
        assert_eq!(kind("ff02::1", None), AddressKind::Multicast);
    }

    #[test]
    fn sources() {
        let (mut r, d0, d1) = routes();
        assert_eq!(ask(&r, "10.1.0.9", None, None).unwrap(), "10.1.0.1");
        assert_eq!(ask(&r, "10.1.0.200", None, None).unwrap(), "10.1.0.129");
        assert_eq!(ask(&r, "10.1.0.200", None, Some(d0)).unwrap(), "10.1.0.1");
        assert_eq!(ask(&r, "9.9.9.9", None, None).unwrap(), "10.1.0.1");
        assert_eq!(ask(&r, "9.9.9.9", None, Some(d1)).unwrap(), "10.1.0.129");
        assert_eq!(ask(&r, "127.0.0.5", None, None).unwrap(), "127.0.0.1");
        assert_eq!(ask(&r, "0.0.0.0", Some("10.1.0.1"), None).unwrap(), "10.1.0.1");
        assert_eq!(ask(&r, "9.9.9.9", Some("127.0.0.1"), None), Err(Errno::EINVAL));
        assert_eq!(ask(&r, "9.9.9.9", Some("8.8.8.8"), None), Err(Errno::ENETUNREACH));
        assert_eq!(ask(&r, "fd01::9", None, None).unwrap(), "fd01::1");
        assert_eq!(ask(&r, "fe80::9", None, Some(d1)).unwrap(), "fe80::5");
        assert_eq!(ask(&r, "::1", None, None).unwrap(), "::1");
        assert_eq!(ask(&r, "fe80::9", None, Some(d0)).unwrap(), "fd01::1", "by the default route");
        r.add_address(NetId::FIRST, "d0", ip("fe80::1"), 64);
        assert_eq!(ask(&r, "::1", None, Some(d0)).unwrap(), "fe80::1", "out of the host");
        assert_eq!(ask(&r, "ff05::5", None, Some(d0)).unwrap(), "fd01::1");
        assert_eq!(ask(&r, "ff05::5", None, DeviceId::new(1)), Err(Errno::ENETUNREACH));
        assert_eq!(ask(&r, "fe80::9", None, DeviceId::new(1)), Err(Errno::ENETUNREACH));
        // A source on lo is not for others, and multicast from it stays on lo.
        assert_eq!(ask(&r, "0.0.0.0", Some("127.0.0.6"), Some(d0)), Err(Errno::EINVAL));
        assert_eq!(ask(&r, "224.1.1.1", Some("127.0.0.6"), None).unwrap(), "127.0.0.6");
        assert_eq!(ask(&r, "8.8.8.8", None, DeviceId::new(1)).unwrap(), "10.1.0.1");
        assert_eq!(ask(&r, "0.0.0.0", None, Some(d0)).unwrap(), "10.1.0.1");
        assert_eq!(ask(&r, "fd01::1", None, None).unwrap(), "fd01::1");
    }

    #[test]
    fn without_devices_the_network_is_unreachable() {
        let r = DeviceRoutes::new(NetId::FIRST);
        assert_eq!(ask(&r, "9.9.9.9", None, None), Err(Errno::ENETUNREACH));
        assert_eq!(ask(&r, "fd09::1", None, None), Err(Errno::ENETUNREACH));
        assert_eq!(ask(&r, "127.0.0.1", None, None).unwrap(), "127.0.0.1");
    }
}

//! The table: sockets, their creation, options and end.

use fourtuple_hash::{Key, SipHash24};

use crate::claims::{Claim, Claims};
use crate::devices::DeviceRoutes;
use crate::errno::Errno;
use crate::groups::Groups;
use crate::hash::Seeds;
use crate::memberships::Joined;
use crate::net::{Net, NetConfig, NetId};
use crate::options::{Family, SetOption, SocketOptions};
use crate::profile::Profile;
use crate::route::{DeviceId, Router, index_of};
use crate::selector::LookupProgram;
use crate::sockets::{Flags, NONE, Socket, SocketId, Sockets};
use crate::tables::address::AddressTable;
use crate::tables::port::PortTable;
#[cfg(feature = "hash4")]
use crate::tables::tuple::TupleTable;

/// What a table is made with.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whose rules hold.
    pub profile: Profile,
    /// Slots of each table: raised to 128, rounded up to a power of two, at most 65536, as
    /// `net.ipv4.udp_child_hash_entries` is. The 4-tuple table grows from there.
    pub slots: u32,
    /// The secret that hashes and port choice depend on. The same key gives the same choices.
    pub key: Key,
    /// Settings of the first namespace.
    pub net: NetConfig,
}

impl Config {
    /// 1024 slots, default settings and the key of this process, under a profile.
    #[must_use]
    pub fn new(profile: Profile) -> Self {
        Self { profile, slots: 1024, key: *Key::process(), net: NetConfig::default() }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new(Profile::default())
    }
}

/// All UDP sockets of one or several network namespaces, and the three tables over them.
///
/// Operations that change sockets take `&mut self` and report the kernel's errors; look-ups take
/// `&self` and have no side effects.
#[derive(Debug)]
pub struct UdpTable<R = DeviceRoutes> {
    pub(crate) profile: Profile,
    pub(crate) seeds: Seeds,
    secret: Key,
    draws: u64,
    pub(crate) nets: Vec<Net>,
    pub(crate) sockets: Sockets,
    pub(crate) ports: PortTable,
    pub(crate) addresses: AddressTable,
    #[cfg(feature = "hash4")]
    pub(crate) tuples: TupleTable,
    pub(crate) groups: Groups,
    pub(crate) claims: Claims,
    pub(crate) joined: Joined,
    pub(crate) router: R,
}

/// What a socket is bound and connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketInfo {
    /// `getsockname`: address and port, any and 0 if there is none.
    pub local: (std::net::IpAddr, u16),
    /// `getpeername`; `None` is `ENOTCONN`.
    pub peer: Option<(std::net::IpAddr, u16)>,
    /// The device the socket is bound to.
    pub device: Option<DeviceId>,
    /// Whether it is connected.
    pub connected: bool,
    /// Whether it has a port and can be found.
    pub bound: bool,
}

/// Sizes of a table's parts, in bytes, and how many sockets there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// Sockets in the slab.
    pub sockets: usize,
    /// Bytes of the slab.
    pub socket_bytes: usize,
    /// Bytes of the slots of the three tables.
    pub table_bytes: usize,
    /// Sockets in the 4-tuple table.
    pub tuples: usize,
}

impl UdpTable {
    /// A table with one namespace that has a loopback device only.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self::with_router(config, DeviceRoutes::new(NetId::FIRST))
    }
}

impl<R: Router> UdpTable<R> {
    /// A table that asks `router` for devices, addresses and routes.
    #[must_use]
    pub fn with_router(config: &Config, router: R) -> Self {
        let slots = config.slots.clamp(128, 65536).next_power_of_two() as usize;
        // Namespaces and draws get keys of their own, so that no hash is seen under two uses.
        let secret = config.key.derive(u64::from_le_bytes(*b"udptable"));
        Self {
            profile: config.profile,
            seeds: Seeds::new(&secret.derive(1 << 33), config.profile),
            secret,
            draws: 0,
            nets: vec![Net::new(config.net.clone(), &secret, 0)],
            sockets: Sockets::default(),
            ports: PortTable::new(slots),
            addresses: AddressTable::new(slots),
            #[cfg(feature = "hash4")]
            tuples: TupleTable::new(slots),
            groups: Groups::default(),
            claims: Claims::default(),
            joined: Joined::default(),
            router,
        }
    }

    /// Adds a namespace that shares this table's slots; `None` if there are 65536 already.
    pub fn add_net(&mut self, config: NetConfig) -> Option<NetId> {
        let id = u16::try_from(self.nets.len()).ok()?;
        self.nets.push(Net::new(config, &self.secret, id));
        Some(NetId(id))
    }

    /// The profile.
    #[must_use]
    pub const fn profile(&self) -> Profile {
        self.profile
    }

    /// The router.
    #[must_use]
    pub const fn router(&self) -> &R {
        &self.router
    }

    /// The router, to change devices and routes.
    pub const fn router_mut(&mut self) -> &mut R {
        &mut self.router
    }

    /// A namespace's settings; `None` if there is no such namespace.
    #[must_use]
    pub fn net_config(&self, net: NetId) -> Option<&NetConfig> {
        self.nets.get(usize::from(net.0)).map(|n| &n.config)
    }

    /// A namespace's settings, to change them.
    pub fn net_config_mut(&mut self, net: NetId) -> Option<&mut NetConfig> {
        self.nets.get_mut(usize::from(net.0)).map(|n| &mut n.config)
    }

    /// Attaches a look-up program to a namespace, after those that are there. `false`: no such
    /// namespace.
    pub fn attach_program(&mut self, net: NetId, program: impl LookupProgram + 'static) -> bool {
        let Some(net) = self.nets.get_mut(usize::from(net.0)) else {
            return false;
        };
        net.programs.push(std::sync::Arc::new(program));
        true
    }

    /// Detaches all look-up programs of a namespace.
    pub fn detach_programs(&mut self, net: NetId) {
        if let Some(net) = self.nets.get_mut(usize::from(net.0)) {
            net.programs.clear();
        }
    }

    /// Creates a socket.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a device that is not there, `EINVAL` for a namespace that is not, `ENOMEM` at
    /// 2^32 - 1 sockets.
    pub fn create(&mut self, options: &SocketOptions) -> Result<SocketId, Errno> {
        if self.net_config(options.net).is_none() {
            return Err(Errno::EINVAL);
        }
        if options.device.is_some_and(|d| !self.router.has_device(options.net, d)) {
            return Err(Errno::ENODEV);
        }
        let six = options.family == Family::V6;
        let mut socket = Socket::new(options.family, options.net);
        socket.uid = options.uid;
        socket.device = index_of(options.device);
        for (flag, on) in [
            (Flags::PRIVILEGED, options.privileged.unwrap_or(options.uid == 0)),
            (Flags::V6ONLY, options.v6only && six),
            (Flags::REUSE, options.reuseaddr),
            (Flags::REUSEPORT, options.reuseport),
            (Flags::BROADCAST, options.broadcast),
            (Flags::FREEBIND, options.freebind),
        ] {
            socket.flags.set(flag, on);
        }
        self.sockets.insert(socket).ok_or(Errno::ENOMEM)
    }

    /// Closes a socket: it leaves every table, group and multicast group at once.
    ///
    /// # Errors
    ///
    /// `EBADF` for a socket that is closed.
    pub fn close(&mut self, id: SocketId) -> Result<(), Errno> {
        let index = self.index(id)?;
        self.leave_all(index);
        self.edit(index, |table| table.unhash(index));
        self.leave_group(index);
        self.sockets.remove(index);
        Ok(())
    }

    /// What a socket is bound and connected to.
    ///
    /// # Errors
    ///
    /// `EBADF` for a socket that is closed.
    pub fn info(&self, id: SocketId) -> Result<SocketInfo, Errno> {
        let s = &self.sockets[self.index(id)?];
        Ok(SocketInfo {
            local: s.local(),
            peer: s.peer(),
            device: DeviceId::new(s.device),
            connected: s.connected(),
            bound: s.hashed(),
        })
    }

    /// The members of the reuseport group a socket is in, in the group's order; empty if in none.
    #[must_use]
    pub fn group_of(&self, id: SocketId) -> &[SocketId] {
        let group = self.sockets.find(id).map(|i| self.sockets[i].group);
        group.filter(|&g| g != NONE).map_or(&[], |g| self.groups[g].members.as_slice())
    }

    /// All open sockets, in no particular order.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> {
        self.sockets.live().map(|i| self.sockets.id(i))
    }

    /// How much memory the parts hold.
    #[must_use]
    pub fn usage(&self) -> Usage {
        #[cfg(feature = "hash4")]
        let (tuple_bytes, tuples) = (self.tuples.bytes(), self.tuples.len());
        #[cfg(not(feature = "hash4"))]
        let (tuple_bytes, tuples) = (0, 0);
        Usage {
            sockets: self.sockets.len(),
            socket_bytes: self.sockets.bytes(),
            table_bytes: self.ports.bytes() + self.addresses.bytes() + tuple_bytes,
            tuples,
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// The kernel's: `EINVAL` for `IPV6_V6ONLY` on a socket with a port and for a port range upside
    /// down, `ENOPROTOOPT` for an IPv6 option on an IPv4 socket, `ENODEV` for a device that is not
    /// there, `EPERM` for what needs privilege; in [`Profile::Strict`] `EADDRINUSE` for a device
    /// change that would make two sockets overlap.
    pub fn set(&mut self, id: SocketId, option: SetOption) -> Result<(), Errno> {
        let index = self.index(id)?;
        self.check_option(index, &option)?;
        match option {
            SetOption::Device(device) => return self.set_device(index, index_of(device)),
            SetOption::IncomingCpu(cpu) => {
                self.set_incoming_cpu(index, cpu.map_or(-1, i32::from));
                return Ok(());
            }
            option => self.edit(index, |table| apply(&mut table.sockets[index], &option)),
        }
        Ok(())
    }

    fn check_option(&self, index: u32, option: &SetOption) -> Result<(), Errno> {
        let s = &self.sockets[index];
        let only6 = matches!(
            option,
            SetOption::V6Only(_)
                | SetOption::RecvErr6(_)
                | SetOption::MulticastAll6(_)
                | SetOption::PmtuDont6(_)
                | SetOption::MulticastIf6(_)
        );
        if only6 && !s.is6() {
            return Err(Errno::ENOPROTOOPT);
        }
        let device = match option {
            SetOption::Device(d)
            | SetOption::MulticastIf4(d, _)
            | SetOption::MulticastIf6(d)
            | SetOption::UnicastIf(d) => *d,
            _ => None,
        };
        match option {
            SetOption::V6Only(_) if s.port != 0 => Err(Errno::EINVAL),
            SetOption::Transparent(true) if !s.has(Flags::PRIVILEGED) => Err(Errno::EPERM),
            SetOption::LocalPortRange(low, high) if *low != 0 && *high != 0 && low > high => {
                Err(Errno::EINVAL)
            }
            _ if device.is_some_and(|d| !self.router.has_device(s.net, d)) => Err(Errno::ENODEV),
            SetOption::MulticastIf4(Some(d), _) | SetOption::MulticastIf6(Some(d))
                if s.device != 0 && d.index() != s.device =>
            {
                Err(Errno::EINVAL)
            }
            SetOption::Device(_) if s.device != 0 && !s.has(Flags::PRIVILEGED) => Err(Errno::EPERM),
            _ => Ok(()),
        }
    }

    pub(crate) fn index(&self, id: SocketId) -> Result<u32, Errno> {
        self.sockets.find(id).ok_or(Errno::EBADF)
    }

    #[inline]
    pub(crate) fn net(&self, id: NetId) -> &Net {
        &self.nets[usize::from(id.0)]
    }

    /// A random number; predictable only to those who know the key.
    pub(crate) fn random(&mut self) -> u32 {
        self.draws += 1;
        SipHash24::u64x2(&self.secret, u64::from_le_bytes(*b"udp draw"), self.draws) as u32
    }

    /// Changes a socket, and what it claims of its port with it.
    pub(crate) fn edit<T>(&mut self, index: u32, change: impl FnOnce(&mut Self) -> T) -> T {
        if self.profile == Profile::Linux {
            return change(self);
        }
        let s = &self.sockets[index];
        let before = s.hashed().then(|| (s.net, s.port, Claim::of(s)));
        let result = change(self);
        let s = &self.sockets[index];
        let after = s.hashed().then(|| (s.net, s.port, Claim::of(s)));
        if before != after {
            if let Some((net, port, claim)) = before {
                self.claims.remove(net, port, &claim);
            }
            if let Some((net, port, claim)) = after {
                self.claims.add(net, port, claim);
            }
        }
        result
    }
}

/// Options that are no more than a field.
fn apply(s: &mut Socket, option: &SetOption) {
    let (flag, on) = match *option {
        SetOption::ReuseAddr(on) => (Flags::REUSE, on),
        SetOption::ReusePort(on) => (Flags::REUSEPORT, on),
        SetOption::V6Only(on) => (Flags::V6ONLY, on),
        SetOption::Broadcast(on) => (Flags::BROADCAST, on),
        SetOption::FreeBind(on) => (Flags::FREEBIND, on),
        SetOption::Transparent(on) => (Flags::TRANSPARENT, on),
        SetOption::BindAddressNoPort(on) => (Flags::NO_PORT, on),
        SetOption::RecvErr4(on) => (Flags::RECVERR4, on),
        SetOption::RecvErr6(on) => (Flags::RECVERR6, on),
        SetOption::MulticastAll4(on) => (Flags::MC_ALL4, on),
        SetOption::MulticastAll6(on) => (Flags::MC_ALL6, on),
        SetOption::NoCheck6Rx(on) => (Flags::NO_CHECK6, on),
        SetOption::PmtuDont4(on) => (Flags::PMTU_DONT4, on),
        SetOption::PmtuDont6(on) => (Flags::PMTU_DONT6, on),
        SetOption::LocalPortRange(low, high) => return s.rare_mut().port_range = (low, high),
        SetOption::MulticastIf4(device, source) => {
            let rare = s.rare_mut();
            rare.multicast_if4 = index_of(device);
            rare.multicast_source4 = source.to_bits();
            return;
        }
        SetOption::MulticastIf6(device) => {
            return s.rare_mut().multicast_if6 = index_of(device);
        }
        SetOption::UnicastIf(device) => return s.rare_mut().unicast_if = index_of(device),
        // These two change more than the socket.
        SetOption::Device(_) | SetOption::IncomingCpu(_) => return,
    };
    s.flags.set(flag, on);
}

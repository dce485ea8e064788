//! The table: sockets, their creation, options and end.

use fourtuple_hash::{Key, SipHash24};

use std::sync::{Arc, Mutex};

use crate::devices::DeviceRoutes;
use crate::errno::Errno;
use crate::groups::Groups;
use crate::hash::Seeds;
use crate::net::{Net, NetConfig, NetId, Nets};
use crate::options::{Family, SetOption, SocketOptions};
use crate::profile::Profile;
use crate::route::{DeviceId, Router, index_of};
use crate::selector::LookupProgram;
use crate::sockets::{Flags, Socket, SocketId};
use crate::store::{Shared, Sockets};
use crate::tables::address::AddressTable;
use crate::tables::port::PortTable;
#[cfg(feature = "hash4")]
use crate::tables::tuple::TupleTable;
use crate::writer::{State, Writer};

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
/// Everything works through `&self`. Operations that change sockets take turns and report the kernel's
/// errors. Look-ups take no lock, allocate nothing and wait for nobody: one that runs while its socket
/// connects, reconnects or disconnects finds it at its old place or at the new one.
///
/// The router is asked by the operation whose turn it is, and so must not call the table.
#[derive(Debug)]
pub struct UdpTable<R = DeviceRoutes> {
    pub(crate) profile: Profile,
    pub(crate) seeds: Seeds,
    secret: Key,
    pub(crate) nets: Nets,
    pub(crate) shared: Shared,
    pub(crate) ports: PortTable,
    pub(crate) addresses: AddressTable,
    #[cfg(feature = "hash4")]
    pub(crate) tuples: TupleTable,
    pub(crate) groups: Groups,
    pub(crate) state: Mutex<State>,
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
    /// Bytes of sockets and their places in chains, with what is allocated ahead. What few sockets
    /// have (memberships, a port range, ...) is not counted.
    pub socket_bytes: usize,
    /// Bytes of the slots of the three tables.
    pub table_bytes: usize,
    /// Bytes of reuseport groups.
    pub group_bytes: usize,
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
            nets: Nets::new(Net::new(config.net.clone(), &secret, 0)),
            secret,
            shared: Shared::default(),
            ports: PortTable::new(slots),
            addresses: AddressTable::new(slots),
            #[cfg(feature = "hash4")]
            tuples: TupleTable::new(slots as u32),
            groups: Groups::default(),
            state: Mutex::default(),
            router,
        }
    }

    /// Adds a namespace that shares this table's slots; `None` if there are 65533 already.
    pub fn add_net(&self, config: NetConfig) -> Option<NetId> {
        let _writer = self.write();
        self.nets.add(|id| Net::new(config, &self.secret, id))
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
    pub fn net_config(&self, net: NetId) -> Option<Arc<NetConfig>> {
        self.nets.get(net).map(Net::config)
    }

    /// Changes a namespace's settings; `None` if there is no such namespace.
    pub fn change_net_config<T>(
        &self,
        net: NetId,
        change: impl FnOnce(&mut NetConfig) -> T,
    ) -> Option<T> {
        let _writer = self.write();
        let net = self.nets.get(net)?;
        let mut config = (*net.config()).clone();
        let result = change(&mut config);
        net.set_config(config);
        Some(result)
    }

    /// Attaches a look-up program to a namespace, after those that are there. `false`: no such
    /// namespace.
    pub fn attach_program(&self, net: NetId, program: impl LookupProgram + 'static) -> bool {
        let _writer = self.write();
        let Some(net) = self.nets.get(net) else {
            return false;
        };
        let mut programs = net.programs().map_or_else(Vec::new, |p| (*p).clone());
        programs.push(Arc::new(program));
        net.set_programs(programs);
        true
    }

    /// Detaches all look-up programs of a namespace.
    pub fn detach_programs(&self, net: NetId) {
        let _writer = self.write();
        if let Some(net) = self.nets.get(net) {
            net.set_programs(Vec::new());
        }
    }

    /// Creates a socket.
    ///
    /// # Errors
    ///
    /// `ENODEV` for a device that is not there, `EINVAL` for a namespace that is not, `ENOMEM` at
    /// 2^32 - 1 sockets.
    pub fn create(&self, options: &SocketOptions) -> Result<SocketId, Errno> {
        self.write().create(options)
    }

    /// Closes a socket: it leaves every table, group and multicast group at once.
    ///
    /// # Errors
    ///
    /// `EBADF` for a socket that is closed.
    pub fn close(&self, id: SocketId) -> Result<(), Errno> {
        self.write().close(id)
    }

    /// What a socket is bound and connected to.
    ///
    /// # Errors
    ///
    /// `EBADF` for a socket that is closed.
    pub fn info(&self, id: SocketId) -> Result<SocketInfo, Errno> {
        let w = self.write();
        let s = w.socket(w.index(id)?);
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
    pub fn group_of(&self, id: SocketId) -> Vec<SocketId> {
        let w = self.write();
        w.index(id).map_or_else(|_| Vec::new(), |index| self.members(index))
    }

    /// All open sockets, in no particular order.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> {
        let w = self.write();
        let all: Vec<_> = w.state.sockets.live().map(|i| Sockets::id(&self.shared, i)).collect();
        all.into_iter()
    }

    /// How much memory the parts hold.
    #[must_use]
    pub fn usage(&self) -> Usage {
        #[cfg(feature = "hash4")]
        let (tuple_bytes, tuples) = (self.tuples.bytes(), self.tuples.len());
        #[cfg(not(feature = "hash4"))]
        let (tuple_bytes, tuples) = (0, 0);
        let w = self.write();
        Usage {
            sockets: w.state.sockets.len(),
            socket_bytes: self.shared.bytes() + w.state.sockets.bytes(),
            table_bytes: self.ports.bytes() + self.addresses.bytes() + tuple_bytes,
            group_bytes: self.groups.bytes(),
            tuples,
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// The kernel's: `EINVAL` for `IPV6_V6ONLY` on a socket with a port, for a port range upside down
    /// and for an outgoing device other than the bound one, `ENOPROTOOPT` for an IPv6 option on an IPv4
    /// socket, `ENODEV` for a device that is not there, `EPERM` for what needs privilege; in
    /// [`Profile::Strict`] `EADDRINUSE` for a device change that would make two sockets overlap.
    pub fn set(&self, id: SocketId, option: SetOption) -> Result<(), Errno> {
        let mut w = self.write();
        let index = w.index(id)?;
        w.set(index, &option)
    }
}

impl<R> UdpTable<R> {
    /// The namespace of a socket or an arrival, which exists.
    #[inline]
    pub(crate) fn net(&self, id: NetId) -> &Net {
        self.nets.known(id)
    }
}

impl<R: Router> Writer<'_, R> {
    pub(crate) fn create(&mut self, options: &SocketOptions) -> Result<SocketId, Errno> {
        let table = self.table;
        if table.nets.get(options.net).is_none() {
            return Err(Errno::EINVAL);
        }
        if options.device.is_some_and(|d| !table.router.has_device(options.net, d)) {
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
        self.state.sockets.insert(&table.shared, socket).ok_or(Errno::ENOMEM)
    }

    pub(crate) fn close(&mut self, id: SocketId) -> Result<(), Errno> {
        let index = self.index(id)?;
        self.leave_all(index);
        self.edit(index, |w| {
            w.unhash(index);
            Ok(())
        })?;
        self.leave_group(index);
        let table = self.table;
        self.state.sockets.remove(&table.shared, index);
        Ok(())
    }

    fn set(&mut self, index: u32, option: &SetOption) -> Result<(), Errno> {
        self.check_option(index, option)?;
        match *option {
            SetOption::Device(device) => return self.set_device(index, index_of(device)),
            SetOption::IncomingCpu(cpu) => {
                self.set_incoming_cpu(index, cpu.map_or(-1, i32::from));
            }
            SetOption::LocalPortRange(low, high) => self.rare_mut(index).port_range = (low, high),
            SetOption::MulticastIf4(device, source) => {
                let rare = self.rare_mut(index);
                rare.multicast_if4 = index_of(device);
                rare.multicast_source4 = source.to_bits();
            }
            SetOption::MulticastIf6(device) => {
                self.rare_mut(index).multicast_if6 = index_of(device);
            }
            SetOption::UnicastIf(device) => self.rare_mut(index).unicast_if = index_of(device),
            _ => {
                return self.edit(index, |w| {
                    apply(w.socket_mut(index), option);
                    Ok(())
                });
            }
        }
        Ok(())
    }

    fn check_option(&self, index: u32, option: &SetOption) -> Result<(), Errno> {
        let s = self.socket(index);
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

    /// A random number; predictable only to those who know the key.
    pub(crate) fn random(&mut self) -> u32 {
        self.state.draws += 1;
        let name = u64::from_le_bytes(*b"udp draw");
        SipHash24::u64x2(&self.table.secret, name, self.state.draws) as u32
    }
}

/// Options that are no more than a flag.
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
        // The others change more than the socket.
        _ => return,
    };
    s.flags.set(flag, on);
}

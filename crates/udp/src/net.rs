//! Network namespaces: their settings, their secrets and their look-up programs.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use fourtuple_hash::Key;

use crate::segments::Segments;
use crate::selector::LookupProgram;
use crate::sync::{AtomicU32, Ordering};

/// A namespace of one table. Namespaces share the table's slots and never its sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetId(pub(crate) u16);

impl NetId {
    /// The namespace a new table has.
    pub const FIRST: Self = Self(0);

    /// The number, counted from 0 in order of creation.
    #[must_use]
    pub const fn index(self) -> u16 {
        self.0
    }
}

/// The sysctls that the socket tables obey, with the kernel's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetConfig {
    /// `net.ipv4.ip_local_port_range`, both ends included.
    pub port_range: (u16, u16),
    /// `net.ipv4.ip_local_reserved_ports`.
    pub reserved_ports: BTreeSet<u16>,
    /// `net.ipv4.ip_unprivileged_port_start`.
    pub unprivileged_port_start: u16,
    /// `net.ipv4.ip_nonlocal_bind`.
    pub nonlocal_bind4: bool,
    /// `net.ipv6.ip_nonlocal_bind`.
    pub nonlocal_bind6: bool,
    /// `net.ipv4.udp_l3mdev_accept`.
    pub udp_l3mdev_accept: bool,
    /// `net.ipv4.tcp_l3mdev_accept`, which Linux obeys in the 4-tuple table.
    pub tcp_l3mdev_accept: bool,
    /// `net.ipv4.ip_early_demux`; early demultiplexing needs both.
    pub ip_early_demux: bool,
    /// `net.ipv4.udp_early_demux`.
    pub udp_early_demux: bool,
    /// `net.ipv6.bindv6only`: the start value of `IPV6_V6ONLY` where a scenario does not say.
    pub bindv6only: bool,
    /// `net.ipv4.igmp_max_memberships`.
    pub max_memberships: usize,
}

impl Default for NetConfig {
    fn default() -> Self {
        Self {
            port_range: (32768, 60999),
            reserved_ports: BTreeSet::new(),
            unprivileged_port_start: 1024,
            nonlocal_bind4: false,
            nonlocal_bind6: false,
            udp_l3mdev_accept: false,
            tcp_l3mdev_accept: false,
            ip_early_demux: true,
            udp_early_demux: true,
            bindv6only: false,
            max_memberships: 20,
        }
    }
}

/// A namespace.
pub(crate) struct Net {
    config: ArcSwap<NetConfig>,
    /// What look-ups read of the settings: [`Self::UDP_ACCEPT`], [`Self::TCP_ACCEPT`].
    accept: AtomicU32,
    /// Added to ports and to the seeds of hashes.
    pub(crate) mix: u32,
    /// Key of the 4-tuple hash.
    pub(crate) key: Key,
    /// Counts the programs, so that a look-up reads no more where there are none.
    has_programs: AtomicU32,
    programs: ArcSwap<Vec<Arc<dyn LookupProgram>>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net")
            .field("config", &self.config.load())
            .field("programs", &self.has_programs)
            .finish_non_exhaustive()
    }
}

impl Net {
    const UDP_ACCEPT: u32 = 1;
    const TCP_ACCEPT: u32 = 2;

    pub(crate) fn new(config: NetConfig, secret: &Key, id: u16) -> Self {
        let key = secret.derive(u64::from(id));
        let mix = secret.derive(1 << 32 | u64::from(id)).words().0 as u32;
        Self {
            accept: AtomicU32::new(Self::accept_bits(&config)),
            config: ArcSwap::from_pointee(config),
            mix,
            key,
            has_programs: AtomicU32::new(0),
            programs: ArcSwap::from_pointee(Vec::new()),
        }
    }

    fn accept_bits(config: &NetConfig) -> u32 {
        u32::from(config.udp_l3mdev_accept) * Self::UDP_ACCEPT
            + u32::from(config.tcp_l3mdev_accept) * Self::TCP_ACCEPT
    }

    pub(crate) fn config(&self) -> Arc<NetConfig> {
        self.config.load_full()
    }

    pub(crate) fn set_config(&self, config: NetConfig) {
        self.accept.store(Self::accept_bits(&config), Ordering::Relaxed);
        self.config.store(Arc::new(config));
    }

    /// `udp_l3mdev_accept` and `tcp_l3mdev_accept`.
    #[inline]
    pub(crate) fn accepts(&self) -> (bool, bool) {
        let accept = self.accept.load(Ordering::Relaxed);
        (accept & Self::UDP_ACCEPT != 0, accept & Self::TCP_ACCEPT != 0)
    }

    /// The programs; `None` if there are none.
    #[inline]
    pub(crate) fn programs(&self) -> Option<Arc<Vec<Arc<dyn LookupProgram>>>> {
        (self.has_programs.load(Ordering::Relaxed) != 0).then(|| self.programs.load_full())
    }

    pub(crate) fn set_programs(&self, programs: Vec<Arc<dyn LookupProgram>>) {
        let n = programs.len() as u32;
        self.programs.store(Arc::new(programs));
        self.has_programs.store(n, Ordering::Release);
    }
}

/// All namespaces of a table: one, and those that were added.
#[derive(Debug)]
pub(crate) struct Nets {
    first: Net,
    more: Segments<OnceLock<Net>, 2, 14>,
    count: AtomicU32,
}

impl Nets {
    pub(crate) fn new(first: Net) -> Self {
        Self { first, more: Segments::default(), count: AtomicU32::new(1) }
    }

    #[inline]
    pub(crate) fn get(&self, id: NetId) -> Option<&Net> {
        if id.0 == 0 {
            return Some(&self.first);
        }
        self.more.get(u32::from(id.0) - 1)?.get()
    }

    /// The namespace of a socket: it exists.
    #[inline]
    pub(crate) fn known(&self, id: NetId) -> &Net {
        self.get(id).unwrap_or(&self.first)
    }

    /// Writer: one more.
    pub(crate) fn add(&self, make: impl FnOnce(u16) -> Net) -> Option<NetId> {
        let id = u16::try_from(self.count.load(Ordering::Relaxed)).ok()?;
        let place = self.more.ensure(u32::from(id) - 1, OnceLock::new)?;
        place.get_or_init(|| make(id));
        self.count.store(u32::from(id) + 1, Ordering::Release);
        Some(NetId(id))
    }
}

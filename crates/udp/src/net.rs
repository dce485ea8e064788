//! Network namespaces: their settings, their secrets and their look-up programs.

use std::collections::BTreeSet;
use std::sync::Arc;

use fourtuple_hash::Key;

use crate::selector::LookupProgram;

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
    pub(crate) config: NetConfig,
    /// Added to ports and to the seeds of hashes.
    pub(crate) mix: u32,
    /// Key of the 4-tuple hash.
    pub(crate) key: Key,
    pub(crate) programs: Vec<Arc<dyn LookupProgram>>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net")
            .field("config", &self.config)
            .field("programs", &self.programs.len())
            .finish_non_exhaustive()
    }
}

impl Net {
    pub(crate) fn new(config: NetConfig, secret: &Key, id: u16) -> Self {
        let key = secret.derive(u64::from(id));
        let mix = secret.derive(1 << 32 | u64::from(id)).words().0 as u32;
        Self { config, mix, key, programs: Vec::new() }
    }
}

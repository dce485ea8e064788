//! A network namespace of one's own in which connection tracking sees any packet.
//!
//! Two TAP devices are ports of a bridge, and br_netfilter takes every frame between them through
//! the IP hooks: any address passes without routes or neighbours, and nothing else is in the
//! namespace that could send. Only this process's file descriptors keep it alive, so that it is
//! gone as soon as the process is, however it ended; the caller's own namespace is never entered
//! for writing.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Setter, ioctl};
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use crate::error::{During, Result, Unavailable};
use crate::netlink::{NETLINK_NETFILTER, NETLINK_ROUTE, Netlink, attr, encode, nfgen};
use crate::rules;
use crate::settings::Settings;

/// Longest frame the devices carry: the largest IP packet and an Ethernet header.
pub(crate) const FRAME: usize = 65_535 + 14;

/// Largest MTU a TAP device takes.
const MTU: u32 = 65_521;

/// The namespace and what is open in it.
pub struct Sandbox {
    /// Keeps the namespace alive and lets a thread enter it.
    namespace: OwnedFd,
    /// Frames written here arrive at the bridge.
    pub(crate) input: OwnedFd,
    /// Frames that the bridge let through come out here.
    pub(crate) output: OwnedFd,
    /// Requests to ctnetlink.
    pub(crate) requests: Netlink,
    /// ctnetlink events.
    pub(crate) events: Netlink,
    /// NFLOG messages.
    pub(crate) log: Netlink,
    settings: Settings,
}

impl Sandbox {
    /// Makes the namespace and everything in it.
    ///
    /// # Errors
    /// [`Unavailable`] names the kernel interface or the right that is missing.
    pub fn new(settings: &Settings) -> Result<Self> {
        let settings = settings.clone();
        // A thread's namespace is its own, so the caller's threads stay where they are.
        let worker = std::thread::spawn(move || Self::build(settings));
        worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn build(settings: Settings) -> Result<Self> {
        // SAFETY: NEWNET alone does not unshare the file descriptor table, the only part of
        // `unshare` that can break I/O safety.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(|error| Unavailable::Root(error.into()))?;
        let namespace = File::open("/proc/thread-self/ns/net").during("opening the namespace")?;
        quiet_ipv6()?;
        let mut route = Netlink::open(NETLINK_ROUTE).during("opening a route socket")?;
        bridge(&mut route).map_err(Unavailable::Bridge)?;
        let input = tap("in").map_err(Unavailable::Tap)?;
        let output = tap("out").map_err(Unavailable::Tap)?;
        let master = index("br")?;
        for name in ["in", "out"] {
            let port = index(name)?;
            let join = [LinkAttribute::Controller(master), LinkAttribute::Mtu(MTU)];
            raise(&mut route, port, join.to_vec()).map_err(Unavailable::Bridge)?;
        }
        raise(&mut route, master, vec![LinkAttribute::Mtu(MTU)]).map_err(Unavailable::Bridge)?;
        for name in ["iptables", "ip6tables"] {
            write(&format!("/proc/sys/net/bridge/bridge-nf-call-{name}"), 1)
                .map_err(Unavailable::BridgeNetfilter)?;
        }
        let mut requests = Netlink::open(NETLINK_NETFILTER).map_err(Unavailable::Nftables)?;
        rules::load(&mut requests).map_err(Unavailable::Nftables)?;
        // Groups 1 to 3 are new, changed and destroyed entries.
        let events =
            Netlink::listen(NETLINK_NETFILTER, &[1, 2, 3]).map_err(Unavailable::Conntrack)?;
        let log = logger().map_err(Unavailable::Nflog)?;
        let mut this = Self {
            namespace: namespace.into(),
            input,
            output,
            requests,
            events,
            log,
            settings: settings.clone(),
        };
        this.write_all(settings.kernel())?;
        Ok(this)
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Writes the settings that differ from those in force.
    ///
    /// # Errors
    /// If the kernel refuses a value; the message has its name.
    pub fn apply(&mut self, settings: &Settings) -> Result<()> {
        if *settings == self.settings {
            return Ok(());
        }
        let changed: Vec<_> = self
            .settings
            .kernel()
            .zip(settings.kernel())
            .filter(|(old, new)| old != new)
            .map(|(_, new)| new)
            .collect();
        self.inside(|| changed.iter().try_for_each(|&(name, value)| setting(name, value)))?;
        self.settings = settings.clone();
        Ok(())
    }

    fn write_all(&mut self, values: impl Iterator<Item = (&'static str, i64)>) -> Result<()> {
        for (name, value) in values {
            // Protocols that this kernel was built without have no settings.
            let optional = name.contains("sctp") || name.contains("gre");
            match setting(name, value) {
                Err(crate::Error::Io { source, .. })
                    if optional && source.kind() == io::ErrorKind::NotFound => {}
                Err(crate::Error::Io { source, .. })
                    if source.kind() == io::ErrorKind::NotFound =>
                {
                    return Err(Unavailable::Conntrack(source).into());
                }
                other => other?,
            }
        }
        Ok(())
    }

    /// Runs `action` on a thread that has entered the namespace.
    ///
    /// # Errors
    /// If the namespace cannot be entered, and those of `action`.
    pub fn inside<T: Send>(&self, action: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let namespace = self.namespace.as_fd();
        std::thread::scope(|scope| {
            let worker = scope.spawn(move || {
                let kind = Some(LinkNameSpaceType::Network);
                rustix::thread::move_into_link_name_space(namespace, kind)
                    .during("entering the namespace")?;
                action()
            });
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn write(path: &str, value: i64) -> io::Result<()> {
    std::fs::write(path, value.to_string())
}

fn setting(name: &str, value: i64) -> Result<()> {
    write(&format!("/proc/sys/net/netfilter/{name}"), value)
        .during(format!("setting {name} to {value}"))
}

/// Keeps the namespace from sending router solicitations and group reports of its own.
fn quiet_ipv6() -> Result<()> {
    for part in ["all", "default"] {
        let path = format!("/proc/sys/net/ipv6/conf/{part}/disable_ipv6");
        match write(&path, 1) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => other.during("switching the namespace's own IPv6 off")?,
        }
    }
    Ok(())
}

/// A TAP device of this thread's namespace; it goes with its descriptor.
pub(crate) fn tap(name: &str) -> io::Result<OwnedFd> {
    /// `TUNSETIFF` of `linux/if_tun.h`.
    const TUNSETIFF: rustix::ioctl::Opcode = 0x4004_54ca;
    /// IFF_TAP and IFF_NO_PI.
    const FLAGS: u16 = 0x0002 | 0x1000;
    /// `struct ifreq`: 16 bytes of name, a union of 24 of which flags are the first two.
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: u16,
        rest: [u8; 22],
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut request = Request { name: [0; 16], flags: FLAGS, rest: [0; 22] };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads and writes a `struct ifreq`, whose layout `Request` has, and
    // `Setter` passes a pointer to its own copy.
    unsafe { ioctl(&file, Setter::<TUNSETIFF, Request>::new(request)) }?;
    Ok(file)
}

/// The number of a device of this thread's namespace.
pub(crate) fn index(name: &str) -> Result<u32> {
    let socket =
        rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
            .during("opening a socket")?;
    rustix::net::netdevice::name_to_index(&socket, name).during(format!("looking up {name}"))
}

fn link(route: &mut Netlink, message: LinkMessage, flags: u16) -> io::Result<()> {
    let payload = NetlinkPayload::from(RouteNetlinkMessage::NewLink(message));
    let mut message = NetlinkMessage::new(Default::default(), payload);
    message.header.flags = 1 | NLM_F_ACK | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    route.transact(&bytes, 1)
}

fn bridge(route: &mut Netlink) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.attributes = vec![
        LinkAttribute::IfName("br".into()),
        LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bridge),
            // Group management would look into IGMP and MLD and answer them.
            LinkInfo::Data(InfoData::Bridge(vec![InfoBridge::MulticastSnooping(false)])),
        ]),
    ];
    link(route, message, NLM_F_CREATE | NLM_F_EXCL)
}

fn raise(route: &mut Netlink, index: u32, attributes: Vec<LinkAttribute>) -> io::Result<()> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes = attributes;
    link(route, message, 0)
}

/// A socket that gets what the rules log, without packet bytes.
fn logger() -> io::Result<Netlink> {
    const CONFIG: u16 = 4 << 8 | 1;
    let mut socket = Netlink::open(NETLINK_NETFILTER)?;
    socket.deep_queue()?;
    let mut body = nfgen(0, rules::GROUP).to_vec();
    // Command 1: bind to the group.
    body.extend(encode(&[attr(1, &[1])]));
    socket.request(CONFIG, 0, &body)?;
    let mut body = nfgen(0, rules::GROUP).to_vec();
    // Copy mode 0: no packet bytes; queue threshold 1: no waiting.
    body.extend(encode(&[attr(2, &[0, 0, 0, 0, 0, 0]), attr(5, &1_u32.to_be_bytes())]));
    socket.request(CONFIG, 0, &body)?;
    Ok(socket)
}

//! A network namespace with two TAP devices that have addresses, so that a frame can be sent into
//! either and delivered to real sockets.
//!
//! A write to a TAP device returns when the frame has been processed, so that no waiting is needed to
//! know that nobody got a datagram. The devices know no link-layer addresses of neighbours
//! (`IFF_NOARP`), so that an ICMP error comes out at once. Only the thread that made the namespace is
//! in it, and the namespace goes with that thread and its descriptors.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::thread::UnshareFlags;

use crate::error::{During, Result, Unavailable};
use crate::netlink::{NETLINK_ROUTE, Netlink, attr, encode};
use crate::sandbox::{index, tap};

/// Names of the devices with their addresses, the one with the default route first.
pub(super) const DEVICES: [(&str, &[&str]); 2] = [
    ("d0", &["10.1.0.1/24", "10.1.0.2/24", "fd01::1/64", "fe80::1/64"]),
    ("d1", &["10.2.0.1/24", "fd02::1/64"]),
];

const RTM_NEWLINK: u16 = 16;
const NLM_F_CREATE: u16 = 0x400;
const IFF_UP: u32 = 0x1;
const IFF_NOARP: u32 = 0x80;

/// A device that frames can be written to.
pub(super) struct Tap {
    pub(super) name: &'static str,
    pub(super) index: u32,
    pub(super) mac: [u8; 6],
    pub(super) file: OwnedFd,
}

/// The namespace of the current thread.
pub(super) struct Sandbox {
    pub(super) taps: Vec<Tap>,
    /// Keeps the type on its thread: it is the thread that is in the namespace.
    _here: std::marker::PhantomData<*const ()>,
}

impl Sandbox {
    /// Takes the current thread into a new namespace and builds everything in it.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: NEWNET alone does not unshare the file descriptor table, the only part of
        // `unshare` that can break I/O safety.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }
            .map_err(|error| Unavailable::Root(error.into()))?;
        let mut route = Netlink::open(NETLINK_ROUTE).during("opening a route socket")?;
        settings()?;
        raise(&mut route, 1, 0).during("raising lo")?;
        let mut taps = Vec::new();
        for (name, addresses) in DEVICES {
            let file = tap(name).map_err(Unavailable::Tap)?;
            let index = index(name)?;
            quiet(name)?;
            let mac = [2, 0, 0, 0, 0, index as u8];
            set_mac(&mut route, index, mac).during(format!("addressing {name}"))?;
            for text in addresses {
                add_address(&mut route, index, text).during(format!("adding {text} to {name}"))?;
            }
            raise(&mut route, index, IFF_NOARP).during(format!("raising {name}"))?;
            taps.push(Tap { name, index, mac, file });
        }
        for gateway in ["10.1.0.9", "fd01::9"] {
            default_route(&mut route, taps[0].index, gateway)
                .during(format!("a default route by {gateway}"))?;
        }
        wait_for_addresses()?;
        Ok(Self { taps, _here: std::marker::PhantomData })
    }
}

/// Waits until no IPv6 address is tentative: the kernel settles that in the background, and until
/// then answers from such an address nothing.
fn wait_for_addresses() -> Result<()> {
    let started = Instant::now();
    loop {
        let text = std::fs::read_to_string("/proc/thread-self/net/if_inet6")
            .during("reading the IPv6 addresses")?;
        // Address, index, prefix length, scope, flags, name; 0x40 is IFA_F_TENTATIVE.
        let flags = text.lines().filter_map(|line| line.split_whitespace().nth(4));
        let tentative = |flags: &str| u32::from_str_radix(flags, 16).is_ok_and(|f| f & 0x40 != 0);
        if !flags.into_iter().any(tentative) {
            return Ok(());
        }
        if started.elapsed() > Duration::from_secs(10) {
            return Err(io::Error::from(io::ErrorKind::TimedOut))
                .during("waiting for the IPv6 addresses");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sets `net.…` in the current namespace.
pub(super) fn sysctl(name: &str, value: &str) -> io::Result<()> {
    // An empty value needs its line end, lest nothing be written at all.
    std::fs::write(format!("/proc/sys/{}", name.replace('.', "/")), format!("{value}\n"))
}

/// The value of `net.…` in the current namespace.
pub(super) fn read_sysctl(name: &str) -> io::Result<String> {
    let text = std::fs::read_to_string(format!("/proc/sys/{}", name.replace('.', "/")))?;
    Ok(text.trim().to_owned())
}

/// No limits on ICMP, no filters by route, no duplicate address detection.
fn settings() -> Result<()> {
    let needed = [
        ("net.ipv4.icmp_ratelimit", "0"),
        ("net.ipv4.icmp_ratemask", "0"),
        ("net.ipv6.icmp.ratelimit", "0"),
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.default.rp_filter", "0"),
        ("net.ipv6.conf.all.accept_dad", "0"),
        ("net.ipv6.conf.default.accept_dad", "0"),
    ];
    for (name, value) in needed {
        sysctl(name, value).during(format!("setting {name}"))?;
    }
    // Of the namespace since 6.13; an older kernel's are the machine's and stay.
    let _ = sysctl("net.ipv4.icmp_msgs_per_sec", "1000000000");
    let _ = sysctl("net.ipv4.icmp_msgs_burst", "1000000000");
    Ok(())
}

/// No addresses and no questions of the device's own.
fn quiet(device: &str) -> Result<()> {
    for (name, value) in [
        ("accept_dad", "0"),
        ("accept_ra", "0"),
        ("router_solicitations", "0"),
        ("addr_gen_mode", "1"),
    ] {
        let name = format!("net.ipv6.conf.{device}.{name}");
        sysctl(&name, value).during(format!("setting {name}"))?;
    }
    Ok(())
}

/// Gives a device its hardware address (`struct ifinfomsg`, `IFLA_ADDRESS`).
fn set_mac(route: &mut Netlink, index: u32, mac: [u8; 6]) -> io::Result<()> {
    let mut body = link_header(index, 0);
    body.extend(encode(&[attr(1, &mac)]));
    route.request(RTM_NEWLINK, 0, &body)
}

fn raise(route: &mut Netlink, index: u32, flags: u32) -> io::Result<()> {
    route.request(RTM_NEWLINK, 0, &link_header(index, IFF_UP | flags))
}

/// `struct ifinfomsg` that sets these flags.
fn link_header(index: u32, flags: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body.extend(flags.to_ne_bytes());
    body
}

fn octets(addr: IpAddr) -> (u8, Vec<u8>) {
    match addr {
        IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
    }
}

/// `struct ifaddrmsg` with IFA_ADDRESS and IFA_LOCAL.
fn add_address(route: &mut Netlink, index: u32, text: &str) -> io::Result<()> {
    const RTM_NEWADDR: u16 = 20;
    /// IFA_F_NODAD.
    const FLAGS: u8 = 2;
    let bad = || io::Error::from(io::ErrorKind::InvalidInput);
    let (addr, bits) = text.split_once('/').ok_or_else(bad)?;
    let addr: IpAddr = addr.parse().map_err(|_| bad())?;
    let (family, bytes) = octets(addr);
    let link_local = matches!(addr, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let scope = if link_local { 253 } else { 0 };
    let mut body = vec![family, bits.parse().map_err(|_| bad())?, FLAGS, scope];
    body.extend(index.to_ne_bytes());
    body.extend(encode(&[attr(1, &bytes), attr(2, &bytes)]));
    route.request(RTM_NEWADDR, NLM_F_CREATE, &body)
}

/// `struct rtmsg` with RTA_OIF and RTA_GATEWAY, in the main table.
fn default_route(route: &mut Netlink, index: u32, gateway: &str) -> io::Result<()> {
    const RTM_NEWROUTE: u16 = 24;
    let bad = |_| io::Error::from(io::ErrorKind::InvalidInput);
    let (family, bytes) = octets(gateway.parse().map_err(bad)?);
    // Table main, protocol boot, universe, unicast.
    let mut body = vec![family, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    body.extend(encode(&[attr(4, &index.to_ne_bytes()), attr(5, &bytes)]));
    route.request(RTM_NEWROUTE, NLM_F_CREATE, &body)
}

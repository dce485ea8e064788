//! Link layers: from a captured frame to the IP packet inside it.

mod error;
mod names;

pub use error::{LinkError, NotIp};

/// A link-layer header type, numbered as in pcap and pcapng files
/// (the LINKTYPE_ registry of the pcap file format; values below 65,536).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: a 4-byte protocol family in the byte order of the capturing host.
    pub const NULL: Self = Self(0);
    /// Ethernet.
    pub const ETHERNET: Self = Self(1);
    /// PPP with or without address and control bytes.
    pub const PPP: Self = Self(9);
    /// Raw IP, the number used by some BSD systems.
    pub const RAW_BSD: Self = Self(12);
    /// Raw IP, the number used by OpenBSD.
    pub const RAW_OPENBSD: Self = Self(14);
    /// PPP in HDLC-like framing (RFC 1662), or Cisco HDLC, told apart by the address byte.
    pub const PPP_HDLC: Self = Self(50);
    /// PPPoE without an Ethernet header: the frame starts with the PPPoE header (RFC 2516).
    pub const PPP_ETHER: Self = Self(51);
    /// Raw IPv4 or IPv6, told apart by the version field.
    pub const RAW: Self = Self(101);
    /// Cisco HDLC.
    pub const C_HDLC: Self = Self(104);
    /// OpenBSD loopback: a 4-byte protocol family in network order.
    pub const LOOP: Self = Self(108);
    /// Linux "cooked" capture, version 1.
    pub const LINUX_SLL: Self = Self(113);
    /// MPLS: the frame starts with a label stack (RFC 3032).
    pub const MPLS: Self = Self(219);
    /// Raw IPv4.
    pub const IPV4: Self = Self(228);
    /// Raw IPv6.
    pub const IPV6: Self = Self(229);
    /// Linux "cooked" capture, version 2.
    pub const LINUX_SLL2: Self = Self(276);
}

/// What a frame carries, and through which wrappers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner<'a> {
    /// From the first byte of the IP header on, link-layer padding included unless a wrapper's length field told
    /// it apart.
    pub bytes: &'a [u8],
    /// Bytes of the same range that were on the wire: at least `bytes.len()`.
    pub wire_len: u32,
    /// VLAN id (12 bits) of the innermost tag.
    pub vlan: Option<u16>,
    /// How many VLAN tags were passed.
    pub vlan_tags: u8,
    /// True iff the packet came in a PPPoE session.
    pub pppoe: bool,
    /// How many MPLS labels were passed.
    pub mpls_labels: u8,
}

pub(crate) mod ether_type {
    pub(crate) const IPV4: u16 = 0x0800;
    pub(crate) const IPV6: u16 = 0x86dd;
    pub(crate) const VLAN: u16 = 0x8100;
    pub(crate) const SERVICE_VLAN: u16 = 0x88a8;
    /// What provider equipment sent as outer tag before IEEE 802.1ad.
    pub(crate) const OLD_Q_IN_Q: u16 = 0x9100;
    pub(crate) const MPLS: u16 = 0x8847;
    pub(crate) const MPLS_UPSTREAM: u16 = 0x8848;
    pub(crate) const PPPOE_DISCOVERY: u16 = 0x8863;
    pub(crate) const PPPOE_SESSION: u16 = 0x8864;
    /// From here on the field is a type, below it is a length (IEEE 802.3, 3.2.6).
    pub(crate) const FIRST: u16 = 0x0600;
}

mod ppp {
    pub(super) const IPV4: u16 = 0x0021;
    pub(super) const IPV6: u16 = 0x0057;
    pub(super) const MPLS: u16 = 0x0281;
    pub(super) const MPLS_MULTICAST: u16 = 0x0283;
}

/// Finds the IP packet in `frame`, of which `wire_len` bytes were on the wire (taken as `frame.len()` if smaller).
///
/// The version of the packet is not compared with what the link layer announced: [`crate::Packet::parse`] reads it.
///
/// # Errors
///
/// [`LinkError::Unsupported`] for a link type that is not read here, [`LinkError::NotIp`] if the frame carries
/// something else, [`LinkError::Cut`] and [`LinkError::Short`] if it ends within its link-layer headers.
#[inline]
pub fn decapsulate(link: LinkType, frame: &[u8], wire_len: u32) -> Result<Inner<'_>, LinkError> {
    const HEADER: usize = 14;
    // Nearly all frames are this; the way through the wrappers costs more than the answer.
    if link == LinkType::ETHERNET
        && let Some((header, bytes)) = frame.split_first_chunk::<HEADER>()
        && let ether_type::IPV4 | ether_type::IPV6 = u16::from_be_bytes([header[12], header[13]])
    {
        let wire_len = wire_len.max(frame.len() as u32) - HEADER as u32;
        let (vlan, vlan_tags, pppoe, mpls_labels) = (None, 0, false, 0);
        return Ok(Inner { bytes, wire_len, vlan, vlan_tags, pppoe, mpls_labels });
    }
    unwrap(link, frame, wire_len)
}

/// [`decapsulate`] by the wrappers one after the other.
#[inline(never)]
fn unwrap(link: LinkType, frame: &[u8], wire_len: u32) -> Result<Inner<'_>, LinkError> {
    let walk = Walk {
        frame,
        wire_len: wire_len.max(frame.len() as u32),
        at: 0,
        vlan: None,
        vlan_tags: 0,
        pppoe: false,
        mpls_labels: 0,
    };
    match link {
        LinkType::ETHERNET => walk.ethernet(),
        LinkType::RAW
        | LinkType::RAW_BSD
        | LinkType::RAW_OPENBSD
        | LinkType::IPV4
        | LinkType::IPV6 => walk.ip(),
        LinkType::LINUX_SLL => walk.cooked(16, 14, 2),
        LinkType::LINUX_SLL2 => walk.cooked(20, 0, 8),
        LinkType::NULL | LinkType::LOOP => walk.family(),
        LinkType::PPP => walk.ppp_framed(),
        LinkType::PPP_HDLC => walk.hdlc(),
        LinkType::PPP_ETHER => walk.pppoe(),
        LinkType::C_HDLC => walk.cisco_hdlc(),
        LinkType::MPLS => walk.mpls(),
        other => Err(LinkError::Unsupported(other)),
    }
}

/// A position in a frame and what was passed on the way there.
struct Walk<'a> {
    /// The frame; shortened when a length field ends it early.
    frame: &'a [u8],
    /// Its length on the wire.
    wire_len: u32,
    at: usize,
    vlan: Option<u16>,
    vlan_tags: u8,
    pppoe: bool,
    mpls_labels: u8,
}

impl<'a> Walk<'a> {
    /// Takes a header of `N` bytes.
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], LinkError> {
        let h = self.peek(0)?;
        self.at += N;
        Ok(h)
    }

    /// The `N` bytes that start `skip` bytes from here.
    #[inline]
    fn peek<const N: usize>(&self, skip: usize) -> Result<[u8; N], LinkError> {
        let at = self.at + skip;
        match self.frame.get(at..).and_then(|b| b.first_chunk::<N>()) {
            Some(h) => Ok(*h),
            None => Err(self.short((at + N) as u32)),
        }
    }

    /// The error for a header that ends at `need`, beyond the bytes kept.
    #[cold]
    fn short(&self, need: u32) -> LinkError {
        if self.wire_len >= need {
            LinkError::Cut { kept: self.frame.len() as u32, need }
        } else {
            LinkError::Short { there: self.wire_len, need }
        }
    }

    /// Ends the frame `len` bytes from here (by a length field of its own). More than is there is an error.
    fn trim(&mut self, len: u32) -> Result<(), LinkError> {
        let end = self.at as u32 + len;
        if end > self.wire_len {
            return Err(LinkError::Short { there: self.wire_len, need: end });
        }
        self.wire_len = end;
        self.frame = &self.frame[..self.frame.len().min(end as usize)];
        Ok(())
    }

    #[inline]
    fn ip(self) -> Result<Inner<'a>, LinkError> {
        Ok(Inner {
            bytes: self.frame.get(self.at..).unwrap_or(&[]),
            wire_len: self.wire_len - self.at as u32,
            vlan: self.vlan,
            vlan_tags: self.vlan_tags,
            pppoe: self.pppoe,
            mpls_labels: self.mpls_labels,
        })
    }

    #[inline]
    fn ethernet(mut self) -> Result<Inner<'a>, LinkError> {
        let h = self.take::<14>()?;
        self.ether_type(u16::from_be_bytes([h[12], h[13]]))
    }

    /// What follows a type-or-length field.
    #[inline]
    fn ether_type(mut self, first: u16) -> Result<Inner<'a>, LinkError> {
        let mut ty = first;
        loop {
            match ty {
                ether_type::IPV4 | ether_type::IPV6 => return self.ip(),
                ether_type::VLAN | ether_type::SERVICE_VLAN | ether_type::OLD_Q_IN_Q => {
                    let tag = self.take::<4>()?;
                    self.vlan = Some(u16::from_be_bytes([tag[0], tag[1]]) & 0x0fff);
                    self.vlan_tags = self.vlan_tags.saturating_add(1);
                    ty = u16::from_be_bytes([tag[2], tag[3]]);
                }
                ether_type::MPLS | ether_type::MPLS_UPSTREAM => return self.mpls(),
                ether_type::PPPOE_SESSION => return self.pppoe(),
                ether_type::PPPOE_DISCOVERY => return Err(NotIp::PppoeDiscovery.into()),
                length if length < ether_type::FIRST => {
                    self.trim(u32::from(length))?;
                    return self.llc();
                }
                other => return Err(NotIp::EtherType(other).into()),
            }
        }
    }

    /// IEEE 802.2: only SNAP (RFC 1042) and the reserved IP access point (0x06) carry IP.
    ///
    /// A Linux host takes neither for IP on Ethernet; they are read here since captures hold them and whoever sent
    /// them meant IP.
    #[inline(never)]
    fn llc(mut self) -> Result<Inner<'a>, LinkError> {
        let [dsap, ssap, control] = self.take::<3>()?;
        match (dsap, ssap, control) {
            (0xaa, 0xaa | 0xab, 0x03) => {
                let [a, b, c, hi, lo] = self.take::<5>()?;
                let ty = u16::from_be_bytes([hi, lo]);
                // 00:00:00 is RFC 1042's, 00:00:f8 that of bridges (IEEE 802.1H).
                match (u32::from_be_bytes([0, a, b, c]), ty) {
                    (0 | 0xf8, ether_type::IPV4 | ether_type::IPV6) => self.ip(),
                    (oui, ty) => Err(NotIp::Snap { oui, ty }.into()),
                }
            }
            (0x06, 0x06, 0x03) => self.ip(),
            _ => Err(NotIp::Llc { dsap, ssap }.into()),
        }
    }

    /// Linux cooked capture: `header` bytes, protocol field and ARP hardware type at the offsets given.
    fn cooked(
        mut self,
        header: usize,
        proto: usize,
        hardware: usize,
    ) -> Result<Inner<'a>, LinkError> {
        /// Hardware types whose protocol field is no EtherType (netlink; 802.11 with its headers).
        const OTHER_NUMBERS: [u16; 4] = [801, 802, 803, 824];
        if self.frame.len() < header {
            return Err(self.short(header as u32));
        }
        let ty = u16::from_be_bytes(self.peek(proto)?);
        let hardware = u16::from_be_bytes(self.peek(hardware)?);
        self.at += header;
        if OTHER_NUMBERS.contains(&hardware) {
            return Err(NotIp::Hardware(hardware).into());
        }
        match ty {
            // Linux's own numbers below the first EtherType: 4 is "802.2 follows", without a length field.
            4 => self.llc(),
            // 9 is "PPP follows", with address and control bytes or without.
            9 => self.ppp_framed(),
            ty if ty < ether_type::FIRST => Err(NotIp::EtherType(ty).into()),
            ty => self.ether_type(ty),
        }
    }

    /// BSD loopback. The family's number depends on the system, its byte order on the host (and which of the two
    /// link types was written is not to be relied on): the reading that gives the smaller number is the right one,
    /// since no system has a family above 65,535.
    fn family(mut self) -> Result<Inner<'a>, LinkError> {
        let h = self.take::<4>()?;
        let family = u32::from_be_bytes(h).min(u32::from_le_bytes(h));
        match family {
            // AF_INET everywhere; AF_INET6 of Linux, of NetBSD, OpenBSD and BSD/OS, of FreeBSD, of macOS.
            2 | 10 | 24 | 28 | 30 => self.ip(),
            other => Err(NotIp::Family(other).into()),
        }
    }

    fn ppp_framed(mut self) -> Result<Inner<'a>, LinkError> {
        // Address and control bytes, usually ff 03; no protocol is compressed to ff.
        if self.peek::<1>(0)? == [0xff] {
            self.take::<2>()?;
        }
        self.ppp()
    }

    /// From a PPP protocol field on, compressed to one byte or not (RFC 1661, section 6.5: the low bit of its last
    /// byte, and only of that, is set).
    fn ppp(mut self) -> Result<Inner<'a>, LinkError> {
        let [first] = self.peek::<1>(0)?;
        let ty = if first & 1 == 1 {
            self.at += 1;
            u16::from(first)
        } else {
            u16::from_be_bytes(self.take()?)
        };
        match ty {
            ppp::IPV4 | ppp::IPV6 => self.ip(),
            ppp::MPLS | ppp::MPLS_MULTICAST => self.mpls(),
            other => Err(NotIp::PppProtocol(other).into()),
        }
    }

    fn hdlc(self) -> Result<Inner<'a>, LinkError> {
        match self.peek::<1>(0)? {
            [0x0f | 0x8f] => self.cisco_hdlc(),
            _ => self.ppp_framed(),
        }
    }

    fn cisco_hdlc(mut self) -> Result<Inner<'a>, LinkError> {
        let [_, _, hi, lo] = self.take::<4>()?;
        match u16::from_be_bytes([hi, lo]) {
            ty if ty < ether_type::FIRST => Err(NotIp::EtherType(ty).into()),
            ty => self.ether_type(ty),
        }
    }

    /// PPPoE session (RFC 2516, section 4): its length field tells Ethernet padding apart.
    #[inline(never)]
    fn pppoe(mut self) -> Result<Inner<'a>, LinkError> {
        let h = self.take::<6>()?;
        if h[0] != 0x11 {
            return Err(NotIp::PppoeVersion(h[0]).into());
        }
        if h[1] != 0 {
            return Err(NotIp::PppoeDiscovery.into());
        }
        self.trim(u32::from(u16::from_be_bytes([h[4], h[5]])))?;
        self.pppoe = true;
        self.ppp()
    }

    /// MPLS label stack (RFC 3032) down to its bottom. Nothing says what follows; a version of 4 or 6 is taken for
    /// IP, as routers do that look below the stack (RFC 4928, section 3).
    #[inline(never)]
    fn mpls(mut self) -> Result<Inner<'a>, LinkError> {
        loop {
            let entry = self.take::<4>()?;
            self.mpls_labels = self.mpls_labels.saturating_add(1);
            if entry[2] & 1 == 1 {
                break;
            }
        }
        match self.peek::<1>(0)?[0] >> 4 {
            4 | 6 => self.ip(),
            nibble => Err(NotIp::Mpls { nibble }.into()),
        }
    }
}

#[cfg(test)]
mod tests;

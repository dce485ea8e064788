//! What there is to say of a frame besides its verdict.

use std::fmt;
use std::net::IpAddr;

use fourtuple::capture::Record;
use fourtuple::conntrack::{Tuple, ip, protocol_name};
use fourtuple::packet::{L4, Packet, Tcp, decapsulate, tcp_flags};

use crate::filter::Facts;

/// A frame, looked into a second time for printing: the tracker keeps nothing of a packet.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    /// The IP packet, if there is one.
    pub(crate) packet: Option<Packet<'a>>,
    /// Its tuple, if it has one of its own (fragments do not).
    pub(crate) tuple: Option<Tuple>,
    /// Id of the innermost VLAN tag.
    pub(crate) vlan: Option<u16>,
    /// Length of the frame on the wire.
    pub(crate) wire_len: u32,
}

impl<'a> Look<'a> {
    pub(crate) fn at(record: &Record<'a>) -> Self {
        let wire_len = record.wire_len;
        let inner = decapsulate(record.link_type, record.data, wire_len).ok();
        let vlan = inner.and_then(|i| i.vlan);
        let packet = inner.and_then(|i| Packet::parse(i.bytes, i.wire_len).ok());
        let tuple = packet.as_ref().filter(|p| p.fragment.is_none()).and_then(Tuple::of);
        Self { packet, tuple, vlan, wire_len }
    }

    /// Source and destination, if there is IP.
    pub(crate) fn addresses(&self) -> Option<(IpAddr, IpAddr)> {
        let packet = self.packet.as_ref()?;
        Some((ip(packet.family, &packet.src), ip(packet.family, &packet.dst)))
    }

    /// What a filter asks about.
    pub(crate) fn facts(&self) -> Option<Facts> {
        let Packet { family, src, dst, protocol, ref l4, .. } = *self.packet.as_ref()?;
        let ports = match *l4 {
            L4::Tcp(Tcp { sport, dport, .. }) => Some((sport, dport)),
            L4::Udp(h) => Some((h.sport, h.dport)),
            L4::Sctp(h) => Some((h.sport, h.dport)),
            L4::Malformed { ports, .. } => ports,
            L4::Icmp(_) | L4::Gre(_) | L4::Other => None,
        };
        Some(Facts { family, src, dst, protocol, ports })
    }
}

/// `tcp 10.0.0.1:1111 > 10.0.0.2:80 [S.] seq 1 ack 2 win 3 len 0`; only ASCII.
impl fmt::Display for Look<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(packet) = &self.packet else {
            return write!(f, "frame of {} bytes", self.wire_len);
        };
        match &self.tuple {
            Some(tuple) => write!(f, "{tuple}")?,
            None => addresses(f, packet)?,
        }
        if let Some(fragment) = packet.fragment {
            let more = if fragment.more { "+" } else { "" };
            let id = fragment.id;
            return write!(f, " frag {id:#x} at {}{more} len {}", fragment.offset, packet.l4_len());
        }
        match packet.l4 {
            L4::Tcp(tcp) => segment(f, &tcp),
            // Lengths of the payload, as for TCP.
            L4::Udp(_) => write!(f, " len {}", packet.l4_len().saturating_sub(8)),
            _ => write!(f, " len {}", packet.l4_len()),
        }
    }
}

fn addresses(f: &mut fmt::Formatter<'_>, packet: &Packet<'_>) -> fmt::Result {
    let Packet { family, src, dst, protocol, .. } = packet;
    match protocol_name(*protocol) {
        "unknown" => write!(f, "protocol {protocol}")?,
        name => f.write_str(name)?,
    }
    write!(f, " {} > {}", ip(*family, src), ip(*family, dst))
}

fn segment(f: &mut fmt::Formatter<'_>, tcp: &Tcp<'_>) -> fmt::Result {
    write!(f, " [{}] seq {}", Flags(tcp.flags), tcp.seq)?;
    if tcp.payload_len > 0 {
        write!(f, ":{}", tcp.seq.wrapping_add(tcp.payload_len))?;
    }
    if tcp.flags & tcp_flags::ACK != 0 {
        write!(f, " ack {}", tcp.ack)?;
    }
    write!(f, " win {} len {}", tcp.window, tcp.payload_len)
}

/// TCP flags with their names, in the order of tcpdump's letters.
const FLAGS: [(u8, char, &str); 8] = [
    (tcp_flags::FIN, 'F', "fin"),
    (tcp_flags::SYN, 'S', "syn"),
    (tcp_flags::RST, 'R', "rst"),
    (tcp_flags::PSH, 'P', "psh"),
    (tcp_flags::ACK, '.', "ack"),
    (tcp_flags::URG, 'U', "urg"),
    (tcp_flags::ECE, 'E', "ece"),
    (tcp_flags::CWR, 'W', "cwr"),
];

/// Names of the flags that are set.
pub(crate) fn flag_names(flags: u8) -> impl Iterator<Item = &'static str> {
    FLAGS.into_iter().filter(move |(bit, ..)| flags & bit != 0).map(|(.., name)| name)
}

/// tcpdump's letters.
struct Flags(u8);

impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        if self.0 == 0 {
            return f.write_str("none");
        }
        FLAGS
            .into_iter()
            .filter(|(bit, ..)| self.0 & bit != 0)
            .try_for_each(|(_, c, _)| f.write_char(c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_names() {
        assert_eq!(Flags(0).to_string(), "none");
        assert_eq!(Flags(0x12).to_string(), "S.");
        assert_eq!(Flags(0xff).to_string(), "FSRP.UEW");
        assert_eq!(flag_names(0x11).collect::<Vec<_>>(), ["fin", "ack"]);
    }
}

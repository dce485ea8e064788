//! A packet in one line, in the manner of tcpdump.

use std::fmt::Write as _;

use fourtuple_packet::{Family, IpError, L4, Packet, tcp_flags};

/// `192.0.2.1.40000 > 192.0.2.4.80: Flags [S.], seq 7, ack 9, win 100, length 0`.
#[must_use]
pub fn describe(bytes: &[u8]) -> String {
    let packet = match Packet::parse(bytes, bytes.len() as u32) {
        Ok(packet) => packet,
        Err(error) => return unreadable(bytes, error),
    };
    let mut out = String::new();
    let (src, dst) = (
        fourtuple_conntrack::ip(packet.family, &packet.src),
        fourtuple_conntrack::ip(packet.family, &packet.dst),
    );
    let ports = match packet.l4 {
        L4::Tcp(tcp) => Some((tcp.sport, tcp.dport)),
        L4::Udp(udp) => Some((udp.sport, udp.dport)),
        L4::Sctp(sctp) => Some((sctp.sport, sctp.dport)),
        _ => None,
    };
    // Writing to a string cannot fail.
    let _ = match ports {
        Some((sport, dport)) => write!(out, "{src}.{sport} > {dst}.{dport}: "),
        None => write!(out, "{src} > {dst}: "),
    };
    let _ = write!(out, "{}", upper(&packet));
    if let Some(fragment) = packet.fragment {
        let more = if fragment.more { "+" } else { "" };
        let _ = write!(out, ", fragment {}:{}{more}", fragment.id, fragment.offset);
    }
    if !packet.verify_checksum().is_fine() {
        out.push_str(", WRONG CHECKSUM");
    }
    let _ = write!(out, ", {} bytes of IP, ttl {}", packet.len, packet.ttl);
    out
}

trait Fine {
    fn is_fine(&self) -> bool;
}

impl Fine for fourtuple_packet::Checksum {
    fn is_fine(&self) -> bool {
        !matches!(self, Self::Bad { .. } | Self::BadCrc { .. })
    }
}

fn unreadable(bytes: &[u8], error: IpError) -> String {
    let family = bytes.first().map_or(0, |byte| byte >> 4);
    format!("IP version {family}, {} bytes: {error}", bytes.len())
}

fn upper(packet: &Packet<'_>) -> String {
    let icmp = match packet.family {
        Family::V4 => "ICMP",
        Family::V6 => "ICMP6",
    };
    match packet.l4 {
        L4::Tcp(tcp) => {
            let ack = if tcp.flags & tcp_flags::ACK != 0 {
                format!(", ack {}", tcp.ack)
            } else {
                String::new()
            };
            let options = if tcp.options.is_empty() {
                String::new()
            } else {
                format!(", options {:02x?}", tcp.options)
            };
            format!(
                "Flags [{}], seq {}{ack}, win {}{options}, length {}",
                flags(tcp.flags),
                tcp.seq,
                tcp.window,
                tcp.payload_len
            )
        }
        L4::Udp(udp) => format!(
            "{} length {}",
            if packet.protocol == fourtuple_packet::protocol::UDP { "UDP," } else { "UDP-Lite," },
            udp.length
        ),
        L4::Icmp(message) => {
            let mut out =
                format!("{icmp} type {} code {} id {}", message.ty, message.code, message.id);
            let error = match packet.family {
                Family::V4 => matches!(message.ty, 3 | 4 | 5 | 11 | 12),
                Family::V6 => message.ty < 128,
            };
            if error {
                let _ = write!(out, " quoting [{}]", quote(message.body));
            }
            out
        }
        L4::Malformed { why, .. } => format!("proto {}: {why}", packet.protocol),
        _ => format!("proto {}, {} bytes", packet.protocol, packet.l4_len()),
    }
}

fn quote(body: &[u8]) -> String {
    let stated = match body.first().map(|byte| byte >> 4) {
        Some(4) => body.get(2..4).map(|b| u32::from(b[0]) << 8 | u32::from(b[1])),
        Some(6) => body.get(4..6).map(|b| 40 + (u32::from(b[0]) << 8 | u32::from(b[1]))),
        _ => None,
    };
    let stated = stated.unwrap_or(0).max(body.len() as u32);
    match Packet::parse(body, stated) {
        Ok(packet) => format!(
            "{} > {} proto {}, first bytes {:02x?} of {}",
            fourtuple_conntrack::ip(packet.family, &packet.src),
            fourtuple_conntrack::ip(packet.family, &packet.dst),
            packet.protocol,
            &packet.l4_bytes()[..packet.l4_bytes().len().min(8)],
            body.len(),
        ),
        Err(error) => {
            format!("{} bytes: {error}: {:02x?}", body.len(), &body[..body.len().min(48)])
        }
    }
}

fn flags(bits: u8) -> String {
    let names = [
        (tcp_flags::SYN, 'S'),
        (tcp_flags::FIN, 'F'),
        (tcp_flags::RST, 'R'),
        (tcp_flags::PSH, 'P'),
        (tcp_flags::URG, 'U'),
        (tcp_flags::ECE, 'E'),
        (tcp_flags::CWR, 'W'),
        (tcp_flags::ACK, '.'),
    ];
    let text: String =
        names.into_iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| name).collect();
    if text.is_empty() { "none".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Case, Kind};

    #[test]
    fn every_generated_packet_has_a_line() {
        for kind in Kind::QUICK {
            for seed in 0..50 {
                for packet in Case::new(kind, seed).packets() {
                    let line = describe(packet);
                    assert!(!line.is_empty() && !line.contains('\n'), "{line}");
                }
            }
        }
    }

    #[test]
    fn flags_are_tcpdumps() {
        assert_eq!(flags(0x12), "S.");
        assert_eq!(flags(0), "none");
        assert_eq!(
            describe(&[]),
            format!("IP version 0, 0 bytes: {}", Packet::parse(&[], 0).unwrap_err())
        );
    }
}

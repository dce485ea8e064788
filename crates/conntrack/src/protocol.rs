//! Between the tracker and the protocols: what a handler gets and answers, the checks that need no state, and which
//! handler gets the packet.

use fourtuple_packet::{Checksum, Instant, L4, L4Error, Packet, Tcp, protocol};

use crate::connection::{Connection, Proto};
use crate::icmp;
use crate::reason::Reason;
use crate::settings::Settings;
use crate::tcp;
use crate::tuple::Direction;
use crate::udp;
use crate::verdict::Detail;

/// What a protocol handler gets.
pub(crate) struct Hook<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) now: Instant,
    pub(crate) direction: Direction,
    /// Length of the IP packet: what accounting counts.
    pub(crate) len: u32,
}

/// What a protocol handler answers.
pub(crate) enum Handled {
    /// The packet belongs to its connection. A note replaces the usual reason; `ended` deletes the entry.
    Accept { note: Option<(Reason, Detail)>, ended: bool },
    /// The packet loses its connection.
    Invalid(Reason, Detail),
    /// The entry is to be deleted, and the packet to start over.
    Reopen,
}

impl Handled {
    pub(crate) const PLAIN: Self = Self::Accept { note: None, ended: false };
}

/// Why a packet has no tuple.
pub(crate) fn no_tuple(packet: &Packet<'_>) -> (Reason, Detail) {
    match packet.l4 {
        L4::Malformed { why, .. } => (Reason::HeaderShort, Detail::L4(why)),
        _ => (Reason::GrePayload, Detail::None),
    }
}

/// Checks that need no state: lengths, checksum, flags. In the kernel's order.
#[inline]
pub(crate) fn check_header(
    settings: &Settings,
    verify: bool,
    packet: &Packet<'_>,
) -> Result<(), Handled> {
    match packet.l4 {
        L4::Tcp(Tcp { flags, .. }) => {
            check_sum(settings, verify, packet)?;
            if !tcp::flags_allowed(flags) {
                return Err(Handled::Invalid(Reason::TcpFlags, Detail::Flags(flags)));
            }
            Ok(())
        }
        L4::Udp(_) | L4::Sctp(_) => check_sum(settings, verify, packet),
        // ICMP was checked before the look-up; the rest has none.
        L4::Icmp(_) | L4::Gre(_) | L4::Other => Ok(()),
        L4::Malformed { why, .. } => Err(Handled::Invalid(malformed(why), Detail::L4(why))),
    }
}

fn malformed(why: L4Error) -> Reason {
    match why {
        L4Error::DataOffset { .. } => Reason::TcpDataOffset,
        L4Error::UdpLength { .. } => Reason::UdpLength,
        L4Error::Coverage { .. } | L4Error::CoverageWithoutChecksum => Reason::UdpliteCoverage,
        _ => Reason::HeaderShort,
    }
}

#[inline]
fn check_sum(settings: &Settings, verify: bool, packet: &Packet<'_>) -> Result<(), Handled> {
    if !(verify && settings.checksum) {
        return Ok(());
    }
    let sum = packet.verify_checksum();
    if !matches!(sum, Checksum::Bad { .. } | Checksum::BadCrc { .. }) {
        return Ok(());
    }
    let reason = match packet.protocol {
        protocol::TCP => Reason::TcpChecksum,
        protocol::UDP => Reason::UdpChecksum,
        protocol::UDP_LITE => Reason::UdpliteChecksum,
        _ => Reason::SctpChecksum,
    };
    Err(Handled::Invalid(reason, checksum_detail(sum, packet)))
}

/// The numbers of a wrong checksum.
pub(crate) fn checksum_detail(sum: Checksum, packet: &Packet<'_>) -> Detail {
    match sum {
        Checksum::Bad { found, expected } => {
            Detail::Checksum { found, expected, offload: packet.looks_offloaded() }
        }
        Checksum::BadCrc { found, expected } => Detail::Crc { found, expected },
        _ => Detail::None,
    }
}

/// Protocol state for the first packet of a tuple.
pub(crate) fn first_state(hook: &Hook<'_>, packet: &Packet<'_>) -> Result<Proto, Handled> {
    Ok(match (&packet.l4, packet.protocol) {
        (L4::Tcp(tcp), _) => Proto::Tcp(tcp::start(hook.settings, tcp)?),
        (L4::Udp(_), protocol::UDP) => udp::start(hook.now),
        _ => Proto::Stateless,
    })
}

/// Hands the packet to its protocol's handler.
pub(crate) fn dispatch(hook: &Hook<'_>, conn: &mut Connection, packet: &Packet<'_>) -> Handled {
    match (&packet.l4, packet.protocol) {
        (L4::Tcp(tcp), _) => tcp::handle(hook, conn, tcp),
        (L4::Udp(_), protocol::UDP) => udp::handle(hook, conn),
        (L4::Udp(_), _) => udp::handle_lite(hook, conn),
        (L4::Icmp(icmp), _) => icmp::handle(hook, conn, *icmp),
        (_, number) => generic(hook, conn, number),
    }
}

/// Protocols without a tracker of their own: addresses and number are all there is.
fn generic(hook: &Hook<'_>, conn: &mut Connection, number: u8) -> Handled {
    conn.refresh(hook.now, hook.settings.generic_timeout.span());
    conn.account(hook.direction, hook.len);
    let own_tracker_in_linux = matches!(number, protocol::SCTP | protocol::GRE);
    let note = own_tracker_in_linux.then_some((Reason::GenericTracker, Detail::Generic(number)));
    Handled::Accept { note, ended: false }
}

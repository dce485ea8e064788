//! ICMP and ICMPv6: queries, and errors that belong to another connection.

use fourtuple_packet::{
    Checksum, Family, Icmp, L4, Packet, QuoteError, Quoted, RedirectError, protocol, quoted,
    redirect_quoted,
};

use crate::connection::Connection;
use crate::protocol::{Handled, Hook, checksum_detail};
use crate::reason::{Reason, VerdictKind};
use crate::settings::Settings;
use crate::tuple::Tuple;
use crate::verdict::{Detail, Verdict};

/// Reply type of an ICMP query type and the other way round (RFC 792, RFC 950).
pub(crate) const fn inverse_v4(ty: u8) -> Option<u8> {
    Some(match ty {
        8 => 0,
        0 => 8,
        13 => 14,
        14 => 13,
        15 => 16,
        16 => 15,
        17 => 18,
        18 => 17,
        _ => return None,
    })
}

/// Reply type of an ICMPv6 query type and the other way round (RFC 4443, RFC 4620).
pub(crate) const fn inverse_v6(ty: u8) -> Option<u8> {
    Some(match ty {
        128 => 129,
        129 => 128,
        139 => 140,
        140 => 139,
        _ => return None,
    })
}

/// True iff a message of this type may start a connection.
const fn starts(protocol: u8, ty: u8) -> bool {
    match protocol {
        protocol::ICMP => matches!(ty, 8 | 13 | 15 | 17),
        _ => matches!(ty, 128 | 139),
    }
}

/// What the check before any look-up says of an ICMP packet.
pub(crate) enum Precheck {
    /// Track it like any other packet.
    Track,
    /// An error about the connection that has, or would have, this tuple; the tuple is of packets that go the
    /// opposite way of the quoted one.
    ErrorAbout(Tuple),
    /// Final.
    Done(Verdict),
}

/// Checks a packet of protocol 1 or 58 before any look-up (`nf_conntrack_icmpv4_error`, `nf_conntrack_icmpv6_error`).
pub(crate) fn precheck(settings: &Settings, verify: bool, packet: &Packet<'_>) -> Precheck {
    let icmp = match packet.l4 {
        L4::Icmp(icmp) => icmp,
        L4::Malformed { why, .. } => return invalid(Reason::HeaderShort, Detail::L4(why)),
        _ => return Precheck::Track,
    };
    let same_family = match packet.family {
        Family::V4 => packet.protocol == protocol::ICMP,
        Family::V6 => packet.protocol == protocol::ICMPV6,
    };
    if !same_family {
        return invalid(Reason::IcmpFamily, of(icmp));
    }
    if verify && settings.checksum {
        let sum = packet.verify_checksum();
        if let Checksum::Bad { .. } = sum {
            return invalid(Reason::IcmpChecksum, checksum_detail(sum, packet));
        }
    }
    match packet.family {
        Family::V4 => precheck_v4(icmp, packet),
        Family::V6 => precheck_v6(icmp, packet),
    }
}

fn precheck_v4(icmp: Icmp<'_>, packet: &Packet<'_>) -> Precheck {
    const HIGHEST: u8 = 18;
    match icmp.ty {
        // Unreachable, source quench, redirect, time exceeded, parameter problem.
        3 | 4 | 5 | 11 | 12 => about(quoted(Family::V4, icmp.body), packet.is_cut()),
        0..=HIGHEST => Precheck::Track,
        _ => invalid(Reason::IcmpType, of(icmp)),
    }
}

fn precheck_v6(icmp: Icmp<'_>, packet: &Packet<'_>) -> Precheck {
    match icmp.ty {
        // Listener discovery, neighbour discovery but redirect, multicast router discovery.
        130..=136 | 143 | 151 | 152 => Precheck::Done(Verdict::without(
            VerdictKind::Untracked,
            Reason::Icmpv6Neighbour,
            of(icmp),
        )),
        137 => redirect(icmp, packet),
        0..128 => about(quoted(Family::V6, icmp.body), packet.is_cut()),
        _ => Precheck::Track,
    }
}

/// An ICMPv6 redirect (RFC 4861, section 8.1) quotes the packet that made the router send it.
fn redirect(icmp: Icmp<'_>, packet: &Packet<'_>) -> Precheck {
    const FIXED: u32 = 40;
    let link_local = packet.src[0] == 0xfe && packet.src[1] & 0xc0 == 0x80;
    if packet.l4_len() < FIXED {
        return invalid(Reason::RedirectRefused, of(icmp));
    }
    if icmp.code != 0 {
        return Precheck::Track;
    }
    if packet.ttl != 255 || !link_local {
        return invalid(Reason::RedirectRefused, of(icmp));
    }
    match redirect_quoted(icmp.body) {
        Ok(quote) => about(Ok(quote), false),
        Err(RedirectError::Quote(e)) => about(Err(e), packet.is_cut()),
        // Another first option: an ordinary message, of a type that starts nothing.
        Err(RedirectError::OtherOption(_)) => Precheck::Track,
        Err(e) => invalid(Reason::RedirectRefused, Detail::Redirect(e)),
    }
}

/// `cut`: the capture kept only a part of the packet that quotes.
fn about(quote: Result<Quoted, QuoteError>, cut: bool) -> Precheck {
    let quote = match quote {
        Ok(quote) => quote,
        Err(e) if cut => {
            let detail = Detail::Quote(e);
            let skipped = VerdictKind::Skipped;
            return Precheck::Done(Verdict::without(skipped, Reason::CutByCapture, detail));
        }
        Err(e) => return invalid(Reason::IcmpQuoteUnreadable, Detail::Quote(e)),
    };
    let Some(tuple) = Tuple::of_quoted(&quote) else {
        return invalid(Reason::IcmpQuoteUnreadable, Detail::None);
    };
    match tuple.inverse() {
        Some(inverse) => Precheck::ErrorAbout(inverse),
        None => {
            let (ty, code) = (tuple.icmp_type(), tuple.icmp_code());
            invalid(Reason::IcmpQuoteNoReply, Detail::Icmp { ty, code })
        }
    }
}

fn invalid(reason: Reason, detail: Detail) -> Precheck {
    Precheck::Done(Verdict::without(VerdictKind::Invalid, reason, detail))
}

fn of(icmp: Icmp<'_>) -> Detail {
    Detail::Icmp { ty: icmp.ty, code: icmp.code }
}

/// Handles a query or its reply.
pub(crate) fn handle(hook: &Hook<'_>, conn: &mut Connection, icmp: Icmp<'_>) -> Handled {
    let tuple = conn.tuples[0];
    if !starts(tuple.protocol, tuple.icmp_type()) {
        return Handled::Invalid(Reason::IcmpNotAQuery, of(icmp));
    }
    let timeout = match tuple.protocol {
        protocol::ICMP => hook.settings.icmp_timeout,
        _ => hook.settings.icmpv6_timeout,
    };
    conn.refresh(hook.now, timeout.span());
    conn.account(hook.direction, hook.len);
    Handled::PLAIN
}

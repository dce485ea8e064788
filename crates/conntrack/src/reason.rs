//! The closed set of reasons: one word for why a packet got its verdict, with an explanation to act on.

use core::fmt;

/// What Linux makes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VerdictKind {
    /// Original direction, no reply seen yet.
    New,
    /// Reply direction, or original direction after a reply.
    Established,
    /// An ICMP error about a connection, or a connection that was expected.
    Related,
    /// No connection, and none to be made.
    Invalid,
    /// Deliberately without a connection.
    Untracked,
    /// Dropped by the host before rules see it.
    Dropped,
    /// A fragment that waits for its siblings.
    Absorbed,
    /// No IP inside, or not decodable: connection tracking is not asked.
    Skipped,
}

impl VerdictKind {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::New,
        Self::Established,
        Self::Related,
        Self::Invalid,
        Self::Untracked,
        Self::Dropped,
        Self::Absorbed,
        Self::Skipped,
    ];

    /// The word in output.
    pub const fn word(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Established => "established",
            Self::Related => "related",
            Self::Invalid => "invalid",
            Self::Untracked => "untracked",
            Self::Dropped => "dropped",
            Self::Absorbed => "absorbed",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for VerdictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident $word:literal [$($kind:ident),+] $text:literal;)*) => {
        /// Why a packet got its verdict. The set is closed: `fourtuple reasons` lists it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Reason { $(#[doc = $text] $name,)* }

        impl Reason {
            /// All reasons, in the order of their documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The kebab-case word in output.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// What it means and what to do about it.
            pub const fn explanation(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The verdicts it comes with.
            pub const fn verdicts(self) -> &'static [VerdictKind] {
                match self { $(Self::$name => &[$(VerdictKind::$kind),+],)* }
            }
        }
    };
}

reasons! {
    // Connections that take their packet.
    NewFlow "new-flow" [New] "First packet of its tuple: it makes an entry.";
    Unreplied "unreplied" [New] "A further packet in the original direction before any reply: still NEW, for 'new' does not mean 'first'.";
    PickedUp "picked-up" [New] "An ACK without a handshake: the connection is picked up in the middle because nf_conntrack_tcp_loose is 1. Window scaling is unknown, so the window is not enforced for its whole life.";
    Reopened "reopened" [New] "A SYN on a closed connection (TIME_WAIT, CLOSE): the old entry is deleted and a new one made.";
    FirstReply "first-reply" [Established] "The first packet in the reply direction: from here on the connection is established.";
    TwoWay "two-way" [Established] "Belongs to a connection that has been seen in both directions.";
    TcpIgnored "tcp-ignored" [New, Established] "TCP packet that the state machine ignores in this state (for example a SYN inside a connection, or a retransmitted SYN/ACK): it passes, nothing is refreshed. If the other side answers a SYN with SYN/ACK the entry is made anew.";
    TcpResynced "tcp-resynced" [Established] "SYN/ACK that answers a SYN ignored before: the entry was out of step with the endpoints and has adopted their new connection.";
    TcpChallengeAck "tcp-challenge-ack" [Established, New] "ACK that challenges a SYN sent on a half-closed connection (RFC 5961, section 4): passes without a change.";
    TcpOvershoot "tcp-overshoot" [New, Established] "Data that starts above the window by less than a window: passes, but nothing is refreshed; a later acknowledgement of it is accepted.";
    TcpOldData "tcp-old-data" [New, Established] "A retransmission from below the window: passes, nothing is refreshed.";
    TcpOldAck "tcp-old-ack" [New, Established] "An acknowledgement from far below the window: passes, nothing is refreshed.";
    TcpLiberal "tcp-liberal" [New, Established] "Outside the window, but let through because window tracking is liberal here (nf_conntrack_tcp_be_liberal, or a connection picked up in the middle).";
    TcpRstInexact "tcp-rst-inexact" [New, Established] "RST inside the window but not at the expected sequence number: it does not close the connection (a challenge ACK may follow, RFC 5961, section 3), but the time-out is cut to that of CLOSE.";
    TcpRstUnanswered "tcp-rst-unanswered" [New, Established] "RST on a connection without a recorded reply: the entry is deleted at once.";
    GenericTracker "generic-tracker" [New, Established] "SCTP or GRE: Linux has a tracker of its own for it, this program follows it by addresses and ports only, without states, until it has one, too.";
    IcmpError "icmp-error" [Related] "ICMP error that quotes a packet of a known connection.";

    // Packets without a connection.
    NoNextHeader "no-next-header" [Invalid] "The IPv6 header chain ends with 'no next header' (59): there is no protocol to track.";
    ExtensionCut "extension-cut" [Invalid] "An IPv6 extension header reaches beyond the end of the packet.";
    FragmentUnassembled "fragment-unassembled" [Invalid] "A fragment that reassembly lets through as it is has no transport header to track.";
    HeaderShort "header-short" [Invalid] "The packet ends before its transport header does.";
    GrePayload "gre-payload" [Invalid] "GRE version 1 with a payload other than PPP (RFC 2637 allows no other).";
    TcpDataOffset "tcp-data-offset" [Invalid] "The TCP data offset is below 20 bytes or beyond the segment.";
    TcpChecksum "tcp-checksum" [Invalid] "Wrong TCP checksum. If the capturing host sent this packet its card may have been about to fill the checksum in: capture elsewhere, switch offload off, or use --set nf_conntrack_checksum=0.";
    TcpFlags "tcp-flags" [Invalid] "A combination of TCP flags that no endpoint sends (none, FIN without ACK, SYN with FIN or RST, ...).";
    TcpNotAStart "tcp-not-a-start" [Invalid] "No entry, and this packet cannot start one: only a SYN can, or an ACK picked up in the middle. A SYN/ACK, FIN or RST alone often means that the other direction takes another route or that its entry has ended.";
    TcpLooseOff "tcp-loose-off" [Invalid] "An ACK without an entry, and nf_conntrack_tcp_loose is 0: connections are not picked up in the middle.";
    TcpState "tcp-state" [Invalid] "This kind of TCP packet does not fit the state of the connection in this direction.";
    TcpRstOld "tcp-rst-old" [Invalid] "RST whose sequence number is before what its receiver has already acknowledged: the receiver would not take it (RFC 5961, section 3). nf_conntrack_tcp_ignore_invalid_rst=1 lets it through.";
    TcpSeqAboveWindow "tcp-seq-above-window" [Invalid] "The segment starts above the upper edge of the receiver's window. If window scaling was not seen, the window is thought too small.";
    TcpAckUnsent "tcp-ack-unsent" [Invalid] "Acknowledges data that the other side was not seen to send: a packet took another route, was lost before the capture point, or was sent before tracking began.";
    UdpLength "udp-length" [Invalid] "The UDP length field is below 8 or beyond the datagram.";
    UdpChecksum "udp-checksum" [Invalid] "Wrong UDP checksum. If the capturing host sent this packet its card may have been about to fill the checksum in: capture elsewhere, switch offload off, or use --set nf_conntrack_checksum=0.";
    UdpliteCoverage "udplite-coverage" [Invalid] "UDP-Lite checksum coverage below 8 bytes or beyond the datagram, or no checksum (RFC 3828, section 3.1).";
    UdpliteChecksum "udplite-checksum" [Invalid] "UDP-Lite checksum that Linux takes for wrong. Linux computes it with protocol number 17 in the pseudo-header, so checksums by RFC 3828 fail; nf_conntrack_checksum=0 lets them through.";
    SctpChecksum "sctp-checksum" [Invalid] "Wrong SCTP checksum (CRC32c, RFC 9260, section 6.8).";
    IcmpChecksum "icmp-checksum" [Invalid] "Wrong ICMP or ICMPv6 checksum.";
    IcmpType "icmp-type" [Invalid] "ICMP type above 18, which Linux does not track.";
    IcmpFamily "icmp-family" [Invalid] "ICMPv6 over IPv4, or ICMP over IPv6.";
    IcmpNotAQuery "icmp-not-a-query" [Invalid] "No entry, and this ICMP message cannot start one: it is neither a query nor an error about a known packet. An echo reply here means that its request was not seen, timed out, or had another identifier or code.";
    IcmpQuoteUnreadable "icmp-quote-unreadable" [Invalid] "ICMP error whose quoted packet is too short, a later fragment, or not readable.";
    IcmpQuoteNoReply "icmp-quote-no-reply" [Invalid] "ICMP error about an ICMP message that has no reply (an error about an error).";
    IcmpUnknownFlow "icmp-unknown-flow" [Invalid] "ICMP error about a connection that has no entry.";
    IcmpWrongDestination "icmp-wrong-destination" [Invalid] "ICMP error that is sent to another host than the one whose packet it quotes.";
    RedirectRefused "redirect-refused" [Invalid] "ICMPv6 redirect with hop limit below 255 or a source that is not link-local (RFC 4861, section 8.1), or without a redirected packet inside.";

    // Packets without a connection, on purpose.
    Icmpv6Neighbour "icmpv6-neighbour" [Untracked] "Neighbour and multicast listener discovery are never tracked.";

    // Packets that the host drops before rules see them.
    TableFull "table-full" [Dropped] "The table holds nf_conntrack_max entries and early drop found none to evict nearby: a new connection is refused, existing ones go on.";
    ChainTooLong "chain-too-long" [Dropped] "Too many entries share this tuple's place in the table: with a keyed hash only a broken or known key does that.";
    Clash "clash" [Dropped] "Another packet of the same tuple was confirmed meanwhile, and this protocol does not allow merging them.";
    IpHeader "ip-header" [Dropped] "Bad IP header (version, header length, total length): a Linux host drops the packet before any hook.";
    IpChecksum "ip-checksum" [Dropped] "Wrong IPv4 header checksum: a Linux host drops the packet before any hook.";
    FragmentOverlap "fragment-overlap" [Dropped] "Fragment that overlaps another one in part: its whole datagram is given up.";
    FragmentRefused "fragment-refused" [Dropped] "Fragment that no datagram can hold: contradicting ends, too long, or a length that is not a multiple of 8.";
    FragmentMemory "fragment-memory" [Dropped] "No memory is left for fragments below the high mark.";

    FragmentWaiting "fragment-waiting" [Absorbed] "Fragment that waits for the rest of its datagram; the verdict of the last one is the datagram's.";
    FragmentDuplicate "fragment-duplicate" [Dropped] "Fragment that came before: dropped, the datagram goes on waiting for the rest.";

    // Frames that connection tracking never sees.
    NotIp "not-ip" [Skipped] "The frame carries something other than IP.";
    LinkTypeUnknown "link-type-unknown" [Skipped] "Link type that this program does not decode.";
    LinkHeaderBad "link-header-bad" [Skipped] "The frame ends inside its link-layer header.";
    Mpls "mpls" [Skipped] "IP inside MPLS, which Linux forwards without connection tracking. --mpls looks inside.";
    CutByCapture "cut-by-capture" [Skipped] "The capture kept too few bytes of this packet (snap length): its headers are not all there. Capture with a larger snap length.";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn words_are_distinct_kebab_case_and_explained() {
        let mut seen = HashSet::new();
        for r in Reason::ALL {
            let word = r.word();
            assert!(seen.insert(word), "{word} stands twice");
            assert!(
                word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            );
            assert!(r.explanation().ends_with(['.', ')']), "{word}");
            assert!(!r.verdicts().is_empty());
        }
    }
}

//! Differences that are known, with their causes in `docs/differences.md`.

use fourtuple_conntrack::{Verdict as Ours, VerdictKind};
use fourtuple_packet::{Family, Packet, protocol};

use crate::judge::{Observation, Verdict};

/// A difference that is meant, or not to be had otherwise.
pub struct Known {
    /// Short name, for counting.
    pub name: &'static str,
    /// The heading in `docs/differences.md`.
    pub heading: &'static str,
    /// True iff a difference at this packet is this one.
    applies: fn(&[u8], &Observation, &Ours) -> bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[
    Known {
        name: "sctp-gre",
        heading: "SCTP and GRE",
        applies: |packet, seen, _| {
            let own = |number| matches!(number, protocol::SCTP | protocol::GRE);
            let number = Packet::parse(packet, packet.len() as u32).map(|packet| packet.protocol);
            number.is_ok_and(own) || super::protocols(seen).any(own)
        },
    },
    // The judge is a bridge, and a bridge looks at the IPv6 header once more when it forwards: behind reassembly a
    // hop-by-hop header may have come to stand first that it refuses. A router does not look again. What rules saw is
    // the same; that the packet was dropped behind them is the bridge's doing.
    Known {
        name: "bridge-looks-again",
        heading: "The judge is a bridge",
        applies: |packet, seen, ours| {
            let v6 = Packet::parse(packet, packet.len() as u32)
                .is_ok_and(|p| p.family == Family::V6 && p.fragment.is_some());
            let dropped_behind = seen.frames_out == 0 && seen.reason.as_deref() == Some("IP_INHDR");
            let same_for_rules = match seen.verdict {
                Verdict::New => ours.kind == VerdictKind::New,
                Verdict::Established => ours.kind == VerdictKind::Established,
                _ => false,
            };
            v6 && dropped_behind && same_for_rules
        },
    },
];

/// The name of the known difference that this is.
pub(super) fn find(packet: &[u8], seen: &Observation, ours: &Ours) -> Option<&'static str> {
    let known = KNOWN.iter().find(|known| (known.applies)(packet, seen, ours));
    known.map(|known| known.name)
}

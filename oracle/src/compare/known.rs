//! Differences that are known, with their causes in `docs/differences.md`.

use fourtuple_conntrack::Verdict;
use fourtuple_packet::{Packet, protocol};

use crate::judge::Observation;

/// A difference that is meant, or not to be had otherwise.
pub struct Known {
    /// Short name, for counting.
    pub name: &'static str,
    /// The heading in `docs/differences.md`.
    pub heading: &'static str,
    /// True iff a difference at this packet is this one.
    applies: fn(&[u8], &Observation, &Verdict) -> bool,
}

/// All of them.
pub const KNOWN: &[Known] = &[Known {
    name: "sctp-gre",
    heading: "SCTP and GRE",
    applies: |packet, seen, _| {
        let own = |number| matches!(number, protocol::SCTP | protocol::GRE);
        let number = Packet::parse(packet, packet.len() as u32).map(|packet| packet.protocol);
        number.is_ok_and(own) || super::protocols(seen).any(own)
    },
}];

/// The name of the known difference that this is.
pub(super) fn find(packet: &[u8], seen: &Observation, ours: &Verdict) -> Option<&'static str> {
    let known = KNOWN.iter().find(|known| (known.applies)(packet, seen, ours));
    known.map(|known| known.name)
}

//! Any packets at any times: no panic, entries within the limit, every verdict as its reason allows.
#![no_main]

use fourtuple_conntrack::{Conntrack, CutPackets, PathOptions, ReceivePath, Settings, TupleHash};
use fourtuple_hash::Key;
use fourtuple_packet::{Instant, LinkType};
use libfuzzer_sys::fuzz_target;

const MAX: u32 = 8;

fuzz_target!(|input: &[u8]| {
    let [options, rest @ ..] = input else { return };
    let settings = Settings {
        max: MAX,
        // A fuzzer does not guess checksums.
        checksum: options & 1 != 0,
        tcp_loose: options & 2 != 0,
        tcp_be_liberal: options & 4 != 0,
        acct: true,
        ..Settings::default()
    };
    let layout = [TupleHash::Compact, TupleHash::FourWords, TupleHash::Linux65]
        [usize::from(options >> 3) % 3];
    let mut conntrack = Conntrack::new(settings, layout, Key::from_words(1, 2));
    conntrack.enable_events(16);
    let cut = if options & 32 != 0 { CutPackets::Drop } else { CutPackets::Track };
    let mut path = ReceivePath::new(conntrack, PathOptions { cut, ..PathOptions::default() });
    let mut rest = rest;
    let mut now = 0u64;
    // Records of length (1), seconds to wait (1), an IP packet.
    while let [len, wait, tail @ ..] = rest {
        let (bytes, after) = tail.split_at(tail.len().min(usize::from(*len)));
        rest = after;
        now += u64::from(*wait) * 1_000_000_000;
        let verdict =
            path.frame(Instant::from_nanos(now), LinkType::RAW, bytes, bytes.len() as u32);
        assert!(verdict.reason.verdicts().contains(&verdict.kind), "{verdict:?}");
        let _ = verdict.detail.to_string();
        assert!(path.conntrack().len() <= MAX as usize);
        if let Some(id) = verdict.connection {
            let conn = path.conntrack().connection(id).expect("the verdict's connection");
            assert!(conn.number() > 0);
        }
        while path.conntrack_mut().next_event().is_some() {}
    }
});

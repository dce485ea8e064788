//! A batch answers as its frames one by one, whatever way it takes to a connection.

mod support;

use fourtuple_capture::CaptureReader;
use fourtuple_conntrack::{
    Conntrack, Frame, PathOptions, ReceivePath, Settings, TupleHash, Verdict, Zone, ZoneDirs,
};
use fourtuple_hash::Key;
use fourtuple_packet::{Instant, LinkType};
use proptest::prelude::*;
use support::*;

/// A captured frame that owns its bytes.
#[derive(Clone, Debug)]
struct Owned {
    now: Instant,
    link: LinkType,
    data: Vec<u8>,
    wire_len: u32,
}

fn path(layout: TupleHash, zone: Zone, max: u32) -> ReceivePath {
    let settings = Settings { max, ..Settings::default() };
    let conntrack = Conntrack::new(settings, layout, Key::from_words(1, 2));
    ReceivePath::new(conntrack, PathOptions { zone, ..PathOptions::default() })
}

/// All there is to see of a verdict, and of the connections at the end.
fn answers(path: &ReceivePath, verdicts: &[Verdict]) -> Vec<String> {
    let mut connections: Vec<_> = path.conntrack().connections().map(|(_, c)| c).collect();
    connections.sort_by_key(|c| c.number());
    let verdicts = verdicts.iter().map(|v| format!("{v:?}"));
    verdicts.chain(connections.iter().map(|c| format!("{c:?}"))).collect()
}

/// Both ways; `sizes` of the batches are taken in turns.
fn compare(frames: &[Owned], sizes: &[usize], layout: TupleHash, zone: Zone, max: u32) {
    let mut single = path(layout, zone, max);
    let verdicts: Vec<Verdict> =
        frames.iter().map(|f| single.frame(f.now, f.link, &f.data, f.wire_len)).collect();
    let expected = answers(&single, &verdicts);

    let mut batched = path(layout, zone, max);
    let (mut verdicts, mut rest) = (Vec::new(), frames);
    for &size in sizes.iter().cycle() {
        let (batch, behind) = rest.split_at(size.clamp(1, rest.len().max(1)).min(rest.len()));
        let frames = batch.iter().map(|f| Frame {
            now: f.now,
            link: f.link,
            data: &f.data,
            wire_len: f.wire_len,
        });
        batched.frames(frames, |_, _, verdict| verdicts.push(verdict));
        rest = behind;
        if rest.is_empty() {
            break;
        }
    }
    let got = answers(&batched, &verdicts);
    for (number, (got, expected)) in got.iter().zip(&expected).enumerate() {
        assert_eq!(got, expected, "answer {number}");
    }
    assert_eq!(got.len(), expected.len());
}

#[test]
fn sample_captures() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().path();
        let Ok(mut reader) = CaptureReader::open(&name) else { continue };
        let (mut frames, mut now) = (Vec::new(), Instant::ZERO);
        while let Some(Ok(record)) = reader.next() {
            now = record.time.unwrap_or(now);
            let (link, data, wire_len) = (record.link_type, record.data.to_vec(), record.wire_len);
            frames.push(Owned { now, link, data, wire_len });
        }
        seen += frames.len();
        for sizes in [&[1][..], &[7, 64, 2], &[1000], &[16, 17]] {
            compare(&frames, sizes, TupleHash::Compact, Zone::DEFAULT, 0);
        }
    }
    assert!(seen > 1000, "{seen} packets in the sample captures");
}

/// A packet of one of a few flows, so that trains, answers, ends and new beginnings within a batch are frequent.
fn packet() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop::sample::select(vec![
        SYN,
        SYN | ACK,
        ACK,
        ACK | PSH,
        FIN | ACK,
        RST,
        RST | ACK,
        SYN | FIN,
        0,
    ]);
    let tcp = (any::<bool>(), 0u16..2, flags, 0u32..3, 0u32..3, 0usize..3).prop_map(
        |(reply, port, flags, seq, ack, len)| {
            let segment = if reply {
                server(flags, 5000 + seq, 1000 + ack)
            } else {
                client(flags, 1000 + seq, 5000 + ack)
            };
            let (client, server) = (40_000 + port, 80);
            segment
                .ports(if reply { server } else { client }, if reply { client } else { server })
                .len(len)
                .bytes()
        },
    );
    let udp = (any::<bool>(), 0u16..2).prop_map(|(reply, port)| match reply {
        false => udp(CLIENT, 1000 + port, SERVER, 53, 4),
        true => udp(SERVER, 53, CLIENT, 1000 + port, 4),
    });
    // Its own answer.
    let mirrored = Just(support::udp(CLIENT, 7, CLIENT, 7, 4));
    let udp6 = any::<bool>().prop_map(|reply| match reply {
        false => udp6(CLIENT6, 1000, SERVER6, 53, 4),
        true => udp6(SERVER6, 53, CLIENT6, 1000, 4),
    });
    let other = prop_oneof![
        Just(icmp(CLIENT, SERVER, 8, 0, [0, 1, 0, 1], &[])),
        Just(ipv4(CLIENT, SERVER, 47, &[0; 8])),
        Just(ipv4(CLIENT, SERVER, 6, &[0; 12])),
        Just(vec![0x45]),
    ];
    prop_oneof![6 => tcp, 3 => udp, 1 => mirrored, 1 => udp6, 1 => other]
}

/// A packet, how often it comes at once, and milliseconds until the next: mostly none, sometimes longer than its
/// connection lives.
fn train() -> impl Strategy<Value = (Vec<u8>, usize, u64)> {
    let pause =
        prop_oneof![6 => Just(0), 2 => 0u64..5, 1 => 1000u64..40_000, 1 => 100_000u64..500_000];
    (packet(), 1usize..4, pause)
}

proptest! {
    #[test]
    fn random_trains(
        trains in prop::collection::vec(train(), 1..60),
        sizes in prop::collection::vec(1usize..70, 1..4),
        layout in prop::sample::select(vec![TupleHash::Compact, TupleHash::FourWords, TupleHash::Linux65]),
        dirs in prop::sample::select(vec![ZoneDirs::Both, ZoneDirs::Original, ZoneDirs::Reply]),
        id in 0u16..2,
        // Two entries are too few for all flows: some are evicted, some packets refused.
        max in prop::sample::select(vec![0u32, 2]),
    ) {
        let (mut frames, mut now) = (Vec::new(), Instant::from_nanos(1_000_000_000));
        for (data, times, pause) in &trains {
            for _ in 0..*times {
                let (data, wire_len) = (data.clone(), data.len() as u32);
                frames.push(Owned { now, link: LinkType::RAW, data, wire_len });
            }
            now = now + fourtuple_packet::Span::from_nanos(*pause * 1_000_000);
        }
        compare(&frames, &sizes, layout, Zone { id, dirs }, max);
    }
}

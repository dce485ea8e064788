//! Edges that generated packets meet too seldom: a constant's exact value, a counter's width. Each is what the live
//! kernel does (Linux 6.18).

mod support;

use fourtuple_conntrack::{Settings, Status};
use support::*;

/// A host on which established connections live for so many seconds and what waits for an answer for `unacknowledged`.
fn host(established: &str, unacknowledged: &str) -> Host {
    let mut settings = Settings::default();
    settings.set("nf_conntrack_tcp_timeout_established", established).unwrap();
    settings.set("nf_conntrack_tcp_timeout_unacknowledged", unacknowledged).unwrap();
    Host::with(settings)
}

/// Seconds left after an invalid FIN of each direction, the second one at the same moment as the first.
fn left_after_invalid_close(established: &str, unacknowledged: &str) -> u64 {
    let mut host = host(established, unacknowledged);
    host.handshake();
    // Both are far above the window.
    assert_eq!(host.tcp(client(FIN | ACK, 90_000, 5001)).kind.word(), "invalid");
    let verdict = host.tcp(server(FIN | ACK, 90_000, 1001));
    assert_eq!(verdict.kind.word(), "invalid");
    assert!(host.conn(&verdict).status().has(Status::ASSURED));
    host.left(&verdict)
}

#[test]
fn a_time_out_of_120_seconds_is_worth_cutting_and_119_is_not() {
    assert_eq!(left_after_invalid_close("120", "7"), 7);
    assert_eq!(left_after_invalid_close("119", "7"), 119);
    assert_eq!(left_after_invalid_close("121", "7"), 7);
    assert_eq!(left_after_invalid_close("60", "7"), 60);
    // Never longer than it was.
    assert_eq!(left_after_invalid_close("120", "300"), 120);
}

/// The counter of identical acknowledgements has eight bits and wraps: 3 and more shorten the time-out, the 256th
/// repetition is again the first.
#[test]
fn repetitions_are_counted_in_eight_bits() {
    let mut host = host("1000", "300");
    host.handshake();
    let mut left = Vec::new();
    for _ in 0..260 {
        let verdict = host.tcp(server(ACK, 5001, 1001));
        left.push(host.left(&verdict));
    }
    let (long, short) = (1000, 300);
    // The first one is no repetition.
    assert_eq!(left[..3], [long; 3]);
    assert!(left[3..256].iter().all(|&seconds| seconds == short), "{left:?}");
    assert_eq!(left[256..], [long, long, long, short], "{left:?}");
}

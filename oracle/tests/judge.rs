//! The judge itself: cheap resets, no traces, speed.

mod common;

use std::time::{Duration, Instant};

use common::judge;
use fourtuple_oracle::{Direction, Settings, Verdict};

/// A UDP datagram with checksum 0, which is always accepted.
fn udp(source: u8, sport: u16, destination: u8, dport: u16) -> Vec<u8> {
    let mut packet =
        vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination];
    let sum: u32 = packet.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[10..12].copy_from_slice(&folded.to_be_bytes());
    packet.extend(sport.to_be_bytes());
    packet.extend(dport.to_be_bytes());
    packet.extend([0, 8, 0, 0]);
    packet
}

#[test]
fn a_thousand_packets_a_second_and_more() {
    let Some(mut judge) = judge("a_thousand_packets_a_second_and_more", &Settings::default())
    else {
        return;
    };
    let started = Instant::now();
    let (mut packets, settings) = (0, Settings::default());
    for _ in 0..40 {
        for flow in 0..25_u16 {
            assert_eq!(judge.packet(&udp(1, 1000 + flow, 2, 53)).unwrap().verdict, Verdict::New);
            assert_eq!(
                judge.packet(&udp(2, 53, 1, 1000 + flow)).unwrap().verdict,
                Verdict::Established
            );
            packets += 2;
        }
        judge.reset(&settings).unwrap();
        assert_eq!(judge.count().unwrap(), 0);
    }
    let rate = f64::from(packets) / started.elapsed().as_secs_f64();
    println!("{rate:.0} packets/s, resets included");
    assert!(rate > 1000.0, "{rate} packets/s");
}

#[test]
fn settings_change_between_cases_and_counters_start_anew() {
    let name = "settings_change_between_cases_and_counters_start_anew";
    let Some(mut judge) = judge(name, &Settings::default()) else {
        return;
    };
    let mut bad = udp(1, 1, 2, 2);
    bad[26] = 1; // a checksum that is neither 0 nor right
    assert_eq!(judge.packet(&bad).unwrap().verdict, Verdict::Invalid);
    assert_eq!(judge.stats().unwrap().invalid, 1);
    judge.reset(&Settings::default().with("nf_conntrack_checksum", 0)).unwrap();
    assert_eq!(judge.stats().unwrap().invalid, 0);
    let seen = judge.packet(&bad).unwrap();
    assert_eq!((seen.verdict, seen.conn), (Verdict::New, Some(1)));
    assert_eq!(seen.direction, Some(Direction::Original));
    assert_eq!(seen.changed[0].timeout, Some(30));
}

#[test]
fn real_timeouts_expire_and_the_next_packet_is_new_again() {
    let name = "real_timeouts_expire_and_the_next_packet_is_new_again";
    let settings = Settings::unlengthened().with("nf_conntrack_udp_timeout", 1);
    let Some(mut judge) = judge(name, &settings) else {
        return;
    };
    assert_eq!(judge.packet(&udp(1, 7, 2, 8)).unwrap().conn, Some(1));
    std::thread::sleep(Duration::from_millis(1100));
    assert_eq!(judge.entries().unwrap(), []);
    let seen = judge.packet(&udp(1, 7, 2, 8)).unwrap();
    assert_eq!((seen.verdict, seen.conn), (Verdict::New, Some(2)));
}

#[test]
fn a_waiting_fragment_does_not_reach_the_next_case() {
    let name = "a_waiting_fragment_does_not_reach_the_next_case";
    let Some(mut judge) = judge(name, &Settings::default()) else {
        return;
    };
    let whole = udp(1, 7, 2, 8);
    let piece = |offset: u16, more: u16, data: &[u8]| {
        let mut piece = whole[..20].to_vec();
        piece.extend(data);
        piece[3] = piece.len() as u8;
        piece[6..8].copy_from_slice(&((more << 13) | (offset / 8)).to_be_bytes());
        piece[10..12].fill(0);
        let sum: u32 =
            piece[..20].chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
        piece[10..12].copy_from_slice(&folded.to_be_bytes());
        piece
    };
    let (first, last) = (piece(0, 1, &[0, 7, 0, 8, 0, 16, 0, 0]), piece(8, 0, &[9; 8]));
    assert_eq!(judge.packet(&first).unwrap().verdict, Verdict::Absorbed);
    assert_eq!(judge.packet(&last).unwrap().verdict, Verdict::New);
    judge.reset(&Settings::default()).unwrap();
    assert_eq!(judge.packet(&first).unwrap().verdict, Verdict::Absorbed);
    judge.reset(&Settings::default()).unwrap();
    assert_eq!(judge.packet(&last).unwrap().verdict, Verdict::Absorbed);
}

#[test]
fn works_from_another_thread() {
    let Some(mut judge) = judge("works_from_another_thread", &Settings::default()) else {
        return;
    };
    let worker = std::thread::spawn(move || {
        // A header cut short is dropped before tracking, with a reason.
        judge.packet(&udp(1, 7, 2, 8)[..12]).unwrap()
    });
    let seen = worker.join().unwrap();
    assert_eq!((seen.verdict, seen.reason.as_deref()), (Verdict::Dropped, Some("IP_INHDR")));
}

#[test]
fn the_callers_namespace_is_untouched() {
    let links = || -> Vec<_> {
        let names = std::fs::read_dir("/sys/class/net").unwrap();
        let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let space = || std::fs::read_link("/proc/thread-self/ns/net").unwrap();
    let (before, here) = (links(), space());
    let Some(judge) = judge("the_callers_namespace_is_untouched", &Settings::default()) else {
        return;
    };
    assert_eq!((links(), space()), (before.clone(), here.clone()));
    drop(judge);
    assert_eq!((links(), space()), (before, here));
}

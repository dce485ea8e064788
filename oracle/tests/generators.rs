//! The generators put to the kernel: what they make must reach what they are for.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use common::judge;
use fourtuple_oracle::generate::{Case, Kind, Step};
use fourtuple_oracle::{Direction, Judge, Settings, Verdict};

/// What a set of cases reached.
#[derive(Default)]
struct Reached {
    packets: u64,
    verdicts: BTreeMap<String, u64>,
    states: BTreeSet<(Option<&'static str>, bool)>,
    reasons: BTreeMap<String, u64>,
    destroyed: u64,
    timeouts: BTreeSet<i64>,
    flags: u8,
    scales: BTreeSet<u8>,
    protocols: BTreeSet<u8>,
}

impl Reached {
    fn run(&mut self, judge: &mut Judge, case: &Case) {
        judge.reset(&case.settings).unwrap();
        for packet in case.packets() {
            let seen = judge.packet(packet).unwrap();
            self.packets += 1;
            *self
                .verdicts
                .entry(format!("{:?} {:?}", seen.verdict, seen.direction))
                .or_default() += 1;
            if let Some(reason) = seen.reason {
                *self.reasons.entry(reason).or_default() += 1;
            }
            self.destroyed += seen.destroyed.len() as u64;
            for entry in &seen.changed {
                let reply = seen.direction == Some(Direction::Reply);
                self.states.insert((entry.state, reply));
                self.timeouts.extend(entry.timeout);
                self.protocols.insert(entry.proto);
                if let Some(tcp) = entry.tcp {
                    self.flags |= tcp.flags_orig | tcp.flags_reply;
                    self.scales.extend([tcp.wscale_orig, tcp.wscale_reply]);
                }
            }
        }
    }
}

#[test]
fn the_cases_reach_every_verdict_and_state() {
    let Some(mut judge) = judge("the_cases_reach_every_verdict_and_state", &Settings::default())
    else {
        return;
    };
    let (mut reached, started) = (Reached::default(), Instant::now());
    for seed in 0..600 {
        reached.run(&mut judge, &Case::any(seed));
    }
    println!("{} packets, {:?}", reached.packets, started.elapsed());
    println!("{:?}\n{:?}\n{:?}", reached.verdicts, reached.reasons, reached.timeouts);
    for verdict in [
        "New Some(Original)",
        "Established Some(Original)",
        "Established Some(Reply)",
        "Related Some(Original)",
        "Related Some(Reply)",
        "Invalid None",
        "Untracked None",
        "Absorbed None",
        "Dropped None",
    ] {
        assert!(reached.verdicts.contains_key(verdict), "{verdict} was never seen");
    }
    for state in [
        "SYN_SENT",
        "SYN_RECV",
        "ESTABLISHED",
        "FIN_WAIT",
        "CLOSE_WAIT",
        "LAST_ACK",
        "TIME_WAIT",
        "CLOSE",
        "SYN_SENT2",
    ] {
        let seen = reached.states.iter().any(|(name, _)| *name == Some(state));
        assert!(seen, "{state} was never reached");
    }
    assert!(reached.destroyed > 20, "{} entries were ended by packets", reached.destroyed);
    // Scale, SACK, close init, liberal, unacknowledged, maxack.
    assert_eq!(reached.flags, 0x3f);
    assert_eq!(reached.scales, (0..=14).collect());
    for protocol in [1, 6, 17, 47, 50, 58, 136] {
        assert!(reached.protocols.contains(&protocol), "protocol {protocol} has no entry");
    }
}

#[test]
fn each_kind_is_about_what_it_says() {
    let Some(mut judge) = judge("each_kind_is_about_what_it_says", &Settings::default()) else {
        return;
    };
    let share = |reached: &Reached, verdict: Verdict| {
        let wanted = format!("{verdict:?}");
        let hits: u64 = reached
            .verdicts
            .iter()
            .filter(|(name, _)| name.starts_with(&wanted))
            .map(|(_, n)| n)
            .sum();
        hits as f64 / reached.packets as f64
    };
    for kind in Kind::QUICK {
        let mut reached = Reached::default();
        for seed in 0..60 {
            reached.run(&mut judge, &Case::new(kind, seed));
        }
        let shares = [
            Verdict::New,
            Verdict::Established,
            Verdict::Related,
            Verdict::Invalid,
            Verdict::Untracked,
            Verdict::Absorbed,
            Verdict::Dropped,
        ]
        .map(|verdict| share(&reached, verdict));
        let [new, established, related, invalid, _, absorbed, _] = shares;
        println!("{kind:?}: {} packets, {shares:.2?}", reached.packets);
        // Neither all accepted nor all refused: both sides of each rule are tried.
        match kind {
            Kind::TcpTalk => assert!(established > 0.3 && invalid > 0.1),
            Kind::TcpShot => assert!(established > 0.3 && invalid > 0.1 && new > 0.1),
            Kind::Udp | Kind::Query => assert!(new > 0.1 && established > 0.1 && invalid > 0.05),
            Kind::IcmpError => assert!(related > 0.1 && invalid > 0.1),
            Kind::Fragment => assert!(absorbed > 0.3 && new + established > 0.02),
            Kind::Extension => assert!(new + established > 0.3 && invalid > 0.05),
            Kind::Generic => assert!(new > 0.2 && established > 0.1),
            Kind::Mixed => assert!(new > 0.05 && established > 0.05 && invalid > 0.05),
            Kind::Waiting => unreachable!("not quick"),
        }
    }
}

#[test]
fn a_case_gets_the_same_answers_after_others_ran() {
    let Some(mut judge) =
        judge("a_case_gets_the_same_answers_after_others_ran", &Settings::default())
    else {
        return;
    };
    let mut run = |seed| {
        let case = Case::any(seed);
        judge.reset(&case.settings).unwrap();
        let mut answers = Vec::new();
        for packet in case.packets() {
            let mut seen = judge.packet(packet).unwrap();
            // When it was sent, and what was left when it was read, differ from run to run.
            seen.sent = std::time::Duration::ZERO;
            for entry in seen.changed.iter_mut().chain(&mut seen.destroyed) {
                entry.left = None;
            }
            answers.push(seen);
        }
        answers
    };
    let first: Vec<_> = (1000..1150).map(|seed| (seed, run(seed))).collect();
    for (seed, before) in first.into_iter().rev() {
        for (n, (before, now)) in before.iter().zip(run(seed)).enumerate() {
            assert_eq!(*before, now, "seed {seed}, packet {}", n + 1);
        }
    }
}

#[test]
fn waits_let_entries_expire() {
    let Some(mut judge) = judge("waits_let_entries_expire", &Settings::default()) else {
        return;
    };
    let mut expired = 0;
    for seed in 0..6 {
        let case = Case::new(Kind::Waiting, seed);
        judge.reset(&case.settings).unwrap();
        for step in &case.steps {
            match step {
                Step::Packet(packet) => {
                    let seen = judge.packet(packet).unwrap();
                    for entry in &seen.changed {
                        let timeout = entry.timeout.unwrap();
                        // SYN_SENT2 has no setting.
                        assert!([2, 4, 120].contains(&timeout), "seed {seed}: {entry:?}");
                    }
                }
                Step::Wait(pause) => {
                    let before = judge.entries().unwrap().len();
                    std::thread::sleep(*pause);
                    expired += before - judge.entries().unwrap().len();
                }
            }
        }
    }
    assert!(expired > 0, "nothing expired");
}

//! Sections 5.5 and 5.6: groups; what both profiles have in common.

use std::collections::BTreeSet;

use fourtuple_udp::{Errno, Family, ProgramInput, Selection, SetOption, SocketId};

use crate::host::*;

fn flow(h: &Host, n: u16) -> Option<SocketId> {
    h.to(&format!("10.1.0.9:{}", 10_000 + n), "10.1.0.1:5000")
}

#[test]
fn every_member_gets_flows_and_each_flow_one_member() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let members: BTreeSet<_> = (0..4).map(|_| h.member("10.1.0.1:5000")).collect();
        let first: Vec<_> = (0..200).map(|n| flow(&h, n).unwrap()).collect();
        assert_eq!(first.iter().copied().collect::<BTreeSet<_>>(), members);
        let second: Vec<_> = (0..200).map(|n| flow(&h, n).unwrap()).collect();
        assert_eq!(first, second);
        assert!(h.found("10.1.0.9:1", "10.1.0.1:5000").unwrap().by_group);
    }
}

/// The last member takes the place of one that closes, so flows of others move as well.
#[test]
fn not_consistent() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let members: Vec<_> = (0..4).map(|_| h.member("10.1.0.1:5000")).collect();
        let before: Vec<_> = (0..200).map(|n| flow(&h, n).unwrap()).collect();
        h.t.close(members[1]).unwrap();
        assert_eq!(h.t.group_of(members[0]), [members[0], members[3], members[2]]);
        let moved = before
            .iter()
            .zip(0..)
            .filter(|&(s, n)| *s != members[1] && flow(&h, n) != Some(*s))
            .count();
        assert!(moved > 20, "{moved} flows moved");
    }
}

#[test]
fn connected_members_get_their_peer_and_leave() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let members: Vec<_> = (0..3).map(|_| h.member("10.1.0.1:5000")).collect();
        h.connect(members[1], "10.1.0.9:10000").unwrap();
        if HASH4 || profile == STRICT {
            assert_eq!(h.t.group_of(members[1]), []);
            assert_eq!(h.t.group_of(members[0]).len(), 2);
        }
        assert_eq!(flow(&h, 0), Some(members[1]));
        for n in 1..100 {
            assert_ne!(flow(&h, n), Some(members[1]), "flow {n}");
        }
    }
}

#[test]
fn selectors() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let a = h.member("10.1.0.1:5000");
        let b = h.member("10.1.0.1:5000");
        let by_port = |input: &ProgramInput, _: &[SocketId]| match input.source.1 % 4 {
            0 => Selection::Member(0),
            1 => Selection::Member(1),
            2 => Selection::Member(99),
            _ => Selection::Drop,
        };
        let chosen_by_hash: Vec<_> = (0..40).map(|n| flow(&h, n)).collect();
        h.t.set_selector(b, by_port).unwrap();
        for n in 0..40u16 {
            let want = match (10_000 + n) % 4 {
                0 => Some(a),
                1 => Some(b),
                2 => chosen_by_hash[usize::from(n)],
                _ => None,
            };
            assert_eq!(flow(&h, n), want, "flow {n}");
        }
        let plain = h.bound("10.1.0.1:5001", |_| {});
        assert_eq!(h.t.set_selector(plain, by_port), Err(Errno::EINVAL));
        let late = h.bound("10.1.0.1:5002", |_| {});
        h.set(late, SetOption::ReusePort(true));
        assert_eq!(h.t.set_selector(late, by_port), Err(Errno::EINVAL), "bound without the flag");
    }
}

/// A socket with a selector before its bind has a group of its own: it cannot join another's, but
/// others join it.
#[test]
fn a_selector_before_bind() {
    for profile in BOTH {
        let drop = |_: &ProgramInput, _: &[SocketId]| Selection::Drop;
        let mut h = Host::new(profile);
        h.member("10.1.0.1:5000");
        let s = h.sock(Family::V4, |o| o.reuseport = true);
        h.t.set_selector(s, drop).unwrap();
        assert_eq!(h.bind(s, "10.1.0.1:5000"), Err(Errno::EADDRINUSE));
        assert_eq!(h.bind(s, "10.1.0.1:6000"), Ok(()));
        let other = h.member("10.1.0.1:6000");
        assert_eq!(h.t.group_of(other), [s, other]);
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:6000"), None);
    }
}

#[test]
fn incoming_cpu_prefers_a_member() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let members: Vec<_> = (0..4).map(|_| h.member("10.1.0.1:5000")).collect();
        h.set(members[2], SetOption::IncomingCpu(Some(1)));
        for n in 0..30 {
            let got = h.on_cpu(1, &format!("10.1.0.9:{}", 10_000 + n), "10.1.0.1:5000");
            assert_eq!(got, Some(members[2]));
        }
        let others: BTreeSet<_> = (0..60)
            .filter_map(|n| h.on_cpu(0, &format!("10.1.0.9:{}", 10_000 + n), "10.1.0.1:5000"))
            .collect();
        assert!(others.len() > 1, "nobody matches: the hash decides");
    }
}

#[test]
fn separate_groups_by_address_and_family() {
    for profile in BOTH {
        for order in [false, true] {
            let mut h = Host::new(profile);
            let (mut four, mut six) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                if order {
                    four.push(h.member("0.0.0.0:5000"));
                    six.push(h.member("[::]:5000"));
                } else {
                    six.push(h.member("[::]:5000"));
                    four.push(h.member("0.0.0.0:5000"));
                }
            }
            let specific = h.member("10.1.0.2:5000");
            for n in 0..40 {
                assert!(four.contains(&flow(&h, n).unwrap()));
                let to6 = h.to(&format!("[fd01::9]:{}", 10_000 + n), "[fd01::1]:5000");
                assert!(six.contains(&to6.unwrap()));
                let to2 = h.to(&format!("10.1.0.9:{}", 10_000 + n), "10.1.0.2:5000");
                assert_eq!(to2, Some(specific));
            }
        }
    }
}

/// Sockets with both flags and different owners overlap without being a group.
#[test]
fn groups_need_one_owner() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let a = h.bound("10.1.0.1:5000", |o| (o.reuseaddr, o.reuseport) = (true, true));
        let b = h.bound("10.1.0.1:5000", |o| {
            (o.reuseaddr, o.reuseport, o.uid) = (true, true, 1000);
        });
        assert_eq!((h.t.group_of(a), h.t.group_of(b)), (vec![a], vec![b]));
        for n in 0..20 {
            assert_eq!(flow(&h, n), Some(b), "the newest");
        }
    }
}

/// At most 32768 members.
#[test]
fn a_full_group() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        for _ in 0..32768 {
            h.member("10.1.0.1:5000");
        }
        let s = h.sock(Family::V4, |o| o.reuseport = true);
        assert_eq!(h.bind(s, "10.1.0.1:5000"), Err(Errno::EADDRINUSE));
        assert_eq!(h.local(s), "0.0.0.0:0");
    }
}

/// A group at the any address is asked with that address, so a flow has one member whatever address of
/// the host it goes to; [checked] on 6.18.
#[test]
fn a_group_at_any_forgets_the_destination() {
    for profile in BOTH {
        for (local, from, to) in [
            ("0.0.0.0:5000", "10.1.0.9", ["10.1.0.1:5000", "10.1.0.2:5000"]),
            ("[::]:5000", "[fd01::9]", ["[fd01::1]:5000", "[fe80::1]:5000"]),
        ] {
            let mut h = Host::new(profile);
            for _ in 0..7 {
                h.member(local);
            }
            for n in 0..50 {
                let from = format!("{from}:{}", 10_000 + n);
                assert_eq!(h.to(&from, to[0]), h.to(&from, to[1]), "{from}");
            }
        }
    }
}

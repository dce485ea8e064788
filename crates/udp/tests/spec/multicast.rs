//! Section 6: copies of multicast and broadcast datagrams.

use fourtuple_udp::{Delivery, DropReason, Errno, Family, SetOption, SocketId, SourceChange};

use crate::host::*;

const GROUP: &str = "224.1.1.1";
const FROM: &str = "10.1.0.9:9000";
const TO: &str = "224.1.1.1:5000";

/// A host on which somebody has joined the group, and whether one more socket gets a copy.
fn gets(profile: fourtuple_udp::Profile, make: impl FnOnce(&mut Host) -> SocketId) -> bool {
    let mut h = Host::new(profile);
    let somebody = h.bound("10.1.0.1:7000", |_| {});
    h.t.join(somebody, ip(GROUP), dev(D0)).unwrap();
    let s = make(&mut h);
    h.copies(FROM, TO).contains(&s)
}

#[test]
fn the_table_of_results() {
    for profile in BOTH {
        let joined = |h: &mut Host, local: &str| {
            let s = h.shared(local);
            h.t.join(s, ip(GROUP), dev(D0)).unwrap();
            s
        };
        assert!(gets(profile, |h| joined(h, "0.0.0.0:5000")), "any, joined");
        assert!(gets(profile, |h| h.shared("0.0.0.0:5000")), "any, not joined, ALL");
        let not_all = |h: &mut Host, local: &str| {
            let s = h.shared(local);
            h.set(s, SetOption::MulticastAll4(false));
            s
        };
        assert!(!gets(profile, |h| not_all(h, "0.0.0.0:5000")), "any, not joined, not ALL");
        assert!(gets(profile, |h| h.shared(TO)), "bound to the group");
        assert!(!gets(profile, |h| not_all(h, TO)), "bound to the group, not joined, not ALL");
        assert!(gets(profile, |h| {
            let s = not_all(h, TO);
            h.t.join(s, ip(GROUP), dev(D0)).unwrap();
            s
        }));
        assert!(!gets(profile, |h| joined(h, "10.1.0.1:5000")), "bound to a unicast address");
        for (device, want) in [(D0, true), (D1, false)] {
            assert_eq!(
                want,
                gets(profile, |h| { h.bound("0.0.0.0:5000", |o| o.device = dev(device)) })
            );
        }
        assert!(!gets(profile, |h| h.bound("[::]:5000", |_| {})), "dual-stack, not joined");
        assert!(gets(profile, |h| joined(h, "[::]:5000")), "dual-stack, joined");
    }
}

#[test]
fn source_filters() {
    for profile in BOTH {
        assert!(!gets(profile, |h| {
            let s = h.shared("0.0.0.0:5000");
            h.t.join(s, ip(GROUP), dev(D0)).unwrap();
            h.t.change_source(s, ip(GROUP), dev(D0), SourceChange::Block(ip("10.1.0.9"))).unwrap();
            s
        }));
        for (source, want) in [("10.1.0.9", true), ("10.1.0.10", false)] {
            assert_eq!(
                want,
                gets(profile, |h| {
                    let s = h.shared("0.0.0.0:5000");
                    h.t.change_source(s, ip(GROUP), dev(D0), SourceChange::Add(ip(source)))
                        .unwrap();
                    s
                })
            );
        }
    }
}

#[test]
fn connected_sockets() {
    for profile in BOTH {
        assert!(
            !gets(profile, |h| {
                let s = h.shared("0.0.0.0:5000");
                h.t.join(s, ip(GROUP), dev(D0)).unwrap();
                h.connect(s, FROM).unwrap();
                s
            }),
            "its address became the source"
        );
        for (peer, want) in [(FROM, true), ("10.1.0.9:9001", false)] {
            assert_eq!(
                want,
                gets(profile, |h| {
                    let s = h.shared(TO);
                    h.connect(s, peer).unwrap();
                    s
                })
            );
        }
    }
}

#[test]
fn every_group_member_gets_a_copy() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let mut members: Vec<_> = (0..3).map(|_| h.member("0.0.0.0:5000")).collect();
        h.t.join(members[0], ip(GROUP), dev(D0)).unwrap();
        members.sort_unstable();
        assert_eq!(h.copies(FROM, TO), members);
    }
}

#[test]
fn nobody_joined() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        h.shared("0.0.0.0:5000");
        let dropped = |reason| Delivery::Dropped(reason);
        assert_eq!(h.receive(D0, FROM, TO), dropped(DropReason::GroupNotJoined));
        let s = h.bound("10.1.0.1:7000", |_| {});
        h.t.join(s, ip(GROUP), dev(D1)).unwrap();
        assert_eq!(h.receive(D0, FROM, TO), dropped(DropReason::GroupNotJoined), "on d1 only");
        h.t.join(s, ip(GROUP), dev(D0)).unwrap();
        assert_eq!(h.copies(FROM, TO).len(), 1);
        assert_eq!(h.receive(D0, FROM, "224.1.1.1:5001"), dropped(DropReason::NoListener));
        h.t.leave(s, ip(GROUP), dev(D0)).unwrap();
        assert_eq!(h.receive(D0, FROM, TO), dropped(DropReason::GroupNotJoined));
        // The all-hosts group needs nobody.
        assert_eq!(h.copies(FROM, "224.0.0.1:5000").len(), 1);
    }
}

#[test]
fn closing_leaves_the_groups() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        h.shared("0.0.0.0:5000");
        let s = h.v4();
        h.t.join(s, ip(GROUP), dev(D0)).unwrap();
        assert_eq!(h.copies(FROM, TO).len(), 1);
        h.t.close(s).unwrap();
        assert_eq!(h.receive(D0, FROM, TO), Delivery::Dropped(DropReason::GroupNotJoined));
    }
}

#[test]
fn broadcast() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let mut want = vec![
            h.shared("0.0.0.0:5000"),
            h.shared("[::]:5000"),
            h.shared("10.1.0.255:5000"),
            h.bound("0.0.0.0:5000", |o| (o.reuseaddr, o.device) = (true, dev(D0))),
        ];
        h.shared("10.1.0.1:5000");
        h.shared("255.255.255.255:5000");
        h.bound("0.0.0.0:5000", |o| (o.reuseaddr, o.device) = (true, dev(D1)));
        want.sort_unstable();
        assert_eq!(h.copies(FROM, "10.1.0.255:5000"), want);
    }
}

/// The same sockets on both sides of the length at which the chain that is walked changes.
#[test]
fn any_number_of_sockets() {
    for profile in BOTH {
        for n in [8, 9, 10, 11, 12, 30] {
            let mut h = Host::new(profile);
            let mut want: Vec<_> = (0..n).map(|_| h.shared("0.0.0.0:5000")).collect();
            for local in ["10.1.0.1:5000", "10.1.0.2:5000"] {
                h.shared(local);
            }
            want.push(h.shared(TO));
            h.t.join(want[0], ip(GROUP), dev(D0)).unwrap();
            want.sort_unstable();
            assert_eq!(h.copies(FROM, TO), want, "{n} sockets");
        }
    }
}

#[test]
fn ipv6() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let group = ip("ff05::5");
        let joined = h.shared("[::]:5000");
        h.t.join(joined, group, dev(D0)).unwrap();
        let all = h.shared("[::]:5000");
        let not_all = h.shared("[::]:5000");
        h.set(not_all, SetOption::MulticastAll6(false));
        h.shared("0.0.0.0:5000");
        h.shared("[fd01::1]:5000");
        assert_eq!(h.copies("[fd01::9]:9000", "[ff05::5]:5000"), [joined, all]);
        // Without a checksum only for those who take such.
        let mut d = datagram("[fd01::9]:9000", "[ff05::5]:5000");
        (d.device, d.checksum) = (dev(D0), false);
        h.set(all, SetOption::NoCheck6Rx(true));
        let delivery = h.t.receive(&d, &mut fourtuple_udp::NoTrace);
        assert_eq!(delivery, Delivery::Copies(vec![all]));
    }
}

#[test]
fn membership_errors() {
    let mut h = Host::new(STRICT);
    let s = h.v4();
    assert_eq!(h.t.join(s, ip("10.1.0.1"), dev(D0)), Err(Errno::EINVAL));
    assert_eq!(h.t.join(s, ip("ff05::5"), dev(D0)), Err(Errno::ENOPROTOOPT));
    assert_eq!(h.t.join(s, ip(GROUP), dev(77)), Err(Errno::ENODEV));
    assert_eq!(h.t.join(s, ip(GROUP), None), Ok(()), "by the first device");
    assert_eq!(h.t.join(s, ip(GROUP), dev(D0)), Err(Errno::EADDRINUSE));
    assert_eq!(h.t.leave(s, ip("224.9.9.9"), dev(D0)), Err(Errno::EADDRNOTAVAIL));
    for n in 2..=20 {
        h.t.join(s, ip(&format!("224.1.1.{n}")), dev(D0)).unwrap();
    }
    assert_eq!(h.t.join(s, ip("224.1.1.21"), dev(D0)), Err(Errno::ENOBUFS));
    let x = h.sock(Family::V4, |_| {});
    let source = ip("10.1.0.9");
    let change = |h: &mut Host, c| h.t.change_source(x, ip(GROUP), dev(D0), c);
    assert_eq!(change(&mut h, SourceChange::Block(source)), Err(Errno::EINVAL), "not joined");
    assert_eq!(change(&mut h, SourceChange::Add(source)), Ok(()));
    assert_eq!(change(&mut h, SourceChange::Add(source)), Err(Errno::EADDRNOTAVAIL));
    assert_eq!(change(&mut h, SourceChange::Block(source)), Err(Errno::EINVAL), "other mode");
    assert_eq!(change(&mut h, SourceChange::Drop(source)), Ok(()));
    assert_eq!(h.t.leave(x, ip(GROUP), dev(D0)), Err(Errno::EADDRNOTAVAIL), "left with the last");
}

/// The mode of a filter that never listed a source follows the first call that names one, even if that
/// call fails; [checked] on 6.18.
#[test]
fn an_empty_filter_changes_its_mode() {
    for profile in BOTH {
        let source = ip("10.1.0.9");
        let mut h = Host::new(profile);
        let s = h.shared("0.0.0.0:5000");
        h.t.join(s, ip(GROUP), dev(D0)).unwrap();
        let change = |h: &mut Host, c| h.t.change_source(s, ip(GROUP), dev(D0), c);
        assert_eq!(change(&mut h, SourceChange::Add(source)), Ok(()));
        assert_eq!(h.copies(FROM, TO), [s]);
        assert_eq!(h.copies("10.1.0.8:1", TO), [], "only the listed source");
        assert_eq!(change(&mut h, SourceChange::Block(source)), Err(Errno::EINVAL), "listed once");
        h.t.leave(s, ip(GROUP), dev(D0)).unwrap();
        h.t.join(s, ip(GROUP), dev(D0)).unwrap();
        assert_eq!(change(&mut h, SourceChange::Drop(source)), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(h.copies(FROM, TO), [], "the call that failed left an empty list of the heard");
        assert_eq!(change(&mut h, SourceChange::Unblock(source)), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(h.copies(FROM, TO), [s], "and this one an empty list of the blocked");
        assert_eq!(change(&mut h, SourceChange::Block(source)), Ok(()));
        assert_eq!(change(&mut h, SourceChange::Unblock(source)), Ok(()));
        assert_eq!(change(&mut h, SourceChange::Add(source)), Err(Errno::EINVAL), "listed once");
    }
}

/// `igmp_max_msf` and `mld_max_msf`, 10 and 64.
#[test]
fn source_lists_are_bounded() {
    let mut h = Host::new(LINUX);
    let s = h.v6();
    for (group, prefix, limit) in [(GROUP, "10.9.0.", 10), ("ff05::5", "fd09::", 64)] {
        for n in 1..=limit {
            let source = ip(&format!("{prefix}{n}"));
            h.t.change_source(s, ip(group), dev(D0), SourceChange::Add(source)).unwrap();
        }
        let first = SourceChange::Add(ip(&format!("{prefix}1")));
        assert_eq!(h.t.change_source(s, ip(group), dev(D0), first), Err(Errno::ENOBUFS));
    }
}

/// IPv6 looks at the group alone, on whatever device, and at the newest membership.
#[test]
fn the_newest_membership_decides() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let group = ip("ff05::5");
        let s = h.shared("[::]:5000");
        h.t.join(s, group, dev(D0)).unwrap();
        h.t.change_source(s, group, dev(D1), SourceChange::Add(ip("fd01::8"))).unwrap();
        assert_eq!(h.copies("[fd01::9]:9000", "[ff05::5]:5000"), []);
        assert_eq!(h.copies("[fd01::8]:9000", "[ff05::5]:5000"), [s]);
    }
}

#[test]
fn the_outgoing_device_is_the_bound_one() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("[::]:5000", |o| o.device = dev(D0));
        let any = std::net::Ipv4Addr::UNSPECIFIED;
        let other4 = SetOption::MulticastIf4(dev(D1), any);
        assert_eq!(h.t.set(s, other4), Err(Errno::EINVAL));
        assert_eq!(h.t.set(s, SetOption::MulticastIf6(dev(D1))), Err(Errno::EINVAL));
        assert_eq!(h.t.set(s, SetOption::MulticastIf4(dev(D0), any)), Ok(()));
        assert_eq!(h.t.set(s, SetOption::MulticastIf6(dev(D0))), Ok(()));
        assert_eq!(h.t.set(s, SetOption::MulticastIf6(None)), Ok(()));
    }
}

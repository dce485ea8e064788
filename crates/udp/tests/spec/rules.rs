//! The differences between the profiles: one test a rule, under both.

use fourtuple_udp::{Delivery, Errno, Profile, Rule, SetOption, SocketId, Via};

use crate::host::*;

/// A check for each rule: true if the table behaves as Linux does there.
fn is_linux(rule: Rule, profile: Profile) -> bool {
    let h = &mut Host::new(profile);
    match rule {
        Rule::V6PeerKept => v6_peer_kept(h),
        Rule::StaleTuple => stale_tuple(h),
        Rule::ConnectedScored => connected_scored(h),
        Rule::GroupNotRejoined => group_not_rejoined(h),
        Rule::GroupSplit => group_split(h),
        Rule::GroupReturnsEarly => group_returns_early(h),
        Rule::DeviceLostAtDisconnect => device_lost(h),
        Rule::DeviceKeptAfterFailure => device_kept_after_failure(h),
        Rule::BoundPortLost => bound_port_lost(h),
        Rule::WideningUnchecked => widening_unchecked(h),
        Rule::FirstOverlapDecides => first_overlap_decides(h),
        Rule::PortChosenTwice => port_chosen_twice(profile),
        Rule::DuplicateTuple => duplicate_tuple(h),
        Rule::TupleIgnoresDevice => tuple_ignores_device(h),
        Rule::TupleUsesTcpSetting => tuple_uses_tcp_setting(h),
        Rule::SourceKeptAtReconnect => source_kept(h),
        Rule::V6WeightsEqual => v6_weights_equal(h),
        Rule::V6ReuseportAppended => v6_reuseport_appended(h),
        Rule::PlaceholderReachable => placeholder_reachable(h),
        Rule::CpuOverwritten => cpu_overwritten(h),
        Rule::EarlyDemuxFirst => early_demux_first(h),
        Rule::EarlyDemuxAsksGroup => early_demux_asks_group(h),
    }
}

/// Rules about the third table say nothing where it is not built in.
fn needs_hash4(rule: Rule) -> bool {
    matches!(
        rule,
        Rule::StaleTuple
            | Rule::ConnectedScored
            | Rule::TupleIgnoresDevice
            | Rule::TupleUsesTcpSetting
            | Rule::GroupSplit
    )
}

#[test]
fn every_rule_under_both_profiles() {
    for &rule in Rule::ALL {
        if needs_hash4(rule) && !HASH4 {
            continue;
        }
        assert!(is_linux(rule, LINUX), "{}: {}", rule.name(), rule.linux());
        assert!(!is_linux(rule, STRICT), "{}: {}", rule.name(), rule.strict());
        assert!(LINUX.has(rule) && !STRICT.has(rule));
    }
}

fn v6_peer_kept(h: &mut Host) -> bool {
    for local in ["[::]:5000", "[fd01::1]:6000"] {
        let s = h.bound(local, |_| {});
        let port = &local[local.len() - 4..];
        h.connect(s, "[fd01::9]:9000").unwrap();
        h.t.disconnect(s).unwrap();
        let to = format!("[fd01::1]:{port}");
        // The old peer is heard from any port.
        assert_eq!(h.to("[fd01::9]:77", &to), Some(s));
        if h.to("[fd01::8]:77", &to) == Some(s) {
            return false;
        }
    }
    // After a mapped peer native IPv6 is dead, and IPv4 works again.
    let s = h.bound("[::]:7000", |_| {});
    h.connect(s, "10.1.0.9:9000").unwrap();
    h.t.disconnect(s).unwrap();
    assert_eq!(h.to("10.1.0.10:1", "10.1.0.2:7000"), Some(s));
    assert_eq!(h.to("[fd01::9]:77", "[fd01::1]:7000"), None);
    true
}

/// Who wins among two that are connected to one peer, on different devices, so that both profiles
/// allow it. In Linux the one that is registered in the 4-tuple table under its present peer.
fn pair(h: &mut Host, port: u16) -> (SocketId, SocketId) {
    let local = format!("10.1.0.1:{port}");
    let x = h.shared(&local);
    let y = h.shared(&local);
    (x, y)
}

fn stale_tuple(h: &mut Host) -> bool {
    let s = h.bound("10.1.0.1:5000", |_| {});
    h.connect(s, "10.1.0.10:9000").unwrap();
    h.connect(s, "10.1.0.9:9000").unwrap();
    let stale = |h: &Host, port: u16| {
        let found = h.found("10.1.0.9:9000", &format!("10.1.0.1:{port}")).unwrap();
        found.via != Via::Table(fourtuple_udp::Table::Hash4)
    };
    let first = stale(h, 5000);
    // A rehash repairs it, whatever the profile.
    h.set(s, SetOption::Device(dev(D0)));
    h.set(s, SetOption::Device(None));
    assert!(!stale(h, 5000));
    // Address-bound: a disconnect in between does not help; any-bound: it does.
    let bound = h.bound("10.1.0.1:6000", |_| {});
    let any = h.bound("0.0.0.0:7000", |_| {});
    for s in [bound, any] {
        h.connect(s, "10.1.0.10:9000").unwrap();
        h.t.disconnect(s).unwrap();
        h.connect(s, "10.1.0.9:9000").unwrap();
    }
    assert!(!stale(h, 7000));
    assert_eq!(stale(h, 6000), first);
    h.t.disconnect(bound).unwrap();
    h.t.disconnect(any).unwrap();
    // A disconnected socket that is bound to an address is counted still.
    let counted = h.t.usage().tuples;
    assert_eq!(counted, if first { 2 } else { 1 });
    first
}

/// The priority that shows it: X connected to B; Y to A, then to B. X wins though Y came last.
#[test]
fn priority_of_stale_entries() {
    if !HASH4 {
        return;
    }
    let mut h = Host::new(LINUX);
    for (port, first) in [(5000, Some("10.1.0.10:9000")), (5001, None)] {
        let (x, y) = pair(&mut h, port);
        h.connect(x, "10.1.0.9:9000").unwrap();
        if let Some(first) = first {
            h.connect(y, first).unwrap();
        }
        h.connect(y, "10.1.0.9:9000").unwrap();
        let want = if first.is_some() { x } else { y };
        assert_eq!(h.to("10.1.0.9:9000", &format!("10.1.0.1:{port}")), Some(want));
    }
}

fn connected_scored(h: &mut Host) -> bool {
    for n in 0..20 {
        let s = h.shared("10.1.0.1:5000");
        h.connect(s, &format!("10.1.0.9:{}", 9000 + n)).unwrap();
    }
    let mut events = Vec::new();
    h.t.lookup_traced(&datagram("10.1.0.9:1", "10.1.0.1:5000"), &mut events);
    let scored = events.iter().filter(|e| matches!(e, fourtuple_udp::Event::Score(..))).count();
    assert!(scored == 0 || scored >= 20);
    scored != 0
}

fn flows(h: &Host, port: u16) -> std::collections::BTreeSet<SocketId> {
    let to = format!("10.1.0.1:{port}");
    (0..60).filter_map(|n| h.to(&format!("10.1.0.9:{}", 10_000 + n), &to)).collect()
}

fn group_not_rejoined(h: &mut Host) -> bool {
    let members: Vec<_> = (0..3).map(|_| h.member("0.0.0.0:5000")).collect();
    h.connect(members[0], "10.1.0.9:9000").unwrap();
    h.t.disconnect(members[0]).unwrap();
    let swallowed = flows(h, 5000) == [members[0]].into();
    assert!(swallowed || flows(h, 5000).len() == 3, "it takes all, or its share");
    // Address-bound, further back in the chain: it gets nothing.
    if HASH4 {
        let members: Vec<_> = (0..3).map(|_| h.member("10.1.0.1:6000")).collect();
        h.connect(members[0], "10.1.0.9:9000").unwrap();
        h.t.disconnect(members[0]).unwrap();
        assert_eq!(flows(h, 6000).contains(&members[0]), !swallowed);
    }
    // Setting a device after bind and clearing it does not rejoin either.
    let members: Vec<_> = (0..2).map(|_| h.member("10.1.0.1:7000")).collect();
    h.set(members[0], SetOption::Device(dev(D0)));
    assert_eq!(h.t.group_of(members[1]).len(), 1);
    h.set(members[0], SetOption::Device(None));
    assert_eq!(h.t.group_of(members[1]).len(), if swallowed { 1 } else { 2 });
    swallowed
}

fn group_split(h: &mut Host) -> bool {
    let s1 = h.member("10.1.0.1:5000");
    let s2 = h.member("10.1.0.1:5000");
    h.connect(s2, "10.1.0.9:9000").unwrap();
    let s3 = h.member("10.1.0.1:5000");
    let split = flows(h, 5000) == [s3].into();
    assert!(split || flows(h, 5000) == [s1, s3].into());
    let s4 = h.member("10.1.0.1:5000");
    assert_eq!(h.t.group_of(s4).contains(&s1), !split);
    assert!(h.t.group_of(s4).contains(&s3), "the newest group is joined");
    split
}

fn group_returns_early(h: &mut Host) -> bool {
    let device = h.bound("10.1.0.1:5000", |o| {
        (o.reuseaddr, o.reuseport, o.device) = (true, true, dev(D0));
    });
    h.bound("10.1.0.1:5000", |o| (o.reuseaddr, o.reuseport) = (true, true));
    let got = h.by(D0, "10.1.0.9:9000", "10.1.0.1:5000");
    got != Some(device)
}

fn device_lost(h: &mut Host) -> bool {
    let s = h.bound("10.1.0.1:5000", |o| o.device = dev(D0));
    h.connect(s, "10.1.0.9:9000").unwrap();
    h.t.disconnect(s).unwrap();
    h.t.info(s).unwrap().device.is_none()
}

fn device_kept_after_failure(h: &mut Host) -> bool {
    let s = h.v6();
    assert_eq!(h.bind(s, "[fe80::1%3]:5000"), Err(Errno::EADDRNOTAVAIL));
    let after_bind = h.t.info(s).unwrap().device;
    let s = h.v6();
    assert_eq!(h.connect(s, "[fe80::9%3]:9000"), Err(Errno::ENETUNREACH), "no such prefix on d1");
    assert_eq!(h.t.info(s).unwrap().device, after_bind);
    after_bind == dev(D1)
}

fn bound_port_lost(h: &mut Host) -> bool {
    let mut lost = Vec::new();
    for (local, peer) in [("10.1.0.1", "10.1.0.9:9000"), ("[fd01::1]", "[fd01::9]:9000")] {
        let s = h.bound(&format!("{local}:0"), |_| {});
        h.connect(s, peer).unwrap();
        h.t.disconnect(s).unwrap();
        assert!(h.local(s).starts_with(local), "the address stays");
        lost.push(h.local(s) == format!("{local}:0"));
    }
    assert_eq!(lost[0], lost[1]);
    lost[0]
}

fn widening_unchecked(h: &mut Host) -> bool {
    let s = h.bound("0.0.0.0:5000", |_| {});
    h.connect(s, "10.1.0.9:9000").unwrap();
    h.bound("10.1.0.2:5000", |_| {});
    let widened = h.t.disconnect(s).is_ok();
    if !widened {
        assert_eq!(h.t.disconnect(s), Err(Errno::EADDRINUSE));
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s), "nothing has changed");
        assert_eq!(h.peer(s).unwrap(), "10.1.0.9:9000");
    }
    let s = h.bound("0.0.0.0:6000", |o| o.device = dev(D0));
    h.bound("0.0.0.0:6000", |o| o.device = dev(D1));
    let cleared = h.t.set(s, SetOption::Device(None));
    assert_eq!(cleared, if widened { Ok(()) } else { Err(Errno::EADDRINUSE) });
    widened
}

fn first_overlap_decides(h: &mut Host) -> bool {
    h.bound("127.0.0.1:5000", |_| {});
    h.member("127.0.0.2:5000");
    let s = h.sock(fourtuple_udp::Family::V4, |o| o.reuseport = true);
    let allowed = h.bind(s, "0.0.0.0:5000").is_ok();
    h.member("127.0.0.2:6000");
    h.bound("127.0.0.1:6000", |_| {});
    let s = h.sock(fourtuple_udp::Family::V4, |o| o.reuseport = true);
    assert_eq!(h.bind(s, "0.0.0.0:6000"), Err(Errno::EADDRINUSE), "the other order");
    allowed
}

fn port_chosen_twice(profile: Profile) -> bool {
    let mut h = Host::with(profile, 1024, |c| c.port_range = (40000, 40003));
    let ports: Vec<Option<String>> = (0..6)
        .map(|_| {
            let s = h.sock(fourtuple_udp::Family::V4, |o| o.reuseaddr = true);
            h.bind(s, "0.0.0.0:0").ok().map(|()| h.local(s))
        })
        .collect();
    let all = ports.iter().all(Option::is_some);
    assert!(all || ports.iter().flatten().collect::<std::collections::BTreeSet<_>>().len() == 4);
    all
}

fn duplicate_tuple(h: &mut Host) -> bool {
    let mut first = None;
    for (local, peer) in [("10.1.0.1:5000", "10.1.0.9:9000"), ("[fd01::1]:5000", "[fd01::9]:9000")]
    {
        let a = h.shared(local);
        let b = h.shared(local);
        h.connect(b, peer).unwrap();
        let result = h.connect(a, peer);
        if result.is_ok() && HASH4 {
            assert_eq!(h.to(peer, local), Some(a), "the last to connect, not the last to bind");
        } else if result.is_err() {
            assert_eq!(result, Err(Errno::EADDRINUSE));
            assert_eq!(h.to(peer, local), Some(b));
            assert_eq!(h.peer(a), None);
        }
        assert!(first.is_none_or(|f| f == result.is_ok()));
        first = Some(result.is_ok());
    }
    // An IPv4 socket and a mapped one on one tuple are duplicates too.
    let four = h.shared("10.1.0.1:6000");
    let mapped = h.shared("[::ffff:10.1.0.1]:6000");
    h.connect(four, "10.1.0.9:9000").unwrap();
    let result = h.connect(mapped, "10.1.0.9:9000");
    assert_eq!(result.is_ok(), first.unwrap());
    if result.is_ok() && HASH4 {
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:6000"), Some(mapped));
    }
    first.unwrap()
}

fn tuple_ignores_device(h: &mut Host) -> bool {
    let bound = h.bound("10.1.0.1:5000", |o| (o.reuseaddr, o.device) = (true, dev(D0)));
    let other = h.shared("10.1.0.1:5000");
    h.connect(bound, "10.1.0.9:9000").unwrap();
    h.connect(other, "10.1.0.9:9000").unwrap();
    assert_eq!(h.by(D1, "10.1.0.9:9000", "10.1.0.1:5000"), Some(other));
    h.by(D0, "10.1.0.9:9000", "10.1.0.1:5000") == Some(other)
}

fn tuple_uses_tcp_setting(h: &mut Host) -> bool {
    h.t.change_net_config(fourtuple_udp::NetId::FIRST, |c| c.tcp_l3mdev_accept = true).unwrap();
    let s = h.bound("10.1.0.1:5000", |_| {});
    h.connect(s, "10.1.0.9:9000").unwrap();
    let mut d = datagram("10.1.0.9:9000", "10.1.0.1:5000");
    (d.device, d.slave) = (dev(D1), dev(D0));
    h.t.lookup(&d).is_some()
}

fn source_kept(h: &mut Host) -> bool {
    let s = h.bound("0.0.0.0:5000", |_| {});
    h.connect(s, "10.1.0.9:9000").unwrap();
    h.connect(s, "10.2.0.9:9000").unwrap();
    let kept = h.local(s) == "10.1.0.1:5000";
    assert!(kept || h.local(s) == "10.2.0.1:5000");
    let own = if kept { "10.1.0.1:5000" } else { "10.2.0.1:5000" };
    assert_eq!(h.to("10.2.0.9:9000", own), Some(s));
    // From a loopback source an off-host reconnect fails.
    let s = h.bound("0.0.0.0:6000", |_| {});
    h.connect(s, "127.0.0.1:9000").unwrap();
    let result = h.connect(s, "10.1.0.9:9000");
    assert_eq!(result, if kept { Err(Errno::EINVAL) } else { Ok(()) });
    kept
}

fn v6_weights_equal(h: &mut Host) -> bool {
    let device = h.bound("[fd01::1]:5000", |o| (o.reuseaddr, o.device) = (true, dev(D0)));
    let cpu = h.shared("[fd01::1]:5000");
    h.set(cpu, SetOption::IncomingCpu(Some(0)));
    let mut d = datagram("[fd01::9]:9000", "[fd01::1]:5000");
    (d.device, d.cpu) = (dev(D0), Some(0));
    let got = h.t.lookup(&d).map(|f| f.socket);
    assert!(got == Some(device) || got == Some(cpu));
    got == Some(cpu)
}

fn v6_reuseport_appended(h: &mut Host) -> bool {
    let mut make = |local: &str, uid| {
        h.bound(local, |o| (o.reuseaddr, o.reuseport, o.uid) = (true, true, uid))
    };
    make("10.1.0.1:5000", 0);
    let newer4 = make("10.1.0.1:5000", 1000);
    let older6 = make("[fd01::1]:5000", 0);
    make("[fd01::1]:5000", 1000);
    assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(newer4));
    h.to("[fd01::9]:9000", "[fd01::1]:5000") == Some(older6)
}

fn placeholder_reachable(h: &mut Host) -> bool {
    let s = h.bound("[::]:5000", |_| {});
    h.connect(s, "[fd01::9]:9000").unwrap();
    assert_eq!(h.to("10.1.0.9:9001", "127.0.0.6:5000"), None, "another source port");
    let explicit = h.bound("[fd01::1]:6000", |_| {});
    h.connect(explicit, "[fd01::9]:9000").unwrap();
    assert_eq!(h.to("10.1.0.9:9000", "127.0.0.6:6000"), None, "bound to a v6 address");
    h.to("10.1.0.9:9000", "127.0.0.6:5000") == Some(s)
}

fn note(h: &mut Host, s: SocketId, cpu: u16, from: &str, to: &str) {
    let mut d = datagram(from, to);
    d.cpu = Some(cpu);
    h.t.note_received(s, &d);
}

fn cpu_overwritten(h: &mut Host) -> bool {
    // Port 0 of the peer keeps both in the scored table.
    let a = h.shared("10.1.0.1:5000");
    h.connect(a, "10.1.0.9:0").unwrap();
    note(h, a, 3, "10.1.0.9:1", "10.1.0.1:5000");
    let b = h.bound("10.1.0.1:5000", |o| (o.reuseaddr, o.device) = (true, dev(D0)));
    h.connect(b, "10.1.0.9:0").unwrap();
    note(h, b, 2, "10.1.0.9:1", "10.1.0.1:5000");
    let unconnected = h.shared("10.1.0.2:5000");
    note(h, unconnected, 3, "10.1.0.9:1", "10.1.0.2:5000");
    let newer = h.shared("10.1.0.2:5000");
    assert_eq!(h.on_cpu(3, "10.1.0.9:1", "10.1.0.2:5000"), Some(newer), "never without a peer");
    h.t.disconnect(a).unwrap();
    let newest = h.shared("10.1.0.1:5000");
    let got = h.on_cpu(3, "10.1.0.10:1", "10.1.0.1:5000");
    assert!(got == Some(a) || got == Some(newest));
    got == Some(a)
}

fn early_demux_first(h: &mut Host) -> bool {
    let tuple = ("10.1.0.9:9000", "10.1.0.1:5000");
    let connected = h.shared(tuple.1);
    h.connect(connected, tuple.0).unwrap();
    let early = |h: &Host| h.t.early_demux(&datagram(tuple.0, tuple.1)).map(|f| f.socket);
    if HASH4 || h.t.profile() == LINUX {
        assert_eq!(early(h), Some(connected));
    }
    // An unconnected socket at the head of the chain disables it, as the kernel does it.
    h.shared(tuple.1);
    assert!(
        matches!(h.receive(D0, tuple.0, tuple.1), Delivery::Unicast(f) if f.socket == connected)
    );
    if !HASH4 {
        return h.t.profile() == LINUX;
    }
    early(h).is_none()
}

/// Two sockets on one tuple: by the device's early demultiplexing the last bound, by the table the
/// last connected.
#[test]
fn early_demux_disagrees_in_linux() {
    if !HASH4 {
        return;
    }
    let mut h = Host::new(LINUX);
    let s1 = h.shared("10.1.0.1:5000");
    let s2 = h.shared("10.1.0.1:5000");
    h.connect(s2, "10.1.0.9:9000").unwrap();
    h.connect(s1, "10.1.0.9:9000").unwrap();
    let got = |h: &Host, device| match h.receive(device, "10.1.0.9:9000", "10.1.0.1:5000") {
        Delivery::Unicast(found) => (found.socket, found.via),
        other => panic!("{other:?}"),
    };
    assert_eq!(got(&h, D0), (s2, Via::EarlyDemux));
    assert_eq!(got(&h, 1).0, s1, "not from the loopback device");
    h.t.change_net_config(fourtuple_udp::NetId::FIRST, |c| c.udp_early_demux = false).unwrap();
    assert_eq!(got(&h, D0).0, s1);
}

#[test]
fn names_and_sentences() {
    for rule in Rule::ALL {
        assert!(rule.linux().ends_with('.') && rule.strict().ends_with('.'));
        assert!(!rule.name().is_empty());
    }
}

/// Three members, of which one wants the group's datagrams.
fn early_demux_asks_group(h: &mut Host) -> bool {
    let group = ip("224.1.1.1");
    let members: Vec<_> = (0..3).map(|_| h.member("0.0.0.0:5000")).collect();
    for &m in &members {
        h.set(m, SetOption::MulticastAll4(false));
    }
    h.t.join(members[1], group, dev(D0)).unwrap();
    let getters = |h: &Host| -> std::collections::BTreeSet<SocketId> {
        (0..60)
            .map(|n| match h.receive(D0, &format!("10.1.0.9:{}", 9000 + n), "224.1.1.1:5000") {
                Delivery::Unicast(found) if found.via == Via::EarlyDemux => found.socket,
                Delivery::Copies(sockets) if sockets.len() == 1 => sockets[0],
                other => panic!("{other:?}"),
            })
            .collect()
    };
    let many = getters(h).len() == 3;
    // Not if it is switched off, not with two that want it, not with a long chain.
    h.t.change_net_config(fourtuple_udp::NetId::FIRST, |c| c.udp_early_demux = false).unwrap();
    assert_eq!(getters(h).len(), 1);
    h.t.change_net_config(fourtuple_udp::NetId::FIRST, |c| c.udp_early_demux = true).unwrap();
    h.t.join(members[2], group, dev(D0)).unwrap();
    let both = h.receive(D0, "10.1.0.9:9000", "224.1.1.1:5000");
    assert!(matches!(both, Delivery::Copies(sockets) if sockets.len() == 2));
    h.t.leave(members[2], group, dev(D0)).unwrap();
    for n in 0..8 {
        assert_eq!(getters(h).len() == 3, many);
        // In the same slot of 1024.
        h.bound(&format!("10.1.0.2:{}", 5000 + 1024 * (n + 1)), |_| {});
    }
    assert_eq!(getters(h).len(), 1, "eleven sockets");
    many
}

/// Only a peer of the datagram's family counts: a disconnect leaves the IPv6 one, which IPv4 datagrams
/// do not look at.
#[test]
fn the_cpu_is_written_by_datagrams_of_the_peers_family() {
    let mut h = Host::new(LINUX);
    let s = h.shared("[::]:5000");
    h.connect(s, "10.1.0.9:0").unwrap();
    h.t.disconnect(s).unwrap();
    note(&mut h, s, 3, "10.1.0.9:1", "10.1.0.1:5000");
    let plain = h.shared("0.0.0.0:5000");
    assert_eq!(h.on_cpu(3, "10.1.0.9:1", "10.1.0.1:5000"), Some(plain));
    // By the CPU the dual-stack one would be its equal, and being rehashed later it would win.
    h.connect(s, "10.1.0.9:0").unwrap();
    note(&mut h, s, 3, "10.1.0.9:1", "10.1.0.1:5000");
    h.t.disconnect(s).unwrap();
    assert_eq!(h.on_cpu(3, "10.1.0.9:1", "10.1.0.1:5000"), Some(s));
}

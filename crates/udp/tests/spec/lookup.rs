//! Section 5: unicast look-up; what both profiles have in common.

use fourtuple_udp::{Delivery, Event, Family, Found, ProgramVerdict, SetOption, Table, Via};

use crate::host::*;

#[test]
fn specific_beats_any() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let any = h.bound("0.0.0.0:5000", |o| (o.reuseaddr, o.device) = (true, dev(D0)));
        let specific = h.shared("10.1.0.1:5000");
        assert_eq!(h.by(D0, "10.1.0.9:9000", "10.1.0.1:5000"), Some(specific));
        assert_eq!(h.by(D0, "10.1.0.9:9000", "10.1.0.2:5000"), Some(any));
        assert_eq!(h.by(D1, "10.1.0.9:9000", "10.1.0.2:5000"), None, "another device");
    }
}

#[test]
fn connected_beats_unconnected() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let connected = h.shared("10.1.0.1:5000");
        h.connect(connected, "10.1.0.9:9000").unwrap();
        let listener = h.shared("10.1.0.1:5000");
        let found = h.found("10.1.0.9:9000", "10.1.0.1:5000").unwrap();
        let via = Via::Table(if HASH4 { Table::Hash4 } else { Table::Hash2 });
        assert_eq!(found, Found { socket: connected, via, by_group: false });
        assert_eq!(h.to("10.1.0.9:9001", "10.1.0.1:5000"), Some(listener));
    }
}

/// Among equals the newest wins, and the next when it closes.
#[test]
fn newest_first() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let sockets: Vec<_> = (0..3).map(|_| h.shared("10.1.0.1:5000")).collect();
        for &s in sockets.iter().rev() {
            assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s));
            h.t.close(s).unwrap();
        }
        let sockets: Vec<_> = (0..3).map(|_| h.shared("[fd01::1]:5000")).collect();
        for &s in sockets.iter().rev() {
            assert_eq!(h.to("[fd01::9]:9000", "[fd01::1]:5000"), Some(s));
            h.t.close(s).unwrap();
        }
    }
}

#[test]
fn families() {
    for profile in BOTH {
        for order in [false, true] {
            let mut h = Host::new(profile);
            let (mut v4, mut v6) = (None, None);
            for which in [order, !order] {
                if which {
                    v4 = Some(h.shared("0.0.0.0:5000"));
                } else {
                    v6 = Some(h.shared("[::]:5000"));
                }
            }
            assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), v4, "the IPv4 socket is better");
            assert_eq!(h.to("[fd01::9]:9000", "[fd01::1]:5000"), v6);
            let mapped = h.shared("[::ffff:10.1.0.1]:5000");
            assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(mapped), "specific beats any");
        }
        let mut h = Host::new(profile);
        h.bound("[::]:5000", |o| o.v6only = true);
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), None);
        let dual = h.bound("[::]:5001", |_| {});
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5001"), Some(dual));
        h.bound("0.0.0.0:5002", |_| {});
        assert_eq!(h.to("[fd01::9]:9000", "[fd01::1]:5002"), None);
    }
}

#[test]
fn port_zero() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("0.0.0.0:5000", |_| {});
        assert_eq!(h.to("10.1.0.9:0", "10.1.0.1:5000"), Some(s));
        h.v4();
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:0"), None);
    }
}

#[test]
fn device_beats_cpu_for_ipv4() {
    for profile in BOTH {
        for cpu_last in [false, true] {
            let mut h = Host::new(profile);
            let mut bound = None;
            for which in [cpu_last, !cpu_last] {
                if which {
                    bound = Some(h.bound("0.0.0.0:5000", |o| {
                        (o.reuseaddr, o.device) = (true, dev(D0));
                    }));
                } else {
                    let s = h.shared("0.0.0.0:5000");
                    h.set(s, SetOption::IncomingCpu(Some(0)));
                }
            }
            let mut d = datagram("10.1.0.9:9000", "10.1.0.1:5000");
            (d.device, d.cpu) = (dev(D0), Some(0));
            assert_eq!(h.t.lookup(&d).map(|f| f.socket), bound);
        }
    }
}

#[test]
fn incoming_cpu_decides_between_equals() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let on0 = h.shared("10.1.0.1:5000");
        let on1 = h.shared("10.1.0.1:5000");
        h.set(on0, SetOption::IncomingCpu(Some(0)));
        h.set(on1, SetOption::IncomingCpu(Some(1)));
        assert_eq!(h.on_cpu(0, "10.1.0.9:9000", "10.1.0.1:5000"), Some(on0));
        assert_eq!(h.on_cpu(1, "10.1.0.9:9000", "10.1.0.1:5000"), Some(on1));
        assert_eq!(h.on_cpu(2, "10.1.0.9:9000", "10.1.0.1:5000"), Some(on1));
    }
}

#[test]
fn a_device_mismatch_goes_on_to_the_next() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let a = h.bound("10.1.0.1:6000", |o| (o.reuseaddr, o.device) = (true, dev(D0)));
        h.connect(a, "10.1.0.9:9000").unwrap();
        let listener = h.shared("10.1.0.1:6000");
        assert_eq!(h.by(D0, "10.1.0.9:9000", "10.1.0.1:6000"), Some(a));
        assert_eq!(h.by(D1, "10.1.0.9:9000", "10.1.0.1:6000"), Some(listener));
    }
}

/// Datagrams that come in through a VRF are for sockets of its, or of all if the setting says so.
#[test]
fn vrf() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("10.1.0.1:5000", |_| {});
        let mut d = datagram("10.1.0.9:9000", "10.1.0.1:5000");
        (d.device, d.slave) = (dev(D1), dev(D0));
        assert_eq!(h.t.lookup(&d), None);
        h.set(s, SetOption::Device(dev(D0)));
        assert_eq!(h.t.lookup(&d).map(|f| f.socket), Some(s), "the slave counts");
        h.set(s, SetOption::Device(None));
        h.t.change_net_config(fourtuple_udp::NetId::FIRST, |c| c.udp_l3mdev_accept = true).unwrap();
        assert_eq!(h.t.lookup(&d).map(|f| f.socket), Some(s));
    }
}

#[test]
fn programs_run_after_connected_and_before_others() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let other = h.bound("127.0.0.1:7000", |_| {});
        let connected = h.shared("10.1.0.1:5000");
        h.connect(connected, "10.1.0.9:9000").unwrap();
        let listener = h.shared("10.1.0.1:5000");
        let net = fourtuple_udp::NetId::FIRST;
        h.t.attach_program(net, |_: &fourtuple_udp::ProgramInput| ProgramVerdict::Drop);
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(connected));
        assert_eq!(h.to("10.1.0.9:9001", "10.1.0.1:5000"), None, "dropped");
        h.t.attach_program(net, move |_: &fourtuple_udp::ProgramInput| ProgramVerdict::Select {
            socket: other,
            expand: true,
        });
        let found = h.found("10.1.0.9:9001", "10.1.0.1:5000").unwrap();
        assert_eq!((found.socket, found.via), (other, Via::Program), "a selection beats a drop");
        assert_eq!(h.to("[fd01::9]:1", "[fd01::1]:1"), None, "an IPv4 socket takes no IPv6");
        h.t.detach_programs(net);
        assert_eq!(h.to("10.1.0.9:9001", "10.1.0.1:5000"), Some(listener));
    }
}

/// Namespaces share slots and never sockets.
#[test]
fn namespaces() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let net = h.t.add_net(fourtuple_udp::NetConfig::default()).unwrap();
        h.t.router_mut().add_net(net);
        let a = h.bound("127.0.0.1:5000", |_| {});
        let b = h.bound("127.0.0.1:5000", |o| o.net = net);
        let mut d = datagram("127.0.0.1:9000", "127.0.0.1:5000");
        assert_eq!(h.t.lookup(&d).map(|f| f.socket), Some(a));
        d.net = net;
        assert_eq!(h.t.lookup(&d).map(|f| f.socket), Some(b));
        h.connect(b, "127.0.0.1:9000").unwrap();
        assert_eq!(h.t.lookup(&d).map(|f| f.socket), Some(b));
        h.t.close(b).unwrap();
        assert_eq!(h.t.lookup(&d), None);
    }
}

/// The trace tells the tables in their order, and the plain look-up agrees with it.
#[test]
fn trace() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("0.0.0.0:5000", |_| {});
        let mut events = Vec::new();
        let d = datagram("10.1.0.9:9000", "10.1.0.1:5000");
        let found = h.t.lookup_traced(&d, &mut events).unwrap();
        assert_eq!(Some(found), h.t.lookup(&d));
        assert_eq!(found.via, Via::Table(Table::Hash2Any));
        let tables: Vec<Table> = events
            .iter()
            .filter_map(|e| match e {
                Event::Search(table, _) => Some(*table),
                _ => None,
            })
            .collect();
        assert_eq!(tables, [Table::Hash2, Table::Hash2Any]);
        assert_eq!(events.contains(&Event::TupleSkipped), HASH4);
        assert!(events.contains(&Event::Score(s, Ok(2))));
    }
}

#[test]
fn receive_path() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("[fd01::1]:5000", |_| {});
        let receive = |h: &Host, d| h.t.receive(&d, &mut fourtuple_udp::NoTrace);
        let mut d = datagram("[fd01::9]:9000", "[fd01::1]:5000");
        assert!(matches!(receive(&h, d), Delivery::Unicast(f) if f.socket == s));
        d.checksum = false;
        let dropped = Delivery::Dropped(fourtuple_udp::DropReason::ZeroChecksum);
        assert_eq!(receive(&h, d), dropped);
        h.set(s, SetOption::NoCheck6Rx(true));
        assert!(matches!(receive(&h, d), Delivery::Unicast(f) if f.socket == s));
        assert_eq!(h.receive(D0, "[fd01::9]:9000", "[fd01::1]:5001"), Delivery::PortUnreachable);
        let dropped = Delivery::Dropped(fourtuple_udp::DropReason::NotLocal);
        assert_eq!(h.receive(D0, "10.1.0.9:9000", "10.1.0.77:5000"), dropped);
        let four = h.sock(Family::V4, |_| {});
        h.bind(four, "10.1.0.1:5000").unwrap();
        let mut d = datagram("10.1.0.9:9000", "10.1.0.1:5000");
        d.checksum = false;
        assert!(
            matches!(receive(&h, d), Delivery::Unicast(f) if f.socket == four),
            "fine for IPv4"
        );
    }
}

/// What the host sends itself goes by the loopback device, and counts as arriving on the device that
/// has the address; [checked] on 6.18.
#[test]
fn own_addresses_arrive_on_their_device() {
    for profile in BOTH {
        for (local, to, from) in [
            ("0.0.0.0:5000", "10.1.0.1:5000", "10.2.0.1:9"),
            ("[::]:5000", "[fd01::1]:5000", "[fd02::1]:9"),
        ] {
            let mut h = Host::new(profile);
            let on = |h: &mut Host, device| {
                h.bound(local, |o| (o.reuseaddr, o.device) = (true, dev(device)))
            };
            let (_lo, d0, _d1) = (on(&mut h, 1), on(&mut h, D0), on(&mut h, D1));
            for device in [None, dev(1)] {
                let mut d = datagram(from, to);
                d.device = device;
                let Delivery::Unicast(found) = h.t.receive(&d, &mut fourtuple_udp::NoTrace) else {
                    panic!("{profile:?} {to}");
                };
                assert_eq!(found.socket, d0);
            }
        }
        let mut h = Host::new(profile);
        let lo = h.bound("0.0.0.0:5000", |o| o.device = dev(1));
        let Delivery::Unicast(found) = h.receive(1, "127.0.0.1:9", "127.0.0.1:5000") else {
            panic!("{profile:?}");
        };
        assert_eq!(found.socket, lo);
    }
}

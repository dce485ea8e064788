//! Section 4: connect, disconnect, reconnect; what both profiles have in common.

use fourtuple_udp::{Errno, Family, SetOption};

use crate::host::*;

#[test]
fn destination_any_is_the_own_address() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.v4();
        h.connect(s, "0.0.0.0:9000").unwrap();
        assert_eq!(h.peer(s).unwrap(), "127.0.0.1:9000");
        let s = h.bound("10.1.0.2:5000", |_| {});
        h.connect(s, "0.0.0.0:9000").unwrap();
        assert_eq!(h.peer(s).unwrap(), "10.1.0.2:9000");
        let s = h.v6();
        h.connect(s, "[::]:9000").unwrap();
        assert_eq!(h.peer(s).unwrap(), "[::1]:9000");
        let s = h.bound("[::ffff:127.0.0.1]:5000", |_| {});
        h.connect(s, "[::]:9000").unwrap();
        assert_eq!(h.peer(s).unwrap(), "[::ffff:127.0.0.1]:9000");
    }
}

#[test]
fn errors_leave_the_old_peer() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("127.0.0.1:5000", |_| {});
        h.connect(s, "127.0.0.1:9000").unwrap();
        assert_eq!(h.connect(s, "10.1.0.9:9000"), Err(Errno::EINVAL), "from a loopback source");
        assert_eq!(h.peer(s).unwrap(), "127.0.0.1:9000");
        assert_eq!(h.to("127.0.0.1:9000", "127.0.0.1:5000"), Some(s));
        let s = h.bound("10.1.0.1:5001", |_| {});
        h.connect(s, "10.1.0.9:9000").unwrap();
        assert_eq!(h.connect(s, "10.1.0.255:9000"), Err(Errno::EACCES));
        assert_eq!(h.peer(s).unwrap(), "10.1.0.9:9000");
        h.set(s, SetOption::Broadcast(true));
        assert_eq!(h.connect(s, "10.1.0.255:9000"), Ok(()));
    }
}

#[test]
fn unreachable_networks() {
    for profile in BOTH {
        let mut config = fourtuple_udp::Config::new(profile);
        config.slots = 128;
        let mut h = Host { t: fourtuple_udp::UdpTable::new(&config) };
        let s = h.v4();
        assert_eq!(h.connect(s, "10.1.0.9:9000"), Err(Errno::ENETUNREACH));
        let s = h.v6();
        h.connect(s, "[::1]:9000").unwrap();
        assert_eq!(h.connect(s, "[fd01::9]:9000"), Err(Errno::ENETUNREACH));
        assert_eq!(h.peer(s).unwrap(), "[::1]:9000", "the peer is unchanged");
    }
}

#[test]
fn families_of_a_v6_socket() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let only = h.sock(Family::V6, |o| o.v6only = true);
        assert_eq!(h.connect(only, "10.1.0.9:9000"), Err(Errno::EAFNOSUPPORT));
        assert_eq!(h.connect(only, "[::ffff:10.1.0.9]:9000"), Err(Errno::ENETUNREACH));
        let native = h.bound("[fd01::1]:5000", |_| {});
        assert_eq!(h.connect(native, "[::ffff:10.1.0.9]:9000"), Err(Errno::ENETUNREACH));
        let mapped = h.bound("[::ffff:10.1.0.1]:5000", |_| {});
        assert_eq!(h.connect(mapped, "[fd01::9]:9000"), Err(Errno::EAFNOSUPPORT));
        let dual = h.v6();
        h.connect(dual, "10.1.0.9:9000").unwrap();
        assert_eq!(h.peer(dual).unwrap(), "[::ffff:10.1.0.9]:9000");
        assert!(h.local(dual).starts_with("[::ffff:10.1.0.1]:"));
    }
}

#[test]
fn link_local_peers() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.v6();
        assert_eq!(h.connect(s, "[fe80::9]:9000"), Err(Errno::EINVAL), "no device");
        h.connect(s, "[fe80::9%2]:9000").unwrap();
        assert_eq!(h.t.info(s).unwrap().device, dev(D0), "the scope becomes the device");
        assert_eq!(h.connect(s, "[fe80::9%3]:9000"), Err(Errno::EINVAL), "another device");
        assert!(h.local(s).starts_with("[fe80::1]:"));
    }
}

/// Port 0 of a peer stands for all its ports.
#[test]
fn peer_port_zero() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("10.1.0.1:5000", |_| {});
        h.connect(s, "10.1.0.9:0").unwrap();
        assert_eq!(h.peer(s), None, "ENOTCONN");
        assert!(h.t.info(s).unwrap().connected);
        for port in [0, 1, 9000] {
            assert_eq!(h.to(&format!("10.1.0.9:{port}"), "10.1.0.1:5000"), Some(s), "{port}");
        }
        assert_eq!(h.to("10.1.0.10:9000", "10.1.0.1:5000"), None);
        let s = h.bound("[fd01::1]:5000", |_| {});
        h.connect(s, "[fd01::9]:0").unwrap();
        assert_eq!(h.to("[fd01::9]:77", "[fd01::1]:5000"), Some(s));
        assert_eq!(h.to("[fd01::8]:77", "[fd01::1]:5000"), None);
    }
}

/// An any-bound socket that connected lives at its source address.
#[test]
fn a_connected_any_socket_is_at_its_source() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("0.0.0.0:5000", |_| {});
        h.connect(s, "10.1.0.9:9000").unwrap();
        assert_eq!(h.local(s), "10.1.0.1:5000");
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s));
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.2:5000"), None, "another address of the host");
        assert_eq!(h.to("10.1.0.9:9001", "10.1.0.1:5000"), None, "another port of the peer");
        assert_eq!(h.to("10.1.0.10:9000", "10.1.0.1:5000"), None, "another peer");
        h.t.disconnect(s).unwrap();
        assert_eq!(h.local(s), "0.0.0.0:5000");
        assert_eq!(h.to("10.1.0.10:9000", "10.1.0.2:5000"), Some(s));
    }
}

#[test]
fn dual_stack_and_a_mapped_peer() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("[::]:5000", |_| {});
        assert_eq!(h.to("[fd01::9]:9000", "[fd01::1]:5000"), Some(s));
        h.connect(s, "[::ffff:10.1.0.9]:9000").unwrap();
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s));
        assert_eq!(h.to("[fd01::9]:9000", "[fd01::1]:5000"), None, "native IPv6 is over");
    }
}

/// A port that connect or send chose goes with a disconnect, even of a socket never connected.
#[test]
fn an_implicit_port_goes() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.v4();
        h.t.autobind(s).unwrap();
        assert!(h.t.info(s).unwrap().bound);
        h.t.disconnect(s).unwrap();
        assert_eq!(h.local(s), "0.0.0.0:0");
        h.connect(s, "10.1.0.9:9000").unwrap();
        h.t.disconnect(s).unwrap();
        assert_eq!(h.local(s), "0.0.0.0:0");
        assert!(!h.t.info(s).unwrap().bound);
    }
}

#[test]
fn address_and_port_of_an_explicit_bind_stay() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        for local in ["10.1.0.1:5000", "[fd01::1]:5000"] {
            let s = h.bound(local, |_| {});
            h.connect(s, if local.starts_with('[') { "[fd01::9]:9000" } else { "10.1.0.9:9000" })
                .unwrap();
            h.t.disconnect(s).unwrap();
            assert_eq!(h.local(s), local);
            assert_eq!(h.peer(s), None);
        }
        assert_eq!(
            h.to("10.1.0.10:9001", "10.1.0.1:5000").map(|s| h.local(s)).unwrap(),
            "10.1.0.1:5000"
        );
    }
}

#[test]
fn connect_from_is_one_step() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let mut options = fourtuple_udp::SocketOptions::new(Family::V4);
        options.reuseport = true;
        let listener = h.member("10.1.0.1:5000");
        let s = h.t.connect_from(&options, addr("10.1.0.1:5000"), addr("10.1.0.9:9000")).unwrap();
        assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s));
        assert_eq!(h.to("10.1.0.9:9001", "10.1.0.1:5000"), Some(listener));
        assert_eq!((h.local(s), h.peer(s)), ("10.1.0.1:5000".into(), Some("10.1.0.9:9000".into())));
        let before = h.t.usage().sockets;
        let error = h.t.connect_from(&options, addr("9.9.9.9:5000"), addr("10.1.0.9:9000"));
        assert_eq!(error, Err(Errno::EADDRNOTAVAIL));
        assert_eq!(h.t.usage().sockets, before, "no socket is left behind");
    }
}

/// In the strict profile a server makes connected sockets beside its listener without any flag.
#[test]
fn connect_from_beside_a_plain_listener() {
    let options = fourtuple_udp::SocketOptions::new(Family::V4);
    let mut h = Host::new(STRICT);
    let listener = h.bound("0.0.0.0:5000", |_| {});
    let s = h.t.connect_from(&options, addr("10.1.0.1:5000"), addr("10.1.0.9:9000")).unwrap();
    assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s));
    assert_eq!(h.to("10.1.0.9:9000", "10.1.0.2:5000"), Some(listener));
    let again = h.t.connect_from(&options, addr("10.1.0.1:5000"), addr("10.1.0.9:9000"));
    assert_eq!(again, Err(Errno::EADDRINUSE), "the 4-tuple is taken");
    assert_eq!(h.t.disconnect(s), Err(Errno::EADDRINUSE), "it would take the listener's traffic");
    h.set(s, SetOption::Device(dev(D0)));
    h.set(s, SetOption::Device(None));
    assert_eq!(h.to("10.1.0.9:9000", "10.1.0.1:5000"), Some(s));
    assert_eq!(h.to("10.1.0.9:9001", "10.1.0.1:5000"), Some(listener));
    let mut stranger = options.clone();
    stranger.uid = 1000;
    let theirs = h.t.connect_from(&stranger, addr("10.1.0.1:5000"), addr("10.1.0.10:9000"));
    assert_eq!(theirs, Err(Errno::EADDRINUSE), "the port is another owner's");
    h.t.close(listener).unwrap();
    assert_eq!(h.t.disconnect(s), Ok(()), "nobody is in the way");
    assert_eq!(h.to("10.1.0.10:1", "10.1.0.1:5000"), Some(s));
    let mut h = Host::new(LINUX);
    h.bound("0.0.0.0:5000", |_| {});
    let bound = h.t.connect_from(&options, addr("10.1.0.1:5000"), addr("10.1.0.9:9000"));
    assert_eq!(bound, Err(Errno::EADDRINUSE), "bind's rules hold");
}

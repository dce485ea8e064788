//! Section 3: addresses, their errors, and conflicts.

use fourtuple_udp::{Errno, Family, SetOption, SockAddr};

use crate::host::*;

#[test]
fn ipv4_addresses() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.v4();
        assert_eq!(h.t.bind(s, SockAddr::Unspec), Ok(()), "AF_UNSPEC with 0.0.0.0 is accepted");
        assert_eq!(h.bind(s, "10.1.0.1:5000"), Err(Errno::EINVAL), "has a port already");
        for good in
            ["0.0.0.0", "127.0.0.9", "10.1.0.1", "224.0.0.5", "10.1.0.255", "255.255.255.255"]
        {
            let s = h.v4();
            assert_eq!(h.bind(s, &format!("{good}:5000")), Ok(()), "{good}");
            h.t.close(s).unwrap();
        }
        let s = h.v4();
        assert_eq!(h.bind(s, "9.9.9.9:5000"), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(h.bind(s, "[::1]:5000"), Err(Errno::EAFNOSUPPORT));
        h.set(s, SetOption::FreeBind(true));
        assert_eq!(h.bind(s, "9.9.9.9:5000"), Ok(()));
    }
}

#[test]
fn nonlocal_bind_and_transparent() {
    let mut h = Host::with(STRICT, 1024, |c| c.nonlocal_bind4 = true);
    let s = h.v4();
    assert_eq!(h.bind(s, "9.9.9.9:5000"), Ok(()));
    let mut h = Host::new(STRICT);
    let s = h.v4();
    h.set(s, SetOption::Transparent(true));
    assert_eq!(h.bind(s, "9.9.9.9:5000"), Ok(()));
    let s = h.sock(Family::V4, |o| o.uid = 1000);
    assert_eq!(h.t.set(s, SetOption::Transparent(true)), Err(Errno::EPERM));
}

#[test]
fn privileged_ports() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.sock(Family::V4, |o| o.uid = 1000);
        assert_eq!(h.bind(s, "127.0.0.1:1023"), Err(Errno::EACCES));
        assert_eq!(h.bind(s, "127.0.0.1:1024"), Ok(()));
        let s = h.sock(Family::V6, |o| o.uid = 1000);
        // The port is looked at before the address for IPv6, after it for IPv4.
        assert_eq!(h.bind(s, "[fd09::1]:53"), Err(Errno::EACCES));
        let s = h.sock(Family::V4, |o| o.uid = 1000);
        assert_eq!(h.bind(s, "9.9.9.9:53"), Err(Errno::EADDRNOTAVAIL));
        let s = h.sock(Family::V4, |o| (o.uid, o.privileged) = (1000, Some(true)));
        assert_eq!(h.bind(s, "127.0.0.1:53"), Ok(()));
    }
}

#[test]
fn ipv6_addresses() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.sock(Family::V6, |o| o.v6only = true);
        assert_eq!(h.bind(s, "[::ffff:10.1.0.1]:5000"), Err(Errno::EINVAL), "mapped and v6only");
        let s = h.v6();
        assert_eq!(h.bind(s, "10.1.0.1:5000"), Err(Errno::EINVAL), "too short an address");
        assert_eq!(h.bind(s, "[fe80::1]:5000"), Err(Errno::EINVAL), "link-local without device");
        assert_eq!(h.bind(s, "[fd09::1]:5000"), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(h.bind(s, "[::ffff:9.9.9.9]:5000"), Err(Errno::EADDRNOTAVAIL));
        assert_eq!(h.bind(s, "[fe80::1%9]:5000"), Err(Errno::ENODEV));
        assert_eq!(h.bind(s, "[fe80::1%3]:5000"), Err(Errno::EADDRNOTAVAIL), "d1 has it not");
        assert_eq!(h.bind(s, "[fe80::1%2]:5000"), Ok(()));
        assert_eq!(h.t.info(s).unwrap().device, dev(D0), "a scope id binds the device");
        // A specific address makes the socket v6only: IPv4 port 5000 stays free.
        let other = h.v4();
        assert_eq!(h.bind(other, "0.0.0.0:5000"), Ok(()));
    }
}

#[test]
fn v6only_is_for_unbound_ipv6_sockets() {
    let mut h = Host::new(STRICT);
    let s = h.v4();
    assert_eq!(h.t.set(s, SetOption::V6Only(true)), Err(Errno::ENOPROTOOPT));
    let s = h.bound("[::]:5000", |_| {});
    assert_eq!(h.t.set(s, SetOption::V6Only(true)), Err(Errno::EINVAL));
}

#[test]
fn failure_leaves_no_address() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        h.bound("10.1.0.1:5000", |_| {});
        let s = h.v4();
        assert_eq!(h.bind(s, "10.1.0.1:5000"), Err(Errno::EADDRINUSE));
        assert_eq!(h.local(s), "0.0.0.0:0");
        h.bound("[fd01::1]:5000", |_| {});
        let s = h.v6();
        assert_eq!(h.bind(s, "[fd01::1]:5000"), Err(Errno::EADDRINUSE));
        assert_eq!(h.local(s), "[::]:0");
        // Nor the v6only that a specific address implies.
        assert_eq!(h.bind(s, "[::ffff:10.1.0.2]:5000"), Ok(()));
    }
}

/// The whole matrix of the specification: X is EADDRINUSE, row first, column second.
#[test]
fn conflict_matrix() {
    let sockets: [(&str, bool); 9] = [
        ("0.0.0.0", false),
        ("127.0.0.1", false),
        ("127.0.0.6", false),
        ("[::]", false),
        ("[::]", true),
        ("[::1]", false),
        ("[::ffff:127.0.0.1]", false),
        ("[::ffff:0.0.0.0]", false),
        ("[fd01::1]", false),
    ];
    let matrix = [
        "XXXX--XX-",
        "XX-X--XX-",
        "X-XX---X-",
        "XXXXXXXXX",
        "---XXX--X",
        "---XXX---",
        "XX-X--XX-",
        "XXXX--XX-",
        "---XX---X",
    ];
    for profile in BOTH {
        for (row, line) in matrix.iter().enumerate() {
            for (column, cell) in line.chars().enumerate() {
                let mut h = Host::new(profile);
                let mut result = Ok(());
                for (place, only) in [sockets[row], sockets[column]] {
                    let family = if place.starts_with('[') { Family::V6 } else { Family::V4 };
                    let s = h.sock(family, |o| o.v6only = only);
                    result = h.bind(s, &format!("{place}:5000"));
                }
                let want = if cell == 'X' { Err(Errno::EADDRINUSE) } else { Ok(()) };
                assert_eq!(result, want, "{:?} then {:?}", sockets[row], sockets[column]);
            }
        }
    }
}

/// (reuseaddr, reuseport) of two any-binds: seven of sixteen pairs are allowed.
#[test]
fn flag_truth_table() {
    let allowed = ["01x01", "01x11", "10x10", "10x11", "11x01", "11x10", "11x11"];
    for profile in BOTH {
        for first in 0..4u8 {
            for second in 0..4u8 {
                let mut h = Host::new(profile);
                let mut result = Ok(());
                for flags in [first, second] {
                    let s = h.sock(Family::V4, |o| {
                        (o.reuseaddr, o.reuseport) = (flags & 2 != 0, flags & 1 != 0);
                    });
                    result = h.bind(s, "0.0.0.0:5000");
                }
                let name = format!("{first:02b}x{second:02b}");
                assert_eq!(result.is_ok(), allowed.contains(&name.as_str()), "{name}");
            }
        }
    }
}

#[test]
fn owners() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        h.shared("0.0.0.0:5000");
        let s = h.sock(Family::V4, |o| (o.uid, o.reuseaddr) = (1000, true));
        assert_eq!(h.bind(s, "0.0.0.0:5000"), Ok(()), "SO_REUSEADDR ignores the owner");
        h.member("0.0.0.0:6000");
        let s = h.sock(Family::V4, |o| (o.uid, o.reuseport) = (1000, true));
        assert_eq!(h.bind(s, "0.0.0.0:6000"), Err(Errno::EADDRINUSE));
    }
}

#[test]
fn flags_are_read_at_the_new_bind() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let old = h.bound("0.0.0.0:5000", |_| {});
        h.set(old, SetOption::ReuseAddr(true));
        h.shared("0.0.0.0:5000");
        let member = h.member("0.0.0.0:6000");
        h.member("10.1.0.1:6000");
        h.set(member, SetOption::ReusePort(false));
        let s = h.sock(Family::V4, |o| o.reuseport = true);
        assert_eq!(h.bind(s, "10.1.0.2:6000"), Err(Errno::EADDRINUSE));
    }
}

#[test]
fn devices() {
    for profile in BOTH {
        for (a, b, conflict) in
            [(0, 1, true), (1, 0, true), (1, 1, true), (1, D0, false), (0, 0, true)]
        {
            let mut h = Host::new(profile);
            h.bound("0.0.0.0:5000", |o| o.device = dev(a));
            let s = h.sock(Family::V4, |o| o.device = dev(b));
            assert_eq!(h.bind(s, "0.0.0.0:5000").is_err(), conflict, "{a} then {b}");
        }
    }
}

/// An any-bind sees every specific address, on both sides of the chain length where the kernel
/// changes the table it scans.
#[test]
fn any_after_many_specific() {
    for profile in BOTH {
        for n in [1, 5, 10, 11, 12, 20] {
            let mut h = Host::new(profile);
            for i in 1..=n {
                h.bound(&format!("127.0.1.{i}:5000"), |_| {});
            }
            let s = h.v4();
            assert_eq!(h.bind(s, "0.0.0.0:5000"), Err(Errno::EADDRINUSE), "{n} before");
            let s = h.v4();
            assert_eq!(h.bind(s, "127.0.1.1:5000"), Err(Errno::EADDRINUSE), "{n} before");
            let s = h.v4();
            assert_eq!(h.bind(s, "127.0.2.1:5000"), Ok(()), "{n} before");
        }
    }
}

/// `::ffff:0.0.0.0` is any for this purpose.
#[test]
fn mapped_any_after_many_specific() {
    for profile in BOTH {
        for n in [1, 5, 10, 11, 12, 20] {
            let mut h = Host::new(profile);
            for i in 1..=n {
                h.bound(&format!("127.0.1.{i}:5000"), |_| {});
            }
            let s = h.v6();
            assert_eq!(h.bind(s, "[::ffff:0.0.0.0]:5000"), Err(Errno::EADDRINUSE), "{n} before");
        }
    }
}

/// IPv6 sockets with SO_REUSEPORT are appended to the chain by port too, which decides what the
/// kernel's scan meets first.
#[test]
fn appended_sockets_are_met_last() {
    for (profile, want) in [(LINUX, Err(Errno::EADDRINUSE)), (STRICT, Err(Errno::EADDRINUSE))] {
        let mut h = Host::new(profile);
        h.bound("[::1]:5000", |_| {});
        h.member("[ff05::5]:5000");
        let s = h.sock(Family::V6, |o| (o.reuseport, o.v6only) = (true, true));
        assert_eq!(h.bind(s, "[::]:5000"), want);
    }
    // Of IPv4 sockets the newest is met first.
    let mut h = Host::new(LINUX);
    h.bound("127.0.0.1:5000", |_| {});
    h.member("127.0.0.2:5000");
    h.member("0.0.0.0:5000");
}

#[test]
fn specific_after_any_with_a_long_chain() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        for i in 1..=15 {
            h.bound(&format!("127.0.1.{i}:5000"), |o| o.reuseaddr = true);
        }
        let any = h.shared("0.0.0.0:5000");
        h.set(any, SetOption::ReuseAddr(false));
        let s = h.sock(Family::V4, |o| o.reuseaddr = true);
        assert_eq!(h.bind(s, "127.0.2.1:5000"), Err(Errno::EADDRINUSE));
    }
}

/// A connected socket blocks its source address only.
#[test]
fn connected_any_socket_blocks_its_source_only() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("0.0.0.0:5000", |_| {});
        h.connect(s, "10.1.0.9:9000").unwrap();
        let other = h.v4();
        assert_eq!(h.bind(other, "10.1.0.1:5000"), Err(Errno::EADDRINUSE));
        assert_eq!(h.bind(other, "10.1.0.2:5000"), Ok(()));
    }
}

#[test]
fn the_port_is_free_at_once_after_close() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.bound("10.1.0.1:5000", |_| {});
        h.connect(s, "10.1.0.9:9000").unwrap();
        h.t.close(s).unwrap();
        assert_eq!(h.t.close(s), Err(Errno::EBADF));
        h.bound("10.1.0.1:5000", |_| {});
        assert_eq!(h.t.usage().tuples, 0);
    }
}

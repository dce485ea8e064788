//! Section 3.4: the choice of a port, and IP_BIND_ADDRESS_NO_PORT.

use fourtuple_udp::{Errno, SetOption};

use crate::host::*;

fn port(h: &Host, s: fourtuple_udp::SocketId) -> u16 {
    h.t.info(s).unwrap().local.1
}

#[test]
fn range_and_reserved_ports() {
    for profile in BOTH {
        let mut h = Host::with(profile, 128, |c| {
            c.port_range = (40000, 40009);
            c.reserved_ports = [40003, 40004].into();
        });
        let mut ports: Vec<u16> = (0..8)
            .map(|_| {
                let s = h.bound("0.0.0.0:0", |_| {});
                port(&h, s)
            })
            .collect();
        ports.sort_unstable();
        assert_eq!(ports, [40000, 40001, 40002, 40005, 40006, 40007, 40008, 40009]);
        let s = h.v4();
        assert_eq!(h.bind(s, "0.0.0.0:0"), Err(Errno::EADDRINUSE));
        assert_eq!(h.connect(s, "10.1.0.9:9000"), Err(Errno::EAGAIN), "inside a connect");
        assert_eq!(h.t.autobind(s), Err(Errno::EAGAIN));
        // Reserved ports are for those who name them.
        assert_eq!(h.bind(s, "0.0.0.0:40003"), Ok(()));
    }
}

#[test]
fn own_range_lies_within_the_namespaces() {
    for profile in BOTH {
        let mut h = Host::with(profile, 1024, |c| c.port_range = (40000, 40009));
        let s = h.v4();
        assert_eq!(h.t.set(s, SetOption::LocalPortRange(5, 4)), Err(Errno::EINVAL));
        h.set(s, SetOption::LocalPortRange(40002, 40002));
        h.bind(s, "0.0.0.0:0").unwrap();
        assert_eq!(port(&h, s), 40002);
        // One that lies elsewhere is ignored, bound by bound.
        let s = h.v4();
        h.set(s, SetOption::LocalPortRange(50000, 50001));
        h.bind(s, "0.0.0.0:0").unwrap();
        assert!((40000..=40009).contains(&port(&h, s)));
        let s = h.v4();
        h.set(s, SetOption::LocalPortRange(40009, 50001));
        h.bind(s, "0.0.0.0:0").unwrap();
        assert_eq!(port(&h, s), 40009);
    }
}

#[test]
fn odd_and_even_ports_alike() {
    let mut h = Host::new(LINUX);
    let odd = (0..2000)
        .filter(|_| {
            let s = h.v4();
            h.bind(s, "0.0.0.0:0").unwrap();
            let odd = port(&h, s) % 2 == 1;
            h.t.close(s).unwrap();
            odd
        })
        .count();
    // Four standard deviations of 2000 fair coins are 89.
    assert!((911..=1089).contains(&odd), "{odd} of 2000 ports are odd");
}

#[test]
fn bind_address_no_port() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.v4();
        h.set(s, SetOption::BindAddressNoPort(true));
        h.bind(s, "10.1.0.2:0").unwrap();
        assert_eq!(h.local(s), "10.1.0.2:0");
        assert!(!h.t.info(s).unwrap().bound);
        h.connect(s, "10.1.0.9:9000").unwrap();
        assert!(h.local(s).starts_with("10.1.0.2:") && port(&h, s) != 0);
    }
}

#[test]
fn the_port_stays_when_the_rest_of_connect_fails() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let s = h.v4();
        assert_eq!(h.connect(s, "10.1.0.255:9000"), Err(Errno::EACCES), "no SO_BROADCAST");
        assert_ne!(port(&h, s), 0);
        assert_eq!(h.peer(s), None);
        let s = h.v4();
        assert_eq!(h.connect(s, "[::1]:9000"), Err(Errno::EAFNOSUPPORT));
        assert_ne!(port(&h, s), 0);
    }
}

/// Every size of the tables finds every free port of a small range.
#[test]
fn every_port_is_found_at_every_size() {
    for slots in [1, 128, 1000, 65536, 1 << 20] {
        for profile in BOTH {
            let mut h = Host::with(profile, slots, |c| c.port_range = (1, 300));
            for n in 0..300 {
                let s = h.v4();
                assert_eq!(h.bind(s, "10.1.0.1:0"), Ok(()), "socket {n}, {slots} slots");
            }
            let s = h.v4();
            assert_eq!(h.bind(s, "10.1.0.1:0"), Err(Errno::EADDRINUSE));
            assert_eq!(h.bind(s, "10.1.0.2:0"), Ok(()));
        }
    }
}

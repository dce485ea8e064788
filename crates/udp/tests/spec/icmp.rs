//! Section 7.5: ICMP errors.

use fourtuple_udp::{Errno, IcmpError, IcmpReport, SetOption, SocketId};

use crate::host::*;

fn error(h: &Host, from: &str, to: &str, kind: u8, code: u8) -> Option<(SocketId, IcmpReport)> {
    let quoted = datagram(from, to);
    h.t.icmp_error(&IcmpError { quoted, kind, code }).map(|d| (d.socket, d.report))
}

/// Type, code, and the errno with whether it is hard.
type Row = (u8, u8, Option<(Errno, bool)>);

/// Every row on connected and unconnected sockets, with and without the error queue.
fn rows(local: &str, peer: &str, rows: &[Row]) {
    for profile in BOTH {
        for connected in [false, true] {
            for queue in [false, true] {
                let mut h = Host::new(profile);
                let s = h.bound(local, |_| {});
                if connected {
                    h.connect(s, peer).unwrap();
                }
                h.set(
                    s,
                    if local.starts_with('[') {
                        SetOption::RecvErr6(queue)
                    } else {
                        SetOption::RecvErr4(queue)
                    },
                );
                for &(kind, code, errno) in rows {
                    let want = match errno {
                        Some((errno, _)) if queue => IcmpReport::Queued(errno),
                        Some((errno, true)) if connected => IcmpReport::SocketError(errno),
                        _ => IcmpReport::Ignored,
                    };
                    let got = error(&h, local, peer, kind, code);
                    assert_eq!(got, Some((s, want)), "type {kind} code {code}");
                }
            }
        }
    }
}

#[test]
fn ipv4_types() {
    use Errno::*;
    rows(
        "10.1.0.1:5000",
        "10.1.0.9:9000",
        &[
            (3, 0, Some((ENETUNREACH, false))),
            (3, 1, Some((EHOSTUNREACH, false))),
            (3, 2, Some((ENOPROTOOPT, true))),
            (3, 3, Some((ECONNREFUSED, true))),
            (3, 4, Some((EMSGSIZE, true))),
            (3, 5, Some((EOPNOTSUPP, false))),
            (3, 6, Some((ENETUNREACH, true))),
            (3, 7, Some((EHOSTDOWN, true))),
            (3, 8, Some((ENONET, true))),
            (3, 9, Some((ENETUNREACH, true))),
            (3, 10, Some((EHOSTUNREACH, true))),
            (3, 11, Some((ENETUNREACH, false))),
            (3, 12, Some((EHOSTUNREACH, false))),
            (3, 13, Some((EHOSTUNREACH, true))),
            (3, 14, Some((EHOSTUNREACH, true))),
            (3, 15, Some((EHOSTUNREACH, true))),
            (4, 0, None),
            (5, 1, None),
            (11, 0, Some((EHOSTUNREACH, false))),
            (11, 1, None),
            (12, 0, Some((EPROTO, true))),
        ],
    );
}

#[test]
fn ipv6_types() {
    use Errno::*;
    rows(
        "[fd01::1]:5000",
        "[fd01::9]:9000",
        &[
            (1, 0, Some((ENETUNREACH, false))),
            (1, 1, Some((EACCES, true))),
            (1, 2, Some((EHOSTUNREACH, false))),
            (1, 3, Some((EHOSTUNREACH, false))),
            (1, 4, Some((ECONNREFUSED, true))),
            (1, 5, Some((EACCES, true))),
            (1, 6, Some((EACCES, true))),
            (1, 7, Some((EPROTO, true))),
            (2, 0, Some((EMSGSIZE, true))),
            (3, 0, Some((EHOSTUNREACH, false))),
            (4, 0, Some((EPROTO, true))),
            (100, 0, Some((EPROTO, false))),
        ],
    );
}

#[test]
fn path_mtu_discovery_switched_off() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let four = h.bound("10.1.0.1:5000", |_| {});
        h.connect(four, "10.1.0.9:9000").unwrap();
        h.set(four, SetOption::PmtuDont4(true));
        h.set(four, SetOption::RecvErr4(true));
        let got = error(&h, "10.1.0.1:5000", "10.1.0.9:9000", 3, 4);
        assert_eq!(got, Some((four, IcmpReport::Ignored)));
        let six = h.bound("[fd01::1]:5000", |_| {});
        h.connect(six, "[fd01::9]:9000").unwrap();
        h.set(six, SetOption::PmtuDont6(true));
        let got = error(&h, "[fd01::1]:5000", "[fd01::9]:9000", 2, 0);
        assert_eq!(got, Some((six, IcmpReport::Ignored)), "no longer hard");
        h.set(six, SetOption::RecvErr6(true));
        let got = error(&h, "[fd01::1]:5000", "[fd01::9]:9000", 2, 0);
        assert_eq!(got, Some((six, IcmpReport::Queued(Errno::EMSGSIZE))));
    }
}

#[test]
fn the_most_specific_socket_gets_it() {
    for profile in BOTH {
        let mut h = Host::new(profile);
        let connected = h.shared("10.1.0.1:5000");
        h.connect(connected, "10.1.0.9:9000").unwrap();
        let any = h.shared("0.0.0.0:5000");
        h.set(any, SetOption::RecvErr4(true));
        let refused = Errno::ECONNREFUSED;
        let got = error(&h, "10.1.0.1:5000", "10.1.0.9:9000", 3, 3);
        assert_eq!(got, Some((connected, IcmpReport::SocketError(refused))));
        let got = error(&h, "10.1.0.1:5000", "10.1.0.10:9000", 3, 3);
        assert_eq!(got, Some((any, IcmpReport::Queued(refused))));
        assert_eq!(error(&h, "10.1.0.1:5001", "10.1.0.9:9000", 3, 3), None, "an input error");
    }
}

//! Listings of several ages and widths.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

fn fine(text: &str) -> Vec<Socket> {
    let listing = read(text.as_bytes(), true).expect("memory");
    assert_eq!(listing.faults, [], "{text}");
    listing.sockets
}

fn one(text: &str) -> Socket {
    let mut all = fine(text);
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

fn cause(text: &str) -> String {
    let listing = read(text.as_bytes(), true).expect("memory");
    assert_eq!(listing.faults.len(), 1, "{text}: {:?}", listing.faults);
    listing.faults[0].cause.clone()
}

fn end(addr: &str, port: u16) -> End {
    End { addr: addr.parse().expect("an address"), port }
}

#[test]
fn every_field() {
    let s = one(
        "UNCONN 0      0      127.0.0.53%lo:53   0.0.0.0:*    users:((\"systemd-resolve\",pid=612,fd=13)) uid:992 ino:9012 sk:1 cgroup:/system.slice/systemd-resolved.service <->\n",
    );
    assert_eq!(
        s,
        Socket {
            line: 1,
            connected: false,
            local: end("127.0.0.53", 53),
            peer: None,
            v6only: false,
            device: Some("lo".to_owned()),
            uid: 992,
            inode: Some(9012),
            processes: vec![Process { name: "systemd-resolve".to_owned(), pid: 612, fd: Some(13) }],
        }
    );
}

#[test]
fn families_and_v6only() {
    for (line, addr, v6only) in [
        ("UNCONN 0 0 0.0.0.0:53 0.0.0.0:*", "0.0.0.0", false),
        ("UNCONN 0 0 *:53 *:*", "::", false),
        ("UNCONN 0 0 *:53 *:* v6only:0 <->", "::", false),
        ("UNCONN 0 0 [::]:53 [::]:*", "::", true),
        ("UNCONN 0 0 [::]:53 [::]:* v6only:1 <->", "::", true),
        ("UNCONN 0 0 [::]:53 [::]:* v6only:0 <->", "::", false),
        ("UNCONN 0 0 [fd00::1]:53 [::]:*", "fd00::1", true),
        ("UNCONN 0 0 [::ffff:10.0.0.1]:53 *:*", "::ffff:10.0.0.1", false),
    ] {
        let s = one(line);
        assert_eq!((s.local, s.v6only, s.peer), (end(addr, 53), v6only, None), "{line}");
    }
}

#[test]
fn connected() {
    let s = one("ESTAB 0 0 [::ffff:10.1.0.1]:5007 [::ffff:10.1.0.9]:9");
    assert_eq!((s.connected, s.peer), (true, Some(end("::ffff:10.1.0.9", 9))));
    let s = one("ESTAB 0 0 [fe80::1]%d0:5 [fe80::2]%d0:6");
    assert_eq!((s.device.as_deref(), s.peer), (Some("d0"), Some(end("fe80::2", 6))));
    let s = one("ESTAB 0 0 10.0.2.15%eth0:68 10.0.2.2:67");
    assert_eq!((s.device.as_deref(), s.local), (Some("eth0"), end("10.0.2.15", 68)));
}

/// Before iproute2 4.14 a star was IPv4's, and IPv6 addresses had no brackets.
#[test]
fn the_old_form() {
    let all = fine(
        "State      Recv-Q Send-Q Local Address:Port  Peer Address:Port\n\
         UNCONN     0      0            *:68                 *:*    users:((\"dhclient\",pid=1,fd=6)) ino:1 sk:f <->\n\
         UNCONN     0      0           :::123               :::*\n",
    );
    assert_eq!(all[0].local, end("0.0.0.0", 68));
    assert_eq!((&all[1].local, all[1].v6only, all[1].line), (&end("::", 123), false, 3));
}

#[test]
fn several_processes_with_any_name() {
    let s = one(
        r#"UNCONN 0 0 0.0.0.0:1 0.0.0.0:* users:(("a b) (",pid=7,fd=3),("x",pid=8,tid=9,fd=4),("y",pid=9)) ino:5"#,
    );
    let names: Vec<_> = s.processes.iter().map(|p| (p.name.as_str(), p.pid, p.fd)).collect();
    assert_eq!(names, [("a b) (", 7, Some(3)), ("x", 8, Some(4)), ("y", 9, None)]);
    assert_eq!(s.inode, Some(5));
    assert!(one("UNCONN 0 0 0.0.0.0:1 0.0.0.0:*").processes.is_empty());
}

/// The kernel cuts names after 15 bytes, whatever stands there.
#[test]
fn names_that_are_no_utf8() {
    let text = b"UNCONN 0 0 0.0.0.0:1 0.0.0.0:* users:((\"sch\xc3\",pid=1,fd=2)) ino:3\n";
    let listing = read(&text[..], false).expect("memory");
    assert_eq!(listing.faults, []);
    assert_eq!(listing.sockets[0].processes[0].name, "sch\u{fffd}");
}

#[test]
fn headers_wrapped_lines_and_other_protocols() {
    let all = fine(
        "Netid State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\r\n\
         tcp   LISTEN 0      128    0.0.0.0:22         0.0.0.0:*  users:((\"sshd\",pid=1,fd=3))\r\n\
         \t cubic rto:1000\r\n\
         udp   UNCONN 0      0      0.0.0.0:53         0.0.0.0:*\r\n\
         \t users:((\"named\",pid=2,fd=3)) ino:7\r\n\
         \t skmem:(r0,rb212992,t0,tb212992,f0,w0,o0,bl0,d0)\r\n\
         \r\n\
         udp   UNCONN 0      0      0.0.0.0:54         0.0.0.0:*\r\n\
         users:((\"named\",pid=2,fd=4))\r\n",
    );
    assert_eq!(all.len(), 2);
    assert_eq!((all[0].line, all[0].processes[0].fd, all[0].inode), (4, Some(3), Some(7)));
    assert_eq!((all[1].line, all[1].processes[0].fd), (8, Some(4)));
}

#[test]
fn unknown_fields_are_passed_over() {
    let s = one("UNCONN 0 0 0.0.0.0:53 0.0.0.0:* mptcp:what tos:0x2 new_thing:(a,b) ino:3 <->");
    assert_eq!(s.inode, Some(3));
}

#[test]
fn damage_is_named() {
    for (line, says) in [
        ("UNCON 0 0 0.0.0.0:53 0.0.0.0:*", "not with \"UNCON\""),
        ("UNCONN x 0 0.0.0.0:53 0.0.0.0:*", "Recv-Q is a number, not \"x\""),
        ("UNCONN 0", "Send-Q is a number, not \"\""),
        ("UNCONN 0 0 0.0.0.0:53", "ends before the peer's address"),
        ("UNCONN 0 0 0.0.0.0:domain 0.0.0.0:*", "names are printed without -n"),
        ("UNCONN 0 0 localhost:53 0.0.0.0:*", "host names are printed with -r"),
        ("UNCONN 0 0 0.0.0.0 0.0.0.0:*", "expected ADDRESS:PORT"),
        ("UNCONN 0 0 1.2.3:53 0.0.0.0:*", "neither IPv4 nor IPv6"),
        ("UNCONN 0 0 [1.2.3.4]:53 [::]:*", "no IPv6 address"),
        ("UNCONN 0 0 0.0.0.0%:53 0.0.0.0:*", "no device"),
        ("UNCONN 0 0 0.0.0.0:99999 0.0.0.0:*", "the port is not a number"),
        ("UNCONN 0 0 0.0.0.0:* 0.0.0.0:*", "a UDP socket has one"),
        ("UNCONN 0 0 10.0.0.1:1 [fd00::1]:1", "different families"),
        ("ESTAB 0 0 10.0.0.1:1 0.0.0.0:*", "ESTAB, but the peer"),
        ("UNCONN 0 0 0.0.0.0:1 0.0.0.0:* users:((\"a\",pid=x))", "bad field users"),
        ("UNCONN 0 0 0.0.0.0:1 0.0.0.0:* users:((\"a\",pid=1,fd=2)", "bad field users"),
        ("UNCONN 0 0 0.0.0.0:1 0.0.0.0:* uid:x", "bad field \"uid:x\""),
        ("UNCONN 0 0 [::]:1 [::]:* v6only:2", "0 or 1"),
        ("\t ino:1", "none stands before"),
        ("hello", "lines of `ss -uanpe`"),
    ] {
        assert!(cause(line).contains(says), "{line}: {}", cause(line));
    }
}

#[test]
fn the_first_damage_stops_unless_told_to_go_on() {
    let text = "UNCONN 0 0 0.0.0.0:1 0.0.0.0:*\nbroken\nUNCONN 0 0 0.0.0.0:2 0.0.0.0:*\n";
    let stopped = read(text.as_bytes(), false).expect("memory");
    assert_eq!((stopped.sockets.len(), stopped.faults[0].line), (1, 2));
    let whole = read(text.as_bytes(), true).expect("memory");
    assert_eq!((whole.sockets.len(), whole.faults.len()), (2, 1));
}

#[test]
fn endless_lines_are_refused() {
    let text = vec![b'x'; MAX_RECORD + 10];
    let listing = read(&text[..], true).expect("memory");
    assert_eq!((listing.faults.len(), listing.faults[0].line), (1, 1));
    let mut text = b"UNCONN 0 0 0.0.0.0:1 0.0.0.0:*\n".to_vec();
    for _ in 0..3 {
        text.push(b'\t');
        text.resize(text.len() + MAX_RECORD / 2, b'x');
        text.push(b'\n');
    }
    let listing = read(&text[..], true).expect("memory");
    assert!(listing.faults[0].cause.contains("more than"), "{:?}", listing.faults);
}

proptest! {
    /// No input makes it panic, and each line is a socket, a fault or neither.
    #[test]
    fn anything_goes_in(text in "((UNCONN|ESTAB|udp|State|\\PC{0,4})[ \t](0|x)? 0 (\\*|[0-9.:\\[\\]%a-f]{0,12}):[0-9*]{0,6} \\PC{0,20}(users:\\(\\(\"\\PC{0,3})?\n){0,6}") {
        let listing = read(text.as_bytes(), true).expect("memory");
        let found = listing.sockets.len() + listing.faults.len() + listing.foreign;
        prop_assert!(found <= text.lines().count().max(1));
    }

    /// What is printed in the new form reads back.
    #[test]
    fn reads_back(v4: [u8; 4], v6: [u8; 16], six: bool, port in 1u16.., peer in proptest::option::of(1u16..), uid: u32, pid: u32) {
        let show = |six: bool| if six { format!("[{}]", Ipv6Addr::from(v6)) } else { Ipv4Addr::from(v4).to_string() };
        prop_assume!(v6 != [0; 16] && v4 != [0; 4]);
        let (state, there) = match peer {
            Some(p) => ("ESTAB", format!("{}:{p}", show(six))),
            None => ("UNCONN", (if six { "[::]:*" } else { "0.0.0.0:*" }).to_owned()),
        };
        let line = format!("{state}  0 0 {}:{port} {there} users:((\"n\",pid={pid},fd=3)) uid:{uid} ino:1 <->", show(six));
        let s = one(&line);
        prop_assert_eq!(s.local.port, port);
        prop_assert_eq!(s.local.addr.to_string(), show(six).replace(['[', ']'], ""));
        prop_assert_eq!(s.peer.map(|e| e.port), peer);
        prop_assert_eq!((s.uid, s.processes[0].pid, s.connected), (uid, pid, peer.is_some()));
    }
}

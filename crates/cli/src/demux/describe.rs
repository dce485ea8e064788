//! Operations and outcomes of scenarios in words.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use fourtuple::udp::scenario::{
    Endpoint, FilterChange, Number, Operation, OptionFields, Outcome, SocketEnd, Value,
};
use serde_json::Value as Json;

/// What is done, as it would be told.
pub(super) fn operation(op: &Operation) -> String {
    match op {
        Operation::Device { name, addresses } => {
            spaced(format!("device {name}"), &addresses.join(" "))
        }
        Operation::Sysctl { name, value } => match value {
            Value::Number(n) => format!("sysctl {name}={n}"),
            Value::Text(text) => format!("sysctl {name}={text:?}"),
        },
        Operation::Socket(s) => {
            let owner = if s.uid == 0 { String::new() } else { format!(" uid={}", s.uid) };
            spaced(format!("socket {} IPv{}{owner}", s.id, s.family), &options(&s.options))
        }
        Operation::Set { id, options: o } => spaced(format!("set {id}"), &options(o)),
        Operation::Bind { id, addr, port } => format!("bind {id} to {}", at(addr, *port)),
        Operation::Autobind { id } => format!("autobind {id}"),
        Operation::Connect { id, addr, port } => format!("connect {id} to {}", at(addr, *port)),
        Operation::Disconnect { id } => format!("disconnect {id}"),
        Operation::ConnectFrom { socket: s, local, peer } => {
            let what = format!("connect-from {} {} to {}", s.id, endpoint(local), endpoint(peer));
            spaced(what, &options(&s.options))
        }
        Operation::Join { id, group, device } => format!("join {id} {group}{}", on(device)),
        Operation::Leave { id, group, device } => format!("leave {id} {group}{}", on(device)),
        Operation::Source { id, group, device, change, source } => {
            let change = match change {
                FilterChange::Block => "block",
                FilterChange::Unblock => "unblock",
                FilterChange::Add => "add",
                FilterChange::Drop => "drop",
            };
            format!("source {id} {group}{} {change} {source}", on(device))
        }
        Operation::Send { src, sport, dst, dport, device, n, cpu, checksum } => {
            let mut text = format!("send {} > {}{}", at(src, *sport), at(dst, *dport), on(device));
            text.push_str(&on_cpu(*cpu));
            if !checksum {
                text.push_str(" without checksum");
            }
            if *n != 1 {
                let _ = write!(text, ", {n} times");
            }
            text
        }
        Operation::Icmp { kind, code, src, sport, dst, dport, device, cpu } => {
            let about = format!("{} > {}", at(src, *sport), at(dst, *dport));
            format!("icmp type {kind} code {code} about {about}{}{}", on(device), on_cpu(*cpu))
        }
        Operation::Close { id } => format!("close {id}"),
    }
}

fn spaced(what: String, more: &str) -> String {
    if more.is_empty() { what } else { format!("{what} {more}") }
}

fn on(device: &Option<String>) -> String {
    device.as_ref().map_or_else(String::new, |d| format!(" on {d}"))
}

fn on_cpu(cpu: Option<u16>) -> String {
    cpu.map_or_else(String::new, |cpu| format!(" cpu {cpu}"))
}

fn at(addr: &fourtuple::udp::scenario::Addr, port: u16) -> String {
    if addr.ip.is_ipv6() { format!("[{addr}]:{port}") } else { format!("{addr}:{port}") }
}

fn endpoint(end: &Endpoint) -> String {
    at(&end.addr, end.port)
}

/// The options that are given, by the names of the format.
fn options(options: &OptionFields) -> String {
    let Ok(Json::Object(fields)) = serde_json::to_value(options) else {
        return String::new();
    };
    let word = |(name, value): (String, Json)| match value {
        Json::Bool(true) => name,
        Json::String(text) => format!("{name}={text}"),
        Json::Null => format!("{name}=none"),
        other => format!("{name}={other}"),
    };
    fields.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Whether it went as whoever wrote the operation meant.
pub(super) fn is_good(outcome: &Outcome) -> bool {
    matches!(&*outcome.result, "ok" | "delivered" | "socket-error" | "queued")
}

/// What came of it.
pub(super) fn outcome(outcome: &Outcome) -> String {
    let mut text = outcome.result.clone().into_owned();
    if let Some(why) = errno(&text) {
        let _ = write!(text, " ({why})");
    }
    if let (Some(reason), result) = (&outcome.reason, &outcome.result) {
        text = format!("{result}, {reason}");
    }
    if let Some(to) = &outcome.to {
        let _ = match &to[..] {
            [one] => write!(text, " to socket {one}"),
            _ => write!(text, " to sockets {}", numbers(to)),
        };
    }
    match (&outcome.table, &outcome.group) {
        (Some(table), Some(group)) => {
            let _ = write!(text, " by {table}, group {}", numbers(group));
        }
        (Some(table), None) => {
            let _ = write!(text, " by {table}");
        }
        _ => {}
    }
    if let Some(errno) = &outcome.errno {
        let _ = write!(text, " with {errno}");
    }
    if let (true, Some(local), "bind" | "connect" | "connect-from" | "disconnect" | "autobind") =
        (outcome.result == "ok", &outcome.local, &*outcome.op)
    {
        let _ = write!(text, ", local {}", socket_end(local));
        if let Some(Some(peer)) = &outcome.peer {
            let _ = write!(text, " peer {}", socket_end(peer));
        }
    }
    text
}

fn numbers(all: &[Number]) -> String {
    all.iter().map(Number::to_string).collect::<Vec<_>>().join(", ")
}

fn socket_end(end: &SocketEnd) -> String {
    show(end.addr, end.port)
}

/// `10.0.0.1:53` or `[::]:53`.
pub(super) fn show(addr: IpAddr, port: u16) -> String {
    SocketAddr::new(addr, port).to_string()
}

/// What an errno says, for those that socket operations give.
fn errno(name: &str) -> Option<&'static str> {
    Some(match name {
        "EPERM" => "not permitted",
        "EBADF" => "the socket is closed",
        "EAGAIN" => "no free port",
        "EACCES" => "a privileged port, or a broadcast without SO_BROADCAST",
        "ENODEV" => "no such device",
        "EINVAL" => "an argument that cannot be, or the socket has a port already",
        "ENOPROTOOPT" => "the socket has no such option",
        "EAFNOSUPPORT" => "an address of a family the socket does not speak",
        "EADDRINUSE" => "the port or 4-tuple belongs to another socket",
        "EADDRNOTAVAIL" => "not an address of this host",
        "ENETUNREACH" => "no route",
        "ENOTCONN" => "the socket has no peer",
        "ENOBUFS" => "no room for one more membership",
        _ => return None,
    })
}

/// Why a datagram was dropped, by the word for it.
pub(super) fn reason(word: &str) -> Option<&'static str> {
    Some(match word {
        "not-local" => "the destination is not an address of this host",
        "group-not-joined" => {
            "no socket has joined the group on that device, or not for that source"
        }
        "no-listener" => {
            "no socket takes a datagram to this multicast or broadcast address and port"
        }
        "zero-checksum" => "IPv6 without checksum: only a socket with UDP_NO_CHECK6_RX takes it",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str) -> String {
        operation(&Operation::parse(json).expect("an operation"))
    }

    #[test]
    fn operations() {
        for (json, text) in [
            (r#"{"op":"device","name":"d0","addresses":["10.1.0.1/24"]}"#, "device d0 10.1.0.1/24"),
            (r#"{"op":"sysctl","name":"a.b","value":"1 2"}"#, "sysctl a.b=\"1 2\""),
            (
                r#"{"op":"socket","id":1,"family":6,"v6only":false,"reuseport":true,"uid":5}"#,
                "socket 1 IPv6 uid=5 reuseport v6only=false",
            ),
            (r#"{"op":"set","id":1,"device":null}"#, "set 1 device=none"),
            (r#"{"op":"bind","id":1,"addr":"fe80::1%d0","port":53}"#, "bind 1 to [fe80::1%d0]:53"),
            (
                r#"{"op":"send","src":"10.1.0.9","sport":1,"dst":"10.1.0.1","dport":53,"device":"d0","n":2,"checksum":false}"#,
                "send 10.1.0.9:1 > 10.1.0.1:53 on d0 without checksum, 2 times",
            ),
            (
                r#"{"op":"connect-from","id":1,"local":{"addr":"1.1.1.1","port":1},"peer":{"addr":"1.1.1.2","port":2}}"#,
                "connect-from 1 1.1.1.1:1 to 1.1.1.2:2",
            ),
        ] {
            assert_eq!(told(json), text);
        }
    }

    #[test]
    fn outcomes() {
        let end = |port| SocketEnd { addr: "10.0.0.1".parse().expect("fine"), port };
        let bound = Outcome {
            op: "bind".into(),
            result: "ok".into(),
            local: Some(end(53)),
            peer: Some(Some(end(9))),
            ..Outcome::default()
        };
        assert_eq!(outcome(&bound), "ok, local 10.0.0.1:53 peer 10.0.0.1:9");
        let failed = Outcome { result: "EBADF".into(), ..Outcome::default() };
        assert_eq!(outcome(&failed), "EBADF (the socket is closed)");
        assert!(!is_good(&failed) && is_good(&bound));
        let sent = Outcome {
            op: "send".into(),
            result: "delivered".into(),
            to: Some(vec![2]),
            table: Some("hash2".into()),
            group: Some(vec![1, 2]),
            ..Outcome::default()
        };
        assert_eq!(outcome(&sent), "delivered to socket 2 by hash2, group 1, 2");
        let dropped =
            Outcome { result: "dropped".into(), reason: Some("not-local".into()), ..sent };
        assert!(outcome(&dropped).starts_with("dropped, not-local"));
    }
}

//! One socket's line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{End, Process, Socket};

/// Which form of ss an address shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Before iproute2 4.14: `:::53`.
    Old,
    /// Everything else.
    Any,
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Header,
    /// A socket of another protocol.
    Foreign,
    /// A UDP socket, from its state on.
    Socket(&'a str, Shape),
    /// More of the socket before.
    More(&'a str),
    Unknown(&'a str),
}

/// Values of the column `Netid`, which ss prints if it was asked for several protocols.
const NETIDS: [&str; 18] = [
    "nl", "p_raw", "p_dgr", "u_str", "u_dgr", "u_seq", "v_str", "v_dgr", "raw", "icmp6", "tcp",
    "mptcp", "dccp", "sctp", "tipc", "xdp", "ti_rd", "???",
];

/// Words that begin a line which continues a socket.
const FIELDS: [&str; 12] = [
    "users:",
    "uid:",
    "ino:",
    "sk:",
    "cgroup:",
    "v6only:",
    "skmem:",
    "timer:",
    "fwmark:",
    "class_id:",
    "bpf-map-id:",
    "mem:",
];

/// States that a UDP socket can be in.
const STATES: [&str; 2] = ["UNCONN", "ESTAB"];

pub(super) fn kind(text: &str) -> Kind<'_> {
    let (first, rest) = word(text);
    if text.starts_with([' ', '\t']) && !STATES.contains(&first) && first != "State" {
        return Kind::More(text.trim_start());
    }
    match first {
        "State" | "Netid" => Kind::Header,
        "udp" => match word(rest).0 {
            state if STATES.contains(&state) => Kind::Socket(rest.trim_start(), shape(rest)),
            state => Kind::Unknown(state),
        },
        _ if STATES.contains(&first) => Kind::Socket(text.trim_start(), shape(text)),
        _ if NETIDS.contains(&first) => Kind::Foreign,
        _ if FIELDS.iter().any(|f| first.starts_with(f))
            || matches!(first, "<->" | "-->" | "<--") =>
        {
            Kind::More(text)
        }
        _ => Kind::Unknown(first),
    }
}

fn shape(text: &str) -> Shape {
    let old = |w: &str| w.starts_with(":::") || w.starts_with("::%") || w.starts_with("::ffff:");
    if text.split_whitespace().skip(3).take(2).any(old) { Shape::Old } else { Shape::Any }
}

/// The first word, and what is behind it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()))
}

/// Reads a record that [`kind`] took for a socket.
pub(super) fn socket(text: &str, line: usize, star_is_v4: bool) -> Result<Socket, String> {
    let (state, rest) = word(text);
    let (received, rest) = word(rest);
    let (sent, rest) = word(rest);
    for (what, number) in [("Recv-Q", received), ("Send-Q", sent)] {
        if number.parse::<u64>().is_err() {
            return Err(format!("{what} is a number, not {number:?}"));
        }
    }
    let (local, rest) = word(rest);
    let (peer, rest) = word(rest);
    if peer.is_empty() {
        return Err("ends before the peer's address".to_owned());
    }
    let fields = Fields::of(rest)?;
    let here = address(local, fields.family6(local, peer), star_is_v4)?;
    // A star stands for the peer of an IPv4 socket too, in the old form.
    let there = address(peer, here.addr.is_ipv6(), star_is_v4 && here.addr.is_ipv4())?;
    if here.port == 0 {
        return Err(format!("the local port of {local:?} is not a number: a UDP socket has one"));
    }
    if here.addr.is_ipv4() != there.addr.is_ipv4() {
        return Err(format!("local {local:?} and peer {peer:?} are of different families"));
    }
    let connected = state == "ESTAB";
    if connected && (there.addr.is_unspecified() || there.port == 0) {
        return Err(format!("ESTAB, but the peer is {peer:?}"));
    }
    let v6any = here.addr.is_ipv6() && here.addr.is_unspecified();
    let native =
        matches!(here.addr, IpAddr::V6(a) if a.to_ipv4_mapped().is_none() && !a.is_unspecified());
    // The old form has `::` for both kinds.
    let v6only = fields.v6only.unwrap_or(v6any && !here.star && !star_is_v4) || native;
    let has_peer = !there.addr.is_unspecified() || there.port != 0;
    Ok(Socket {
        line,
        connected,
        local: End { addr: here.addr, port: here.port },
        peer: has_peer.then_some(End { addr: there.addr, port: there.port }),
        v6only: v6only && here.addr.is_ipv6(),
        device: here.device.map(str::to_owned),
        uid: fields.uid,
        inode: fields.inode,
        processes: fields.processes,
    })
}

struct Address<'a> {
    addr: IpAddr,
    port: u16,
    device: Option<&'a str>,
    star: bool,
}

fn address(text: &str, six: bool, star_is_v4: bool) -> Result<Address<'_>, String> {
    let bad = |why: &str| format!("bad address {text:?}: {why}");
    let (host, port) = text
        .rsplit_once(':')
        .ok_or_else(|| bad("expected ADDRESS:PORT, as 10.0.0.1:53 or [::]:53"))?;
    let port = match port {
        "*" => 0,
        port => port.parse().map_err(|_| {
            bad("the port is not a number; names are printed without -n: run `ss -uanpe`")
        })?,
    };
    let (host, device) = match host.rsplit_once('%') {
        Some((host, device)) if !device.is_empty() => (host, Some(device)),
        Some(_) => return Err(bad("no device after the percent sign")),
        None => (host, None),
    };
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    let addr = match (host, inner) {
        ("*", _) if star_is_v4 || !six => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        ("*", _) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        (_, Some(six)) => {
            six.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| bad("no IPv6 address"))?
        }
        (host, None) => host.parse().map_err(|_| {
            bad("neither IPv4 nor IPv6; host names are printed with -r: run `ss -uanpe`")
        })?,
    };
    Ok(Address { addr, port, device, star: host == "*" })
}

#[derive(Default)]
struct Fields {
    uid: u32,
    inode: Option<u64>,
    v6only: Option<bool>,
    processes: Vec<Process>,
}

impl Fields {
    fn of(text: &str) -> Result<Self, String> {
        let mut fields = Self::default();
        let mut rest = text;
        // Process names may hold anything, so they are taken out first.
        let mut outside = String::new();
        if let Some(at) = rest.find("users:(") {
            outside.push_str(&rest[..at]);
            let (processes, behind) = users(&rest[at + "users:(".len()..])?;
            fields.processes = processes;
            rest = behind;
        }
        outside.push_str(rest);
        for field in outside.split_whitespace() {
            let number = |v: &str| {
                v.parse::<u64>().map_err(|_| format!("bad field {field:?}: not a number"))
            };
            match field.split_once(':') {
                Some(("uid", v)) => {
                    fields.uid = u32::try_from(number(v)?)
                        .map_err(|_| format!("bad field {field:?}: too large"))?;
                }
                Some(("ino", v)) => fields.inode = Some(number(v)?),
                Some(("v6only", v)) => {
                    fields.v6only = Some(match v {
                        "0" => false,
                        "1" => true,
                        _ => return Err(format!("bad field {field:?}: 0 or 1")),
                    });
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    /// Whether a star as the local address is IPv6's: it is, in the new form, unless the peer is IPv4.
    fn family6(&self, local: &str, peer: &str) -> bool {
        self.v6only.is_some()
            || (local.starts_with('*') && !peer.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// `("name",pid=1,fd=3),("other",pid=2,fd=4)) ...`: the processes, and what is behind the last parenthesis.
fn users(text: &str) -> Result<(Vec<Process>, &str), String> {
    let mut processes = Vec::new();
    let mut rest = text;
    loop {
        let entry = rest.strip_prefix("(\"").ok_or_else(|| broken(rest))?;
        let (name, numbers) = entry.split_once("\",pid=").ok_or_else(|| broken(rest))?;
        let (numbers, behind) = numbers.split_once(')').ok_or_else(|| broken(rest))?;
        let (pid, others) = numbers.split_once(',').unwrap_or((numbers, ""));
        let pid = pid.parse().map_err(|_| broken(rest))?;
        let fd = others.split(',').find_map(|o| o.strip_prefix("fd="));
        let fd = fd.map(str::parse).transpose().map_err(|_| broken(rest))?;
        processes.push(Process { name: name.to_owned(), pid, fd });
        match behind.strip_prefix(',') {
            Some(next) => rest = next,
            None => {
                let behind = behind.strip_prefix(')').ok_or_else(|| broken(rest))?;
                return Ok((processes, behind));
            }
        }
    }
}

fn broken(at: &str) -> String {
    let shown: String = at.chars().take(40).collect();
    format!("bad field users: expected (\"NAME\",pid=N,fd=N) at {shown:?}")
}

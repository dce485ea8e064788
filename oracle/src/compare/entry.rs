//! One entry of the kernel's against one of ours.

use fourtuple_conntrack::{Connection, Direction, Proto, Tuple};
use fourtuple_packet::{Family, Instant, protocol};

use crate::entry::{DYING, Entry, Key};

/// Adds what differs, time-out included, to `differs`.
pub(super) fn compare(kernel: &Entry, ours: &Connection, now: Instant, differs: &mut Vec<String>) {
    let before = differs.len();
    common(kernel, ours, differs);
    let status = u32::from(ours.status().0);
    differ(differs, "status", format_args!("{:#x}", kernel.status), format_args!("{status:#x}"));
    if let (Some(theirs), Proto::Tcp(track)) = (kernel.tcp, ours.proto()) {
        let [orig, reply] = [Direction::Original, Direction::Reply].map(|way| track.side(way));
        let scales = [orig.scale, reply.scale];
        differ(
            differs,
            "wscale",
            format_args!("{:?}", [theirs.wscale_orig, theirs.wscale_reply]),
            format_args!("{scales:?}"),
        );
        let flags = [orig.flags.0, reply.flags.0];
        differ(
            differs,
            "flags",
            format_args!("{:02x?}", [theirs.flags_orig, theirs.flags_reply]),
            format_args!("{flags:02x?}"),
        );
    }
    // The kernel counts in ticks and rounds down, and reads a moment later.
    let left = ours.remaining(now).as_secs() as i64;
    if let Some(theirs) = kernel.left.map(i64::from)
        && (theirs - left).abs() > 1
    {
        differs.push(format!("time left: kernel {theirs}, ours {left}"));
    }
    for text in &mut differs[before..] {
        text.insert_str(0, &format!("entry {} ", kernel.conn));
    }
}

/// The same for an entry that a packet ended.
pub(super) fn compare_ended(kernel: &Entry, ours: &Connection, differs: &mut Vec<String>) {
    let before = differs.len();
    common(kernel, ours, differs);
    let status = u32::from(ours.status().0) | DYING;
    differ(differs, "status", format_args!("{:#x}", kernel.status), format_args!("{status:#x}"));
    for text in &mut differs[before..] {
        text.insert_str(0, &format!("ended entry {} ", kernel.conn));
    }
}

fn differ(
    differs: &mut Vec<String>,
    what: &str,
    kernel: std::fmt::Arguments<'_>,
    ours: std::fmt::Arguments<'_>,
) {
    let (kernel, ours) = (kernel.to_string(), ours.to_string());
    if kernel != ours {
        differs.push(format!("{what}: kernel {kernel}, ours {ours}"));
    }
}

fn common(kernel: &Entry, ours: &Connection, differs: &mut Vec<String>) {
    for (way, tuple) in [(Direction::Original, &kernel.orig), (Direction::Reply, &kernel.reply)] {
        let own = ours.tuple(way);
        let same = own.src_ip() == tuple.src
            && own.dst_ip() == tuple.dst
            && own.protocol == kernel.proto
            && (own.family == Family::V4) == (kernel.l3 == 4)
            && key(own) == tuple.key;
        if !same {
            differs.push(format!("{} tuple: kernel {tuple:?}, ours {own}", way.name()));
        }
    }
    let state = ours.tcp_state().map(fourtuple_conntrack::TcpState::name);
    if ours.tuple(Direction::Original).protocol == protocol::TCP {
        differ(differs, "state", format_args!("{:?}", kernel.state), format_args!("{state:?}"));
    }
    let counted =
        [Direction::Original, Direction::Reply].map(|way| ours.counters(way).unwrap_or_default());
    let theirs = [kernel.packets_orig, kernel.bytes_orig, kernel.packets_reply, kernel.bytes_reply];
    let own = [counted[0].packets, counted[0].bytes, counted[1].packets, counted[1].bytes];
    differ(differs, "packets and bytes", format_args!("{theirs:?}"), format_args!("{own:?}"));
    differ(differs, "mark", format_args!("{}", kernel.mark), format_args!("{}", ours.mark()));
    differ(differs, "zone", format_args!("{}", kernel.zone), format_args!("{}", ours.zone().id));
}

/// What stands in for the ports, as the kernel tells it.
fn key(tuple: &Tuple) -> Key {
    match tuple.protocol {
        protocol::ICMP | protocol::ICMPV6 => {
            Key::Icmp { id: tuple.sport, r#type: tuple.icmp_type(), code: tuple.icmp_code() }
        }
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP | protocol::GRE => {
            Key::Ports { sport: tuple.sport, dport: tuple.dport }
        }
        _ => Key::None {},
    }
}

//! Connections and events in the form of `conntrack -L` and `conntrack -E` (conntrack-tools 1.4).

use fourtuple::conntrack::{
    Connection, Direction, EndReason, Event, EventKind, Status, Tuple, ZoneDirs, protocol_name,
};
use fourtuple::packet::{Family, Instant, protocol};

use super::Pieces;

/// What stands before a connection that has ended.
pub(crate) const ENDED: &str = "[DESTROY] ";

/// A line of the list: `conntrack -L -o extended,id`, without the kernel's reference count.
#[derive(Debug)]
pub(crate) struct Listed<'a> {
    pub(crate) conn: &'a Connection,
    pub(crate) now: Instant,
    /// How it ended, if it has.
    pub(crate) end: Option<EndReason>,
}

impl Listed<'_> {
    pub(crate) fn print(&self, line: &mut Pieces<'_>) {
        line.text(match self.conn.tuple(Direction::Original).family {
            Family::V4 => "ipv4     2 ",
            Family::V6 => "ipv6     10 ",
        });
        let with = With { counters: true, mark: true, age: true, timeout: self.end.is_none() };
        Fields { conn: self.conn, now: self.now, with }.print(line);
        end(line, self.end);
    }
}

/// A line of events: `conntrack -E -o timestamp,id`.
#[derive(Debug)]
pub(crate) struct EventLine<'a>(pub(crate) &'a Event);

impl EventLine<'_> {
    pub(crate) fn print(&self, line: &mut Pieces<'_>) {
        let Event { kind, at, connection: conn, end: why, .. } = self.0;
        let (seconds, micros) = (at.as_nanos() / 1_000_000_000, at.as_nanos() / 1000 % 1_000_000);
        line.formatted(format_args!("[{seconds:08}.{micros:06}]\t"));
        line.text(match kind {
            EventKind::New => "    [NEW] ",
            EventKind::Update => " [UPDATE] ",
            EventKind::Destroy => ENDED,
        });
        let destroy = *kind == EventKind::Destroy;
        let timeout = !destroy || conn.remaining(*at).as_secs() > 0;
        let with = With { counters: destroy, mark: conn.mark() != 0, age: destroy, timeout };
        Fields { conn, now: *at, with }.print(line);
        end(line, *why);
    }
}

fn end(line: &mut Pieces<'_>, why: Option<EndReason>) {
    if let Some(why) = why {
        line.text(" end=").text(why.word());
    }
}

/// Fields that are not always there.
#[derive(Clone, Copy, Debug)]
struct With {
    counters: bool,
    mark: bool,
    age: bool,
    timeout: bool,
}

/// What list and events share.
struct Fields<'a> {
    conn: &'a Connection,
    now: Instant,
    with: With,
}

impl Fields<'_> {
    fn print(&self, line: &mut Pieces<'_>) {
        let Self { conn, now, with } = *self;
        let protocol = conn.tuple(Direction::Original).protocol;
        line.padded(protocol_name(protocol), 8).text(" ").number(protocol).text(" ");
        if with.timeout {
            line.number(conn.remaining(now).as_secs()).text(" ");
        }
        if let Some(state) = conn.tcp_state() {
            line.text(state.name()).text(" ");
        }
        self.direction(line, Direction::Original);
        if !conn.status().has(Status::SEEN_REPLY) {
            line.text("[UNREPLIED] ");
        }
        self.direction(line, Direction::Reply);
        if conn.status().has(Status::ASSURED) {
            line.text("[ASSURED] ");
        }
        if with.mark {
            line.field("mark=", conn.mark());
        }
        let zone = conn.zone();
        if zone.id != 0 && zone.dirs == ZoneDirs::Both {
            line.field("zone=", zone.id);
        }
        if let (true, Some(start)) = (with.age, conn.start()) {
            line.field("delta-time=", now.since(start).as_secs());
        }
        line.text("id=").number(conn.number());
    }

    fn direction(&self, line: &mut Pieces<'_>, dir: Direction) {
        let tuple = self.conn.tuple(dir);
        line.text("src=").address(tuple.src_ip()).text(" dst=").address(tuple.dst_ip()).text(" ");
        ports(line, tuple);
        let zone = self.conn.zone();
        match (zone.dirs, dir) {
            (ZoneDirs::Original, Direction::Original) => {
                line.field("zone-orig=", zone.id);
            }
            (ZoneDirs::Reply, Direction::Reply) => {
                line.field("zone-reply=", zone.id);
            }
            _ => {}
        }
        if let Some(c) = self.conn.counters(dir).filter(|_| self.with.counters) {
            line.field("packets=", c.packets).field("bytes=", c.bytes);
        }
    }
}

fn ports(line: &mut Pieces<'_>, tuple: &Tuple) {
    let Tuple { sport, dport, .. } = *tuple;
    match tuple.protocol {
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
            line.field("sport=", sport).field("dport=", dport);
        }
        protocol::ICMP | protocol::ICMPV6 => {
            let (ty, code) = (tuple.icmp_type(), tuple.icmp_code());
            line.field("type=", ty).field("code=", code).field("id=", sport);
        }
        protocol::GRE => {
            line.formatted(format_args!("srckey={sport:#x} dstkey={dport:#x} "));
        }
        _ => {}
    }
}

//! Connections and events in the form of `conntrack -L` and `conntrack -E` (conntrack-tools 1.4).

use std::fmt::{self, Display};

use fourtuple::conntrack::{
    Connection, Direction, EndReason, Event, EventKind, Status, Tuple, ZoneDirs, protocol_name,
};
use fourtuple::packet::{Family, Instant, protocol};

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

impl Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.conn.tuple(Direction::Original).family {
            Family::V4 => "ipv4     2 ",
            Family::V6 => "ipv6     10 ",
        };
        f.write_str(family)?;
        let with = With { counters: true, mark: true, age: true, timeout: self.end.is_none() };
        Fields { conn: self.conn, now: self.now, with }.fmt(f)?;
        end(f, self.end)
    }
}

/// A line of events: `conntrack -E -o timestamp,id`.
#[derive(Debug)]
pub(crate) struct EventLine<'a>(pub(crate) &'a Event);

impl Display for EventLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { kind, at, connection: conn, end: why, .. } = self.0;
        let (seconds, micros) = (at.as_nanos() / 1_000_000_000, at.as_nanos() / 1000 % 1_000_000);
        let kind_text = match kind {
            EventKind::New => "    [NEW] ",
            EventKind::Update => " [UPDATE] ",
            EventKind::Destroy => ENDED,
        };
        write!(f, "[{seconds:08}.{micros:06}]\t{kind_text}")?;
        let destroy = *kind == EventKind::Destroy;
        let timeout = !destroy || conn.remaining(*at).as_secs() > 0;
        let with = With { counters: destroy, mark: conn.mark() != 0, age: destroy, timeout };
        Fields { conn, now: *at, with }.fmt(f)?;
        end(f, *why)
    }
}

fn end(f: &mut fmt::Formatter<'_>, why: Option<EndReason>) -> fmt::Result {
    match why {
        Some(why) => write!(f, " end={}", why.word()),
        None => Ok(()),
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

impl Display for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { conn, now, with } = *self;
        let number = conn.tuple(Direction::Original).protocol;
        write!(f, "{:<8} {number} ", protocol_name(number))?;
        if with.timeout {
            write!(f, "{} ", conn.remaining(now).as_secs())?;
        }
        if let Some(state) = conn.tcp_state() {
            write!(f, "{state} ")?;
        }
        self.direction(f, Direction::Original)?;
        if !conn.status().has(Status::SEEN_REPLY) {
            f.write_str("[UNREPLIED] ")?;
        }
        self.direction(f, Direction::Reply)?;
        if conn.status().has(Status::ASSURED) {
            f.write_str("[ASSURED] ")?;
        }
        if with.mark {
            write!(f, "mark={} ", conn.mark())?;
        }
        let zone = conn.zone();
        if zone.id != 0 && zone.dirs == ZoneDirs::Both {
            write!(f, "zone={} ", zone.id)?;
        }
        if let (true, Some(start)) = (with.age, conn.start()) {
            write!(f, "delta-time={} ", now.since(start).as_secs())?;
        }
        write!(f, "id={}", conn.number())
    }
}

impl Fields<'_> {
    fn direction(&self, f: &mut fmt::Formatter<'_>, dir: Direction) -> fmt::Result {
        let tuple = self.conn.tuple(dir);
        write!(f, "src={} dst={} ", tuple.src_ip(), tuple.dst_ip())?;
        ports(f, tuple)?;
        let zone = self.conn.zone();
        match (zone.dirs, dir) {
            (ZoneDirs::Original, Direction::Original) => write!(f, "zone-orig={} ", zone.id)?,
            (ZoneDirs::Reply, Direction::Reply) => write!(f, "zone-reply={} ", zone.id)?,
            _ => {}
        }
        match self.conn.counters(dir).filter(|_| self.with.counters) {
            Some(c) => write!(f, "packets={} bytes={} ", c.packets, c.bytes),
            None => Ok(()),
        }
    }
}

fn ports(f: &mut fmt::Formatter<'_>, tuple: &Tuple) -> fmt::Result {
    let Tuple { sport, dport, .. } = *tuple;
    match tuple.protocol {
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
            write!(f, "sport={sport} dport={dport} ")
        }
        protocol::ICMP | protocol::ICMPV6 => {
            write!(f, "type={} code={} id={sport} ", tuple.icmp_type(), tuple.icmp_code())
        }
        protocol::GRE => write!(f, "srckey={sport:#x} dstkey={dport:#x} "),
        _ => Ok(()),
    }
}

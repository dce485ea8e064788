//! One packet in, the kernel's opinion out.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::drops::{Drops, Format};
use crate::entry::{Entry, Message};
use crate::error::{During, Error, Result};
use crate::netlink::{attributes, encode, nfgen, number};
use crate::rules::STATUS;
use crate::sandbox::{FRAME, Sandbox};
use crate::settings::Settings;

const CT_NEW: u16 = 1 << 8;
const CT_GET: u16 = CT_NEW | 1;
const CT_DELETE: u16 = CT_NEW | 2;
const CT_STATS_CPU: u16 = CT_NEW | 4;
const CT_STATS: u16 = CT_NEW | 5;

/// What a rule behind tracking sees of a packet, or why no rule saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// First direction, no reply yet.
    New,
    /// Belongs to a flow with a reply, or is one.
    Established,
    /// Belongs to a flow through another (an ICMP error, an expected connection).
    Related,
    /// Belongs to none and may not begin one.
    Invalid,
    /// Deliberately not looked at.
    Untracked,
    /// Kept by the kernel: a fragment that waits for the rest.
    Absorbed,
    /// Gone before the rule.
    Dropped,
}

/// Direction of a packet relative to its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// That of the first packet.
    Original,
    /// The other.
    Reply,
}

/// All that the kernel said about one packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What a rule saw.
    pub verdict: Verdict,
    /// Direction, if the packet has an entry.
    pub direction: Option<Direction>,
    /// Status bits of its entry right after tracking, before confirmation.
    pub status: Option<u32>,
    /// The kernel's name for why it was dropped, also if that was at confirmation.
    pub reason: Option<String>,
    /// Number of the packet's entry; none if it has none or it was refused at confirmation.
    pub conn: Option<u32>,
    /// Frames that came out on the far side.
    pub frames_out: u32,
    /// Entries that were made or altered, in order of number.
    pub changed: Vec<Entry>,
    /// Entries gone since the packet before, in the order of their removal.
    pub destroyed: Vec<Entry>,
    /// When it was sent, counted from the first packet since the last reset.
    pub sent: Duration,
}

/// The kernel's counters of the namespace since the last reset (`conntrack -S`, summed over CPUs).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the names are the kernel's")]
pub struct Stats {
    pub found: u64,
    pub invalid: u64,
    pub insert: u64,
    pub insert_failed: u64,
    pub drop: u64,
    pub early_drop: u64,
    pub error: u64,
    pub search_restart: u64,
    pub clash_resolve: u64,
    pub chaintoolong: u64,
}

struct Known {
    id: u32,
    key: Vec<u8>,
    entry: Entry,
    /// When the time-out last set will run out, by the judge's clock.
    deadline: Instant,
}

/// Asks the live kernel about packets, one after the other.
///
/// Not for sharing between threads; moving it to another is fine.
pub struct Judge {
    sandbox: Sandbox,
    drops: Option<Drops>,
    frame: Vec<u8>,
    /// Where forwarded frames are read to; their bytes are of no interest.
    sink: Vec<u8>,
    known: HashMap<u32, Known>,
    by_id: HashMap<u32, u32>,
    created: u32,
    start: Option<Instant>,
    fragments: bool,
    base: Stats,
}

/// What the rules logged of one packet.
#[derive(Default)]
struct Logged {
    seen: Option<(Verdict, Option<Direction>)>,
    id: Option<u32>,
    status: Option<u32>,
}

/// What the table's events said since they were last read.
#[derive(Default)]
struct Events {
    /// Numbers of new entries.
    created: Vec<u32>,
    /// Kernel id and last state of those that went.
    destroyed: Vec<(u32, Entry)>,
}

impl Judge {
    /// A judge in a namespace of its own.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if this machine or user cannot.
    pub fn new(settings: &Settings) -> Result<Self> {
        let sandbox = Sandbox::new(settings)?;
        // Without tracefs or perf events drops are told from waiting fragments by the header only.
        let drops = Format::read().and_then(Drops::open).ok();
        let mut this = Self {
            sandbox,
            drops,
            frame: Vec::with_capacity(FRAME),
            sink: vec![0; FRAME + 64],
            known: HashMap::new(),
            by_id: HashMap::new(),
            created: 0,
            start: None,
            fragments: false,
            base: Stats::default(),
        };
        this.base = this.counters()?;
        Ok(this)
    }

    /// True iff the kernel's drop reasons can be read.
    #[must_use]
    pub fn sees_drops(&self) -> bool {
        self.drops.is_some()
    }

    /// The namespace the judge works in.
    #[must_use]
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// Forgets everything and starts a new case under `settings`.
    ///
    /// Entries are deleted one by one, which is far cheaper than a flush of the machine-wide
    /// table; after waiting fragments the namespace is made anew, because their queues cannot be
    /// emptied.
    ///
    /// # Errors
    /// If the kernel refuses a request.
    pub fn reset(&mut self, settings: &Settings) -> Result<()> {
        if self.fragments {
            self.sandbox = Sandbox::new(settings)?;
        } else {
            self.delete_all()?;
            self.sandbox.apply(settings)?;
        }
        self.known.clear();
        self.by_id.clear();
        self.created = 0;
        self.start = None;
        self.fragments = false;
        self.drain()?;
        self.base = self.counters()?;
        Ok(())
    }

    fn delete_all(&mut self) -> Result<()> {
        for known in self.known.values() {
            let body = request(&known.entry, &known.key);
            match self.sandbox.requests.request(CT_DELETE, 0, &body) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other.during("deleting an entry")?,
            }
        }
        if self.count()? != 0 {
            let body = nfgen(0, 0);
            self.sandbox.requests.request(CT_DELETE, 0, &body).during("flushing the table")?;
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        while self.sandbox.events.poll(|_| {}).during("reading events")? {}
        while self.sandbox.log.poll(|_| {}).during("reading the log")? {}
        self.frames_out()?;
        Ok(())
    }

    /// Sends one IP packet (from the IP header on) and reports what became of it.
    ///
    /// The write to the device returns when the kernel is done with the packet, so nothing here
    /// waits.
    ///
    /// # Errors
    /// If a system call fails or the kernel's messages are not understood.
    pub fn packet(&mut self, packet: &[u8]) -> Result<Observation> {
        self.watch_this_thread()?;
        self.encapsulate(packet);
        let now = Instant::now();
        let sent = now - *self.start.get_or_insert(now);
        rustix::io::write(&self.sandbox.input, &self.frame).during("sending a packet")?;
        let logged = self.logged()?;
        let Events { created, destroyed } = self.events()?;
        let frames_out = self.frames_out()?;
        let reasons = self.drops.as_mut().map(Drops::take).unwrap_or_default();

        let conn = logged.id.and_then(|id| {
            // An entry that this packet ended is not in the table any more.
            let gone = destroyed.iter().find(|(gone, _)| *gone == id).map(|(_, e)| e.conn);
            self.by_id.get(&id).copied().or(gone)
        });
        let changed = self.refresh(conn, &created)?;
        let (verdict, direction) = match logged.seen {
            Some(seen) => seen,
            None if self.waits(packet, &reasons) => (Verdict::Absorbed, None),
            None => (Verdict::Dropped, None),
        };
        // A fragment that is refused may leave a queue behind, too. Behind which headers of IPv6 a fragment header
        // stands is not looked into here.
        let six = packet.first().is_some_and(|byte| byte >> 4 == 6);
        self.fragments |= verdict == Verdict::Absorbed
            || verdict == Verdict::Dropped && (six || is_fragment(packet));
        let lost = verdict == Verdict::Dropped || frames_out == 0 && verdict != Verdict::Absorbed;
        let reason = if lost { self.reason(&reasons) } else { None };
        let destroyed = destroyed.into_iter().map(|(_, entry)| entry).collect();
        let status = logged.status;
        Ok(Observation {
            verdict,
            direction,
            status,
            reason,
            conn,
            frames_out,
            changed,
            destroyed,
            sent,
        })
    }

    /// Every live entry, in order of number; also finds those that have expired meanwhile.
    ///
    /// # Errors
    /// If a request fails.
    pub fn entries(&mut self) -> Result<Vec<Entry>> {
        let mut conns: Vec<u32> = self.known.keys().copied().collect();
        conns.sort_unstable();
        for conn in conns {
            self.read(conn)?;
        }
        self.events()?;
        let mut entries: Vec<_> = self.known.values().map(|known| known.entry.clone()).collect();
        entries.sort_unstable_by_key(|entry| entry.conn);
        Ok(entries)
    }

    /// The entry as it was last read.
    #[must_use]
    pub fn entry(&self, conn: u32) -> Option<&Entry> {
        self.known.get(&conn).map(|known| &known.entry)
    }

    /// Time since the first packet since the last reset, or since the first call of this if that came earlier.
    pub fn elapsed(&mut self) -> Duration {
        self.start.get_or_insert_with(Instant::now).elapsed()
    }

    /// Reads one entry anew; none if it has ended.
    ///
    /// # Errors
    /// If the request fails.
    pub fn look(&mut self, conn: u32) -> Result<Option<&Entry>> {
        self.read(conn)?;
        Ok(self.entry(conn))
    }

    /// Counters since the last reset.
    ///
    /// # Errors
    /// If the request fails.
    pub fn stats(&mut self) -> Result<Stats> {
        let (now, base) = (self.counters()?, self.base);
        Ok(Stats {
            found: now.found - base.found,
            invalid: now.invalid - base.invalid,
            insert: now.insert - base.insert,
            insert_failed: now.insert_failed - base.insert_failed,
            drop: now.drop - base.drop,
            early_drop: now.early_drop - base.early_drop,
            error: now.error - base.error,
            search_restart: now.search_restart - base.search_restart,
            clash_resolve: now.clash_resolve - base.clash_resolve,
            chaintoolong: now.chaintoolong - base.chaintoolong,
        })
    }

    fn counters(&mut self) -> Result<Stats> {
        let mut stats = Stats::default();
        let each = |payload: &[u8]| {
            for (kind, value) in attributes(payload.get(4..).unwrap_or(&[])) {
                let slot = match kind {
                    2 => &mut stats.found,
                    4 => &mut stats.invalid,
                    8 => &mut stats.insert,
                    9 => &mut stats.insert_failed,
                    10 => &mut stats.drop,
                    11 => &mut stats.early_drop,
                    12 => &mut stats.error,
                    13 => &mut stats.search_restart,
                    14 => &mut stats.clash_resolve,
                    15 => &mut stats.chaintoolong,
                    _ => continue,
                };
                *slot += number(value);
            }
        };
        self.sandbox.requests.dump(CT_STATS_CPU, &nfgen(0, 0), each).during("reading counters")?;
        Ok(stats)
    }

    /// Number of entries that the namespace counts, hidden and expired ones included.
    ///
    /// # Errors
    /// If the request fails.
    pub fn count(&mut self) -> Result<u64> {
        let mut count = 0;
        let each = |payload: &[u8]| {
            for (kind, value) in attributes(payload.get(4..).unwrap_or(&[])) {
                if kind == 1 {
                    count = number(value);
                }
            }
        };
        self.sandbox.requests.ask(CT_STATS, &nfgen(0, 0), each).during("counting entries")?;
        Ok(count)
    }

    /// The tracepoint follows one thread; open it again after a move.
    fn watch_this_thread(&mut self) -> Result<()> {
        if let Some(drops) = self.drops.as_ref().filter(|drops| !drops.is_mine()) {
            let format = drops.format().clone();
            self.drops = Some(Drops::open(format).during("watching drops")?);
        }
        Ok(())
    }

    fn encapsulate(&mut self, packet: &[u8]) {
        let ethertype =
            if packet.first().is_some_and(|byte| byte >> 4 == 6) { 0x86dd_u16 } else { 0x0800 };
        self.frame.clear();
        // To a unicast address that is nobody's here, so that the bridge only forwards.
        self.frame.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        self.frame.extend(ethertype.to_be_bytes());
        self.frame.extend_from_slice(packet);
    }

    fn logged(&mut self) -> Result<Logged> {
        let mut logged = Logged::default();
        let mut strange = None;
        let each = |message: crate::netlink::Received<'_>| {
            let (mut prefix, mut mark) = (&b""[..], 0);
            for (kind, value) in attributes(message.payload.get(4..).unwrap_or(&[])) {
                match kind {
                    2 => mark = number(value) as u32,
                    10 => prefix = value.strip_suffix(b"\0").unwrap_or(value),
                    _ => {}
                }
            }
            if prefix == STATUS.as_bytes() {
                logged.status = Some(mark);
            } else if let Some(seen) = verdict(prefix) {
                logged.seen = Some(seen);
                logged.id = seen.1.map(|_| mark);
            } else {
                strange = Some(String::from_utf8_lossy(prefix).into_owned());
            }
        };
        let mut each = each;
        while self.sandbox.log.poll(&mut each).during("reading the log")? {}
        match strange {
            Some(prefix) => Err(Error::Decode(format!("log prefix {prefix:?}"))),
            None => Ok(logged),
        }
    }

    /// Takes the table's events; gives the numbers of new and the remains of destroyed entries.
    fn events(&mut self) -> Result<Events> {
        let (mut events, mut bad) = (Events::default(), false);
        let (known, by_id, count) = (&mut self.known, &mut self.by_id, &mut self.created);
        let mut each = |received: crate::netlink::Received<'_>| {
            let Some(message) = Message::parse(received.payload) else {
                bad = true;
                return;
            };
            let Message { id, key, mut entry } = message;
            if received.kind == CT_DELETE {
                if let Some(conn) = by_id.remove(&id) {
                    known.remove(&conn);
                    entry.conn = conn;
                    entry.left = None;
                    events.destroyed.push((id, entry));
                }
            } else if let Slot::Vacant(slot) = by_id.entry(id) {
                *count += 1;
                entry.conn = *count;
                slot.insert(*count);
                events.created.push(*count);
                let deadline = Instant::now();
                known.insert(*count, Known { id, key, entry, deadline });
            }
        };
        while self.sandbox.events.poll(&mut each).during("reading events")? {}
        if bad {
            return Err(Error::Decode("an event without tuples".into()));
        }
        Ok(events)
    }

    fn frames_out(&mut self) -> Result<u32> {
        let mut count = 0;
        loop {
            match rustix::io::read(&self.sandbox.output, &mut self.sink[..]) {
                Ok(_) => count += 1,
                Err(rustix::io::Errno::AGAIN) => return Ok(count),
                Err(error) => return Err(error).during("reading forwarded frames"),
            }
        }
    }

    /// Reads the packet's entry and those just made; keeps what differs from before.
    fn refresh(&mut self, conn: Option<u32>, created: &[u32]) -> Result<Vec<Entry>> {
        let mut conns: Vec<u32> = created.iter().copied().chain(conn).collect();
        conns.sort_unstable();
        conns.dedup();
        let mut changed = Vec::new();
        for conn in conns {
            if self.read(conn)? || created.contains(&conn) {
                changed.extend(self.known.get(&conn).map(|known| known.entry.clone()));
            }
        }
        Ok(changed)
    }

    /// Reads one entry; true iff it differs from what was known.
    fn read(&mut self, conn: u32) -> Result<bool> {
        let Some(known) = self.known.get_mut(&conn) else {
            return Ok(false);
        };
        let body = request(&known.entry, &known.key);
        let mut answer = None;
        let asked = self.sandbox.requests.ask(CT_GET, &body, |payload| {
            answer = Some(Message::parse(payload));
        });
        match asked {
            // Expired: the request itself removed it, and its event says so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other.during("reading an entry")?,
        }
        let message = answer
            .flatten()
            .ok_or_else(|| Error::Decode("the answer to a request for an entry".into()))?;
        if message.id != known.id {
            return Ok(false);
        }
        let mut entry = message.entry;
        entry.conn = conn;
        Ok(known.update(entry, self.sandbox.settings()))
    }

    /// True iff no rule saw the packet because the kernel kept it.
    fn waits(&self, packet: &[u8], reasons: &[u32]) -> bool {
        match self.drops {
            Some(_) => reasons.is_empty(),
            None => is_fragment(packet),
        }
    }

    fn reason(&self, reasons: &[u32]) -> Option<String> {
        let drops = self.drops.as_ref()?;
        reasons.first().map(|&reason| drops.name(reason))
    }
}

impl Known {
    /// Takes over what was read, works out the time-out last set, and tells whether it differs.
    fn update(&mut self, mut entry: Entry, settings: &Settings) -> bool {
        let now = Instant::now();
        let old = &self.entry;
        let counted =
            (old.packets_orig, old.packets_reply) != (entry.packets_orig, entry.packets_reply);
        let left = i64::from(entry.left.unwrap_or(0));
        let expected = self.deadline.saturating_duration_since(now).as_secs_f64();
        // The kernel rounds down what is left, so an untouched entry reads up to a second less.
        let moved = old.timeout.is_none() || (left as f64 - expected).abs() > 1.5;
        let touched = counted || moved;
        entry.timeout = if touched {
            self.deadline = now + Duration::from_secs(left.unsigned_abs());
            Some(as_set(left, settings))
        } else {
            old.timeout
        };
        let left = entry.left.take();
        entry.left = self.entry.left;
        let differs = entry != self.entry;
        entry.left = left;
        self.entry = entry;
        differs
    }
}

/// The time-out that was set, from what is left of it: rounding hides up to a second, and only
/// whole settings are ever set.
fn as_set(left: i64, settings: &Settings) -> i64 {
    let lengthen = i64::from(settings.lengthen());
    // What has no setting (SYN_SENT2) is not lengthened.
    let plain = if left + 1 >= lengthen { left - lengthen } else { left };
    if !settings.is_timeout(plain) && settings.is_timeout(plain + 1) { plain + 1 } else { plain }
}

fn request(entry: &Entry, key: &[u8]) -> Vec<u8> {
    let mut body = nfgen(if entry.l3 == 6 { 10 } else { 2 }, 0).to_vec();
    let tuple =
        netlink_packet_core::DefaultNla::new(1 | netlink_packet_core::NLA_F_NESTED, key.to_vec());
    body.extend(encode(&[tuple]));
    body
}

fn verdict(prefix: &[u8]) -> Option<(Verdict, Option<Direction>)> {
    let (name, way) = match prefix.iter().position(|&byte| byte == b' ') {
        Some(at) => (&prefix[..at], Some(&prefix[at + 1..])),
        None => (prefix, None),
    };
    let verdict = match name {
        b"new" => Verdict::New,
        b"established" => Verdict::Established,
        b"related" => Verdict::Related,
        b"invalid" => Verdict::Invalid,
        b"untracked" => Verdict::Untracked,
        _ => return None,
    };
    let direction = match way {
        Some(b"original") => Some(Direction::Original),
        Some(b"reply") => Some(Direction::Reply),
        _ => None,
    };
    Some((verdict, direction))
}

/// A fragment by its headers: IPv4 offset or more-fragments, or an IPv6 fragment header in front.
fn is_fragment(packet: &[u8]) -> bool {
    match packet {
        [first, ..] if first >> 4 == 6 => packet.get(6) == Some(&44),
        [_, _, _, _, _, _, high, low, ..] => high & 0x3f != 0 || *low != 0,
        _ => false,
    }
}

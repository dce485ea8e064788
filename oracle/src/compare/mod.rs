//! The kernel and this tracker, packet by packet.

mod entry;
mod known;
mod ours;
mod report;

use std::collections::HashMap;
use std::time::Duration;

use fourtuple_conntrack::{ConnId, EndReason, Event, EventKind, ReceivePath, VerdictKind};
use fourtuple_packet::Instant;

pub use known::{KNOWN, Known};
pub(crate) use report::changed;
pub use report::save;

use crate::entry::{CONFIRMED, Entry, SEEN_REPLY};
use crate::error::Result;
use crate::generate::{Case, Step};
use crate::judge::{Judge, Observation, Verdict};
use crate::settings::Settings;

/// What both said about one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Number of the step in its case, from 0.
    pub step: usize,
    /// The packet; none for a wait.
    pub packet: Option<Vec<u8>>,
    /// When, from the first packet on.
    pub at: Duration,
    /// The kernel's answer in words.
    pub kernel: String,
    /// This tracker's answer in words.
    pub ours: String,
    /// What differs; empty if nothing.
    pub differs: Vec<String>,
}

/// The first step of a case at which both do not say the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The difference it is known as, if it is.
    pub known: Option<&'static str>,
    /// All steps up to the difference and what was said of each; what differs is in the last.
    pub answers: Vec<Answer>,
}

impl Difference {
    /// What differs, in a line.
    #[must_use]
    pub fn headline(&self) -> String {
        self.answers.last().map_or_else(String::new, |last| last.differs.join("; "))
    }
}

/// What came of comparing a case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Packets that were put to both.
    pub packets: u64,
    /// The first difference. The case ends there: what comes after follows from it.
    pub difference: Option<Difference>,
}

/// Puts cases to both and compares.
pub struct Comparer {
    judge: Judge,
}

/// Our half of a run, and how the kernel's numbers map to ours.
struct Run {
    path: ReceivePath,
    ids: HashMap<u32, ConnId>,
    /// Entries of ours that ended by time-out, and are not to be missed.
    expired: Vec<u64>,
    answers: Vec<Answer>,
    /// True iff every answer is written down, not only that which differs.
    tell: bool,
    at: Duration,
}

/// Where our clock starts: early enough for any pause, late enough that nothing is before zero.
const EPOCH: u64 = 1_000_000_000_000;

fn instant(sent: Duration) -> Instant {
    Instant::from_nanos(EPOCH + sent.as_nanos() as u64)
}

impl Comparer {
    /// Compares by `judge`.
    #[must_use]
    pub fn new(judge: Judge) -> Self {
        Self { judge }
    }

    /// The kernel's half.
    pub fn judge(&mut self) -> &mut Judge {
        &mut self.judge
    }

    /// Puts a case to both, up to the first difference.
    ///
    /// # Errors
    /// Those of the judge.
    pub fn case(&mut self, case: &Case) -> Result<Compared> {
        let compared = self.run(&case.settings, &case.steps, false)?;
        if compared.difference.is_none() {
            return Ok(compared);
        }
        // Once more for the record; if it does not come again the first account has to do.
        let told = self.run(&case.settings, &case.steps, true)?;
        Ok(if told.difference.is_some() { told } else { compared })
    }

    /// Puts steps to both under `settings`, up to the first difference; with `tell` every answer up to it is kept.
    ///
    /// # Errors
    /// Those of the judge.
    pub fn run(&mut self, settings: &Settings, steps: &[Step], tell: bool) -> Result<Compared> {
        self.judge.reset(settings)?;
        // The clock starts here, so that a wait before the first packet counts.
        self.judge.elapsed();
        let mut run = Run::new(settings, tell);
        let mut packets = 0;
        for (n, step) in steps.iter().enumerate() {
            let known = match step {
                Step::Packet(packet) => {
                    packets += 1;
                    run.packet(&mut self.judge, n, packet)?
                }
                Step::Wait(pause) => {
                    std::thread::sleep(*pause);
                    run.all(&mut self.judge, n)?
                }
            };
            if let Some(known) = known {
                return Ok(Compared { packets, difference: Some(run.difference(known)) });
            }
        }
        let known = run.all(&mut self.judge, steps.len())?;
        let difference = known.map(|known| run.difference(known));
        Ok(Compared { packets, difference })
    }
}

/// `None`: no difference; else the name of the known one, if it is one.
type Found = Option<Option<&'static str>>;

impl Run {
    fn new(settings: &Settings, tell: bool) -> Self {
        Self {
            path: ours::path(settings),
            ids: HashMap::new(),
            expired: Vec::new(),
            answers: Vec::new(),
            tell,
            at: Duration::ZERO,
        }
    }

    fn difference(self, known: Option<&'static str>) -> Difference {
        Difference { known, answers: self.answers }
    }

    fn packet(&mut self, judge: &mut Judge, step: usize, packet: &[u8]) -> Result<Found> {
        let seen = judge.packet(packet)?;
        self.at = seen.sent;
        let now = instant(seen.sent);
        let ours = self.path.ip(now, packet, packet.len() as u32);
        let ended = self.ended();
        let mut differs = Vec::new();
        if !same_verdict(&seen, &ours) {
            differs.push(format!("verdict: kernel {}, ours {}", verdict(&seen), words(&ours)));
        }
        self.pair(&seen, &ours, &mut differs);
        self.entries(judge, &seen, &ours, now, &mut differs)?;
        self.destroyed(&seen, &ended, &mut differs);
        let differing = !differs.is_empty();
        let known = if differing { known::find(packet, &seen, &ours) } else { None };
        if differing || self.tell {
            self.answers.push(Answer {
                step,
                packet: Some(packet.to_vec()),
                at: seen.sent,
                kernel: report::kernel(judge, &seen),
                ours: report::ours(&self.path, &ours, now),
                differs,
            });
        }
        Ok(differing.then_some(known))
    }

    /// Entries of ours that ended since the last call, timed out or not.
    fn ended(&mut self) -> Vec<Event> {
        let mut ended = Vec::new();
        while let Some(event) = self.path.conntrack_mut().next_event() {
            if event.kind == EventKind::Destroy {
                if event.end == Some(EndReason::Timeout) {
                    self.expired.push(event.connection.number());
                } else {
                    ended.push(event);
                }
            }
        }
        ended
    }

    /// A new entry of the kernel's is the packet's new entry of ours.
    fn pair(
        &mut self,
        seen: &Observation,
        ours: &fourtuple_conntrack::Verdict,
        differs: &mut Vec<String>,
    ) {
        for entry in &seen.changed {
            if self.ids.contains_key(&entry.conn) {
                continue;
            }
            match ours.connection {
                Some(id) if ours.change.created => {
                    self.ids.insert(entry.conn, id);
                }
                _ => differs
                    .push(format!("new entry: kernel made {}, ours none", report::entry(entry))),
            }
        }
        if ours.change.created && seen.changed.is_empty() && seen.destroyed.is_empty() {
            differs.push("new entry: kernel none, ours made one".into());
        }
        let mapped = seen.conn.and_then(|conn| self.ids.get(&conn));
        if let (Some(mapped), Some(id)) = (mapped, ours.connection)
            && *mapped != id
        {
            differs.push(format!("entry: kernel {:?}, ours another", seen.conn));
        }
        // Status bits as rules see them, before confirmation.
        if let (Some(kernel), Some(conn)) =
            (seen.status, ours.connection.and_then(|id| self.path.conntrack().connection(id)))
        {
            let mut status = u32::from(conn.status().0);
            if ours.change.created {
                status &= !CONFIRMED;
            }
            // Rules see what an entry became after its end: the reply that ended it is noted then.
            if ours.change.ended && ours.direction == Some(fourtuple_conntrack::Direction::Reply) {
                status |= SEEN_REPLY;
            }
            if kernel != status {
                differs.push(format!("status seen by rules: kernel {kernel:#x}, ours {status:#x}"));
            }
        }
    }

    /// Compares the packet's entry, also if rules would not see it.
    fn entries(
        &self,
        judge: &mut Judge,
        seen: &Observation,
        ours: &fourtuple_conntrack::Verdict,
        now: Instant,
        differs: &mut Vec<String>,
    ) -> Result<()> {
        let mut conns: Vec<u32> =
            seen.changed.iter().map(|entry| entry.conn).chain(seen.conn).collect();
        if seen.conn.is_none() {
            // An invalid packet may leave something behind in the entry whose tuple it bears.
            let own = ours.connection;
            let conn = self.ids.iter().find(|(_, id)| Some(**id) == own).map(|(conn, _)| *conn);
            if let Some(conn) = conn {
                judge.look(conn)?;
                conns.push(conn);
            }
        }
        conns.sort_unstable();
        conns.dedup();
        for conn in conns {
            let (Some(kernel), Some(id)) = (judge.entry(conn), self.ids.get(&conn)) else {
                continue;
            };
            match self.path.conntrack().connection(*id) {
                Some(connection) => entry::compare(kernel, connection, now, differs),
                None => differs.push(format!("entry {conn}: kernel has it, ours has ended")),
            }
        }
        Ok(())
    }

    fn destroyed(&mut self, seen: &Observation, ended: &[Event], differs: &mut Vec<String>) {
        let now = instant(seen.sent);
        for entry in &seen.destroyed {
            let Some(id) = self.ids.get(&entry.conn).copied() else {
                if !(seen.changed.iter().any(|new| new.conn == entry.conn)) {
                    differs.push(format!(
                        "kernel ended an entry that ours never had: {}",
                        report::entry(entry)
                    ));
                }
                continue;
            };
            if let Some(event) = ended.iter().find(|event| event.connection.number() == id.number())
            {
                entry::compare_ended(entry, &event.connection, differs);
            } else if !self.expired(id, now) {
                differs.push(format!("kernel ended entry {}, ours lives", entry.conn));
            }
        }
        for event in ended {
            let number = event.connection.number();
            let conn = self.ids.iter().find(|(_, id)| id.number() == number).map(|(conn, _)| *conn);
            let there =
                conn.is_some_and(|conn| seen.destroyed.iter().any(|entry| entry.conn == conn));
            if !there {
                differs
                    .push(format!("ours ended entry {conn:?} ({:?}), kernel did not", event.end));
            }
        }
    }

    fn expired(&self, id: ConnId, now: Instant) -> bool {
        self.expired.contains(&id.number())
            || self.path.conntrack().connection(id).is_none_or(|conn| conn.expires() <= now)
    }

    /// Compares the whole table.
    fn all(&mut self, judge: &mut Judge, step: usize) -> Result<Found> {
        let kernel = judge.entries()?;
        self.at = self.at.max(judge.elapsed());
        let now = instant(self.at);
        self.path.conntrack_mut().advance(now);
        let mut differs: Vec<String> = self
            .ended()
            .iter()
            .map(|event| {
                format!("ours ended entry {} while nothing happened", event.connection.number())
            })
            .collect();
        let mut alive = 0;
        for entry in &kernel {
            let Some(id) = self.ids.get(&entry.conn).copied() else { continue };
            match self.path.conntrack().connection(id) {
                Some(connection) if !self.expired(id, now) => {
                    alive += 1;
                    entry::compare(entry, connection, now, &mut differs);
                }
                _ => differs.push(format!("entry {}: kernel has it, ours has ended", entry.conn)),
            }
        }
        let ours = self.path.conntrack().connections().count();
        if ours != alive {
            differs.push(format!("entries: kernel {alive}, ours {ours}"));
        }
        let differing = !differs.is_empty();
        if differing || self.tell {
            self.answers.push(Answer {
                step,
                packet: None,
                at: self.at,
                kernel: table(kernel.iter().map(report::entry)),
                ours: table(
                    self.path.conntrack().connections().map(|(_, c)| report::connection(c, now)),
                ),
                differs,
            });
        }
        Ok(differing.then_some(None))
    }
}

fn table(entries: impl Iterator<Item = String>) -> String {
    entries.collect::<Vec<_>>().join(" | ")
}

fn same_verdict(seen: &Observation, ours: &fourtuple_conntrack::Verdict) -> bool {
    // What was refused at confirmation was seen by rules and did not come out.
    let refused = seen.verdict == Verdict::New && seen.conn.is_none() && seen.frames_out == 0;
    let kind = match seen.verdict {
        Verdict::New if refused => VerdictKind::Dropped,
        Verdict::New => VerdictKind::New,
        Verdict::Established => VerdictKind::Established,
        Verdict::Related => VerdictKind::Related,
        Verdict::Invalid => VerdictKind::Invalid,
        Verdict::Untracked => VerdictKind::Untracked,
        Verdict::Absorbed => VerdictKind::Absorbed,
        Verdict::Dropped => VerdictKind::Dropped,
    };
    let direction = match (refused, seen.direction) {
        (true, _) | (_, None) => None,
        (_, Some(crate::Direction::Original)) => Some(fourtuple_conntrack::Direction::Original),
        (_, Some(crate::Direction::Reply)) => Some(fourtuple_conntrack::Direction::Reply),
    };
    kind == ours.kind && direction == ours.direction
}

fn verdict(seen: &Observation) -> String {
    let mut text = format!("{:?}", seen.verdict).to_lowercase();
    match seen.direction {
        Some(crate::Direction::Original) => text.push_str(" original"),
        Some(crate::Direction::Reply) => text.push_str(" reply"),
        None => {}
    }
    if let Some(reason) = &seen.reason {
        text.push_str(&format!(" ({reason})"));
    }
    text
}

fn words(ours: &fourtuple_conntrack::Verdict) -> String {
    let direction = ours.direction.map_or("", |direction| match direction {
        fourtuple_conntrack::Direction::Original => " original",
        fourtuple_conntrack::Direction::Reply => " reply",
    });
    let detail = ours.detail.to_string();
    let colon = if detail.is_empty() { "" } else { ": " };
    format!("{}{direction} ({}{colon}{detail})", ours.kind, ours.reason)
}

/// The kernel's protocol number of an entry, for whoever sorts differences.
pub(crate) fn protocols(seen: &Observation) -> impl Iterator<Item = u8> {
    seen.changed.iter().chain(&seen.destroyed).map(|entry: &Entry| entry.proto)
}

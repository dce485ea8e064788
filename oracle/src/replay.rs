//! A capture through the judge, as JSON lines.

use std::io::Write;

use serde::Serialize;

use crate::capture::Record;
use crate::entry::{Entry, status_names};
use crate::error::{During, Result};
use crate::judge::{Direction, Judge, Observation, Stats, Verdict};

/// One packet's line.
#[derive(Serialize)]
struct Line<'a> {
    n: u64,
    t: f64,
    ip: u8,
    verdict: Verdict,
    direction: Option<Direction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<StatusBits>,
    frames_out: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    conn: Option<u32>,
    changed: &'a [Entry],
    destroyed: &'a [Entry],
}

#[derive(Serialize)]
#[serde(transparent)]
struct StatusBits(#[serde(serialize_with = "status_names")] u32);

#[derive(Serialize)]
struct Final {
    r#final: Vec<Entry>,
}

#[derive(Serialize)]
struct Totals {
    stats: Counts,
}

#[derive(Serialize)]
struct Counts {
    packets: u64,
    not_ip: u64,
    known: u64,
    #[serde(flatten)]
    kernel: Stats,
}

/// Sends every IP packet of `records` through `judge` and writes a line for each, then the table
/// and the counters.
///
/// # Errors
/// Those of the judge and of `out`.
pub fn replay(judge: &mut Judge, records: &[Record], out: &mut impl Write) -> Result<()> {
    let (mut packets, mut not_ip) = (0, 0);
    for record in records {
        let Some(packet) = record.ip() else {
            not_ip += 1;
            continue;
        };
        packets += 1;
        let seen = judge.packet(packet)?;
        line(out, &of(record, packet, &seen))?;
    }
    let entries = judge.entries()?;
    let counts = Counts { packets, not_ip, known: entries.len() as u64, kernel: judge.stats()? };
    line(out, &Final { r#final: entries })?;
    line(out, &Totals { stats: counts })
}

fn of<'a>(record: &Record, packet: &[u8], seen: &'a Observation) -> Line<'a> {
    Line {
        n: record.number,
        t: (seen.sent.as_secs_f64() * 1e6).round() / 1e6,
        ip: if packet.first().is_some_and(|byte| byte >> 4 == 6) { 6 } else { 4 },
        verdict: seen.verdict,
        direction: seen.direction,
        // A drop at confirmation shows in the missing `conn`.
        reason: seen.reason.as_deref().filter(|_| seen.verdict == Verdict::Dropped),
        truncated: record.cut && seen.verdict == Verdict::Dropped,
        status: seen.status.map(StatusBits),
        frames_out: seen.frames_out,
        conn: seen.conn,
        changed: &seen.changed,
        destroyed: &seen.destroyed,
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *out, value).during("writing a line")?;
    out.write_all(b"\n").during("writing a line")
}

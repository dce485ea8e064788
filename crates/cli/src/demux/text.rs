//! What `demux --sockets` prints for people.

use std::fmt::{self, Display};
use std::io;

use super::answer::{Answer, Goes, Question};
use super::host::{Host, Place, Shown};
use super::tally::Tally;
use crate::out::Out;
use crate::print::Paint;
use crate::setup::Style;
use crate::stamp::Stamp;

/// Processes of a reuseport group that are named.
const OWNERS: usize = 4;
/// Destinations without a socket that the summary names.
const MISSED: usize = 20;

/// Who gets it, in words.
fn goes(host: &Host, goes: &Goes) -> String {
    let numbers = |all: &[usize]| all.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    match goes {
        Goes::To(number) => format!("delivered to {}", host.name(*number)),
        Goes::OneOf(members) => {
            let sockets: Vec<_> = members.iter().filter_map(|&m| host.socket(m)).collect();
            let place = sockets.first().map(|&s| Place(s).to_string()).unwrap_or_default();
            let owners = sockets.iter().flat_map(|s| &s.processes).take(OWNERS);
            let owners: Vec<_> = owners.map(|p| format!("{}[{}]", p.name, p.pid)).collect();
            let more = if sockets.len() > OWNERS { ",..." } else { "" };
            format!(
                "delivered to one of sockets {} {place} {}{more}",
                numbers(members),
                owners.join(",")
            )
        }
        Goes::Copies(all) => match &all[..] {
            [one] => format!("a copy to {}", host.name(*one)),
            all => format!("a copy each to sockets {}", numbers(all)),
        },
        Goes::Nowhere => "no socket: port unreachable".to_owned(),
        Goes::Dropped(reason) => format!("dropped: {reason}"),
    }
}

fn painted(host: &Host, answer: &Answer, paint: Paint) -> impl Display + use<> {
    let text = goes(host, &answer.goes);
    match answer.goes {
        Goes::Nowhere | Goes::Dropped(_) => paint.bad(text),
        _ => paint.good(text),
    }
}

/// A datagram that was asked for, with every step.
pub(super) fn answer(
    host: &Host,
    q: &Question<'_>,
    answer: &Answer,
    style: Style,
    out: &mut Out,
) -> io::Result<()> {
    let paint = Paint(style.color);
    let by = answer.device.map_or_else(String::new, |d| format!(" dev {}", host.device_name(d)));
    out.line(paint.heading(format_args!("{} -> {}{by}", q.source, q.destination)))?;
    for step in &answer.steps {
        out.line(format_args!("  {step}"))?;
    }
    out.line(painted(host, answer, paint))?;
    out.line(format_args!("  {}", answer.why))?;
    out.line("")
}

/// A line for a datagram of a capture.
pub(super) struct Line<'a> {
    pub(super) host: &'a Host,
    pub(super) number: u64,
    pub(super) time: Option<Stamp>,
    pub(super) question: Question<'a>,
    pub(super) answer: &'a Answer,
}

impl Line<'_> {
    pub(super) fn paint(self, paint: Paint) -> impl Display {
        struct Painted<'a>(Line<'a>, Paint);
        impl Display for Painted<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let Self(Line { host, number, time, question: q, answer }, paint) = self;
                write!(f, "{number:>6} ")?;
                match time {
                    Some(time) => write!(f, "{time} ")?,
                    None => f.write_str("- ")?,
                }
                let table = answer.table.map_or_else(String::new, |t| format!("{t}: "));
                write!(
                    f,
                    "{} > {} | {} | {table}{}",
                    q.source,
                    q.destination,
                    painted(host, answer, *paint),
                    answer.why
                )
            }
        }
        Painted(self, paint)
    }
}

/// All sockets as they were understood.
pub(super) fn listing(host: &Host, foreign: usize, style: Style, out: &mut Out) -> io::Result<()> {
    for (i, s) in host.sockets.iter().enumerate() {
        let state = if s.connected { "connected" } else { "unconnected" };
        out.line(format_args!("{:>6} {state:<11} {}", i + 1, Shown(s)))?;
    }
    if foreign > 0 {
        out.line(format_args!("{foreign} sockets of other protocols passed over"))?;
    }
    assumed(&host.assumed_of_sockets(), style, out)
}

pub(super) fn assumed(assumed: &[String], style: Style, out: &mut Out) -> io::Result<()> {
    if assumed.is_empty() {
        return Ok(());
    }
    out.line(Paint(style.color).heading("Assumed"))?;
    assumed.iter().try_for_each(|a| out.line(format_args!("  {a}")))
}

pub(super) fn summary(
    host: &Host,
    tally: &Tally,
    assumptions: &[String],
    style: Style,
    out: &mut Out,
) -> io::Result<()> {
    let paint = Paint(style.color);
    let mut count = |n: u64, what: &dyn Display| out.line(format_args!("{n:>12} {what}"));
    if tally.packets > 0 {
        count(tally.packets, &"packets")?;
        for (n, what) in [
            (tally.others, "  no UDP"),
            (tally.sent, "  sent by this host"),
            (tally.fragments, "  fragments behind the first, without ports"),
        ] {
            if n > 0 {
                count(n, &what)?;
            }
        }
    }
    count(tally.datagrams, &"datagrams put to the sockets")?;
    let receivers = tally.receivers();
    if !receivers.is_empty() {
        out.line(paint.heading("Received"))?;
        for (numbers, n) in receivers {
            let who = if let [one] = numbers[..] { Goes::To(one) } else { Goes::OneOf(numbers) };
            let who = goes(host, &who);
            out.line(format_args!("{n:>12} {}", who.trim_start_matches("delivered to ")))?;
        }
    }
    let missed = tally.missed();
    if !missed.is_empty() {
        out.line(paint.heading("No socket"))?;
        if tally.nowhere > 0 {
            out.line(format_args!("{:>12} port unreachable", tally.nowhere))?;
        }
        for (reason, n) in &tally.dropped {
            out.line(format_args!("{n:>12} dropped: {reason}"))?;
        }
        for (to, n) in missed.iter().take(MISSED) {
            out.line(format_args!("{n:>12}   to {to}"))?;
        }
        if missed.len() > MISSED {
            out.line(format_args!("{:>12}   more destinations", missed.len() - MISSED))?;
        }
    }
    assumed(assumptions, style, out)
}

//! One packet's verdict, as a line and as a comment.

use std::fmt::{self, Display};

use fourtuple::conntrack::{Connection, Detail, Verdict, VerdictKind};

use super::Paint;
use crate::frame::Look;
use crate::stamp::Stamp;

/// A verdict as rules write it: upper case.
struct Upper(VerdictKind);

impl Display for Upper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.0 {
            VerdictKind::New => "NEW",
            VerdictKind::Established => "ESTABLISHED",
            VerdictKind::Related => "RELATED",
            VerdictKind::Invalid => "INVALID",
            VerdictKind::Untracked => "UNTRACKED",
            VerdictKind::Dropped => "DROPPED",
            VerdictKind::Absorbed => "ABSORBED",
            VerdictKind::Skipped => "SKIPPED",
        })
    }
}

/// A line of `explain`.
#[derive(Debug)]
pub(crate) struct VerdictLine<'a> {
    pub(crate) number: u64,
    pub(crate) time: Option<Stamp>,
    pub(crate) verdict: &'a Verdict,
    pub(crate) connection: Option<&'a Connection>,
    pub(crate) look: &'a Look<'a>,
    pub(crate) paint: Paint,
}

impl Display for VerdictLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, verdict, paint, .. } = self;
        let Verdict { kind, direction, reason, detail, .. } = **verdict;
        write!(f, "{number:>6} ")?;
        match &self.time {
            Some(time) => write!(f, "{time} ")?,
            None => f.write_str("- ")?,
        }
        let direction = direction.map_or("-", |d| d.name());
        write!(f, "{:<11} {direction:<8} {} ", paint.verdict(kind, Upper(kind)), self.look)?;
        if let Some(conn) = self.connection {
            write!(f, "| #{} ", conn.number())?;
            match (verdict.change.state, conn.tcp_state()) {
                (Some((from, to)), _) => write!(f, "{from}->{to} ")?,
                (None, Some(state)) => write!(f, "{state} ")?,
                (None, None) => {}
            }
            if verdict.change.ended {
                f.write_str("ended ")?;
            }
        }
        write!(f, "| {}", paint.verdict(kind, reason))?;
        if detail == Detail::None { Ok(()) } else { write!(f, ": {detail}") }
    }
}

/// The comment that `--annotate` gives a packet.
///
/// `INVALID: sequence 1201 is 20 above the window's upper edge 1181 (connection 3, ESTABLISHED) [tcp-seq-above-window]`
#[derive(Debug)]
pub(crate) struct Comment<'a> {
    pub(crate) verdict: &'a Verdict,
    pub(crate) connection: Option<&'a Connection>,
}

impl Display for Comment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { kind, direction, reason, detail, .. } = *self.verdict;
        write!(f, "{}: ", Upper(kind))?;
        if detail != Detail::None {
            write!(f, "{detail}")?;
        } else if let Some(direction) = direction {
            write!(f, "{} direction", direction.name())?;
        } else {
            // The first sentence: what it means; advice is in `fourtuple reasons`.
            let text = reason.explanation();
            let first = text.split_once(". ").map_or(text, |(first, _)| first);
            f.write_str(first.trim_end_matches('.'))?;
        }
        if let Some(conn) = self.connection {
            write!(f, " (connection {}", conn.number())?;
            if let Some(state) = conn.tcp_state() {
                write!(f, ", {state}")?;
            }
            f.write_str(")")?;
        }
        write!(f, " [{reason}]")
    }
}

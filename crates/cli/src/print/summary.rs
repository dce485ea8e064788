//! The summary of `track`.

use std::fmt::{self, Display};

use fourtuple::conntrack::{Reason, VerdictKind};

use super::Paint;
use crate::schema::{Connections, StateCount, Summary};

/// The summary as text: several lines, the last without a line end.
#[derive(Debug)]
pub(crate) struct SummaryText<'a> {
    pub(crate) summary: &'a Summary,
    pub(crate) paint: Paint,
}

/// A number with its thousands apart.
struct Grouped(u64);

impl Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
        for (i, digit) in digits.chars().enumerate() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                out.push(',');
            }
            out.push(digit);
        }
        f.pad(&out)
    }
}

const WIDTH: usize = 12;

impl Display for SummaryText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { summary: s, paint } = self;
        writeln!(f, "{}", paint.heading("Capture"))?;
        writeln!(f, "{:>WIDTH$} packets", Grouped(s.packets))?;
        writeln!(f, "{:>WIDTH$} bytes", Grouped(s.bytes))?;
        if let (Some(first), Some(last)) = (&s.first, &s.last) {
            let (seconds, nanos) = (s.span_ns / 1_000_000_000, s.span_ns % 1_000_000_000);
            writeln!(f, "{:>WIDTH$}.{nanos:09} s, {first} to {last}", Grouped(seconds))?;
        }
        if s.without_time > 0 {
            let n = Grouped(s.without_time);
            writeln!(f, "{n:>WIDTH$} packets without a time stamp took that of the packet before")?;
        }
        if s.clock_backwards > 0 {
            let n = Grouped(s.clock_backwards);
            writeln!(
                f,
                "{n:>WIDTH$} packets came with an earlier time than one before: the clock stood still"
            )?;
        }
        self.verdicts(f)?;
        self.reasons(f)?;
        self.connections(f, &s.connections)?;
        for damage in &s.damage {
            write!(f, "\n{} {}", paint.heading("Incomplete:"), damage.error)?;
        }
        Ok(())
    }
}

impl SummaryText<'_> {
    fn verdicts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.paint.heading("Verdicts"))?;
        for kind in VerdictKind::ALL {
            let count = self.summary.verdicts.get(kind.word()).copied().unwrap_or(0);
            if count > 0 {
                writeln!(f, "{:>WIDTH$} {}", Grouped(count), self.paint.verdict(kind, kind))?;
            }
        }
        Ok(())
    }

    fn reasons(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.paint.heading("Reasons (fourtuple reasons WORD explains)"))?;
        for reason in Reason::ALL {
            if let Some(&count) = self.summary.reasons.get(reason.word()) {
                writeln!(f, "{:>WIDTH$} {reason}", Grouped(count))?;
            }
        }
        Ok(())
    }

    fn connections(&self, f: &mut fmt::Formatter<'_>, c: &Connections) -> fmt::Result {
        writeln!(f, "{}", self.paint.heading("Connections"))?;
        writeln!(f, "{:>WIDTH$} opened", Grouped(c.opened))?;
        for (cause, count) in &c.ended {
            writeln!(f, "{:>WIDTH$} ended: {cause}", Grouped(*count))?;
        }
        writeln!(f, "{:>WIDTH$} at most at one time", Grouped(c.peak))?;
        write!(f, "{:>WIDTH$} at the end", Grouped(c.live))?;
        for StateCount { protocol, state, count } in &c.by_state {
            write!(f, "\n{:>WIDTH$}   {protocol}", Grouped(*count))?;
            if let Some(state) = state {
                write!(f, " {state}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        for (n, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(Grouped(n).to_string(), text);
        }
        assert_eq!(format!("{:>7}", Grouped(1000)), "  1,000");
    }
}

//! `reasons`: the closed set, explained.

use fourtuple::conntrack::{Reason, VerdictKind};
use textwrap::Options;

use crate::args::{Format, Reasons};
use crate::out::Out;
use crate::print::Paint;
use crate::schema;
use crate::setup::Style;

/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 100;

pub(crate) fn run(args: &Reasons, out: &mut Out) -> anyhow::Result<()> {
    let style = Style::new(args.output);
    let chosen: &[Reason] = if args.words.is_empty() { Reason::ALL } else { &args.words };
    let width = textwrap::termwidth().min(WIDEST);
    let indented = Options::new(width).initial_indent("    ").subsequent_indent("    ");
    for (i, reason) in chosen.iter().enumerate() {
        let verdicts = reason.verdicts().iter().map(|v| v.word()).collect::<Vec<_>>();
        if style.format == Format::Ndjson {
            let (reason, explanation) = (reason.word(), reason.explanation());
            out.json(&schema::Reason { reason, verdicts, explanation })?;
            continue;
        }
        let kind = reason.verdicts().first().copied().unwrap_or(VerdictKind::Skipped);
        if i > 0 {
            out.line("")?;
        }
        let word = Paint(style.color).verdict(kind, reason);
        out.line(format_args!("{word} ({})", verdicts.join(" or ")))?;
        out.line(textwrap::fill(reason.explanation(), &indented))?;
    }
    Ok(())
}

//! Colours, for verdicts and headings only.

use std::fmt::{self, Display};

use anstyle::{AnsiColor, Style};
use fourtuple::conntrack::VerdictKind;

/// Whether and how to colour.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(pub(crate) bool);

impl Paint {
    /// `what` in the colour of a verdict.
    pub(crate) fn verdict<T: Display>(self, kind: VerdictKind, what: T) -> Painted<T> {
        let style = match kind {
            VerdictKind::New => AnsiColor::Green.on_default(),
            VerdictKind::Established => Style::new(),
            VerdictKind::Related => AnsiColor::Cyan.on_default(),
            VerdictKind::Invalid => AnsiColor::Red.on_default().bold(),
            VerdictKind::Dropped => AnsiColor::Magenta.on_default().bold(),
            VerdictKind::Untracked | VerdictKind::Absorbed | VerdictKind::Skipped => {
                Style::new().dimmed()
            }
        };
        self.with(style, what)
    }

    /// `what` as a heading.
    pub(crate) fn heading<T: Display>(self, what: T) -> Painted<T> {
        self.with(Style::new().bold(), what)
    }

    /// `what` as something that went well.
    pub(crate) fn good<T: Display>(self, what: T) -> Painted<T> {
        self.with(AnsiColor::Green.on_default(), what)
    }

    /// `what` as something that did not.
    pub(crate) fn bad<T: Display>(self, what: T) -> Painted<T> {
        self.with(AnsiColor::Red.on_default().bold(), what)
    }

    fn with<T>(self, style: Style, what: T) -> Painted<T> {
        Painted { style: if self.0 { style } else { Style::new() }, what }
    }
}

/// A coloured thing. Widths apply to the thing, not to the colours.
#[derive(Debug)]
pub(crate) struct Painted<T> {
    style: Style,
    what: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.style.render())?;
        self.what.fmt(f)?;
        write!(f, "{}", self.style.render_reset())
    }
}

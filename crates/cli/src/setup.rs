//! From what was typed to what it means.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use fourtuple::conntrack::{
    Conntrack, CutPackets, PathOptions, ReceivePath, Settings, TupleHash, Zone,
};
use fourtuple::hash::Key;
use thiserror::Error;

use crate::args::{Clock, Color, Cut, Format, Output, Shared, Tracker};

/// Wrong usage that the parser of arguments cannot see.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) format: Format,
    /// True iff text may have colours.
    pub(crate) color: bool,
}

impl Style {
    pub(crate) fn new(output: Output) -> Self {
        let set = |name| std::env::var_os(name).filter(|v| !v.is_empty());
        let color = match output.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                std::io::stdout().is_terminal()
                    && set("NO_COLOR").is_none()
                    && set("TERM").is_some_and(|t| t != "dumb")
            }
        };
        Self { format: output.format, color }
    }
}

/// What a command that reads captures needs.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) captures: Vec<PathBuf>,
    pub(crate) clock: Clock,
    pub(crate) style: Style,
    pub(crate) settings: Settings,
    options: PathOptions,
    key: Key,
    /// True iff the settings are to be listed and nothing else done.
    pub(crate) list_settings: bool,
}

/// True iff `path` stands for standard input.
pub(crate) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The program's defaults: counters and time stamps are why one lists connections.
pub(crate) fn default_settings() -> Settings {
    Settings { acct: true, timestamp: true, ..Settings::default() }
}

impl Setup {
    pub(crate) fn new(shared: Shared) -> anyhow::Result<Self> {
        let Shared { captures, output, tracker } = shared;
        let Tracker { set, settings: list_settings, clock, hash_key, zone, mpls, cut_packets } =
            tracker;
        if captures.iter().filter(|c| is_stdin(c)).count() > 1 {
            return Err(Usage("standard input (-) can be read once only".to_owned()).into());
        }
        let mut settings = default_settings();
        for (name, value) in &set {
            settings.set(name, value).map_err(|e| Usage(format!("--set {name}={value}: {e}")))?;
        }
        let key = match hash_key {
            Some(key) => key,
            None => Key::random()?,
        };
        let cut = match cut_packets {
            Cut::Track => CutPackets::Track,
            Cut::Drop => CutPackets::Drop,
        };
        let options = PathOptions { mpls, zone: Zone::both(zone), net: 0, cut };
        let style = Style::new(output);
        Ok(Self { captures, clock, style, settings, options, key, list_settings })
    }

    /// A receive path with an empty table.
    pub(crate) fn path(&self) -> ReceivePath {
        let conntrack = Conntrack::new(self.settings.clone(), TupleHash::default(), self.key);
        ReceivePath::new(conntrack, self.options)
    }
}

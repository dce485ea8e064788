//! A case as a text file: what regressions are kept as, since a seed means another case as soon as a generator changes.
//!
//! ```text
//! # What it showed.
//! set nf_conntrack_tcp_loose=0
//! real-timeouts
//! packet 45000028...
//! wait 350
//! ```

use std::fmt::Write as _;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::generate::{Case, Kind, Step};
use crate::settings::Settings;

/// The settings and steps of a script.
///
/// # Errors
/// With the number of the line that is not understood.
pub fn parse(text: &str) -> Result<(Settings, Vec<Step>)> {
    let (mut settings, mut steps) = (Settings::default(), Vec::new());
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let done = match word {
            "real-timeouts" => {
                let mut real = Settings::unlengthened();
                let kept = settings.iter().try_for_each(|(name, value)| real.set(name, value));
                settings = real;
                kept.ok()
            }
            "set" => rest
                .split_once('=')
                .and_then(|(name, value)| settings.set(name, value.parse().ok()?).ok()),
            "packet" => bytes(rest).map(|packet| steps.push(Step::Packet(packet))),
            "wait" => rest.parse().ok().map(|ms| steps.push(Step::Wait(Duration::from_millis(ms)))),
            _ => None,
        };
        done.ok_or_else(|| Error::Decode(format!("line {} of a script: {line}", n + 1)))?;
    }
    Ok((settings, steps))
}

/// The script of a case, with `remark` in front.
#[must_use]
pub fn format(case: &Case, remark: &str) -> String {
    let mut out = String::new();
    for line in remark.lines() {
        let _ = writeln!(out, "# {line}");
    }
    if case.settings.lengthen() == 0 {
        out.push_str("real-timeouts\n");
    }
    let defaults = Settings::default();
    let changed = case.settings.iter().filter(|pair| !defaults.iter().any(|known| known == *pair));
    for (name, value) in changed {
        let _ = writeln!(out, "set {name}={value}");
    }
    for step in &case.steps {
        match step {
            Step::Packet(packet) => {
                out.push_str("packet ");
                for byte in packet {
                    let _ = write!(out, "{byte:02x}");
                }
                out.push('\n');
            }
            Step::Wait(pause) => {
                let _ = writeln!(out, "wait {}", pause.as_millis());
            }
        }
    }
    out
}

/// A script as a case; its kind and seed say nothing.
///
/// # Errors
/// Those of [`parse`].
pub fn case(text: &str) -> Result<Case> {
    let (settings, steps) = parse(text)?;
    Ok(Case { kind: Kind::Mixed, seed: 0, settings, steps })
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        hex.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_comes_back() {
        for kind in Kind::QUICK.into_iter().chain([Kind::Waiting]) {
            for seed in 0..40 {
                let case = Case::new(kind, seed);
                let (settings, steps) = parse(&format(&case, "two\nlines")).unwrap();
                assert_eq!((settings, steps), (case.settings, case.steps));
            }
        }
    }

    #[test]
    fn what_is_no_script_is_refused_by_line() {
        for (text, line) in [
            ("packet 4", 1),
            ("\npacket zz", 2),
            ("wait x", 1),
            ("set nf_x=1", 1),
            ("set nf_conntrack_acct", 1),
            ("# a\nfoo", 2),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line} ")), "{error}");
        }
    }
}

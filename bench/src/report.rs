//! The rows as a Markdown table or as JSON.

use std::fmt::Write;
use std::fs;

use anyhow::Result;
use serde_json::{Value, json};

use crate::measure::{Plan, Row};

/// What the figures were made on.
pub(crate) struct Machine {
    cpu: String,
    system: String,
    /// Processes that ran or waited, mean of the minute before the start: other load makes figures worse.
    load: Option<f64>,
}

impl Machine {
    /// Asks `/proc`; what is not there is named as unknown.
    pub(crate) fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let info = read("/proc/cpuinfo");
        let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let cpu = model.map_or("unknown processor", |(_, name)| name).to_owned();
        let release = read("/proc/sys/kernel/osrelease");
        let system = [std::env::consts::OS, release.trim(), std::env::consts::ARCH].join(" ");
        let load = read("/proc/loadavg").split(' ').next().and_then(|word| word.parse().ok());
        Self { cpu, system, load }
    }
}

const OPTIMIZED: bool = !cfg!(debug_assertions);

pub(crate) fn markdown(machine: &Machine, plan: &Plan, rows: &[Row]) -> String {
    let mut lines =
        vec![["part", "what", "entries", "ns, median", "min-max", "million/s"].map(str::to_owned)];
    for row in rows {
        lines.push([
            row.section.to_owned(),
            row.what.clone(),
            row.entries.map_or_else(|| "-".to_owned(), thousands),
            format!("{:.1}", row.median()),
            format!("{:.1}-{:.1}", row.min(), row.max()),
            format!("{:.2}", 1e3 / row.median()),
        ]);
    }
    let widths: [usize; 6] =
        std::array::from_fn(|i| lines.iter().map(|line| line[i].len()).max().unwrap_or(0));
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        out.push('|');
        for (i, cell) in line.iter().enumerate() {
            let width = widths[i];
            let _ = if i < 2 {
                write!(out, " {cell:<width$} |")
            } else {
                write!(out, " {cell:>width$} |")
            };
        }
        out.push('\n');
        if n == 0 {
            out.push('|');
            for (i, width) in widths.iter().enumerate() {
                let _ = write!(out, "{}{}|", "-".repeat(width + 1), if i < 2 { '-' } else { ':' });
            }
            out.push('\n');
        }
    }
    let load = machine.load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let _ = write!(
        out,
        "\n{}; {}; load average before the start {load}; {} interleaved rounds{}{}.\n",
        machine.cpu,
        machine.system,
        plan.rounds,
        if plan.quick { "; --quick, not for comparison" } else { "" },
        if OPTIMIZED { "" } else { "; NOT OPTIMIZED, not for comparison" },
    );
    out
}

pub(crate) fn json(machine: &Machine, plan: &Plan, rows: &[Row]) -> Result<String> {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({
                "part": row.section,
                "what": row.what,
                "entries": row.entries,
                "operations": row.operations,
                "rounds": row.rounds(),
                "ns": {"median": row.median(), "min": row.min(), "max": row.max()},
                "million_per_second": 1e3 / row.median(),
            })
        })
        .collect();
    let all = json!({
        "machine": {"cpu": machine.cpu, "system": machine.system, "load_average": machine.load},
        "quick": plan.quick,
        "optimized": OPTIMIZED,
        "rows": rows,
    });
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_markdown_with_columns_in_line() {
        let row = |what: &str, entries, ns: &[f64]| Row {
            section: "part",
            what: what.to_owned(),
            entries,
            operations: 1,
            ns: ns.to_vec(),
        };
        let rows = [row("a", None, &[1.0, 2.0, 4.0]), row("bcd", Some(1_000_000), &[250.0])];
        let machine = Machine { cpu: "cpu".into(), system: "linux".into(), load: Some(0.5) };
        let text = markdown(&machine, &Plan::QUICK, &rows);
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "| part | what |   entries | ns, median |     min-max | million/s |",
            "|------|------|----------:|-----------:|------------:|----------:|",
            "| part | a    |         - |        2.0 |     1.0-4.0 |    500.00 |",
            "| part | bcd  | 1,000,000 |      250.0 | 250.0-250.0 |      4.00 |",
            "",
        ];
        assert_eq!(lines[..5], expected);
        assert!(lines[5].starts_with("cpu; linux; load average before the start 0.50; 1 "));
        assert!(lines[5].contains("--quick, not for comparison"), "{}", lines[5]);
    }

    #[test]
    fn commas() {
        let of = [0, 999, 1_000, 65_536, 1_000_000].map(thousands);
        assert_eq!(of, ["0", "999", "1,000", "65,536", "1,000,000"]);
    }
}

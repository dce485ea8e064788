//! What the user can type: every flag is defined here once; parser, help, completions and manual pages come from it.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use fourtuple::conntrack::{Reason, VerdictKind};
use fourtuple::hash::Key;

use crate::demux::Demux;
use crate::filter::Filter;
use crate::select::Ranges;

/// What Linux connection tracking says of every packet of a capture, and why
///
/// Reads pcap and pcapng files (also gzip or zstd compressed) and follows every packet exactly as
/// nf_conntrack of Linux 6.18 does: which connection it belongs to, whether a firewall rule would
/// see it as NEW, ESTABLISHED, RELATED, INVALID or untracked, and the reason with the numbers
/// behind it. The capture's time stamps are the clock.
///
/// Exit status: 0 fine; 1 a capture was bad or incomplete (what could be read is printed all the
/// same); 2 wrong usage.
#[derive(Debug, Parser)]
#[command(name = "fourtuple", version, arg_required_else_help = true)]
#[command(after_help = "Example: fourtuple explain --only invalid trace.pcap")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the connections at the end of a capture, and a summary
    #[command(after_help = "Example: fourtuple track trace.pcap")]
    Track(Track),
    /// Say of every packet what Linux would, and why
    #[command(after_help = "Example: fourtuple explain --only invalid,dropped trace.pcap")]
    Explain(Box<Explain>),
    /// Print what happens to connections, as it happens
    #[command(after_help = "Example: fourtuple events --format ndjson trace.pcap")]
    Events(Events),
    /// Say which UDP socket gets a datagram, and why
    #[command(after_help = "Example: fourtuple demux --sockets ss.txt \
                            --datagram \"10.0.0.9:4000 -> 10.0.0.1:53\"")]
    Demux(Box<Demux>),
    /// Explain the reasons that `explain` gives
    #[command(after_help = "Example: fourtuple reasons tcp-seq-above-window")]
    Reasons(Reasons),
    /// Print a completion script for a shell
    #[command(
        after_help = "Example: fourtuple completions bash > /etc/bash_completion.d/fourtuple"
    )]
    Completions(Completions),
    /// Print the manual page, or write all of them into a folder
    #[command(after_help = "Example: fourtuple man /usr/local/share/man/man1")]
    Man(Man),
}

/// What every command that reads captures takes.
#[derive(Debug, Args)]
pub(crate) struct Shared {
    /// Captures, read one after another as one stream of time; `-` is standard input
    #[arg(value_name = "CAPTURE", required_unless_present = "settings")]
    pub(crate) captures: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) output: Output,

    #[command(flatten)]
    pub(crate) tracker: Tracker,
}

/// How output looks.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Lines for people, or a JSON object a line for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,

    /// Colours: on a terminal unless NO_COLOR is set, always, or never
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

/// How the tracker is set.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tracker")]
pub(crate) struct Tracker {
    /// Set a sysctl by its kernel name, e.g. nf_conntrack_tcp_be_liberal=1; may be repeated
    ///
    /// Defaults are the kernel's, but for nf_conntrack_acct and nf_conntrack_timestamp, which are 1
    /// here.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_setting)]
    pub(crate) set: Vec<(String, String)>,

    /// List the names that --set takes, with their values, and stop
    #[arg(long)]
    pub(crate) settings: bool,

    /// Take time from the capture, or stop it so that nothing times out
    #[arg(long, value_enum, default_value_t = Clock::Capture)]
    pub(crate) clock: Clock,

    /// Secret of the tuple hash as 32 hex digits; drawn anew for each run if not given
    #[arg(long, value_name = "HEX32")]
    pub(crate) hash_key: Option<Key>,

    /// Conntrack zone of all packets
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) zone: u16,

    /// Look at IP inside MPLS, which Linux forwards untracked
    #[arg(long)]
    pub(crate) mpls: bool,

    /// Packets whose end the capture cut off: track them as they were on the wire, or drop them as
    /// a host would that had received just this much
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Cut::Track)]
    pub(crate) cut_packets: Cut,
}

#[derive(Debug, Args)]
pub(crate) struct Track {
    /// List connections that ended, too, as they end, before those that are left
    #[arg(long)]
    pub(crate) ended: bool,

    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// Write the same packets, all of them, with the verdict as a comment each (Wireshark:
    /// frame.comment contains "INVALID")
    #[arg(long, value_name = "OUT.pcapng")]
    pub(crate) annotate: Option<PathBuf>,

    /// Print no lines, for use with --annotate
    #[arg(short, long, requires = "annotate")]
    pub(crate) quiet: bool,

    #[command(flatten)]
    pub(crate) which: Which,

    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// Which packets are printed. All are tracked.
#[derive(Debug, Args)]
#[command(next_help_heading = "Packets to print (all are tracked)")]
pub(crate) struct Which {
    /// Only these verdicts
    #[arg(long, value_name = "VERDICT,...", value_delimiter = ',', ignore_case = true, value_parser = verdicts())]
    pub(crate) only: Vec<VerdictKind>,

    /// Only these reasons; `fourtuple reasons` lists them
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', hide_possible_values = true, value_parser = reasons())]
    pub(crate) reason: Vec<Reason>,

    /// Only these packets, counted from 1 in each capture, e.g. 10-20,30,100-
    #[arg(long, value_name = "RANGES")]
    pub(crate) packets: Option<Ranges>,

    /// Only packets of these connections, by number
    #[arg(long, value_name = "N,...")]
    pub(crate) connection: Option<Ranges>,

    /// Only packets that an expression fits
    ///
    /// A small part of tcpdump's language: [src|dst] host ADDRESS, [src|dst] net ADDRESS/BITS,
    /// [src|dst] port N, [src|dst] portrange N-M, tcp, udp, icmp, icmp6, ip, ip6, sctp, gre, esp,
    /// proto N, combined by and, or, not and parentheses. As there, `and` and `or` bind equally,
    /// from left to right, and `port 80 or 443` repeats the words before 80.
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<Filter>,
}

#[derive(Debug, Args)]
pub(crate) struct Events {
    #[command(flatten)]
    pub(crate) shared: Shared,
}

#[derive(Debug, Args)]
pub(crate) struct Reasons {
    /// Only these
    #[arg(value_name = "WORD", hide_possible_values = true, value_parser = reasons())]
    pub(crate) words: Vec<Reason>,

    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// Folder for one page a command; without it the main page is printed
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Ndjson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    Capture,
    Frozen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cut {
    Track,
    Drop,
}

fn verdicts() -> impl TypedValueParser<Value = VerdictKind> {
    let words = VerdictKind::ALL.map(VerdictKind::word);
    PossibleValuesParser::new(words).map(|word| {
        let is_it = |v: &VerdictKind| v.word().eq_ignore_ascii_case(&word);
        VerdictKind::ALL.into_iter().find(is_it).expect("one of them")
    })
}

fn reasons() -> impl TypedValueParser<Value = Reason> {
    let words = Reason::ALL.iter().map(|r| r.word());
    PossibleValuesParser::new(words).map(|word| {
        let found = Reason::ALL.iter().find(|r| r.word() == word);
        *found.expect("one of them")
    })
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("expected NAME=VALUE, as in nf_conntrack_tcp_be_liberal=1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn definitions_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn settings_are_names_and_values() {
        let both = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(parse_setting("a=1"), both("a", "1"));
        assert_eq!(parse_setting(" a = 1=2 "), both("a", "1=2"));
        assert!(parse_setting("a").is_err());
        assert!(parse_setting("=1").is_err());
    }

    #[test]
    fn verdicts_in_any_case() {
        let cli = Cli::try_parse_from(["fourtuple", "explain", "--only", "INVALID,related", "x"]);
        let Command::Explain(explain) = cli.expect("parses").command else { panic!("explain") };
        assert_eq!(explain.which.only, [VerdictKind::Invalid, VerdictKind::Related]);
    }
}

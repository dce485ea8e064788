//! What `demux` can be given.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use fourtuple::hash::Key;
use fourtuple::udp;

use crate::args::{Format, Output};
use crate::setup::Style;

#[derive(Debug, Args)]
pub(crate) struct Demux {
    /// Socket operations and datagrams, a JSON object a line; `-` is standard input
    ///
    /// docs/demux.md describes the operations.
    #[arg(
        value_name = "SCENARIO",
        required_unless_present = "sockets",
        conflicts_with = "sockets"
    )]
    pub(crate) scenario: Option<PathBuf>,

    /// The UDP sockets of a host, as `ss -uanpe` lists them; `-` is standard input
    ///
    /// Without --datagram and --capture, the sockets are listed as they were understood.
    #[arg(long, value_name = "FILE")]
    pub(crate) sockets: Option<PathBuf>,

    /// Whose rules hold [default: strict for scenarios, linux with --sockets]
    #[arg(long, value_enum, value_name = "WHOSE", hide_default_value = true)]
    pub(crate) profile: Option<Profile>,

    /// Go on behind lines that make no sense; the exit status is 1 all the same
    #[arg(long)]
    pub(crate) keep_going: bool,

    /// Secret that choices of ports and reuseport members hang on, as 32 hex digits; drawn anew for
    /// each run if not given
    #[arg(long, value_name = "HEX32", conflicts_with = "sockets")]
    pub(crate) hash_key: Option<Key>,

    #[command(flatten)]
    pub(crate) ask: Ask,

    #[command(flatten)]
    pub(crate) output: Output,

    /// The same as --format ndjson
    #[arg(long, conflicts_with = "format", help_heading = "Output")]
    pub(crate) ndjson: bool,

    /// Every step of every look-up: in lines of --capture, and in JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) steps: bool,

    /// No line for each datagram of --capture, only the summary
    #[arg(short, long, requires = "capture", help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// What is asked of the sockets of a listing.
#[derive(Debug, Args)]
#[command(next_help_heading = "Datagrams for --sockets")]
pub(crate) struct Ask {
    /// One datagram, e.g. "10.0.0.9:4000 -> 10.0.0.1:53 dev eth0"; may be repeated
    #[arg(long, value_name = "SRC -> DST", requires = "sockets", conflicts_with = "scenario")]
    pub(crate) datagram: Vec<Asked>,

    /// Every datagram of a capture (pcap, pcapng); may be repeated; `-` is standard input
    #[arg(long, value_name = "CAPTURE", requires = "sockets", conflicts_with = "scenario")]
    pub(crate) capture: Vec<PathBuf>,

    /// An address of the host, e.g. 10.0.0.1/24%eth0; may be repeated
    ///
    /// Without, the addresses that sockets are bound to are the host's, and so are the
    /// destinations of datagrams that do not look sent by the host itself.
    #[arg(long, value_name = "ADDR/LEN[%DEV]", requires = "sockets", conflicts_with = "scenario")]
    pub(crate) address: Vec<HostAddress>,

    /// The device that datagrams come in by if nothing else tells
    #[arg(long, value_name = "NAME", requires = "sockets", conflicts_with = "scenario")]
    pub(crate) device: Option<String>,
}

impl Demux {
    pub(crate) fn style(&self) -> Style {
        let format = if self.ndjson { Format::Ndjson } else { self.output.format };
        Style::new(Output { format, ..self.output })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Profile {
    /// Linux 6.18, defects included
    Linux,
    /// What a server would want in each of these
    Strict,
}

impl From<Profile> for udp::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Linux => Self::Linux,
            Profile::Strict => Self::Strict,
        }
    }
}

/// A datagram as it is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) source: SocketAddr,
    pub(crate) destination: SocketAddr,
    pub(crate) device: Option<String>,
}

impl FromStr for Asked {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected SRC:PORT -> DST:PORT [dev NAME], as in \"10.0.0.9:4000 -> 10.0.0.1:53 dev eth0\" or \"[fd00::9]:4000 -> [fd00::1]:53\"";
        let words: Vec<&str> = text.split_whitespace().collect();
        let (source, destination, device) = match words[..] {
            [source, "->" | ">", destination] => (source, destination, None),
            [source, "->" | ">", destination, "dev", device] => (source, destination, Some(device)),
            _ => return Err(FORM.to_owned()),
        };
        let (source, _) = end(source)?;
        let (destination, scope) = end(destination)?;
        if source.is_ipv4() != destination.is_ipv4() {
            return Err(format!("{source} and {destination} are of different families"));
        }
        let device = device.map(str::to_owned).or(scope);
        Ok(Self { source, destination, device })
    }
}

/// An address and port, and the device that stands in it after a percent sign.
fn end(text: &str) -> Result<(SocketAddr, Option<String>), String> {
    let bad = || format!("bad address {text:?}: expected 10.0.0.1:53 or [fe80::1%eth0]:53");
    let (before, behind) = text.split_once('%').map_or((text, None), |(b, s)| (b, Some(s)));
    let (scope, plain) = match behind {
        None => (None, before.to_owned()),
        Some(behind) => {
            let (scope, port) = behind.rsplit_once("]:").ok_or_else(bad)?;
            (Some(scope.to_owned()), format!("{before}]:{port}"))
        }
    };
    Ok((plain.parse().map_err(|_| bad())?, scope))
}

/// An address of the host with its prefix length, and the device that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress {
    pub(crate) addr: IpAddr,
    /// In bits.
    pub(crate) len: u8,
    pub(crate) device: Option<String>,
}

impl FromStr for HostAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!(
                "bad address {text:?}: expected ADDRESS/LENGTH, as 10.0.0.1/24 or fe80::1/64%eth0"
            )
        };
        let (prefix, device) = match text.split_once('%') {
            Some((_, "")) => return Err(bad()),
            Some((prefix, device)) => (prefix, Some(device.to_owned())),
            None => (text, None),
        };
        let (addr, len) = prefix.split_once('/').map_or((prefix, None), |(a, l)| (a, Some(l)));
        let addr: IpAddr = addr.parse().map_err(|_| bad())?;
        let most = if addr.is_ipv4() { 32 } else { 128 };
        let len = len.map_or(Ok(most), str::parse).map_err(|_| bad())?;
        if len > most {
            return Err(bad());
        }
        Ok(Self { addr, len, device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams() {
        let asked: Asked = "10.0.0.9:4000 -> 10.0.0.1:53 dev eth0".parse().expect("fine");
        assert_eq!(asked.source, "10.0.0.9:4000".parse().expect("fine"));
        assert_eq!((asked.destination.port(), asked.device.as_deref()), (53, Some("eth0")));
        let asked: Asked = "[fe80::9]:1 > [fe80::1%d0]:53".parse().expect("fine");
        assert_eq!(
            (asked.destination.to_string().as_str(), asked.device.as_deref()),
            ("[fe80::1]:53", Some("d0"))
        );
        for (text, says) in [
            ("10.0.0.9:1 10.0.0.1:53", "expected SRC:PORT"),
            ("10.0.0.9:1 -> 10.0.0.1:53 dev", "expected SRC:PORT"),
            ("10.0.0.9 -> 10.0.0.1:53", "bad address \"10.0.0.9\""),
            ("10.0.0.9:1 -> 10.0.0.1:65536", "bad address"),
            ("10.0.0.9:1 -> [fd00::1]:53", "different families"),
            ("fe80::1%d0:1 -> [fd00::1]:53", "bad address"),
        ] {
            let said = text.parse::<Asked>().expect_err(text);
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    #[test]
    fn addresses() {
        let a: HostAddress = "10.0.0.1/24%eth0".parse().expect("fine");
        assert_eq!((a.len, a.device.as_deref()), (24, Some("eth0")));
        let a: HostAddress = "fd00::1".parse().expect("fine");
        assert_eq!((a.len, a.device), (128, None));
        for text in ["10.0.0.1/33", "10.0.0/8", "10.0.0.1/24%", "10.0.0.1/x", ""] {
            assert!(text.parse::<HostAddress>().is_err(), "{text}");
        }
    }
}

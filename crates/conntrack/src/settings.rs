//! Every `nf_conntrack_*` setting that applies, by its kernel name and with the kernel's default.

use core::str::FromStr;
use fourtuple_packet::Span;
use thiserror::Error;

use crate::tcp::TcpState;

/// A number of seconds as the kernel's time-out settings take it: any integer; zero and below expire an entry at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub i32);

impl Seconds {
    /// The span, zero for negative values.
    pub fn span(self) -> Span {
        Span::from_secs(self.0.max(0) as u64)
    }
}

/// Settings of a tracker: the fields bear the kernel's sysctl names without the `nf_conntrack_` prefix
/// (Documentation/networking/nf_conntrack-sysctl.rst), values are the kernel's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most entries a net may have, unconfirmed ones included; 0 = no limit. The kernel's default depends on memory:
    /// 262,144 on machines with more than 4 GiB.
    pub max: u32,
    /// Buckets of the kernel's table, 512 at least. Nothing is sized by it here, and no chain is limited by it; it says how
    /// wide a neighbourhood early drop searches (8 of this many buckets).
    pub buckets: u32,
    /// Verify checksums at prerouting.
    pub checksum: bool,
    /// Count packets and bytes. The kernel's default is off; entries made while it is off never count.
    pub acct: bool,
    /// Note when entries start and end. The kernel's default is off.
    pub timestamp: bool,
    /// Time-out of protocols without a tracker of their own.
    pub generic_timeout: Seconds,
    /// TCP time-outs by state, `SYN_SENT` first; `SYN_SENT2` has no sysctl.
    pub tcp_timeouts: [Seconds; TcpState::COUNT],
    /// TCP time-out once `tcp_max_retrans` identical ACKs were seen, or at window zero.
    pub tcp_timeout_max_retrans: Seconds,
    /// TCP time-out while data is not acknowledged.
    pub tcp_timeout_unacknowledged: Seconds,
    /// Pick connections up in the middle.
    pub tcp_loose: bool,
    /// Only out-of-window RSTs are invalid.
    pub tcp_be_liberal: bool,
    /// Do not call a RST before the highest acknowledgement invalid.
    pub tcp_ignore_invalid_rst: bool,
    /// Identical ACKs in a row that shorten the time-out.
    pub tcp_max_retrans: u8,
    /// UDP and UDP-Lite before an answer.
    pub udp_timeout: Seconds,
    /// UDP and UDP-Lite streams.
    pub udp_timeout_stream: Seconds,
    /// ICMP queries.
    pub icmp_timeout: Seconds,
    /// ICMPv6 queries.
    pub icmpv6_timeout: Seconds,
    /// IPv6 reassembly time-out.
    pub frag6_timeout: Seconds,
    /// IPv6 reassembly memory, bytes.
    pub frag6_high_thresh: u32,
    /// IPv4 reassembly time-out (`net.ipv4.ipfrag_time`).
    pub ipfrag_time: Seconds,
    /// IPv4 reassembly memory, bytes (`net.ipv4.ipfrag_high_thresh`).
    pub ipfrag_high_thresh: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let mut tcp = [Seconds(0); TcpState::COUNT];
        for (state, seconds) in [
            (TcpState::SynSent, 120),
            (TcpState::SynRecv, 60),
            (TcpState::Established, 432_000),
            (TcpState::FinWait, 120),
            (TcpState::CloseWait, 60),
            (TcpState::LastAck, 30),
            (TcpState::TimeWait, 120),
            (TcpState::Close, 10),
            (TcpState::SynSent2, 120),
        ] {
            tcp[state as usize] = Seconds(seconds);
        }
        Self {
            max: 262_144,
            buckets: 262_144,
            checksum: true,
            acct: false,
            timestamp: false,
            generic_timeout: Seconds(600),
            tcp_timeouts: tcp,
            tcp_timeout_max_retrans: Seconds(300),
            tcp_timeout_unacknowledged: Seconds(300),
            tcp_loose: true,
            tcp_be_liberal: false,
            tcp_ignore_invalid_rst: false,
            tcp_max_retrans: 3,
            udp_timeout: Seconds(30),
            udp_timeout_stream: Seconds(120),
            icmp_timeout: Seconds(30),
            icmpv6_timeout: Seconds(30),
            frag6_timeout: Seconds(60),
            frag6_high_thresh: 4 << 20,
            ipfrag_time: Seconds(30),
            ipfrag_high_thresh: 4 << 20,
        }
    }
}

/// Why a setting was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// No such sysctl.
    #[error("there is no setting {name}{}", .near.map(|n| format!("; did you mean {n}?")).unwrap_or_default())]
    Unknown {
        /// The name as given.
        name: String,
        /// A known name like it.
        near: Option<&'static str>,
    },
    /// The kernel has it, but nothing here depends on it.
    #[error("{name} has no effect here: {why}")]
    NotApplicable {
        /// The name.
        name: &'static str,
        /// Why not.
        why: &'static str,
    },
    /// Not a number, or out of the range the kernel takes.
    #[error("{name} takes {range}, not '{value}'")]
    Value {
        /// The name.
        name: &'static str,
        /// What it takes.
        range: &'static str,
        /// The value as given.
        value: String,
    },
}

/// One setting as a user sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SettingInfo {
    /// The kernel's name.
    pub name: &'static str,
    /// What it takes: a unit or a range.
    pub range: &'static str,
}

enum Field<'a> {
    Flag(&'a mut bool),
    Seconds(&'a mut Seconds),
    Byte(&'a mut u8),
    Word(&'a mut u32),
}

impl Field<'_> {
    const fn range(&self) -> &'static str {
        match self {
            Self::Flag(_) => "0 or 1",
            Self::Seconds(_) => "seconds",
            Self::Byte(_) => "0 to 255",
            Self::Word(_) => "0 to 4294967295",
        }
    }
}

/// What the kernel has and why it does nothing here, so that a script written for the kernel gets a reason.
const NOT_APPLICABLE: &[(&str, &str)] = &[
    ("nf_conntrack_count", "it is read-only"),
    ("nf_conntrack_events", "events are always made here"),
    ("nf_conntrack_expect_max", "no helper is attached, so nothing is expected"),
    ("nf_conntrack_log_invalid", "every invalid packet is explained"),
    ("nf_conntrack_frag6_low_thresh", "memory above the high mark is refused at once"),
    ("nf_conntrack_gre_timeout", "GRE is tracked by the generic tracker"),
    ("nf_conntrack_gre_timeout_stream", "GRE is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_closed", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_cookie_wait", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_cookie_echoed", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_established", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_shutdown_sent", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_shutdown_recd", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_shutdown_ack_sent", "SCTP is tracked by the generic tracker"),
    ("nf_conntrack_sctp_timeout_heartbeat_sent", "SCTP is tracked by the generic tracker"),
];

const NAMES: &[&str] = &[
    "nf_conntrack_max",
    "nf_conntrack_buckets",
    "nf_conntrack_checksum",
    "nf_conntrack_acct",
    "nf_conntrack_timestamp",
    "nf_conntrack_generic_timeout",
    "nf_conntrack_tcp_timeout_syn_sent",
    "nf_conntrack_tcp_timeout_syn_recv",
    "nf_conntrack_tcp_timeout_established",
    "nf_conntrack_tcp_timeout_fin_wait",
    "nf_conntrack_tcp_timeout_close_wait",
    "nf_conntrack_tcp_timeout_last_ack",
    "nf_conntrack_tcp_timeout_time_wait",
    "nf_conntrack_tcp_timeout_close",
    "nf_conntrack_tcp_timeout_max_retrans",
    "nf_conntrack_tcp_timeout_unacknowledged",
    "nf_conntrack_tcp_loose",
    "nf_conntrack_tcp_be_liberal",
    "nf_conntrack_tcp_ignore_invalid_rst",
    "nf_conntrack_tcp_max_retrans",
    "nf_conntrack_udp_timeout",
    "nf_conntrack_udp_timeout_stream",
    "nf_conntrack_icmp_timeout",
    "nf_conntrack_icmpv6_timeout",
    "nf_conntrack_frag6_timeout",
    "nf_conntrack_frag6_high_thresh",
    "ipfrag_time",
    "ipfrag_high_thresh",
];

impl Settings {
    /// The names [`set`](Self::set) takes, with their ranges, in the order of the kernel's documentation.
    pub fn names() -> impl Iterator<Item = SettingInfo> {
        let mut scratch = Self::default();
        NAMES.iter().map(move |&name| {
            let range = scratch.field(name).map_or("", |f| f.range());
            SettingInfo { name, range }
        })
    }

    fn field(&mut self, name: &str) -> Option<Field<'_>> {
        if let Some(state) = name.strip_prefix("nf_conntrack_tcp_timeout_") {
            let tcp = match state {
                "syn_sent" => TcpState::SynSent,
                "syn_recv" => TcpState::SynRecv,
                "established" => TcpState::Established,
                "fin_wait" => TcpState::FinWait,
                "close_wait" => TcpState::CloseWait,
                "last_ack" => TcpState::LastAck,
                "time_wait" => TcpState::TimeWait,
                "close" => TcpState::Close,
                "max_retrans" => return Some(Field::Seconds(&mut self.tcp_timeout_max_retrans)),
                "unacknowledged" => {
                    return Some(Field::Seconds(&mut self.tcp_timeout_unacknowledged));
                }
                _ => return None,
            };
            return Some(Field::Seconds(&mut self.tcp_timeouts[tcp as usize]));
        }
        Some(match name {
            "nf_conntrack_max" => Field::Word(&mut self.max),
            "nf_conntrack_buckets" => Field::Word(&mut self.buckets),
            "nf_conntrack_checksum" => Field::Flag(&mut self.checksum),
            "nf_conntrack_acct" => Field::Flag(&mut self.acct),
            "nf_conntrack_timestamp" => Field::Flag(&mut self.timestamp),
            "nf_conntrack_generic_timeout" => Field::Seconds(&mut self.generic_timeout),
            "nf_conntrack_tcp_loose" => Field::Flag(&mut self.tcp_loose),
            "nf_conntrack_tcp_be_liberal" => Field::Flag(&mut self.tcp_be_liberal),
            "nf_conntrack_tcp_ignore_invalid_rst" => Field::Flag(&mut self.tcp_ignore_invalid_rst),
            "nf_conntrack_tcp_max_retrans" => Field::Byte(&mut self.tcp_max_retrans),
            "nf_conntrack_udp_timeout" => Field::Seconds(&mut self.udp_timeout),
            "nf_conntrack_udp_timeout_stream" => Field::Seconds(&mut self.udp_timeout_stream),
            "nf_conntrack_icmp_timeout" => Field::Seconds(&mut self.icmp_timeout),
            "nf_conntrack_icmpv6_timeout" => Field::Seconds(&mut self.icmpv6_timeout),
            "nf_conntrack_frag6_timeout" => Field::Seconds(&mut self.frag6_timeout),
            "nf_conntrack_frag6_high_thresh" => Field::Word(&mut self.frag6_high_thresh),
            "ipfrag_time" => Field::Seconds(&mut self.ipfrag_time),
            "ipfrag_high_thresh" => Field::Word(&mut self.ipfrag_high_thresh),
            _ => return None,
        })
    }

    /// Sets a sysctl by its kernel name; a `net.netfilter.` or `net.ipv4.` prefix is allowed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
        let short = short_name(name);
        let Some(&name) = NAMES.iter().find(|n| **n == short) else {
            if let Some(&(name, why)) = NOT_APPLICABLE.iter().find(|(n, _)| *n == short) {
                return Err(SettingError::NotApplicable { name, why });
            }
            return Err(SettingError::Unknown { name: name.to_owned(), near: nearest(short) });
        };
        let field = self.field(name).expect("every name has a field");
        let range = field.range();
        let refused = || SettingError::Value { name, range, value: value.to_owned() };
        fn parse<T: FromStr>(value: &str) -> Option<T> {
            value.trim().parse().ok()
        }
        match field {
            Field::Flag(f) => {
                *f = match value.trim() {
                    "0" => false,
                    "1" => true,
                    _ => return Err(refused()),
                }
            }
            Field::Seconds(s) => *s = Seconds(parse(value).ok_or_else(refused)?),
            Field::Byte(b) => *b = parse(value).ok_or_else(refused)?,
            Field::Word(w) => *w = parse(value).ok_or_else(refused)?,
        }
        Ok(())
    }

    /// The value of a setting as the kernel would print it.
    pub fn get(&self, name: &str) -> Option<String> {
        let mut scratch = self.clone();
        Some(match scratch.field(short_name(name))? {
            Field::Flag(f) => u8::from(*f).to_string(),
            Field::Seconds(s) => s.0.to_string(),
            Field::Byte(b) => b.to_string(),
            Field::Word(w) => w.to_string(),
        })
    }
}

fn short_name(name: &str) -> &str {
    let name = name.strip_prefix("net.netfilter.").unwrap_or(name);
    let name = name.strip_prefix("net.ipv4.").unwrap_or(name);
    if name == "net.nf_conntrack_max" { "nf_conntrack_max" } else { name }
}

/// The known name with the most in common with `name`, if that is much: by shared pieces between underscores.
fn nearest(name: &str) -> Option<&'static str> {
    let pieces: Vec<&str> = name.split(['_', '.', '-']).collect();
    let score = |known: &str| {
        let shared = known.split('_').filter(|p| pieces.contains(p)).count();
        let length = known.split('_').count().max(pieces.len());
        (shared * 100) / length
    };
    let best = NAMES.iter().copied().max_by_key(|n| score(n))?;
    (score(best) >= 50).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_and_gets() {
        let mut s = Settings::default();
        for info in Settings::names() {
            let before = s.get(info.name).expect("has a value");
            let other = if before == "1" { "0" } else { "1" };
            s.set(info.name, other).unwrap_or_else(|e| panic!("{}: {e}", info.name));
            assert_eq!(s.get(info.name).as_deref(), Some(other), "{}", info.name);
            s.set(&format!("net.netfilter.{}", info.name), &before).expect("prefix is allowed");
        }
        assert_eq!(s, Settings::default());
    }

    #[test]
    fn kernel_defaults() {
        let s = Settings::default();
        for (name, value) in [
            ("nf_conntrack_tcp_timeout_established", "432000"),
            ("nf_conntrack_tcp_timeout_syn_recv", "60"),
            ("nf_conntrack_tcp_timeout_close", "10"),
            ("nf_conntrack_udp_timeout", "30"),
            ("nf_conntrack_udp_timeout_stream", "120"),
            ("nf_conntrack_tcp_max_retrans", "3"),
            ("nf_conntrack_generic_timeout", "600"),
            ("nf_conntrack_tcp_loose", "1"),
            ("nf_conntrack_acct", "0"),
        ] {
            assert_eq!(s.get(name).as_deref(), Some(value), "{name}");
        }
    }

    #[test]
    fn refusals_say_why() {
        let mut s = Settings::default();
        let e = s.set("nf_conntrack_tcp_timeout_estblished", "5").expect_err("misspelt");
        assert!(e.to_string().contains("did you mean nf_conntrack_tcp_timeout_"), "{e}");
        let e = s.set("nf_conntrack_tcp_loose", "yes").expect_err("not a number");
        assert_eq!(e.to_string(), "nf_conntrack_tcp_loose takes 0 or 1, not 'yes'");
        let e = s.set("nf_conntrack_tcp_max_retrans", "256").expect_err("out of range");
        assert!(e.to_string().contains("0 to 255"));
        let e = s.set("nf_conntrack_count", "1").expect_err("read-only");
        assert!(e.to_string().contains("read-only"), "{e}");
        assert!(s.set("nonsense", "1").is_err());
        s.set("nf_conntrack_udp_timeout", "-3").expect("the kernel takes any integer");
        assert_eq!(s.udp_timeout.span(), Span::ZERO);
    }
}

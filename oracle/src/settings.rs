//! The namespace's `net.netfilter.*` settings, by the kernel's names.

use std::collections::BTreeMap;

/// Default time-outs in seconds (Linux 6.18, `net.netfilter.*`).
const TIMEOUTS: [(&str, i64); 25] = [
    ("nf_conntrack_generic_timeout", 600),
    ("nf_conntrack_tcp_timeout_syn_sent", 120),
    ("nf_conntrack_tcp_timeout_syn_recv", 60),
    ("nf_conntrack_tcp_timeout_established", 432_000),
    ("nf_conntrack_tcp_timeout_fin_wait", 120),
    ("nf_conntrack_tcp_timeout_close_wait", 60),
    ("nf_conntrack_tcp_timeout_last_ack", 30),
    ("nf_conntrack_tcp_timeout_time_wait", 120),
    ("nf_conntrack_tcp_timeout_close", 10),
    ("nf_conntrack_tcp_timeout_max_retrans", 300),
    ("nf_conntrack_tcp_timeout_unacknowledged", 300),
    ("nf_conntrack_udp_timeout", 30),
    ("nf_conntrack_udp_timeout_stream", 120),
    ("nf_conntrack_icmp_timeout", 30),
    ("nf_conntrack_icmpv6_timeout", 30),
    ("nf_conntrack_sctp_timeout_closed", 10),
    ("nf_conntrack_sctp_timeout_cookie_wait", 3),
    ("nf_conntrack_sctp_timeout_cookie_echoed", 3),
    ("nf_conntrack_sctp_timeout_established", 210),
    ("nf_conntrack_sctp_timeout_shutdown_sent", 3),
    ("nf_conntrack_sctp_timeout_shutdown_recd", 3),
    ("nf_conntrack_sctp_timeout_shutdown_ack_sent", 3),
    ("nf_conntrack_sctp_timeout_heartbeat_sent", 30),
    ("nf_conntrack_gre_timeout", 30),
    ("nf_conntrack_gre_timeout_stream", 180),
];

/// Other settings that cases vary, with the kernel's defaults, except accounting and events,
/// which the judge needs on.
const OTHERS: [(&str, i64); 7] = [
    ("nf_conntrack_acct", 1),
    ("nf_conntrack_events", 1),
    ("nf_conntrack_checksum", 1),
    ("nf_conntrack_tcp_be_liberal", 0),
    ("nf_conntrack_tcp_ignore_invalid_rst", 0),
    ("nf_conntrack_tcp_loose", 1),
    ("nf_conntrack_tcp_max_retrans", 3),
];

/// Seconds that [`Settings::default`] adds to every time-out, so that a slow run expires nothing.
pub const LENGTHENED: u32 = 100_000;

/// The settings of a case: every `net.netfilter.*` value the judge sets, by name.
///
/// All time-outs are written to the kernel `lengthen` seconds longer than stated here, and are
/// reported without that. Adding the same number everywhere keeps every comparison between two
/// time-outs as it is. SYN_SENT2 (120 s) has no setting and stays short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    values: BTreeMap<&'static str, i64>,
    lengthen: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let values = TIMEOUTS.into_iter().chain(OTHERS).collect();
        Self { values, lengthen: LENGTHENED }
    }
}

impl Settings {
    /// The kernel's defaults with real time-outs, for cases that wait.
    #[must_use]
    pub fn unlengthened() -> Self {
        Self { lengthen: 0, ..Self::default() }
    }

    /// Changes one setting. Time-outs are in seconds.
    ///
    /// # Errors
    /// Gives the name back if the judge does not know it.
    pub fn set(&mut self, name: &str, value: i64) -> Result<(), String> {
        let slot = self.values.iter_mut().find(|(known, _)| **known == name);
        let (_, slot) = slot.ok_or_else(|| name.to_owned())?;
        *slot = value;
        Ok(())
    }

    /// [`set`](Self::set) in a chain.
    ///
    /// # Panics
    /// If the judge does not know `name`.
    #[must_use]
    pub fn with(mut self, name: &str, value: i64) -> Self {
        if let Err(name) = self.set(name, value) {
            panic!("unknown setting {name}");
        }
        self
    }

    /// Seconds added to every time-out in the kernel.
    #[must_use]
    pub fn lengthen(&self) -> u32 {
        self.lengthen
    }

    /// Name and value (without lengthening) of every setting.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, i64)> {
        self.values.iter().map(|(&name, &value)| (name, value))
    }

    /// Name and value as the kernel gets it.
    pub(crate) fn kernel(&self) -> impl Iterator<Item = (&'static str, i64)> {
        self.iter().map(|(name, value)| {
            let timeout = name.contains("timeout");
            (name, if timeout { value + i64::from(self.lengthen) } else { value })
        })
    }

    /// True iff some time-out setting has this value in seconds.
    pub(crate) fn is_timeout(&self, seconds: i64) -> bool {
        self.values.iter().any(|(name, &value)| name.contains("timeout") && value == seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_timeouts_are_lengthened() {
        let settings = Settings::default().with("nf_conntrack_udp_timeout", 7);
        let kernel: BTreeMap<_, _> = settings.kernel().collect();
        assert_eq!(kernel["nf_conntrack_udp_timeout"], 100_007);
        assert_eq!(kernel["nf_conntrack_tcp_max_retrans"], 3);
        assert!(settings.is_timeout(7) && !settings.is_timeout(8));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert_eq!(Settings::default().set("nf_conntrack_max", 5), Err("nf_conntrack_max".into()));
    }
}

//! What can go wrong, and what may be missing on this machine.

use std::io;

/// Something the judge needs and this machine (or this user) does not have.
///
/// A caller prints it and skips; with `FOURTUPLE_ORACLE=required` in the environment
/// ([`required`]) it treats it as a failure.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The caller may not make network namespaces.
    #[error("needs root (or CAP_SYS_ADMIN and CAP_NET_ADMIN) to make a network namespace: {0}")]
    Root(#[source] io::Error),
    /// `/dev/net/tun` is missing or refuses a TAP device.
    #[error("needs TAP devices (/dev/net/tun, CONFIG_TUN): {0}")]
    Tap(#[source] io::Error),
    /// No bridge device could be made.
    #[error("needs bridge devices (CONFIG_BRIDGE): {0}")]
    Bridge(#[source] io::Error),
    /// The bridge cannot hand packets to the IP hooks.
    #[error("needs br_netfilter (CONFIG_BRIDGE_NETFILTER): {0}")]
    BridgeNetfilter(#[source] io::Error),
    /// Connection tracking or its netlink interface is missing.
    #[error("needs nf_conntrack with ctnetlink (CONFIG_NF_CONNTRACK, CONFIG_NF_CT_NETLINK): {0}")]
    Conntrack(#[source] io::Error),
    /// nftables with the `inet` family and the `ct` and `log` expressions is missing.
    #[error("needs nftables with ct and log (CONFIG_NF_TABLES_INET, NFT_CT, NFT_LOG): {0}")]
    Nftables(#[source] io::Error),
    /// The NFLOG netlink interface is missing.
    #[error("needs NFLOG (CONFIG_NETFILTER_NETLINK_LOG): {0}")]
    Nflog(#[source] io::Error),
}

/// Any failure of the judge.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel interface is not there at all; see [`Unavailable`].
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// A system call or netlink request failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The kernel sent something that is not in the form this crate knows.
    #[error("kernel message not understood: {0}")]
    Decode(String),
    /// A capture file is not readable.
    #[error("capture, at byte {offset}: {what}")]
    Capture {
        /// Byte offset in the (decompressed) file.
        offset: usize,
        /// What was expected and what was found.
        what: String,
    },
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the name of the action to a system error.
pub(crate) trait During<T> {
    fn during(self, what: impl Into<String>) -> Result<T>;
}

impl<T, E: Into<io::Error>> During<T> for std::result::Result<T, E> {
    fn during(self, what: impl Into<String>) -> Result<T> {
        self.map_err(|error| Error::Io { what: what.into(), source: error.into() })
    }
}

/// True iff the environment says that a missing kernel interface is a failure
/// (`FOURTUPLE_ORACLE=required`), as it is in CI.
#[must_use]
pub fn required() -> bool {
    std::env::var_os("FOURTUPLE_ORACLE").is_some_and(|value| value == "required")
}

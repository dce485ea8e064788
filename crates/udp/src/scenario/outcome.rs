//! What comes of an operation.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::operation::Number;

/// One end of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketEnd {
    /// The address.
    pub addr: IpAddr,
    /// The port.
    pub port: u16,
}

/// The answer to one operation, one object a line.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The operation.
    pub op: Cow<'static, str>,
    /// The socket's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Number>,
    /// `ok` or an errno's name; of a datagram `delivered`, `port-unreachable` or `dropped`; of an ICMP
    /// error `socket-error`, `queued`, `ignored` or `no-socket`.
    pub result: Cow<'static, str>,
    /// The socket's own end, after `bind`, `connect` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<SocketEnd>,
    /// The peer; null if there is none. Present whenever `local` is.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::outcome::present"
    )]
    pub peer: Option<Option<SocketEnd>>,
    /// Who got the datagram, in order of creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<Number>>,
    /// Where the socket was found: `hash4`, `hash2`, `hash2-any`, `hash`, `early-demux`, `program` or
    /// `copies`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<Cow<'static, str>>,
    /// The members of the unconnected reuseport group that chose, in order of creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Vec<Number>>,
    /// The errno an ICMP error set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno: Option<Cow<'static, str>>,
    /// Why a datagram was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Every step of the look-up, if they were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
}

pub(super) fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

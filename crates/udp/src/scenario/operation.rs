//! The operations.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An address as it is written: `10.1.0.1`, `fd01::1`, `fe80::1%d0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addr {
    /// The address. Its form is the family, whatever the socket's.
    pub ip: IpAddr,
    /// The device after the percent sign.
    pub scope: Option<String>,
}

impl FromStr for Addr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (addr, scope) = match text.split_once('%') {
            Some((addr, scope)) => (addr, Some(scope)),
            None => (text, None),
        };
        let ip: IpAddr = addr.parse().map_err(|_| {
            format!("bad address {text:?}: expected IPv4 or IPv6, as 10.1.0.1 or fe80::1%d0")
        })?;
        if scope.is_some_and(str::is_empty) || (scope.is_some() && ip.is_ipv4()) {
            return Err(format!(
                "bad address {text:?}: a scope is a device's name after an IPv6 address"
            ));
        }
        Ok(Self { ip, scope: scope.map(str::to_owned) })
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            Some(scope) => write!(f, "{}%{scope}", self.ip),
            None => write!(f, "{}", self.ip),
        }
    }
}

impl Serialize for Addr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Addr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// An address and a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// The address.
    pub addr: Addr,
    /// The port.
    pub port: u16,
}

/// A number, or a string with one, as sysctls are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// As a JSON number.
    Number(i64),
    /// As text.
    Text(String),
}

/// How `change` is spelled in the operation `source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilterChange {
    /// The source is no longer heard.
    Block,
    /// Undoes a block.
    Unblock,
    /// Only listed sources are heard; joins.
    Add,
    /// Undoes an add.
    Drop,
}

/// The number a scenario gives a socket.
pub type Number = u64;

/// Absent, `null` and a value are three things.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// The options of `socket` and `set`. What is absent is not touched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // Each is the socket option of its name.
pub struct OptionFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuseaddr: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reuseport: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v6only: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub freebind: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transparent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_address_no_port: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recverr: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recverr6: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multicast_all: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multicast_all6: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_check6_rx: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmtu_dont: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pmtu_dont6: Option<bool>,
    /// `SO_BINDTODEVICE`; null clears.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub device: Option<Option<String>>,
    /// -1 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub incoming_cpu: Option<i32>,
    /// Lower and upper bound, 0 for unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_port_range: Option<(u16, u16)>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub multicast_if: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub multicast_if6: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub unicast_if: Option<Option<String>>,
}

/// What a new socket is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketFields {
    /// The socket's number in the scenario.
    pub id: Number,
    /// 4 or 6; 4 if absent.
    #[serde(default = "four")]
    pub family: u8,
    /// The owner; root if absent.
    #[serde(default)]
    pub uid: u32,
    /// Whether it may bind privileged ports; by the owner if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub privileged: Option<bool>,
    /// Its options.
    #[serde(flatten)]
    pub options: OptionFields,
}

const fn four() -> u8 {
    4
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
#[allow(missing_docs)] // The fields are those of the scenario format.
pub enum Operation {
    /// A device with addresses and prefix lengths.
    Device {
        name: String,
        #[serde(default)]
        addresses: Vec<String>,
    },
    /// A kernel setting.
    Sysctl { name: String, value: Value },
    /// A new socket.
    Socket(SocketFields),
    /// Options of a socket.
    Set {
        id: Number,
        #[serde(flatten)]
        options: OptionFields,
    },
    /// `bind`.
    Bind { id: Number, addr: Addr, port: u16 },
    /// What a send without bind does: a port is chosen.
    Autobind { id: Number },
    /// `connect`.
    Connect { id: Number, addr: Addr, port: u16 },
    /// `connect` with `AF_UNSPEC`.
    Disconnect { id: Number },
    /// A connected socket in one step.
    ConnectFrom {
        #[serde(flatten)]
        socket: SocketFields,
        local: Endpoint,
        peer: Endpoint,
    },
    /// Joins a multicast group.
    Join {
        id: Number,
        group: Addr,
        #[serde(default)]
        device: Option<String>,
    },
    /// Leaves a multicast group.
    Leave {
        id: Number,
        group: Addr,
        #[serde(default)]
        device: Option<String>,
    },
    /// Changes the source filter of a membership.
    Source {
        id: Number,
        group: Addr,
        #[serde(default)]
        device: Option<String>,
        change: FilterChange,
        source: Addr,
    },
    /// A datagram arrives.
    Send {
        src: Addr,
        sport: u16,
        dst: Addr,
        dport: u16,
        /// The arrival device; by the source if absent.
        #[serde(default)]
        device: Option<String>,
        /// How many equal datagrams.
        #[serde(default = "one")]
        n: u32,
        #[serde(default)]
        cpu: Option<u16>,
        #[serde(default = "yes")]
        checksum: bool,
    },
    /// An ICMP error about a datagram from `src` to `dst` arrives.
    Icmp {
        #[serde(rename = "type")]
        kind: u8,
        code: u8,
        src: Addr,
        sport: u16,
        dst: Addr,
        dport: u16,
        #[serde(default)]
        device: Option<String>,
        /// The CPU it arrives on.
        #[serde(default)]
        cpu: Option<u16>,
    },
    /// Closes a socket.
    Close { id: Number },
}

impl Operation {
    /// The fields each operation knows, besides the options; for messages about others.
    const OPTIONS: &[&str] = &[
        "reuseaddr",
        "reuseport",
        "v6only",
        "broadcast",
        "freebind",
        "transparent",
        "bind_address_no_port",
        "recverr",
        "recverr6",
        "multicast_all",
        "multicast_all6",
        "no_check6_rx",
        "pmtu_dont",
        "pmtu_dont6",
        "device",
        "incoming_cpu",
        "local_port_range",
        "multicast_if",
        "multicast_if6",
        "unicast_if",
    ];

    const fn fields(op: &str) -> Option<(&'static [&'static str], bool)> {
        Some(match op.as_bytes() {
            b"device" => (&["name", "addresses"], false),
            b"sysctl" => (&["name", "value"], false),
            b"socket" => (&["id", "family", "uid", "privileged"], true),
            b"set" => (&["id"], true),
            b"bind" | b"connect" => (&["id", "addr", "port"], false),
            b"autobind" | b"disconnect" | b"close" => (&["id"], false),
            b"connect-from" => (&["id", "family", "uid", "privileged", "local", "peer"], true),
            b"join" | b"leave" => (&["id", "group", "device"], false),
            b"source" => (&["id", "group", "device", "change", "source"], false),
            b"send" => (&["src", "sport", "dst", "dport", "device", "n", "cpu", "checksum"], false),
            b"icmp" => (&["type", "code", "src", "sport", "dst", "dport", "device", "cpu"], false),
            _ => return None,
        })
    }

    /// Reads one operation.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words: no JSON, an unknown operation, a missing, unknown or bad field.
    pub fn parse(text: &str) -> Result<Self, String> {
        // serde's flattening cannot refuse unknown fields, so they are looked for first.
        let object: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(text).map_err(|e| format!("no JSON object: {}", plain(&e)))?;
        let Some(op) = object.get("op") else {
            return Err("missing field `op`".to_owned());
        };
        let Some(op) = op.as_str() else {
            return Err("field `op` is not a string".to_owned());
        };
        let Some((own, options)) = Self::fields(op) else {
            return Err(format!("unknown operation `{op}`"));
        };
        for field in object.keys() {
            let known = field == "op"
                || own.contains(&field.as_str())
                || (options && Self::OPTIONS.contains(&field.as_str()));
            if !known {
                return Err(format!("unknown field `{field}` of operation `{op}`"));
            }
        }
        let op = op.to_owned();
        serde_json::from_value(serde_json::Value::Object(object))
            .map_err(|e| format!("operation `{op}`: {}", plain(&e)))
    }
}

/// A message of serde's without its position, which is one in the line, not in the file.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

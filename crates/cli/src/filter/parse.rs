//! From words to an expression.

use std::net::IpAddr;

use fourtuple::packet::{Address, Family, protocol};

use super::lex::{Token, tokens};
use super::{End, Expr, FilterError, Op, Test};

/// Parentheses and negations within one another; more is no expression that a person typed.
const MAX_DEPTH: usize = 64;

const PROTOCOLS: [(&str, u8); 11] = [
    ("tcp", protocol::TCP),
    ("udp", protocol::UDP),
    ("icmp", protocol::ICMP),
    ("icmp6", protocol::ICMPV6),
    ("icmpv6", protocol::ICMPV6),
    ("sctp", protocol::SCTP),
    ("gre", protocol::GRE),
    ("udplite", protocol::UDP_LITE),
    ("dccp", protocol::DCCP),
    ("esp", 50),
    ("ah", 51),
];

/// What stands before a value. A value without any takes those of the value before it.
#[derive(Clone, Copy, Debug, Default)]
struct Qualifiers {
    /// `tcp`, `ip6`, ...
    class: Option<Test>,
    end: Option<End>,
    kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Host,
    Net,
    Port,
    PortRange,
    Proto,
}

impl Kind {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "host" => Self::Host,
            "net" => Self::Net,
            "port" => Self::Port,
            "portrange" => Self::PortRange,
            "proto" => Self::Proto,
            _ => return None,
        })
    }

    const fn wants(self) -> &'static str {
        match self {
            Self::Host => "an address",
            Self::Net => "a network such as 10.0.0.0/8",
            Self::Port => "a port number",
            Self::PortRange => "a range of ports such as 1000-2000",
            Self::Proto => "a protocol number or name",
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Expr, FilterError> {
    let tokens = tokens(text);
    let mut parser = Parser { text, tokens: &tokens, at: 0, last: Qualifiers::default(), depth: 0 };
    let expr = parser.chain()?;
    match parser.peek() {
        None => Ok(expr),
        Some(")") => Err(parser.error("this parenthesis was not opened")),
        Some(word) => Err(parser.error(&format!("expected 'and' or 'or' before '{word}'"))),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: &'a [Token<'a>],
    at: usize,
    last: Qualifiers,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.at).map(|t| t.text)
    }

    fn take(&mut self, words: [&str; 2]) -> bool {
        let found = self.peek().is_some_and(|t| words.contains(&t));
        self.at += usize::from(found);
        found
    }

    /// An error at the current word, or behind the last.
    fn error(&self, message: &str) -> FilterError {
        self.error_at(self.at, message)
    }

    fn error_at(&self, token: usize, message: &str) -> FilterError {
        let end = self.text.trim_end().chars().count() + 1;
        let column = self.tokens.get(token).map_or(end, |t| t.column);
        // One line, so that the mark below it is right.
        let text = self.text.replace(|c: char| c.is_whitespace(), " ");
        FilterError { message: format!("column {column}: {message}"), text, column }
    }

    fn chain(&mut self) -> Result<Expr, FilterError> {
        let first = self.unary()?;
        let mut rest = Vec::new();
        loop {
            let op = if self.take(["and", "&&"]) {
                Op::And
            } else if self.take(["or", "||"]) {
                Op::Or
            } else {
                break;
            };
            rest.push((op, self.unary()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Chain(Box::new(first), rest) })
    }

    fn unary(&mut self) -> Result<Expr, FilterError> {
        let opened = self.at;
        if self.take(["not", "!"]) {
            let inner = self.deeper(Self::unary)?;
            return Ok(Expr::Not(Box::new(inner)));
        }
        if self.take(["(", "("]) {
            let inner = self.deeper(Self::chain)?;
            if !self.take([")", ")"]) {
                return Err(match self.peek() {
                    None => self.error_at(opened, "this parenthesis is not closed"),
                    Some(word) => {
                        self.error(&format!("expected 'and', 'or' or ')' before '{word}'"))
                    }
                });
            }
            return Ok(inner);
        }
        self.primitive()
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, FilterError>,
    ) -> Result<T, FilterError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("too many levels of parentheses and negations"));
        }
        let out = inner(self);
        self.depth -= 1;
        out
    }

    /// `[tcp] [src] [port] 80`, each part optional.
    fn primitive(&mut self) -> Result<Expr, FilterError> {
        let mut q = Qualifiers::default();
        let start = self.at;
        if let Some(class) = self.peek().and_then(class) {
            q.class = Some(class);
            self.at += 1;
        }
        q.end = match self.peek() {
            Some("src") => Some(End::Src),
            Some("dst") => Some(End::Dst),
            _ => None,
        };
        self.at += usize::from(q.end.is_some());
        q.kind = self.peek().and_then(Kind::of);
        self.at += usize::from(q.kind.is_some());
        if let (Some(class), None, None) = (q.class, q.end, q.kind) {
            self.last = Qualifiers::default();
            return Ok(Expr::Test(class));
        }
        let bare = self.at == start;
        if bare {
            q = self.last;
        }
        let test = self.value(&q, bare)?;
        self.last = q;
        Ok(match q.class {
            Some(class) => {
                Expr::Chain(Box::new(Expr::Test(class)), vec![(Op::And, Expr::Test(test))])
            }
            None => Expr::Test(test),
        })
    }

    fn value(&mut self, q: &Qualifiers, bare: bool) -> Result<Test, FilterError> {
        let wanted = match q.kind {
            Some(kind) if !bare => kind.wants(),
            _ if bare => "a test such as 'host 10.0.0.1', 'port 80' or 'tcp'",
            _ => "an address, or one of host, net, port, portrange",
        };
        let Some(word) = self.peek() else {
            return Err(self.error(&format!("expected {wanted} here, at the end")));
        };
        if matches!(word, ")" | "and" | "or" | "&&" | "||" | "not" | "!" | "(") {
            return Err(self.error(&format!("expected {wanted}, not '{word}'")));
        }
        let end = q.end.unwrap_or(End::Either);
        let test = match q.kind {
            Some(Kind::Port) => number(word).map(|n| Test::Port { end, from: n, to: n }),
            Some(Kind::PortRange) => range(word).map(|(from, to)| Test::Port { end, from, to }),
            Some(Kind::Proto) => {
                let named = PROTOCOLS.iter().find(|(name, _)| *name == word);
                let number = named.map(|(_, n)| *n).or_else(|| number(word));
                number.map(Test::Protocol)
            }
            Some(Kind::Host | Kind::Net) | None => self.address(end, q.kind, word)?,
        };
        let Some(test) = test else {
            let message = match q.kind {
                None if number::<u64>(word).is_some() => {
                    format!("'{word}' alone says nothing: did you mean 'port {word}'?")
                }
                _ => format!("expected {wanted}, not '{word}'"),
            };
            return Err(self.error(&message));
        };
        self.at += 1;
        Ok(test)
    }

    /// An address, or a network; `None` if `word` is neither.
    fn address(
        &self,
        end: End,
        kind: Option<Kind>,
        word: &str,
    ) -> Result<Option<Test>, FilterError> {
        let (text, bits) = match word.split_once('/') {
            Some(_) if kind == Some(Kind::Host) => {
                return Err(self.error("a host has no mask: say 'net'"));
            }
            Some((text, bits)) => (text, Some(bits)),
            None => (word, None),
        };
        let Ok(address) = text.parse::<IpAddr>() else {
            let name = kind.is_some() && text.chars().any(|c| c.is_ascii_alphabetic());
            return if name && !text.contains(':') {
                Err(self.error(&format!("'{text}' is not an address, and names are not looked up")))
            } else {
                Ok(None)
            };
        };
        let (family, prefix, most) = match address {
            IpAddr::V4(a) => {
                let mut prefix: Address = [0; 16];
                prefix[..4].copy_from_slice(&a.octets());
                (Family::V4, prefix, 32)
            }
            IpAddr::V6(a) => (Family::V6, a.octets(), 128),
        };
        let bits = match bits {
            None => most,
            Some(bits) => match number(bits) {
                Some(bits) if bits <= most => bits,
                _ => {
                    return Err(
                        self.error(&format!("a mask here is 0 to {most} bits, not '{bits}'"))
                    );
                }
            },
        };
        let beyond = u128::from_be_bytes(prefix).checked_shl(u32::from(bits)).unwrap_or(0);
        if beyond != 0 {
            return Err(self.error(&format!("{text} has bits set beyond its mask of {bits}")));
        }
        Ok(Some(Test::Net { end, family, prefix, bits }))
    }
}

fn class(word: &str) -> Option<Test> {
    match word {
        "ip" | "ip4" => Some(Test::Family(Family::V4)),
        "ip6" => Some(Test::Family(Family::V6)),
        _ => PROTOCOLS.iter().find(|(name, _)| *name == word).map(|(_, n)| Test::Protocol(*n)),
    }
}

/// Digits only: no sign, as `parse` would allow.
fn number<T: std::str::FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok())?
}

fn range(word: &str) -> Option<(u16, u16)> {
    let (from, to) = word.split_once('-')?;
    let (from, to) = (number(from)?, number(to)?);
    (from <= to).then_some((from, to))
}

//! The packet that an ICMP error quotes.
//!
//! What is looked at is what Linux connection tracking looks at (`nf_conntrack_inet_error`, 6.18): enough to find the
//! flow that the quoted packet belongs to. Version, total length and checksums of the quoted headers are not: routers
//! rewrite and cut what they quote.

use crate::ip::{self, Address, Family, protocol};
use crate::l4::{self, Gre, L4, L4Error};
use thiserror::Error;

/// A packet quoted by an ICMP error, as far as its flow is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Family: that of the packet which quotes.
    pub family: Family,
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Transport protocol behind all extension headers.
    pub protocol: u8,
    /// What stands in for ports.
    pub l4: QuotedL4,
}

/// Transport fields of a quoted packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotedL4 {
    /// Source and destination port of TCP, UDP, UDP-Lite or SCTP.
    Ports(u16, u16),
    /// ICMP or ICMPv6.
    Icmp {
        /// Type.
        ty: u8,
        /// Code.
        code: u8,
        /// Bytes 4 and 5: the identifier of queries.
        id: u16,
    },
    /// GRE.
    Gre(Gre),
    /// A protocol known by its number alone.
    None,
}

/// Why a quoted packet leads to no flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QuoteError {
    /// Less of the IP header than is needed.
    #[error("{there} bytes quoted, the quoted IP header has {need}")]
    HeaderShort {
        /// Bytes quoted.
        there: u32,
        /// Bytes of the header.
        need: u32,
    },
    /// A fragment other than the first has no ports.
    #[error("the quoted packet is the fragment at offset {offset}, which carries no ports")]
    Fragment {
        /// Its offset in bytes.
        offset: u32,
    },
    /// The way through the IPv6 extension headers ends early.
    #[error("quoted packet: {0}")]
    Chain(L4Error),
    /// Less of the transport header than is needed.
    #[error("{there} bytes of the quoted transport header are there, {need} are needed")]
    TransportShort {
        /// Bytes quoted behind the IP header.
        there: u32,
        /// Bytes needed.
        need: u32,
    },
}

/// Why an ICMPv6 redirect leads to no quoted packet (RFC 4861, sections 4.5 and 4.6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RedirectError {
    /// No room for a first option behind the two addresses.
    #[error("a redirect of {there} bytes has no option")]
    NoOption {
        /// Length of the ICMPv6 message.
        there: u32,
    },
    /// The first option's length is zero.
    #[error("the redirect's first option has length zero")]
    ZeroLength,
    /// The first option is not the redirected header (4).
    #[error("the redirect's first option has type {0}, not 4 (redirected header)")]
    OtherOption(u8),
    /// The packet in the option leads to no flow.
    #[error(transparent)]
    Quote(#[from] QuoteError),
}

/// Reads the packet quoted by an ICMP or ICMPv6 error whose own family is `family`; `body` is what follows the 8-byte
/// ICMP header ([`crate::Icmp::body`]).
///
/// If the capture cut the packet that quotes, an error may be the capture's fault: ask [`crate::Packet::is_cut`].
///
/// # Errors
///
/// [`QuoteError`]: too little quoted, or a fragment other than the first ("more fragments" alone is fine).
pub fn quoted(family: Family, body: &[u8]) -> Result<Quoted, QuoteError> {
    match family {
        Family::V4 => quoted_v4(body),
        Family::V6 => quoted_v6(body),
    }
}

/// Reads the packet in the redirected-header option of an ICMPv6 redirect (type 137); `body` is what follows the
/// 8-byte ICMPv6 header: target address, destination address, options.
///
/// As Linux does, only the first option is looked at, and its length only compared with zero: the quoted packet may
/// end with the message.
///
/// # Errors
///
/// [`RedirectError`]; connection tracking calls all of them invalid.
pub fn redirect_quoted(body: &[u8]) -> Result<Quoted, RedirectError> {
    const ADDRESSES: usize = 32;
    const REDIRECTED_HEADER: u8 = 4;
    const OPTION_HEADER: usize = 8;
    let option = body.get(ADDRESSES..).unwrap_or(&[]);
    match option {
        [_, 0, ..] => Err(RedirectError::ZeroLength),
        [REDIRECTED_HEADER, _, ..] => {
            let packet = option.get(OPTION_HEADER..).unwrap_or(&[]);
            Ok(quoted_v6(packet)?)
        }
        [other, _, ..] => Err(RedirectError::OtherOption(*other)),
        _ => Err(RedirectError::NoOption { there: body.len() as u32 + 8 }),
    }
}

fn quoted_v4(body: &[u8]) -> Result<Quoted, QuoteError> {
    let there = body.len() as u32;
    let Some(h) = body.first_chunk::<20>() else {
        return Err(QuoteError::HeaderShort { there, need: 20 });
    };
    let offset = u32::from(u16::from_be_bytes([h[6], h[7]]) & 0x1fff) * 8;
    if offset != 0 {
        return Err(QuoteError::Fragment { offset });
    }
    // A header length below five words is not refused either: the ports are then read from where it says.
    let header = usize::from(h[0] & 15) * 4;
    let Some(l4) = body.get(header..) else {
        return Err(QuoteError::HeaderShort { there, need: header as u32 });
    };
    Ok(Quoted {
        family: Family::V4,
        src: ip::v4_address([h[12], h[13], h[14], h[15]]),
        dst: ip::v4_address([h[16], h[17], h[18], h[19]]),
        protocol: h[9],
        l4: transport(h[9], l4)?,
    })
}

fn quoted_v6(body: &[u8]) -> Result<Quoted, QuoteError> {
    let there = body.len() as u32;
    let Some(h) = body.first_chunk::<40>() else {
        return Err(QuoteError::HeaderShort { there, need: 40 });
    };
    let walk = ip::walk(body, there, h[6]);
    if let Some(f) = walk.last_fragment
        && f.offset != 0
    {
        return Err(QuoteError::Fragment { offset: f.offset });
    }
    walk.end.map_err(QuoteError::Chain)?;
    Ok(Quoted {
        family: Family::V6,
        src: h[8..24].try_into().expect("16 bytes"),
        dst: h[24..40].try_into().expect("16 bytes"),
        protocol: walk.protocol,
        l4: transport(walk.protocol, &body[walk.at..])?,
    })
}

fn transport(proto: u8, bytes: &[u8]) -> Result<QuotedL4, QuoteError> {
    let there = bytes.len() as u32;
    match proto {
        protocol::TCP | protocol::UDP | protocol::UDP_LITE | protocol::SCTP => {
            match bytes.first_chunk::<4>() {
                Some([a, b, c, d]) => {
                    Ok(QuotedL4::Ports(u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
                }
                None => Err(QuoteError::TransportShort { there, need: 4 }),
            }
        }
        protocol::ICMP | protocol::ICMPV6 => match bytes.first_chunk::<8>() {
            Some([ty, code, _, _, hi, lo, _, _]) => {
                Ok(QuotedL4::Icmp { ty: *ty, code: *code, id: u16::from_be_bytes([*hi, *lo]) })
            }
            None => Err(QuoteError::TransportShort { there, need: 8 }),
        },
        protocol::GRE => match l4::parse(protocol::GRE, bytes, there) {
            L4::Gre(gre) => Ok(QuotedL4::Gre(gre)),
            _ => Err(QuoteError::TransportShort { there, need: 4 }),
        },
        _ => Ok(QuotedL4::None),
    }
}

#[cfg(test)]
mod tests;

//! Blocking netlink: requests, multicast reception, attributes.
//!
//! Headers and attributes are those of `netlink-packet-core`; what is here is only the nfnetlink
//! framing that ctnetlink, nf_tables and NFLOG share (`struct nfgenmsg` of
//! `linux/netfilter/nfnetlink.h`).

use std::io;

use netlink_packet_core::{
    DefaultNla, Emitable, NLM_F_ACK, NLM_F_REQUEST, NetlinkBuffer, NetlinkHeader, NlaBuffer,
};
use netlink_sys::{Socket, SocketAddr};

/// `NETLINK_ROUTE` of `linux/netlink.h`.
pub(crate) const NETLINK_ROUTE: isize = 0;
/// `NETLINK_NETFILTER` of `linux/netlink.h`.
pub(crate) const NETLINK_NETFILTER: isize = 12;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER: usize = 16;
const MSG_DONTWAIT: i32 = 0x40;

/// nfnetlink's own header: family, version 0, resource id in network order.
pub(crate) fn nfgen(family: u8, resource: u16) -> [u8; 4] {
    let id = resource.to_be_bytes();
    [family, 0, id[0], id[1]]
}

/// A plain attribute.
pub(crate) fn attr(kind: u16, value: &[u8]) -> DefaultNla {
    DefaultNla::new(kind, value.to_vec())
}

/// A zero-terminated string attribute.
pub(crate) fn text(kind: u16, value: &str) -> DefaultNla {
    let mut bytes = value.as_bytes().to_vec();
    bytes.push(0);
    DefaultNla::new(kind, bytes)
}

/// A 32-bit attribute in network order.
pub(crate) fn be32(kind: u16, value: u32) -> DefaultNla {
    attr(kind, &value.to_be_bytes())
}

/// A nest.
pub(crate) fn nest(kind: u16, inside: &[DefaultNla]) -> DefaultNla {
    DefaultNla::new(kind | netlink_packet_core::NLA_F_NESTED, encode(inside))
}

/// Attributes as bytes.
pub(crate) fn encode(attributes: &[DefaultNla]) -> Vec<u8> {
    let mut bytes = vec![0; attributes.buffer_len()];
    attributes.emit(&mut bytes);
    bytes
}

/// The attributes in `bytes`, kind without the nest bit, ending silently at the first bad one.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let buffer = NlaBuffer::new_checked(rest).ok()?;
        let (kind, length) = (buffer.kind(), usize::from(buffer.length()));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// Big-endian number of up to eight bytes.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

/// One message: header, then `body`.
pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.length = u32::try_from(HEADER + body.len()).unwrap_or(u32::MAX);
    header.message_type = kind;
    header.flags = flags | NLM_F_REQUEST;
    let mut bytes = vec![0; HEADER];
    header.emit(&mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

/// A message as received.
pub(crate) struct Received<'a> {
    pub(crate) kind: u16,
    pub(crate) payload: &'a [u8],
}

/// A netlink socket of the namespace in which it was opened.
pub(crate) struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Netlink {
    pub(crate) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, buffer: vec![0; 1 << 17] })
    }

    /// A socket that hears the given multicast groups.
    pub(crate) fn listen(protocol: isize, groups: &[u32]) -> io::Result<Self> {
        let this = Self::open(protocol)?;
        this.deep_queue()?;
        for &group in groups {
            this.socket.add_membership(group)?;
        }
        Ok(this)
    }

    /// Room for a burst: a full flush of a case's entries is one event each.
    pub(crate) fn deep_queue(&self) -> io::Result<()> {
        self.socket.set_rx_buf_sz(8 << 20)
    }

    pub(crate) fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.socket.send(bytes, 0).map(drop)
    }

    /// Hands each message of one datagram to `each`; false when nothing waits.
    pub(crate) fn poll(&mut self, mut each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        match self.receive(MSG_DONTWAIT) {
            Ok(length) => {
                messages(&self.buffer[..length], |message| {
                    each(message);
                    true
                });
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn receive(&mut self, flags: i32) -> io::Result<usize> {
        loop {
            let mut window = &mut self.buffer[..];
            match self.socket.recv(&mut window, flags) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Sends messages that each ask for an acknowledgement and waits for all of them.
    ///
    /// # Errors
    /// The first negative acknowledgement.
    pub(crate) fn transact(&mut self, bytes: &[u8], mut acks: usize) -> io::Result<()> {
        self.send(bytes)?;
        let mut failure = None;
        while acks > 0 {
            let length = self.receive(0)?;
            messages(&self.buffer[..length], |message| {
                if message.kind == NLMSG_ERROR {
                    match errno(message.payload) {
                        // A batch refused as a whole gets one answer only.
                        Some(error) => {
                            failure.get_or_insert(error);
                            acks = 0;
                        }
                        None => acks = acks.saturating_sub(1),
                    }
                }
                true
            });
        }
        failure.map_or(Ok(()), Err)
    }

    /// One request with one acknowledgement.
    pub(crate) fn request(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<()> {
        self.transact(&message(kind, flags | NLM_F_ACK, body), 1)
    }

    /// A request whose answer is one message or an error.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        body: &[u8],
        each: impl FnOnce(&[u8]),
    ) -> io::Result<()> {
        self.send(&message(kind, 0, body))?;
        let length = self.receive(0)?;
        let mut result = Ok(());
        let mut each = Some(each);
        messages(&self.buffer[..length], |message| {
            if message.kind == NLMSG_ERROR {
                result = errno(message.payload).map_or(Ok(()), Err);
            } else if let Some(each) = each.take() {
                each(message.payload);
            }
            true
        });
        result
    }

    /// A dump: `each` gets every message's payload until the end mark.
    pub(crate) fn dump(
        &mut self,
        kind: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        const NLM_F_DUMP: u16 = 0x300;
        self.send(&message(kind, NLM_F_DUMP, body))?;
        let mut outcome = None;
        while outcome.is_none() {
            let length = self.receive(0)?;
            messages(&self.buffer[..length], |message| {
                match message.kind {
                    NLMSG_DONE => outcome = Some(Ok(())),
                    NLMSG_ERROR => outcome = Some(errno(message.payload).map_or(Ok(()), Err)),
                    _ => each(message.payload),
                }
                outcome.is_none()
            });
        }
        outcome.unwrap_or(Ok(()))
    }
}

/// The error inside an NLMSG_ERROR payload; none for a positive acknowledgement.
fn errno(payload: &[u8]) -> Option<io::Error> {
    let code = payload.first_chunk().map_or(-5, |bytes| i32::from_ne_bytes(*bytes));
    (code != 0).then(|| io::Error::from_raw_os_error(-code))
}

fn messages(mut bytes: &[u8], mut each: impl FnMut(Received<'_>) -> bool) {
    while let Ok(buffer) = NetlinkBuffer::new_checked(bytes) {
        let length = buffer.length() as usize;
        let kind = buffer.message_type();
        if length < HEADER || !each(Received { kind, payload: &bytes[HEADER..length] }) {
            return;
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_what_was_encoded() {
        let bytes = encode(&[be32(7, 600), nest(1, &[text(2, "abc"), attr(3, &[1, 2, 3, 4, 5])])]);
        let outer: Vec<_> = attributes(&bytes).collect();
        assert_eq!(outer.len(), 2);
        assert_eq!((outer[0].0, number(outer[0].1)), (7, 600));
        assert_eq!(outer[1].0, 1);
        let inner: Vec<_> = attributes(outer[1].1).collect();
        assert_eq!(inner, [(2, &b"abc\0"[..]), (3, &[1, 2, 3, 4, 5][..])]);
    }

    #[test]
    fn a_cut_attribute_ends_the_walk() {
        let bytes = encode(&[be32(1, 1), be32(2, 2)]);
        assert_eq!(attributes(&bytes[..12]).count(), 1);
        assert_eq!(attributes(&[]).count(), 0);
    }
}

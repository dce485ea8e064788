//! Writing pcapng.

use std::io::Write;

use fourtuple_packet::{Instant, LinkType};

use crate::wire::{
    BYTE_ORDER_MAGIC, ENHANCED_PACKET, IF_NAME, IF_TSRESOL, INTERFACE_DESCRIPTION, OPT_COMMENT,
    OPT_END, OPT_PACKET_FLAGS, SECTION_HEADER, SHB_HARDWARE, SHB_OS, SHB_USERAPPL, pad4,
    record_limit,
};
use crate::write_pcap::{WriteError, fitting};

/// What a section header says of where the capture is from.
#[derive(Clone, Copy, Debug, Default)]
pub struct SectionInfo<'a> {
    /// The machine.
    pub hardware: Option<&'a str>,
    /// The operating system.
    pub os: Option<&'a str>,
    /// The program that writes.
    pub application: Option<&'a str>,
    /// A comment on the section.
    pub comment: Option<&'a str>,
}

/// What an interface description says.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceInfo<'a> {
    /// The link-layer header of the packets.
    pub link_type: LinkType,
    /// The most bytes of a packet, 0 for no limit.
    pub snaplen: u32,
    /// The name of the interface.
    pub name: Option<&'a str>,
}

/// A packet to write.
#[derive(Clone, Copy, Debug)]
pub struct PacketInfo<'a> {
    /// The interface, as [`PcapngWriter::add_interface`] numbered it.
    pub interface: u32,
    /// When, since the Unix epoch.
    pub time: Instant,
    /// The length on the wire.
    pub wire_len: u32,
    /// What there is of the packet.
    pub data: &'a [u8],
    /// A comment; what of it is beyond 65,535 bytes is cut, between characters.
    pub comment: Option<&'a str>,
    /// The `epb_flags` word.
    pub flags: Option<u32>,
}

/// Writes a pcapng file of one section, in little-endian order, with nanosecond time stamps.
///
/// Several small writes a packet: give it a [`std::io::BufWriter`], and flush that (or call [`Self::into_inner`]) at
/// the end.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    to: W,
    interfaces: Vec<(LinkType, u32)>,
    /// The options of the block being written, kept to be used again.
    options: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn new(to: W, section: &SectionInfo<'_>) -> Result<Self, WriteError> {
        let mut writer = Self { to, interfaces: Vec::new(), options: Vec::new() };
        let SectionInfo { hardware, os, application, comment } = *section;
        let texts = [
            (OPT_COMMENT, comment),
            (SHB_HARDWARE, hardware),
            (SHB_OS, os),
            (SHB_USERAPPL, application),
        ];
        for (code, text) in texts {
            writer.text_option(code, text);
        }
        let mut body = [0; 16];
        body[0..4].copy_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        body[4..6].copy_from_slice(&1_u16.to_le_bytes());
        // The section's length: not known beforehand, all ones.
        body[8..16].fill(0xff);
        writer.block(SECTION_HEADER, &body, &[])?;
        Ok(writer)
    }

    /// Describes an interface and returns its number.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn add_interface(&mut self, interface: &InterfaceInfo<'_>) -> Result<u32, WriteError> {
        let InterfaceInfo { link_type, snaplen, name } = *interface;
        const NANOS: u8 = 9;
        self.text_option(IF_NAME, name);
        self.option(IF_TSRESOL, &[NANOS]);
        let mut body = [0; 8];
        body[0..2].copy_from_slice(&link_type.0.to_le_bytes());
        body[4..8].copy_from_slice(&snaplen.to_le_bytes());
        self.block(INTERFACE_DESCRIPTION, &body, &[])?;
        self.interfaces.push((link_type, snaplen));
        Ok((self.interfaces.len() - 1) as u32)
    }

    /// The number of the first interface with this link type and snap length; it is added if there is none.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn interface_for(&mut self, link_type: LinkType, snaplen: u32) -> Result<u32, WriteError> {
        match self.interfaces.iter().position(|&known| known == (link_type, snaplen)) {
            Some(found) => Ok(found as u32),
            None => self.add_interface(&InterfaceInfo { link_type, snaplen, name: None }),
        }
    }

    /// Writes a packet as an enhanced packet block.
    ///
    /// # Errors
    ///
    /// If the interface has not been added, the data is longer than its snap length (or than any reader accepts), or
    /// writing fails. In the first two cases nothing has been written.
    pub fn write(&mut self, packet: &PacketInfo<'_>) -> Result<(), WriteError> {
        let PacketInfo { interface, time, wire_len, data, comment, flags } = *packet;
        let Some(&(link_type, snaplen)) = self.interfaces.get(interface as usize) else {
            let added = self.interfaces.len();
            return Err(WriteError::UndefinedInterface { interface, added });
        };
        let limit = match record_limit(snaplen, link_type.0) {
            limit if snaplen == 0 => limit,
            limit => limit.min(snaplen),
        };
        let len = fitting(data, limit)?;
        self.text_option(OPT_COMMENT, comment);
        if let Some(flags) = flags {
            self.option(OPT_PACKET_FLAGS, &flags.to_le_bytes());
        }
        let units = time.as_nanos();
        let numbers = [interface, (units >> 32) as u32, units as u32, len, wire_len];
        let mut body = [0; 20];
        for (to, number) in body.chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        self.block(ENHANCED_PACKET, &body, data)
    }

    /// Flushes and gives back what was written to.
    ///
    /// # Errors
    ///
    /// If flushing fails.
    pub fn into_inner(mut self) -> Result<W, WriteError> {
        self.to.flush()?;
        Ok(self.to)
    }

    fn text_option(&mut self, code: u16, text: Option<&str>) {
        if let Some(text) = text {
            let mut end = text.len().min(usize::from(u16::MAX));
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            self.option(code, &text.as_bytes()[..end]);
        }
    }

    /// Adds an option to the next block. `value` has at most 65,535 bytes.
    fn option(&mut self, code: u16, value: &[u8]) {
        self.options.extend_from_slice(&code.to_le_bytes());
        self.options.extend_from_slice(&(value.len() as u16).to_le_bytes());
        self.options.extend_from_slice(value);
        self.options.resize(pad4(self.options.len()), 0);
    }

    /// Writes a block of `body`, `data` and the options added since the last one. Lengths have been checked: a block is
    /// at most a record's bound, two comments and a few options long.
    fn block(&mut self, block_type: u32, body: &[u8], data: &[u8]) -> Result<(), WriteError> {
        if !self.options.is_empty() {
            self.option(OPT_END, &[]);
        }
        let padding = pad4(data.len()) - data.len();
        let length = 12 + body.len() + data.len() + padding + self.options.len();
        let length = (length as u32).to_le_bytes();
        self.to.write_all(&block_type.to_le_bytes())?;
        self.to.write_all(&length)?;
        self.to.write_all(body)?;
        self.to.write_all(data)?;
        self.to.write_all(&[0; 3][..padding])?;
        self.to.write_all(&self.options)?;
        self.options.clear();
        Ok(self.to.write_all(&length)?)
    }
}

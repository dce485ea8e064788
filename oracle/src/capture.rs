//! A small reader of pcap and pcapng, so that the judge leans on nothing that it judges.

use std::io::Read;
use std::path::Path;

use crate::error::{During, Error, Result};

/// One captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number in the file from 1.
    pub number: u64,
    /// LINKTYPE_ number of its interface.
    pub link_type: u16,
    /// The bytes that were captured.
    pub data: Vec<u8>,
    /// True iff the capture kept less than was on the wire.
    pub cut: bool,
}

impl Record {
    /// The IP packet behind the link layer (VLAN tags included), if there is one.
    #[must_use]
    pub fn ip(&self) -> Option<&[u8]> {
        let data = &self.data[..];
        let rest = match self.link_type {
            0 | 108 => {
                let family = data.get(..4)?;
                // The family is in the byte order of the host that captured.
                let family = family[0].max(family[3]);
                if matches!(family, 2 | 24 | 28 | 30) {
                    data.get(4..)?
                } else {
                    return None;
                }
            }
            1 => return ethertype(data, 12, 14),
            9 => {
                let data = data.strip_prefix(&[0xff, 0x03]).unwrap_or(data);
                match data.get(..2)? {
                    [0x00, 0x21 | 0x57] => data.get(2..)?,
                    _ => return None,
                }
            }
            12 | 14 | 101 | 228 | 229 => data,
            113 => return ethertype(data, 14, 16),
            276 => return ethertype(data, 0, 20),
            _ => return None,
        };
        matches!(rest.first()? >> 4, 4 | 6).then_some(rest)
    }
}

fn ethertype(data: &[u8], at: usize, body: usize) -> Option<&[u8]> {
    let mut kind = data.get(at..at + 2)?;
    let mut rest = data.get(body..)?;
    while matches!(kind, [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00]) {
        kind = rest.get(2..4)?;
        rest = rest.get(4..)?;
    }
    matches!(kind, [0x08, 0x00] | [0x86, 0xdd]).then_some(rest)
}

/// A capture file in memory.
pub struct Capture {
    /// All records that could be read, in order.
    pub records: Vec<Record>,
    /// What ended the reading early.
    pub fault: Option<Error>,
}

impl Capture {
    /// Reads a pcap or pcapng file, also gzip-compressed.
    ///
    /// # Errors
    /// If the file cannot be read or is neither; a fault further on is in
    /// [`fault`](Self::fault).
    pub fn open(path: &Path) -> Result<Self> {
        let name = || format!("reading {}", path.display());
        let mut bytes = std::fs::read(path).during(name())?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            let mut plain = Vec::new();
            flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut plain).during(name())?;
            bytes = plain;
        }
        let mut reader = Reader { bytes: &bytes, at: 0, big: false };
        let mut records = Vec::new();
        let fault = match bytes.first_chunk() {
            Some([0x0a, 0x0d, 0x0d, 0x0a]) => reader.pcapng(&mut records),
            Some([0xa1, 0xb2, ..]) => reader.pcap(true, &mut records),
            Some([_, _, 0xb2, 0xa1]) => reader.pcap(false, &mut records),
            _ => return Err(reader.wrong("neither pcap nor pcapng")),
        }
        .err();
        Ok(Self { records, fault })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
}

impl<'a> Reader<'a> {
    fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Capture { offset: self.at, what: what.into() }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.wrong(format!("the file ends inside {length} bytes")))?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }

    fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?;
        let bytes = [bytes[0], bytes[1], bytes[2], bytes[3]];
        Ok(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u16(&mut self) -> Result<u16> {
        let bytes = self.take(2)?;
        let bytes = [bytes[0], bytes[1]];
        Ok(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    fn pcap(&mut self, big: bool, records: &mut Vec<Record>) -> Result<()> {
        self.big = big;
        // The "modified" format has eight more bytes in each record's header.
        let extra = if self.u32()? == 0xa1b2_cd34 { 8 } else { 0 };
        self.take(16)?;
        let link_type = self.u32()? as u16;
        while self.at < self.bytes.len() {
            self.take(8)?;
            let (kept, wire) = (self.u32()?, self.u32()?);
            self.take(extra)?;
            let data = self.take(kept as usize)?.to_vec();
            let number = records.len() as u64 + 1;
            records.push(Record { number, link_type, data, cut: kept < wire });
        }
        Ok(())
    }

    fn pcapng(&mut self, records: &mut Vec<Record>) -> Result<()> {
        let mut links = Vec::new();
        while self.at < self.bytes.len() {
            let start = self.at;
            let kind = self.u32()?;
            let mut length = self.u32()?;
            if kind == 0x0a0d_0d0a {
                links.clear();
                self.big = match self.take(4)? {
                    [0x1a, 0x2b, 0x3c, 0x4d] => true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => false,
                    _ => return Err(self.wrong("no byte-order mark in a section header")),
                };
                self.at = start + 4;
                length = self.u32()?;
            }
            let end = start + length as usize;
            if length < 12 || end > self.bytes.len() {
                return Err(self.wrong(format!("a block of {length} bytes")));
            }
            self.at = start + 8;
            self.block(kind, end - 4, &mut links, records)?;
            self.at = end;
        }
        Ok(())
    }

    fn block(
        &mut self,
        kind: u32,
        end: usize,
        links: &mut Vec<u16>,
        records: &mut Vec<Record>,
    ) -> Result<()> {
        let (interface, kept, wire) = match kind {
            1 => {
                links.push(self.u16()?);
                return Ok(());
            }
            2 => {
                let interface = u32::from(self.u16()?);
                self.take(10)?;
                (interface, self.u32()?, self.u32()?)
            }
            3 => {
                let wire = self.u32()?;
                (0, wire.min((end - self.at) as u32), wire)
            }
            6 => {
                let interface = self.u32()?;
                self.take(8)?;
                (interface, self.u32()?, self.u32()?)
            }
            _ => return Ok(()),
        };
        let link_type = *links
            .get(interface as usize)
            .ok_or_else(|| self.wrong(format!("interface {interface} was not described")))?;
        if kept as usize > end.saturating_sub(self.at) {
            return Err(self.wrong(format!("{kept} bytes do not fit their block")));
        }
        let data = self.take(kept as usize)?.to_vec();
        let number = records.len() as u64 + 1;
        records.push(Record { number, link_type, data, cut: kept < wire });
        Ok(())
    }
}

//! Captures made by hand, byte by byte, and a way to read one whole.
#![allow(dead_code)]

use std::io::Cursor;

use fourtuple_capture::{CaptureError, CaptureReader};

/// True stands for big-endian.
pub(crate) type Big = bool;

pub(crate) fn u16b(big: Big, n: u16) -> [u8; 2] {
    if big { n.to_be_bytes() } else { n.to_le_bytes() }
}

pub(crate) fn u32b(big: Big, n: u32) -> [u8; 4] {
    if big { n.to_be_bytes() } else { n.to_le_bytes() }
}

pub(crate) fn pcap_header(
    big: Big,
    magic: u32,
    version: (u16, u16),
    snaplen: u32,
    network: u32,
) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(u32b(big, magic));
    b.extend(u16b(big, version.0));
    b.extend(u16b(big, version.1));
    b.extend([0; 8]);
    b.extend(u32b(big, snaplen));
    b.extend(u32b(big, network));
    b
}

pub(crate) fn pcap_record(big: Big, numbers: [u32; 4], extra: &[u8], data: &[u8]) -> Vec<u8> {
    let mut b: Vec<u8> = numbers.iter().flat_map(|&n| u32b(big, n)).collect();
    b.extend(extra);
    b.extend(data);
    b
}

pub(crate) fn option(big: Big, code: u16, value: &[u8]) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(u16b(big, code));
    b.extend(u16b(big, value.len() as u16));
    b.extend(value);
    b.resize(b.len().next_multiple_of(4), 0);
    b
}

/// `body` is padded.
pub(crate) fn block(big: Big, block_type: u32, body: &[u8]) -> Vec<u8> {
    let length = (12 + body.len().next_multiple_of(4)) as u32;
    let mut b = Vec::new();
    b.extend(u32b(big, block_type));
    b.extend(u32b(big, length));
    b.extend(body);
    b.resize(length as usize - 4, 0);
    b.extend(u32b(big, length));
    b
}

pub(crate) fn shb_with(big: Big, version: (u16, u16), section_length: [u8; 8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u32b(big, 0x1a2b_3c4d));
    body.extend(u16b(big, version.0));
    body.extend(u16b(big, version.1));
    body.extend(section_length);
    block(big, 0x0a0d_0d0a, &body)
}

pub(crate) fn shb(big: Big) -> Vec<u8> {
    shb_with(big, (1, 0), [0xff; 8])
}

pub(crate) fn idb(big: Big, link_type: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u16b(big, link_type));
    body.extend([0; 2]);
    body.extend(u32b(big, snaplen));
    body.extend(options);
    block(big, 1, &body)
}

pub(crate) fn epb(
    big: Big,
    interface: u32,
    units: u64,
    wire_len: u32,
    data: &[u8],
    options: &[u8],
) -> Vec<u8> {
    let mut body = Vec::new();
    for n in [interface, (units >> 32) as u32, units as u32, data.len() as u32, wire_len] {
        body.extend(u32b(big, n));
    }
    body.extend(data);
    body.resize(body.len().next_multiple_of(4), 0);
    body.extend(options);
    block(big, 6, &body)
}

pub(crate) fn obsolete(
    big: Big,
    interface: u16,
    units: u64,
    wire_len: u32,
    data: &[u8],
) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(u16b(big, interface));
    body.extend(u16b(big, 0xffff));
    for n in [(units >> 32) as u32, units as u32, data.len() as u32, wire_len] {
        body.extend(u32b(big, n));
    }
    body.extend(data);
    block(big, 2, &body)
}

pub(crate) fn spb(big: Big, wire_len: u32, data: &[u8]) -> Vec<u8> {
    let mut body = u32b(big, wire_len).to_vec();
    body.extend(data);
    block(big, 3, &body)
}

/// A record that owns what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) time: Option<u64>,
    pub(crate) link_type: u16,
    pub(crate) interface: u32,
    pub(crate) wire_len: u32,
    pub(crate) data: Vec<u8>,
    pub(crate) comment: Option<String>,
    pub(crate) flags: Option<u32>,
}

/// All records and the error after them, and that nothing follows an error.
pub(crate) fn drain(mut reader: CaptureReader) -> (Vec<Got>, Option<CaptureError>) {
    let mut all = Vec::new();
    while let Some(record) = reader.next() {
        match record {
            Ok(r) => all.push(Got {
                number: r.number,
                offset: r.offset,
                time: r.time.map(|t| t.as_nanos()),
                link_type: r.link_type.0,
                interface: r.interface,
                wire_len: r.wire_len,
                data: r.data.to_vec(),
                comment: r.comment.map(str::to_owned),
                flags: r.flags,
            }),
            Err(e) => {
                assert!(reader.next().is_none(), "nothing after an error");
                return (all, Some(e));
            }
        }
    }
    assert!(reader.next().is_none(), "nothing after the end");
    (all, None)
}

pub(crate) fn open(bytes: &[u8]) -> Result<CaptureReader, CaptureError> {
    CaptureReader::from_reader("a.cap", Cursor::new(bytes.to_vec()))
}

pub(crate) fn read(bytes: &[u8]) -> (Vec<Got>, Option<CaptureError>) {
    match open(bytes) {
        Ok(reader) => drain(reader),
        Err(e) => (Vec::new(), Some(e)),
    }
}

pub(crate) fn read_whole(bytes: &[u8]) -> Vec<Got> {
    let (all, error) = read(bytes);
    assert!(error.is_none(), "{}", error.unwrap());
    all
}

/// The text of the error, and the records before it.
pub(crate) fn failure(bytes: &[u8]) -> (usize, String) {
    let (all, error) = read(bytes);
    (all.len(), error.expect("an error").to_string())
}

//! Reading and writing capture files: pcap and pcapng, plain or compressed, as a stream.
//!
//! [`CaptureReader`] reads every format through one type, in memory that does not depend on the size of the file, and
//! hands out records that borrow from its buffer. [`PcapngWriter`] and [`PcapWriter`] write.
//!
//! ```
//! use fourtuple_capture::{CaptureReader, LinkType, PcapWriter, Precision};
//! use fourtuple_packet::Instant;
//!
//! let mut file = Vec::new();
//! let mut writer = PcapWriter::new(&mut file, LinkType::RAW, 65_535, Precision::Nanos)?;
//! writer.write(Instant::from_nanos(1_700_000_000_000_000_001), 4, b"\x45\0\0\x04")?;
//!
//! let mut reader = CaptureReader::from_reader("memory", std::io::Cursor::new(file))?;
//! while let Some(record) = reader.next() {
//!     let record = record?;
//!     assert_eq!((record.number, record.data.len()), (1, 4));
//!     assert_eq!(record.time, Some(Instant::from_nanos(1_700_000_000_000_000_001)));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is read
//!
//! - **pcap** in both byte orders, with micro- or nanoseconds; versions 2.0 to 2.4 and 543.0, with the order of the two
//!   lengths as each of them has it; the "modified" format (magic `a1b2cd34`) with its record headers of 24 bytes; the
//!   two IXIA formats (magic `1c0001ac` and `1c0001ab`, microseconds) with four more bytes in the file header. Of the link-type field, the low 16 bits are the type; the FCS length is kept apart
//!   ([`Interface::fcs_len`]). Variants that share a magic with another format and that only guessing could tell apart
//!   (ss990417, Nokia and AIX share the standard magic, ss990915 with its 28-byte record headers the modified one) are
//!   not guessed.
//! - **pcapng**: any number of sections, each with its own byte order; interfaces with their own link type, snap length,
//!   time resolution (powers of ten and of two) and offset; enhanced, simple and obsolete packet blocks. All other
//!   blocks are passed over without being held in memory. The section length is not needed to find the next block and
//!   is ignored, as other readers do.
//! - **gzip and zstd**, recognised by their first bytes, with several members or frames one after the other.
//!
//! Sources: the drafts draft-ietf-opsawg-pcap and draft-ietf-opsawg-pcapng, the LINKTYPE_ registry, RFC 1952 (gzip) and
//! RFC 8878 (zstd); the file header of the IXIA formats as Wireshark 4 reads it.
//!
//! # Errors
//!
//! Everything before the damage is delivered, then one [`CaptureError`] that names the file, the offset and the cause,
//! then nothing more. Offsets count bytes of the capture: in a compressed file, of the decompressed stream, and the
//! message says so.
//!
//! A length field alone reserves no memory: the buffer grows (by doubling) only as bytes really arrive, and a record
//! longer than a bound is refused. The bound is the file's own snap length, but at least 262,144 bytes (what tcpdump
//! and Wireshark accept whatever the file says) and at most 128 MiB (what they accept for the link types with the
//! longest records, D-Bus and USBPcap, for which this is always the bound).
//!
//! # Why not an existing parser
//!
//! `pcap-parser` 0.17 and `pcap-file` 2.0 were tried against the needs above. `pcap-parser` reads the modified pcap
//! format in little-endian order only, returns obsolete packet blocks as unknown, refuses every time resolution that is
//! a power of two (its check does not mask the flag bit), cuts seconds to 32 bits, collects the options of each packet
//! into a vector, and reports a packet block whose inner length exceeds the block as incomplete data; its errors carry
//! no offsets. `pcap-file` knows neither the modified nor the IXIA formats. Both leave decompression and the growth of
//! the buffer to the caller. The framing of both formats is a few fixed fields, so it is done here, and `pcap-parser`
//! is the other voice in the tests.
#![forbid(unsafe_code)]

mod decompress;
mod error;
mod format;
mod input;
mod ng;
mod pcap;
mod reader;
mod wire;
mod write_ng;
mod write_pcap;

pub use error::{CaptureError, Cause};
pub use format::{ByteOrder, Compression, Format, FormatInfo, Interface, PcapVariant, Resolution};
pub use fourtuple_packet::LinkType;
pub use ng::{Comments, Direction};
pub use reader::{Batch, CaptureReader, Record, Records};
pub use write_ng::{InterfaceInfo, PacketInfo, PcapngWriter, SectionInfo};
pub use write_pcap::{PcapWriter, Precision, WriteError};

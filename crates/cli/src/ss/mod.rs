//! Reads what `ss -uanpe` prints: the UDP sockets of a host.
//!
//! The form is that of iproute2 4.14 and later (`*` is the dual-stack any address, `[::]` the v6only one); the older
//! one (`*` is 0.0.0.0, `:::53` is any IPv6 address) is told by its addresses. Columns may have any width. Fields that are
//! not known are passed over.

mod line;
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Read};
use std::net::IpAddr;

use line::Shape;

/// Longer records are refused.
const MAX_RECORD: usize = 1 << 20;

/// One process that has a socket open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) pid: u32,
    /// Number of the descriptor; `None` if the listing does not say.
    pub(crate) fd: Option<u32>,
}

/// One end of a socket. `addr` is the any address of the family where the listing has a star.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) addr: IpAddr,
    /// 0 where the listing has a star.
    pub(crate) port: u16,
}

/// One socket as listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    /// Where it stands in the listing, from 1.
    pub(crate) line: usize,
    pub(crate) connected: bool,
    pub(crate) local: End,
    /// `None` if both address and port are stars or zeros.
    pub(crate) peer: Option<End>,
    /// True iff it is an IPv6 socket that takes no IPv4.
    pub(crate) v6only: bool,
    /// The name behind the percent sign: the device the socket is bound to, or an IPv6 address's scope.
    pub(crate) device: Option<String>,
    /// 0 where the listing does not say: ss leaves root's out.
    pub(crate) uid: u32,
    pub(crate) inode: Option<u64>,
    pub(crate) processes: Vec<Process>,
}

/// What is wrong with a record, and on which line it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) cause: String,
}

/// A whole listing.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In the listing's order.
    pub(crate) sockets: Vec<Socket>,
    pub(crate) faults: Vec<Fault>,
    /// Sockets of other protocols.
    pub(crate) foreign: usize,
}

/// A record: a line and those that continue it.
struct Record {
    line: usize,
    text: String,
}

/// Lines on their way to sockets.
#[derive(Default)]
struct Lines {
    records: Vec<(Record, Shape)>,
    foreign: usize,
    /// What a line that continues something continues.
    last: Last,
}

#[derive(Default)]
enum Last {
    #[default]
    Nothing,
    Socket,
    /// Something that is passed over.
    Other,
}

/// Reads a listing. Damaged records are noted and left out; if not `keep_going`, the first ends the reading.
pub(crate) fn read(mut from: impl BufRead, keep_going: bool) -> io::Result<Listing> {
    let mut lines = Lines::default();
    let mut faults = Vec::new();
    let (mut bytes, mut line) = (Vec::new(), 0);
    loop {
        bytes.clear();
        line += 1;
        let limit = MAX_RECORD as u64 + 1;
        if from.by_ref().take(limit).read_until(b'\n', &mut bytes)? == 0 {
            break;
        }
        let Err(cause) = lines.take(&bytes, line) else { continue };
        lines.last = Last::Other;
        faults.push(Fault { line, cause });
        // What follows a line that is too long is the rest of it.
        if bytes.len() > MAX_RECORD || !keep_going {
            break;
        }
    }
    let star_is_v4 = lines.records.iter().any(|(_, shape)| *shape == Shape::Old);
    let mut sockets = Vec::with_capacity(lines.records.len());
    for (record, _) in &lines.records {
        match line::socket(&record.text, record.line, star_is_v4) {
            Ok(socket) => sockets.push(socket),
            Err(cause) => {
                faults.push(Fault { line: record.line, cause });
                if !keep_going {
                    break;
                }
            }
        }
    }
    faults.sort_by_key(|f| f.line);
    if !keep_going {
        faults.truncate(1);
    }
    Ok(Listing { sockets, faults, foreign: lines.foreign })
}

impl Lines {
    fn take(&mut self, bytes: &[u8], line: usize) -> Result<(), String> {
        if bytes.len() > MAX_RECORD {
            return Err(format!("longer than {MAX_RECORD} bytes"));
        }
        // A process may have any bytes as its name, and 15 of them may end within a character.
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end();
        if text.is_empty() {
            return Ok(());
        }
        match line::kind(text) {
            line::Kind::Header => self.last = Last::Nothing,
            line::Kind::Foreign => {
                self.foreign += 1;
                self.last = Last::Other;
            }
            line::Kind::Socket(record, shape) => {
                self.records.push((Record { line, text: record.to_owned() }, shape));
                self.last = Last::Socket;
            }
            line::Kind::More(more) => return self.more(more),
            line::Kind::Unknown(word) => {
                return Err(format!(
                    "a socket begins with its state, UNCONN or ESTAB, not with {word:?}: expected \
                     lines of `ss -uanpe`"
                ));
            }
        }
        Ok(())
    }

    fn more(&mut self, more: &str) -> Result<(), String> {
        match (&self.last, self.records.last_mut()) {
            (Last::Other, _) => Ok(()),
            (Last::Socket, Some((record, _))) if record.text.len() + more.len() < MAX_RECORD => {
                record.text.push(' ');
                record.text.push_str(more);
                Ok(())
            }
            (Last::Socket, Some(_)) => Err(format!("a socket of more than {MAX_RECORD} bytes")),
            _ => Err("continues a socket, but none stands before it".to_owned()),
        }
    }
}

//! Differences for people, and as capture files that reproduce them.

use std::fmt;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use fourtuple_capture::{InterfaceInfo, PacketInfo, PcapngWriter, SectionInfo};
use fourtuple_conntrack::{Connection, Direction, Proto, ReceivePath};
use fourtuple_packet::{Instant, LinkType};

use super::{Answer, Difference, words};
use crate::describe::describe;
use crate::entry::Entry;
use crate::error::{During, Result};
use crate::generate::Case;
use crate::judge::{Judge, Observation};
use crate::settings::Settings;

/// The kernel's answer to a packet.
pub(super) fn kernel(judge: &Judge, seen: &Observation) -> String {
    let mut text = super::verdict(seen);
    if let Some(known) = seen.conn.and_then(|conn| judge.entry(conn)) {
        text.push_str(" | ");
        text.push_str(&entry(known));
    }
    for gone in &seen.destroyed {
        text.push_str(" | ended ");
        text.push_str(&entry(gone));
    }
    text
}

/// Our answer to a packet.
pub(super) fn ours(
    path: &ReceivePath,
    verdict: &fourtuple_conntrack::Verdict,
    now: Instant,
) -> String {
    let mut text = words(verdict);
    if let Some(known) = verdict.connection.and_then(|id| path.conntrack().connection(id)) {
        text.push_str(" | ");
        text.push_str(&connection(known, now));
    }
    text
}

pub(super) fn entry(entry: &Entry) -> String {
    let mut text = format!("#{} proto {}", entry.conn, entry.proto);
    if let Some(state) = entry.state {
        text.push_str(&format!(" {state}"));
    }
    text.push_str(&format!(" status {:#x}", entry.status));
    if let Some(left) = entry.left {
        text.push_str(&format!(" left {left}"));
    }
    text.push_str(&format!(
        " packets {}/{} bytes {}/{}",
        entry.packets_orig, entry.packets_reply, entry.bytes_orig, entry.bytes_reply
    ));
    if let Some(tcp) = entry.tcp {
        text.push_str(&format!(
            " wscale {}/{} flags {:#04x}/{:#04x}",
            tcp.wscale_orig, tcp.wscale_reply, tcp.flags_orig, tcp.flags_reply
        ));
    }
    text
}

pub(super) fn connection(own: &Connection, now: Instant) -> String {
    let mut text = format!("#{} proto {}", own.number(), own.tuple(Direction::Original).protocol);
    if let Some(state) = own.tcp_state() {
        text.push_str(&format!(" {state}"));
    }
    let [orig, reply] =
        [Direction::Original, Direction::Reply].map(|way| own.counters(way).unwrap_or_default());
    text.push_str(&format!(
        " status {:#x} left {} packets {}/{} bytes {}/{}",
        own.status().0,
        own.remaining(now).as_secs(),
        orig.packets,
        reply.packets,
        orig.bytes,
        reply.bytes
    ));
    if let Proto::Tcp(track) = own.proto() {
        let [orig, reply] = [Direction::Original, Direction::Reply].map(|way| track.side(way));
        text.push_str(&format!(
            " wscale {}/{} flags {:#04x}/{:#04x} end {}/{} maxend {}/{} maxwin {}/{} maxack {}/{}",
            orig.scale,
            reply.scale,
            orig.flags.0,
            reply.flags.0,
            orig.end,
            reply.end,
            orig.maxend,
            reply.maxend,
            orig.maxwin,
            reply.maxwin,
            orig.maxack,
            reply.maxack
        ));
    }
    text
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self
            .packet
            .as_ref()
            .map_or_else(|| "the whole table".into(), |packet| describe(packet));
        writeln!(f, "{:3} {:9.6} {line}", self.step + 1, self.at.as_secs_f64())?;
        writeln!(f, "      kernel  {}", self.kernel)?;
        writeln!(f, "      ours    {}", self.ours)?;
        for text in &self.differs {
            writeln!(f, "      DIFFERS {text}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.answers.iter().try_for_each(|answer| write!(f, "{answer}"))
    }
}

/// Settings that are not the kernel's defaults.
pub(crate) fn changed(settings: &Settings) -> String {
    let defaults: Vec<_> = Settings::default().iter().collect();
    let changed: Vec<_> = settings
        .iter()
        .filter(|pair| !defaults.contains(pair))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut text = if changed.is_empty() { "defaults".into() } else { changed.join(" ") };
    if settings.lengthen() == 0 {
        text.push_str(", real time-outs");
    }
    text
}

/// Writes a case and what was said of it as pcapng into `folder`, and as a script beside it that reproduces it exactly;
/// gives the pcapng's name.
///
/// # Errors
/// If the file cannot be written.
pub fn save(folder: &Path, case: &Case, difference: &Difference) -> Result<PathBuf> {
    let name = format!("{:?}-{:016x}.pcapng", case.kind, case.seed).to_lowercase();
    let path = folder.join(name);
    std::fs::create_dir_all(folder).during(format!("making {}", folder.display()))?;
    let file = File::create(&path).during(format!("making {}", path.display()))?;
    write(BufWriter::new(file), case, difference)
        .map_err(std::io::Error::other)
        .during(format!("writing {}", path.display()))?;
    let remark = format!("{:?} seed {:#x}: {}", case.kind, case.seed, difference.headline());
    let script = path.with_extension("txt");
    std::fs::write(&script, crate::script::format(case, &remark))
        .during(format!("writing {}", script.display()))?;
    Ok(path)
}

fn write(
    to: impl std::io::Write,
    case: &Case,
    difference: &Difference,
) -> std::result::Result<(), fourtuple_capture::WriteError> {
    let comment = format!(
        "{:?} seed {:#x}; settings: {}; {}",
        case.kind,
        case.seed,
        changed(&case.settings),
        difference.headline()
    );
    let section = SectionInfo {
        application: Some("fourtuple-oracle"),
        comment: Some(&comment),
        ..SectionInfo::default()
    };
    let mut writer = PcapngWriter::new(to, &section)?;
    let link = InterfaceInfo { link_type: LinkType::RAW, snaplen: 0, name: None };
    let interface = writer.add_interface(&link)?;
    for answer in &difference.answers {
        let Some(data) = answer.packet.as_deref() else { continue };
        let mut comment = format!("kernel: {}\nours: {}", answer.kernel, answer.ours);
        for text in &answer.differs {
            comment.push_str(&format!("\nDIFFERS {text}"));
        }
        writer.write(&PacketInfo {
            interface,
            time: Instant::from_nanos(answer.at.as_nanos() as u64),
            wire_len: data.len() as u32,
            data,
            comment: Some(&comment),
            flags: None,
        })?;
    }
    writer.into_inner()?;
    Ok(())
}

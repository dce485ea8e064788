//! The same packets as a pcapng file, with the verdict as a comment each.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use fourtuple::capture::{PacketInfo, PcapngWriter, SectionInfo};
use tempfile::NamedTempFile;

use crate::feed::Frame;
use crate::setup::{Usage, is_stdin};

/// Writes beside the file that is asked for, and puts it in its place at the end. What is no regular file (a pipe, a
/// device) is written to as it is.
pub(crate) struct Annotator {
    to: PathBuf,
    writer: PcapngWriter<BufWriter<Target>>,
    packets: u64,
}

enum Target {
    Beside(NamedTempFile),
    Itself(File),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Beside(file) => file.write(bytes),
            Self::Itself(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Beside(file) => file.flush(),
            Self::Itself(file) => file.flush(),
        }
    }
}

impl Target {
    /// `to` is where symbolic links lead.
    fn open(to: &Path) -> io::Result<Self> {
        let existing = fs::metadata(to).ok();
        if existing.as_ref().is_some_and(|m| !m.is_file() && !m.is_dir()) {
            return Ok(Self::Itself(File::options().write(true).open(to)?));
        }
        let folder = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".fourtuple-").suffix(".pcapng");
        // As any program creates a file, subject to the umask, not private as a temporary file is.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder)?;
        if let Some(existing) = existing.filter(fs::Metadata::is_file) {
            file.as_file().set_permissions(existing.permissions())?;
        }
        Ok(Self::Beside(file))
    }
}

impl Annotator {
    pub(crate) fn new(to: &Path, captures: &[PathBuf]) -> anyhow::Result<Self> {
        if is_stdin(to) || to.file_name().is_none() {
            let to = to.display();
            return Err(Usage(format!("--annotate {to}: give the name of a file to write")).into());
        }
        refuse_input(to, captures)?;
        let real = follow(to);
        let target = Target::open(&real)
            .with_context(|| format!("--annotate {}: cannot write there", to.display()))?;
        let section = SectionInfo {
            application: Some(concat!("fourtuple ", env!("CARGO_PKG_VERSION"))),
            comment: Some("Each packet's comment says what Linux connection tracking makes of it"),
            ..SectionInfo::default()
        };
        let writer = PcapngWriter::new(BufWriter::with_capacity(1 << 16, target), &section)?;
        Ok(Self { to: real, writer, packets: 0 })
    }

    /// Writes a packet; what comments it has follow the new one.
    pub(crate) fn write(&mut self, frame: &Frame<'_>, comment: &mut String) -> anyhow::Result<()> {
        let record = &frame.record;
        for earlier in record.comments() {
            comment.push('\n');
            comment.push_str(earlier);
        }
        self.put(frame, comment)
            .with_context(|| format!("packet {}: writing {}", record.number, self.to.display()))
    }

    fn put(&mut self, frame: &Frame<'_>, comment: &str) -> anyhow::Result<()> {
        let record = &frame.record;
        const NO_LIMIT: u32 = 0;
        let interface = self.writer.interface_for(record.link_type, NO_LIMIT)?;
        self.writer.write(&PacketInfo {
            interface,
            time: frame.time.unwrap_or_default(),
            wire_len: record.wire_len,
            data: record.data,
            comment: Some(comment),
            flags: record.flags,
        })?;
        self.packets += 1;
        Ok(())
    }

    /// Puts the file in its place, unless nothing was read: then what was there stays.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Self { to, writer, packets } = self;
        if packets == 0 && to.exists() {
            return Ok(());
        }
        let whole = || -> anyhow::Result<()> {
            let file = writer.into_inner()?.into_inner().map_err(|e| e.into_error())?;
            match file {
                Target::Beside(file) => drop(file.persist(&to).map_err(|e| e.error)?),
                Target::Itself(mut file) => file.flush()?,
            }
            Ok(())
        };
        whole().with_context(|| format!("writing {}", to.display()))
    }
}

/// Where `to` leads through symbolic links, also if there is nothing yet at their end.
fn follow(to: &Path) -> PathBuf {
    const MOST_LINKS: usize = 40;
    let mut real = to.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&real) else { break };
        real = match real.parent() {
            Some(folder) if next.is_relative() => folder.join(next),
            _ => next,
        };
        // Links of /proc name no file in a folder: write through them.
        if real.starts_with("/proc") {
            return to.to_owned();
        }
    }
    real
}

/// Whoever annotates a capture wants to keep it.
fn refuse_input(to: &Path, captures: &[PathBuf]) -> anyhow::Result<()> {
    // What does not exist yet is nobody's input.
    let Ok(real) = fs::canonicalize(to) else {
        return Ok(());
    };
    let same = |c: &&PathBuf| !is_stdin(c) && fs::canonicalize(c).is_ok_and(|c| c == real);
    match captures.iter().find(same) {
        Some(input) => {
            let (to, input) = (to.display(), input.display());
            Err(Usage(format!("--annotate {to}: this would overwrite the input {input}")).into())
        }
        None => Ok(()),
    }
}

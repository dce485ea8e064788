//! The same packets as a pcapng file, with the verdict as a comment each.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fourtuple::capture::{PacketInfo, PcapngWriter, SectionInfo};
use tempfile::NamedTempFile;

use crate::feed::Frame;
use crate::setup::{Usage, is_stdin};

/// Writes beside the file that is asked for, and puts it in its place at the end.
pub(crate) struct Annotator {
    to: PathBuf,
    writer: PcapngWriter<BufWriter<NamedTempFile>>,
}

impl Annotator {
    pub(crate) fn new(to: &Path, captures: &[PathBuf]) -> anyhow::Result<Self> {
        if is_stdin(to) || to.file_name().is_none() {
            let to = to.display();
            return Err(Usage(format!("--annotate {to}: give the name of a file to write")).into());
        }
        refuse_input(to, captures)?;
        let folder = match to.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".fourtuple-").suffix(".pcapng");
        // As any program creates a file, subject to the umask, not private as a temporary file is.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let temporary = builder
            .tempfile_in(folder)
            .with_context(|| format!("--annotate {}: cannot write there", to.display()))?;
        let section = SectionInfo {
            application: Some(concat!("fourtuple ", env!("CARGO_PKG_VERSION"))),
            comment: Some("Each packet's comment says what Linux connection tracking makes of it"),
            ..SectionInfo::default()
        };
        let writer = PcapngWriter::new(BufWriter::with_capacity(1 << 16, temporary), &section)?;
        Ok(Self { to: to.to_owned(), writer })
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
        Ok(())
    }

    /// Puts the file in its place.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        let Self { to, writer } = self;
        let whole = || -> anyhow::Result<()> {
            let file = writer.into_inner()?.into_inner().map_err(|e| e.into_error())?;
            file.persist(&to).map_err(|e| e.error)?;
            Ok(())
        };
        whole().with_context(|| format!("writing {}", to.display()))
    }
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

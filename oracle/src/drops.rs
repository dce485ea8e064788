//! Why the kernel freed a packet: the `skb:kfree_skb` tracepoint, for this thread only.
//!
//! Opened by perf_event_open, so that nothing outlives the process, whatever ends it. The
//! tracepoint's number and the names of the reasons come from tracefs, through a mount that no
//! directory shows.

use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use perf_event::data::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, SampleFlag, Sampler};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

/// Names of the drop reasons, and where the number stands in a record.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    id: u64,
    offset: usize,
    names: HashMap<u32, String>,
}

impl Format {
    pub(crate) fn read() -> io::Result<Self> {
        let tracefs = mount()?;
        let id = read(&tracefs, "events/skb/kfree_skb/id")?;
        let text = read(&tracefs, "events/skb/kfree_skb/format")?;
        Self::parse(&id, &text)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "kfree_skb has no reason"))
    }

    fn parse(id: &str, text: &str) -> Option<Self> {
        let field = text.lines().find(|line| line.contains(" reason;"))?;
        let offset = field.split("offset:").nth(1)?.split(';').next()?.trim().parse().ok()?;
        let names = text
            .split('{')
            .skip(1)
            .filter_map(|part| {
                let (number, rest) = part.split_once(',')?;
                let number = number.trim();
                let number = match number.strip_prefix("0x") {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => number.parse().ok()?,
                };
                Some((number, rest.split('"').nth(1)?.to_owned()))
            })
            .collect();
        Some(Self { id: id.trim().parse().ok()?, offset, names })
    }
}

fn mount() -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    Ok(rustix::mount::fsmount(
        context.as_fd(),
        FsMountFlags::FSMOUNT_CLOEXEC,
        MountAttrFlags::empty(),
    )?)
}

fn read(root: &OwnedFd, path: &str) -> io::Result<String> {
    let file = rustix::fs::openat(root, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = String::new();
    std::fs::File::from(file).read_to_string(&mut text)?;
    Ok(text)
}

/// The packets freed on behalf of the thread that opened it.
pub(crate) struct Drops {
    sampler: Sampler,
    format: Format,
    thread: rustix::thread::Pid,
}

impl Drops {
    pub(crate) fn open(format: Format) -> io::Result<Self> {
        let sampler = Builder::new(Tracepoint::with_id(format.id))
            .sample(SampleFlag::RAW)
            .sample_period(1)
            .include_kernel()
            .observe_self()
            .any_cpu()
            .enabled(true)
            .build()?
            .sampled(1 << 16)?;
        Ok(Self { sampler, format, thread: rustix::thread::gettid() })
    }

    /// True iff this thread is the one that is watched.
    pub(crate) fn is_mine(&self) -> bool {
        self.thread == rustix::thread::gettid()
    }

    pub(crate) fn format(&self) -> &Format {
        &self.format
    }

    /// Takes all that were freed since the last call, in order.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        let mut reasons = Vec::new();
        while let Some(record) = self.sampler.next_record() {
            let Ok(Record::Sample(sample)) = record.parse_record() else {
                continue;
            };
            let at = self.format.offset;
            let bytes = sample.raw().and_then(|raw| raw.get(at..)?.first_chunk());
            reasons.extend(bytes.map(|bytes| u32::from_ne_bytes(*bytes)));
        }
        reasons
    }

    /// The kernel's name for a reason.
    pub(crate) fn name(&self, reason: u32) -> String {
        self.format.names.get(&reason).cloned().unwrap_or_else(|| format!("REASON_{reason}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_kernels_format_text() {
        let text = "name: kfree_skb\n\
            \tfield:unsigned short protocol;\toffset:32;\tsize:2;\tsigned:0;\n\
            \tfield:enum skb_drop_reason reason;\toffset:36;\tsize:4;\tsigned:0;\n\
            print fmt: \"%s\", __print_symbolic(REC->reason, { 2, \"NOT_SPECIFIED\" }, { 0x11, \"IP_INHDR\" })";
        let format = Format::parse("1234\n", text).unwrap();
        assert_eq!((format.id, format.offset), (1234, 36));
        assert_eq!(format.names[&2], "NOT_SPECIFIED");
        assert_eq!(format.names[&17], "IP_INHDR");
        assert!(Format::parse("1", "name: kfree_skb").is_none());
    }
}

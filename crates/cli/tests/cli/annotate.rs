use std::path::Path;
use std::process::{Command, Stdio};

use super::support::*;
use fourtuple::capture::CaptureReader;

/// Time, data and comments of every packet.
fn read(path: &Path) -> Vec<(u64, Vec<u8>, Vec<String>)> {
    let mut reader = CaptureReader::open(path).expect("opens");
    let mut all = Vec::new();
    while let Some(record) = reader.next() {
        let record = record.expect("is whole");
        let comments = record.comments().map(str::to_owned).collect();
        let time = record.time.expect("has a time").as_nanos();
        all.push((time, record.data.to_vec(), comments));
    }
    all
}

fn names(scratch: &Scratch) -> Vec<String> {
    let folder = scratch.path("");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> =
        entries.map(|e| e.expect("entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn every_packet_has_its_verdict() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let to = scratch.path("out.pcapng");
    let to_text = to.to_str().expect("UTF-8");
    let said = run_words(&["explain", "--only", "invalid", "--annotate", to_text], &[&file]).fine();
    assert_eq!(said.out.lines().count(), 2, "filters choose what is printed, not what is written");
    let annotated = read(&to);
    let packets: Vec<_> = annotated.iter().map(|(t, d, _)| (t - NEW_YEAR, d.clone())).collect();
    assert_eq!(packets, conversation());
    let comments: Vec<_> = annotated.iter().map(|(.., c)| c[0].as_str()).collect();
    assert_eq!(comments[0], "NEW: original direction (connection 1, SYN_SENT) [new-flow]");
    assert_eq!(comments[1], "ESTABLISHED: reply direction (connection 1, SYN_RECV) [first-reply]");
    assert!(
        comments[5]
            .starts_with("INVALID: sequence 100000 is 98799 above the window's upper edge 1201")
            && comments[5].ends_with("(connection 1, ESTABLISHED) [tcp-seq-above-window]"),
        "{}",
        comments[5]
    );
    assert_eq!(comments[7], "ESTABLISHED: reply direction (connection 2) [first-reply]");
    assert_eq!(names(&scratch), ["a.pcap", "out.pcapng"], "nothing else is left behind");
}

#[test]
fn earlier_comments_and_quiet() {
    let scratch = Scratch::new();
    let file = scratch.write("a.pcapng", &pcapng(&conversation(), "look at this"));
    let to = scratch.path("out.pcapng");
    let said =
        run_words(&["explain", "-q", "--annotate", to.to_str().expect("UTF-8")], &[&file]).fine();
    assert_eq!(said.out, "");
    for (.., comments) in read(&to) {
        assert!(comments[0].ends_with("]\nlook at this"), "{comments:?}");
    }
}

#[test]
fn the_input_is_safe() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let before = std::fs::read(&file).expect("is there");
    let name = file.to_str().expect("UTF-8");
    let roundabout = format!("{}/./a.pcap", scratch.path("").display());
    for to in [name.to_owned(), roundabout] {
        let said = run_words(&["explain", "--annotate", &to], &[&file]);
        assert_eq!((said.status, said.out.as_str()), (2, ""), "{to}");
        assert!(said.err.contains("would overwrite the input"), "{}", said.err);
    }
    assert_eq!(std::fs::read(&file).expect("is there"), before);
    let said = run_words(&["explain", "--annotate", "/nonexistent/folder/out.pcapng"], &[&file]);
    assert_eq!(said.status, 1);
    assert!(
        said.err.contains("/nonexistent/folder/out.pcapng: cannot write there"),
        "{}",
        said.err
    );
    let said = run_words(&["explain", "--annotate", "-"], &[&file]);
    assert_eq!(said.status, 2, "{}", said.err);
}

#[test]
fn a_cut_capture_is_annotated_up_to_there() {
    let scratch = Scratch::new();
    let mut bytes = pcap(&conversation());
    bytes.truncate(bytes.len() - 5);
    let file = scratch.write("a.pcap", &bytes);
    let to = scratch.path("out.pcapng");
    let said = run_words(&["explain", "--annotate", to.to_str().expect("UTF-8")], &[&file]);
    assert_eq!(said.status, 1);
    assert_eq!((said.out.lines().count(), read(&to).len()), (9, 9));
}

/// `fourtuple explain --annotate OUT x.pcap | head`: the reader is gone, the file is whole.
#[test]
fn a_closed_pipe_does_not_spoil_the_file() {
    let scratch = Scratch::new();
    let packets: Vec<Timed> = (0..20_000).map(|i| (i * MS, udp(1, 1, 2, 2, 9))).collect();
    let file = scratch.pcap("a.pcap", &packets);
    let to = scratch.path("out.pcapng");
    let mut command = program();
    command.arg("explain").arg("--annotate").arg(&to).arg(&file).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    let said = Said::from(child.wait_with_output().expect("ends"));
    assert_eq!((said.status, said.err.as_str()), (0, ""));
    assert_eq!(read(&to).len(), packets.len());
}

/// The other voice on our pcapng.
#[test]
fn wireshark_reads_it() {
    if Command::new("tshark")
        .arg("-v")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_err()
    {
        println!("skipped: tshark not found");
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let to = scratch.path("out.pcapng");
    run_words(&["explain", "-q", "--annotate", to.to_str().expect("UTF-8")], &[&file]).fine();
    let fields = ["-T", "fields", "-e", "frame.number", "-e", "frame.comment"];
    let output = Command::new("tshark")
        .args(["-n", "-r"])
        .arg(&to)
        .args(["-Y", "frame.comment contains \"INVALID\""])
        .args(fields)
        .output()
        .expect("runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("6\tINVALID: sequence 100000 is 98799 above"), "{text}");
    assert!(lines[1].starts_with("10\tINVALID: type 3 code 3"), "{text}");
}

/// Who asks for a file by a link wants the file written, and keeps who may read it; nothing read leaves it alone.
#[cfg(unix)]
#[test]
fn what_stands_at_the_target_is_respected() {
    use std::os::unix::fs::{PermissionsExt, symlink};

    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let target = scratch.write("target.pcapng", b"old");
    std::fs::set_permissions(&target, PermissionsExt::from_mode(0o600)).expect("is ours");
    let link = scratch.path("link.pcapng");
    symlink("target.pcapng", &link).expect("can be made");
    let dangling = scratch.path("dangling.pcapng");
    symlink("new.pcapng", &dangling).expect("can be made");
    for to in [&link, &dangling] {
        run_words(&["explain", "-q", "--annotate", to.to_str().expect("UTF-8")], &[&file]).fine();
        assert!(to.symlink_metadata().expect("is there").is_symlink());
    }
    assert_eq!(read(&target).len(), conversation().len());
    assert_eq!(read(&scratch.path("new.pcapng")).len(), conversation().len());
    let mode = std::fs::metadata(&target).expect("is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let before = std::fs::read(&target).expect("is there");
    let missing = scratch.path("missing.pcap");
    let to = target.to_str().expect("UTF-8");
    let said = run_words(&["explain", "-q", "--annotate", to], &[&missing]);
    assert_eq!(said.status, 1);
    assert_eq!(std::fs::read(&target).expect("is there"), before);
}

/// A pipe is written to, not replaced by a file.
#[cfg(unix)]
#[test]
fn a_pipe_stays_a_pipe() {
    use std::os::unix::fs::FileTypeExt;

    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let pipe = scratch.path("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().is_ok_and(|s| s.success());
    if !made {
        println!("skipped: mkfifo not found");
        return;
    }
    let reader = {
        let pipe = pipe.clone();
        std::thread::spawn(move || std::fs::read(pipe).expect("reads"))
    };
    let to = pipe.to_str().expect("UTF-8");
    run_words(&["explain", "-q", "--annotate", to], &[&file]).fine();
    let written = scratch.write("written.pcapng", &reader.join().expect("ends"));
    assert_eq!(read(&written).len(), conversation().len());
    assert!(pipe.metadata().expect("is there").file_type().is_fifo());
}

//! Exit statuses, and what is said on which stream.

use std::process::Stdio;

use super::support::*;

#[test]
fn a_cut_capture_is_read_up_to_there() {
    let scratch = Scratch::new();
    let mut bytes = pcap(&conversation());
    bytes.truncate(bytes.len() - 5);
    let file = scratch.write("a.pcap", &bytes);
    let name = file.display().to_string();
    for (command, lines) in [("track --format ndjson", 4), ("explain", 9), ("events", 6)] {
        let said = run(command, &[&file]);
        assert_eq!((said.status, said.out.lines().count()), (1, lines), "{command}: {}", said.out);
        assert!(
            said.err.starts_with(&format!("fourtuple: {name}: at byte ")),
            "{command}: {}",
            said.err
        );
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
    let all = run("track --format ndjson", &[&file]).json();
    let damage = &all.last().expect("summary")["summary"]["damage"];
    assert_eq!(damage[0]["file"], name);
    assert!(
        damage[0]["offset"].as_u64().is_some_and(|at| at > 24 && at < bytes.len() as u64),
        "{damage}"
    );
    let text = run("track", &[&file]).out;
    assert!(text.contains(&format!("Incomplete: {name}: at byte ")), "{text}");
}

#[test]
fn missing_and_foreign_files() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing.pcap");
    let text = scratch.write("notes.txt", b"These are notes.\n");
    let empty = scratch.write("empty.pcap", b"");
    let good = scratch.pcap("good.pcap", &conversation());
    for command in ["track", "explain", "events"] {
        for (file, says) in
            [(&missing, "cannot be opened"), (&text, "not a capture"), (&empty, "empty")]
        {
            let said = run(command, &[file]);
            assert_eq!((said.status, said.out.as_str()), (1, ""), "{command} {}", file.display());
            assert!(
                said.err.contains(says) && said.err.contains(&file.display().to_string()),
                "{}",
                said.err
            );
        }
        // The others are read all the same.
        let said = run(command, &[&missing, &good]);
        assert_eq!(said.status, 1);
        assert!(said.out.contains("10.0.0.1"), "{command}: {}", said.out);
    }
}

#[test]
fn wrong_usage() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    for (arguments, says) in [
        ("frobnicate", "unrecognized subcommand"),
        ("explain", "CAPTURE"),
        ("track --format xml x", "possible values"),
        ("explain --only bad x", "possible values"),
        ("explain --reason bad x", "invalid value 'bad'"),
        ("explain --packets 20-10 x", "ends before it begins"),
        ("explain --quiet x", "--annotate"),
        ("track --set nf_conntrack_tcp_loose x", "expected NAME=VALUE"),
        ("track --set nf_conntrack_tcp_loose=2 x", "nf_conntrack_tcp_loose takes 0 or 1, not '2'"),
        (
            "track --set nf_conntrack_tcp_timeout_estblished=2 x",
            "did you mean nf_conntrack_tcp_timeout_",
        ),
        ("track --set nf_conntrack_count=2 x", "it is read-only"),
        ("track --hash-key 123 x", "--hash-key"),
        ("track --zone 65536 x", "65536"),
        ("track - -", "standard input (-) can be read once only"),
        ("reasons nonsense", "invalid value 'nonsense'"),
        ("completions tcsh", "possible values"),
    ] {
        let said = run(arguments, &[]);
        assert_eq!((said.status, said.out.as_str()), (2, ""), "{arguments}: {}", said.err);
        assert!(
            said.err.starts_with("error: ") && said.err.contains(says),
            "{arguments}: {}",
            said.err
        );
    }
    let said = run("", &[]);
    assert_eq!(said.status, 2, "without a command: help");
    assert!(said.err.contains("Usage:"), "{}", said.err);
    assert_eq!(run("track", &[&file]).status, 0);
}

/// A reader that goes away is no error.
#[test]
fn closed_pipe() {
    let scratch = Scratch::new();
    let packets: Vec<Timed> = (0..20_000).map(|i| (i * MS, udp(1, i as u16, 2, 2, 9))).collect();
    let file = scratch.pcap("a.pcap", &packets);
    let path = file.to_str().expect("UTF-8");
    for arguments in [
        vec!["explain", path],
        vec!["explain", "--format", "ndjson", path],
        vec!["events", path],
        vec!["track", "--clock", "frozen", path],
        vec!["reasons"],
        vec!["completions", "bash"],
        vec!["man"],
        vec!["track", "--settings"],
    ] {
        let mut command = program();
        let mut child = command
            .args(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        drop(child.stdout.take());
        let said = Said::from(child.wait_with_output().expect("ends"));
        assert_eq!((said.status, said.err.as_str()), (0, ""), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let scratch = Scratch::new();
    let file = scratch.pcap("a.pcap", &conversation());
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a Linux device");
    let output = program().arg("explain").arg(&file).stdout(full).output().expect("runs");
    let said = Said::from(output);
    assert_eq!(said.status, 1);
    assert!(said.err.contains("writing to standard output"), "{}", said.err);
}

#[test]
fn standard_input() {
    let scratch = Scratch::new();
    let bytes = pcap(&conversation());
    let file = scratch.write("a.pcap", &bytes);
    let from_file = run("explain", &[&file]).fine().out;
    assert_eq!(run_on_stdin("explain -", bytes.clone()).fine().out, from_file);
    let said = run_on_stdin("track -", bytes[..bytes.len() - 1].to_vec());
    assert_eq!(said.status, 1);
    assert!(said.err.starts_with("fourtuple: standard input: at byte"), "{}", said.err);
}

//! Commands that read no capture.

use super::support::*;

#[test]
fn reasons() {
    let said = run("reasons", &[]).fine();
    let all = run("reasons --format ndjson", &[]).fine().json();
    assert!(all.len() > 40, "{}", all.len());
    for reason in &all {
        let word = reason["reason"].as_str().expect("a word");
        let verdicts = reason["verdicts"].as_array().expect("a list");
        assert!(!verdicts.is_empty() && !reason["explanation"].as_str().expect("text").is_empty());
        assert!(said.out.lines().any(|l| l.starts_with(&format!("{word} ("))), "{word}");
    }
    assert!(said.out.lines().all(|l| l.chars().count() <= 100), "{}", said.out);
    let one = run("reasons tcp-seq-above-window", &[]).fine().out;
    assert!(
        one.starts_with("tcp-seq-above-window (invalid)\n    The segment starts above"),
        "{one}"
    );
    assert!(one.lines().skip(1).all(|l| l.starts_with("    ")), "{one}");
    let two = run("reasons --format ndjson clash mpls", &[]).fine().json();
    assert_eq!(
        (two[0]["reason"].as_str(), two[1]["reason"].as_str()),
        (Some("clash"), Some("mpls"))
    );
}

#[test]
fn completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = run(&format!("completions {shell}"), &[]).fine();
        for word in ["explain", "annotate", "cut-packets", "demux", "keep-going", "liberal"] {
            // The last is in the help of --set, which not every shell shows.
            let shown = said.out.contains(word) || word == "liberal";
            assert!(shown, "{shell}: {word}");
        }
    }
}

#[test]
fn manual_pages() {
    let said = run("man", &[]).fine();
    assert!(said.out.contains(".TH fourtuple 1"), "{}", said.out);
    let scratch = Scratch::new();
    let folder = scratch.path("man1");
    run("man", &[&folder]).fine();
    for command in ["", "-track", "-explain", "-events", "-demux", "-reasons"] {
        let page = folder.join(format!("fourtuple{command}.1"));
        let text =
            std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(text.contains(".SH SYNOPSIS"), "{}", page.display());
        assert!(text.contains("Example: fourtuple"), "{}", page.display());
    }
    let in_the_way = scratch.write("file", b"");
    let said = run("man", &[&in_the_way]);
    assert_eq!(said.status, 1);
    assert!(said.err.contains("writing manual pages into"), "{}", said.err);
}

#[test]
fn help_has_an_example_each() {
    for command in ["", "track", "explain", "events", "demux", "reasons", "completions", "man"] {
        let said = run(&format!("{command} --help"), &[]).fine();
        assert!(said.out.contains("Example: fourtuple"), "{command}: {}", said.out);
    }
    assert!(run("--version", &[]).fine().out.starts_with("fourtuple "));
}

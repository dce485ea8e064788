//! `demux`: scenarios, and the sockets of a host.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::support::*;

const KEY: &str = "--hash-key 000102030405060708090a0b0c0d0e0f";

/// A file of the folder `scenarios`.
fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn lines(all: &[&str]) -> Vec<u8> {
    (all.join("\n") + "\n").into_bytes()
}

const SERVER: [&str; 3] = [
    r#"{"op":"device","name":"d0","addresses":["10.0.0.1/24"]}"#,
    r#"{"op":"socket","id":1}"#,
    r#"{"op":"bind","id":1,"addr":"10.0.0.1","port":53}"#,
];
const QUERY: &str =
    r#"{"op":"send","src":"10.0.0.9","sport":9,"dst":"10.0.0.1","dport":53,"device":"d0"}"#;

#[test]
fn a_scenario_in_words() {
    let said = run(&format!("demux {KEY}"), &[&sample("connected.jsonl")]).fine();
    let text = said.out.as_str();
    for line in [
        "   4 bind 1 to 0.0.0.0:53: ok, local 0.0.0.0:53",
        "   5 send 10.1.0.9:4000 > 10.1.0.1:53 on d0: delivered to socket 1 by hash2-any",
        "   8 connect 2 to 10.1.0.9:4000: ok, local 10.1.0.1:53 peer 10.1.0.9:4000",
        "   9 send 10.1.0.9:4000 > 10.1.0.1:53 on d0: delivered to socket 2 by hash4",
        "         socket 2: the 4-tuple matches",
        "       so: connected to exactly this 4-tuple",
        "  10 send 10.1.0.9:4001 > 10.1.0.1:53 on d0: delivered to socket 1 by hash2-any",
        "         socket 1: score 2",
        "  14 send 10.1.0.9:4000 > 10.1.0.1:53 on d0: port-unreachable",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} in\n{text}");
    }
}

#[test]
fn a_scenario_for_programs() {
    let input = lines(&[&SERVER[..], &[QUERY]].concat());
    let said = run_on_stdin("demux - --ndjson", input.clone()).fine();
    let all = said.json();
    assert_eq!(all[2]["local"], serde_json::json!({"addr": "10.0.0.1", "port": 53}));
    assert_eq!(all[2]["peer"], Value::Null);
    assert_eq!(
        (&all[3]["result"], &all[3]["to"], &all[3]["table"]),
        (&"delivered".into(), &vec![1].into(), &"hash2".into())
    );
    assert!(all[3].get("steps").is_none() && all[3]["why"].is_string(), "{}", all[3]);
    assert_eq!(said.out, run_on_stdin("demux - --format ndjson", input.clone()).fine().out);
    let stepped = run_on_stdin("demux - --ndjson --steps", input).fine().json();
    assert!(stepped[3]["steps"].as_array().is_some_and(|s| s.len() >= 3), "{}", stepped[3]);
}

#[test]
fn arrays_are_read_and_every_sample_runs() {
    for name in ["connected.jsonl", "reuseport.jsonl", "dual-stack.json"] {
        for profile in ["linux", "strict"] {
            let run = |more: &str| {
                run(&format!("demux --profile {profile} {KEY} {more}"), &[&sample(name)]).fine()
            };
            let all = run("--ndjson").json();
            assert!(all.len() > 10, "{name}");
            // The two formats say the same.
            let text = run("").out;
            let results = text.lines().filter(|l| !l.starts_with("     ")).count();
            assert_eq!(results, all.len(), "{text}");
            assert_eq!(run("").out, text, "with a key a run repeats");
        }
    }
}

/// After a reconnect Linux finds a socket by score only, and a member that disconnects never rejoins its group.
#[test]
fn profiles_differ() {
    let table = |profile: &str| {
        let said = run(&format!("demux --ndjson {profile}"), &[&sample("connected.jsonl")]).fine();
        said.json()[11]["table"].clone()
    };
    assert_eq!(
        (table("--profile linux"), table("--profile strict")),
        ("hash2".into(), "hash4".into())
    );
    assert_eq!(table(""), table("--profile strict"), "the default");
    let group = |profile: &str| {
        let said =
            run(&format!("demux --ndjson --profile {profile}"), &[&sample("reuseport.jsonl")]);
        said.fine().json()[10]["group"].clone()
    };
    assert_eq!((group("linux"), group("strict")), (vec![2].into(), vec![1, 2].into()));
}

#[test]
fn bad_lines_are_named_and_passed_over_if_told() {
    let scratch = Scratch::new();
    for (bad, says) in [
        (r#"{"op":"frobnicate","id":1}"#, "unknown operation `frobnicate`"),
        (r#"{"op":"bind","id":1,"addr":"10.0.0.1"}"#, "missing field `port`"),
        (r#"{"op":"bind","id":1,"addr":"10.0.0","port":1}"#, "bad address \"10.0.0\""),
        (r#"{"op":"socket","id":1}"#, "id 1 is used twice"),
        (r#"{"op":"bind","id":7,"addr":"10.0.0.1","port":1}"#, "no socket has the id 7"),
        (r#"{"op":"close","id":1,"port":1}"#, "unknown field `port`"),
        (r#"{"op":"close""#, "no JSON object"),
    ] {
        let file = scratch.write("s.jsonl", &lines(&[&SERVER[..], &["", bad, QUERY]].concat()));
        let complaint = format!("fourtuple: {}: line 5: ", file.display());
        let said = run("demux --ndjson", &[&file]);
        assert_eq!((said.status, said.json().len()), (1, 3), "{bad}: {}", said.out);
        assert!(said.err.starts_with(&complaint) && said.err.contains(says), "{bad}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        let said = run("demux --ndjson --keep-going", &[&file]);
        let all = said.json();
        assert_eq!((said.status, all.len()), (1, 4), "{bad}: {}", said.out);
        assert_eq!(all[3]["result"], "delivered", "{bad}");
        assert!(said.err.starts_with(&complaint) && said.err.contains(says), "{bad}: {}", said.err);
    }
}

#[test]
fn missing_files_and_wrong_usage() {
    let scratch = Scratch::new();
    let missing = scratch.path("none");
    for arguments in ["demux", "demux --sockets"] {
        let said = run(arguments, &[&missing]);
        assert_eq!((said.status, said.out.as_str()), (1, ""));
        assert!(said.err.contains("none: cannot be opened: "), "{}", said.err);
    }
    for (arguments, says) in [
        ("demux", "SCENARIO"),
        ("demux a --sockets b", "cannot be used with"),
        ("demux a --device eth0", "cannot be used with"),
        ("demux --device eth0", "SCENARIO"),
        ("demux a --profile windows", "possible values"),
        ("demux --sockets a --quiet", "--capture"),
        ("demux --sockets a --datagram 10.0.0.1:1", "expected SRC:PORT -> DST:PORT"),
        ("demux --sockets a --address 10.0.0.1/40", "expected ADDRESS/LENGTH"),
        ("demux --sockets - --capture -", "standard input (-) can be read once only"),
        ("demux a --ndjson --format text", "cannot be used with"),
    ] {
        let said = run(arguments, &[]);
        assert_eq!((said.status, said.out.as_str()), (2, ""), "{arguments}: {}", said.err);
        assert!(said.err.contains(says), "{arguments}: {}", said.err);
    }
}

/// What the kernel did with each datagram when the sample was recorded (scenarios/record.sh).
#[test]
fn the_recorded_host_agrees() {
    let received = std::fs::read_to_string(sample("received.txt")).expect("is there");
    let said = run_words(
        &[
            "demux",
            "--ndjson",
            "--capture",
            sample("datagrams.pcap").to_str().expect("UTF-8"),
            "--sockets",
        ],
        &[&sample("ss.txt")],
    )
    .fine();
    let mut all = said.json();
    let summary = all.pop().expect("a summary");
    let sockets =
        run_words(&["demux", "--ndjson", "--sockets"], &[&sample("ss.txt")]).fine().json();
    let owner = |number: &Value| {
        let s = &sockets[number.as_u64().expect("a number") as usize - 1]["socket"];
        assert_eq!(s["id"], *number);
        let p = &s["processes"][0];
        format!("{}[{}]:{}", p["name"].as_str().expect("text"), p["pid"], p["fd"])
    };
    let owners = |list: &Value| -> Vec<String> {
        let mut owners: Vec<String> = list.as_array().into_iter().flatten().map(owner).collect();
        owners.sort();
        owners
    };
    let (mut compared, mut by_group) = (0, 0);
    for line in received.lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [src, sport, dst, dport, ref who @ ..] = words[..] else { panic!("{line}") };
        let is_it = |l: &&Value| {
            let d = &l["datagram"];
            d["src"] == src
                && d["dst"] == dst
                && d["sport"].as_u64() == sport.parse().ok()
                && d["dport"].as_u64() == dport.parse().ok()
        };
        let answer = all.iter().find(is_it).unwrap_or_else(|| panic!("{line}"));
        if answer.get("group").is_some() {
            assert!(owners(&answer["group"]).iter().any(|o| o == who[0]), "{line}: {answer}");
            by_group += 1;
        } else if who == ["nobody"] {
            assert_eq!(answer["result"], "port-unreachable", "{line}: {answer}");
        } else {
            assert_eq!(owners(&answer["to"]), who, "{line}: {answer}");
        }
        compared += 1;
    }
    assert_eq!((compared, all.len(), by_group), (38, 38, 11));
    let summary = &summary["summary"];
    assert_eq!((&summary["datagrams"], &summary["sent"]), (&38.into(), &2.into()));
    assert_eq!(summary["port_unreachable"], 11);
    assert_eq!(summary["groups"][0]["datagrams"], 11);
    let single: u64 = summary["sockets"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|s| s["datagrams"].as_u64().unwrap_or(0))
        .sum();
    // Ten went to one socket of a group, one of the others to two.
    assert_eq!(single, 38 - 11 - 11 + 1);
}

const LISTING: &str = "State  Recv-Q Send-Q Local Address:Port Peer Address:Port Process\n\
    UNCONN 0 0 10.0.0.2:53 0.0.0.0:* users:((\"named\",pid=7,fd=3))\n\
    UNCONN 0 0 127.0.0.53%lo:53 0.0.0.0:* users:((\"resolved\",pid=8,fd=3)) uid:992\n\
    UNCONN 0 0 0.0.0.0%eth0:67 0.0.0.0:*\n\
    UNCONN 0 0 0.0.0.0%eth1:67 0.0.0.0:*\n\
    UNCONN 0 0 0.0.0.0:5353 0.0.0.0:* uid:1\n\
    UNCONN 0 0 0.0.0.0:5353 0.0.0.0:* uid:2\n\
    ESTAB  0 0 10.0.0.2:4433 10.0.0.1:9\n";

/// Asks the sockets of [`LISTING`] about one datagram.
fn ask(datagram: &str, more: &[&str]) -> Value {
    let scratch = Scratch::new();
    let file = scratch.write("ss.txt", LISTING.as_bytes());
    let words = [&["demux", "--ndjson", "--datagram", datagram][..], more, &["--sockets"]].concat();
    run_words(&words, &[&file]).fine().json().swap_remove(0)
}

#[test]
fn devices_and_addresses() {
    let to = |datagram: &str, more: &[&str]| ask(datagram, more)["to"][0].as_u64();
    assert_eq!(to("127.0.0.1:9 -> 127.0.0.53:53", &[]), Some(2));
    assert_eq!(to("10.0.0.1:68 -> 10.0.0.2:67 dev eth1", &[]), Some(4));
    assert_eq!(to("10.0.0.1:68 -> 10.0.0.2:67", &["--device", "eth0"]), Some(3));
    assert_eq!(to("10.0.0.1:68 -> 10.0.0.2:67", &["--address", "10.0.0.2/24%eth1"]), Some(4));
    // A broadcast of a prefix that is given.
    let given = ["--address", "10.0.0.2/24", "--device", "eth0"];
    assert_eq!(ask("10.0.0.1:68 -> 10.0.0.255:67", &given)["table"], "copies");
    let unknown = ask("10.0.0.1:68 -> 10.0.0.2:67", &[]);
    assert_eq!(unknown["result"], "port-unreachable");
    let why = unknown["why"].as_str().expect("text");
    assert!(why.contains("bound to device eth0; by which one"), "{why}");
}

#[test]
fn why_not() {
    for (datagram, says) in [
        ("10.0.0.1:9 -> 10.0.0.2:54", "no socket has port 54"),
        ("10.0.0.1:9 -> 10.0.0.3:53", "socket 1 10.0.0.2:53 named[7]: bound to 10.0.0.2; socket 2"),
        (
            "10.0.0.1:8 -> 10.0.0.2:4433",
            "socket 7 10.0.0.2:4433 to 10.0.0.1:9: connected to 10.0.0.1:9",
        ),
        ("[fd00::1]:8 -> [fd00::2]:5353", "socket 5 0.0.0.0:5353: takes no IPv6"),
    ] {
        let answer = ask(datagram, &[]);
        assert_eq!(answer["result"], "port-unreachable", "{datagram}");
        let why = answer["why"].as_str().expect("text");
        assert!(why.contains(says), "{datagram}: {why}");
    }
}

/// The newest of a port is listed first; sockets of different owners cannot be a reuseport group.
#[test]
fn equals_and_what_is_assumed() {
    let answer = ask("10.0.0.1:9 -> 10.0.0.2:5353", &[]);
    assert_eq!(answer["to"], serde_json::json!([5]));
    assert!(answer.get("group").is_none());
    let scratch = Scratch::new();
    let file = scratch.write("ss.txt", LISTING.as_bytes());
    let said = run("demux --sockets", &[&file]).fine().out;
    assert!(said.contains("     2 unconnected 127.0.0.53%lo:53 resolved[8]\n"), "{said}");
    assert!(said.contains("     7 connected   10.0.0.2:4433 to 10.0.0.1:9\n"), "{said}");
    assert!(
        said.contains("sockets 5, 6 have one address and port, but different owners"),
        "{said}"
    );
    let grouped = scratch.write("ss.txt", LISTING.replace("uid:2", "uid:1").as_bytes());
    let words = ["demux", "--datagram", "10.0.0.1:9 -> 10.0.0.2:5353", "--sockets"];
    let said = run_words(&words, &[&grouped]).fine().out;
    assert!(said.contains("delivered to one of sockets 5, 6 0.0.0.0:5353"), "{said}");
    assert!(
        said.contains("sockets 5, 6 have one address and port: they are a SO_REUSEPORT group"),
        "{said}"
    );
}

#[test]
fn damaged_listings() {
    let scratch = Scratch::new();
    let damaged = LISTING.replace("10.0.0.2:53 ", "10.0.0.2:domain ");
    let file = scratch.write("ss.txt", damaged.as_bytes());
    let words = ["demux", "--datagram", "10.0.0.1:9 -> 10.0.0.2:5353", "--ndjson", "--sockets"];
    let said = run_words(&words, &[&file]);
    assert_eq!((said.status, said.out.as_str()), (1, ""));
    let complaint =
        format!("fourtuple: {}: line 2: bad address \"10.0.0.2:domain\"", file.display());
    assert!(said.err.starts_with(&complaint), "{}", said.err);
    let said = run_words(&[&words[..1], &["--keep-going"], &words[1..]].concat(), &[&file]);
    assert_eq!((said.status, said.json().len()), (1, 2));
    assert!(said.err.starts_with(&complaint), "{}", said.err);
    // Two sockets on one 4-tuple: Linux has that, the strict rules do not.
    let twice = format!("{LISTING}ESTAB 0 0 10.0.0.2:4433 10.0.0.1:9\n");
    let file = scratch.write("ss.txt", twice.as_bytes());
    assert_eq!(run("demux --sockets", &[&file]).status, 0);
    let said = run("demux --profile strict --sockets", &[&file]);
    assert_eq!(said.status, 1);
    assert!(said.err.contains("ss.txt: line 8: the socket cannot stand beside"), "{}", said.err);
}

/// Sockets of a crowded port are placed in another way, and answer alike.
#[test]
fn many_connected_sockets() {
    let scratch = Scratch::new();
    let listing = |connected: u32| {
        let mut text = String::new();
        for (head, uid) in [("0.0.0.0:443 0.0.0.0:*", ""), ("10.0.0.2:443 0.0.0.0:*", " uid:5")] {
            text.push_str(&format!("UNCONN 0 0 {head} ino:1{uid}\n"));
        }
        for i in 0..connected {
            text.push_str(&format!("ESTAB 0 0 10.0.0.2:443 10.1.{}.{}:9\n", i / 256, i % 256));
        }
        text.push_str("UNCONN 0 0 *:443 *:*\nUNCONN 0 0 0.0.0.0:443 0.0.0.0:*\n");
        scratch.write("ss.txt", text.as_bytes())
    };
    for connected in [10, 20_000] {
        let file = listing(connected);
        for profile in ["linux", "strict"] {
            let mut words = vec!["demux", "--ndjson", "--profile", profile];
            for datagram in [
                "10.1.0.7:9 -> 10.0.0.2:443",
                "10.1.0.7:8 -> 10.0.0.2:443",
                "10.1.0.7:9 -> 10.0.0.3:443",
                "[fd00::1]:9 -> [fd00::2]:443",
            ] {
                words.extend(["--datagram", datagram]);
            }
            words.push("--sockets");
            let all = run_words(&words, &[&file]).fine().json();
            let told: Vec<String> = all[..4]
                .iter()
                .map(|a| format!("{} {} {}", a["table"], a["to"], a["group"]))
                .collect();
            let dual = connected + 3;
            // The first of two at 0.0.0.0 of one owner and the last are a group.
            let (group, last) = (format!("[1,{}]", dual + 1), format!("[{dual}]"));
            let expected = [
                "\"hash4\" [10] null".to_owned(),
                "\"hash2\" [2] null".to_owned(),
                format!("\"hash2-any\" [] {group}"),
                format!("\"hash2-any\" {last} null"),
            ];
            assert_eq!(told, expected, "{connected} {profile}");
        }
    }
}

#[test]
fn captures_both_ways() {
    let scratch = Scratch::new();
    let listing = scratch
        .write("ss.txt", b"UNCONN 0 0 0.0.0.0:53 0.0.0.0:* users:((\"named\",pid=7,fd=3))\n");
    let packets = [
        (0, udp(1, 9, 2, 53, 5)),
        (MS, udp(2, 53, 1, 9, 5)),
        (2 * MS, Tcp::client(SYN, 1, 0).build()),
        (3 * MS, udp6(1, 9, 2, 53, 1)),
    ];
    let file = scratch.pcap("a.pcap", &packets);
    let path = file.to_str().expect("UTF-8");
    let said = run_words(&["demux", "--capture", path, "--sockets"], &[&listing]).fine().out;
    let first = said.lines().next().expect("a line");
    assert!(
        first.contains("1 2024-01-01T00:00:00.000000000Z 10.0.0.1:9 > 10.0.0.2:53 | delivered to socket 1 0.0.0.0:53 named[7] | hash2-any: "),
        "{first}"
    );
    for part in [
        "           4 packets",
        "           1   no UDP",
        "           1   sent by this host",
        "           2 datagrams",
        "           1 socket 1 0.0.0.0:53 named[7]",
        "           1 port unreachable",
        "           1   to [2001:db8::2]:53",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let quiet = run_words(&["demux", "-q", "--capture", path, "--sockets"], &[&listing]).fine().out;
    assert!(said.ends_with(&quiet) && quiet.starts_with("           4 packets"), "{quiet}");
    // With the host's address known nothing is guessed.
    let words = ["demux", "--ndjson", "--address", "10.0.0.1/24", "--capture", path, "--sockets"];
    let all = run_words(&words, &[&listing]).fine().json();
    assert_eq!(
        (all[0]["packet"].as_u64(), all[0]["result"].as_str()),
        (Some(2), Some("port-unreachable"))
    );
    // A capture that ends too early is read up to there.
    let cut = scratch.write("cut.pcap", &pcap(&packets)[..120]);
    let said =
        run_words(&["demux", "--capture", cut.to_str().expect("UTF-8"), "--sockets"], &[&listing]);
    assert_eq!(said.status, 1);
    assert!(
        said.out.contains("delivered to socket 1") && said.err.contains("cut.pcap: at byte "),
        "{}",
        said.err
    );
}

/// Words of a command line: blanks part them, double quotes hold them together.
fn words(line: &str) -> Vec<String> {
    let quoted = line.split('"').enumerate();
    let parts = quoted.flat_map(|(i, part)| {
        let split: Vec<String> = match i % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        };
        split
    });
    parts.collect()
}

/// Every example of docs/demux.md prints what stands there. With `UPDATE_EXAMPLES=1` it is put there.
#[test]
fn the_examples_of_the_document() {
    const BEGIN: &str = "<!-- run -->\n```\n$ fourtuple ";
    const END: &str = "```\n<!-- end -->";
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let document = root.join("docs/demux.md");
    let before = std::fs::read_to_string(&document).expect("is there");
    let mut after = String::new();
    let mut parts = before.split(BEGIN);
    after.push_str(parts.next().expect("a first part"));
    let mut examples = 0;
    for part in parts {
        let (command, rest) = part.split_once('\n').expect("a command");
        let (_, behind) = rest.split_once(END).expect("an end");
        let output = program().args(words(command)).current_dir(&root).output().expect("runs");
        let said = Said::from(output).fine().out;
        after.push_str(&[BEGIN, command, "\n", &said, END, behind].concat());
        examples += 1;
    }
    assert!(examples >= 6, "{examples}");
    if std::env::var_os("UPDATE_EXAMPLES").is_some() {
        std::fs::write(&document, &after).expect("is written");
    } else {
        assert_eq!(before, after, "UPDATE_EXAMPLES=1 cargo test -p fourtuple-cli examples");
    }
}

//! The scenario format: good files, and what is said of bad ones.
#![cfg(feature = "scenario")]

use std::ops::ControlFlow;

use fourtuple_udp::scenario::{self, Operation, Outcome, Runner};
use fourtuple_udp::{Config, Profile};

fn run(text: &str) -> Vec<Outcome> {
    scenario::run(text.as_bytes(), Profile::Strict).unwrap()
}

fn fault(text: &str) -> String {
    scenario::run(text.as_bytes(), Profile::Strict).unwrap_err().to_string()
}

const LINES: &str = r#"{"op":"device","name":"d0","addresses":["10.1.0.1/24","fd01::1/64"]}
{"op":"socket","id":1,"family":4,"v6only":false,"reuseaddr":false,"reuseport":true,"broadcast":false,"freebind":false,"device":null}
{"op":"bind","id":1,"addr":"10.1.0.1","port":53}
{"op":"socket","id":2,"reuseport":true}
{"op":"bind","id":2,"addr":"10.1.0.1","port":53}

{"op":"send","src":"10.1.0.9","sport":4000,"dst":"10.1.0.1","dport":53,"device":"d0","n":1}
{"op":"connect","id":2,"addr":"10.1.0.9","port":4000}
{"op":"send","src":"10.1.0.9","sport":4000,"dst":"10.1.0.1","dport":53}
{"op":"join","id":1,"group":"224.0.0.251","device":"d0"}
{"op":"send","src":"10.1.0.9","sport":4000,"dst":"224.0.0.251","dport":53,"device":"d0"}
{"op":"leave","id":1,"group":"224.0.0.251","device":"d0"}
{"op":"icmp","type":3,"code":3,"src":"10.1.0.1","sport":53,"dst":"10.1.0.9","dport":4000}
{"op":"disconnect","id":2}
{"op":"set","id":1,"reuseport":false}
{"op":"close","id":1}
{"op":"bind","id":1,"addr":"10.1.0.1","port":53}
{"op":"send","src":"10.1.0.9","sport":4000,"dst":"10.1.0.1","dport":54,"device":"d0"}"#;

#[test]
fn a_whole_scenario() {
    let got: Vec<String> = run(LINES)
        .into_iter()
        .map(|mut o| {
            o.why = None;
            serde_json::to_string(&o).unwrap()
        })
        .collect();
    let table = if cfg!(feature = "hash4") { "hash4" } else { "hash2" };
    let own = r#""local":{"addr":"10.1.0.1","port":53}"#;
    let want = [
        r#"{"op":"device","result":"ok"}"#.to_owned(),
        r#"{"op":"socket","id":1,"result":"ok"}"#.to_owned(),
        format!(r#"{{"op":"bind","id":1,"result":"ok",{own},"peer":null}}"#),
        r#"{"op":"socket","id":2,"result":"ok"}"#.to_owned(),
        format!(r#"{{"op":"bind","id":2,"result":"ok",{own},"peer":null}}"#),
        String::new(),
        format!(
            r#"{{"op":"connect","id":2,"result":"ok",{own},"peer":{{"addr":"10.1.0.9","port":4000}}}}"#
        ),
        format!(
            r#"{{"op":"send","result":"delivered","to":[2],"table":"{}"}}"#,
            if cfg!(feature = "hash4") { "early-demux" } else { table }
        ),
        format!(r#"{{"op":"join","id":1,"result":"ok",{own},"peer":null}}"#),
        r#"{"op":"send","result":"dropped","reason":"no-listener"}"#.to_owned(),
        format!(r#"{{"op":"leave","id":1,"result":"ok",{own},"peer":null}}"#),
        r#"{"op":"icmp","result":"socket-error","to":[2],"errno":"ECONNREFUSED"}"#.to_owned(),
        format!(r#"{{"op":"disconnect","id":2,"result":"ok",{own},"peer":null}}"#),
        format!(r#"{{"op":"set","id":1,"result":"ok",{own},"peer":null}}"#),
        r#"{"op":"close","id":1,"result":"ok"}"#.to_owned(),
        r#"{"op":"bind","id":1,"result":"EBADF"}"#.to_owned(),
        r#"{"op":"send","result":"port-unreachable"}"#.to_owned(),
    ];
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(&want).filter(|(_, w)| !w.is_empty()) {
        assert_eq!(got, want);
    }
    // The group's member is the hash's choice: the group is named.
    let grouped: Outcome = serde_json::from_str(&got[5]).unwrap();
    assert_eq!(grouped.group, Some(vec![1, 2]));
    assert!([vec![1], vec![2]].contains(&grouped.to.unwrap()));
    assert_eq!(grouped.table.as_deref(), Some("hash2"));
}

#[test]
fn an_array_is_the_same() {
    let lines: Vec<&str> = LINES.lines().filter(|l| !l.is_empty()).collect();
    let key = fourtuple_hash::Key::from_words(1, 2);
    let run = |text: &str| {
        let mut config = Config::new(Profile::Strict);
        config.key = key;
        let mut runner = Runner::new(&config);
        let mut out = Vec::new();
        scenario::each(text.as_bytes(), |_, text| {
            out.push(runner.apply(&Operation::parse(text).unwrap()).unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
        out
    };
    let array = format!("\n [\n{}\n]\n", lines.join(",\n"));
    assert_eq!(run(&array), run(LINES));
}

#[test]
fn operations_survive_a_round_trip() {
    for line in LINES.lines().filter(|l| !l.is_empty()) {
        let op = Operation::parse(line).unwrap();
        let text = serde_json::to_string(&op).unwrap();
        assert_eq!(Operation::parse(&text).unwrap(), op, "{text}");
    }
}

#[test]
fn results_have_words() {
    let out = run(LINES);
    assert!(out[5].why.as_ref().unwrap().contains("reuseport group of 2"));
    let last = out.last().unwrap();
    assert!(last.why.as_ref().unwrap().contains("no socket has this port"), "{:?}", last.why);
}

#[test]
fn steps_name_sockets_by_their_numbers() {
    let mut runner = Runner::new(&Config::new(Profile::Linux));
    runner.steps = true;
    for line in
        [r#"{"op":"socket","id":77}"#, r#"{"op":"bind","id":77,"addr":"0.0.0.0","port":53}"#]
    {
        runner.apply(&Operation::parse(line).unwrap()).unwrap();
    }
    let send = r#"{"op":"send","src":"127.0.0.1","sport":1,"dst":"127.0.0.1","dport":53}"#;
    let out = runner.apply(&Operation::parse(send).unwrap()).unwrap();
    assert!(out.steps.contains(&"socket 77: score 2".to_owned()), "{:?}", out.steps);
}

#[test]
fn faults_name_line_and_cause() {
    let socket = r#"{"op":"socket","id":1}"#;
    let cases = [
        (r#"{"op":"bund","id":1}"#, "unknown operation `bund`"),
        (r#"{"id":1}"#, "missing field `op`"),
        (r#"{"op":7}"#, "field `op` is not a string"),
        (r#"{"op":"bind","id":1,"addr":"10.1.0.1"}"#, "operation `bind`: missing field `port`"),
        (r#"{"op":"bind","id":1,"addr":"10.1.0","port":1}"#, "bad address \"10.1.0\""),
        (r#"{"op":"bind","id":1,"addr":"::1%","port":1}"#, "a scope is a device's name"),
        (r#"{"op":"bind","id":1,"addr":"fe80::1%d7","port":1}"#, "no device has the name `d7`"),
        (r#"{"op":"bind","id":1,"addr":"::1","port":70000}"#, "70000"),
        (r#"{"op":"bind","id":2,"addr":"::1","port":1}"#, "no socket has the id 2"),
        (r#"{"op":"bind","id":1,"addr":"::1","port":1,"prot":2}"#, "unknown field `prot`"),
        (r#"{"op":"socket","id":1}"#, "id 1 is used twice"),
        (r#"{"op":"socket","id":2,"family":5}"#, "expected 4 or 6"),
        (r#"{"op":"socket","id":2,"reuseprt":true}"#, "unknown field `reuseprt`"),
        (r#"{"op":"device","name":"d0","addresses":["10.1.0.1"]}"#, "bad prefix"),
        (r#"{"op":"device","name":"d0","addresses":["10.1.0.1/33"]}"#, "bad prefix"),
        (r#"{"op":"sysctl","name":"net.ipv4.nonsense","value":1}"#, "unknown setting"),
        (r#"{"op":"send","src":"::1","sport":1,"dst":"1.1.1.1","dport":1}"#, "different families"),
        (r#"{"op":"send","src":"1.1.1.1","sport":1,"dst":"1.1.1.1","dport":1,"n":0}"#, "`n` is 0"),
        ("nonsense", "no JSON object"),
        ("7", "no JSON object"),
    ];
    for (line, cause) in cases {
        let text = fault(&format!("{socket}\n\n{line}\n"));
        assert!(text.starts_with("line 3: ") && text.contains(cause), "{line}: {text}");
        if line.starts_with('{') {
            let text = fault(&format!("[{socket},\n\n{line}]"));
            assert!(text.starts_with("line 3: ") && text.contains(cause), "{line}: {text}");
        }
    }
}

#[test]
fn files_that_are_no_scenario() {
    assert!(fault("[{\"op\":\"socket\",\"id\":1},\n,]").starts_with("line 2: no JSON array"));
    assert!(fault("\n[1,").contains("no JSON array"));
    let bytes: &[u8] = b"{\"op\":\"socket\",\"id\":1}\n\xff\n";
    let error = scenario::run(bytes, Profile::Strict).unwrap_err().to_string();
    assert!(error.starts_with("line 2: no UTF-8"), "{error}");
    let long = " ".repeat(scenario::MAX_LINE_BYTES + 1);
    assert!(fault(&long).contains("longer than"));
    assert!(run("").is_empty() && run("\n \n").is_empty() && run("[]").is_empty());
}

#[test]
fn the_rest_of_a_file_can_be_run() {
    let text = "{\"op\":\"socket\",\"id\":1}\nnonsense\n{\"op\":\"close\",\"id\":1}";
    let mut runner = Runner::new(&Config::default());
    let mut lines = Vec::new();
    scenario::each(text.as_bytes(), |line, text| {
        let result = Operation::parse(text).and_then(|op| runner.apply(&op));
        lines.push((line, result.is_ok()));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(lines, [(1, true), (2, false), (3, true)]);
}

#[test]
fn settings() {
    let value = |name: &str, value: &str| {
        let op = format!(r#"{{"op":"sysctl","name":"{name}","value":{value}}}"#);
        run(&op)[0].result.clone().into_owned()
    };
    assert_eq!(value("net.ipv4.ip_local_port_range", "\"40000 40999\""), "ok");
    assert_eq!(value("net.ipv4.ip_local_port_range", "\"40000\""), "EINVAL");
    assert_eq!(value("net.ipv4.ip_local_port_range", "\"5 4\""), "EINVAL");
    assert_eq!(value("net.ipv4.ip_local_reserved_ports", "\"1,5-9\""), "ok");
    assert_eq!(value("net.ipv4.ip_local_reserved_ports", "\"9-5\""), "EINVAL");
    assert_eq!(value("net.ipv4.ip_unprivileged_port_start", "0"), "ok");
    assert_eq!(value("net.ipv6.bindv6only", "1"), "ok");
}

#[test]
fn connect_from_and_options() {
    let out = run(r#"{"op":"device","name":"d0","addresses":["10.1.0.1/24"]}
{"op":"socket","id":1,"family":4}
{"op":"bind","id":1,"addr":"0.0.0.0","port":53}
{"op":"connect-from","id":2,"family":4,"local":{"addr":"10.1.0.1","port":53},"peer":{"addr":"10.1.0.9","port":9000}}
{"op":"connect-from","id":3,"family":4,"local":{"addr":"10.1.0.1","port":53},"peer":{"addr":"10.1.0.9","port":9000}}
{"op":"send","src":"10.1.0.9","sport":9000,"dst":"10.1.0.1","dport":53}
{"op":"set","id":1,"device":"d0","incoming_cpu":-1,"local_port_range":[0,0]}
{"op":"set","id":1,"device":null}"#);
    assert_eq!(out[3].result, "ok");
    assert_eq!(out[4].result, "EADDRINUSE");
    assert_eq!(out[5].to, Some(vec![2]));
    assert_eq!((&*out[6].result, &*out[7].result), ("ok", "ok"));
}

#[test]
fn an_icmp_error_arrives_on_a_cpu() {
    let lines = r#"{"op":"device","name":"d0","addresses":["10.1.0.1/24"]}
{"op":"socket","id":1,"reuseaddr":true,"incoming_cpu":3,"recverr":true}
{"op":"bind","id":1,"addr":"10.1.0.1","port":53}
{"op":"socket","id":2,"reuseaddr":true,"incoming_cpu":4,"recverr":true}
{"op":"bind","id":2,"addr":"10.1.0.1","port":53}
{"op":"icmp","type":3,"code":3,"src":"10.1.0.1","sport":53,"dst":"10.1.0.9","dport":40,"cpu":3}
{"op":"icmp","type":3,"code":3,"src":"10.1.0.1","sport":53,"dst":"10.1.0.9","dport":40,"cpu":4}"#;
    let outcomes = run(lines);
    assert_eq!(outcomes[5].to, Some(vec![1]));
    assert_eq!(outcomes[6].to, Some(vec![2]));
}

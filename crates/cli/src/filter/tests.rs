use super::*;
use fourtuple::packet::protocol;
use proptest::prelude::*;
use std::net::IpAddr;

fn address(text: &str) -> (Family, Address) {
    match text.parse::<IpAddr>().expect("an address") {
        IpAddr::V4(a) => {
            let mut out = [0; 16];
            out[..4].copy_from_slice(&a.octets());
            (Family::V4, out)
        }
        IpAddr::V6(a) => (Family::V6, a.octets()),
    }
}

fn facts(protocol: u8, src: &str, sport: u16, dst: &str, dport: u16) -> Facts {
    let ((family, src), (_, dst)) = (address(src), address(dst));
    Facts { family, src, dst, protocol, ports: Some((sport, dport)) }
}

fn fits(expression: &str, facts: &Facts) -> bool {
    let filter: Filter = expression.parse().unwrap_or_else(|e| panic!("{e}"));
    filter.matches(Some(facts))
}

#[test]
fn tests_of_one_packet() {
    let web = facts(protocol::TCP, "10.0.0.1", 40_000, "10.0.0.2", 80);
    for yes in [
        "tcp",
        "ip",
        "host 10.0.0.1",
        "10.0.0.2",
        "src 10.0.0.1",
        "src host 10.0.0.1",
        "dst 10.0.0.2",
        "net 10.0.0.0/8",
        "10.0.0.0/30",
        "src net 10.0.0.0/31",
        "net 0.0.0.0/0",
        "port 80",
        "dst port 80",
        "portrange 80-90",
        "tcp port 80",
        "tcp dst port 80",
        "proto 6",
        "proto tcp",
        "not udp",
        "! udp",
        "port 443 or 80",
        "tcp port 22 or 80",
        "(tcp)",
        "!(udp or icmp)",
        "tcp&&port 80",
        "udp||tcp",
        "host 10.0.0.1 and (port 80 or port 443)",
        "src host 10.0.0.9 or 10.0.0.1",
        "ip host 10.0.0.2",
    ] {
        assert!(fits(yes, &web), "{yes}");
    }
    for no in [
        "udp",
        "ip6",
        "host 10.0.0.3",
        "src 10.0.0.2",
        "dst 10.0.0.1",
        "net 10.1.0.0/16",
        "port 81",
        "src port 80",
        "portrange 81-90",
        "udp port 80",
        "proto 17",
        "not tcp",
        "tcp and udp",
        "::1",
        "net ::/0",
        "udp port 80 or 80",
        "ip6 port 80",
    ] {
        assert!(!fits(no, &web), "{no}");
    }
    let six = facts(protocol::UDP, "2001:db8::1", 53, "2001:db8:1::2", 4000);
    for yes in ["ip6", "host 2001:db8::1", "net 2001:db8::/32", "src port 53", "udp port 53"] {
        assert!(fits(yes, &six), "{yes}");
    }
    assert!(!fits("net 2001:db8::/48 and dst net 2001:db8::/48", &six));
    assert!(!fits("net 0.0.0.0/0", &six));
}

/// pcap-filter(7): "and" and "or" have equal precedence and associate left to right.
#[test]
fn equal_precedence_as_in_tcpdump() {
    let web = facts(protocol::TCP, "10.0.0.1", 40_000, "10.0.0.2", 80);
    assert!(!fits("tcp or udp and port 53", &web));
    assert!(fits("tcp or (udp and port 53)", &web));
    assert!(fits("udp and port 53 or tcp", &web));
}

#[test]
fn frames_without_ip_fit_no_test() {
    let matches = |s: &str| s.parse::<Filter>().expect(s).matches(None);
    assert!(!matches("ip"));
    assert!(!matches("net 0.0.0.0/0"));
    assert!(matches("not tcp"));
    let icmp = Facts { ports: None, ..facts(protocol::ICMP, "10.0.0.1", 0, "10.0.0.2", 0) };
    assert!(!fits("port 0", &icmp));
    assert!(fits("icmp and not port 0", &icmp));
}

#[test]
fn errors_point_at_their_place() {
    for (expression, column, says) in [
        ("", 1, "expected a test"),
        ("   ", 1, "expected a test"),
        ("port", 5, "expected a port number here, at the end"),
        ("port x", 6, "expected a port number, not 'x'"),
        ("port 65536", 6, "expected a port number"),
        ("port +80", 6, "expected a port number"),
        ("host 10.0.0.1 and", 18, "at the end"),
        ("host 10.0.0.1 port 80", 15, "expected 'and' or 'or' before 'port'"),
        ("host example.test", 6, "names are not looked up"),
        ("host 10.0.0.0/8", 6, "say 'net'"),
        ("net 10.0.0.1/8", 5, "bits set beyond its mask of 8"),
        ("net 10.0.0.0/33", 5, "0 to 32 bits"),
        ("net ::/129", 5, "0 to 128 bits"),
        ("tcp and (port 80", 9, "not closed"),
        ("tcp)", 4, "not opened"),
        ("(tcp udp)", 6, "expected 'and', 'or' or ')' before 'udp'"),
        ("tcp and or udp", 9, "not 'or'"),
        ("80", 1, "did you mean 'port 80'"),
        ("portrange 90-80", 11, "expected a range"),
        ("portrange 80", 11, "expected a range"),
        ("proto 256", 7, "expected a protocol"),
        ("tcp & udp", 5, "before '&'"),
        ("src", 4, "at the end"),
        ("src tcp", 5, "not 'tcp'"),
        ("frobnicate", 1, "not 'frobnicate'"),
        ("tcp and ünï", 9, "not 'ünï'"),
    ] {
        let e = expression.parse::<Filter>().expect_err(expression);
        assert_eq!(e.column, column, "{expression}: {e}");
        assert!(e.message.contains(says), "{expression}: {e}");
        assert!(e.message.starts_with(&format!("column {column}: ")), "{e}");
        let mark = e.to_string().lines().last().expect("lines").chars().count();
        assert_eq!(mark, column + 2, "{e}");
    }
}

#[test]
fn depth_is_bounded_and_length_is_not() {
    let deep = format!("{}tcp{}", "(".repeat(10_000), ")".repeat(10_000));
    assert!(deep.parse::<Filter>().expect_err("too deep").message.contains("too many levels"));
    assert!("!".repeat(10_000).parse::<Filter>().is_err());
    let long = vec!["port 1"; 20_000].join(" or ");
    let web = facts(protocol::TCP, "10.0.0.1", 2, "10.0.0.2", 1);
    assert!(fits(&long, &web));
}

proptest! {
    #[test]
    fn any_text_is_refused_or_read(text in ".{0,60}") {
        let _ = text.parse::<Filter>();
    }

    #[test]
    fn any_words_are_refused_or_read(words in prop::collection::vec(
        prop::sample::select(vec!["tcp", "src", "dst", "host", "net", "port", "and", "or", "not", "(", ")", "80", "10.0.0.1",
            "10.0.0.0/8", "::1", "!", "&&", "portrange", "1-2", "proto", "ip6"]), 0..12)) {
        if let Ok(filter) = words.join(" ").parse::<Filter>() {
            let web = facts(protocol::TCP, "10.0.0.1", 2, "10.0.0.2", 80);
            filter.matches(Some(&web));
        }
    }

    /// A prefix test against the definition, bit by bit.
    #[test]
    fn prefixes(a: [u8; 16], flip in 0usize..128, bits in 0u8..=128) {
        let mut b = a;
        b[flip / 8] ^= 0x80 >> (flip % 8);
        prop_assert!(same_prefix(&a, &a, bits));
        prop_assert_eq!(same_prefix(&a, &b, bits), flip >= usize::from(bits));
    }
}

//! The live kernel and the UDP table, operation by operation, on generated scenarios.
//!
//! `FOURTUPLE_ORACLE_UDP_OPERATIONS` says how many operations (default 100,000), `FOURTUPLE_ORACLE_SEED`
//! from which seed on (default: another one each time; it is printed).

use std::time::Duration;

use fourtuple_oracle::udp::{UdpLimits, udp_campaign};
use fourtuple_oracle::{Error, required};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    Some(number.unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

#[test]
fn generated_scenarios_get_the_kernels_answers() {
    let name = "generated_scenarios_get_the_kernels_answers";
    let seed = number("FOURTUPLE_ORACLE_SEED").unwrap_or_else(|| fastrand::u64(..));
    let operations = number("FOURTUPLE_ORACLE_UDP_OPERATIONS").unwrap_or(100_000);
    let limits = UdpLimits { operations, time: Duration::from_secs(3600), differences: 10 };
    println!("seed {seed:#x}");
    let summary = udp_campaign(seed, limits, |_, difference| {
        if let Some(text) = difference {
            println!("{text}\n");
        }
    });
    let summary = match summary {
        Ok(summary) => summary,
        Err(Error::Unavailable(missing)) => {
            assert!(!required(), "{name}: {missing}");
            println!("skipped: {name}: {missing}");
            return;
        }
        Err(error) => panic!("{name}: {error}"),
    };
    println!("{summary}");
    assert!(summary.agrees(), "differences from seed {seed:#x} on");
    assert!(
        summary.operations >= operations.min(1_000_000_000),
        "{} operations",
        summary.operations
    );
    let answered = |op: &str, result: &str| {
        summary.answers.get(&(op.to_owned(), result.to_owned())).copied().unwrap_or(0)
    };
    if operations >= 3_000 {
        for (op, result) in
            [("send", "delivered"), ("send", "port-unreachable"), ("bind", "ok"), ("connect", "ok")]
        {
            assert!(answered(op, result) > 0, "no {op} was {result}");
        }
    }
}

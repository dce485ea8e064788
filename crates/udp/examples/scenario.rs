//! Runs a scenario from standard input: `cargo run --example scenario -- linux|strict < FILE`.

use std::ops::ControlFlow;

use fourtuple_udp::scenario::{Operation, Runner, each};
use fourtuple_udp::{Config, Profile};

fn main() {
    let profile = match std::env::args().nth(1).as_deref() {
        Some("linux") => Profile::Linux,
        _ => Profile::Strict,
    };
    let mut runner = Runner::new(&Config::new(profile));
    runner.steps = std::env::args().any(|a| a == "--steps");
    let result = each(std::io::stdin().lock(), |line, text| {
        match Operation::parse(text).and_then(|op| runner.apply(&op)) {
            Ok(outcome) => println!("{}", serde_json::to_string(&outcome).unwrap_or_default()),
            Err(cause) => eprintln!("line {line}: {cause}"),
        }
        ControlFlow::Continue(())
    });
    if let Err(fault) = result {
        eprintln!("{fault}");
        std::process::exit(1);
    }
}

//! The program itself, quickly: every row is there and has figures.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

fn run() -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fourtuple-bench"));
    let done = command.args(["--quick", "--json"]).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn json_has_every_row_with_positive_figures() {
    let all: Value = serde_json::from_str(&run()).unwrap();
    assert_eq!(all["quick"], true);
    assert_eq!(all["optimized"], !cfg!(debug_assertions));
    let mut names = BTreeSet::new();
    let mut parts = std::collections::BTreeMap::new();
    for row in all["rows"].as_array().unwrap() {
        let what = row["what"].as_str().unwrap();
        assert!(names.insert((what, row["entries"].as_u64())), "twice: {row}");
        *parts.entry(row["part"].as_str().unwrap()).or_insert(0) += 1;
        let [min, median, max] = ["min", "median", "max"].map(|k| row["ns"][k].as_f64().unwrap());
        assert!(min > 0.0 && min <= median && median <= max && max < 1e9, "{row}");
        assert!((row["million_per_second"].as_f64().unwrap() * median - 1e3).abs() < 1e-3, "{row}");
        assert!(row["operations"].as_u64().unwrap() >= 10_000, "{row}");
        assert_eq!(row["rounds"], 1);
    }
    // 3 layouts by 2 families and 5 peers; 3 ways by 3 frames; 2 tables by 3 operations by 2 sizes; 2 protocols by
    // 2 ways by 3 sizes; 2 protocols.
    let expected = [("hash", 11), ("open", 2), ("parse", 9), ("table", 12), ("track", 12)];
    assert_eq!(parts.into_iter().collect::<Vec<_>>(), expected);
}

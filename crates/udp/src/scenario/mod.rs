//! Scenarios: socket operations and datagrams as JSON, one a line or in an array, and what comes of
//! each.
//!
//! ```
//! use fourtuple_udp::{Profile, scenario};
//!
//! let text = r#"{"op":"socket","id":1,"family":4}
//! {"op":"bind","id":1,"addr":"127.0.0.1","port":53}
//! {"op":"send","src":"127.0.0.1","sport":9,"dst":"127.0.0.1","dport":53}"#;
//! let outcomes = scenario::run(text.as_bytes(), Profile::Strict).unwrap();
//! assert_eq!(outcomes[2].to, Some(vec![1]));
//! ```

mod operation;
mod outcome;
mod read;
mod run;
mod sysctl;
mod why;

pub use operation::{
    Addr, Endpoint, FilterChange, Number, Operation, OptionFields, SocketFields, Value,
};
pub use outcome::{Outcome, SocketEnd};
pub use read::{Fault, MAX_ARRAY_BYTES, MAX_LINE_BYTES, each};
pub use run::{Cause, Runner, run};

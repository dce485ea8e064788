//! What the tests that ask the kernel share.

use fourtuple_oracle::{Error, Judge, Settings, required};

/// A judge for a test, or `None` where this machine has none: then the test says so by name and is skipped, unless a
/// skip is a failure.
pub(crate) fn judge(test: &str, settings: &Settings) -> Option<Judge> {
    match Judge::new(settings) {
        Ok(judge) => Some(judge),
        Err(Error::Unavailable(missing)) => {
            assert!(!required(), "{test}: {missing}");
            println!("skipped: {test}: {missing}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

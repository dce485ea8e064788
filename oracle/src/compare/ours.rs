//! The tracker under test, set as the kernel is.

use fourtuple_conntrack::{
    Conntrack, CutPackets, PathOptions, ReceivePath, SettingError, Settings as Own, TupleHash,
};
use fourtuple_hash::Key;

use crate::settings::Settings;

/// More events than a step makes.
const EVENTS: usize = 4096;

/// A receive path under the values that the kernel has, lengthening included.
///
/// # Panics
/// If the tracker does not know a setting that the judge has.
pub(super) fn path(settings: &Settings) -> ReceivePath {
    let mut own = Own::default();
    for (name, value) in settings.kernel() {
        match own.set(name, &value.to_string()) {
            Ok(()) | Err(SettingError::NotApplicable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let mut conntrack = Conntrack::new(own, TupleHash::Compact, Key::from_words(1, 2));
    conntrack.enable_events(EVENTS);
    let options = PathOptions { cut: CutPackets::Drop, ..PathOptions::default() };
    ReceivePath::new(conntrack, options)
}

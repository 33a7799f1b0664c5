//! What must hold for arbitrary bytes from peers and files, for fuzzers and for their corpora. Each function panics if it
//! does not.
use std::path::Path;

pub use crate::http::fuzzing::{connect, header_fields, protocol};
pub use aconite_dialects::checks::{answers, event_codec, json_edits};
use aconite_toxics::Catalogue;

use crate::config::ConfigFile;

/// A configuration is read, or what is wrong with it is said with a place inside of it.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Err(complaint) = ConfigFile::parse(Path::new("fuzzed"), text, &Catalogue::default()) else { return };
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count() as u64;
    assert!((1..=lines + 1).contains(&complaint.place.line), "{complaint} in {lines} lines");
    assert!(complaint.place.column >= 1 && !complaint.error.message.is_empty(), "{complaint}");
}

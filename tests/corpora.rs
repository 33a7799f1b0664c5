//! Replays the fuzz targets' corpora with plain Rust, so that neither rots.
use std::{collections::BTreeSet, fs, path::Path};

use aconite::fuzzing;

type Property = fn(&[u8]);

/// Every fuzz target, and the function that it calls.
const TARGETS: [(&str, &str, Property); 7] = [
    ("answers", "answers", fuzzing::answers),
    ("config", "config", fuzzing::config),
    ("connect", "connect", fuzzing::connect),
    ("header_fields", "header_fields", fuzzing::header_fields),
    ("json_edit", "json_edits", fuzzing::json_edits),
    ("protocol", "protocol", fuzzing::protocol),
    ("sse_decoder", "event_codec", fuzzing::event_codec),
];

fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

#[test]
fn every_target_calls_its_function_and_has_a_corpus() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let listed: BTreeSet<_> = TARGETS.iter().map(|(target, ..)| (*target).to_owned()).collect();
    assert_eq!(names(&fuzz.join("fuzz_targets")), listed);
    assert_eq!(names(&fuzz.join("corpus")), listed);
    for (target, function, _) in TARGETS {
        let source = fs::read_to_string(fuzz.join("fuzz_targets").join(format!("{target}.rs"))).unwrap();
        assert!(source.contains(&format!("aconite::fuzzing::{function}(input)")), "{target}: {source}");
    }
}

#[test]
fn every_input_of_the_corpora_holds() {
    for (target, _, property) in TARGETS {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
        for name in names(&corpus) {
            let input = fs::read(corpus.join(&name)).unwrap();
            // What was cut off at some place has to hold as well.
            let cuts = (0..input.len()).step_by(input.len() / 40 + 1);
            for length in cuts.chain([input.len()]) {
                let holds = std::panic::catch_unwind(|| property(&input[..length]));
                assert!(holds.is_ok(), "{target}/{name}, its first {length} bytes");
            }
        }
    }
}

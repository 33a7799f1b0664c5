//! What the crates that we depend on may be: `deny.toml`, checked with nothing but Cargo.
use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

/// The packages of a build on this platform, with everything that they need.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--offline",
            "--format-version",
            "1",
            "--filter-platform",
            "x86_64-unknown-linux-gnu",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The strings of a list in `deny.toml`, without their comments.
fn listed(list: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/deny.toml")).unwrap();
    let begin = text.find(&format!("\n{list} = [")).unwrap_or_else(|| panic!("{list} is not in deny.toml"));
    let rest = &text[begin..];
    let lines =
        rest[..rest.find("\n]").unwrap()].lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(|line| line.split('"').skip(1).step_by(2).take(1)).map(str::to_owned).collect()
}

/// Whether an SPDX expression leaves us a choice of `allowed` licences. `/` is an old way to write OR.
fn permits(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let plain = expression.replace(['(', ')'], "").replace(" / ", " OR ").replace('/', " OR ");
    // Every expression here is a conjunction of alternatives: stricter for others, never laxer.
    plain.split(" AND ").all(|part| part.split(" OR ").any(|licence| allowed.contains(licence.trim())))
}

#[test]
fn licences_are_permissive() {
    let allowed = listed("allow");
    let refused: Vec<_> = packages()
        .iter()
        .map(|package| {
            (package["name"].to_string(), package["license"].as_str().unwrap_or_default().to_owned())
        })
        .filter(|(_, licence)| !permits(licence, &allowed))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "ISC"].map(str::to_owned).into();
    for (expression, permitted) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR MIT) AND GPL-2.0", false),
    ] {
        assert_eq!(permits(expression, &allowed), permitted, "{expression}");
    }
}

#[test]
fn there_is_one_version_of_a_crate() {
    let mut versions = BTreeMap::<String, BTreeSet<String>>::new();
    for package in packages() {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        versions.entry(name.to_owned()).or_default().insert(format!("{name}@{version}"));
    }
    let several: BTreeSet<_> =
        versions.into_values().filter(|versions| versions.len() > 1).flatten().collect();
    let known = listed("skip");
    let stale: Vec<_> = known.difference(&several).collect();
    assert!(stale.is_empty(), "no longer needed in deny.toml: {stale:?}");
    let excused = |crate_: &String| known.contains(crate_);
    let newest: BTreeSet<_> = several.iter().filter(|each| !excused(each)).collect();
    let names: Vec<_> = newest.iter().map(|each| each.split('@').next().unwrap()).collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), distinct.len(), "several versions of a crate: {newest:?}");
}

#[test]
fn sources_are_the_registry_and_this_repository() {
    let foreign: Vec<_> = packages()
        .iter()
        .filter_map(|package| package["source"].as_str().map(str::to_owned))
        .filter(|source| source != "registry+https://github.com/rust-lang/crates.io-index")
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn a_build_without_features_has_no_opentelemetry() {
    let tree = |features: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--edges", "normal", "--prefix", "none"])
            .args(features)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(tree(&[]).contains("opentelemetry"));
    let without = tree(&["--no-default-features"]);
    assert!(without.contains("tracing-subscriber") && !without.contains("opentelemetry"), "{without}");
}

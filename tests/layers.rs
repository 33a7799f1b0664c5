//! Which crate and which module may use which.
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

/// What each module of `src/` may use of its siblings. A module that is missing may use none.
const MODULES: [(&str, &[&str]); 17] = [
    ("admin", &["link", "listen"]),
    ("cli", &["config", "files", "http", "instance", "journal", "tls"]),
    ("config", &["listen"]),
    ("connection", &["link", "metrics", "plan", "site"]),
    ("dial", &["files", "link", "tls"]),
    ("fuzzing", &["config", "http"]),
    (
        "http",
        &[
            "connection",
            "dial",
            "journal",
            "link",
            "metrics",
            "plan",
            "secrets",
            "sim",
            "site",
            "steady",
            "tcp",
            "tls",
            "workers",
        ],
    ),
    ("instance", &["admin", "config", "files", "journal", "listen", "plan", "supervisor", "tls"]),
    ("journal", &["secrets"]),
    ("link", &["files"]),
    ("listen", &["link"]),
    ("plan", &[]),
    ("proxy", &["connection", "dial", "files", "http", "link", "site", "tcp", "tls", "workers"]),
    ("site", &["journal", "link", "metrics", "plan"]),
    (
        "supervisor",
        &[
            "connection",
            "dial",
            "files",
            "http",
            "journal",
            "link",
            "listen",
            "metrics",
            "plan",
            "proxy",
            "site",
            "tls",
            "workers",
        ],
    ),
    ("tcp", &["connection", "dial", "link"]),
    ("workers", &["steady"]),
];

/// The modules of `src/http`, from below: each may use those before it.
const HTTP: [&str; 9] =
    ["message", "target", "ongoing", "body", "proxy_error", "upstream", "client", "exchange", "server"];

/// What each crate of the workspace may use of the others, and what it must not use at all.
const CRATES: [(&str, &[&str], &[&str]); 5] = [
    ("aconite-dialects", &[], &["tokio", "hyper", "axum", "rustls"]),
    ("aconite-routing", &["aconite-dialects"], &["tokio", "hyper", "axum", "rustls", "rand"]),
    ("aconite-toxics", &["aconite-dialects"], &["tokio", "hyper", "axum", "rustls"]),
    ("aconite-api", &["aconite-dialects", "aconite-toxics"], &["rustls"]),
    ("aconite", &["aconite-api", "aconite-dialects", "aconite-routing", "aconite-toxics"], &[]),
];

#[test]
fn crates_depend_on_lower_ones_only() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert_eq!(packages.len(), CRATES.len(), "a crate without a row here");
    for (name, lower, banned) in CRATES {
        let package = packages.iter().find(|package| package["name"] == name).unwrap();
        let normal = package["dependencies"].as_array().unwrap().iter().filter(|each| each["kind"].is_null());
        for dependency in normal.filter_map(|each| each["name"].as_str()) {
            assert!(!banned.contains(&dependency), "{name} must not depend on {dependency}");
            let ours = dependency.starts_with("aconite");
            assert!(!ours || lower.contains(&dependency), "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn modules_use_only_those_below() {
    let allowed: BTreeMap<_, _> = MODULES.into_iter().collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = BTreeSet::new();
    for file in sources(&root) {
        let module =
            file.strip_prefix(&root).unwrap().iter().next().unwrap().to_string_lossy().replace(".rs", "");
        if matches!(&*module, "lib" | "main") || is_test(&file) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        // What follows is a file's own tests, which may look anywhere.
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        for used in siblings(text) {
            if used != module && !allowed.get(&*module).is_some_and(|allowed| allowed.contains(&&*used)) {
                wrong.insert(format!("{module} uses {used}, in {}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn modules_of_http_use_only_those_below() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http");
    let mut wrong = BTreeSet::new();
    for file in sources(&root).into_iter().filter(|file| !is_test(file)) {
        let relative = file.strip_prefix(&root).unwrap();
        let module = relative.iter().next().unwrap().to_string_lossy().replace(".rs", "");
        if matches!(&*module, "mod" | "fuzzing") {
            continue;
        }
        let place = HTTP.iter().position(|known| *known == module);
        let place = place.unwrap_or_else(|| panic!("{module} has no place in the list"));
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap_or_default();
        let mut used_here = named_behind("http::", text);
        if relative.iter().count() == 1 {
            used_here.extend(named_behind("super::", text));
        }
        for used in used_here {
            if HTTP.iter().position(|known| *known == used).is_some_and(|other| other > place) {
                wrong.insert(format!("{module} uses {used}, in {}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Following the table from any module never leads back to it.
#[test]
fn no_module_is_below_itself() {
    let below: BTreeMap<_, _> = MODULES.into_iter().collect();
    for (module, uses) in MODULES {
        let mut seen = BTreeSet::new();
        let mut next = uses.to_vec();
        while let Some(used) = next.pop() {
            assert_ne!(used, module, "{module} is below itself");
            if seen.insert(used) {
                next.extend(below.get(used).copied().unwrap_or_default());
            }
        }
    }
}

/// What moves bytes and messages does not know the admin API.
#[test]
fn traffic_does_not_see_the_api() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules = ["dial", "http", "link", "tls"];
    for file in modules.iter().flat_map(|module| sources(&root.join(module))).filter(|file| !is_test(file)) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains("aconite_api"), "{} uses the API's crate", file.display());
    }
}

#[test]
fn the_reader_of_imports_finds_them() {
    let text =
        "use crate::{\n    a::{B, C},\n    d,\n};\nuse crate::e::F;\nfn g() -> crate::h::I { crate::j() }";
    assert_eq!(siblings(text).into_iter().collect::<Vec<_>>(), ["a", "d", "e", "h", "j"]);
}

fn is_test(file: &Path) -> bool {
    file.components()
        .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "tests.rs" | "testing.rs")))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.extension() {
            _ if path.is_dir() => sources(&path),
            Some(extension) if extension == "rs" => vec![path],
            _ => Vec::new(),
        })
        .collect()
}

/// The modules at the root of the crate that a text names: `crate::NAME` and `use crate::{NAME, …}`.
fn siblings(text: &str) -> BTreeSet<String> {
    named_behind("crate::", text)
}

/// The names that stand behind a path in a text: `PATH::NAME` and `PATH::{NAME, …}`.
fn named_behind(path: &str, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect()
    };
    for (at, _) in text.match_indices(path) {
        // Not a part of another name, such as `$crate::`.
        if text[..at].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            continue;
        }
        let rest = &text[at + path.len()..];
        let Some(list) = rest.strip_prefix('{') else {
            found.insert(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (index, c) in list.char_indices() {
            match c {
                '}' if depth == 0 => break,
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    found.insert(word(&list[index..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    // Macros and items at the root have names in capitals or none.
    found.retain(|name| !name.is_empty());
    found
}

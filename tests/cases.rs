//! `docs/cases.md`, the index of the cases that tests are named by.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// How the names of such tests begin.
const FAMILIES: [&str; 10] = ["a", "r2", "sse", "http", "h2", "tls", "prx", "tox", "json", "cjk"];

/// The cases in a function's name: `http_15_and_16_…` has HTTP-15 and HTTP-16.
fn cases_of(name: &str) -> Vec<String> {
    let mut words = name.split('_').filter(|word| *word != "and");
    let Some(family) = words.next().filter(|word| FAMILIES.contains(word)) else { return Vec::new() };
    let numbers = words.take_while(|word| word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_digit()));
    numbers.map(|number| format!("{}-{number}", family.to_uppercase())).collect()
}

/// Adds the cases that the functions of a directory's Rust files name, each with those files.
fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let shown = path.strip_prefix(root).unwrap().to_str().unwrap();
            for function in fs::read_to_string(&path).unwrap().split("fn ").skip(1) {
                let end = function.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
                for case in cases_of(&function[..end.unwrap_or(function.len())]) {
                    files.entry(case).or_default().insert(shown.to_owned());
                }
            }
        }
    }
}

#[test]
fn every_case_has_a_row_and_every_row_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    for directory in ["tests", "src", "api", "toxics", "dialects"] {
        collect(root, &root.join(directory), &mut files);
    }
    assert!(files.len() > 100, "{}", files.len());
    let page = fs::read_to_string(root.join("docs/cases.md")).unwrap();
    for line in page.lines() {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let ["", case, about, file, ""] = cells[..] else { continue };
        let file = file.trim_matches('`');
        if !cases_of(&case.to_lowercase().replace('-', "_")).contains(&case.to_owned()) {
            continue;
        }
        let tested = files.remove(case);
        let tested = tested.unwrap_or_else(|| panic!("docs/cases.md: no test, or a second row: {line}"));
        assert!(!about.is_empty(), "docs/cases.md: says nothing about {case}");
        assert!(tested.contains(file), "docs/cases.md: {case} is tested in {tested:?}, not in `{file}`");
    }
    let missing: Vec<_> = files.iter().collect();
    assert!(missing.is_empty(), "docs/cases.md: add a row `| CASE | about | file |` for each of {missing:?}");
}

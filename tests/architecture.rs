//! The shape of the project: which crate may depend on which, and what every crate promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::Output;

use crate::support::text;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The crates of the project and those of them that each may use.
const MAY_USE: [(&str, &[&str]); 8] = [
    ("manifest", &[]),
    ("catalog", &["manifest"]),
    ("store", &["manifest", "sys"]),
    ("preparer", &["manifest", "store", "catalog"]),
    ("mount", &["manifest", "sys"]),
    ("sys", &[]),
    ("testing", &[]),
    ("", &["manifest", "catalog", "store", "preparer", "mount", "sys"]),
];

/// Parts of the names of crates that the trusted part must not stand on.
const NOT_UNDER_MOUNT: [&str; 13] = [
    "rusqlite",
    "sqlite",
    "yaml",
    "saphyr",
    "granit",
    "tokio",
    "async",
    "futures",
    "smol",
    "zstd",
    "tar",
    "clap",
    "skillfreeze-store",
];

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    Output::of(command.args(arguments).args(["--offline", "--locked"]).current_dir(ROOT)).ok().to_owned()
}

/// A crate's short name, or nothing where it is not one of the project's.
fn short(name: &str) -> Option<&str> {
    if name == "skillfreeze" { Some("") } else { name.strip_prefix("skillfreeze-") }
}

fn packages() -> Vec<Value> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"]);
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

#[test]
fn crates_use_each_other_as_the_table_says() {
    let mut found = BTreeMap::new();
    for package in packages() {
        let name = text(&package["name"]);
        let dependencies = package["dependencies"].as_array().unwrap();
        let uses: BTreeSet<String> = dependencies
            .iter()
            .filter(|dependency| dependency["kind"] != "dev")
            .filter_map(|dependency| short(dependency["name"].as_str()?).map(str::to_owned))
            .collect();
        // Test support is published with nothing.
        assert!(!uses.contains("testing"), "{name}");
        found.insert(short(&name).unwrap_or_else(|| panic!("{name} is misnamed")).to_owned(), uses);
    }
    let table: BTreeMap<&str, &[&str]> = MAY_USE.into();
    assert_eq!(
        found.keys().map(String::as_str).collect::<Vec<_>>(),
        table.keys().copied().collect::<Vec<_>>()
    );
    for (name, uses) in &found {
        for used in uses {
            assert!(table[name.as_str()].contains(&used.as_str()), "`{name}` uses `{used}`");
        }
    }
}

#[test]
fn the_trusted_part_stands_on_few_crates() {
    let tree = cargo(&["tree", "-p", "skillfreeze-mount", "-e", "normal", "--prefix", "none", "-f", "{p}"]);
    let crates: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(crates.contains("skillfreeze-mount") && crates.contains("skillfreeze-manifest"), "{crates:?}");
    assert!(crates.len() <= 70, "{}: {crates:?}", crates.len());
    for part in NOT_UNDER_MOUNT {
        let under: Vec<_> = crates.iter().filter(|name| name.contains(part)).collect();
        assert!(under.is_empty(), "{under:?}");
    }
    let ours: Vec<_> = crates.iter().filter_map(|name| short(name)).collect();
    assert_eq!(ours, ["manifest", "mount", "sys"]);
}

#[test]
fn unsafe_code_is_forbidden_in_every_crate_but_one() {
    let mut checked = 0;
    for package in packages() {
        let name = text(&package["name"]);
        for target in package["targets"].as_array().unwrap() {
            let kind = text(&target["kind"][0]);
            if kind != "lib" && kind != "bin" {
                continue;
            }
            let path = text(&target["src_path"]);
            let source = fs::read_to_string(&path).unwrap();
            let forbids = source.lines().any(|line| line == "#![forbid(unsafe_code)]");
            assert_eq!(forbids, name != "skillfreeze-sys", "{path}");
            checked += 1;
        }
    }
    assert!(checked >= MAY_USE.len(), "{checked}");
}

/// What the project's own tools wrote or cargo built is not of the project.
fn is_built(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name == ".git" || name == "target" || name.starts_with("target-")
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if is_built(&path) {
            continue;
        }
        if path.is_dir() && !path.is_symlink() { files(&path, found) } else { found.push(path) }
    }
}

/// A path of the machine where something was written works nowhere else.
#[test]
fn no_file_names_the_place_where_it_was_made() {
    let mut found = Vec::new();
    files(Path::new(ROOT), &mut found);
    assert!(found.len() > 100, "{}", found.len());
    let home = std::env::home_dir().map(|home| home.join(".cargo"));
    let places: Vec<String> = [Some(PathBuf::from(ROOT)), home]
        .into_iter()
        .flatten()
        .map(|place| place.to_string_lossy().into_owned())
        .collect();
    for path in &found {
        let content = fs::read(path).unwrap_or_default();
        let content = String::from_utf8_lossy(&content);
        for place in &places {
            assert!(!content.contains(place.as_str()), "{} names {place}", path.display());
        }
    }
}

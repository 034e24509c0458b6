//! Discovery: what is found where, what is left out and why, and which of several is meant.

mod configuration;
mod conventions;
mod enabled;
mod entries;
mod front_matter;
mod links;
mod paging;
mod places;
mod planting;
mod precedence;
mod refusals;
mod selection;
mod shown;

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, directory, file};

use crate::support::{environment, text, texts};

/// A place of its own for each user that there is.
fn each() -> impl Iterator<Item = TestEnv> {
    Runner::available().iter().map(|runner| environment(*runner))
}

/// Makes a package whose description tells it from its namesakes.
fn described(directory: impl AsRef<Path>, id: &str, description: &str) {
    let content = format!("---\nname: {id}\ndescription: {description}\n---\nbody\n");
    file(directory.as_ref().join(id).join("SKILL.md"), content);
}

/// Makes a package whose `SKILL.md` is a link.
fn skill_link(path: &Path, target: &str) {
    directory(path);
    symlink(target, path.join("SKILL.md")).unwrap();
}

/// The program with these arguments in another directory.
#[track_caller]
fn run_in(env: &TestEnv, directory: impl AsRef<Path>, arguments: &[&str]) -> Output {
    Output::of(env.command(arguments).current_dir(directory))
}

/// `list` as JSON, in another directory.
#[track_caller]
fn list_in(env: &TestEnv, directory: impl AsRef<Path>, arguments: &[&str]) -> Value {
    run_in(env, directory, &[&["list", "--json"], arguments].concat()).json()
}

/// The skills of an index that an id alone could mean: what sources hold, and what is active.
fn skills(index: &Value) -> impl Iterator<Item = &Value> {
    index["skills"].as_array().unwrap().iter().filter(|skill| skill["active"] != false)
}

/// The ids of [`skills`].
fn ids(index: &Value) -> Vec<String> {
    skills(index).map(|skill| text(&skill["id"])).collect()
}

/// The skill of an index with this id.
#[track_caller]
fn skill<'a>(index: &'a Value, id: &str) -> &'a Value {
    let found = skills(index).find(|skill| skill["id"] == id);
    assert!(found.is_some(), "no `{id}` in {index}");
    found.unwrap()
}

/// What was said beyond infos, each as `code path:line:column` with what there is of that.
fn said(diagnostics: &Value) -> Vec<String> {
    let list = diagnostics.as_array().map_or(&[][..], Vec::as_slice);
    let said = list.iter().filter(|one| one["severity"] != "info");
    said.map(|one| {
        let place = match one["line"].as_u64() {
            Some(line) => format!(" {}:{line}:{}", text(&one["path"]), one["column"]),
            None if one["path"].is_string() => format!(" {}", text(&one["path"])),
            None => String::new(),
        };
        format!("{}{place}", text(&one["code"]))
    })
    .collect()
}

/// As [`said`], of errors alone.
fn errors(diagnostics: &Value) -> Vec<String> {
    let mut list = diagnostics.as_array().cloned().unwrap_or_default();
    list.retain(|one| one["severity"] == "error");
    said(&Value::Array(list))
}

/// The entries that were left out, as `source/directory: first code`.
fn left_out(value: &Value) -> Vec<String> {
    let list = value["left_out"].as_array().map_or(&[][..], Vec::as_slice);
    let shown = |left: &Value| {
        let code = text(&left["diagnostics"][0]["code"]);
        format!("{}/{}: {code}", text(&left["source"]), text(&left["directory"]))
    };
    list.iter().map(shown).collect()
}

/// The sources of an index that could not be used, as `id: code`.
fn faults(index: &Value) -> Vec<String> {
    let sources = index["sources"].as_array().unwrap().iter().filter(|source| source.get("fault").is_some());
    sources.map(|source| format!("{}: {}", text(&source["id"]), text(&source["fault"]["code"]))).collect()
}

/// What a snapshot's manifest has under a key of each package.
fn frozen(prepared: &Value, key: &str) -> Vec<String> {
    let path = Path::new(prepared["path"].as_str().unwrap()).join(".snapshot.json");
    let manifest: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    texts(&manifest["packages"], key)
}

/// The digest of the only package of a snapshot.
#[track_caller]
fn frozen_digest(prepared: &Value) -> String {
    let digests = frozen(prepared, "digest");
    assert_eq!(digests.len(), 1, "{prepared}");
    digests.concat()
}

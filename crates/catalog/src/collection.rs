//! Collections: packages that a prompt may tell of in one line.
//!
//! A directory with a `COLLECTION.json` and no `SKILL.md` is one; its members are the packages below
//! it. The file is strict JSON, one object:
//!
//! ```json
//! {"id": "bio", "prompt": "{count} skills for bioinformatics"}
//! ```

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::fd::AsFd;

use serde::Deserialize;
use skillfreeze_manifest::{Diagnostic, EntryKind, Severity, SkillId, Stamp, open_file};

use crate::found::{Found, LeftOut};

/// The file that makes a directory a collection.
pub const COLLECTION_FILE: &str = "COLLECTION.json";
/// What stands in a prompt for the number of members that its reader may see.
pub const COUNT_PLACEHOLDER: &str = "{count}";
/// The most bytes of that file; its two fields are a line each.
const MAX_BYTES: u64 = 64 << 10;

/// A collection of packages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collection {
    /// Its id.
    pub id: SkillId,
    /// The line that tells of it, with `{count}` for the number of members.
    pub prompt: String,
    /// The index of its source.
    pub source: usize,
    /// Its directory in the source, `.` for the source itself.
    pub directory: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    id: SkillId,
    prompt: String,
}

/// Reads the `COLLECTION.json` in a directory.
///
/// # Errors
/// What is wrong with it, by line and column where it is its text.
pub(crate) fn read(dir: impl AsFd) -> Result<(SkillId, String), Diagnostic> {
    let refuse =
        |code, message: String| Diagnostic::new(Severity::Error, code, message).at_path(COLLECTION_FILE);
    let unreadable = |error| refuse("unreadable", format!("`{COLLECTION_FILE}` cannot be read: {error}"));
    let file = open_file(dir, COLLECTION_FILE).map_err(unreadable)?;
    if Stamp::of(&file).map_err(unreadable)?.kind != EntryKind::File {
        return Err(refuse("special-file", format!("`{COLLECTION_FILE}` is no regular file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(
            "collection-invalid",
            format!("`{COLLECTION_FILE}` has more than {MAX_BYTES} bytes"),
        ));
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<(SkillId, String), Diagnostic> {
    let refuse = |message: String, at: Option<(usize, usize)>| {
        let diagnostic =
            Diagnostic::new(Severity::Error, "collection-invalid", message).at_path(COLLECTION_FILE);
        match at {
            Some((line, column)) => diagnostic.at(line, column),
            None => diagnostic,
        }
    };
    let Written { id, prompt } = serde_json::from_slice(bytes).map_err(|error| {
        let text = error.to_string();
        let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
        refuse(
            format!("`{COLLECTION_FILE}` is no collection: {text}"),
            Some((error.line(), error.column().max(1))),
        )
    })?;
    if !prompt.contains(COUNT_PLACEHOLDER) {
        let message = format!(
            "the `prompt` does not say `{COUNT_PLACEHOLDER}`, for which the number of members stands"
        );
        return Err(refuse(message, None));
    }
    if prompt
        .chars()
        .any(|character| character.is_control() || skillfreeze_manifest::is_bidi_control(character))
    {
        return Err(refuse("the `prompt` holds a character that cannot be shown in a line".to_owned(), None));
    }
    Ok((id, prompt))
}

/// Leaves out what clashes in one source: members of one collection that have one id, and collections
/// that have one id, or that of a package outside of them. Nothing tells which of them was meant.
pub(crate) fn refuse_clashes(
    packages: &mut Vec<Found>,
    left_out: &mut Vec<LeftOut>,
    collections: &mut Vec<Collection>,
) {
    let mut members: BTreeMap<(SkillId, SkillId), Vec<String>> = BTreeMap::new();
    let mut taken: BTreeMap<SkillId, Vec<String>> = BTreeMap::new();
    for collection in collections.iter() {
        taken.entry(collection.id.clone()).or_default().push(collection.directory.clone());
    }
    for found in packages.iter() {
        match &found.collection {
            Some(collection) => {
                let key = (collection.clone(), found.id().clone());
                members.entry(key).or_default().push(found.directory.clone());
            }
            None => {
                if let Some(places) = taken.get_mut(found.id()) {
                    places.push(found.directory.clone());
                }
            }
        }
    }
    let clash = |id: &SkillId, places: &[String]| {
        let shown: Vec<String> = places.iter().map(|place| format!("`{}`", place.escape_debug())).collect();
        let message = format!("the id `{id}` is that of {} at once", shown.join(" and "));
        Diagnostic::new(Severity::Error, "id-clash", message).hint("give each an id of its own")
    };
    packages.retain(|found| {
        let id = found.id();
        let places = match &found.collection {
            Some(collection) => members
                .get(&(collection.clone(), id.clone()))
                .filter(|places| places.len() > 1)
                .map(|places| (id, places))
                .or_else(|| {
                    taken.get(collection).filter(|places| places.len() > 1).map(|places| (collection, places))
                }),
            None => None,
        };
        if let Some((id, places)) = places {
            left_out.push(LeftOut::of(found, clash(id, places)));
        }
        places.is_none()
    });
    collections.retain(|collection| taken.get(&collection.id).is_none_or(|places| places.len() == 1));
}

/// Gives each collection's id to one source: a reserved one, else the first by rank. The members of the
/// others are listed outside of collections, so that no prompt tells of what it does not have.
pub(crate) fn refuse_later(
    packages: &mut [Found],
    collections: &mut Vec<Collection>,
    is_reserved: impl Fn(usize) -> bool,
) {
    let mut owners: BTreeMap<SkillId, usize> = BTreeMap::new();
    for collection in collections.iter() {
        let owner = owners.entry(collection.id.clone()).or_insert(collection.source);
        if is_reserved(collection.source) && !is_reserved(*owner) {
            *owner = collection.source;
        }
    }
    collections.retain(|collection| owners.get(&collection.id) == Some(&collection.source));
    for found in packages {
        let later = found.collection.take_if(|id| owners.get(id).is_some_and(|owner| *owner != found.source));
        if let Some(id) = later {
            let message =
                format!("another source has the collection `{id}`, so this is listed outside of it");
            found.diagnostics.push(Diagnostic::new(Severity::Info, "collection-shadowed", message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_an_id_and_a_prompt() {
        let (id, prompt) = parse(br#"{"id": "bio", "prompt": "{count} skills"}"#).unwrap();
        assert_eq!((id.as_str(), prompt.as_str()), ("bio", "{count} skills"));
    }

    #[test]
    fn names_each_fault_and_its_place() {
        for (text, place, message) in [
            ("", Some((1, 1)), "EOF"),
            ("{\"id\": \"bio\",\n \"prompt\": ", Some((2, 11)), "EOF"),
            ("{\"id\": \"bio\"}", Some((1, 13)), "prompt"),
            ("{\"id\": \"Bio\", \"prompt\": \"{count}\"}", Some((1, 12)), "Bio"),
            ("{\"id\": \"../x\", \"prompt\": \"{count}\"}", Some((1, 13)), "../x"),
            ("{\"id\": \"bio\", \"id\": \"b\", \"prompt\": \"{count}\"}", Some((1, 18)), "duplicate"),
            ("{\"id\": \"bio\", \"prompt\": \"{count}\", \"more\": 1}", Some((1, 41)), "more"),
            ("{\"id\": \"bio\", \"prompt\": \"{count}\"}{}", Some((1, 35)), "trailing"),
            ("<<<<<<< x\n", Some((1, 1)), "expected value"),
            ("{\"id\": \"bio\", \"prompt\": \"skills\"}", None, "{count}"),
            ("{\"id\": \"bio\", \"prompt\": \"{count}\\n</skills>\"}", None, "shown"),
        ] {
            let found = parse(text.as_bytes()).unwrap_err();
            assert_eq!(found.code, "collection-invalid", "{text}");
            assert_eq!(found.line.zip(found.column), place, "{text}: {found}");
            assert!(found.message.contains(message), "{text}: {found}");
        }
    }
}

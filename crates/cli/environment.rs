//! Options from the environment: `SKILLFREEZE_ROOT` for `--root`.
//!
//! What is typed comes first: an option of the environment that was typed, or that cannot stand beside
//! what was typed, counts for nothing. The rest is put on the command line as if it had been typed,
//! so that it means the same.

use std::ffi::{OsStr, OsString};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};

use crate::args::lenient;

/// What every variable's name begins with.
const PREFIX: &str = "SKILLFREEZE_";
/// Options that the environment cannot set: they loosen something, for one call only.
const NOT_FROM_ENVIRONMENT: [&str; 5] = ["force", "bwrap", "keep-fd", "help", "version"];

/// Why a command line cannot be used.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// What was typed.
    Arguments(clap::Error),
    /// A variable of the environment.
    Variable { name: String, value: String },
}

/// The command line with what the environment adds to it.
pub(crate) fn extend(
    command: &Command,
    typed: Vec<OsString>,
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Vec<OsString>, Unusable> {
    let mut found: Vec<(String, OsString)> = variables
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_str()?.strip_prefix(PREFIX)?.to_owned(), value)))
        .collect();
    found.sort();
    let mut arguments = typed;
    if found.is_empty() {
        return Ok(arguments);
    }
    let matches = lenient(command, arguments.clone());
    let Some((verb, below)) = matches.subcommand() else { return Ok(arguments) };
    let Some(verb_command) = command.find_subcommand(verb) else { return Ok(arguments) };
    for (name, value) in found {
        let long = name.to_lowercase().replace('_', "-");
        if NOT_FROM_ENVIRONMENT.contains(&long.as_str()) {
            continue;
        }
        let Some(option) = verb_command.get_arguments().find(|option| option.get_long() == Some(&long))
        else {
            continue;
        };
        let is_typed =
            below.value_source(option.get_id().as_str()) == Some(clap::parser::ValueSource::CommandLine);
        let Some(added) = word(option, &long, &value).map_err(|()| Unusable::Variable {
            name: format!("{PREFIX}{name}"),
            value: value.to_string_lossy().into_owned(),
        })?
        else {
            continue;
        };
        if is_typed {
            continue;
        }
        let extended = insert(&arguments, verb, added);
        let refused = command.clone().try_get_matches_from(&extended).err();
        if refused.is_none_or(|error| error.kind() != ErrorKind::ArgumentConflict) {
            arguments = extended;
        }
    }
    Ok(arguments)
}

/// The option as a word of the command line; none for a switch that is off.
fn word(option: &Arg, long: &str, value: &OsStr) -> Result<Option<OsString>, ()> {
    if !matches!(option.get_action(), ArgAction::SetTrue) {
        let mut word = OsString::from(format!("--{long}="));
        word.push(value);
        return Ok(Some(word));
    }
    match value.to_str().map(str::to_ascii_lowercase).as_deref() {
        Some("1" | "true" | "yes" | "on") => Ok(Some(format!("--{long}").into())),
        Some("" | "0" | "false" | "no" | "off") => Ok(None),
        _ => Err(()),
    }
}

/// Puts a word right after the verb, before anything that could be the command to run.
fn insert(arguments: &[OsString], verb: &str, word: OsString) -> Vec<OsString> {
    let at = arguments.iter().position(|argument| argument == verb).map_or(arguments.len(), |at| at + 1);
    let mut extended = arguments.to_vec();
    extended.insert(at, word);
    extended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extended(typed: &str, variables: &[(&str, &str)]) -> Result<String, String> {
        let words = typed.split(' ').map(OsString::from).collect();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        match extend(&crate::args::command(), words, variables) {
            Ok(arguments) => Ok(arguments.join(OsStr::new(" ")).into_string().unwrap()),
            Err(Unusable::Variable { name, .. }) => Err(name),
            Err(Unusable::Arguments(error)) => Err(error.to_string()),
        }
    }

    #[test]
    fn what_is_typed_comes_first() {
        for (typed, variables, expected) in [
            ("sf list", &[("SKILLFREEZE_JSON", "1")][..], "sf list --json"),
            ("sf list", &[("SKILLFREEZE_JSON", "no")], "sf list"),
            ("sf list --json", &[("SKILLFREEZE_JSON", "yes")], "sf list --json"),
            ("sf list", &[("SKILLFREEZE_ROOT", "/x"), ("SKILLFREEZE_OTHER", "y")], "sf list --root=/x"),
            ("sf --root /y list", &[("SKILLFREEZE_ROOT", "/x")], "sf --root /y list"),
            // An option that cannot stand beside what was typed.
            ("sf prepare demo", &[("SKILLFREEZE_ALL", "on")], "sf prepare demo"),
            ("sf run sha256:0 -- true", &[("SKILLFREEZE_SOURCE", "s")], "sf run sha256:0 -- true"),
            ("sf run -- run", &[("SKILLFREEZE_SOURCE", "s")], "sf run --source=s -- run"),
            // What loosens something is typed or not there.
            ("sf run -- true", &[("SKILLFREEZE_BWRAP", "/x")], "sf run -- true"),
            // An option that the verb does not have.
            ("sf add x", &[("SKILLFREEZE_SOURCE", "s")], "sf add x"),
        ] {
            assert_eq!(extended(typed, variables).as_deref(), Ok(expected), "{typed} {variables:?}");
        }
        assert_eq!(extended("sf list", &[("SKILLFREEZE_JSON", "maybe")]), Err("SKILLFREEZE_JSON".to_owned()));
    }
}

//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;

use camino::Utf8PathBuf;
use clap::error::ErrorKind;
use clap::{
    ArgMatches, Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum,
};

use crate::commands::{
    add, completions, disable, doctor, enable, list, plan, prepare, read, run, seal, show, validate, verify,
};
use crate::environment::{self, Unusable};
use crate::exit;

/// Freeze agent skills, check them, and run commands that read them.
///
/// A snapshot holds exactly the selected skills and a manifest of hashes; its name is the SHA-256 of
/// that manifest. Before a command starts, every byte is hashed again, and the command sees the
/// snapshot read-only at `$SKILLS_DIR`.
///
/// Options can also be set as `SKILLFREEZE_…` in the environment (`--root` as `SKILLFREEZE_ROOT`).
#[derive(Debug, Parser)]
#[command(name = "skillfreeze", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Verb,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The store's root [default: $XDG_STATE_HOME/skillfreeze or ~/.local/state/skillfreeze]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<Utf8PathBuf>,
    /// A configuration file that comes before the project's, the user's and the system's
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<Utf8PathBuf>,
    /// Print one JSON object, and errors as JSON on standard error
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print no warnings and no progress
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print what else was noticed
    #[arg(long, short, global = true)]
    pub(crate) verbose: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    List(list::List),
    Show(show::Show),
    Validate(validate::Validate),
    Prepare(prepare::Prepare),
    Run(Box<run::Run>),
    Seal(seal::Seal),
    Verify(verify::Verify),
    Doctor(doctor::Doctor),
    Plan(Box<plan::Plan>),
    Read(read::Read),
    Add(add::Add),
    Enable(enable::Enable),
    Disable(disable::Disable),
    Completions(completions::Completions),
}

/// The commands by what they are for, as the help shows them.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Everyday", &["list", "show", "validate", "prepare", "run", "verify", "doctor"]),
    ("Runners and agents", &["seal", "plan", "read"]),
    ("Store", &["add", "enable", "disable", "completions"]),
];

/// The command line's definition.
pub(crate) fn command() -> Command {
    let mut command = Arguments::command();
    command.build();
    let groups = groups(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{{options}}\n{{after-help}}"
    ))
}

fn groups(command: &Command) -> String {
    let mut text = String::new();
    for (group, verbs) in GROUPS {
        text.push_str(&format!("{group}:\n"));
        for verb in verbs {
            let about = command.find_subcommand(verb).and_then(Command::get_about).map(ToString::to_string);
            text.push_str(&format!("  {verb:<12} {}\n", about.unwrap_or_default()));
        }
        text.push('\n');
    }
    text
}

/// Reads the command line, and after it the environment; prints help, the version and usage errors
/// itself.
pub(crate) fn parse() -> Result<Arguments, ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let parsed = environment::extend(&command(), typed, std::env::vars_os()).and_then(|arguments| {
        let matches = command().try_get_matches_from(arguments);
        let arguments = matches.and_then(|matches| Arguments::from_arg_matches(&matches));
        arguments.map_err(Unusable::Arguments)
    });
    parsed.map_err(|error| {
        if let Unusable::Arguments(error) = &error
            && matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion)
        {
            // Nothing can be said to somebody who does not listen.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        let lenient = lenient(&command(), std::env::args_os());
        exit::usage(&error, &lenient)
    })
}

/// What can be made out of a command line that is not right, to answer it in the form it asks for.
pub(crate) fn lenient(command: &Command, arguments: impl IntoIterator<Item = OsString>) -> ArgMatches {
    let lenient = command.clone().ignore_errors(true).disable_help_flag(true).disable_version_flag(true);
    lenient.try_get_matches_from(arguments).unwrap_or_default()
}

//! `read`: one file of a snapshot, checked when it is read.

use std::io::{self, IsTerminal as _};

use camino::Utf8PathBuf;
use clap::Args;
use serde::Serialize;
use skillfreeze::manifest::{Digest, SkillId};
use skillfreeze::mount::{Aliases, Frozen, FrozenFile, Names};

use crate::context::{Context, canonical};
use crate::exit::Failure;
use crate::output::printable;

/// Print a file of a snapshot, or where it is
///
/// The bytes that are printed are those that were hashed; nothing is printed of a file that does not
/// match the manifest. A skill's id alone means its `SKILL.md`. A path may be written as the agent knows
/// it (`$SKILLS_DIR/ID/PATH`, `${SKILLS_DIR}/ID/PATH`, `/skills/ID/PATH`), as the host does, or as faults
/// and lines `opened` have it (`ID/PATH`).
#[derive(Debug, Args)]
pub(crate) struct Read {
    /// A skill's id, or a file's path by any of its names
    #[arg(value_name = "SKILL|ALIAS")]
    target: String,
    /// The snapshot: `sha256:…`, or a directory with `--digest`
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: String,
    /// The digest that a snapshot named by its directory must have
    #[arg(long, value_name = "DIGEST")]
    digest: Option<Digest>,
    /// Print the file's path on the host
    #[arg(long)]
    path: bool,
    /// Print the word that names the file in a shell of any sandbox: `"$SKILLS_DIR"/ID/PATH`
    #[arg(long, conflicts_with = "path")]
    alias: bool,
    /// The name of the variable for the skills
    #[arg(long, value_name = "NAME", default_value = "SKILLS_DIR")]
    skills_var: String,
    /// Where the sandbox has the skills
    #[arg(long, value_name = "DIR", default_value = "/skills")]
    skills_dir: Utf8PathBuf,
}

/// What `read --json` prints.
#[derive(Debug, Serialize)]
struct ReadOutput<'a> {
    schema: &'static str,
    snapshot: Digest,
    skill: &'a SkillId,
    file: &'a str,
    digest: Digest,
    size: u64,
    executable: bool,
    path: Utf8PathBuf,
    alias: String,
    /// The content, if it is UTF-8 and was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

impl Read {
    pub(crate) fn run(&self, context: &Context) -> Result<u8, Failure> {
        let named = context.snapshot(&self.snapshot, self.digest)?;
        let anchor = named.anchor(&self.snapshot)?;
        let frozen = Frozen::open(named.dir, &canonical(&named.path)?, anchor)?;
        let (skills_variable, skills_dir) = (self.skills_var.clone(), self.skills_dir.clone());
        let names = Names { skills_variable, skills_dir, ..Names::default() }.checked()?;
        let aliases = Aliases { manifest: frozen.manifest(), names: &names, host: frozen.path() };
        // A path may be written as it is, or as the store's root was.
        let found = self.find(&aliases).or_else(|failure| {
            let written = Aliases { host: &named.path, ..aliases };
            written.resolve(&self.target).map_err(|_| failure)
        })?;
        // Who is given a path reads it later.
        let content = if self.path || self.alias {
            frozen.check(found)?;
            None
        } else {
            Some(frozen.read(found)?)
        };
        let output = ReadOutput {
            schema: "skillfreeze.read.v1",
            snapshot: anchor,
            skill: found.package.id(),
            file: found.file.path.as_str(),
            digest: found.file.digest,
            size: found.file.size,
            executable: found.file.executable,
            path: aliases.host_path(found),
            alias: aliases.variable_form(found),
            text: content.as_deref().and_then(|content| str::from_utf8(content).ok()),
        };
        match content {
            _ if context.output().is_json() => context.output().json(&output)?,
            // Nobody vouches for what a package holds, and a terminal does what it is told.
            Some(content) if io::stdout().is_terminal() => {
                context.output().text(&printable(&String::from_utf8_lossy(&content)))?;
            }
            Some(content) => context.output().bytes(&content)?,
            None if self.path => context.output().text(output.path.as_str())?,
            None => context.output().text(&output.alias)?,
        }
        Ok(0)
    }

    fn find<'a>(&self, aliases: &Aliases<'a>) -> Result<FrozenFile<'a>, Failure> {
        let Ok(id) = self.target.parse::<SkillId>() else { return Ok(aliases.resolve(&self.target)?) };
        aliases.skill(&id).ok_or_else(|| {
            let failure = Failure::new("not-found", format!("the snapshot has no skill `{id}`"));
            failure.hint(format!("`skillfreeze show {}` lists its skills", self.snapshot))
        })
    }
}

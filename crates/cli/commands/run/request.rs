//! What the command line lends the sandbox of the host.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze::mount::{Bind, Guard, LaunchRequest, Names, Network};

use super::{NetworkArg, Run};
use crate::commands::selecting::read_text;
use crate::context::{Context, absolute, canonical};
use crate::exit::Failure;
use crate::users;

/// Variables of the caller's environment that the command gets without being named.
const PASSED: [&str; 4] = ["PATH", "LANG", "TERM", "TZ"];
/// Where a project keeps the skills and the configuration of its next run.
const PROJECT_SOURCES: [&str; 4] =
    [".agents/skills", ".claude/skills", "skillfreeze.toml", "skillfreeze.lock"];

impl Run {
    pub(super) fn request(&self, context: &Context) -> Result<LaunchRequest, Failure> {
        let workspace = match &self.workspace {
            Some(workspace) => Some(directory_bind(workspace)?),
            None => None,
        };
        let mut binds = Vec::new();
        for (list, writable) in [(&self.bind, true), (&self.ro_bind, false)] {
            for text in list {
                let (source, target) = match text.split_once(':') {
                    Some((source, target)) => (source, Some(Utf8Path::new(target))),
                    None => (text.as_str(), None),
                };
                binds.push(Bind::resolve(Utf8Path::new(source), target, writable)?);
            }
        }
        let extensions = match &self.extensions {
            Some(extensions) => Some(directory_bind(extensions)?),
            None => None,
        };
        let store = context.root().ok().and_then(|root| canonical(&root).ok());
        let guards = self.guards(workspace.iter().chain(binds.iter().filter(|bind| bind.writable)))?;
        Ok(LaunchRequest {
            command: self.command.clone(),
            require: self.require,
            sandbox: self.sandbox,
            workspace,
            binds,
            network: match self.network {
                NetworkArg::None => Network::None,
                NetworkArg::Host => Network::Host,
            },
            environment: self.environment()?,
            extensions,
            user: self.user.as_deref().map(users::parse).transpose().map_err(Failure::usage)?,
            names: Names {
                skills_variable: self.skills_var.clone(),
                skills_dir: self.skills_dir.clone(),
                extensions_variable: self.extensions_var.clone(),
                extensions_dir: self.extensions_dir.clone(),
            },
            keep: self.keep_fd.clone(),
            store,
            guards,
        })
    }

    /// The places that a later run would take skills or configuration from, as far as the command
    /// could write them.
    fn guards<'a>(&self, writable: impl Iterator<Item = &'a Bind>) -> Result<Vec<Guard>, Failure> {
        let mut paths: Vec<Utf8PathBuf> = Vec::new();
        for source in &self.sources.source {
            paths.push(absolute(source)?);
        }
        let mut projects: Vec<Utf8PathBuf> = Vec::new();
        for bind in writable.filter(|bind| bind.is_directory) {
            projects.push(bind.source.clone());
            projects.extend(project_of(&bind.source));
        }
        if let Ok(here) = env::current_dir()
            && let Ok(here) = Utf8PathBuf::from_path_buf(here)
        {
            projects.push(project_of(&here).unwrap_or(here));
        }
        for project in &projects {
            paths.extend(PROJECT_SOURCES.iter().map(|source| project.join(source)));
        }
        paths.sort();
        paths.dedup();
        Ok(paths.iter().map(|path| Guard::resolve(path)).collect())
    }

    fn environment(&self) -> Result<BTreeMap<OsString, OsString>, Failure> {
        let is_passed = |name: &OsStr| {
            PASSED.iter().any(|passed| name == *passed) || name.as_encoded_bytes().starts_with(b"LC_")
        };
        let mut environment: BTreeMap<OsString, OsString> =
            env::vars_os().filter(|(name, _)| is_passed(name)).collect();
        for file in &self.env_file {
            for line in read_text(file)?.lines() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (name, value) = line
                    .split_once('=')
                    .ok_or_else(|| Failure::usage(format!("`{file}` has a line that is not `NAME=VALUE`")))?;
                environment.insert(name.into(), value.into());
            }
        }
        for text in &self.env {
            let bytes = text.as_bytes();
            match bytes.iter().position(|byte| *byte == b'=') {
                Some(at) => {
                    environment.insert(
                        OsString::from_vec(bytes[..at].to_vec()),
                        OsString::from_vec(bytes[at + 1..].to_vec()),
                    );
                }
                None if text.is_empty() => {
                    return Err(Failure::usage("`--env` names no variable"));
                }
                None => {
                    // A name that is not set is not passed on, as with `env` and `podman`.
                    if let Some(value) = env::var_os(text) {
                        environment.insert(text.clone(), value);
                    }
                }
            }
        }
        Ok(environment)
    }
}

/// The nearest directory above with a `.git` file or directory.
fn project_of(path: &Utf8Path) -> Option<Utf8PathBuf> {
    path.ancestors().find(|above| above.join(".git").exists()).map(Utf8Path::to_owned)
}

fn directory_bind(path: &Utf8Path) -> Result<Bind, Failure> {
    let bind = Bind::resolve(path, None, true)?;
    if bind.is_directory {
        return Ok(bind);
    }
    Err(Failure::usage(format!("`{path}` is not a directory")))
}

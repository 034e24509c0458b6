//! What the command line lends the sandbox of the host.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze::mount::{Bind, Guard, LaunchRequest, Names, Network, Rootfs};

use super::{NetworkArg, Run};
use crate::commands::selecting::read_text;
use crate::context::{Context, canonical};
use crate::exit::Failure;
use crate::sources::Sources;
use crate::users;

impl Run {
    pub(super) fn request(&self, context: &Context, sources: &Sources) -> Result<LaunchRequest, Failure> {
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
        let mut request = LaunchRequest::new(self.command.clone());
        request.require = self.require;
        request.seal = self.seal;
        request.sandbox = self.sandbox;
        request.workspace = workspace;
        request.binds = binds;
        request.network = match self.network {
            NetworkArg::None => Network::None,
            NetworkArg::Host => Network::Host,
        };
        request.environment = self.environment()?;
        request.extensions = extensions;
        request.user = self.user.as_deref().map(users::parse).transpose().map_err(Failure::usage)?;
        request.names = Names {
            skills_variable: self.skills_var.clone(),
            skills_dir: self.skills_dir.clone(),
            extensions_variable: self.extensions_var.clone(),
            extensions_dir: self.extensions_dir.clone(),
        };
        request.rootfs = self.rootfs.as_deref().map(Rootfs::resolve).transpose()?;
        request.in_place = self.in_place;
        request.terminal = self.tty;
        request.keep = self.keep_fd.clone();
        request.store = context.root().ok().and_then(|root| canonical(&root).ok());
        request.guards = self.guards(sources);
        Ok(request)
    }

    /// The sources in force and the places of the project it is started in: a later run would take
    /// skills or configuration from there.
    fn guards(&self, sources: &Sources) -> Vec<Guard> {
        let mut guards: Vec<Guard> = sources.places().iter().map(|place| Guard::resolve(place)).collect();
        guards.extend(Guard::of_project(sources.project()));
        if let Ok(here) = env::current_dir()
            && let Ok(here) = Utf8PathBuf::from_path_buf(here)
        {
            guards.extend(Guard::of_project(&here));
        }
        guards
    }

    fn environment(&self) -> Result<BTreeMap<OsString, OsString>, Failure> {
        let mut environment: BTreeMap<OsString, OsString> =
            env::vars_os().filter(|(name, _)| LaunchRequest::passes(name)).collect();
        for file in &self.env_file {
            for (index, line) in read_text(file)?.lines().enumerate() {
                let line = line.trim();
                if line.is_empty() || line.starts_with('#') {
                    continue;
                }
                let (name, value) = line.split_once('=').ok_or_else(|| {
                    Failure::usage(format!("line {} of `{file}` is not `NAME=VALUE`", index + 1))
                })?;
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

pub(crate) fn directory_bind(path: &Utf8Path) -> Result<Bind, Failure> {
    let bind = Bind::resolve(path, None, true)?;
    if bind.is_directory {
        return Ok(bind);
    }
    Err(Failure::usage(format!("`{path}` is not a directory")))
}

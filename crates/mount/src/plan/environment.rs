//! The names of the two directories, and the command's variables.

use std::collections::BTreeMap;
use std::ffi::OsString;

use camino::Utf8Path;

use super::root::Root;
use crate::bind::{BindError, normal_target, overlaps};
use crate::integrity::Integrity;
use crate::names::Names;
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;

/// The sandbox's home.
pub(super) const HOME: &str = "/tmp/home";
/// The variable that tells the command what its launch promises.
pub(crate) const INTEGRITY_VARIABLE: &str = "SKILLS_INTEGRITY";
/// What every sandbox needs itself, beside its programs: our directories neither are, hold nor lie in it.
pub(crate) const TAKEN: [&str; 5] = ["/etc", "/proc", "/dev", "/sys", "/tmp"];

/// Where a command writes what is its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places<'a> {
    /// Its home.
    pub(super) home: &'a Utf8Path,
    /// For its temporaries.
    pub(super) temporaries: &'a Utf8Path,
}

impl Places<'_> {
    /// Variables that every command has. Shared caches of bytecode let another revision's code run, or a
    /// planted one: each launch has its own, and writes none.
    fn defaults(self) -> [(&'static str, String); 6] {
        [
            ("HOME", self.home.to_string()),
            ("TMPDIR", self.temporaries.to_string()),
            ("XDG_CACHE_HOME", self.home.join(".cache").into_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
            ("PYTHONPYCACHEPREFIX", self.home.join(".cache/python").into_string()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ]
    }
}

/// Where that is in a sandbox with a root of its own.
pub(super) fn own_places() -> Places<'static> {
    Places { home: Utf8Path::new(HOME), temporaries: Utf8Path::new("/tmp") }
}

/// The two directories are made in the sandbox's own root: they lie in nothing and hold nothing.
pub(super) fn check_names(names: &Names, root: &Root) -> Result<(), PlanError> {
    let shown = root.shown().map(|(_, target)| target).chain(root.links());
    let taken: Vec<&Utf8Path> = shown.chain(TAKEN.map(Utf8Path::new)).collect();
    for target in [&names.skills_dir, &names.extensions_dir] {
        let clash = taken.iter().find(|taken| overlaps(target, taken)).map(|taken| taken.to_path_buf());
        if let Some(reserved) = clash {
            return Err(BindError::TargetReserved { target: target.clone(), reserved }.into());
        }
    }
    if overlaps(&names.skills_dir, &names.extensions_dir) {
        let (target, reserved) = (names.extensions_dir.clone(), names.skills_dir.clone());
        return Err(BindError::TargetReserved { target, reserved }.into());
    }
    check_variables(names)
}

impl Names {
    /// The same with plain paths, if shells can have these names and no other meaning is in their way.
    ///
    /// # Errors
    /// [`PlanError::Variable`], and [`PlanError::Bind`] for a directory that is no place for a mount.
    pub fn checked(self) -> Result<Self, PlanError> {
        check_variables(&self)?;
        let (skills_dir, extensions_dir) =
            (normal_target(self.skills_dir)?, normal_target(self.extensions_dir)?);
        for target in [&skills_dir, &extensions_dir] {
            if target == "/" {
                let (target, reserved) = (target.clone(), target.clone());
                return Err(BindError::TargetReserved { target, reserved }.into());
            }
        }
        Ok(Self { skills_dir, extensions_dir, ..self })
    }
}

/// The two variables have names of their own, which a shell can have.
pub(crate) fn check_variables(names: &Names) -> Result<(), PlanError> {
    let own = [&names.skills_variable, &names.extensions_variable];
    for (index, name) in own.into_iter().enumerate() {
        let is_taken = name == INTEGRITY_VARIABLE
            || own_places().defaults().iter().any(|(default, _)| name == default)
            // The dynamic loader's.
            || name.starts_with("LD_")
            || own[..index].contains(&name);
        if !is_variable_name(name) || is_taken {
            return Err(PlanError::Variable { name: name.clone() });
        }
    }
    Ok(())
}

/// Whether a shell can name a variable so.
fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

pub(super) fn plan_environment(
    request: &LaunchRequest,
    names: &Names,
    integrity: Integrity,
    places: Places<'_>,
) -> Result<BTreeMap<OsString, OsString>, PlanError> {
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    environment.extend(places.defaults().map(|(name, value)| (name.into(), value.into())));
    let own = [
        (names.skills_variable.as_str(), names.skills_dir.as_str()),
        (names.extensions_variable.as_str(), names.extensions_dir.as_str()),
        (INTEGRITY_VARIABLE, integrity.as_str()),
    ];
    for (name, value) in &request.environment {
        if name.is_empty()
            || name.as_encoded_bytes().iter().any(|byte| matches!(byte, b'=' | 0))
            || value.as_encoded_bytes().contains(&0)
            || own.iter().any(|(own, _)| name == *own)
        {
            return Err(PlanError::Variable { name: name.to_string_lossy().into_owned() });
        }
        environment.insert(name.clone(), value.clone());
    }
    environment.extend(own.map(|(name, value)| (name.into(), value.into())));
    Ok(environment)
}

//! The files of the configuration: where they are, and reading them.
//!
//! `--config FILE` comes first, then the project's `skillfreeze.toml`, the user's, the system's. What each
//! may say is the catalog's to know.

use std::env;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::OFlags;
use skillfreeze::catalog::{Approval, ConfigLayers, ConfigText, Configuration, MAX_CONFIG_BYTES, RootPath};

use crate::context::leads_nowhere;
use crate::exit::Failure;
use crate::project::Project;

/// The name of a project's file, and of the others in their directories.
const CONFIG_FILE: &str = "skillfreeze.toml";
/// The system's file.
const SYSTEM_CONFIG: &str = "/etc/skillfreeze/skillfreeze.toml";

/// A file that was read.
struct ConfigFile {
    path: Utf8PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
    bytes: Vec<u8>,
}

impl ConfigFile {
    fn text(&self) -> ConfigText<'_> {
        ConfigText { file: &self.path, bytes: &self.bytes }
    }
}

/// Where the user's file is, whether there is one or not.
pub(crate) fn user_config() -> Option<Utf8PathBuf> {
    let named =
        |name: &str| env::var(name).ok().filter(|value| value.starts_with('/')).map(Utf8PathBuf::from);
    let above = named("XDG_CONFIG_HOME").or_else(|| named("HOME").map(|home| home.join(".config")))?;
    Some(above.join("skillfreeze").join(CONFIG_FILE))
}

/// Where all the files are, whether there are any or not.
pub(crate) fn paths(given: Option<&Utf8Path>, project: &Project) -> Vec<Utf8PathBuf> {
    let given = given.and_then(|path| camino::absolute_utf8(path).ok());
    let own = project.root().join(CONFIG_FILE);
    given.into_iter().chain([own]).chain(user_config()).chain([SYSTEM_CONFIG.into()]).collect()
}

/// Refuses a configuration that asks for what this version cannot do: whoever wants only what was
/// approved must not get what was not.
pub(crate) fn refuse_approval(configuration: &Configuration) -> Result<(), Failure> {
    match configuration.approval {
        Approval::NotRequired => Ok(()),
        Approval::Required => Err(Failure::new(
            "approval-unsupported",
            "the configuration requires approval, which this version cannot check",
        )),
    }
}

/// Reads what there is, and merges what it says.
pub(crate) fn read(given: Option<&Utf8Path>, project: &Project) -> Result<Configuration, Failure> {
    let own = read_in_project(project)?;
    let given = given.map(|path| read_file(path).map_err(|error| unreadable(path, &error))).transpose()?;
    let user = user_config().map(|path| read_optional(&path)).transpose()?.flatten();
    let system = read_optional(Utf8Path::new(SYSTEM_CONFIG))?;
    // A file that is named and counts anyway counts once: the project's and the system's as what they are,
    // for what they may say is another matter, the user's as the one that was named.
    let is_same = |file: &Option<ConfigFile>, other: &ConfigFile| {
        file.as_ref().is_some_and(|file| file.identity == other.identity)
    };
    let given = given.filter(|given| !is_same(&own, given) && !is_same(&system, given));
    let user = user.filter(|user| !is_same(&given, user));
    let root: RootPath = project.root().as_str().parse().map_err(|error| Failure::of("io", &error))?;
    let layers = ConfigLayers {
        given: given.as_ref().map(ConfigFile::text),
        project: own.as_ref().map(ConfigFile::text),
        user: user.as_ref().map(ConfigFile::text),
        system: system.as_ref().map(ConfigFile::text),
    };
    Ok(Configuration::merge(&layers, &root)?)
}

fn unreadable(path: &Utf8Path, error: &io::Error) -> Failure {
    Failure::io(format_args!("cannot read the configuration `{path}`"), error)
}

fn read_optional(path: &Utf8Path) -> Result<Option<ConfigFile>, Failure> {
    match read_file(path) {
        Ok(file) => Ok(Some(file)),
        // What should lie below a file is as absent as any.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
                && std::fs::symlink_metadata(path).is_err()
                && !leads_nowhere(path) =>
        {
            Ok(None)
        }
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn read_file(path: &Utf8Path) -> io::Result<ConfigFile> {
    // Without waiting for the other end of a pipe.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    read_open(path, File::options().read(true).custom_flags(flags).open(path)?)
}

/// Reads a project's file, which must be the project's own and in it.
fn read_in_project(project: &Project) -> Result<Option<ConfigFile>, Failure> {
    let path = project.root().join(CONFIG_FILE);
    let failed = |error: io::Error| unreadable(&path, &error);
    let file = match project.open_file(CONFIG_FILE) {
        Ok(file) => file,
        // A link to nothing is there, and what it would narrow is not.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !leads_nowhere(&path) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    read_open(&path, file).map(Some).map_err(failed)
}

fn read_open(path: &Utf8Path, file: File) -> io::Result<ConfigFile> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    // One byte more than there may be is refused as too large.
    file.take(MAX_CONFIG_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(ConfigFile { path: path.to_owned(), identity: (metadata.dev(), metadata.ino()), bytes })
}

//! The configuration: what the files `skillfreeze.toml` say together.
//!
//! There are at most four: the one that `--config` names, the project's, the user's, the system's,
//! the first that says something winning. A project comes from a repository that nobody vouches for: its
//! file can add sources inside the project and narrow what there is, and no more. Sources of all files
//! count; an id that two of them use is an error, since nothing may put itself in another's place.
//!
//! Nothing is opened here: texts come in, data goes out. One fault in any file fails the whole: a
//! configuration of which a part is left out would be another one.

pub(crate) mod error;
pub(crate) mod file;

use std::collections::{BTreeMap, BTreeSet};

use camino::Utf8Path;
use serde::Deserialize;
use skillfreeze_manifest::{Limits, SkillId};

use crate::configuration::error::{ConfigError, ConfigPlace};
use crate::configuration::file::{ConfigFile, LimitsTable};
use crate::conflict::ConflictPolicy;
use crate::root_path::RootPath;
use crate::source::{Layout, Links};

/// The ids of the sources that are there without configuration; no configured one can have them.
pub const CONVENTIONAL_IDS: [&str; 5] =
    ["project-agents", "project-claude", "user-agents", "user-claude", "registered"];

/// How much a file is trusted with, by whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Root's: it may say everything.
    System,
    /// The user's, or one that the user names: everything but what is reserved.
    User,
    /// A repository's: sources inside the project, and what narrows.
    Project,
}

/// Whether a revision must be approved before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub enum Approval {
    /// It need not.
    #[default]
    #[serde(rename = "none")]
    NotRequired,
    /// It must.
    #[serde(rename = "required")]
    Required,
}

/// A source that a file configures.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceConfig {
    /// The name by which `source:id` reaches it: 1 to 64 of `[a-z0-9._-]`.
    pub id: String,
    /// Its directory. A project's lies below the project's root by its spelling; whoever opens it must
    /// see to it that no link leads out.
    pub root: RootPath,
    /// Where in it packages lie.
    pub layout: Layout,
    /// Its place among the sources, the lowest first.
    pub rank: u32,
    /// Whether a scan fails when it cannot be read.
    pub required: bool,
    /// What becomes of links in its root.
    pub links: Links,
    /// The directories outside of it that its links may lead into.
    pub link_roots: Vec<RootPath>,
    /// Whether nothing can shadow its packages.
    pub reserved: bool,
    /// Whose file it is in.
    pub trust: Trust,
    /// Where it is written.
    pub at: ConfigPlace,
}

impl SourceConfig {
    /// The ranks that a project can give: neither before its conventional sources nor, under the policy that
    /// the highest wins, after the user's.
    pub const PROJECT_RANKS: std::ops::Range<u32> = 200..500;
}

/// The text of one file.
#[derive(Debug, Clone, Copy)]
pub struct ConfigText<'a> {
    /// Its path, for messages alone.
    pub file: &'a Utf8Path,
    /// Its bytes; one more than [`MAX_CONFIG_BYTES`](crate::MAX_CONFIG_BYTES) is enough to be refused.
    pub bytes: &'a [u8],
}

/// The files that there are, each in the place that says how much it is trusted with.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConfigLayers<'a> {
    /// The one that the command line names, with the user's trust.
    pub given: Option<ConfigText<'a>>,
    /// The project's.
    pub project: Option<ConfigText<'a>>,
    /// The user's.
    pub user: Option<ConfigText<'a>>,
    /// The system's.
    pub system: Option<ConfigText<'a>>,
}

/// What all files say together; without any, what holds then.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Configuration {
    /// Whether revisions must be approved.
    pub approval: Approval,
    /// Which of several packages with one id wins.
    pub conflicts: ConflictPolicy,
    /// The configured sources by rank; those of one rank as their files come, then as written.
    pub sources: Vec<SourceConfig>,
    /// The only skills that are enabled, where a file says so; with several, those that all say.
    pub enabled: Option<BTreeSet<SkillId>>,
    /// The limits on each package.
    pub limits: Limits,
    /// The most packages of a scan, where a file says so.
    pub max_packages: Option<usize>,
}

impl Configuration {
    /// Reads all files and merges what they say; `project` is the directory below which the sources of
    /// the project's file lie.
    ///
    /// # Errors
    /// [`ConfigError`] for the first fault of the first file that has one.
    ///
    /// ```
    /// use skillfreeze_catalog::{ConfigLayers, ConfigText, Configuration};
    ///
    /// let project = "/home/me/project".parse()?;
    /// let bytes = b"[[source]]\nid = \"team\"\nroot = \"skills\"\n";
    /// let text = ConfigText { file: "skillfreeze.toml".into(), bytes };
    /// let layers = ConfigLayers { project: Some(text), ..ConfigLayers::default() };
    /// let configuration = Configuration::merge(&layers, &project)?;
    /// assert_eq!(configuration.sources[0].root.as_path(), "/home/me/project/skills");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn merge(layers: &ConfigLayers<'_>, project: &RootPath) -> Result<Self, ConfigError> {
        let ConfigLayers { given, project: own, user, system } = layers;
        let in_order =
            [(given, Trust::User), (own, Trust::Project), (user, Trust::User), (system, Trust::System)];
        let mut files = Vec::new();
        for (text, trust) in in_order {
            if let Some(text) = text {
                files.push(ConfigFile::parse(text, trust, project)?);
            }
        }
        check_ids(&files)?;
        let mut merged = Self {
            approval: files.iter().find_map(|file| file.approval).unwrap_or_default(),
            conflicts: files.iter().find_map(|file| file.conflicts).unwrap_or_default(),
            ..Self::default()
        };
        // What comes first is applied last.
        files.iter().rev().for_each(|file| merged.limit(&file.limits));
        for file in files {
            merged.enabled = match (merged.enabled, file.enabled) {
                (Some(before), Some(also)) => Some(&before & &also),
                (before, also) => before.or(also),
            };
            merged.sources.extend(file.sources);
        }
        merged.sources.sort_by_key(|source| source.rank);
        Ok(merged)
    }

    fn limit(&mut self, table: &LimitsTable) {
        let LimitsTable {
            files,
            package_bytes,
            file_bytes,
            depth,
            skill_bytes,
            front_matter_bytes,
            packages,
        } = table;
        let limits = &mut self.limits;
        for (limit, said) in [
            (&mut limits.files, files),
            (&mut limits.package_bytes, package_bytes),
            (&mut limits.file_bytes, file_bytes),
            (&mut limits.skill_bytes, skill_bytes),
            (&mut limits.front_matter_bytes, front_matter_bytes),
        ] {
            *limit = said.map_or(*limit, Into::into);
        }
        limits.depth = depth.map_or(limits.depth, Into::into);
        self.max_packages = packages.map(Into::into).or(self.max_packages);
    }
}

/// Refuses an id that two sources have, in one file or in two.
fn check_ids(files: &[ConfigFile]) -> Result<(), ConfigError> {
    let mut places: BTreeMap<&str, &ConfigPlace> = BTreeMap::new();
    for source in files.iter().flat_map(|file| &file.sources) {
        if let Some(first) = places.insert(&source.id, &source.at) {
            return Err(ConfigError::SourceTwice {
                id: source.id.clone(),
                first: first.clone(),
                second: source.at.clone(),
            });
        }
    }
    Ok(())
}

//! One `skillfreeze.toml`: its keys, and what each file may say.
//!
//! ```toml
//! approval = "required"            # or "none"
//! conflicts = "first"              # or "last", "error"
//! [[source]]
//! id = "team"
//! root = "/srv/skills"             # in a project's file relative, below the project's root
//! layout = "children"              # or package, nested, flat, collection
//! depth = 3                        # 1 to 8, with nested and collection only
//! rank = 300
//! required = true
//! links = "refuse"                 # or "allow"
//! link_roots = ["/nix/store"]
//! reserved = false
//! [skills]
//! enabled = ["travel-planning"]
//! [limits]
//! files = 4096                     # and package_bytes, file_bytes, depth, skill_bytes,
//!                                  # front_matter_bytes, packages
//! ```
//!
//! An unknown key is refused, so that none that narrows is misspelt unnoticed. An empty file says
//! nothing, and is valid.

use std::collections::BTreeSet;
use std::num::{NonZeroU64, NonZeroUsize};

use serde::Deserialize;
use serde_path_to_error::Segment;
use skillfreeze_manifest::{SkillId, escape_bytes};
use toml::Spanned;

use crate::configuration::error::{ConfigError, ConfigPlace, Whose};
use crate::configuration::{Approval, CONVENTIONAL_IDS, ConfigText, SourceConfig, Trust};
use crate::conflict::ConflictPolicy;
use crate::root_path::{RootPath, RootPathError};
use crate::source::{DEFAULT_RANK, Layout, Links, RESERVED_RANK};

/// The most bytes of a file: its sources need a small part of it.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;
/// The most sources of a file: more than anybody has directories of skills.
const MAX_SOURCES: usize = 256;
/// The most bytes of a source's id.
const MAX_ID_BYTES: usize = 64;
/// How `serde` is told of the value below a position.
const SPANNED: &str = "$__serde_spanned";

/// What one file says, all of it permitted.
#[derive(Debug)]
pub(crate) struct ConfigFile {
    pub(crate) approval: Option<Approval>,
    pub(crate) conflicts: Option<ConflictPolicy>,
    pub(crate) sources: Vec<SourceConfig>,
    pub(crate) enabled: Option<BTreeSet<SkillId>>,
    pub(crate) limits: LimitsTable,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    approval: Option<Spanned<Approval>>,
    conflicts: Option<Spanned<ConflictPolicy>>,
    #[serde(default)]
    source: Vec<SourceTable>,
    #[serde(default)]
    skills: SkillsTable,
    limits: Option<Spanned<LimitsTable>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceTable {
    id: Spanned<String>,
    root: Spanned<String>,
    #[serde(default)]
    layout: LayoutName,
    depth: Option<Spanned<i64>>,
    rank: Option<Spanned<u32>>,
    #[serde(default)]
    required: bool,
    links: Option<Spanned<Links>>,
    link_roots: Option<Spanned<Vec<Spanned<String>>>>,
    reserved: Option<Spanned<bool>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum LayoutName {
    Package,
    #[default]
    Children,
    Nested,
    Flat,
    Collection,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SkillsTable {
    enabled: Option<Vec<Spanned<String>>>,
}

/// The limits that a file sets.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsTable {
    pub(crate) files: Option<NonZeroU64>,
    pub(crate) package_bytes: Option<NonZeroU64>,
    pub(crate) file_bytes: Option<NonZeroU64>,
    pub(crate) depth: Option<NonZeroUsize>,
    pub(crate) skill_bytes: Option<NonZeroU64>,
    pub(crate) front_matter_bytes: Option<NonZeroU64>,
    pub(crate) packages: Option<NonZeroUsize>,
}

/// Something said, and what of it is not for everybody to say.
struct Saying {
    key: &'static str,
    said: &'static str,
    whose: Whose,
}

impl Saying {
    const fn of_user(key: &'static str, said: &'static str) -> Self {
        Self { key, said, whose: Whose::UserOrSystem }
    }
}

const APPROVAL: Saying = Saying::of_user("approval", "`approval`");
const CONFLICTS: Saying = Saying::of_user("conflicts", "`conflicts` other than `error`");
const LIMITS: Saying = Saying::of_user("limits", "`limits`");
const ABSOLUTE_ROOT: Saying = Saying::of_user("source.root", "an absolute `source.root`");
const RANK: Saying = Saying::of_user("source.rank", "a `source.rank` below 200 or above 499");
const LINKS: Saying = Saying::of_user("source.links", "`source.links = \"allow\"`");
const LINK_ROOTS: Saying = Saying::of_user("source.link_roots", "`source.link_roots`");
const RESERVED: Saying = Saying { key: "source.reserved", said: "`source.reserved`", whose: Whose::System };

impl ConfigFile {
    /// Reads a file's text and refuses what a file of this trust may not say.
    pub(crate) fn parse(
        text: &ConfigText<'_>,
        trust: Trust,
        project: &RootPath,
    ) -> Result<Self, ConfigError> {
        let ConfigText { file, bytes } = *text;
        if bytes.len() > MAX_CONFIG_BYTES {
            return Err(ConfigError::TooLarge { file: file.to_owned(), limit: MAX_CONFIG_BYTES });
        }
        let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
        let text = str::from_utf8(bytes).map_err(|error| {
            let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
            ConfigError::NotUtf8 { at: ConfigPlace::new(file, &valid, valid.len()) }
        })?;
        let reader = Reader { place: &|offset| ConfigPlace::new(file, text, offset), trust, project };
        reader.file(deserialize(text, reader.place)?)
    }
}

fn deserialize(text: &str, place: &dyn Fn(usize) -> ConfigPlace) -> Result<FileTable, ConfigError> {
    let invalid = |error: &toml::de::Error, key| ConfigError::Invalid {
        at: place(error.span().map_or(0, |span| span.start)),
        key,
        message: escape_bytes(error.message().split_whitespace().collect::<Vec<_>>().join(" ").as_bytes()),
    };
    let document = toml::Deserializer::parse(text).map_err(|error| invalid(&error, None))?;
    serde_path_to_error::deserialize(document).map_err(|error| {
        let names = error.path().iter().filter_map(|segment| match segment {
            Segment::Map { key } if !key.starts_with(SPANNED) => Some(key.as_str()),
            _ => None,
        });
        let key = names.collect::<Vec<_>>().join(".");
        invalid(error.inner(), Some(key).filter(|key| !key.is_empty()))
    })
}

/// Turns what was written into what it means.
struct Reader<'a> {
    place: &'a dyn Fn(usize) -> ConfigPlace,
    trust: Trust,
    project: &'a RootPath,
}

impl Reader<'_> {
    fn at<T>(&self, spanned: &Spanned<T>) -> ConfigPlace {
        (self.place)(spanned.span().start)
    }

    /// Refuses something that the file says if the file is not trusted with it.
    fn permit<T>(&self, spanned: Option<&Spanned<T>>, saying: &Saying) -> Result<(), ConfigError> {
        let permitted = match saying.whose {
            Whose::UserOrSystem => self.trust != Trust::Project,
            Whose::System => self.trust == Trust::System,
        };
        match spanned {
            Some(spanned) if !permitted => {
                let Saying { key, said, whose } = *saying;
                Err(ConfigError::NotPermitted { at: self.at(spanned), key, said, whose })
            }
            _ => Ok(()),
        }
    }

    fn file(&self, table: FileTable) -> Result<ConfigFile, ConfigError> {
        let FileTable { approval, conflicts, source, skills, limits } = table;
        self.permit(approval.as_ref(), &APPROVAL)?;
        let loosens = |conflicts: &&Spanned<_>| *conflicts.as_ref() != ConflictPolicy::Error;
        self.permit(conflicts.as_ref().filter(loosens), &CONFLICTS)?;
        self.permit(limits.as_ref(), &LIMITS)?;
        Ok(ConfigFile {
            approval: approval.map(Spanned::into_inner),
            conflicts: conflicts.map(Spanned::into_inner),
            sources: self.sources(source)?,
            enabled: skills.enabled.map(|ids| self.skill_ids(&ids)).transpose()?,
            limits: limits.map(Spanned::into_inner).unwrap_or_default(),
        })
    }

    // Not by the ids' own deserialisation, whose errors have the position of the whole list.
    fn skill_ids(&self, ids: &[Spanned<String>]) -> Result<BTreeSet<SkillId>, ConfigError> {
        let parse = |id: &Spanned<String>| {
            let parsed = id.as_ref().parse();
            parsed.map_err(|source| ConfigError::SkillId { at: self.at(id), source })
        };
        ids.iter().map(parse).collect()
    }

    fn sources(&self, tables: Vec<SourceTable>) -> Result<Vec<SourceConfig>, ConfigError> {
        if tables.len() > MAX_SOURCES {
            let file = (self.place)(0).file;
            return Err(ConfigError::TooManySources { file, actual: tables.len(), limit: MAX_SOURCES });
        }
        tables.into_iter().map(|source| self.source(source)).collect()
    }

    fn source(&self, table: SourceTable) -> Result<SourceConfig, ConfigError> {
        let SourceTable { id, root, layout, depth, rank, required, links, link_roots, reserved } = table;
        let at = self.at(&id);
        let id = check_id(id.into_inner(), &at)?;
        let absolute = Some(&root).filter(|root| root.as_ref().starts_with('/'));
        self.permit(absolute, &ABSOLUTE_ROOT)?;
        let is_beyond = |rank: &&Spanned<u32>| !SourceConfig::PROJECT_RANKS.contains(rank.as_ref());
        self.permit(rank.as_ref().filter(is_beyond), &RANK)?;
        self.permit(links.as_ref().filter(|links| *links.as_ref() == Links::Allow), &LINKS)?;
        self.permit(link_roots.as_ref(), &LINK_ROOTS)?;
        // A user may spell out that a source is not reserved; a project has no say in it.
        let claims = |reserved: &&Spanned<bool>| *reserved.as_ref() || self.trust == Trust::Project;
        self.permit(reserved.as_ref().filter(claims), &RESERVED)?;
        let reserved = reserved.is_some_and(Spanned::into_inner);
        let default_rank = if reserved { RESERVED_RANK } else { DEFAULT_RANK };
        let link_roots = link_roots.map(Spanned::into_inner).unwrap_or_default();
        Ok(SourceConfig {
            id,
            root: self.root(&root)?,
            layout: self.layout(layout, depth)?,
            rank: rank.map_or(default_rank, Spanned::into_inner),
            required,
            links: links.map(Spanned::into_inner).unwrap_or_default(),
            link_roots: link_roots
                .iter()
                .map(|root| self.well_formed(root, "source.link_roots", str::parse))
                .collect::<Result<_, _>>()?,
            reserved,
            trust: self.trust,
            at,
        })
    }

    fn root(&self, root: &Spanned<String>) -> Result<RootPath, ConfigError> {
        self.well_formed(root, "source.root", |text| match self.trust {
            Trust::Project => self.project.below(text),
            _ => text.parse(),
        })
    }

    fn well_formed(
        &self,
        root: &Spanned<String>,
        key: &'static str,
        parse: impl FnOnce(&str) -> Result<RootPath, RootPathError>,
    ) -> Result<RootPath, ConfigError> {
        parse(root.as_ref()).map_err(|source| ConfigError::RootMalformed { at: self.at(root), key, source })
    }

    fn layout(&self, name: LayoutName, depth: Option<Spanned<i64>>) -> Result<Layout, ConfigError> {
        let said = depth.map(|depth| (self.at(&depth), depth.into_inner()));
        let depth_or = |default| match &said {
            None => Ok(default),
            Some((at, depth)) => {
                let limit = Layout::MAX_DEPTH;
                let fitting = u8::try_from(*depth).ok().filter(|depth| (1..=limit).contains(depth));
                fitting.ok_or_else(|| ConfigError::DepthRange { at: at.clone(), depth: *depth, limit })
            }
        };
        let layout = match name {
            LayoutName::Nested => Layout::Nested(depth_or(Layout::NESTED_DEPTH)?),
            LayoutName::Collection => Layout::Collection(depth_or(Layout::COLLECTION_DEPTH)?),
            LayoutName::Package => Layout::Package,
            LayoutName::Children => Layout::Children,
            LayoutName::Flat => Layout::Flat,
        };
        let has_depth = matches!(layout, Layout::Nested(_) | Layout::Collection(_));
        match said {
            Some((at, _)) if !has_depth => Err(ConfigError::DepthUnused { at }),
            _ => Ok(layout),
        }
    }
}

fn check_id(id: String, at: &ConfigPlace) -> Result<String, ConfigError> {
    let fits = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-');
    if id.is_empty() || id.len() > MAX_ID_BYTES || !id.bytes().all(fits) {
        return Err(ConfigError::SourceId { at: at.clone(), id });
    }
    if CONVENTIONAL_IDS.contains(&id.as_str()) {
        return Err(ConfigError::SourceIdTaken { at: at.clone(), id });
    }
    Ok(id)
}

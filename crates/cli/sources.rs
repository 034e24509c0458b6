//! The sources in force: those that the command line names, or the conventional and the configured ones.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clap::{Args, ValueEnum};
use skillfreeze::catalog::{
    COLLECTION_FILE, Catalog, CatalogSource, ConfigError, Configuration, ConflictPolicy, Definition,
    Discovery, Layout, Links, MAX_PACKAGES, RootPath, ScanOptions, Source, SourceConfig, Trust,
};
use skillfreeze::manifest::{Limits, LinkRoot, Progress, SkillId};
use skillfreeze::preparer::Precedence;
use skillfreeze::store::{ProjectRoot, Scope, Store, Switch, Switches};

use crate::config_files;
use crate::context::{Context, absolute};
use crate::exit::Failure;
use crate::project::Project;

/// The conventional roots of a project and of a user, with their ids and ranks.
const PROJECT_ROOTS: [(&str, &str, u32); 2] =
    [("project-agents", ".agents/skills", 200), ("project-claude", ".claude/skills", 210)];
const USER_ROOTS: [(&str, &str, u32); 2] =
    [("user-agents", ".agents/skills", 500), ("user-claude", ".claude/skills", 510)];

/// Where packages come from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SourceArgs {
    /// A directory of packages; may be given several times, the first wins
    ///
    /// Replaces all other sources and comes before what the store has. Without it these are in force, if
    /// they are there: `.agents/skills` and `.claude/skills` of the project, what the configuration
    /// names, `~/.agents/skills` and `~/.claude/skills`.
    #[arg(long, value_name = "DIR", value_delimiter = None)]
    pub(crate) source: Vec<Utf8PathBuf>,
    /// Where in each `--source` packages lie [default: what its files say, else children]
    #[arg(long, value_name = "LAYOUT", requires = "source")]
    layout: Option<LayoutArg>,
    /// How many levels deep `nested` and `collection` look [default: 3 and 1]
    #[arg(long, value_name = "N", requires = "layout", value_parser = clap::value_parser!(u8).range(1..=i64::from(Layout::MAX_DEPTH)))]
    depth: Option<u8>,
    /// What becomes of links directly in a `--source`
    #[arg(
        long,
        value_name = "LINKS",
        requires = "source",
        default_value = "refuse",
        hide_default_value = true
    )]
    links: LinksArg,
    /// Which of several skills with one id wins [default: first]
    #[arg(long, value_name = "POLICY")]
    conflicts: Option<ConflictsArg>,
    /// The most entries of a source [default: 4096]
    #[arg(long, value_name = "N")]
    max_packages: Option<usize>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LayoutArg {
    /// The directory is a package itself.
    Package,
    /// Each directory in it is one.
    Children,
    /// They lie in folders of categories.
    Nested,
    /// Each file `name.md` is one.
    Flat,
    /// They are members of a collection.
    Collection,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum LinksArg {
    /// List them as not allowed.
    #[default]
    Refuse,
    /// Take what they lead to.
    Allow,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ConflictsArg {
    /// The one of the lowest rank.
    First,
    /// The one of the highest rank.
    Last,
    /// None: selecting it is an error.
    Error,
}

impl SourceArgs {
    /// Fails where a source of the command line could not be used, after what there is was shown.
    pub(crate) fn refuse_faults(&self, catalog: &Catalog) -> Result<(), Failure> {
        let faults = catalog.sources().iter().filter_map(|source| source.fault.as_ref());
        match faults.take(self.source.len()).next() {
            Some(fault) => Err(Failure::new(fault.code, fault.message.clone())),
            None => Ok(()),
        }
    }

    /// What the command line says of the layout of its sources, if anything.
    fn layout(&self) -> Option<Layout> {
        Some(match self.layout? {
            LayoutArg::Package => Layout::Package,
            LayoutArg::Children => Layout::Children,
            LayoutArg::Flat => Layout::Flat,
            LayoutArg::Nested => Layout::Nested(self.depth.unwrap_or(Layout::NESTED_DEPTH)),
            LayoutArg::Collection => Layout::Collection(self.depth.unwrap_or(Layout::COLLECTION_DEPTH)),
        })
    }
}

/// The sources in force and what the configuration says of them.
#[derive(Debug)]
pub(crate) struct Sources {
    discovery: Discovery,
    /// What a bare id means with these sources.
    pub(crate) precedence: Precedence,
    sources: Vec<Arc<PathSource>>,
    /// As the command line spells them, and the files of the configuration.
    named: Vec<Utf8PathBuf>,
    pub(crate) limits: Limits,
    max_packages: usize,
    /// The only skills that are enabled, where the configuration says so.
    enabled: Option<BTreeSet<SkillId>>,
    project: ProjectRoot,
}

impl Sources {
    /// Finds the sources in force. Those of the command line must be there if `required`.
    pub(crate) fn find(context: &Context, args: &SourceArgs, required: bool) -> Result<Self, Failure> {
        let project = Arc::new(context.project()?);
        let configuration = config_files::read(context.config(), &project)?;
        let mut sources: Vec<PathSource> = Vec::new();
        if args.source.is_empty() {
            sources.extend(conventional(&project));
            sources.extend(configuration.sources.iter().map(|config| configured_source(config, &project)));
        } else {
            for (rank, directory) in (0..).zip(&args.source) {
                let mut definition = typed(directory, args)?;
                (definition.rank, definition.required) = (rank, required);
                sources.push(PathSource::new(definition));
            }
        }
        let sources: Vec<Arc<PathSource>> = sources.into_iter().map(Arc::new).collect();
        // A link on the way to one can be led elsewhere.
        let mut named =
            args.source.iter().map(|directory| absolute(directory)).collect::<Result<Vec<_>, _>>()?;
        named.extend(config_files::user_config());
        named.extend(context.config().map(absolute).transpose()?);
        let policy = match args.conflicts {
            Some(ConflictsArg::First) => ConflictPolicy::First,
            Some(ConflictsArg::Last) => ConflictPolicy::Last,
            Some(ConflictsArg::Error) => ConflictPolicy::Error,
            None => configuration.conflicts,
        };
        let Configuration { limits, max_packages, enabled, .. } = configuration;
        let scanned = sources.iter().map(|source| -> Arc<dyn Source> { Arc::<PathSource>::clone(source) });
        Ok(Self {
            discovery: Discovery::new(scanned.collect(), policy)?,
            precedence: if args.source.is_empty() { Precedence::Store } else { Precedence::Sources },
            sources,
            named,
            limits,
            max_packages: args.max_packages.or(max_packages).unwrap_or(MAX_PACKAGES),
            enabled,
            project: project.store_key(),
        })
    }

    /// Scans them.
    pub(crate) fn scan(&self, progress: &dyn Progress) -> Result<Catalog, Failure> {
        let (limits, max_packages) = (self.limits, self.max_packages);
        Ok(self.discovery.scan(&ScanOptions { limits, max_packages, progress, ..ScanOptions::default() })?)
    }

    /// Where a later run would take skills or configuration from, the project's own places apart: a
    /// launch must not let any of it be written.
    pub(crate) fn places(&self) -> Vec<Utf8PathBuf> {
        self.sources.iter().flat_map(|source| source.places()).chain(self.named.iter().cloned()).collect()
    }

    /// The root of the project that the caller works in.
    pub(crate) fn project(&self) -> &Utf8Path {
        self.project.as_path()
    }

    /// Which skills are enabled, by the configuration and the user's switches in the store.
    pub(crate) fn enablement(&self, store: Option<&Store>) -> Result<Enablement, Failure> {
        let switches = store.map(Store::switches).transpose()?.unwrap_or_default();
        let wanted = match (self.precedence, &self.enabled) {
            (Precedence::Store, Some(enabled)) => enabled.clone(),
            _ => BTreeSet::new(),
        };
        Ok(Enablement { enabled: self.enabled.clone(), switches, project: self.project.clone(), wanted })
    }
}

/// Which skills are enabled.
#[derive(Debug)]
pub(crate) struct Enablement {
    enabled: Option<BTreeSet<SkillId>>,
    switches: Switches,
    project: ProjectRoot,
    /// Those that must be there.
    pub(crate) wanted: BTreeSet<SkillId>,
}

impl Enablement {
    /// Whether a skill may be selected.
    pub(crate) fn allows(&self, id: &SkillId) -> bool {
        self.switches.state(id, Some(&self.project)) != Some(false)
            && self.enabled.as_ref().is_none_or(|enabled| enabled.contains(id))
    }

    /// What makes a skill that may not be selected one that may.
    pub(crate) fn remedy(&self, id: &SkillId) -> String {
        let own = Scope::Project(self.project.clone());
        let is_own = |switch: &Switch| switch.id == *id && switch.scope == own && !switch.on;
        if self.switches.iter().any(is_own) {
            format!("enable it with `skillfreeze enable {id} --scope project`")
        } else if self.switches.state(id, Some(&self.project)) == Some(false) {
            format!("enable it with `skillfreeze enable {id}`")
        } else {
            "add it to `enabled` in each file of the configuration that has `[skills]`".to_owned()
        }
    }
}

/// What is worth saying of a source that holds nothing because it failed; nothing of a conventional one
/// that is just not there.
pub(crate) fn fault_of(source: &CatalogSource) -> Option<String> {
    let fault = source.fault.as_ref()?;
    let is_conventional = PROJECT_ROOTS.iter().chain(&USER_ROOTS).any(|(id, ..)| *id == source.definition.id);
    (!(is_conventional && fault.code == "root-absent")).then(|| {
        format!("the source `{}` is left out: {} ({})", source.definition.id, fault.message, fault.code)
    })
}

/// A source that is found by its path at each scan, so that one that vanished may return.
#[derive(Debug)]
struct PathSource {
    definition: Definition,
    link_roots: Vec<RootPath>,
    /// The project that it must lie in, and its path there.
    within: Option<(Arc<Project>, Utf8PathBuf)>,
}

impl PathSource {
    fn new(definition: Definition) -> Self {
        Self { definition, link_roots: Vec::new(), within: None }
    }

    /// Where its skills lie: in its root, where the links in there lead that it follows, and in what it
    /// borrows files from.
    fn places(&self) -> Vec<Utf8PathBuf> {
        let mut places = vec![self.definition.path.clone()];
        places.extend(self.link_roots.iter().map(|root| root.as_path().to_owned()));
        if self.definition.links == Links::Allow {
            // A name that is not UTF-8 is no skill's.
            let entries = self.definition.path.read_dir_utf8().into_iter().flatten().flatten();
            let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
            places.extend(links.map(|link| link.into_path()));
        }
        places
    }
}

impl Source for PathSource {
    fn definition(&self) -> &Definition {
        &self.definition
    }

    fn open(&self) -> io::Result<Dir> {
        let opened = match &self.within {
            Some((project, path)) => project.open_dir(path),
            None => Dir::open_ambient_dir(&self.definition.path, ambient_authority()),
        };
        opened.map_err(|error| {
            // What should lie below a file is as absent as any.
            let is_below = error.kind() == io::ErrorKind::NotADirectory
                && fs::symlink_metadata(&self.definition.path).is_err();
            if is_below { io::ErrorKind::NotFound.into() } else { error }
        })
    }

    fn follow(&self, root: &Dir, name: &str) -> io::Result<(Dir, Utf8PathBuf)> {
        let real = match &self.within {
            Some(_) => self.definition.path.join(from_path(root.canonicalize(name)?)?),
            None => from_path(fs::canonicalize(self.definition.path.join(name))?)?,
        };
        Ok((Dir::open_ambient_dir(&real, ambient_authority())?, real))
    }

    fn link_roots(&self) -> Vec<LinkRoot> {
        let open = |path: &RootPath| {
            let dir = Dir::open_ambient_dir(path.as_path(), ambient_authority()).ok()?;
            LinkRoot::new(path.as_path().as_str(), dir).ok()
        };
        self.link_roots.iter().filter_map(open).collect()
    }
}

fn from_path(path: std::path::PathBuf) -> io::Result<Utf8PathBuf> {
    Utf8PathBuf::from_path_buf(path).map_err(|_| io::ErrorKind::InvalidFilename.into())
}

/// The roots that are there without configuration.
fn conventional(project: &Arc<Project>) -> Vec<PathSource> {
    let mut sources = Vec::new();
    for (id, path, rank) in PROJECT_ROOTS {
        let mut definition = Definition::new(id, project.root().join(path));
        (definition.rank, definition.scope) = (rank, format!("project:{}", project.root()));
        let within = Some((Arc::clone(project), Utf8PathBuf::from(path)));
        sources.push(PathSource { within, ..PathSource::new(definition) });
    }
    let home = env::var("HOME").ok().filter(|home| home.starts_with('/')).map(Utf8PathBuf::from);
    for (id, path, rank) in USER_ROOTS.into_iter().take_while(|_| home.is_some()) {
        let path = home.clone().unwrap_or_default().join(path);
        let mut definition = Definition::new(id, path.components().collect::<Utf8PathBuf>());
        (definition.rank, definition.scope, definition.links) = (rank, "user".to_owned(), Links::Allow);
        sources.push(PathSource::new(definition));
    }
    sources
}

fn configured_source(config: &SourceConfig, project: &Arc<Project>) -> PathSource {
    let mut definition = Definition::new(config.id.as_str(), config.root.as_path());
    definition.rank = config.rank;
    definition.layout = config.layout;
    definition.links = config.links;
    definition.reserved = config.reserved;
    definition.required = config.required;
    definition.scope = match config.trust {
        Trust::System => "system".to_owned(),
        Trust::User => "user".to_owned(),
        Trust::Project => format!("project:{}", project.root()),
    };
    let within = match config.trust {
        Trust::Project => config.root.as_path().strip_prefix(project.root()).ok().map(Utf8Path::to_owned),
        _ => None,
    };
    PathSource {
        link_roots: config.link_roots.clone(),
        within: within.map(|path| (Arc::clone(project), path)),
        ..PathSource::new(definition)
    }
}

/// The source that the command line names with this directory.
fn typed(directory: &Utf8Path, args: &SourceArgs) -> Result<Definition, Failure> {
    let spelled = absolute(directory)?;
    let path = spelled.canonicalize_utf8().unwrap_or(spelled);
    let id = directory.as_str();
    let id = if id.len() > 1 { id.trim_end_matches('/') } else { id };
    let has = |name: &str| fs::symlink_metadata(path.join(name)).is_ok();
    let layout = args.layout().unwrap_or_else(|| {
        if has("SKILL.md") {
            Layout::Package
        } else if has(COLLECTION_FILE) {
            Layout::Collection(Layout::COLLECTION_DEPTH)
        } else {
            Layout::Children
        }
    });
    let mut definition = Definition::new(id, path);
    (definition.layout, definition.scope) = (layout, "command line".to_owned());
    definition.links = match args.links {
        LinksArg::Refuse => Links::Refuse,
        LinksArg::Allow => Links::Allow,
    };
    Ok(definition)
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(error.code(), &error)
    }
}

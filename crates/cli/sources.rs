//! The sources in force: those that the command line names, or the conventional and the configured ones.

use std::collections::BTreeSet;
use std::env;
use std::num::NonZeroUsize;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};
use clap::{Args, ValueEnum};
use skillfreeze::catalog::{
    self, Catalog, CatalogSource, ConfigError, Configuration, ConflictPolicy, Definition, Discovery, Layers,
    Layout, Links, MAX_PACKAGES, RootPath, ScanOptions, Source, SourceConfig, Trust,
};
use skillfreeze::manifest::{Limits, Progress, SkillId};
use skillfreeze::preparer::Precedence;
use skillfreeze::store::{ProjectRoot, Scope, Store, Switch, Switches};

use crate::config_files;
use crate::context::{Context, absolute};
use crate::directories::DirectoryArgs;
use crate::exit::Failure;
use crate::path_source::PathSource;
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
    #[arg(long, value_name = "DIR", value_delimiter = None, group = DirectoryArgs::NAMED)]
    pub(crate) source: Vec<Utf8PathBuf>,
    #[command(flatten)]
    pub(crate) directories: DirectoryArgs,
    /// Which of several skills with one id wins [default: first]
    #[arg(long, value_name = "POLICY")]
    conflicts: Option<ConflictsArg>,
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
        let faulty = |source: &&CatalogSource| source.fault.is_some() && !self.source.is_empty();
        let Some(source) = catalog.sources().iter().find(faulty) else { return Ok(()) };
        match &source.fault {
            Some(fault) if fault.path.is_some() => {
                let mut fault = fault.clone();
                fault.path = fault.path.map(|path| source.definition.path.join(path).into_string());
                let place = fault.place().unwrap_or_default();
                Err(Failure::new(fault.code, format!("{place}: {}", fault.message)))
            }
            Some(fault) => Err(Failure::new(fault.code, fault.message.clone())),
            None => Ok(()),
        }
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
    /// All that the configuration says.
    pub(crate) configuration: Configuration,
    max_packages: usize,
    /// The only skills that are enabled, where the configuration says so.
    enabled: Option<BTreeSet<SkillId>>,
    project: ProjectRoot,
}

impl Sources {
    /// Finds the sources in force. Those of the command line must be there if `required`.
    pub(crate) fn find(context: &Context, args: &SourceArgs, required: bool) -> Result<Self, Failure> {
        let (project, mut configuration) = configured(context)?;
        let mut sources: Vec<PathSource> = Vec::new();
        if args.source.is_empty() {
            sources.extend(roots_of_project(&project)?);
            sources.extend(roots_of_user()?);
            sources.extend(configuration.sources.iter().map(|config| configured_source(config, &project)));
        } else {
            for (rank, directory) in (0..).zip(&args.source) {
                let mut definition = args.directories.definition(directory)?;
                (definition.rank, definition.required) = (rank, required);
                sources.push(PathSource::new(definition));
            }
        }
        configuration.conflicts = match args.conflicts {
            Some(ConflictsArg::First) => ConflictPolicy::First,
            Some(ConflictsArg::Last) => ConflictPolicy::Last,
            Some(ConflictsArg::Error) => ConflictPolicy::Error,
            None => configuration.conflicts,
        };
        configuration.max_packages =
            args.directories.max_packages.map(NonZeroUsize::get).or(configuration.max_packages);
        let mut found = Self::new(sources, configuration, &project)?;
        if !args.source.is_empty() {
            found.precedence = Precedence::Sources;
        }
        // A link on the way to one can be led elsewhere.
        found.named =
            args.source.iter().map(|directory| absolute(directory)).collect::<Result<Vec<_>, _>>()?;
        found.named.extend(config_files::user_config());
        found.named.extend(context.config().map(absolute).transpose()?);
        Ok(found)
    }

    /// Finds the sources that the caller answers for without naming any: the project's own, and those
    /// of the configuration that the command line names. A package that the caller is in comes first.
    pub(crate) fn of_project(context: &Context, args: &DirectoryArgs) -> Result<Self, Failure> {
        let (project, mut configuration) = configured(context)?;
        let mut sources = roots_of_project(&project)?;
        let mut here = args.definition(Utf8Path::new("."))?;
        if here.layout == Layout::Package {
            here.rank = 0;
            sources.push(PathSource::new(here));
        }
        let own = configuration.sources.iter().filter(|config| {
            config.trust == Trust::Project || context.config() == Some(config.at.file.as_path())
        });
        sources.extend(own.map(|config| configured_source(config, &project)));
        configuration.max_packages = args.max_packages.map(NonZeroUsize::get).or(configuration.max_packages);
        Self::new(sources, configuration, &project)
    }

    /// Makes sources of directories that the command line names, in their order.
    pub(crate) fn of_directories(
        context: &Context,
        directories: Vec<Definition>,
        args: &DirectoryArgs,
    ) -> Result<Self, Failure> {
        let (project, mut configuration) = configured(context)?;
        let sources = (0..).zip(directories).map(|(rank, mut definition)| {
            definition.rank = rank;
            PathSource::new(definition)
        });
        configuration.max_packages = args.max_packages.map(NonZeroUsize::get).or(configuration.max_packages);
        Self::new(sources.collect(), configuration, &project)
    }

    fn new(
        sources: Vec<PathSource>,
        configuration: Configuration,
        project: &Project,
    ) -> Result<Self, Failure> {
        let sources: Vec<Arc<PathSource>> = sources.into_iter().map(Arc::new).collect();
        let scanned = sources.iter().map(|source| -> Arc<dyn Source> { Arc::<PathSource>::clone(source) });
        Ok(Self {
            discovery: Discovery::new(scanned.collect(), configuration.conflicts)?,
            precedence: Precedence::Store,
            sources,
            named: Vec::new(),
            limits: configuration.limits,
            max_packages: configuration.max_packages.unwrap_or(MAX_PACKAGES),
            enabled: configuration.enabled.clone(),
            configuration,
            project: project.store_key(),
        })
    }

    /// Keeps what was scanned where other sources of the same configuration keep it.
    pub(crate) fn with_layers(self, layers: &Layers) -> Self {
        Self { discovery: self.discovery.with_layers(layers), ..self }
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

    /// Places of skills that do not each lie in a directory of their own directly below it.
    pub(crate) fn other_layouts(&self) -> impl Iterator<Item = Utf8PathBuf> {
        self.sources.iter().flat_map(|source| {
            let is_plain = matches!(source.definition().layout, Layout::Children | Layout::Collection(_));
            // Beside its root there are only single packages and what they borrow from.
            source.places().into_iter().skip(usize::from(is_plain))
        })
    }

    /// The root of the project that the caller works in.
    pub(crate) fn project(&self) -> &Utf8Path {
        self.project.as_path()
    }

    /// Which skills are enabled, by the configuration and the user's switches in the store.
    pub(crate) fn enablement(&self, store: Option<&Store>) -> Result<Enablement, Failure> {
        let switches = store.map(Store::switches).transpose()?.unwrap_or_default();
        let mut wanted = BTreeSet::new();
        if self.precedence == Precedence::Store {
            wanted.extend(self.enabled.iter().flatten().cloned());
            // What is switched on for this project is meant to be there; a user's skills are not in every one.
            let own = Scope::Project(self.project.clone());
            let on = switches.iter().filter(|switch| switch.scope == own && switch.on);
            wanted.extend(on.map(|switch| switch.id.clone()));
        }
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

/// The caller's project, and what all configuration files say.
fn configured(context: &Context) -> Result<(Arc<Project>, Configuration), Failure> {
    let project = Arc::new(context.project()?);
    let configuration = config_files::read(context.config(), &project)?;
    Ok((project, configuration))
}

/// The roots that a project has without configuration.
fn roots_of_project(project: &Arc<Project>) -> Result<Vec<PathSource>, Failure> {
    let mut sources = Vec::new();
    for (id, path, rank) in PROJECT_ROOTS {
        let mut definition = Definition::new(id, root_path(project.root().join(path))?);
        (definition.rank, definition.scope) = (rank, project.source_scope());
        let within = Some((Arc::clone(project), Utf8PathBuf::from(path)));
        sources.push(PathSource { within, ..PathSource::new(definition) });
    }
    Ok(sources)
}

/// The roots that a user has without configuration.
fn roots_of_user() -> Result<Vec<PathSource>, Failure> {
    let mut sources = Vec::new();
    let home = env::var("HOME").ok().filter(|home| home.starts_with('/'));
    let home = home.and_then(|home| Utf8PathBuf::from(home).canonicalize_utf8().ok());
    for (id, path, rank) in USER_ROOTS.into_iter().take_while(|_| home.is_some()) {
        let mut definition = Definition::new(id, root_path(home.clone().unwrap_or_default().join(path))?);
        (definition.rank, definition.scope, definition.links) = (rank, catalog::Scope::User, Links::Allow);
        sources.push(PathSource::new(definition));
    }
    Ok(sources)
}

pub(crate) fn root_path(path: Utf8PathBuf) -> Result<RootPath, Failure> {
    RootPath::try_from(path).map_err(|error| Failure::of(error.code(), &error))
}

fn configured_source(config: &SourceConfig, project: &Arc<Project>) -> PathSource {
    let mut definition = Definition::new(config.id.as_str(), config.root.clone());
    definition.rank = config.rank;
    definition.layout = config.layout;
    definition.links = config.links;
    definition.reserved = config.reserved;
    definition.required = config.required;
    definition.scope = match config.trust {
        Trust::System => catalog::Scope::System,
        Trust::User => catalog::Scope::User,
        Trust::Project => project.source_scope(),
    };
    let within = match config.trust {
        Trust::Project => config.root.as_path().strip_prefix(project.root()).ok().map(Utf8Path::to_owned),
        _ => None,
    };
    definition.link_roots.clone_from(&config.link_roots);
    PathSource { within: within.map(|path| (Arc::clone(project), path)), ..PathSource::new(definition) }
}

/// What the reserved sources of a configuration hold, and no others do.
pub(crate) fn scan_reserved(
    configuration: &Configuration,
    project: &Arc<Project>,
    progress: &dyn Progress,
) -> Result<Catalog, Failure> {
    let reserved = configuration.sources.iter().filter(|source| source.reserved);
    let sources = reserved.map(|source| configured_source(source, project)).collect();
    Sources::new(sources, configuration.clone(), project)?.scan(progress)
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        Self::of(error.code(), &error)
    }
}

//! Discovery: the sources in force, what is registered with them, and what earlier scans can tell.
//!
//! Sources of one scope make a layer. A layer that was scanned before and did not change is not scanned
//! again, and one that fails costs itself alone: the others are still there for the next scan. What
//! was kept is used only after every route of it was looked at again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use skillfreeze_manifest::Limits;

use crate::catalog::{Catalog, CatalogSource};
use crate::conflict::{ConflictPolicy, Everything};
use crate::materializer::Materializer;
use crate::registration::{PackageDir, Registration, Registry};
use crate::scan::{self, Root, ScanError, ScanOptions, Scanned};
use crate::source::{Definition, FileSource, Layout, REGISTERED_ID, REGISTERED_RANK, Scope, Source};

/// How often sources that change while they are read are read.
const ATTEMPTS: usize = 4;

/// Why sources do not make a discovery.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// Two sources have one id.
    #[error("two sources have the id `{}`", .id.escape_debug())]
    DuplicateSource {
        /// The id.
        id: String,
    },
    /// A source has the id that registered packages have.
    #[error("the id `{REGISTERED_ID}` is that of registered packages")]
    RegisteredId,
    /// A materializer fills something that is no source.
    #[error("a materializer would fill `{}`, which is no configured source", .id.escape_debug())]
    MaterializerTarget {
        /// What it says it fills.
        id: String,
    },
    /// Two materializers fill one source.
    #[error("two materializers would fill the source `{}`", .id.escape_debug())]
    DuplicateMaterializer {
        /// The source's id.
        id: String,
    },
}

impl DiscoveryError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::DuplicateSource { .. } => "source-twice",
            Self::RegisteredId => "source-id-taken",
            Self::MaterializerTarget { .. } => "materializer-target",
            Self::DuplicateMaterializer { .. } => "materializer-twice",
        }
    }
}

/// The sources in force.
pub struct Discovery {
    sources: Vec<Arc<dyn Source>>,
    policy: ConflictPolicy,
    materializers: BTreeMap<String, Box<dyn Materializer>>,
    registry: Registry,
    layers: Layers,
}

impl fmt::Debug for Discovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Discovery")
            .field("sources", &self.sources)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

/// Layers that were scanned, by the chain of scopes from the widest to each; shared by discoveries that have
/// scopes in common, such as those of several projects of one user.
#[derive(Debug, Clone, Default)]
pub struct Layers(Arc<Mutex<BTreeMap<Vec<Scope>, Layer>>>);

#[derive(Debug, Clone)]
struct Layer {
    definitions: Vec<Definition>,
    limits: (Limits, usize),
    scanned: Vec<Arc<Scanned>>,
}

impl Discovery {
    /// Puts the sources in the order of their ranks; those of one rank keep theirs.
    ///
    /// # Errors
    /// [`DiscoveryError::DuplicateSource`].
    pub fn new(mut sources: Vec<Arc<dyn Source>>, policy: ConflictPolicy) -> Result<Self, DiscoveryError> {
        sources.sort_by_key(|source| source.definition().rank);
        for (index, source) in sources.iter().enumerate() {
            let id = &source.definition().id;
            if id == REGISTERED_ID {
                return Err(DiscoveryError::RegisteredId);
            }
            if sources[..index].iter().any(|earlier| earlier.definition().id == *id) {
                return Err(DiscoveryError::DuplicateSource { id: id.clone() });
            }
        }
        let (registry, layers) = (Registry::default(), Layers::default());
        Ok(Self { sources, policy, materializers: BTreeMap::new(), registry, layers })
    }

    /// Keeps scanned layers where other discoveries keep theirs.
    #[must_use]
    pub fn with_layers(mut self, layers: &Layers) -> Self {
        self.layers = layers.clone();
        self
    }

    /// Lets a materializer fill its source's root before each scan.
    ///
    /// # Errors
    /// [`DiscoveryError`] where it fills no configured source, or one that another fills.
    pub fn materialize(&mut self, materializer: Box<dyn Materializer>) -> Result<(), DiscoveryError> {
        let id = materializer.source().to_owned();
        if !self.sources.iter().any(|source| source.definition().id == id) {
            return Err(DiscoveryError::MaterializerTarget { id });
        }
        if self.materializers.contains_key(&id) {
            return Err(DiscoveryError::DuplicateMaterializer { id });
        }
        self.materializers.insert(id, materializer);
        Ok(())
    }

    /// Registers a package of the caller's in memory, at rank 250, until the registration is dropped.
    ///
    /// Of two with one id the later is passed over, and listed as shadowed.
    pub fn register(&self, package: PackageDir) -> Registration {
        self.registry.add(package)
    }

    /// Scans the sources, and looks at everything once more before it returns.
    ///
    /// # Errors
    /// [`ScanError`] when a source cannot be read, there is too much, or something kept changing;
    /// never for a package's fault.
    pub fn scan(&self, options: &ScanOptions<'_>) -> Result<Catalog, ScanError> {
        let sources = self.sources_in_force()?;
        let keys = chains(&sources);
        let mut scanned = self.layers.take(&keys, &sources, options);
        let done = self.fill(&sources).and_then(|failed| complete(&sources, &mut scanned, &failed, options));
        self.layers.keep(&keys, &sources, &scanned, options);
        done?;

        let mut everything = Everything::default();
        let mut states = Vec::with_capacity(sources.len());
        for (index, (source, scanned)) in sources.into_iter().zip(scanned.into_iter().flatten()).enumerate() {
            let Scanned { root, packages, left_out, collections, routes } = Arc::unwrap_or_clone(scanned);
            let listed = routes.into_iter().filter(|(_, seen)| seen.may_be_package());
            let listed = listed.map(|(path, _)| path).collect();
            everything.packages.extend(packages.into_iter().map(|mut found| {
                found.source = index;
                found
            }));
            everything.left_out.extend(left_out.into_iter().map(|mut left| {
                left.source = index;
                left
            }));
            everything.collections.extend(collections.into_iter().map(|mut collection| {
                collection.source = index;
                collection
            }));
            let (root, fault) = match root {
                Root::Open { dir, .. } => (Some(dir), None),
                Root::Failed { fault, .. } => (None, Some(fault)),
            };
            let definition = source.definition().clone();
            states.push(CatalogSource { definition, fault, root, source, listed });
        }
        Catalog::resolve(states, everything, self.policy, options)
    }

    /// The configured sources and one for each registered package, by rank.
    fn sources_in_force(&self) -> Result<Vec<Arc<dyn Source>>, ScanError> {
        let mut sources = self.sources.clone();
        for package in self.registry.packages() {
            let definition = Definition {
                rank: REGISTERED_RANK,
                layout: Layout::Package,
                scope: Scope::Session,
                ..Definition::new(REGISTERED_ID, package.path.clone())
            };
            let failed = |cause| {
                let (id, path) = (REGISTERED_ID.to_owned(), package.path.clone());
                ScanError::Root { id, path, cause }
            };
            let root = package.dir.try_clone().map_err(failed)?;
            sources.push(Arc::new(FileSource::new(definition, root)));
        }
        sources.sort_by_key(|source| source.definition().rank);
        Ok(sources)
    }

    /// Lets the materializers fill their sources; gives those that failed.
    fn fill(&self, sources: &[Arc<dyn Source>]) -> Result<BTreeMap<usize, Arc<Scanned>>, ScanError> {
        let mut failed = BTreeMap::new();
        for (index, source) in sources.iter().enumerate() {
            let Some(materializer) = self.materializers.get(&source.definition().id) else { continue };
            if let Err(cause) = source.open().and_then(|root| materializer.fill(&root)) {
                failed.insert(index, Arc::new(scan::unfilled(&**source, &cause)?));
            }
        }
        Ok(failed)
    }
}

/// Scans what was not scanned, looks at everything once more, and scans again what changed meanwhile.
fn complete(
    sources: &[Arc<dyn Source>],
    scanned: &mut [Option<Arc<Scanned>>],
    failed: &BTreeMap<usize, Arc<Scanned>>,
    options: &ScanOptions<'_>,
) -> Result<(), ScanError> {
    let mut changed = None;
    for _ in 0..ATTEMPTS {
        for (index, (source, slot)) in sources.iter().zip(scanned.iter_mut()).enumerate() {
            if let Some(failed) = failed.get(&index) {
                *slot = Some(Arc::clone(failed));
            } else if slot.is_none() {
                *slot = Some(Arc::new(scan::scan(&**source, options)?));
            }
        }
        changed = None;
        for (index, (source, slot)) in sources.iter().zip(scanned.iter_mut()).enumerate() {
            let Some(done) = slot.as_ref().filter(|_| !failed.contains_key(&index)) else { continue };
            if let Some(path) = done.changed(&**source) {
                changed = Some((source.definition().id.clone(), path));
                *slot = None;
            }
        }
        if changed.is_none() {
            return Ok(());
        }
    }
    match changed {
        Some((id, path)) => Err(ScanError::Changing { id, path }),
        None => Ok(()),
    }
}

/// For each source the chain of scopes from the widest one to its own, so that what is narrower, another
/// project say, makes no other layer of what is wider.
fn chains(sources: &[Arc<dyn Source>]) -> Vec<Vec<Scope>> {
    let mut chain: Vec<Scope> = sources.iter().map(|source| source.definition().scope.clone()).collect();
    chain.sort();
    chain.dedup();
    let key = |source: &Arc<dyn Source>| {
        let end = chain.partition_point(|scope| *scope <= source.definition().scope);
        chain[..end].to_vec()
    };
    sources.iter().map(key).collect()
}

impl Layers {
    /// Takes out what is kept for these sources. A scan that fails puts back what it did not fail at.
    fn take(
        &self,
        keys: &[Vec<Scope>],
        sources: &[Arc<dyn Source>],
        options: &ScanOptions<'_>,
    ) -> Vec<Option<Arc<Scanned>>> {
        let mut layers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken: BTreeMap<&Vec<Scope>, Layer> = BTreeMap::new();
        for key in keys {
            if let Some(layer) = layers.remove(key) {
                taken.insert(key, layer);
            }
        }
        let limits = (options.limits, options.max_packages);
        let find = |(key, source): (&Vec<Scope>, &Arc<dyn Source>)| {
            let layer = taken.get(key).filter(|layer| layer.limits == limits)?;
            let index = layer.definitions.iter().position(|known| known == source.definition())?;
            layer.scanned.get(index).filter(|scanned| matches!(scanned.root, Root::Open { .. })).cloned()
        };
        keys.iter().zip(sources).map(find).collect()
    }

    /// Keeps each layer that is complete.
    fn keep(
        &self,
        keys: &[Vec<Scope>],
        sources: &[Arc<dyn Source>],
        scanned: &[Option<Arc<Scanned>>],
        options: &ScanOptions<'_>,
    ) {
        let mut complete: BTreeMap<&Vec<Scope>, Option<Layer>> = BTreeMap::new();
        for ((key, source), scanned) in keys.iter().zip(sources).zip(scanned) {
            let empty = Layer {
                definitions: Vec::new(),
                limits: (options.limits, options.max_packages),
                scanned: Vec::new(),
            };
            let slot = complete.entry(key).or_insert(Some(empty));
            match (slot.as_mut(), scanned) {
                (Some(layer), Some(scanned)) => {
                    layer.definitions.push(source.definition().clone());
                    layer.scanned.push(Arc::clone(scanned));
                }
                _ => *slot = None,
            }
        }
        let mut layers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        layers.extend(complete.into_iter().filter_map(|(key, layer)| Some((key.clone(), layer?))));
    }
}

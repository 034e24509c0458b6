//! `list --watch`: a line whenever what `list --json` prints is another.
//!
//! Each look is a whole `list`, in which only what changed is scanned again. It prints nothing where
//! the index is the same; what fails is told once, and looked at again.

use std::collections::BTreeMap;
use std::env;
use std::mem;

use camino::Utf8PathBuf;
use serde::Serialize;
use skillfreeze::Digest;
use skillfreeze::catalog::{Catalog, Configuration, Layers, Watched};
use skillfreeze::manifest::{Silent, SkillId, to_canonical_bytes};

use super::index::{Index, Skill};
use super::list::List;
use crate::config_files;
use crate::context::Context;
use crate::exit::Failure;
use crate::sources::{Sources, fault_of};
use crate::watcher::{Places, Watcher, Woken};

/// The schema of a line.
const SCHEMA: &str = "skillfreeze.catalog-changed.v1";
/// The file of a store that every change of it is appended to.
const JOURNAL: &str = "journal";

/// A line of `list --watch`.
#[derive(Debug, Serialize)]
struct Changed<'a> {
    schema: &'static str,
    /// That of the skill index; the same again means the same index.
    digest: Digest,
    skills: usize,
    left_out: usize,
    added: Vec<&'a SkillId>,
    removed: Vec<&'a SkillId>,
    changed: Vec<&'a SkillId>,
}

/// What the last line was about.
#[derive(Debug, Default)]
struct Shown {
    digest: Option<Digest>,
    /// The digests of what the index says of each id.
    skills: BTreeMap<SkillId, Digest>,
    faults: Vec<String>,
}

/// Prints a line now and after each change, until nobody reads it.
pub(super) fn watch(list: &List, context: &Context) -> Result<u8, Failure> {
    // What is wrong with the command line or the configuration now is for the caller to mend.
    Sources::find(context, &list.sources, false)?;
    let (watcher, started) = Watcher::new();
    let mut watch = Watch {
        list,
        context,
        watcher,
        layers: Layers::default(),
        configuration: None,
        places: Places::default(),
        shown: Shown::default(),
        told: None,
    };
    watch.tell_limit(started);
    loop {
        let looked = watch.look();
        let armed = watch.watcher.arm(&watch.places);
        watch.tell_limit(armed);
        watch.report(looked)?;
        let woken = watch.watcher.wait().map_err(|error| Failure::io("cannot wait for changes", &error))?;
        if woken == Woken::NoReader {
            return Ok(0);
        }
    }
}

struct Watch<'a> {
    list: &'a List,
    context: &'a Context,
    watcher: Watcher,
    /// What was scanned, for as long as the configuration is the same.
    layers: Layers,
    configuration: Option<Configuration>,
    /// Where changes count, as far as the last look knows.
    places: Places,
    shown: Shown,
    /// The failure that was told last, and still is one.
    told: Option<(String, String)>,
}

impl Watch<'_> {
    /// Lists everything, and finds out where changes of it would show.
    fn look(&mut self) -> Result<(Index, Vec<String>), Failure> {
        let unconditional = self.unconditional();
        let before = mem::replace(&mut self.places, unconditional);
        let listed = self.list_all();
        if listed.is_err() {
            // What was in the way of this look may be in any place that the one before knew.
            self.places.extend(&before);
        }
        listed
    }

    fn list_all(&mut self) -> Result<(Index, Vec<String>), Failure> {
        let sources = Sources::find(self.context, &self.list.sources, false)?;
        if self.configuration.as_ref() != Some(&sources.configuration) {
            self.layers = Layers::default();
            self.configuration = Some(sources.configuration.clone());
        }
        let sources = sources.with_layers(&self.layers);
        for place in sources.places() {
            self.places.way_to(&place);
            self.places.whole(&place);
        }
        let catalog = sources.scan(&Silent)?;
        watch_catalog(&catalog, &mut self.places);
        let store = self.context.store_to_read()?;
        let enablement = sources.enablement(store.as_ref())?;
        let index = self.list.index(&catalog, &sources, store.as_ref(), &enablement)?;
        Ok((index, catalog.sources().iter().filter_map(fault_of).collect()))
    }

    /// The places that count whatever the sources are: the configuration, the store, and what makes a
    /// directory a project.
    fn unconditional(&self) -> Places {
        let mut places = Places::default();
        if let Ok(project) = self.context.project() {
            for file in config_files::paths(self.context.config(), &project) {
                places.way_to(&file);
            }
        }
        if let Ok(root) = self.context.root() {
            places.way_to(&root.join(JOURNAL));
        }
        let here = env::current_dir().ok().and_then(|here| Utf8PathBuf::from_path_buf(here).ok());
        for directory in here.iter().flat_map(|here| here.ancestors()) {
            places.entry(&directory.join(".git"));
        }
        places
    }

    /// Prints what is another than at the last line, and what went wrong.
    fn report(&mut self, looked: Result<(Index, Vec<String>), Failure>) -> Result<(), Failure> {
        let (index, faults) = match looked {
            Ok(looked) => looked,
            Err(failure) => {
                let telling = Some((failure.code.clone(), failure.message.clone()));
                if self.told != telling {
                    self.context.output().trouble(&failure);
                    self.told = telling;
                }
                return Ok(());
            }
        };
        self.told = None;
        let digest = Digest::of(&to_canonical_bytes(&index));
        if self.shown.digest == Some(digest) {
            return Ok(());
        }
        let shown = Shown { digest: Some(digest), skills: digests(&index.skills), faults };
        let before = mem::replace(&mut self.shown, shown);
        let new = self.shown.faults.iter().filter(|fault| !before.faults.contains(fault));
        new.for_each(|fault| self.context.output().warning(fault));
        let (then, now) = (&before.skills, &self.shown.skills);
        self.context.output().json(&Changed {
            schema: SCHEMA,
            digest,
            skills: index.skills.len(),
            left_out: index.left_out.len(),
            added: now.keys().filter(|id| !then.contains_key(id)).collect(),
            removed: then.keys().filter(|id| !now.contains_key(id)).collect(),
            changed: now
                .iter()
                .filter(|(id, now)| then.get(id).is_some_and(|then| then != *now))
                .map(|(id, _)| id)
                .collect(),
        })
    }

    fn tell_limit(&self, result: std::io::Result<()>) {
        if let Err(error) = result {
            let message =
                format!("the system does not tell of changes ({error}): looking every second instead");
            let failure = Failure::new("watch-limit", message);
            self.context.output().trouble(
                &failure.hint(
                    "raise `fs.inotify.max_user_watches` and `fs.inotify.max_user_instances` (`sysctl`)",
                ),
            );
        }
    }
}

fn watch_catalog(catalog: &Catalog, places: &mut Places) {
    for watched in catalog.watched() {
        match watched {
            Watched::Directory(path) => places.whole(path),
            Watched::File(path) => places.entry(&path),
            Watched::Link(path) => {
                places.entry(&path);
                places.whole(path);
            }
        }
    }
}

/// What the index says of each id; a skill of the store has a row a revision.
fn digests(skills: &[Skill]) -> BTreeMap<SkillId, Digest> {
    let mut rows: BTreeMap<&SkillId, Vec<&Skill>> = BTreeMap::new();
    skills.iter().for_each(|skill| rows.entry(&skill.id).or_default().push(skill));
    rows.into_iter().map(|(id, rows)| (id.clone(), Digest::of(&to_canonical_bytes(&rows)))).collect()
}

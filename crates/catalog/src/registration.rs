//! Packages that a caller of the library brings at run time: in memory, gone with their registration.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use cap_std::fs::Dir;

use crate::root_path::RootPath;

/// A package's directory that is registered rather than discovered.
#[derive(Debug)]
pub struct PackageDir {
    /// Its handle.
    pub dir: Dir,
    /// Its path, for messages and for its name.
    pub path: RootPath,
}

/// The registered packages, in the order of registration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Registry(Arc<Mutex<Entries>>);

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    packages: Vec<(u64, Arc<PackageDir>)>,
}

impl Registry {
    pub(crate) fn add(&self, package: PackageDir) -> Registration {
        // Whole entries are added and taken out, so a panic elsewhere leaves the list sound.
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let token = entries.next;
        entries.next += 1;
        entries.packages.push((token, Arc::new(package)));
        Registration { registry: Arc::downgrade(&self.0), token }
    }

    pub(crate) fn packages(&self) -> Vec<Arc<PackageDir>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.packages.iter().map(|(_, package)| Arc::clone(package)).collect()
    }
}

/// Keeps a package registered; dropping it takes the package out of later scans.
#[derive(Debug)]
#[must_use = "the package is taken out again when this is dropped"]
pub struct Registration {
    registry: Weak<Mutex<Entries>>,
    token: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade() {
            let mut entries = registry.lock().unwrap_or_else(PoisonError::into_inner);
            entries.packages.retain(|(token, _)| *token != self.token);
        }
    }
}

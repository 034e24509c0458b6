//! Whether what lies in the place of sources is where an agent looks for it.

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze::mount::{LaunchPlan, Mount, Provenance};

use crate::context::canonical;
use crate::exit::Failure;
use crate::sources::Sources;

/// Refuses to cover a source that has its packages laid out otherwise than a snapshot; gives what an agent
/// finds under another name, as far as it is known where a package came from.
pub(super) fn check_places(
    plan: &LaunchPlan,
    sources: &Sources,
    packages: &[Provenance],
) -> Result<Vec<String>, Failure> {
    let canonical = |path: &Utf8Path| canonical(path).ok();
    let others: Vec<Utf8PathBuf> = sources.other_layouts().filter_map(|path| canonical(&path)).collect();
    let mut renamed = Vec::new();
    for mount in &plan.mounts {
        let Mount::InPlace { root, target, .. } = mount else { continue };
        if others.contains(root) {
            let message =
                format!("what is found at `{root}` is laid out otherwise than the snapshot would be there");
            return Err(Failure::new("in-place-layout", message));
        }
        for package in packages {
            let path = package.path.as_deref().and_then(|path| canonical(Utf8Path::new(path)));
            let below = path.as_ref().and_then(|path| path.strip_prefix(root).ok());
            if let Some(below) = below.filter(|below| *below != package.id.as_str()) {
                let (found, planned) = (target.join(below), target.join(package.id.as_str()));
                renamed.push(format!("with `--in-place`, `{found}` is at `{planned}`"));
            }
        }
    }
    Ok(renamed)
}

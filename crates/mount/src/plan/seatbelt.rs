//! What a command is given under Seatbelt.

use camino::{Utf8Path, Utf8PathBuf};
use skillfreeze_manifest::EntryKind;

use super::at_host::{Enclosing, plan_at_host};
use super::{LaunchPlan, Snapshot};
use crate::host::Host;
use crate::integrity::{Integrity, Method, Sandbox};
use crate::mount::Mount;
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;
use crate::seatbelt::{Grant, Profile, Resolve, profile};

/// The plan for `--sandbox seatbelt`, the only one on macOS.
pub(super) fn plan(
    snapshot: Snapshot<'_>,
    request: &LaunchRequest,
    host: &Host,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
) -> Result<LaunchPlan, PlanError> {
    let Some(backend) = host.seatbelt.clone() else {
        return Err(PlanError::Sandbox { sandbox: Sandbox::Seatbelt });
    };
    if request.seal.is_some() || request.require == Some(Integrity::Sealed) {
        let (required, available) = (Integrity::Sealed, Integrity::ReadOnly);
        return Err(PlanError::Integrity { required, available });
    }
    plan_at_host(snapshot, request, host, kind_at, Enclosing { how: Method::Seatbelt, backend })
}

impl LaunchPlan {
    /// The profile that gives the command what is planned, once the launch's own directory is there.
    ///
    /// # Errors
    /// [`PlanError::Unresolved`] where a path leads nowhere.
    #[cfg_attr(not(any(test, target_os = "macos")), expect(dead_code, reason = "it is carried out on macOS"))]
    pub(crate) fn seatbelt_profile(
        &self,
        snapshot: &Utf8Path,
        resolve: Resolve<'_>,
    ) -> Result<Profile, PlanError> {
        let (mut reads, mut writes): (Vec<Utf8PathBuf>, Vec<Utf8PathBuf>) = Default::default();
        for mount in &self.mounts {
            match mount {
                Mount::Private { path } => writes.push(path.clone()),
                Mount::Bind(bind) if bind.writable => writes.push(bind.source.clone()),
                Mount::Bind(bind) => reads.push(bind.source.clone()),
                _ => {}
            }
        }
        // What is read-only stays so where it lies in what is not.
        let protected = &reads;
        let network = self.network;
        profile(&Grant { snapshot, reads: &reads, writes: &writes, protected, network }, resolve)
    }
}

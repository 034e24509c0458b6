//! What a command is given under Landlock: rules about the host's own paths, which only add.

use camino::Utf8Path;
use skillfreeze_manifest::EntryKind;

use super::at_host::{Enclosing, plan_at_host};
use super::{LaunchPlan, Snapshot};
use crate::backend::Backend;
use crate::bind::Bind;
use crate::host::Host;
use crate::integrity::{Integrity, Method, Sandbox};
use crate::linux::landlock::NEEDED;
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;

/// The plan for `--sandbox landlock`.
pub(super) fn plan(
    snapshot: Snapshot<'_>,
    request: &LaunchRequest,
    host: &Host,
    kind_at: &dyn Fn(&Utf8Path) -> Option<EntryKind>,
) -> Result<LaunchPlan, PlanError> {
    // To ask for this sandbox is not to ask for less.
    if request.seal.is_some() {
        return Err(PlanError::Cannot { how: Method::Landlock, what: "a sealed snapshot (`--seal`)" });
    }
    if request.require.is_none_or(|required| required > Integrity::ReadOnly) {
        return Err(PlanError::NotSealed { sandbox: Sandbox::Landlock });
    }
    match host.landlock {
        0 => return Err(PlanError::NoLandlock),
        found if found < NEEDED => return Err(PlanError::LandlockTooOld { found, needed: NEEDED }),
        _ if !crate::linux::filter::is_known_here() => {
            return Err(PlanError::Sandbox { sandbox: Sandbox::Landlock });
        }
        _ => {}
    }
    let enclosing = Enclosing { how: Method::Landlock, backend: Backend::Landlock { abi: host.landlock } };
    let plan = plan_at_host(snapshot, request, host, kind_at, enclosing)?;
    refuse_exceptions(&plan, request)?;
    Ok(plan)
}

/// Rules only add, so nothing in what may be written can be kept from it.
fn refuse_exceptions(plan: &LaunchPlan, request: &LaunchRequest) -> Result<(), PlanError> {
    let writable: Vec<&Bind> = plan.binds().filter(|bind| bind.writable).collect();
    for bind in plan.binds().filter(|bind| !bind.writable) {
        let above = writable.iter().find(|above| bind.source.starts_with(&above.source));
        let Some(above) = above.map(|above| above.source.clone()) else { continue };
        let path = bind.source.clone();
        let is_source = request
            .guards
            .iter()
            .any(|guard| guard.found.as_ref().is_some_and(|found| found.canonical == path));
        return Err(if is_source {
            PlanError::LandlockSourceExposed { path, above }
        } else {
            PlanError::LandlockReadOnly { path, above }
        });
    }
    Ok(())
}

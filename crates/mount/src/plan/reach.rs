//! What the command's user cannot reach or write, where that is not the caller, who is root.

use camino::Utf8Path;

use super::{LaunchPlan, PlanWarning};
use crate::backend::Backend;
use crate::host::{Unreachable, is_writable};
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;

/// Tells of what was lent to be written and is not the command's user's to write.
pub(super) fn warn_of_unwritable(plan: &mut LaunchPlan, request: &LaunchRequest) {
    let user = plan.user;
    let is_closed = |path: &Utf8Path| !is_writable(path, user);
    let workspace = request.workspace.iter().filter(|bind| is_closed(&bind.source));
    let workspace =
        workspace.map(|bind| PlanWarning::WorkspaceNotWritable { path: bind.source.clone(), user: user.0 });
    let others = request.binds.iter().chain(&request.extensions);
    let others = others.filter(|bind| bind.writable && is_closed(&bind.source));
    let others = others.map(|bind| PlanWarning::BindNotWritable { path: bind.source.clone(), user: user.0 });
    plan.warnings.extend(workspace.chain(others));
}

/// Where nothing is mounted, the command goes to everything by its path.
pub(super) fn check_at_host(plan: &LaunchPlan) -> Result<(), PlanError> {
    if matches!(plan.backend, Backend::Bubblewrap(_)) {
        return Ok(());
    }
    Unreachable::check(&plan.names.skills_dir, plan.user).map_err(PlanError::SnapshotUnreachable)?;
    check_binds(plan)
}

/// Looks whether the command's user reaches what it is lent.
///
/// # Errors
/// [`PlanError::BindUnreachable`], of the first that it does not reach.
pub(crate) fn check_binds(plan: &LaunchPlan) -> Result<(), PlanError> {
    let mut checked = plan.binds().map(|bind| Unreachable::check(&bind.source, plan.user));
    checked.find_map(Result::err).map_or(Ok(()), |closed| Err(PlanError::BindUnreachable(closed)))
}

//! Whom the command runs as.

use crate::host::Host;
use crate::plan_error::PlanError;
use crate::request::LaunchRequest;

/// The numeric user and group of a command that root started and that no workspace gives to somebody: `nobody`.
pub const DEFAULT_USER: (u32, u32) = (65534, 65534);

pub(super) fn choose_user(request: &LaunchRequest, host: &Host) -> Result<(u32, u32), PlanError> {
    if host.user.0 != 0 {
        return match request.user {
            Some(user) if user != host.user => Err(PlanError::UserOther { caller: host.user, user }),
            _ => Ok(host.user),
        };
    }
    // Root's group opens doors too.
    let owner = request.workspace.as_ref().map(|workspace| workspace.owner).filter(|owner| owner.0 != 0);
    let owner = owner.map(|(user, group)| (user, if group == 0 { DEFAULT_USER.1 } else { group }));
    let user = request.user.or(owner).unwrap_or(DEFAULT_USER);
    // The highest number means nobody to the system calls, and so no change.
    if [user.0, user.1].iter().any(|id| matches!(*id, 0 | u32::MAX)) {
        return Err(PlanError::UserRoot);
    }
    Ok(user)
}

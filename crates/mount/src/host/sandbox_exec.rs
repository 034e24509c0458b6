//! `sandbox-exec`, which is part of macOS.

use std::fs;

use skillfreeze_manifest::Digest;

use crate::backend::Backend;
use crate::seatbelt::SANDBOX_EXEC;

/// The one of this host; none elsewhere.
pub(super) fn find() -> Option<Backend> {
    let digest = Digest::of(&fs::read(SANDBOX_EXEC).ok()?);
    Some(Backend::Seatbelt { path: SANDBOX_EXEC.into(), digest })
}

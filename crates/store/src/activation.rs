//! Activation: which revision of an id a bare id means.

use serde::{Deserialize, Serialize};
use skillfreeze_manifest::{Digest, SkillId};

use crate::revision::{Revision, RevisionNumber};
use crate::scope::Scope;

/// The data of an `activated` line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Activated {
    /// The number that was active before, if any was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<RevisionNumber>,
    pub(crate) digest: Digest,
    pub(crate) id: SkillId,
    pub(crate) number: RevisionNumber,
    pub(crate) scope: Scope,
}

/// The active one of an id's revisions.
pub(crate) fn active(revisions: &[Revision]) -> Option<&Revision> {
    revisions.iter().find(|revision| revision.active)
}

/// What must be written so that `revision` becomes the active one; nothing when it is already.
pub(crate) fn activate(revisions: &[Revision], revision: &Revision) -> Option<Activated> {
    let before = active(revisions).map(|active| active.number);
    (before != Some(revision.number)).then(|| Activated {
        before,
        digest: revision.digest,
        id: revision.id.clone(),
        number: revision.number,
        scope: Scope::User,
    })
}

/// Makes the named revision the active one; `false` when there is none such, another one was active
/// than the line says, or it is to be active for others than the user.
pub(crate) fn apply(revisions: &mut [Revision], change: &Activated) -> bool {
    let before = active(revisions).map(|active| active.number);
    let known =
        revisions.iter().any(|revision| (revision.number, revision.digest) == (change.number, change.digest));
    if before != change.before || !known || change.scope != Scope::User {
        return false;
    }
    for revision in revisions {
        revision.active = revision.number == change.number;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revision::Origin;

    fn revision(number: u32) -> Revision {
        Revision {
            id: "demo".parse().unwrap(),
            number: number.try_into().unwrap(),
            digest: Digest::of(&number.to_be_bytes()),
            version: None,
            added_at: String::new(),
            added_by: String::new(),
            origin: Origin { path: "/".into(), source: None },
            active: false,
            files: 1,
            bytes: 1,
            archive: Digest::of(b""),
        }
    }

    #[test]
    fn one_is_active_at_a_time() {
        let mut revisions = vec![revision(1), revision(2)];
        let first = activate(&revisions, &revisions[0]).unwrap();
        assert_eq!(first.before, None);
        assert!(apply(&mut revisions, &first));
        assert_eq!(activate(&revisions, &revisions[0]), None);
        let second = activate(&revisions, &revisions[1]).unwrap();
        assert_eq!(second.before, Some(RevisionNumber::FIRST));
        assert!(apply(&mut revisions, &second));
        assert_eq!(active(&revisions).map(|active| active.number.get()), Some(2));
        // The same line again contradicts what it says of the state before.
        assert!(!apply(&mut revisions, &second));
        let back = Activated { before: Some(second.number), ..first };
        let other = Activated { digest: Digest::of(b"other"), ..back.clone() };
        assert!(!apply(&mut revisions, &other));
        let root = camino::Utf8PathBuf::from("/project").try_into().unwrap();
        let elsewhere = Activated { scope: Scope::Project(root), ..back.clone() };
        assert!(!apply(&mut revisions, &elsewhere));
        assert!(apply(&mut revisions, &back));
    }
}

//! What the store asks its caller about a package: it knows no front matter itself.

use skillfreeze_manifest::{Diagnostic, Form, Limits, PackagePath, SkillId, Version};

/// Reads what a package says of itself from its `SKILL.md`.
///
/// It is applied to the very bytes that are hashed and stored.
pub trait Describe: Sync {
    /// Describes a package.
    ///
    /// # Errors
    /// Everything for which the package must not be added.
    fn describe(&self, package: Described<'_>) -> Result<Description, Vec<Diagnostic>>;

    /// Says what is worth saying about one file: `head` is its beginning, at most 64 KiB.
    ///
    /// It is asked while the package is read, for each file once, in the order of their paths; of a
    /// package that is refused, for `SKILL.md` at most. Nothing that it says keeps the package from
    /// being added.
    fn look_at(&self, path: &PackagePath, executable: bool, head: &[u8]) -> Vec<Diagnostic> {
        let _ = (path, executable, head);
        Vec::new()
    }
}

/// What is known of a package that is to be described.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// The bytes of its `SKILL.md`, all of them.
    pub skill_md: &'a [u8],
    /// Its directory's name, of a flat package the file's without `.md`, if it has one that counts.
    pub directory: Option<&'a str>,
    /// Whether it is a directory or a single file.
    pub form: Form,
    /// The limits that it must keep; those on its front matter are the caller's to apply.
    pub limits: &'a Limits,
}

/// What a package says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Its id.
    pub id: SkillId,
    /// The version that its author wrote.
    pub version: Option<Version>,
    /// What is worth saying about it.
    pub diagnostics: Vec<Diagnostic>,
}

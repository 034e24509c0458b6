//! What a package is made of on disk.

/// Whether a package is a directory or a single file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// A directory with a `SKILL.md` and what is beside it.
    #[default]
    Directory,
    /// A *flat* package: one file of any name, which is the `SKILL.md` and all there is.
    ///
    /// What is said about it calls the file `SKILL.md` too, for that is its path in the package.
    File,
}

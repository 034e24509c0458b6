//! How much one package may hold.
//!
//! Public packages seen so far have at most 130 files or 5.6 MB, so the limits are far from honest
//! use. The user may change them; a project's configuration may not.

/// Limits on one package. All are inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files in a package.
    pub files: u64,
    /// Bytes of all files of a package together, as read.
    pub package_bytes: u64,
    /// Bytes of one file, as read.
    pub file_bytes: u64,
    /// Components of a package path.
    pub depth: usize,
    /// Bytes of `SKILL.md`.
    pub skill_bytes: u64,
    /// Bytes of the front matter block.
    pub front_matter_bytes: u64,
    /// Files above which a package draws a warning.
    pub warn_files: u64,
    /// Bytes above which a package draws a warning.
    pub warn_bytes: u64,
}

impl Limits {
    /// The limits without any configuration.
    pub const DEFAULT: Self = Self {
        files: 4096,
        package_bytes: 256 << 20,
        file_bytes: 64 << 20,
        depth: 32,
        skill_bytes: 1 << 20,
        front_matter_bytes: 64 << 10,
        // What every host of the MCP Skills extension (SEP-2640) must accept ends here.
        warn_files: 512,
        warn_bytes: 16 << 20,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

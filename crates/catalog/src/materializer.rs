//! Materializers: trusted code that fills a source's root before it is scanned.

use std::fmt;
use std::io;

use cap_std::fs::Dir;

/// Fills the root of one configured source, from a database or a registry say, before each scan.
///
/// It is trusted code of the caller: it gets the handle of that one root and no other.
pub trait Materializer: fmt::Debug + Send + Sync {
    /// The id of the source that it fills.
    fn source(&self) -> &str;

    /// Makes the root hold what the source is to have now.
    ///
    /// # Errors
    /// Whatever kept it from that; the source then counts as failed, and what it holds is not used.
    fn fill(&self, root: &Dir) -> io::Result<()>;
}

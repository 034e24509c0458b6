//! How far a long job has come, told to whoever shows it.

/// Is told of the parts of a job as they are done; called from any thread.
pub trait Progress: Sync {
    /// A phase of `total` parts begins.
    fn begin(&self, phase: &str, total: usize);
    /// One more part of the phase is done.
    fn advance(&self);
}

/// Shows nothing.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _phase: &str, _total: usize) {}
    fn advance(&self) {}
}

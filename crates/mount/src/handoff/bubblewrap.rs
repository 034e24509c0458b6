//! A plan in the words of bubblewrap.

use super::{Handoff, HandoffMount};

impl Handoff {
    /// Options to be put after the caller's own, so that nothing of those covers the snapshot.
    ///
    /// The lock is bubblewrap's to hold, so `--as-pid-1` is not among the caller's: bubblewrap refuses the
    /// two together. Where the caller's root is the host's, read-only, nothing can be mounted at a path that
    /// is not there: then the plan is made [`at_host`](Self::at_host).
    #[must_use]
    pub fn bubblewrap_words(&self) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut push = |added: &[&str]| words.extend(added.iter().map(|word| (*word).to_owned()));
        for mount in &self.mounts {
            match mount {
                HandoffMount::Bind { source, target, read_only } => {
                    let option = if *read_only { "--ro-bind" } else { "--bind" };
                    push(&[option, source.as_str(), target.as_str()]);
                }
                HandoffMount::Tmpfs { target, bytes } => {
                    push(&["--size", &bytes.to_string(), "--tmpfs", target.as_str()]);
                }
            }
        }
        push(&["--lock-file", self.lease.target.as_str()]);
        for (name, value) in &self.environment {
            push(&["--setenv", name, value]);
        }
        // Started by root, bubblewrap would leave the command the power to make the snapshot writable.
        push(&["--cap-drop", "ALL"]);
        words
    }
}

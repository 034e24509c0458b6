//! At which numbers the processes of a launch find their descriptors.

use std::ops::RangeFrom;
use std::os::fd::RawFd;

/// The numbers of the descriptors that a launch hands down.
///
/// They lie above all that the caller wants kept, so that those stay at their own numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    base: RawFd,
}

impl Numbers {
    /// Above what shells use by hand, and low enough for a tight limit of descriptors.
    const LOWEST: RawFd = 10;

    /// Chooses numbers that clash with none of `keep`.
    pub(crate) fn above(keep: &[RawFd]) -> Self {
        let highest = keep.iter().copied().max().unwrap_or(0);
        Self { base: Self::LOWEST.max(highest.saturating_add(1)) }
    }

    /// Reads them from the argument that [`to_argument`](Self::to_argument) made.
    pub(crate) fn from_argument(argument: &std::ffi::OsStr) -> Option<Self> {
        argument.to_str()?.parse().ok().map(|base| Self { base })
    }

    /// The argument that tells the next process the numbers.
    pub(crate) fn to_argument(self) -> String {
        self.base.to_string()
    }

    /// All that a supervisor gets, one after another.
    pub(crate) fn supervisors(self) -> RangeFrom<RawFd> {
        self.base..
    }

    /// The helper's plan.
    pub(crate) fn helper_plan(self) -> RawFd {
        self.base
    }

    /// bubblewrap's options.
    pub(crate) fn arguments(self) -> RawFd {
        self.base + 1
    }

    /// This program, to be started inside whatever the sandbox's root holds.
    pub(crate) fn program(self) -> RawFd {
        self.base + 2
    }

    /// The inner process's plan.
    pub(crate) fn inner_plan(self) -> RawFd {
        self.base + 3
    }

    /// The reading end of the pipe with signals for the command.
    pub(crate) fn control(self) -> RawFd {
        self.base + 4
    }

    /// The writing end of the pipe with reports.
    pub(crate) fn report(self) -> RawFd {
        self.base + 5
    }

    /// The command's standard error; bubblewrap's own is a memory file.
    pub(crate) fn stderr(self) -> RawFd {
        self.base + 6
    }

    /// The handle of the snapshot.
    pub(crate) fn snapshot(self) -> RawFd {
        self.base + 7
    }

    /// The inotify instance that tells what of the snapshot is opened.
    pub(crate) fn notices(self) -> RawFd {
        self.base + 8
    }

    /// The first of the binds, which follow each other.
    pub(crate) fn first_bind(self) -> RawFd {
        self.base + 9
    }

    /// All that bubblewrap needs, with `binds` of them binds.
    pub(crate) fn all(self, binds: usize) -> impl Iterator<Item = RawFd> {
        let end = self.first_bind().saturating_add(RawFd::try_from(binds).unwrap_or(0));
        self.base + 1..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_clear_of_what_is_kept() {
        assert_eq!(Numbers::above(&[]).helper_plan(), 10);
        let numbers = Numbers::above(&[3, 200]);
        assert_eq!(numbers.helper_plan(), 201);
        let again = Numbers::from_argument(numbers.to_argument().as_ref()).unwrap();
        assert_eq!(again.all(2).collect::<Vec<_>>(), (202..212).collect::<Vec<_>>());
        assert!(Numbers::from_argument("x".as_ref()).is_none());
    }
}

//! What kept a process of a launch from doing its part, until `main` is told.

use std::io;

use crate::linux::protocol::Report;

/// What kept a process from doing its part.
pub(crate) enum Failed {
    /// The system refused something.
    Doing {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Something else, as it is to be told.
    Told(Report),
}

impl Failed {
    /// What `main` is told.
    pub(crate) fn report(self) -> Report {
        match self {
            Self::Doing { doing, source } => {
                Report::HelperFailed { doing: doing.to_owned(), message: source.to_string() }
            }
            Self::Told(report) => report,
        }
    }
}

/// Says what was being done when the system refused something.
pub(crate) fn during<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> Failed {
    move |source| Failed::Doing { doing, source: source.into() }
}

/// Says that there may be another way where this one is not to be had.
pub(crate) fn unavailable(failed: Failed) -> Failed {
    match failed {
        Failed::Doing { doing, source } => {
            Failed::Told(Report::StageUnavailable { doing: doing.to_owned(), message: source.to_string() })
        }
        told => told,
    }
}

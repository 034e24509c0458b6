//! What a caller brings to a launch, and what is written down and told of it.

use std::os::fd::OwnedFd;

use skillfreeze_manifest::Progress;

use crate::exit::Ended;
use crate::launch_error::LaunchError;
use crate::record::{ErrorRecord, Outcome, RunContext, RunRecord};
use crate::record_file::RecordFile;
use crate::status::{Event, StatusWriter};

/// What a caller brings to a launch beside the plan.
#[non_exhaustive]
pub struct Session<'a> {
    /// What the record says that the launch does not know.
    pub context: RunContext,
    /// Where the record is kept.
    pub records: Vec<RecordFile>,
    /// Where status lines go.
    pub status: StatusWriter,
    /// A lock on the snapshot, held until the end so that nothing cleans it up.
    pub lease: Option<OwnedFd>,
    /// Is told how far the check after the end has come.
    pub progress: &'a dyn Progress,
}

impl<'a> Session<'a> {
    /// A session that keeps no record, tells nothing and holds no lease.
    #[must_use]
    pub fn new(context: RunContext, progress: &'a dyn Progress) -> Self {
        Self { context, records: Vec::new(), status: StatusWriter::default(), lease: None, progress }
    }
}

/// Writes down how a run ended, and tells of what failed.
pub(crate) fn end(
    mut record: RunRecord,
    result: Result<Ended, LaunchError>,
    records: &[RecordFile],
    status: &mut StatusWriter,
) -> Result<Ended, LaunchError> {
    record.ended_at = Some(now());
    record.outcome = if result.is_ok() { Outcome::Exited } else { Outcome::Failed };
    record.error = result.as_ref().err().map(describe);
    let written = write_all(records, &record);
    // A failure of the launch is what the caller must hear of, before one to write it down.
    let result = result.and_then(|ended| written.map(|()| ended));
    if let Err(error) = &result {
        let ErrorRecord { code, message } = describe(error);
        status.send(&Event::Error { code, message });
    }
    result
}

pub(crate) fn describe(error: &LaunchError) -> ErrorRecord {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    ErrorRecord { code: error.code().to_owned(), message }
}

/// The time, RFC 3339, UTC.
pub(crate) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

pub(crate) fn write_all(records: &[RecordFile], record: &RunRecord) -> Result<(), LaunchError> {
    records.iter().try_for_each(|file| file.write(record)).map_err(LaunchError::Record)
}

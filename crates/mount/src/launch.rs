//! A launch: starts the helper, follows the reports, checks again after the end, keeps the record.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use command_fds::{CommandFdExt as _, FdMapping};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use skillfreeze_manifest::{EntryKind, Progress, Stamp};

use crate::bind::{Bind, overlaps};
use crate::bubblewrap::{SnapshotSource, Sources, arguments, explain};
use crate::exit::Exit;
use crate::guard::Guard;
use crate::host::{Host, kind_at};
use crate::integrity::{Integrity, Method, Seal};
use crate::launch_error::LaunchError;
use crate::memory_files::MemoryFiles;
use crate::plan::{LaunchPlan, PlanError};
use crate::protocol::{HELPER, HelperPlan, Identity, InnerPlan, Numbers, Report, SealPlan, memory_file};
use crate::record::{CheckRecord, ErrorRecord, InsideRecord, Outcome, RecordFile, RunContext, RunRecord};
use crate::request::LaunchRequest;
use crate::signals::SignalRelay;
use crate::stage::Size;
use crate::status::{Event, StatusWriter};
use crate::verify::{Verified, trusted_owners};

/// Directories over which the helper mounts the snapshot, in its own mount namespace; the first that no
/// bind comes from.
const STAGES: [&str; 5] = ["/mnt", "/media", "/srv", "/opt", "/home"];
/// Descriptors that a launch needs beside those that it hands down.
const SPARE_DESCRIPTORS: u64 = 32;
/// The most arguments that bubblewrap takes.
const MAX_ARGUMENTS: usize = 9000;
/// The most of bubblewrap's messages that is kept.
const MAX_MESSAGE_BYTES: u64 = 16 << 10;

/// A checked snapshot and a plan for it, ready to start.
#[derive(Debug)]
pub struct Launch {
    verified: Verified,
    plan: LaunchPlan,
    required: Option<Integrity>,
    /// The way to seal that the caller asked for: no other will do then.
    seal: Option<Seal>,
    guards: Vec<Guard>,
    kernel: String,
}

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
    /// The time, RFC 3339, UTC.
    pub clock: fn() -> String,
    /// Is told how far the check after the end has come.
    pub progress: &'a dyn Progress,
}

impl<'a> Session<'a> {
    /// A session that keeps no record, tells nothing and holds no lease.
    #[must_use]
    pub fn new(context: RunContext, clock: fn() -> String, progress: &'a dyn Progress) -> Self {
        Self { context, records: Vec::new(), status: StatusWriter::default(), lease: None, clock, progress }
    }
}

/// A launch that went well.
#[derive(Debug)]
#[non_exhaustive]
pub struct Ended {
    /// How the command ended.
    pub exit: Exit,
    /// Whether the packages' own programs could not be started from their directory.
    pub noexec: bool,
}

impl Launch {
    /// Plans a launch of a checked snapshot.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(verified: Verified, request: LaunchRequest, host: &Host) -> Result<Self, PlanError> {
        let request = request.guarded();
        let plan = LaunchPlan::new(&verified, &request, host)?;
        let LaunchRequest { require: required, seal, mut guards, .. } = request;
        // What the command cannot reach, it cannot have changed.
        guards.retain(|guard| plan.binds().any(|bind| guard.is_exposed_by(bind)));
        Ok(Self { verified, plan, required, seal, guards, kernel: host.kernel.clone() })
    }

    /// What the sandbox is given.
    #[must_use]
    pub fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// Starts the command, waits for its end and checks everything again.
    ///
    /// Call it from the thread that lives as long as the launch: when the thread that started the
    /// sandbox ends, the kernel ends the sandbox. While it runs, the signals HUP, INT, QUIT, TERM,
    /// USR1 and USR2 go to the command. The calling program must call [`init`](crate::init) first
    /// of all.
    ///
    /// # Errors
    /// [`LaunchError`]; also when the command itself ended well but something did not match
    /// afterwards.
    pub fn run(mut self, session: Session<'_>) -> Result<Ended, LaunchError> {
        let Session { context, records, mut status, lease, clock, progress } = session;
        status.send(&self.planned(&context.id));
        let mut record = RunRecord::started(
            context,
            &self.verified,
            &self.plan,
            self.required,
            self.kernel.clone(),
            clock(),
        );
        status.send(&Event::Verified(record.checks.before.clone()));
        let mut has_started = false;
        let result = write_all(&records, &record)
            .and_then(|()| self.seal_and_execute(&mut record, &mut status, &mut has_started));
        // However the command ended: one that was killed has had its time to change something.
        let result =
            if has_started { self.conclude(result, &mut record, &mut status, progress) } else { result };
        record.ended_at = Some(clock());
        record.outcome = if result.is_ok() { Outcome::Exited } else { Outcome::Failed };
        record.error = result.as_ref().err().map(describe);
        let written = write_all(&records, &record);
        // A failure of the launch is what the caller must hear of, before one to write it down.
        let result = result.and_then(|ended| written.map(|()| ended));
        if let Err(error) = &result {
            let ErrorRecord { code, message } = describe(error);
            status.send(&Event::Error { code, message });
        }
        drop(lease);
        result
    }

    /// Seals and starts the sandbox; in memory files where the helper may mount no stage and the caller
    /// did not ask for one.
    fn seal_and_execute(
        &mut self,
        record: &mut RunRecord,
        status: &mut StatusWriter,
        has_started: &mut bool,
    ) -> Result<Ended, LaunchError> {
        if self.plan.how != Method::SealedMemfd {
            match self.execute(None, record, status, has_started) {
                Err(LaunchError::StageUnavailable { .. }) if self.seal.is_none() => {}
                done => return done,
            }
            self.plan.how = Method::SealedMemfd;
            record.launch.how = self.plan.how;
            status.send(&self.planned(&record.id));
        }
        let fail = |source| LaunchError::Start { doing: "making memory files", source };
        let (check, files) =
            MemoryFiles::fill(&self.verified, self.plan.snapshot, &trusted_owners()).map_err(fail)?;
        if !check.is_clean() {
            return Err(LaunchError::Unsealed { faults: check.faults });
        }
        status.send(&Event::Sealed { files: check.files, bytes: check.bytes });
        self.execute(Some(&files), record, status, has_started)
    }

    fn planned(&self, run: &str) -> Event {
        let LaunchPlan { snapshot, integrity, how, .. } = self.plan;
        Event::Planned { run: run.to_owned(), snapshot, integrity, how }
    }

    /// Starts the sandbox and follows it to its end.
    fn execute(
        &self,
        files: Option<&MemoryFiles>,
        record: &mut RunRecord,
        status: &mut StatusWriter,
        has_started: &mut bool,
    ) -> Result<Ended, LaunchError> {
        let mut running = self.start(files)?;
        let relay = SignalRelay::new(&running.control)
            .map_err(|source| LaunchError::Start { doing: "relaying signals", source })?;
        let mut last = None;
        let mut noexec = false;
        while let Some(report) = running.next_report() {
            match &report {
                Report::Checked { skills, probes, noexec: found } => {
                    noexec = *found;
                    record.checks.inside = Some(InsideRecord { skills: *skills, probes: *probes, noexec });
                }
                Report::Sealed { files, bytes } => {
                    status.send(&Event::Sealed { files: *files, bytes: *bytes })
                }
                Report::Started => {
                    *has_started = true;
                    status.send(&Event::Started);
                }
                _ => {}
            }
            last = Some(report);
        }
        // The pipe has closed, so nothing inside is alive; only bubblewrap is left to be reaped.
        let waited = running.child.wait();
        drop(relay);
        waited.map_err(|source| LaunchError::Start { doing: "waiting for bubblewrap", source })?;
        match last {
            Some(Report::Exited { status }) => Ok(Ended { exit: Exit::Status(status), noexec }),
            Some(Report::Killed { signal }) => Ok(Ended { exit: Exit::Signal(signal), noexec }),
            Some(Report::HelperFailed { doing, message }) => Err(LaunchError::Helper { doing, message }),
            Some(Report::StageUnavailable { doing, message }) => {
                Err(LaunchError::StageUnavailable { doing, message })
            }
            Some(Report::SealFailed { faults }) => Err(LaunchError::Unsealed { faults }),
            Some(Report::CheckFailed { check, detail }) => Err(LaunchError::SelfCheck { check, detail }),
            Some(Report::NotStarted { errno }) => {
                let program = self.plan.command.first().map(|program| program.to_string_lossy().into_owned());
                let source = io::Error::from_raw_os_error(errno);
                Err(LaunchError::NotStarted { program: program.unwrap_or_default(), source })
            }
            Some(Report::Started | Report::Checked { .. }) => Err(LaunchError::Lost),
            Some(Report::Sealed { .. }) | None => Err(running.refusal()),
        }
    }

    /// Checks again after the end: every byte, and the places that skills come from.
    fn conclude(
        &self,
        result: Result<Ended, LaunchError>,
        record: &mut RunRecord,
        status: &mut StatusWriter,
        progress: &dyn Progress,
    ) -> Result<Ended, LaunchError> {
        let exit = result.as_ref().ok().map(|ended| ended.exit);
        record.exit = exit;
        if let Some(exit) = exit {
            status.send(&Event::Exited(exit));
        }
        let mut faults = Vec::new();
        // What was sealed cannot have changed, and is gone.
        if self.plan.integrity < Integrity::Sealed {
            let after = self.verified.check_again(progress);
            record.checks.after = Some(CheckRecord::from(&after));
            status.send(&Event::ReVerified(CheckRecord::from(&after)));
            faults = after.faults;
        }
        let appeared = self.guards.iter().filter(|guard| guard.has_changed()).map(|guard| guard.path.clone());
        let appeared: Vec<Utf8PathBuf> = appeared.collect();
        if !faults.is_empty() {
            return Err(LaunchError::Changed { faults, appeared, exit });
        }
        if !appeared.is_empty() {
            return Err(LaunchError::SourceAppeared { paths: appeared, exit });
        }
        result
    }

    /// Starts the helper with all that it and those after it need.
    fn start(&self, files: Option<&MemoryFiles>) -> Result<Running, LaunchError> {
        let fail = |doing| move |source| LaunchError::Start { doing, source };
        let plan = &self.plan;
        refuse_directories()?;
        let numbers = Numbers::above(&plan.keep);
        let binds: Vec<&Bind> = plan.binds().collect();
        let identity = plan.drops_privileges.then_some(Identity { user: plan.user.0, group: plan.user.1 });
        let seal = (plan.how == Method::StagedTmpfs).then(|| self.seal_plan());
        let is_staged = files.is_none() && (identity.is_some() || seal.is_some());
        let stage = is_staged.then(|| stage_of(&binds)).transpose();
        let stage = stage.map_err(fail("choosing where to mount the snapshot"))?;
        let first_file = numbers.first_bind() + RawFd::try_from(binds.len()).unwrap_or(RawFd::MAX / 2);
        let snapshot = match (files, &stage) {
            (Some(files), _) => SnapshotSource::Memory(files, first_file),
            (None, Some(stage)) => SnapshotSource::Staged(stage),
            (None, None) => SnapshotSource::Handle(numbers.snapshot()),
        };
        let sources = Sources { snapshot, first_bind: numbers.first_bind() };
        let arguments = arguments(plan, &sources);
        if arguments.len() > MAX_ARGUMENTS {
            let (actual, limit) = (arguments.len(), MAX_ARGUMENTS);
            return Err(LaunchError::TooManyFiles { actual, limit });
        }
        let arguments = join_nul(&arguments);
        let lent = binds.len() + files.map_or(0, MemoryFiles::len);
        let descriptors = room_for(numbers, lent).map_err(fail("making room for descriptors"))?;
        let inner = self.inner_plan(descriptors).map_err(fail("examining the snapshot"))?;
        let helper = HelperPlan {
            bubblewrap: plan.backend.path.clone(),
            binds: lent,
            keep: plan.keep.clone(),
            stage: stage.map(Utf8Path::to_owned),
            seal,
            identity,
        };
        let json = |value: Result<Vec<u8>, serde_json::Error>| value.map_err(io::Error::from);
        let memory = |name, bytes: io::Result<Vec<u8>>| bytes.and_then(|bytes| memory_file(name, &bytes));

        let (control_read, control) =
            pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(fail("making a pipe"))?;
        let (reports, report_write) =
            pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from).map_err(fail("making a pipe"))?;
        let messages = memory_file("bubblewrap-messages", b"").map_err(fail("making a memory file"))?;
        let mut handed: Vec<(i32, io::Result<OwnedFd>)> = vec![
            (
                numbers.helper_plan(),
                memory("helper-plan", json(serde_json::to_vec(&helper))).map(OwnedFd::from),
            ),
            (numbers.arguments(), memory("bubblewrap-arguments", Ok(arguments)).map(OwnedFd::from)),
            (numbers.inner_plan(), memory("inner-plan", json(serde_json::to_vec(&inner))).map(OwnedFd::from)),
            (numbers.program(), open_own_program()),
            (numbers.control(), Ok(control_read)),
            (numbers.report(), Ok(report_write)),
            (numbers.stderr(), io::stderr().as_fd().try_clone_to_owned()),
            (numbers.snapshot(), self.verified.as_fd().try_clone_to_owned()),
        ];
        let binds = binds.iter().map(|bind| open_bind(bind));
        let files = files.into_iter().flat_map(MemoryFiles::descriptors);
        handed.extend((numbers.first_bind()..).zip(binds.chain(files)));
        let mappings = handed
            .into_iter()
            .map(|(child_fd, parent_fd)| parent_fd.map(|parent_fd| FdMapping { parent_fd, child_fd }))
            .collect::<io::Result<Vec<_>>>()
            .map_err(fail("opening what is to be mounted"))?;

        let mut command = Command::new("/proc/self/exe");
        command.arg(HELPER).arg(numbers.to_argument()).env_clear();
        let stderr = messages.try_clone().map_err(fail("making a memory file"))?;
        command.stderr(Stdio::from(stderr));
        // A signal to this process's whole group, as one typed at a terminal is, must not reach
        // bubblewrap: that would end the sandbox before the command could answer the relayed one.
        command.process_group(0);
        command
            .fd_mappings(mappings)
            .map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))
            .map_err(fail("numbering descriptors"))?;
        let child = command.spawn().map_err(fail("starting the helper"))?;
        // This process's own ends of what it handed down must close, or the pipes never end.
        drop(command);
        Ok(Running {
            child,
            reports: BufReader::new(File::from(reports)),
            control: File::from(control),
            messages,
        })
    }

    /// What the helper seals.
    fn seal_plan(&self) -> SealPlan {
        let Size { bytes, inodes } = Size::of(self.verified.manifest());
        SealPlan { digest: self.plan.snapshot, bytes, inodes }
    }

    fn inner_plan(&self, descriptors: Option<u64>) -> io::Result<InnerPlan> {
        let plan = &self.plan;
        let Stamp { device, inode, .. } = Stamp::of(&self.verified)?;
        Ok(InnerPlan {
            command: plan.command.clone(),
            environment: plan.environment.clone().into_iter().collect(),
            keep: plan.keep.clone(),
            descriptors,
            user: plan.user,
            skills_dir: plan.names.skills_dir.clone(),
            identity: (plan.how != Method::SealedMemfd).then_some((device, inode)),
            manifest: plan.snapshot,
            skills: plan.skills.clone(),
        })
    }
}

/// The directory over which the helper mounts the snapshot.
fn stage_of(binds: &[&Bind]) -> io::Result<&'static Utf8Path> {
    let is_free = |stage: &Utf8Path| {
        kind_at(stage) == Some(EntryKind::Directory)
            && !binds.iter().any(|bind| overlaps(&bind.source, stage))
    };
    let stage = STAGES.iter().map(Utf8Path::new).find(|stage| is_free(stage));
    stage.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("none of {STAGES:?} is free")))
}

fn describe(error: &LaunchError) -> ErrorRecord {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    ErrorRecord { code: error.code().to_owned(), message }
}

fn write_all(records: &[RecordFile], record: &RunRecord) -> Result<(), LaunchError> {
    records.iter().try_for_each(|file| file.write(record)).map_err(LaunchError::Record)
}

/// bubblewrap's `--args` takes options each ended by a NUL.
fn join_nul(arguments: &[std::ffi::OsString]) -> Vec<u8> {
    arguments.iter().flat_map(|argument| argument.as_encoded_bytes().iter().copied().chain([0])).collect()
}

/// A directory as a standard stream would be a way into the host for whoever gets it.
fn refuse_directories() -> Result<(), LaunchError> {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    for (name, stream) in [
        ("standard input", stdin.as_fd()),
        ("standard output", stdout.as_fd()),
        ("standard error", stderr.as_fd()),
    ] {
        if Stamp::of(stream).is_ok_and(|stamp| stamp.kind == EntryKind::Directory) {
            return Err(LaunchError::Directory { name });
        }
    }
    Ok(())
}

/// Sees to it that this process may open as many descriptors as are handed down, and says how many
/// it might open before.
fn room_for(numbers: Numbers, binds: usize) -> io::Result<Option<u64>> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let last = u64::try_from(numbers.first_bind()).unwrap_or(0) + binds as u64;
    // Each is open here and at its number at once, beside what the caller has open anyway.
    let needed = last + binds as u64 + SPARE_DESCRIPTORS;
    if current.is_some_and(|current| current < needed) {
        if maximum.is_some_and(|maximum| maximum < needed) {
            return Err(rustix::io::Errno::MFILE.into());
        }
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })?;
    }
    Ok(current)
}

fn open_own_program() -> io::Result<OwnedFd> {
    Ok(openat(CWD, "/proc/self/exe", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens what a bind names, which was canonical when it was planned: through no link now.
fn open_bind(bind: &Bind) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = bind.source.as_std_path();
    let opened = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
    let expected = if bind.is_directory { EntryKind::Directory } else { EntryKind::File };
    if Stamp::of(&opened)?.kind == expected {
        Ok(opened)
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is no longer what it was", bind.source),
        ))
    }
}

/// A started sandbox.
struct Running {
    child: Child,
    reports: BufReader<File>,
    control: File,
    messages: File,
}

impl Running {
    /// Waits for the next report; there is none once everything inside has ended.
    fn next_report(&mut self) -> Option<Report> {
        let mut line = String::new();
        match self.reports.read_line(&mut line) {
            Ok(read) if read > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }

    /// What bubblewrap said when it ended without starting anything.
    fn refusal(&mut self) -> LaunchError {
        let mut message = Vec::new();
        let read = self
            .messages
            .rewind()
            .and_then(|()| (&self.messages).take(MAX_MESSAGE_BYTES).read_to_end(&mut message));
        let message = String::from_utf8_lossy(&message).trim().to_owned();
        match explain(&message) {
            Some(refusal) if read.is_ok() => LaunchError::Refused { refusal, message },
            _ => LaunchError::Bubblewrap { message },
        }
    }
}

//! A command of the caller's own, with its own sandbox or none, that finds a sealed snapshot at its path.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command};

use camino::Utf8PathBuf;
use command_fds::{CommandFdExt as _, FdMapping};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::exit::Ended;
use crate::exit::Exit;
use crate::host;
use crate::integrity::{Integrity, Method, Scope};
use crate::launch_error::LaunchError;
use crate::linux::daemon::daemon_of;
use crate::linux::descriptors::open_hashed;
use crate::linux::namespaces::map_all_of;
use crate::linux::protocol::{Report, SEALER, SealPlan, SealerPlan, memory_file};
use crate::linux::sealer::SOCKETS_VARIABLE;
use crate::linux::stage::Size;
use crate::names::Names;
use crate::plan::{INTEGRITY_VARIABLE, check_memory, check_variables};
use crate::plan_error::PlanError;
use crate::record::{LaunchRecord, RunRecord, argv_digest, names};
use crate::session::{Session, end, now, write_all};
use crate::signals::{ENDING, SignalRelay};
use crate::status::{Event, StatusWriter};
use crate::verify::Verified;

/// What a caller asks for whose command brings its own sandbox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SealRequest {
    /// The program and its arguments; at least the program. It is looked for in the `PATH` of the
    /// environment, and gets its arguments as they are.
    pub command: Vec<OsString>,
    /// The whole environment, to which two variables are added.
    pub environment: Vec<(OsString, OsString)>,
    /// Where the command starts: the caller's own working directory.
    pub working_directory: PathBuf,
    /// The variable that names the snapshot's directory, `SKILLS_DIR`.
    pub skills_variable: String,
    /// Whether a command is started that is known to hand paths to a daemon.
    pub force: bool,
}

impl SealRequest {
    /// Asks for a command with an empty environment.
    #[must_use]
    pub fn new(command: Vec<OsString>, working_directory: PathBuf) -> Self {
        let skills_variable = "SKILLS_DIR".to_owned();
        Self { command, environment: Vec::new(), working_directory, skills_variable, force: false }
    }

    fn variable(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().find(|(variable, _)| variable == name).map(|(_, value)| value)
    }
}

/// A checked snapshot and a command that is to find it sealed at the path where it was checked.
#[derive(Debug)]
pub struct SealedCommand {
    verified: Verified,
    request: SealRequest,
}

impl SealedCommand {
    /// How every such command is sealed: there is no other way.
    const HOW: Method = Method::StagedTmpfs;

    /// Looks whether this can be done. The path of the checked snapshot must be canonical: the command
    /// finds it there.
    ///
    /// # Errors
    /// [`PlanError`], a command that would hand paths to a daemon among them.
    pub fn new(verified: Verified, mut request: SealRequest) -> Result<Self, PlanError> {
        if request.command.is_empty() {
            return Err(PlanError::NoCommand);
        }
        check_variables(&Names { skills_variable: request.skills_variable.clone(), ..Names::default() })?;
        if !request.force {
            let path = request.variable("PATH").cloned().unwrap_or_default();
            let canonical = |program: &OsStr| host::canonical_program(program, &path);
            let is_set = |name: &str| request.variable(name).is_some();
            let daemon = daemon_of(&request.command, &is_set, &canonical);
            if let Some(program) = daemon {
                return Err(PlanError::Daemon { program });
            }
        }
        check_memory(Self::HOW, Size::of(verified.manifest()).memory(), host::available_memory())?;
        let own = [
            (OsString::from(&request.skills_variable), OsString::from(verified.path().as_str())),
            (INTEGRITY_VARIABLE.into(), Integrity::Sealed.as_str().into()),
        ];
        request.environment.retain(|(name, _)| own.iter().all(|(own, _)| own != name));
        request.environment.extend(own);
        Ok(Self { verified, request })
    }

    /// Seals, becomes the parent of the command, and waits for its end.
    ///
    /// Call it from the thread that lives as long as the command: when the thread that started the command
    /// ends, the kernel kills the command. While it runs, the signals HUP, INT, QUIT, TERM, USR1 and USR2
    /// that a process sends go to the command; those of the terminal reach it anyway, which is in the
    /// caller's process group. One that a process sends to the whole group arrives twice. The calling
    /// program must call [`init`](crate::init) first of all.
    ///
    /// # Errors
    /// [`LaunchError`]; also when the command itself ended well but another directory was put in the place
    /// of the snapshot's meanwhile.
    pub fn run(self, session: Session<'_>) -> Result<Ended, LaunchError> {
        let Session { context, records, mut status, lease, .. } = session;
        status.send(&Event::Planned {
            run: context.id.clone(),
            snapshot: self.verified.digest(),
            integrity: Integrity::Sealed,
            how: Self::HOW,
            scope: Scope::Descendants,
            in_place: Vec::new(),
        });
        let mut record = RunRecord::started(context, &self.verified, self.launch_record(), now());
        status.send(&Event::Verified(record.checks.before.clone()));
        let result = write_all(&records, &record).and_then(|()| self.execute(&mut record, &mut status));
        let result = end(record, result, &records, &mut status);
        drop(lease);
        result
    }

    fn launch_record(&self) -> LaunchRecord {
        let directory = self.request.working_directory.to_string_lossy().into_owned();
        LaunchRecord {
            integrity: Integrity::Sealed,
            how: Self::HOW,
            required: None,
            scope: Scope::Descendants,
            backend: None,
            kernel: host::kernel(),
            skills_path: self.verified.path().to_owned(),
            mounts: None,
            network: None,
            user: crate::linux::namespaces::own_ids(),
            rootfs: None,
            terminal: false,
            environment: names(self.request.environment.iter().map(|(name, _)| name)),
            argv_digest: argv_digest(&self.request.command),
            working_directory: Utf8PathBuf::from(directory),
            live_sources_visible: None,
        }
    }

    fn execute(&self, record: &mut RunRecord, status: &mut StatusWriter) -> Result<Ended, LaunchError> {
        let mut sealer = Sealer::start(self)?;
        sealer.follow(self, status)?;
        status.send(&Event::Started);
        let exit = sealer.wait().map_err(fail("waiting for the command"))?;
        record.exit = Some(exit);
        status.send(&Event::Exited(exit));
        // A directory that is moved takes what is mounted over it along, and what is put in its place can
        // be seen.
        let path = self.verified.path();
        open_hashed(path, &self.verified).map_err(|error| self.swapped(error.to_string()))?;
        Ok(Ended { exit, how: Self::HOW, noexec: false })
    }

    fn swapped(&self, message: String) -> LaunchError {
        LaunchError::Swapped { path: self.verified.path().to_owned(), message }
    }
}

fn fail<E: Into<io::Error>>(doing: &'static str) -> impl Fn(E) -> LaunchError {
    move |source| LaunchError::Start { doing, source: source.into() }
}

/// The started sealer, and then the command that it became.
struct Sealer {
    child: Child,
    reports: BufReader<File>,
    /// Ends with this process; the sealer's answers go through it.
    control: File,
    relay: Option<SignalRelay>,
}

impl Sealer {
    fn start(sealed: &SealedCommand) -> Result<Self, LaunchError> {
        let SealedCommand { verified, request } = sealed;
        let (control_read, control) = pipe_with(PipeFlags::CLOEXEC).map_err(fail("making a pipe"))?;
        let (reports, report_write) = pipe_with(PipeFlags::CLOEXEC).map_err(fail("making a pipe"))?;
        let snapshot = verified.as_fd().try_clone_to_owned().map_err(fail("passing the snapshot on"))?;
        let own = std::process::id().to_string();
        let is_below = request.working_directory.starts_with(verified.path());
        let plan = SealerPlan {
            snapshot: snapshot.as_raw_fd(),
            control: control_read.as_raw_fd(),
            report: report_write.as_raw_fd(),
            at: verified.path().to_owned(),
            seal: SealPlan::of(verified),
            is_root: rustix::process::geteuid().is_root(),
            directory: is_below.then(|| request.working_directory.clone().into()),
            takes_sockets: request.variable(SOCKETS_VARIABLE).is_some_and(|number| *number == *own),
            command: request.command.clone(),
        };
        let plan = serde_json::to_vec(&plan).map_err(io::Error::from);
        let plan = plan.and_then(|plan| memory_file("sealer-plan", &plan));
        let plan = OwnedFd::from(plan.map_err(fail("making a memory file"))?);
        let mut command = Command::new("/proc/self/exe");
        command.arg(SEALER).arg(plan.as_raw_fd().to_string()).env_clear();
        command.envs(request.environment.iter().map(|(name, value)| (name, value)));
        // Each at its own number: there nothing that the caller has open can be in the way.
        let mappings = [plan, snapshot, control_read, report_write]
            .map(|parent_fd| FdMapping { child_fd: parent_fd.as_raw_fd(), parent_fd });
        command
            .fd_mappings(mappings.into())
            .map_err(|_| io::Error::from(io::ErrorKind::AlreadyExists))
            .map_err(fail("numbering descriptors"))?;
        let child = command.spawn().map_err(fail("starting the sealer"))?;
        // This process's own ends of what it handed down must close, or the pipes never end.
        drop(command);
        let (reports, control) = (BufReader::new(File::from(reports)), File::from(control));
        let mut sealer = Self { child, reports, control, relay: None };
        let process = pidfd_open(Pid::from_child(&sealer.child), PidfdFlags::empty());
        let relay = process.map_err(io::Error::from).and_then(SignalRelay::to_process);
        sealer.relay = Some(relay.map_err(fail("relaying signals"))?);
        Ok(sealer)
    }

    /// Follows the sealer until it has become the command.
    fn follow(&mut self, sealed: &SealedCommand, status: &mut StatusWriter) -> Result<(), LaunchError> {
        let mut last = None;
        while let Some(report) = self.next_report() {
            match &report {
                Report::Sealed { files, bytes } => {
                    status.send(&Event::Sealed { files: *files, bytes: *bytes });
                }
                Report::Unmapped => {
                    let mapped = map_all_of(Pid::from_child(&self.child));
                    let told = mapped.and_then(|()| self.control.write_all(&[0]));
                    if let Err(error) = told {
                        let doing = "mapping users".to_owned();
                        return Err(LaunchError::StageUnavailable { doing, message: error.to_string() });
                    }
                }
                _ => {}
            }
            last = Some(report);
        }
        match last {
            Some(Report::Started) => Ok(()),
            Some(Report::HelperFailed { doing, message }) => Err(LaunchError::Helper { doing, message }),
            Some(Report::StageUnavailable { doing, message }) => {
                Err(LaunchError::StageUnavailable { doing, message })
            }
            Some(Report::SealFailed { faults }) => Err(LaunchError::Unsealed { faults }),
            Some(Report::Swapped { message }) => Err(sealed.swapped(message)),
            Some(Report::NotStarted { errno }) => {
                let program = sealed.request.command.first();
                let program = program.map(|program| program.to_string_lossy().into_owned());
                let source = io::Error::from_raw_os_error(errno);
                Err(LaunchError::NotStarted { program: program.unwrap_or_default(), source })
            }
            _ => match self.wait() {
                // Before it was the command, nobody had a handler for it.
                Ok(Exit::Signal(signal)) if ENDING.contains(&signal) => {
                    Err(LaunchError::Interrupted { signal })
                }
                _ => Err(LaunchError::Lost),
            },
        }
    }

    /// Waits for the next report; there is none once the sealer is the command or has ended.
    fn next_report(&mut self) -> Option<Report> {
        let mut line = String::new();
        match self.reports.read_line(&mut line) {
            Ok(read) if read > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }

    fn wait(&mut self) -> io::Result<Exit> {
        let ended = self.child.wait()?;
        self.relay = None;
        let signal = || ended.signal().map(Exit::Signal);
        ended.code().map(Exit::Status).or_else(signal).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

impl Drop for Sealer {
    /// What failed to become the command ends here; a command that has ended does not mind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A started sandbox: the helper with everything that it and those after it need, and what they report.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use camino::Utf8Path;
use command_fds::{CommandFdExt as _, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use skillfreeze_manifest::EntryKind;

use crate::backend::Backend;
use crate::backend::Bubblewrap;
use crate::bind::{Bind, overlaps};
use crate::guard::Guarded;
use crate::host::kind_at;
use crate::integrity::Method;
use crate::launch_error::LaunchError;
use crate::linux::bubblewrap::{SnapshotSource, Sources, arguments};
use crate::linux::descriptors::{make_room, open_bind, open_own_program, refuse_directories};
use crate::linux::memory_files::MemoryFiles;
use crate::linux::opened::Opened;
use crate::linux::protocol::{
    Covered, HELPER, HelperPlan, Identity, InnerPlan, Numbers, Report, SealPlan, memory_file,
};
use crate::linux::terminal::Terminal;
use crate::linux::typing;
use crate::plan::LaunchPlan;
use crate::refusal::explain;
use crate::signals::SignalRelay;
use crate::status::Event;
use crate::verify::Verified;

/// Directories over which the helper mounts the snapshot, in its own mount namespace; the first that no
/// bind comes from.
const STAGES: [&str; 5] = ["/mnt", "/media", "/srv", "/opt", "/home"];
/// How long a launch that is to end may still take to come to its command.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// The most of bubblewrap's messages that is kept.
const MAX_MESSAGE_BYTES: u64 = 16 << 10;

/// A started sandbox.
pub(crate) struct Running {
    child: Child,
    /// Becomes readable when the helper ends, which it does with bubblewrap; none where the kernel does not
    /// tell, or has told.
    end_of_child: Option<OwnedFd>,
    reports: BufReader<File>,
    /// Passes signals on; its end is the end of everything inside.
    relay: Option<SignalRelay>,
    /// The caller's terminal, if the command has it.
    terminal: Option<Terminal>,
    messages: File,
    /// What the command opens; none where others could open it too.
    opened: Option<Opened>,
    has_started: bool,
    caller_has_ended: bool,
    /// The last signal that was to end the command; 0 before.
    ending: Arc<AtomicI32>,
    is_interrupted: bool,
}

/// What happened in a sandbox.
pub(crate) enum News {
    /// One of its processes says something.
    Report(Report),
    /// The command opened something: what the caller is told.
    Opened(Event),
}

/// Why waiting ended.
#[derive(Clone, Copy)]
enum Woken {
    /// A signal is to end the launch, which has not come to its command.
    Interrupted,
    Report,
    HelperEnded,
    CallerEnded,
    Opened,
}

impl Running {
    /// Starts the helper for a plan; the snapshot comes from `files` where there are any. `covered` are
    /// the source roots over which it is mounted too, `soft_limit` the limit of descriptors that the command
    /// gets.
    pub(crate) fn start(
        plan: &LaunchPlan,
        verified: &Verified,
        files: Option<MemoryFiles>,
        covered: Vec<Guarded>,
        soft_limit: Option<u64>,
    ) -> Result<Self, LaunchError> {
        let fail = |doing| move |source| LaunchError::Start { doing, source };
        refuse_directories()?;
        let ground = plan.terminal.then(Terminal::look).transpose()?;
        let filter = if plan.terminal { typing::filter() } else { None };
        let numbers = Numbers::above(&plan.keep);
        let binds: Vec<&Bind> = plan.binds().collect();
        let lent = binds.len() + files.as_ref().map_or(0, MemoryFiles::len);
        let last = numbers.first_bind().saturating_add(RawFd::try_from(lent).unwrap_or(RawFd::MAX / 2));
        let lent = lent + usize::from(filter.is_some());
        make_room(numbers, lent)?;
        let identity = plan.drops_privileges.then_some(Identity { user: plan.user.0, group: plan.user.1 });
        let seal = (plan.how == Method::StagedTmpfs).then(|| SealPlan::of(verified));
        let is_mounted = files.is_none() && plan.how != Method::Landlock;
        let is_staged = is_mounted && (identity.is_some() || seal.is_some());
        let stage = is_staged.then(|| stage_of(&binds, plan.how)).transpose()?;
        let first_file = numbers.first_bind() + RawFd::try_from(binds.len()).unwrap_or(RawFd::MAX / 2);
        let snapshot = match (&files, &stage) {
            (Some(files), _) => SnapshotSource::Memory(files, first_file),
            (None, Some(stage)) => SnapshotSource::Staged(stage),
            (None, None) => SnapshotSource::Handle(numbers.snapshot()),
        };
        let arguments = arguments(
            plan,
            &Sources { snapshot, first_bind: numbers.first_bind(), filter: filter.as_ref().map(|_| last) },
        );
        if arguments.len() > Bubblewrap::MAX_ARGUMENTS {
            let (actual, limit) = (arguments.len(), Bubblewrap::MAX_ARGUMENTS);
            return Err(match snapshot {
                SnapshotSource::Memory(..) => LaunchError::TooManyFiles { actual, limit },
                _ => LaunchError::TooManyMounts { actual, limit },
            });
        }
        let arguments = join_nul(&arguments);
        let bubblewrap = match &plan.backend {
            Backend::Bubblewrap(Bubblewrap { path, .. }) => Some(path.clone()),
            _ => None,
        };
        // Others may open what is the host's own.
        let opened = matches!(plan.how, Method::StagedTmpfs | Method::SealedMemfd)
            .then(|| Opened::new(verified.manifest()));
        let (watched, notices) = opened.as_ref().map(Opened::to_watch).unwrap_or_default();
        let inner =
            InnerPlan::of(plan, verified, watched, soft_limit).map_err(fail("examining the snapshot"))?;
        let inner = InnerPlan { terminal: ground, ..inner };
        let helper = HelperPlan {
            bubblewrap,
            private: plan.private(),
            binds: lent,
            watches: notices.is_some(),
            keep: plan.keep.clone(),
            stage: stage.map(Utf8Path::to_owned),
            seal,
            identity,
            covered: covered.into_iter().map(Covered::from).collect(),
            terminal: plan.terminal,
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
            (numbers.snapshot(), verified.as_fd().try_clone_to_owned()),
        ];
        handed.extend(notices.map(|notices| (numbers.notices(), notices.try_clone_to_owned())));
        let binds = binds.iter().map(|bind| open_bind(bind));
        // Once bubblewrap has them, nothing here keeps their memory.
        let files = files.into_iter().flat_map(MemoryFiles::into_descriptors).map(Ok);
        handed.extend((numbers.first_bind()..).zip(binds.chain(files)));
        handed.extend(filter.map(|bytes| (last, memory("filter", Ok(bytes)).map(OwnedFd::from))));
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
        let end_of_child = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
        let reports = BufReader::new(File::from(reports));
        let mut running = Self {
            child,
            end_of_child,
            reports,
            relay: None,
            terminal: None,
            messages,
            opened,
            has_started: false,
            caller_has_ended: false,
            ending: Arc::default(),
            is_interrupted: false,
        };
        let control = File::from(control);
        // Before there is a thread that relays signals, so that it stops nothing.
        let terminal = ground.map(|_| Terminal::lend(&control)).transpose();
        running.terminal = terminal.map_err(fail("lending the terminal"))?;
        let relay = SignalRelay::new(&control, &running.ending);
        if relay.is_err() {
            // With the last end of the pipe, the helper ends everything.
            drop(control);
            running.terminal = None;
            let _ = running.child.wait();
        }
        running.relay = Some(relay.map_err(fail("relaying signals"))?);
        Ok(running)
    }

    /// Waits for what happens next; nothing does once everything inside has ended, which it does with
    /// `caller`, a process.
    pub(crate) fn next(&mut self, caller: Option<&OwnedFd>) -> Option<News> {
        while self.reports.buffer().is_empty() {
            match self.wait_for_news(caller) {
                Woken::Report => break,
                Woken::HelperEnded => self.end_the_rest(),
                Woken::Interrupted => {
                    self.is_interrupted = true;
                    self.end_the_rest();
                }
                Woken::CallerEnded => {
                    self.caller_has_ended = true;
                    // Everybody further on ends as if this process had.
                    self.cut();
                }
                Woken::Opened => {
                    if let Some(event) = self.opened.as_mut().and_then(Opened::read) {
                        return Some(News::Opened(event));
                    }
                }
            }
        }
        let report = self.read_report()?;
        match (&report, &mut self.opened) {
            (Report::Watching { numbers }, Some(opened)) => opened.watching(numbers.clone()),
            (Report::Started, _) => {
                self.has_started = true;
                if let Some(terminal) = &self.terminal {
                    terminal.started();
                }
            }
            _ => {}
        }
        Some(News::Report(report))
    }

    fn read_report(&mut self) -> Option<Report> {
        let mut line = String::new();
        match self.reports.read_line(&mut line) {
            Ok(read) if read > 0 => serde_json::from_str(&line).ok(),
            _ => None,
        }
    }

    /// A signal has stopped the command: stops this process too, until it is continued.
    pub(crate) fn stop(&mut self, signal: i32) {
        if let Some(terminal) = &mut self.terminal
            && terminal.stop(signal).is_err()
        {
            // Nothing would ever continue the command.
            self.cut();
        }
    }

    /// Waits until there is something to read, everything has ended, or the helper has ended before what it
    /// started.
    fn wait_for_news(&self, caller: Option<&OwnedFd>) -> Woken {
        let Some(end_of_child) = &self.end_of_child else { return Woken::Report };
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        loop {
            let caller = caller.filter(|_| !self.caller_has_ended);
            // That the command runs is to be told before what it does.
            let notices = self.opened.as_ref().filter(|_| self.has_started).and_then(Opened::notices);
            let (reasons, mut waiting): (Vec<Woken>, Vec<PollFd<'_>>) = [
                Some((Woken::Report, readable(self.reports.get_ref().as_fd()))),
                Some((Woken::HelperEnded, readable(end_of_child.as_fd()))),
                caller.map(|caller| (Woken::CallerEnded, readable(caller.as_fd()))),
                notices.map(|notices| (Woken::Opened, readable(notices.as_fd()))),
            ]
            .into_iter()
            .flatten()
            .unzip();
            // Before there is somebody to relay signals to, nobody can wait for the command to answer one.
            let is_early = !self.has_started && !self.is_interrupted;
            match poll(&mut waiting, is_early.then_some(&PATIENCE)) {
                Ok(0) if is_early && self.ending.load(Ordering::SeqCst) != 0 => return Woken::Interrupted,
                Ok(_) => {
                    let ready = waiting.iter().position(|waited| !waited.revents().is_empty());
                    if let Some(ready) = ready {
                        return reasons[ready];
                    }
                }
                Err(rustix::io::Errno::INTR) => {}
                // Reading waits too.
                Err(_) => return Woken::Report,
            }
        }
    }

    /// Ends what outlived the helper or bubblewrap, if somebody killed one of them: a child of bubblewrap may
    /// be waiting for a word of its parent for ever. Before it starts this program it is still in the
    /// helper's process group, which keeps its number until the helper is waited for; afterwards the first
    /// process inside ends by itself when nobody can relay signals to it any more.
    fn end_the_rest(&mut self) {
        self.end_of_child = None;
        self.cut();
        // There may be nobody left.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Closes the pipe to the first process inside, so that everything there ends.
    fn cut(&mut self) {
        self.relay = None;
        if let Some(terminal) = &mut self.terminal {
            terminal.cut();
        }
    }

    /// Waits for the helper and so for bubblewrap, once everything inside has ended.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        let waited = self.child.wait();
        (self.relay, self.terminal) = (None, None);
        waited.map(drop)
    }

    /// The signal for which a launch was ended that had not come to its command, if there was one.
    pub(crate) fn interrupted(&self) -> Option<i32> {
        self.is_interrupted.then(|| self.ending.load(Ordering::SeqCst))
    }

    /// Whether everything was ended because the caller has.
    pub(crate) fn caller_has_ended(&self) -> bool {
        self.caller_has_ended
    }

    /// What the command opened in all, once everything inside has ended.
    pub(crate) fn opened(&mut self) -> Option<&mut Opened> {
        self.opened.as_mut().filter(|_| self.has_started)
    }

    /// What bubblewrap said when it ended without starting anything.
    pub(crate) fn refusal(&mut self) -> LaunchError {
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

/// The directory over which the helper mounts the snapshot.
fn stage_of(binds: &[&Bind], how: Method) -> Result<&'static Utf8Path, LaunchError> {
    let is_free = |stage: &Utf8Path| {
        kind_at(stage) == Some(EntryKind::Directory)
            && !binds.iter().any(|bind| overlaps(&bind.source, stage))
    };
    let doing = "choosing where to mount the snapshot";
    STAGES.iter().map(Utf8Path::new).find(|stage| is_free(stage)).ok_or_else(|| {
        let message = format!("none of {} is free", STAGES.map(|stage| format!("`{stage}`")).join(", "));
        match how {
            Method::StagedTmpfs => LaunchError::StageUnavailable { doing: doing.to_owned(), message },
            _ => LaunchError::Start { doing, source: io::Error::new(io::ErrorKind::NotFound, message) },
        }
    })
}

/// bubblewrap's `--args` takes options each ended by a NUL.
fn join_nul(arguments: &[std::ffi::OsString]) -> Vec<u8> {
    arguments.iter().flat_map(|argument| argument.as_encoded_bytes().iter().copied().chain([0])).collect()
}

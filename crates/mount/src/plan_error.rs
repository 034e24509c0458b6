//! Why there is no launch plan.

use std::io;

use camino::Utf8PathBuf;

use crate::bind::BindError;
use crate::host::Unreachable;
use crate::integrity::{Integrity, Method, Sandbox};

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No command was given.
    #[error("no command was given")]
    NoCommand,
    /// More was asked for than can be had.
    #[error("integrity `{required}` is required, and `{available}` is the most that can be had here")]
    Integrity {
        /// What was asked for.
        required: Integrity,
        /// What there is.
        available: Integrity,
    },
    /// The sandbox asked for cannot be had.
    #[error("the sandbox `{sandbox}` cannot be had here")]
    Sandbox {
        /// What was asked for.
        sandbox: Sandbox,
    },
    /// There is no filter here that keeps a command from typing into the caller's terminal.
    #[error("the command cannot have the terminal on this kind of processor")]
    Terminal,
    /// The sandbox cannot seal, and nobody said that less will do.
    #[error(
        "the sandbox `{sandbox}` gives integrity `read-only`, which is to be asked for with `--require read-only`"
    )]
    NotSealed {
        /// The sandbox.
        sandbox: Sandbox,
    },
    /// The kernel has no Landlock.
    #[error("the kernel has no Landlock, or it is not switched on")]
    NoLandlock,
    /// The kernel's Landlock cannot keep a promise.
    #[error("the kernel's Landlock has ABI {found}, and {needed} is needed to keep signals inside")]
    LandlockTooOld {
        /// What the kernel has.
        found: u32,
        /// The least that will do.
        needed: u32,
    },
    /// Without mounts a sandbox cannot give this.
    #[error("the sandbox `{how}` cannot give the command {what}")]
    Cannot {
        /// The sandbox.
        how: Method,
        /// What was asked for.
        what: &'static str,
    },
    /// Without mounts everything is where it is on the host.
    #[error("`{path}` cannot be at `{target}`: the sandbox `landlock` mounts nothing")]
    LandlockElsewhere {
        /// Where it is.
        path: Utf8PathBuf,
        /// Where it was wanted.
        target: Utf8PathBuf,
    },
    /// Skills are taken from a place that the command could write.
    #[error(
        "skills or configuration are taken from `{path}`, which the sandbox `landlock` cannot keep from being written in `{above}`"
    )]
    LandlockSourceExposed {
        /// The source root or file.
        path: Utf8PathBuf,
        /// The writable bind that it lies in.
        above: Utf8PathBuf,
    },
    /// Something read-only lies in what is writable.
    #[error("the sandbox `landlock` cannot keep `{path}` from being written in `{above}`")]
    LandlockReadOnly {
        /// The read-only bind.
        path: Utf8PathBuf,
        /// The writable bind that it lies in.
        above: Utf8PathBuf,
    },
    /// Where nothing is mounted, the command's user must reach the snapshot at its path.
    #[error(transparent)]
    SnapshotUnreachable(Unreachable),
    /// The command's user cannot reach what it is lent.
    #[error(transparent)]
    BindUnreachable(Unreachable),
    /// No name could be made up.
    #[error("no random bytes")]
    Random(#[source] io::Error),
    /// A bind is refused.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The command would run as root, or in root's group.
    #[error("the command cannot run as user 0 or in group 0, nor as the number that stands for neither")]
    UserRoot,
    /// Only root can run a command as somebody else.
    #[error("{}:{} cannot run a command as {}:{}", .caller.0, .caller.1, .user.0, .user.1)]
    UserOther {
        /// The user and group who call.
        caller: (u32, u32),
        /// Those asked for.
        user: (u32, u32),
    },
    /// The store lies in what every sandbox sees of the system.
    #[error("the store `{store}` lies in `{shown}`, which every sandbox sees")]
    StoreShown {
        /// The store's root.
        store: Utf8PathBuf,
        /// The directory of the system.
        shown: Utf8PathBuf,
    },
    /// The directory that is to be the root is, holds or lies in something that the command can write.
    #[error("the root `{path}` is, holds or lies in `{bind}`, which the command can write")]
    RootfsWritable {
        /// The root directory.
        path: Utf8PathBuf,
        /// What is bound.
        bind: Utf8PathBuf,
    },
    /// The snapshot cannot be mounted over the source roots with this way to keep it as it is.
    #[error(
        "the snapshot can be mounted in place of its sources with `staged-tmpfs` alone, not with `{how}`"
    )]
    InPlace {
        /// The way that was asked for.
        how: Method,
    },
    /// The launch's own directory would lie where the command writes anyway, or in the store.
    #[error(
        "the directory of temporaries `{path}` lies in `{within}`, which is lent to the command or is the store"
    )]
    Temporaries {
        /// The directory of temporaries.
        path: Utf8PathBuf,
        /// What it lies in.
        within: Utf8PathBuf,
    },
    /// The command is lent no source root over which the snapshot could be mounted.
    #[error(
        "there is no source of skills in what the command is lent, so nothing to mount the snapshot over"
    )]
    InPlaceNothing,
    /// What is to be bound lies in a source root over which the snapshot is mounted.
    #[error("cannot bind `{path}`: the snapshot is mounted over `{root}`")]
    InPlaceBind {
        /// What is to be bound.
        path: Utf8PathBuf,
        /// The source root.
        root: Utf8PathBuf,
    },
    /// A path of the host leads nowhere.
    #[error("`{}` leads nowhere", .path.as_str().escape_debug())]
    Unresolved {
        /// The path.
        path: Utf8PathBuf,
    },
    /// A form of a plan for another sandbox cannot carry a path.
    #[error("the form `{form}` cannot carry the path `{}`", .path.as_str().escape_debug())]
    Uncarried {
        /// The form.
        form: &'static str,
        /// The path.
        path: Utf8PathBuf,
    },
    /// A variable has a name that none can have, or one that this program sets.
    #[error("the environment variable `{}` cannot be set", .name.escape_debug())]
    Variable {
        /// Its name.
        name: String,
    },
    /// There is not enough memory to seal the snapshot.
    #[error("sealing the snapshot takes {} MiB of memory, and {} MiB are available", .needed.div_ceil(1 << 20), .available >> 20)]
    Memory {
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// The command hands paths to a daemon, which reads what is there outside.
    #[error("`{program}` hands paths to a daemon or to another machine, which would read what is not sealed")]
    Daemon {
        /// The program.
        program: String,
    },
    /// bubblewrap cannot bind an open descriptor.
    #[error("`{path}` ({version}) cannot bind an open directory (`--ro-bind-fd`)")]
    NoDescriptorBind {
        /// The program.
        path: Utf8PathBuf,
        /// What it says of itself.
        version: String,
    },
}

impl PlanError {
    /// The stable code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoCommand => "no-command",
            Self::Integrity { .. } => "integrity-unavailable",
            Self::Sandbox { .. } => "sandbox-unavailable",
            Self::Terminal => "terminal-unsupported",
            Self::NotSealed { .. } => "integrity-unavailable",
            Self::NoLandlock => "landlock-missing",
            Self::LandlockTooOld { .. } => "landlock-too-old",
            Self::Cannot { .. } => "sandbox-cannot",
            Self::LandlockElsewhere { .. } => "landlock-elsewhere",
            Self::LandlockSourceExposed { .. } => "landlock-source-exposed",
            Self::LandlockReadOnly { .. } => "landlock-read-only",
            Self::SnapshotUnreachable(_) => "snapshot-unreachable",
            Self::BindUnreachable(_) => "bind-unreachable",
            Self::Random(_) => "io",
            Self::Bind(error) => error.code(),
            Self::UserRoot => "user-root",
            Self::UserOther { .. } => "user-not-permitted",
            Self::StoreShown { .. } => "store-shown",
            Self::RootfsWritable { .. } => "rootfs-writable",
            Self::InPlace { .. } => "in-place-unavailable",
            Self::Temporaries { .. } => "temporaries-unusable",
            Self::InPlaceNothing => "in-place-nothing",
            Self::InPlaceBind { .. } => "in-place-bind",
            Self::Unresolved { .. } => "not-found",
            Self::Uncarried { .. } => "plan-path",
            Self::Variable { .. } => "environment-name",
            Self::Memory { .. } => "seal-memory",
            Self::Daemon { .. } => "seal-daemon",
            Self::NoDescriptorBind { .. } => "bwrap-too-old",
        }
    }
}

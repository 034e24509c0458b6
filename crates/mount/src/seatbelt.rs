//! Seatbelt profiles, the sandbox of macOS: pure functions from what is granted to a text.
//!
//! The kernel compares rules with the path that a name leads to in the end, so every path is resolved
//! first (`/tmp/x` is `/private/tmp/x` there), and every link on the way may be looked at. The last
//! rule that fits decides: what must never be written is denied last. Paths are handed over as
//! parameters, so that none can be read as part of the profile, and there is no pattern in it.
//!
//! Rules are about paths. A second name of a file (a hard link) that lies in what may be written is a
//! way to write it: none can be made, but one may be there, so a snapshot is hashed before the start and
//! after the end.

#[cfg(target_os = "macos")]
mod launch;

use camino::{Utf8Path, Utf8PathBuf};
use serde::{Serialize, Serializer};

use crate::network::Network;
use crate::plan_error::PlanError;

/// The program that applies a profile.
pub const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// What a command is granted of the host.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Grant<'a> {
    /// The snapshot's directory: read, never written.
    pub snapshot: &'a Utf8Path,
    /// What else is read.
    pub reads: &'a [Utf8PathBuf],
    /// What is read and written.
    pub writes: &'a [Utf8PathBuf],
    /// What is never written, though it may lie in what is.
    pub protected: &'a [Utf8PathBuf],
    /// The network.
    pub network: Network,
}

impl<'a> Grant<'a> {
    /// The snapshot and nothing else, without a network.
    #[must_use]
    pub fn new(snapshot: &'a Utf8Path) -> Self {
        Self { snapshot, reads: &[], writes: &[], protected: &[], network: Network::None }
    }
}

/// What a path of the host leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// Where it is in the end: absolute, through no link.
    pub path: Utf8PathBuf,
    /// The links that it leads through, each by its own place.
    pub links: Vec<Utf8PathBuf>,
}

/// Asks where a path leads; nothing where it leads nowhere.
pub type Resolve<'a> = &'a dyn Fn(&Utf8Path) -> Option<Resolved>;

/// A profile, or rules to be put last in another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// The text.
    pub text: String,
    /// The parameters that it names, with their paths.
    #[serde(serialize_with = "as_map")]
    pub parameters: Vec<(String, Utf8PathBuf)>,
}

fn as_map<S: Serializer>(list: &[(String, Utf8PathBuf)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(list.iter().map(|(name, path)| (name, path)))
}

/// What every command may do: be a process, and ask the system who and what it is.
const PROCESS: &str = r#"(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow mach-lookup
    (global-name "com.apple.logd")
    (global-name "com.apple.system.notification_center")
    (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow ipc-posix-sem)
"#;

/// Directories of programs and libraries, and files that programs need to find names, certificates and
/// the time. Nothing secret is among them: of what is installed by hand and by Homebrew, neither `etc`, but for
/// certificates, nor `var`, where services keep theirs.
const SYSTEM: &str = r#"(allow file-read* file-map-executable file-test-existence
    (literal "/")
    (subpath "/bin")
    (subpath "/sbin")
    (subpath "/usr/bin")
    (subpath "/usr/lib")
    (subpath "/usr/libexec")
    (subpath "/usr/sbin")
    (subpath "/usr/share")
    (subpath "/usr/local/Cellar")
    (subpath "/usr/local/Frameworks")
    (subpath "/usr/local/bin")
    (subpath "/usr/local/include")
    (subpath "/usr/local/lib")
    (subpath "/usr/local/libexec")
    (subpath "/usr/local/opt")
    (subpath "/usr/local/sbin")
    (subpath "/usr/local/share")
    (subpath "/usr/local/etc/ca-certificates")
    (literal "/usr/local/etc/openssl@3/cert.pem")
    (literal "/usr/local/etc/openssl@3/openssl.cnf")
    (subpath "/System")
    (subpath "/Library/Apple")
    (subpath "/Library/Developer/CommandLineTools")
    (subpath "/Library/Frameworks")
    (subpath "/opt/homebrew/Cellar")
    (subpath "/opt/homebrew/Frameworks")
    (subpath "/opt/homebrew/bin")
    (subpath "/opt/homebrew/include")
    (subpath "/opt/homebrew/lib")
    (subpath "/opt/homebrew/libexec")
    (subpath "/opt/homebrew/opt")
    (subpath "/opt/homebrew/sbin")
    (subpath "/opt/homebrew/share")
    (subpath "/opt/homebrew/etc/ca-certificates")
    (literal "/opt/homebrew/etc/openssl@3/cert.pem")
    (literal "/opt/homebrew/etc/openssl@3/openssl.cnf")
    (subpath "/private/etc/ssl")
    (subpath "/private/var/db/dyld")
    (subpath "/private/var/db/timezone")
    (literal "/private/etc/group")
    (literal "/private/etc/hosts")
    (literal "/private/etc/localtime")
    (literal "/private/etc/passwd")
    (literal "/private/etc/protocols")
    (literal "/private/etc/services")
    (literal "/private/etc/shells")
    (literal "/dev/random")
    (literal "/dev/urandom"))
(allow file-read* file-write-data
    (literal "/dev/null")
    (literal "/dev/zero"))
(allow file-read-metadata
    (literal "/dev")
    (literal "/etc")
    (literal "/opt")
    (literal "/opt/homebrew")
    (literal "/opt/homebrew/etc")
    (literal "/opt/homebrew/etc/openssl@3")
    (literal "/private")
    (literal "/private/etc")
    (literal "/private/tmp")
    (literal "/private/var")
    (literal "/tmp")
    (literal "/usr")
    (literal "/usr/local")
    (literal "/usr/local/etc")
    (literal "/usr/local/etc/openssl@3")
    (literal "/var"))
"#;

/// What the host's network takes beside the network itself.
const HOST_NETWORK: &str = r#"(allow network*)
(allow system-socket)
(allow file-read* (literal "/private/etc/resolv.conf"))
(allow mach-lookup
    (global-name "com.apple.SystemConfiguration.configd")
    (global-name "com.apple.trustd.agent"))
"#;

/// The profile that grants this and nothing else.
///
/// # Errors
/// [`PlanError::Unresolved`] where a path leads nowhere.
pub fn profile(grant: &Grant<'_>, resolve: Resolve<'_>) -> Result<Profile, PlanError> {
    let mut rules = Rules::new(resolve);
    rules.text.push_str(PROCESS);
    rules.text.push_str(SYSTEM);
    let network = if grant.network == Network::Host { HOST_NETWORK } else { "" };
    rules.text.push_str(network);
    let reads = rules.name("READ", grant.reads)?;
    let writes = rules.name("WRITE", grant.writes)?;
    rules.allow("file-read* file-map-executable file-test-existence", "subpath", &reads);
    rules.allow("file-read* file-write* file-map-executable file-test-existence", "subpath", &writes);
    rules.protect(grant)?;
    if grant.network == Network::None {
        rules.text.push_str("(deny network*)\n");
    }
    Ok(rules.into_profile())
}

/// The rules about the snapshot alone, to be put last in a profile of the caller's own: it is read and
/// never written, neither it nor anything above it is renamed or removed.
///
/// # Errors
/// [`PlanError::Unresolved`] where a path leads nowhere.
pub fn protection(snapshot: &Utf8Path, resolve: Resolve<'_>) -> Result<Profile, PlanError> {
    let mut rules = Rules::new(resolve);
    rules.protect(&Grant::new(snapshot))?;
    Ok(rules.into_profile())
}

/// The arguments of [`SANDBOX_EXEC`] for a profile, to be followed by the command.
#[must_use]
pub fn arguments(profile: &Profile) -> Vec<String> {
    let mut arguments = vec!["-p".to_owned(), profile.text.clone()];
    for (name, path) in &profile.parameters {
        arguments.extend(["-D".to_owned(), format!("{name}={path}")]);
    }
    arguments.push("--".to_owned());
    arguments
}

/// A profile in the making.
struct Rules<'a> {
    resolve: Resolve<'a>,
    text: String,
    parameters: Vec<(String, Utf8PathBuf)>,
    /// Links on the way to what has been named.
    links: Vec<Utf8PathBuf>,
}

impl<'a> Rules<'a> {
    fn new(resolve: Resolve<'a>) -> Self {
        Self { resolve, text: String::new(), parameters: Vec::new(), links: Vec::new() }
    }

    /// Resolves paths and makes each a parameter; gives their names.
    fn name<'b>(
        &mut self,
        kind: &str,
        paths: impl IntoIterator<Item = &'b Utf8PathBuf>,
    ) -> Result<Vec<String>, PlanError> {
        let mut names = Vec::new();
        for path in paths {
            let resolved =
                (self.resolve)(path).ok_or_else(|| PlanError::Unresolved { path: path.clone() })?;
            self.links.extend(resolved.links);
            names.push(self.parameter(kind, resolved.path));
        }
        Ok(names)
    }

    /// The name of the parameter for a resolved path: there is one for each.
    fn parameter(&mut self, kind: &str, path: Utf8PathBuf) -> String {
        let count = self.parameters.iter().filter(|(name, _)| name.starts_with(kind)).count();
        let name = format!("{kind}_{count}");
        self.parameters.push((name.clone(), path));
        name
    }

    fn allow(&mut self, operations: &str, filter: &str, names: &[String]) {
        self.rule("allow", operations, &[filter], names);
    }

    fn rule(&mut self, decision: &str, operations: &str, filters: &[&str], names: &[String]) {
        if names.is_empty() {
            // Without a filter a rule is about everything.
            return;
        }
        self.text.push_str(&format!("({decision} {operations}"));
        for name in names {
            for filter in filters {
                self.text.push_str(&format!("\n    ({filter} (param \"{name}\"))"));
            }
        }
        self.text.push_str(")\n");
    }

    /// The rules that come last: what may be looked at on the way, and what is never written.
    fn protect(&mut self, grant: &Grant<'_>) -> Result<(), PlanError> {
        let granted: Vec<Utf8PathBuf> = self.parameters.iter().map(|(_, path)| path.clone()).collect();
        let snapshot = self.name("FROZEN", [&grant.snapshot.to_owned()])?;
        let mut kept = self.name("KEPT", grant.protected)?;
        let first_kept = self.parameters.len() - kept.len() - snapshot.len();
        let protected: Vec<Utf8PathBuf> =
            self.parameters[first_kept..].iter().map(|(_, path)| path.clone()).collect();
        let above = |paths: &[Utf8PathBuf]| {
            let mut above: Vec<Utf8PathBuf> = paths
                .iter()
                .flat_map(|path| path.ancestors().skip(1))
                .filter(|above| above.as_str() != "/")
                .map(Utf8Path::to_owned)
                .collect();
            above.sort();
            above.dedup();
            above
        };
        let above_protected = above(&protected);
        let mut passed = above(&granted);
        passed.append(&mut self.links);
        passed.sort();
        passed.dedup();
        passed.retain(|path| !above_protected.contains(path));
        let passed: Vec<String> = passed.into_iter().map(|path| self.parameter("ON_THE_WAY", path)).collect();
        let above: Vec<String> =
            above_protected.into_iter().map(|path| self.parameter("ABOVE_FROZEN", path)).collect();

        self.allow("file-read* file-map-executable file-test-existence", "subpath", &snapshot);
        self.allow("file-read-metadata", "literal", &[passed, above.clone()].concat());
        kept.splice(0..0, snapshot);
        self.rule("deny", "file-write* file-link", &["literal", "subpath"], &kept);
        // Who can rename a directory above can put another in its place.
        self.rule("deny", "file-write-unlink", &["literal"], &above);
        Ok(())
    }

    fn into_profile(self) -> Profile {
        Profile { text: self.text, parameters: self.parameters }
    }
}

#[cfg(test)]
mod tests;

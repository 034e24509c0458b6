//! A plan in the words of `docker run`.

use camino::Utf8Path;

use super::{Handoff, HandoffMount, refuse_controls};
use crate::plan_error::PlanError;

/// What this form is called.
const FORM: &str = "docker";

impl Handoff {
    /// Options for `docker run`, to be put before the image. They hold no lease: the lock is the caller's to
    /// take, or the caller's to do without.
    ///
    /// # Errors
    /// [`PlanError::Uncarried`] for a path that no option can carry.
    pub fn docker_words(&self) -> Result<Vec<String>, PlanError> {
        let mut words: Vec<String> = Vec::new();
        let mut push = |added: &[&str]| words.extend(added.iter().map(|word| (*word).to_owned()));
        // Locking is done on the host, where the daemon does not do it.
        let shown = self.mounts.iter().filter(|mount| mount.target() != self.lease.target);
        for mount in shown {
            match mount {
                HandoffMount::Bind { source, target, read_only } => {
                    refuse_controls(FORM, &[source, target])?;
                    let mut fields = vec!["type=bind".to_owned()];
                    fields.push(field("source", source));
                    fields.push(field("target", target));
                    fields.extend(read_only.then(|| "readonly".to_owned()));
                    push(&["--mount", &fields.join(",")]);
                }
                HandoffMount::Tmpfs { target, bytes } => {
                    refuse_controls(FORM, &[target])?;
                    // This option alone makes programs there executable, and it ends paths at a colon.
                    if target.as_str().contains(':') {
                        return Err(PlanError::Uncarried { form: FORM, path: target.clone() });
                    }
                    // Whoever the image's user is must be able to write it.
                    let options = format!("rw,exec,nosuid,nodev,size={bytes},mode=1777");
                    push(&["--tmpfs", &format!("{target}:{options}")]);
                }
            }
        }
        for (name, value) in &self.environment {
            push(&["--env", &format!("{name}={value}")]);
        }
        push(&["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        Ok(words)
    }
}

/// One field of a mount: the fields are a record of comma-separated values, quoted as such.
fn field(key: &str, path: &Utf8Path) -> String {
    let text = format!("{key}={path}");
    if text.contains([',', '"']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

//! What a package declares that it needs: `permissions`.
//!
//! ```text
//! permissions:
//!   filesystem: none | read | write
//!   web: none | optional | required
//!   tools: [Bash, Read]          # or a text, as in `allowed-tools`
//! ```
//!
//! A declaration that is not understood must not be taken for more or less than it says: a wrong
//! value of one of these is the error `permission-invalid`. Another key may be one of a later
//! vocabulary; it is the warning `permission-unknown`, and says nothing.

use serde::Serialize;
use skillfreeze_manifest::{Diagnostic, Severity};

use crate::front_matter::findings::Findings;
use crate::front_matter::node::{Content, Node};
use crate::front_matter::tools::split_tools;

/// What a package declares; what it leaves open is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Permissions {
    /// The most it does with files outside its own directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<Filesystem>,
    /// Whether it uses the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web: Option<Web>,
    /// The only tools it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
}

/// How a package uses the file system; each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Filesystem {
    /// Not at all.
    None,
    /// It reads.
    Read,
    /// It reads and writes.
    Write,
}

/// How a package uses the network; each includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Web {
    /// Not at all.
    None,
    /// It works without.
    Optional,
    /// It does not work without.
    Required,
}

impl Permissions {
    /// Reads the value of the key; `None` where nothing is declared.
    pub(crate) fn read(node: &Node, findings: &mut Findings) -> Option<Self> {
        let Some(entries) = node.entries() else {
            if node.is_null() {
                let message = "the `permissions` are empty and declare nothing";
                findings.say_at(node.at, Severity::Warning, "permissions-null", message);
            } else {
                findings.wrong_type(node, Severity::Error, "permissions", "mapping");
            }
            return None;
        };
        let mut permissions = Self::default();
        for entry in entries {
            let value = &entry.value;
            let is_understood = match entry.key.as_str() {
                "filesystem" => {
                    permissions.filesystem = match value.string() {
                        Some("none") => Some(Filesystem::None),
                        Some("read") => Some(Filesystem::Read),
                        Some("write") => Some(Filesystem::Write),
                        _ => None,
                    };
                    permissions.filesystem.is_some()
                }
                "web" => {
                    permissions.web = match value.string() {
                        Some("none") => Some(Web::None),
                        Some("optional") => Some(Web::Optional),
                        Some("required") => Some(Web::Required),
                        _ => None,
                    };
                    permissions.web.is_some()
                }
                "tools" => {
                    permissions.tools = tools(value);
                    permissions.tools.is_some()
                }
                key => {
                    let message =
                        format!("permissions.{}: not known, and so not declared", key.escape_debug());
                    let diagnostic = Diagnostic::new(Severity::Warning, "permission-unknown", message);
                    findings.push(
                        diagnostic
                            .at(entry.at.line, entry.at.column)
                            .hint("the permissions are `filesystem`, `web` and `tools`"),
                    );
                    continue;
                }
            };
            if !is_understood {
                findings.push(invalid(&entry.key, value));
            }
        }
        Some(permissions)
    }
}

fn invalid(key: &str, value: &Node) -> Diagnostic {
    let message = match value.string() {
        Some(text) => format!("permissions.{key}: `{}` is not understood", text.escape_debug()),
        None => format!("permissions.{key}: {} is not understood", value.describe()),
    };
    let hint = match key {
        "filesystem" => "write one of `none`, `read`, `write`",
        "web" => "write one of `none`, `optional`, `required`",
        _ => "write a list of names, such as `[Bash, Read]`",
    };
    Diagnostic::new(Severity::Error, "permission-invalid", message)
        .at(value.at.line, value.at.column)
        .hint(hint)
}

fn tools(node: &Node) -> Option<Vec<String>> {
    match &node.content {
        Content::Text(_) => {
            let (tools, is_balanced) = split_tools(node.string()?);
            is_balanced.then_some(tools)
        }
        Content::Sequence(items) => items.iter().map(|item| item.string().map(str::to_owned)).collect(),
        Content::Mapping(_) => None,
    }
}

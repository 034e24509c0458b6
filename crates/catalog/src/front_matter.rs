//! What a package says of itself at the top of its `SKILL.md`.

pub(crate) mod edit;
pub(crate) mod fence;
pub(crate) mod fields;
pub(crate) mod findings;
pub(crate) mod needs;
pub(crate) mod node;
pub(crate) mod permissions;
pub(crate) mod recovery;
pub(crate) mod references;
pub(crate) mod specification;
pub(crate) mod tools;
pub(crate) mod value;
pub(crate) mod yaml;

use std::collections::BTreeMap;

use serde::Serialize;
use skillfreeze_manifest::{Diagnostic, Limits, SKILL_FILE, Severity, SkillId, Version};

use crate::front_matter::fence::find_block;
use crate::front_matter::findings::{Findings, illustrate};
use crate::front_matter::node::Node;
use crate::front_matter::permissions::Permissions;
use crate::front_matter::value::Value;

/// Bytes of `SKILL.md` above which it draws a warning: some 16,000 tokens, three times what the
/// Agent Skills specification advises, since an agent reads the file whole.
pub const LARGE_SKILL_BYTES: usize = 64 << 10;

/// The metadata of a package that can be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FrontMatter {
    /// The display name: `name` as written.
    pub name: String,
    /// The id: `id`, else `name`.
    pub id: SkillId,
    /// What the package is for: `description` as YAML gives it, with a block scalar's last newline.
    pub description: String,
    /// `version`, else `metadata.version`, as written.
    pub version: Option<Version>,
    /// `license`, where it is text.
    pub license: Option<String>,
    /// `compatibility`, where it is text.
    pub compatibility: Option<String>,
    /// The tools of `allowed-tools`, each with its parentheses: `Bash(git diff:*)`.
    pub allowed_tools: Vec<String>,
    /// `tags`, a list or a text with commas.
    pub tags: Vec<String>,
    /// `permissions`, where there are any.
    pub permissions: Option<Permissions>,
    /// Whether only a user may call it, not the model of its own accord.
    pub disable_model_invocation: bool,
    /// Whether a user may call it by name.
    pub user_invocable: bool,
    /// `requirements`, as written.
    pub requirements: Option<Value>,
    /// `capabilities`, as written.
    pub capabilities: Option<Value>,
    /// `origin`, as written.
    pub origin: Option<Value>,
    /// The entries of `metadata`, text in its source form: `1.10` stays `1.10`.
    pub metadata: BTreeMap<String, Value>,
    /// The keys that are not known, as written.
    pub other: BTreeMap<String, Value>,
    /// Warnings and infos, in the order of the file, those without a place last.
    pub diagnostics: Vec<Diagnostic>,
}

/// How to parse a front matter.
///
/// ```
/// use skillfreeze_catalog::{ParseOptions, parse_front_matter};
///
/// let options = ParseOptions { strict: true, ..ParseOptions::of("demo") };
/// assert!(parse_front_matter(b"---\nname: demo\ndescription: d\ntags: [a]\n---\n", &options).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ParseOptions<'a> {
    /// The package directory's own name, if it has one that counts.
    pub directory: Option<&'a str>,
    /// Limits on the package; `front_matter_bytes` counts here.
    pub limits: Limits,
    /// The size of the file, where only its beginning is given.
    pub size: Option<u64>,
    /// Whether what breaks the Agent Skills specification is an error, and nothing is recovered.
    pub strict: bool,
}

impl<'a> ParseOptions<'a> {
    /// Options for the package in a directory of that name; all else is the default.
    #[must_use]
    pub fn of(directory: impl Into<Option<&'a str>>) -> Self {
        Self { directory: directory.into(), ..Self::default() }
    }
}

/// Parses the front matter of a `SKILL.md` by the rules that discovery, adding and freezing share.
///
/// `bytes` is the whole file, or its first `limits.front_matter_bytes` + 1 bytes or more together
/// with its size. Lines and columns of diagnostics are those of the file, columns in characters.
///
/// # Errors
/// All that is wrong, warnings and infos too, in the order of the file and then what is missing; at
/// least one is an error.
pub fn parse_front_matter(bytes: &[u8], options: &ParseOptions<'_>) -> Result<FrontMatter, Vec<Diagnostic>> {
    let mut findings = Findings::default();
    let front_matter = root(bytes, options, &mut findings).and_then(|root| {
        let size = options.size.unwrap_or_default().max(bytes.len() as u64);
        if size > LARGE_SKILL_BYTES as u64 {
            findings.say(Severity::Warning, "skill-md-large", format!("`{SKILL_FILE}` has {size} bytes"));
        }
        fields::read(&root, options, &mut findings)
    });
    let diagnostics = finish(findings, bytes, options);
    match front_matter {
        Some(front_matter) if !has_error(&diagnostics) => Ok(FrontMatter { diagnostics, ..front_matter }),
        _ => Err(diagnostics),
    }
}

/// Reads all of a front matter as it is written, whatever its keys mean.
///
/// Values are recovered as in [`parse_front_matter`].
///
/// # Errors
/// What keeps it from being read, as from [`parse_front_matter`]; never what a key holds.
pub fn front_matter_value(bytes: &[u8], options: &ParseOptions<'_>) -> Result<Value, Vec<Diagnostic>> {
    let mut findings = Findings::default();
    match root(bytes, options, &mut findings) {
        Some(root) => Ok(root.to_value()),
        None => Err(finish(findings, bytes, options)),
    }
}

/// Parses the block; `None` where it has an error.
fn root(bytes: &[u8], options: &ParseOptions<'_>, findings: &mut Findings) -> Option<Node> {
    let limit = options.limits.front_matter_bytes;
    let goes_on = options.size.is_some_and(|size| size > bytes.len() as u64);
    let block = match find_block(bytes, limit, goes_on) {
        Ok(block) => block,
        Err(error) => {
            findings.push(error.diagnostic());
            return None;
        }
    };
    let root = if options.strict {
        yaml::parse(block.text)
    } else {
        let recovered = recovery::parse(block.text);
        for colon in recovered.colons {
            findings.push(recovery::diagnostic(colon));
        }
        recovered.root
    };
    match root {
        Ok(root) => Some(root),
        Err(errors) => {
            for error in errors {
                findings.push(error.diagnostic(block.closing_line));
            }
            None
        }
    }
}

fn finish(findings: Findings, bytes: &[u8], options: &ParseOptions<'_>) -> Vec<Diagnostic> {
    let mut diagnostics = findings.sorted();
    if options.strict {
        specification::enforce(&mut diagnostics);
    }
    illustrate(&mut diagnostics, bytes, options.limits.front_matter_bytes);
    diagnostics
}

fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

//! What a package says of itself at the top of its `SKILL.md`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use skillfreeze_manifest::{Diagnostic, Limits, SKILL_FILE, Severity, SkillId, Version};

use crate::fence::find_block;
use crate::yaml::{self, Entry, Node, Value};

/// The most characters in a description, by the Agent Skills specification; more draw a warning.
pub const DESCRIPTION_CHARS: usize = 1024;
/// Bytes of `SKILL.md` above which it draws a warning: some 16,000 tokens, three times what the
/// Agent Skills specification advises, since an agent reads the file whole.
pub const LARGE_SKILL_BYTES: usize = 64 << 10;

/// The metadata of a package that can be used.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
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
    /// `allowed-tools`, where it is text.
    pub allowed_tools: Option<String>,
    /// The entries of `metadata` that are text, in their source form: `1.10` stays `1.10`.
    pub metadata: BTreeMap<String, String>,
    /// Warnings and infos, in the order of the file, those without a place last.
    pub diagnostics: Vec<Diagnostic>,
    /// SHIM
    pub tags: Vec<String>,
    /// SHIM
    pub user_invocable: bool,
    /// SHIM
    pub disable_model_invocation: bool,
}

/// SHIM
#[derive(Debug, Clone, Copy)]
pub struct ParseOptions<'a> {
    /// d
    pub directory: Option<&'a str>,
    /// l
    pub limits: &'a Limits,
    /// s
    pub size: Option<u64>,
    /// s
    pub strict: bool,
}
impl<'a> ParseOptions<'a> {
    /// n
    pub fn new(limits: &'a Limits) -> Self {
        Self { directory: None, limits, size: None, strict: false }
    }
}
/// Parses the front matter of a `SKILL.md` by the rules that discovery, adding and freezing share.
///
/// `bytes` is the whole file; of a file with too large a front matter its first
/// `limits.front_matter_bytes` + 1 bytes are enough to refuse it. `directory` is the package
/// directory's own name, if it has one that counts. Lines and columns of diagnostics are those of
/// the file, columns in characters.
///
/// # Errors
/// All that is wrong, warnings and infos too, in the order of the file and then what is missing; at
/// least one is an error.
pub fn parse_front_matter(bytes: &[u8], options: &ParseOptions<'_>) -> Result<FrontMatter, Vec<Diagnostic>> {
    let (directory, limits) = (options.directory, options.limits);
    let at_file = |diagnostic: Diagnostic| diagnostic.at_path(SKILL_FILE);
    let block =
        find_block(bytes, limits.front_matter_bytes).map_err(|error| vec![at_file(error.diagnostic())])?;
    let root = yaml::parse(block.text).map_err(|errors| {
        errors.iter().map(|error| at_file(error.diagnostic(block.closing_line))).collect::<Vec<_>>()
    })?;

    let mut fields = Fields::default();
    let entries = fields.entries_of_root(&root);
    let front_matter = fields.read(entries, directory);
    if bytes.len() > LARGE_SKILL_BYTES {
        fields.say(Severity::Warning, "skill-md-large", format!("`{SKILL_FILE}` has {} bytes", bytes.len()));
    }
    let mut diagnostics: Vec<_> = fields.diagnostics.into_iter().map(at_file).collect();
    // What is missing has no place; it comes last, the worst of it first.
    diagnostics.sort_by_key(|diagnostic| {
        (diagnostic.line.is_none(), diagnostic.line, diagnostic.column, Reverse(diagnostic.severity))
    });
    match front_matter {
        Some(front_matter) if !has_error(&diagnostics) => Ok(FrontMatter { diagnostics, ..front_matter }),
        _ => Err(diagnostics),
    }
}

fn has_error(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
}

/// Reads the fields and collects what is said about them.
#[derive(Default)]
struct Fields {
    diagnostics: Vec<Diagnostic>,
}

impl Fields {
    fn say(&mut self, severity: Severity, code: &'static str, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::new(severity, code, message));
    }

    fn say_at(&mut self, node: &Node, severity: Severity, code: &'static str, message: impl Into<String>) {
        let diagnostic = Diagnostic::new(severity, code, message).at(node.at.line, node.at.column);
        self.diagnostics.push(diagnostic);
    }

    fn wrong_type(&mut self, node: &Node, key: &str, expected: &str) {
        let found = node.describe();
        let message = format!("{key}: expected {expected}, found {found}");
        let diagnostic =
            Diagnostic::new(Severity::Error, "fm-type", message).at(node.at.line, node.at.column);
        let is_scalar = node.scalar().is_some() && !node.is_null();
        self.diagnostics.push(if expected == "string" && is_scalar {
            diagnostic.hint("quote the value if it is text")
        } else {
            diagnostic
        });
    }

    fn entries_of_root<'a>(&mut self, root: &'a Node) -> &'a [Entry] {
        match &root.value {
            Value::Mapping(entries) => entries,
            _ => {
                if !root.is_null() {
                    self.wrong_type(root, "front matter", "mapping");
                }
                &[]
            }
        }
    }

    /// Reads every field, also after one was found wrong; `None` where a needed one is.
    fn read(&mut self, entries: &[Entry], directory: Option<&str>) -> Option<FrontMatter> {
        let field = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value);
        let text =
            |key: &str| field(key).filter(|node| !node.is_null()).and_then(Node::scalar).map(str::to_owned);

        for entry in entries {
            if !matches!(
                entry.key.as_str(),
                "name"
                    | "id"
                    | "description"
                    | "version"
                    | "license"
                    | "compatibility"
                    | "metadata"
                    | "allowed-tools"
            ) {
                let message = format!("the key `{}` is not known", entry.key.escape_debug());
                let diagnostic = Diagnostic::new(Severity::Warning, "unknown-key", message);
                self.diagnostics.push(diagnostic.at(entry.at.line, entry.at.column));
            }
        }
        let name_and_id = self.name_and_id(field("name"), field("id"), directory);
        let description = self.description(field("description"));
        let metadata = field("metadata").map_or_else(<&[Entry]>::default, |node| self.metadata(node));
        let version = field("version")
            .or_else(|| metadata.iter().find(|entry| entry.key == "version").map(|entry| &entry.value));
        let version = self.version(version);

        let (name, id) = name_and_id?;
        Some(FrontMatter {
            name,
            id,
            description: description?,
            version,
            license: text("license"),
            compatibility: text("compatibility"),
            allowed_tools: text("allowed-tools"),
            metadata: metadata
                .iter()
                .filter_map(|entry| Some((entry.key.clone(), entry.value.scalar()?.to_owned())))
                .collect(),
            diagnostics: Vec::new(),
            tags: Vec::new(),
            user_invocable: true,
            disable_model_invocation: false,
        })
    }

    fn name_and_id(
        &mut self,
        name: Option<&Node>,
        id: Option<&Node>,
        directory: Option<&str>,
    ) -> Option<(String, SkillId)> {
        if name.is_none() {
            self.say(Severity::Error, "name-missing", "the front matter has no `name`");
        }
        let name = name.and_then(|node| self.string(node, "name").map(|text| (node, text)));
        if let (Some((node, text)), true) = (name, id.is_some()) {
            // With an id the name is only shown, but it must be fit to be shown.
            if text.trim().is_empty()
                || text.chars().any(|character| character.is_control() || is_bidi(character))
            {
                let message = format!("`{}` cannot be shown as a name", text.escape_debug());
                self.say_at(node, Severity::Error, "name-invalid", message);
            }
        }
        let (node, text, code) = match id {
            Some(node) => (node, self.string(node, "id")?, "id-invalid"),
            None => name.map(|(node, text)| (node, text, "name-invalid"))?,
        };
        match text.parse::<SkillId>() {
            Ok(id) => {
                if let Some(directory) = directory.filter(|directory| *directory != id.as_str()) {
                    let message =
                        format!("the name is `{id}`, the directory's `{}`", directory.escape_debug());
                    self.say_at(node, Severity::Warning, "name-dir-mismatch", message);
                }
                if text.contains('_') {
                    let message =
                        format!("`{id}` holds `_`, which the Agent Skills specification does not allow");
                    self.say_at(node, Severity::Warning, "name-underscore", message);
                }
                Some((name?.1.to_owned(), id))
            }
            Err(error) => {
                let diagnostic = Diagnostic::new(Severity::Error, code, error.to_string());
                let diagnostic = diagnostic.at(node.at.line, node.at.column);
                self.diagnostics.push(if code == "name-invalid" {
                    diagnostic.hint("keep it as the display name and add an `id`")
                } else {
                    diagnostic
                });
                None
            }
        }
    }

    fn string<'a>(&mut self, node: &'a Node, key: &str) -> Option<&'a str> {
        match node.scalar() {
            Some(text) if node.describe() == "string" => Some(text),
            _ => {
                self.wrong_type(node, key, "string");
                None
            }
        }
    }

    fn description(&mut self, node: Option<&Node>) -> Option<String> {
        let Some(node) = node else {
            self.say(Severity::Error, "desc-missing", "the front matter has no `description`");
            return None;
        };
        let text = if node.is_null() { "" } else { self.string(node, "description")? };
        let length = text.trim().chars().count();
        if length == 0 {
            self.say_at(node, Severity::Error, "desc-empty", "the `description` is empty");
            return None;
        }
        if length > DESCRIPTION_CHARS {
            let message = format!("the `description` is too long: {length} > {DESCRIPTION_CHARS} characters");
            self.say_at(node, Severity::Warning, "desc-too-long", message);
        }
        Some(text.to_owned())
    }

    fn metadata<'a>(&mut self, node: &'a Node) -> &'a [Entry] {
        let Value::Mapping(entries) = &node.value else {
            if node.is_null() {
                self.say_at(node, Severity::Warning, "metadata-null", "the `metadata` is empty");
            } else {
                self.wrong_type(node, "metadata", "mapping");
            }
            return &[];
        };
        for entry in entries.iter().filter(|entry| entry.value.scalar().is_none()) {
            let found = entry.value.describe();
            let message = format!("metadata.{}: expected text, found {found}", entry.key.escape_debug());
            self.say_at(&entry.value, Severity::Warning, "metadata-not-string", message);
        }
        entries
    }

    fn version(&mut self, node: Option<&Node>) -> Option<Version> {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            self.say(Severity::Info, "version-missing", "the front matter has no `version`");
            return None;
        };
        let message = match node.scalar().map(str::parse::<Version>) {
            Some(Ok(version)) => return Some(version),
            Some(Err(error)) => error.to_string(),
            None => format!("version: expected text, found {}", node.describe()),
        };
        self.say_at(node, Severity::Warning, "version-invalid", message);
        None
    }
}

/// Whether a character changes the direction of what is shown after it.
fn is_bidi(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

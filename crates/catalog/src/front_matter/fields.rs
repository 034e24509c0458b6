//! The keys of a front matter: what each may hold, and what is said where it holds something else.
//!
//! Keys that decide what a package may do are refused when they are not understood, those that only
//! describe it are warned of. Keys that nobody here knows are kept as they are.

use std::collections::BTreeMap;

use skillfreeze_manifest::{Diagnostic, Severity, SkillId, Version, is_bidi_control};

use crate::front_matter::findings::Findings;
use crate::front_matter::node::{Content, Entry, Node};
use crate::front_matter::permissions::Permissions;
use crate::front_matter::specification::{self, COMPATIBILITY_CHARS, DESCRIPTION_CHARS};
use crate::front_matter::tools::{has_separating_comma, split_tags, split_tools};
use crate::front_matter::value::Value;
use crate::front_matter::{FrontMatter, ParseOptions};

/// The keys that are understood, those of the specification first.
const KEYS: [&str; 15] = [
    "name",
    "description",
    "license",
    "compatibility",
    "metadata",
    "allowed-tools",
    "id",
    "version",
    "tags",
    "permissions",
    "requirements",
    "capabilities",
    "origin",
    "disable-model-invocation",
    "user-invocable",
];

/// Keys of older formats, and what they are called now.
const RENAMED: [(&str, &str); 2] = [("invocable", "user-invocable"), ("mode", "disable-model-invocation")];

/// Reads every key, also after one was found wrong; `None` where a needed one is.
pub(crate) fn read(root: &Node, options: &ParseOptions<'_>, findings: &mut Findings) -> Option<FrontMatter> {
    let entries = root.entries().unwrap_or_else(|| {
        if !root.is_null() {
            findings.wrong_type(root, Severity::Error, "front matter", "mapping");
        }
        &[]
    });
    let mut fields = Fields { entries, findings };
    let other = fields.keys(options.strict);
    let name_and_id = fields.name_and_id(options);
    let description = fields.description();
    let metadata = fields.metadata();
    let version = fields.version(metadata);
    let license = fields.text("license");
    let compatibility = fields.compatibility();
    let tags = fields.tags();
    let allowed_tools = fields.allowed_tools();
    let permissions = fields.field("permissions").and_then(|node| Permissions::read(node, fields.findings));
    let disable_model_invocation = fields.boolean("disable-model-invocation", false);
    let user_invocable = fields.boolean("user-invocable", true);

    let (name, id) = name_and_id?;
    Some(FrontMatter {
        name,
        id,
        description: description?,
        version,
        license,
        compatibility,
        allowed_tools,
        tags,
        permissions,
        disable_model_invocation,
        user_invocable,
        requirements: fields.value("requirements"),
        capabilities: fields.value("capabilities"),
        origin: fields.value("origin"),
        metadata: metadata.iter().map(|entry| (entry.key.clone(), entry.value.to_value())).collect(),
        other,
        diagnostics: Vec::new(),
    })
}

struct Fields<'a, 'f> {
    entries: &'a [Entry],
    findings: &'f mut Findings,
}

impl<'a> Fields<'a, '_> {
    fn field(&self, key: &str) -> Option<&'a Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// A value that is kept as it is.
    fn value(&self, key: &str) -> Option<Value> {
        self.field(key).filter(|node| !node.is_null()).map(Node::to_value)
    }

    /// Looks at the keys alone; returns those that are not understood.
    fn keys(&mut self, strict: bool) -> BTreeMap<String, Value> {
        let mut other = BTreeMap::new();
        for Entry { key, at, value, .. } in self.entries {
            let shown = key.escape_debug();
            if let Some((_, new)) = RENAMED.iter().find(|(old, _)| old == key) {
                let message = format!("the key `{shown}` has another name now");
                let diagnostic = Diagnostic::new(Severity::Error, "key-renamed", message);
                let hint = format!("`{shown}` is now `{new}`, which is `true` or `false`");
                self.findings.push(diagnostic.at(at.line, at.column).hint(hint));
            } else if !KEYS.contains(&key.as_str()) {
                let message = format!("the key `{shown}` is not known");
                self.findings.say_at(*at, Severity::Warning, "unknown-key", message);
                other.insert(key.clone(), value.to_value());
            } else if strict && !specification::has_key(key) {
                let message = format!("the Agent Skills specification has no key `{shown}`");
                self.findings.say_at(*at, Severity::Error, "unknown-key", message);
            }
        }
        other
    }

    fn name_and_id(&mut self, options: &ParseOptions<'_>) -> Option<(String, SkillId)> {
        let (name, id) = (self.field("name"), self.field("id"));
        if name.is_none() {
            self.findings.say(Severity::Error, "name-missing", "the front matter has no `name`");
        }
        let name = name.and_then(|node| self.string(node, "name").map(|text| (node, text)));
        if let Some((node, text)) = name.filter(|_| id.is_some()) {
            // With an id the name is only shown, but it must be fit to be shown.
            if text.trim().is_empty()
                || text.chars().any(|character| character.is_control() || is_bidi_control(character))
            {
                let message = format!("`{}` cannot be shown as a name", text.escape_debug());
                self.findings.say_at(node.at, Severity::Error, "name-invalid", message);
            }
        }
        if let Some((node, text)) = name.filter(|_| options.strict && id.is_some()) {
            self.name_alone(node, text, options.directory);
        }
        let (node, text, code) = match id {
            Some(node) => (node, self.string(node, "id")?, "id-invalid"),
            None => name.map(|(node, text)| (node, text, "name-invalid"))?,
        };
        match text.parse::<SkillId>() {
            Ok(id) => {
                if let Some(directory) = options.directory.filter(|directory| *directory != id.as_str()) {
                    let message =
                        format!("the name is `{id}`, the directory's `{}`", directory.escape_debug());
                    self.findings.say_at(node.at, Severity::Warning, "name-dir-mismatch", message);
                }
                if text.contains('_') {
                    let message =
                        format!("`{id}` holds `_`, which the Agent Skills specification does not allow");
                    self.findings.say_at(node.at, Severity::Warning, "name-underscore", message);
                }
                Some((name?.1.to_owned(), id))
            }
            Err(error) => {
                let diagnostic = Diagnostic::new(Severity::Error, code, error.to_string());
                let diagnostic = diagnostic.at(node.at.line, node.at.column);
                self.findings.push(if code == "name-invalid" {
                    diagnostic.hint("keep it as the display name and add an `id`")
                } else {
                    diagnostic
                });
                None
            }
        }
    }

    /// The specification knows no `id`, so that the name itself must be what an id is.
    fn name_alone(&mut self, node: &Node, name: &str, directory: Option<&str>) {
        let shown = name.escape_debug();
        if let Some(fault) = specification::name_fault(name) {
            self.findings.say_at(node.at, Severity::Error, "name-invalid", format!("`{shown}` {fault}"));
        } else if let Some(directory) = directory.filter(|directory| *directory != name) {
            let message = format!("the name is `{shown}`, the directory's `{}`", directory.escape_debug());
            self.findings.say_at(node.at, Severity::Error, "name-dir-mismatch", message);
        }
    }

    fn string(&mut self, node: &'a Node, key: &str) -> Option<&'a str> {
        let text = node.string();
        if text.is_none() {
            self.findings.wrong_type(node, Severity::Error, key, "string");
        }
        text
    }

    fn description(&mut self) -> Option<String> {
        let Some(node) = self.field("description") else {
            self.findings.say(Severity::Error, "desc-missing", "the front matter has no `description`");
            return None;
        };
        let text = if node.is_null() { "" } else { self.string(node, "description")? };
        let length = text.trim().chars().count();
        if length == 0 {
            self.findings.say_at(node.at, Severity::Error, "desc-empty", "the `description` is empty");
            return None;
        }
        if length > DESCRIPTION_CHARS {
            let message = format!("the `description` is too long: {length} > {DESCRIPTION_CHARS} characters");
            self.findings.say_at(node.at, Severity::Warning, "desc-too-long", message);
        }
        Some(text.to_owned())
    }

    /// A text of any type, in its source form.
    fn text(&mut self, key: &str) -> Option<String> {
        let node = self.field(key).filter(|node| !node.is_null())?;
        if node.scalar().is_none() {
            self.findings.wrong_type(node, Severity::Warning, key, "string");
        }
        node.scalar().map(str::to_owned)
    }

    fn compatibility(&mut self) -> Option<String> {
        let node = self.field("compatibility")?;
        let text = self.text("compatibility");
        let length = text.as_deref().unwrap_or_default().trim().chars().count();
        if length == 0 && node.scalar().is_some() {
            let message = "the `compatibility` is empty";
            self.findings.say_at(node.at, Severity::Warning, "compatibility-empty", message);
        }
        if length > COMPATIBILITY_CHARS {
            let message =
                format!("the `compatibility` is too long: {length} > {COMPATIBILITY_CHARS} characters");
            self.findings.say_at(node.at, Severity::Warning, "compatibility-too-long", message);
        }
        text
    }

    fn metadata(&mut self) -> &'a [Entry] {
        let Some(node) = self.field("metadata") else { return &[] };
        let Some(entries) = node.entries() else {
            if node.is_null() {
                let message = "the `metadata` is empty";
                self.findings.say_at(node.at, Severity::Warning, "metadata-null", message);
            } else {
                self.findings.wrong_type(node, Severity::Error, "metadata", "mapping");
            }
            return &[];
        };
        for entry in entries.iter().filter(|entry| entry.value.scalar().is_none()) {
            let found = entry.value.describe();
            let message = format!("metadata.{}: expected text, found {found}", entry.key.escape_debug());
            self.findings.say_at(entry.value.at, Severity::Warning, "metadata-not-string", message);
        }
        entries
    }

    fn version(&mut self, metadata: &[Entry]) -> Option<Version> {
        let in_metadata = || metadata.iter().find(|entry| entry.key == "version").map(|entry| &entry.value);
        let node = self.field("version").or_else(in_metadata);
        let Some(node) = node.filter(|node| !node.is_null()) else {
            self.findings.say(Severity::Info, "version-missing", "the front matter has no `version`");
            return None;
        };
        let message = match node.scalar().map(str::parse::<Version>) {
            Some(Ok(version)) => return Some(version),
            Some(Err(error)) => error.to_string(),
            None => format!("version: expected text, found {}", node.describe()),
        };
        self.findings.say_at(node.at, Severity::Warning, "version-invalid", message);
        None
    }

    fn tags(&mut self) -> Vec<String> {
        let Some(node) = self.field("tags").filter(|node| !node.is_null()) else { return Vec::new() };
        let tags = match &node.content {
            Content::Text(text) => Some(split_tags(text)),
            Content::Sequence(items) => items.iter().map(tag).collect(),
            Content::Mapping(_) => None,
        };
        tags.unwrap_or_else(|| {
            let expected = "list of text, or text with commas";
            self.findings.wrong_type(node, Severity::Warning, "tags", expected);
            Vec::new()
        })
    }

    fn allowed_tools(&mut self) -> Vec<String> {
        const KEY: &str = "allowed-tools";
        let Some(node) = self.field(KEY).filter(|node| !node.is_null()) else { return Vec::new() };
        let form = "the Agent Skills specification has `allowed-tools` separated by spaces";
        match &node.content {
            Content::Text(text) => {
                let (tools, is_balanced) = split_tools(text);
                if !is_balanced {
                    let message = "allowed-tools: a parenthesis is without its other";
                    self.findings.say_at(node.at, Severity::Warning, "allowed-tools-invalid", message);
                } else if has_separating_comma(text) {
                    self.findings.say_at(node.at, Severity::Info, "allowed-tools-form", form);
                }
                tools
            }
            Content::Sequence(items) => {
                self.findings.say_at(node.at, Severity::Info, "allowed-tools-form", form);
                let tool = |item: &'a Node| {
                    let tool = item.string();
                    if tool.is_none() {
                        self.findings.wrong_type(item, Severity::Error, KEY, "string in the list");
                    }
                    tool.map(|tool| tool.trim().to_owned())
                };
                items.iter().filter_map(tool).collect()
            }
            Content::Mapping(_) => {
                self.findings.wrong_type(node, Severity::Error, KEY, "string or list of strings");
                Vec::new()
            }
        }
    }

    fn boolean(&mut self, key: &str, default: bool) -> bool {
        let Some(node) = self.field(key) else { return default };
        match node.scalar().filter(|_| node.describe() == "boolean") {
            Some("true") => true,
            Some("false") => false,
            _ => {
                self.findings.wrong_type(node, Severity::Error, key, "`true` or `false`");
                default
            }
        }
    }
}

/// A tag may be written as a number, but not be nothing.
fn tag(item: &Node) -> Option<String> {
    item.scalar().filter(|text| !item.is_null() && !text.trim().is_empty()).map(|text| text.trim().to_owned())
}

//! What a package's tools and scripts need of permissions, whether it declares them or not.
//!
//! Nothing is enforced by this: it tells an author what `permissions` leaves out. Tools are known by
//! the names that agents give them; scripts show that they use the network by the programs, modules
//! and functions that do nothing else. Lines that are only a comment do not count.

use std::collections::BTreeSet;

use skillfreeze_manifest::{Diagnostic, SKILL_FILE, Severity};

use crate::front_matter::FrontMatter;
use crate::front_matter::permissions::{Filesystem, Permissions, Web};
use crate::front_matter::tools::tool_name;

/// The tools that change files, run programs that may, or both.
const WRITING_TOOLS: [&str; 9] =
    ["Bash", "BashOutput", "Delete", "Edit", "MultiEdit", "NotebookEdit", "PowerShell", "Shell", "Write"];
/// The tools that only look at files.
const READING_TOOLS: [&str; 6] = ["Glob", "Grep", "LS", "NotebookRead", "Read", "Search"];
/// The tools that use the network.
const WEB_TOOLS: [&str; 2] = ["WebFetch", "WebSearch"];

/// What a script says only if it uses the network.
const NETWORK_SIGNS: [&str; 22] = [
    "curl",
    "wget",
    "Invoke-WebRequest",
    "import requests",
    "from requests",
    "requests.get",
    "requests.post",
    "import urllib.request",
    "from urllib import request",
    "urllib.request",
    "urllib3",
    "httpx",
    "aiohttp",
    "http.client",
    "fetch(",
    "node:http",
    "node:https",
    "require('https')",
    "require(\"https\")",
    "axios",
    "Net::HTTP",
    "LWP::UserAgent",
];

/// A permission that something needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Permission {
    /// Files are used in this way.
    Filesystem(Filesystem),
    /// The network is used.
    Web,
    /// A tool is used.
    Tool(String),
}

/// What needs a permission, and which.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The permission.
    pub permission: Permission,
    /// What needs it: `allowed-tools` with a tool, or a script's path, as it is.
    pub by: String,
}

/// Returns what the tools of `allowed-tools` need, sorted.
#[must_use]
pub fn needs_of_tools(front_matter: &FrontMatter) -> Vec<Need> {
    let mut needs = BTreeSet::new();
    for tool in &front_matter.allowed_tools {
        let name = tool_name(tool);
        let permission = if WRITING_TOOLS.contains(&name) {
            Some(Permission::Filesystem(Filesystem::Write))
        } else if READING_TOOLS.contains(&name) {
            Some(Permission::Filesystem(Filesystem::Read))
        } else if WEB_TOOLS.contains(&name) {
            Some(Permission::Web)
        } else {
            None
        };
        let by = format!("allowed-tools: {name}");
        needs.extend(permission.map(|permission| Need { permission, by: by.clone() }));
        needs.insert(Need { permission: Permission::Tool(name.to_owned()), by });
    }
    needs.into_iter().collect()
}

/// Returns what a file needs if it is a script: it lies in `scripts/`, can be executed, or names its
/// interpreter.
///
/// `path` is relative to the package; `head` the beginning of the file, or all of it.
#[must_use]
pub fn needs_of_script(path: &str, is_executable: bool, head: &[u8]) -> Vec<Need> {
    let is_script = path.starts_with("scripts/") || is_executable || head.starts_with(b"#!");
    // A program that is no text shows nothing.
    if !is_script || head.contains(&0) {
        return Vec::new();
    }
    let text = String::from_utf8_lossy(head);
    let code = text.lines().filter(|line| {
        let line = line.trim_start();
        !line.starts_with('#') && !line.starts_with("//")
    });
    let needs_web = code.into_iter().any(|line| NETWORK_SIGNS.iter().any(|sign| has_word(line, sign)));
    let need = Need { permission: Permission::Web, by: path.to_owned() };
    needs_web.then_some(need).into_iter().collect()
}

/// Whether a line has a sign that is no part of a longer word.
fn has_word(line: &str, sign: &str) -> bool {
    let is_word = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-');
    let ends_in_word = sign.ends_with(is_word);
    line.match_indices(sign).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + sign.len()..].chars().next();
        // `libcurl`, `--curl` and `x.fetch(` are something else, `/usr/bin/curl` is not.
        let goes_before = before.is_some_and(|character| is_word(character) || character == '.');
        let goes_on = ends_in_word && after.is_some_and(is_word);
        !goes_before && !goes_on
    })
}

/// Warns of each permission that something needs and the package does not declare.
///
/// Tools are asked for by name only where `permissions.tools` names some. What is declared as `none`
/// is not declared enough.
#[must_use]
pub fn undeclared(permissions: Option<&Permissions>, needs: &[Need]) -> Vec<Diagnostic> {
    let filesystem = permissions.and_then(|permissions| permissions.filesystem);
    let web = permissions.and_then(|permissions| permissions.web).filter(|web| *web != Web::None);
    let tools = permissions.and_then(|permissions| permissions.tools.as_ref());
    let by = |is_it: &dyn Fn(&Permission) -> bool| -> BTreeSet<&str> {
        needs.iter().filter(|need| is_it(&need.permission)).map(|need| need.by.as_str()).collect()
    };

    let mut diagnostics = Vec::new();
    let most = needs.iter().filter_map(|need| match need.permission {
        Permission::Filesystem(needed) => Some(needed),
        _ => None,
    });
    if let Some(most) = most.max().filter(|most| filesystem.is_none_or(|declared| declared < *most)) {
        let name = if most == Filesystem::Write { "write" } else { "read" };
        let by = by(&|permission| *permission == Permission::Filesystem(most));
        diagnostics.push(warn(&format!("filesystem: {name}"), &by));
    }
    let by_web = by(&|permission| *permission == Permission::Web);
    if web.is_none() && !by_web.is_empty() {
        diagnostics.push(warn("web: optional", &by_web));
    }
    if let Some(declared) = tools {
        let names: BTreeSet<&str> = declared.iter().map(|tool| tool_name(tool)).collect();
        let missing = |need: &&Need| match &need.permission {
            Permission::Tool(tool) => !names.contains(tool.as_str()),
            _ => false,
        };
        let missing: Vec<&Need> = needs.iter().filter(missing).collect();
        let mut all: Vec<&str> = declared.iter().map(String::as_str).collect();
        for need in &missing {
            if let Permission::Tool(tool) = &need.permission
                && !all.contains(&tool.as_str())
            {
                all.push(tool);
            }
        }
        if !missing.is_empty() {
            let by = missing.iter().map(|need| need.by.as_str()).collect();
            diagnostics.push(warn(&format!("tools: [{}]", all.join(", ")), &by));
        }
    }
    diagnostics
}

fn warn(declaration: &str, by: &BTreeSet<&str>) -> Diagnostic {
    let by: Vec<String> = by.iter().map(|by| format!("`{}`", by.escape_debug())).collect();
    let message = format!("the `permissions` do not declare what {} needs", by.join(", "));
    Diagnostic::new(Severity::Warning, "permission-undeclared", message)
        .at_path(SKILL_FILE)
        .hint(format!("write `{}` in `permissions`", declaration.escape_debug()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front_matter::{ParseOptions, parse_front_matter};

    fn front_matter(lines: &str) -> FrontMatter {
        let text = format!("---\nname: demo\ndescription: d\n{lines}---\n");
        parse_front_matter(text.as_bytes(), &ParseOptions::default()).unwrap()
    }

    /// The hints for a package with these lines and a script that downloads, or none.
    fn hints(lines: &str, script: Option<&str>) -> Vec<String> {
        let front_matter = front_matter(lines);
        let mut needs = needs_of_tools(&front_matter);
        needs.extend(script.into_iter().flat_map(|path| needs_of_script(path, false, b"curl x")));
        let warnings = undeclared(front_matter.permissions.as_ref(), &needs);
        warnings.into_iter().filter_map(|warning| warning.hint).collect()
    }

    #[test]
    fn one_warning_a_permission() {
        let (read, write, web) = ("filesystem: read", "filesystem: write", "web: optional");
        for (lines, script, expected) in [
            ("", None, &[][..]),
            ("allowed-tools: Skill mcp__x__y\n", None, &[]),
            ("allowed-tools: Read Grep\n", None, &[read]),
            ("allowed-tools: Read Bash(git:*) Write WebFetch\n", None, &[write, web]),
            ("permissions: {filesystem: write}\nallowed-tools: Read Write\n", None, &[]),
            ("permissions: {filesystem: read}\nallowed-tools: Read Write\n", None, &[write]),
            ("permissions: {filesystem: none}\nallowed-tools: Read\n", None, &[read]),
            ("", Some("scripts/x"), &[web]),
            ("", Some("x"), &[]),
            ("permissions: {web: none}\n", Some("scripts/x"), &[web]),
            ("permissions: {web: optional}\nallowed-tools: WebSearch\n", Some("scripts/x"), &[]),
            ("permissions: {web: required}\n", Some("scripts/x"), &[]),
            (
                "permissions: {tools: ['Bash(git:*)', Skill], filesystem: write}\nallowed-tools: Bash Skill Read\n",
                None,
                &["tools: [Bash(git:*), Skill, Read]"],
            ),
            ("permissions: {tools: []}\nallowed-tools: Skill\n", None, &["tools: [Skill]"]),
        ] {
            let expected: Vec<_> = expected
                .iter()
                .map(|declaration| format!("write `{declaration}` in `permissions`"))
                .collect();
            assert_eq!(hints(lines, script), expected, "{lines:?}");
        }
    }

    #[test]
    fn warnings_name_all_that_needs_it() {
        let mut needs = needs_of_tools(&front_matter("allowed-tools: WebFetch Read\n"));
        needs.extend(needs_of_script("scripts/\u{1b}", false, b"wget x"));
        let warnings = undeclared(None, &needs);
        assert!(warnings.iter().all(|warning| warning.code == "permission-undeclared"));
        let message = &warnings[1].message;
        assert!(message.contains("`allowed-tools: WebFetch`, `scripts/\\u{1b}`"), "{message}");
    }

    #[test]
    fn scripts() {
        for (path, is_executable, head, expected) in [
            ("scripts/x.sh", false, &b"set -e\n/usr/bin/curl -s x"[..], true),
            ("x", true, b"wget x\n", true),
            ("x", false, b"#!/bin/sh\nx=$(curl y)\n", true),
            ("x", false, b"curl x", false),
            ("references/a.md", false, b"use curl", false),
            ("scripts/x.py", false, b"import requests\n", true),
            ("scripts/x.py", false, b"from requests.auth import x\n", true),
            ("scripts/x.py", false, b"  import urllib.request as r\n", true),
            ("scripts/x.py", false, b"from urllib import parse\nurllib.parse.quote(requests)\n", false),
            ("scripts/x.py", false, b"async with aiohttp.ClientSession()", true),
            ("scripts/x.js", false, b"await fetch('https://x')", true),
            ("scripts/x.js", false, b"import https from 'node:https'", true),
            ("scripts/x.js", false, b"prefetch(x); git.fetch(x)", false),
            ("scripts/x.sh", false, b"# curl x\n// wget\n libcurl curl-config my-curl curls\n", false),
            ("scripts/x", false, b"\x7fELF\0curl ", false),
            ("scripts/x", false, b"\xff\xfecurl\n curl x", true),
            ("scripts/x", false, b"", false),
        ] {
            let needs = needs_of_script(path, is_executable, head);
            let need = Need { permission: Permission::Web, by: path.to_owned() };
            assert_eq!(needs, Vec::from_iter(expected.then_some(need)), "{path} {}", head.escape_ascii());
        }
    }
}

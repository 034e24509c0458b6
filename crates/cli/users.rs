//! Users by name, from `/etc/passwd` alone: a static program cannot ask the C library.

use std::fs;

/// One line of `/etc/passwd`.
struct User {
    name: String,
    user: u32,
    group: u32,
}

fn users() -> Vec<User> {
    let text = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |line: &str| {
        let mut fields = line.split(':');
        let (name, _) = (fields.next()?.to_owned(), fields.next()?);
        Some(User { name, user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
    };
    text.lines().filter_map(user).collect()
}

/// The caller, as the journal and the records name it: `alice (1000)`.
pub(crate) fn actor() -> String {
    let id = rustix::process::getuid().as_raw();
    match users().into_iter().find(|user| user.user == id) {
        Some(user) => format!("{} ({id})", user.name),
        None => id.to_string(),
    }
}

/// The numeric user and group that `NAME`, `UID` or `UID:GID` means.
pub(crate) fn parse(text: &str) -> Result<(u32, u32), String> {
    if let Some((user, group)) = text.split_once(':') {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no numeric id"));
        return Ok((number(user)?, number(group)?));
    }
    let known = users();
    if let Ok(id) = text.parse::<u32>() {
        return Ok((id, known.iter().find(|user| user.user == id).map_or(id, |user| user.group)));
    }
    let user = known.iter().find(|user| user.name == text);
    user.map(|user| (user.user, user.group))
        .ok_or_else(|| format!("there is no user `{text}` in /etc/passwd"))
}

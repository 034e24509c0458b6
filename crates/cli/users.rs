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

/// The numeric user and group that `USER` or `USER:GROUP` means, each a name or a number.
pub(crate) fn parse(text: &str) -> Result<(u32, u32), String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let known = users();
    let (user, own_group) = match user.parse::<u32>() {
        Ok(id) => (id, known.iter().find(|known| known.user == id).map_or(id, |known| known.group)),
        Err(_) => {
            let found = known.iter().find(|known| known.name == user).map(|known| (known.user, known.group));
            found.ok_or_else(|| format!("there is no user `{user}` in /etc/passwd"))?
        }
    };
    match group {
        None => Ok((user, own_group)),
        Some(group) => Ok((user, parse_group(group)?)),
    }
}

fn parse_group(text: &str) -> Result<u32, String> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let groups = fs::read_to_string("/etc/group").unwrap_or_default();
    let id = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        fields.next()?;
        (name == text).then(|| fields.next()?.parse().ok()).flatten()
    });
    id.ok_or_else(|| format!("there is no group `{text}` in /etc/group"))
}

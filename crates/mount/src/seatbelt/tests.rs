//! Profiles compared whole, and asked what they would decide.

use super::*;

/// A host like a Mac: `/tmp` and `/var` are links, and so is one in a home.
fn resolve(path: &Utf8Path) -> Option<Resolved> {
    let link = |from: &str, to: &str| {
        let below = path.strip_prefix(from).ok()?;
        let to = Utf8Path::new(to);
        let target = if below.as_str().is_empty() { to.to_owned() } else { to.join(below) };
        Some(Resolved { path: target, links: vec![from.into()] })
    };
    if path.starts_with("/none") {
        return None;
    }
    let plain = || Some(Resolved { path: path.to_owned(), links: Vec::new() });
    link("/tmp", "/private/tmp").or_else(|| link("/Users/u/link", "/Volumes/data")).or_else(plain)
}

fn paths(paths: &[&str]) -> Vec<Utf8PathBuf> {
    paths.iter().map(Utf8PathBuf::from).collect()
}

#[test]
fn golden() {
    let grant = Grant {
        snapshot: "/tmp/store/snapshots/sha256/x".into(),
        reads: &paths(&["/srv/data"]),
        writes: &paths(&["/Users/u/link/ws", "/tmp"]),
        protected: &paths(&["/Users/u/link/ws/.agents/skills"]),
        network: Network::None,
    };
    let profile = profile(&grant, &resolve).unwrap();
    let parameters: String =
        profile.parameters.iter().map(|(name, path)| format!("; {name}={path}\n")).collect();
    assert_eq!(format!("{}{parameters}", profile.text), include_str!("golden.sb"));
    let arguments = arguments(&profile);
    assert_eq!(arguments[..2], ["-p".to_owned(), profile.text.clone()]);
    assert_eq!(arguments[2..4], ["-D", "READ_0=/srv/data"]);
    assert_eq!(arguments.last().map(String::as_str), Some("--"));
}

#[test]
fn what_leads_nowhere_is_refused() {
    let none = paths(&["/none/x"]);
    let least = Grant::new("/s".into());
    for grant in [
        Grant::new("/none".into()),
        Grant { reads: &none, ..least },
        Grant { writes: &none, ..least },
        Grant { protected: &none, ..least },
    ] {
        let error = profile(&grant, &resolve).unwrap_err();
        assert_eq!(error.code(), "not-found");
        assert!(error.to_string().contains("/none"), "{error}");
    }
}

/// A list of a profile, or a word; a word in quotes is a word.
#[derive(Debug, PartialEq)]
enum Term {
    Word(String),
    List(Vec<Term>),
}

fn parse(text: &str) -> Vec<Term> {
    fn terms(characters: &mut std::iter::Peekable<std::str::Chars<'_>>, is_top: bool) -> Vec<Term> {
        let mut found = Vec::new();
        while let Some(character) = characters.next() {
            match character {
                '(' => found.push(Term::List(terms(characters, false))),
                ')' if !is_top => return found,
                ')' => panic!("a parenthesis too many"),
                '"' => found.push(Term::Word(characters.by_ref().take_while(|next| *next != '"').collect())),
                character if character.is_whitespace() => {}
                character => {
                    let mut word = character.to_string();
                    while let Some(next) = characters.next_if(|next| !next.is_whitespace() && *next != ')') {
                        word.push(next);
                    }
                    found.push(Term::Word(word));
                }
            }
        }
        assert!(is_top, "a parenthesis is not closed");
        found
    }
    terms(&mut text.chars().peekable(), true)
}

fn word(term: &Term) -> &str {
    let Term::Word(word) = term else { panic!("{term:?} is a list") };
    word
}

/// What the profile says of an operation on a resolved path: the last rule that fits decides.
fn allows(profile: &Profile, operation: &str, path: &str) -> bool {
    let mut allowed = false;
    for rule in parse(&profile.text) {
        let Term::List(rule) = rule else { panic!("{rule:?} is no rule") };
        let is_allow = match word(&rule[0]) {
            "allow" => true,
            "deny" => false,
            other => {
                assert_eq!(other, "version");
                continue;
            }
        };
        let operations = rule[1..].iter().take_while(|term| matches!(term, Term::Word(_))).map(word);
        let fits_operation = operations.clone().any(|one| {
            one == "default"
                || one == operation
                || one.strip_suffix('*').is_some_and(|start| operation.starts_with(start))
        });
        let filters = &rule[1 + operations.count()..];
        let fits_path = filters.is_empty()
            || filters.iter().any(|filter| {
                let Term::List(filter) = filter else { panic!("{filter:?} is no filter") };
                let value = match &filter[1] {
                    Term::Word(value) => value.as_str(),
                    Term::List(parameter) => {
                        let name = word(&parameter[1]);
                        let found = profile.parameters.iter().find(|(known, _)| known == name);
                        found.unwrap_or_else(|| panic!("there is no parameter {name}")).1.as_str()
                    }
                };
                match word(&filter[0]) {
                    "literal" => path == value,
                    "subpath" => Utf8Path::new(path).starts_with(value),
                    "global-name" | "target" => false,
                    other => panic!("the filter {other} is not known"),
                }
            });
        if fits_operation && fits_path {
            allowed = is_allow;
        }
    }
    allowed
}

const WRITES: [&str; 6] = [
    "file-write-data",
    "file-write-create",
    "file-write-unlink",
    "file-write-mode",
    "file-write-xattr",
    "file-link",
];

#[test]
fn whatever_is_granted_the_snapshot_is_read_and_never_written() {
    for snapshot in ["/Users/u/ws/store/x", "/private/tmp/x", "/x", "/Users/u/we ird\")(allow file-write*)/x"]
    {
        for writes in [&[][..], &["/"], &["/Users/u"], &["/Users/u/ws/store/x"], &["/private/tmp", "/Users"]]
        {
            for network in [Network::None, Network::Host] {
                let writes = paths(writes);
                let grant =
                    Grant { snapshot: snapshot.into(), reads: &[], writes: &writes, protected: &[], network };
                let whole = profile(&grant, &resolve).unwrap();
                let own = protection(snapshot.into(), &resolve).unwrap();
                let mut appended = Profile { text: "(version 1)(allow default)".to_owned(), ..own.clone() };
                appended.text.push_str(&own.text);
                for profile in [&whole, &appended] {
                    for below in ["", "/a", "/a/SKILL.md"] {
                        let path = format!("{snapshot}{below}");
                        assert!(allows(profile, "file-read-data", &path), "{path}");
                        for write in WRITES {
                            assert!(!allows(profile, write, &path), "{write} {path} {writes:?}");
                        }
                    }
                    for above in Utf8Path::new(snapshot).ancestors().skip(1).filter(|above| *above != "/") {
                        assert!(!allows(profile, "file-write-unlink", above.as_str()), "{above}");
                        assert!(allows(profile, "file-read-metadata", above.as_str()), "{above}");
                    }
                }
                assert_eq!(allows(&whole, "network-outbound", "/any"), network == Network::Host);
                assert!(!whole.text.contains("Users"), "a path stands in the text");
                assert!(!whole.text.contains("regex"));
            }
        }
    }
}

#[test]
fn what_is_not_granted_is_denied() {
    let grant = Grant {
        snapshot: "/tmp/x".into(),
        reads: &paths(&["/srv/data"]),
        writes: &paths(&["/Users/u/link/ws"]),
        protected: &paths(&["/Users/u/link/ws/.claude/skills"]),
        network: Network::None,
    };
    let profile = profile(&grant, &resolve).unwrap();
    for (operation, path, allowed) in [
        ("file-read-data", "/srv/data/f", true),
        ("file-write-data", "/srv/data/f", false),
        ("file-read-data", "/srv/data2", false),
        ("file-read-metadata", "/srv", true),
        ("file-read-data", "/srv", false),
        ("file-write-create", "/Volumes/data/ws/new", true),
        ("file-read-metadata", "/Users/u/link", true),
        ("file-write-create", "/Volumes/data/ws/.claude/skills/evil", false),
        ("file-write-unlink", "/Volumes/data/ws/.claude", false),
        ("file-write-create", "/Volumes/data/ws/.claude/other", true),
        ("file-read-data", "/Users/u/.ssh/id_ed25519", false),
        ("file-read-data", "/private/etc/master.passwd", false),
        ("file-read-data", "/usr/lib/libSystem.B.dylib", true),
        ("file-read-data", "/usr/local/bin/x", true),
        ("file-write-create", "/usr/local/bin/x", false),
        ("file-read-data", "/opt/homebrew/Cellar/python@3/bin/python3", true),
        ("file-read-data", "/opt/homebrew/etc/openssl@3/cert.pem", true),
        ("file-read-data", "/opt/homebrew/etc/openssl@3/private/key.pem", false),
        ("file-read-data", "/opt/homebrew/var/postgres/pg_hba.conf", false),
        ("file-read-data", "/usr/local/etc/my.cnf", false),
        ("file-read-data", "/usr/local/var/db", false),
        ("file-write-data", "/dev/null", true),
        ("network-outbound", "/private/var/run/docker.sock", false),
        ("mach-lookup", "/any", false),
    ] {
        assert_eq!(allows(&profile, operation, path), allowed, "{operation} {path}");
    }
}

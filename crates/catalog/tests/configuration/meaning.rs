//! What is said, and what several files say together.

use skillfreeze_catalog::{Approval, Configuration, ConflictPolicy, Layout, Links, Trust};
use skillfreeze_manifest::Limits;

use crate::support::{FILES, merge, refused, source};

#[test]
fn nothing_said_is_the_default() {
    let nothing = merge(&[]).unwrap();
    assert_eq!(nothing, Configuration::default());
    assert_eq!(
        (nothing.approval, nothing.conflicts, nothing.limits, nothing.max_packages),
        (Approval::NotRequired, ConflictPolicy::First, Limits::DEFAULT, None)
    );
    assert_eq!((nothing.sources.len(), nothing.enabled), (0, None));
    for text in ["", "\n", "# nothing\r\n", "\u{feff}", "source = []", "[skills]", "\t \n"] {
        for (name, _) in FILES {
            assert_eq!(merge(&[(name, text)]), Ok(Configuration::default()), "{name} {text:?}");
        }
    }
    // That nothing is limited is something said.
    assert_eq!(merge(&[("user", "[limits]")]), Ok(Configuration::default()));
}

#[test]
fn everything_that_can_be_said() {
    let text = r#"
        approval = "required"
        conflicts = "last"
        [[source]]
        id = "team.0_x-y"
        root = "/srv/skills"
        layout = "nested"
        depth = 8
        rank = 7
        required = true
        links = "allow"
        link_roots = ["/nix/store", "/gnu"]
        reserved = true
        [[source]]
        id = "b"
        root = "/b"
        [skills]
        enabled = ["travel-planning", "a"]
        [limits]
        files = 1
        package_bytes = 2
        file_bytes = 3
        depth = 4
        skill_bytes = 5
        front_matter_bytes = 6
        packages = 7
    "#;
    let said = merge(&[("system", text)]).unwrap();
    assert_eq!((said.approval, said.conflicts), (Approval::Required, ConflictPolicy::Last));
    let limits = Limits {
        files: 1,
        package_bytes: 2,
        file_bytes: 3,
        depth: 4,
        skill_bytes: 5,
        front_matter_bytes: 6,
        ..Limits::DEFAULT
    };
    assert_eq!((said.limits, said.max_packages), (limits, Some(7)));
    let enabled: Vec<String> = said.enabled.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(enabled, ["a", "travel-planning"]);

    let [team, plain] = said.sources.as_slice() else { panic!("{:?}", said.sources) };
    assert_eq!((team.id.as_str(), team.root.to_string().as_str()), ("team.0_x-y", "/srv/skills"));
    assert_eq!((team.layout, team.rank), (Layout::Nested(8), 7));
    assert_eq!((team.required, team.links, team.reserved), (true, Links::Allow, true));
    assert_eq!(team.link_roots.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/nix/store", "/gnu"]);
    assert_eq!((team.trust, team.at.to_string().as_str()), (Trust::System, "/s.toml:5:14"));

    assert_eq!((plain.layout, plain.rank), (Layout::Children, 300));
    assert_eq!((plain.required, plain.links, plain.reserved), (false, Links::Refuse, false));
    assert_eq!(plain.link_roots, []);
}

#[test]
fn layouts_and_depths() {
    use Layout::*;
    for (said, layout) in [
        ("layout = \"package\"", Package),
        ("layout = \"children\"", Children),
        ("layout = \"flat\"", Flat),
        ("layout = \"nested\"", Nested(3)),
        ("layout = \"nested\"\ndepth = 1", Nested(1)),
        ("layout = \"collection\"", Collection(1)),
        ("depth = 8\nlayout = \"collection\"", Collection(8)),
    ] {
        let text = source(&format!("root = \"/r\"\n{said}"));
        assert_eq!(merge(&[("user", &text)]).unwrap().sources[0].layout, layout, "{said}");
    }
    for (said, code) in [
        ("layout = \"nested\"\ndepth = 0", "source-depth-range"),
        ("layout = \"collection\"\ndepth = 9", "source-depth-range"),
        ("layout = \"nested\"\ndepth = 256", "source-depth-range"),
        ("layout = \"nested\"\ndepth = -1", "source-depth-range"),
        ("depth = 1", "source-depth-unused"),
        ("layout = \"package\"\ndepth = 1", "source-depth-unused"),
        ("layout = \"children\"\ndepth = 99", "source-depth-unused"),
        ("layout = \"flat\"\ndepth = 1", "source-depth-unused"),
        ("layout = \"deep\"", "config-invalid"),
        ("layout = \"Children\"", "config-invalid"),
    ] {
        let text = source(&format!("root = \"/r\"\n{said}"));
        assert_eq!(refused(&[("user", &text)]).0, code, "{said}");
    }
}

#[test]
fn what_a_project_may_say() {
    let text = r#"
        conflicts = "error"
        [[source]]
        id = "here"
        root = ".agents/more skills"
        rank = 200
        required = true
        links = "refuse"
        [skills]
        enabled = ["a"]
    "#;
    let said = merge(&[("project", text)]).unwrap();
    assert_eq!((said.conflicts, said.approval), (ConflictPolicy::Error, Approval::NotRequired));
    let [here] = said.sources.as_slice() else { panic!("{:?}", said.sources) };
    assert_eq!((here.root.to_string().as_str(), here.trust), ("/p/.agents/more skills", Trust::Project));
    assert_eq!((here.rank, here.required, here.links, here.reserved), (200, true, Links::Refuse, false));
}

#[test]
fn the_first_file_that_says_something_wins() {
    use Approval::{NotRequired, Required};
    for (files, approval) in [
        (vec![("user", "none"), ("system", "required")], NotRequired),
        (vec![("given", "required"), ("user", "none"), ("system", "none")], Required),
        (vec![("system", "required")], Required),
    ] {
        let files: Vec<_> =
            files.iter().map(|(name, said)| (*name, format!("approval = \"{said}\""))).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        assert_eq!(merge(&files).unwrap().approval, approval, "{files:?}");
    }
    let conflicts = |files: &[(&str, &str)]| merge(files).unwrap().conflicts;
    let (first, last, error) = ("conflicts = \"first\"", "conflicts = \"last\"", "conflicts = \"error\"");
    assert_eq!(conflicts(&[("project", error), ("user", last)]), ConflictPolicy::Error);
    assert_eq!(conflicts(&[("given", first), ("project", error)]), ConflictPolicy::First);
    assert_eq!(conflicts(&[("project", ""), ("system", last)]), ConflictPolicy::Last);

    // Each limit on its own.
    let said = merge(&[
        ("given", "[limits]\nfiles = 1\npackages = 5"),
        ("user", "[limits]\nfiles = 2\ndepth = 3"),
        ("system", "[limits]\ndepth = 4\nfile_bytes = 6\npackages = 7"),
    ]);
    let said = said.unwrap();
    assert_eq!(said.limits, Limits { files: 1, depth: 3, file_bytes: 6, ..Limits::DEFAULT });
    assert_eq!(said.max_packages, Some(5));
}

#[test]
fn what_is_enabled_is_what_all_files_enable() {
    let all: [&[(&str, &str)]; 6] = [
        &[("user", "\"a\", \"b\"")],
        &[("user", "\"a\", \"b\""), ("project", "\"b\", \"c\"")],
        &[("given", "\"a\", \"b\", \"c\""), ("project", "\"b\", \"c\""), ("system", "\"c\", \"d\"")],
        &[("user", "\"a\""), ("project", "\"b\"")],
        &[("project", "")],
        &[("user", "\"a\", \"a\""), ("system", "\"a\"")],
    ];
    for (lists, expected) in all.into_iter().zip(["a b", "b", "c", "", "", "a"]) {
        let files: Vec<_> =
            lists.iter().map(|(name, ids)| (*name, format!("[skills]\nenabled = [{ids}]"))).collect();
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let enabled = merge(&files).unwrap().enabled.unwrap();
        let enabled: Vec<String> = enabled.iter().map(ToString::to_string).collect();
        assert_eq!(enabled.join(" "), expected, "{files:?}");
    }
}

#[test]
fn sources_of_all_files_by_rank() {
    let source = |id: &str, more: &str| format!("[[source]]\nid = \"{id}\"\nroot = \"/{id}\"\n{more}\n");
    let given = [source("g1", "rank = 900"), source("g2", "")].concat();
    let project = "[[source]]\nid = \"p\"\nroot = \"p\"\n";
    let user = [source("u1", ""), source("u2", "rank = 10"), source("u0", "")].concat();
    let system = [source("s1", "reserved = true"), source("s2", "reserved = true\nrank = 299")].concat();
    let merged =
        merge(&[("given", &given), ("project", project), ("user", &user), ("system", &system)]).unwrap();
    let order: Vec<_> =
        merged.sources.iter().map(|source| (source.id.as_str(), source.rank, source.trust)).collect();
    let expected = [
        ("u2", 10, Trust::User),
        ("s2", 299, Trust::System),
        ("g2", 300, Trust::User),
        ("p", 300, Trust::Project),
        ("u1", 300, Trust::User),
        ("u0", 300, Trust::User),
        ("s1", 600, Trust::System),
        ("g1", 900, Trust::User),
    ];
    assert_eq!(order, expected);
}

//! Links of sources: to packages, and of packages into where the user allows it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;
use skillfreeze_testing::{directory, file, package, package_digest};

use super::configuration::source;
use super::{each, ids, left_out, skill, skill_link};
use crate::support::{text, texts};

#[test]
fn links_are_followed_where_that_is_allowed_and_tell_where_they_led() {
    for env in each() {
        let real = package(env.work().join("elsewhere"), "real");
        file(real.join("scripts/go"), "x");
        package(env.work().join("src/deep"), "other");
        for (name, target) in [
            ("one", "../elsewhere/real"),
            ("two", "../elsewhere/real"),
            ("void", "../nowhere"),
            ("plain.md", "../elsewhere/real/SKILL.md"),
            ("hollow", "../elsewhere"),
            ("circle", "circle"),
        ] {
            symlink(target, env.work().join("src").join(name)).unwrap();
        }
        let refused = env.run(["list", "--source", "src", "--json"]).json();
        assert_eq!(ids(&refused), [""; 0]);
        let refusals =
            ["circle", "deep", "hollow", "one", "plain.md", "two", "void"].map(|name| match name {
                "deep" => "src/deep: no-skill-file".to_owned(),
                _ => format!("src/{name}: symlink-not-allowed"),
            });
        assert_eq!(left_out(&refused), refusals);

        let options = ["--source", "src", "--links", "allow", "--json"];
        let listed = env.run([&["list"][..], &options].concat()).json();
        assert_eq!(ids(&listed), ["real"]);
        let found = skill(&listed, "real");
        assert_eq!(found["real_path"], real.to_str().unwrap());
        assert_eq!(
            (&found["directory"], &found["origins"]),
            (&json!("one"), &json!([{"source": "src", "directory": "two"}]))
        );
        let codes = texts(&found["diagnostics"], "code");
        assert!(codes.contains(&"same-content-as".to_owned()), "{codes:?}");
        assert_eq!(
            left_out(&listed)[1..],
            ["src/deep: no-skill-file", "src/hollow: no-skill-file", "src/void: symlink-dangling"]
        );
        assert_eq!(left_out(&listed)[0], "src/circle: symlink-loop");
        let prepared = env.run([&["prepare"][..], &options].concat()).json();
        assert_eq!(text(&prepared["packages"][0]["digest"]), package_digest(&real));
        env.run([&["prepare", "real"][..], &options].concat()).ok();
        file(env.work().join("allow.toml"), source("x", env.work().join("src"), "links = \"allow\""));
        let listed = env.run(["list", "--config", "allow.toml", "--json"]).json();
        assert_eq!((ids(&listed), &skill(&listed, "real")["source"]), (vec!["real".to_owned()], &json!("x")));
    }
}

/// A Nix profile, say: the packages are there, their files are links into a store.
#[test]
fn a_configured_link_root_lends_its_files_and_nothing_beside_it_does() {
    for env in each() {
        let work = env.work().to_owned();
        for (place, id) in [("nix", "a"), ("nix-evil", "b")] {
            file(work.join(place).join("S.md"), format!("---\nname: {id}\ndescription: d\n---\n"));
            directory(work.join("src").join(id));
            symlink(work.join(place).join("S.md"), work.join("src").join(id).join("SKILL.md")).unwrap();
        }
        skill_link(&work.join("src/c"), "/nonexistent");
        let lent = format!("link_roots = [\"{}\"]", work.join("nix").display());
        for (name, more) in [("without.toml", ""), ("with.toml", &lent)] {
            file(work.join(name), source("x", work.join("src"), more));
        }

        let refused = env.run(["list", "--config", "without.toml", "--json"]).json();
        let [a, b, c] =
            ["x/a: skill-md-symlink-escape", "x/b: skill-md-symlink-escape", "x/c: skill-md-dangling"];
        assert_eq!(
            (ids(&refused), left_out(&refused)),
            (vec![], vec![a.to_owned(), b.to_owned(), c.to_owned()])
        );
        let listed = env.run(["list", "--config", "with.toml", "--json"]).json();
        assert_eq!(
            (ids(&listed), left_out(&listed)),
            (vec!["a".to_owned()], vec![b.to_owned(), c.to_owned()])
        );
        let prepared = env.run(["prepare", "--config", "with.toml", "--json"]).json();
        let frozen = Path::new(prepared["path"].as_str().unwrap()).join("a/SKILL.md");
        assert!(fs::symlink_metadata(&frozen).unwrap().is_file());
        assert_eq!(fs::read(frozen).unwrap(), fs::read(work.join("nix/S.md")).unwrap());
    }
}

//! Real public packages, where `SKILLFREEZE_CORPORA` names the directory of their archives.

use skillfreeze_testing::{Runner, corpora, file, skip};

use super::{packages, validate};
use crate::corpora::{NOT_YAML, unpack};
use crate::support::environment;

#[test]
fn a_collection_with_stray_colons_is_recovered_or_refused() {
    let Some(corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
    for runner in Runner::available() {
        let env = environment(*runner);
        unpack(&env, &corpora.join("bioskills.tar.zst"));
        let root = env.work().join("bioskills");
        let source =
            format!("[[source]]\nid = \"bio\"\nroot = \"{}\"\nlayout = \"nested\"\n", root.display());
        file(env.work().join("bio.toml"), source);
        let expected = NOT_YAML.map(|(category, name, line, column)| {
            (format!("bioskills/{category}/{name}"), format!("SKILL.md:{line}:{column}"))
        });
        for (strict, word) in [(None, "warning fm-recovered"), (Some("--strict"), "error fm-yaml")] {
            let arguments: Vec<&str> = ["--config", "bio.toml"].into_iter().chain(strict).collect();
            let (status, report) = validate(&env, &arguments);
            let packages = packages(&report);
            assert_eq!(packages.len(), 562);
            let mut found: Vec<(String, String)> = Vec::new();
            for (path, said) in packages {
                let places = said.iter().filter_map(|line| line.strip_prefix(word)).map(str::trim);
                found.extend(places.map(|place| (path.clone(), place.to_owned())));
            }
            assert_eq!(found, expected, "{word}");
            if strict.is_none() {
                assert_eq!((status, &report["valid"], &report["invalid"]), (0, &562.into(), &0.into()));
            } else {
                // To the letter each of them has a name that is not its directory's, or a key of its own.
                assert_eq!((status, &report["valid"], &report["invalid"]), (6, &0.into(), &562.into()));
            }
        }
    }
}

#[test]
fn signed_packages_are_valid() {
    let Some(corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
    for runner in Runner::available() {
        let env = environment(*runner);
        unpack(&env, &corpora.join("nvidia-signed.tar.zst"));
        let (status, report) = validate(&env, &["nvidia-signed"]);
        assert_eq!((status, &report["valid"], &report["invalid"]), (0, &70.into(), &0.into()));
    }
}

//! Real public packages, where `SKILLFREEZE_CORPORA` names the directory of their archives.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use skillfreeze_testing::{Output, Runner, TestEnv, corpora, sha256, skip};

use crate::support::{environment, text};

/// The packages of `bioskills` whose front matter is recovered: category, directory, line, column.
///
/// PyYAML puts its error marks there, on the colon of an unquoted value.
pub(crate) const NOT_YAML: [(&str, &str, u64, u64); 13] = [
    ("alternative-splicing", "long-read-splicing", 3, 460),
    ("chemoinformatics", "ml-docking-rescoring", 3, 485),
    ("liquid-biopsy", "tumor-fraction-estimation", 3, 360),
    ("methylation-analysis", "array-qc-filtering", 3, 577),
    ("methylation-analysis", "epigenetic-clocks", 3, 739),
    ("methylation-analysis", "methylkit-analysis", 3, 456),
    ("population-genetics", "association-testing", 3, 374),
    ("population-genetics", "plink-basics", 3, 258),
    ("population-genetics", "population-structure", 3, 370),
    ("population-genetics", "scikit-allel-analysis", 3, 377),
    ("tcr-bcr-analysis", "mixcr-analysis", 3, 658),
    ("temporal-genomics", "trajectory-modeling", 3, 133),
    ("workflows", "cnv-pipeline", 3, 167),
];

/// Unpacks an archive into the work directory.
pub(crate) fn unpack(env: &TestEnv, archive: &Path) {
    let status =
        Command::new("tar").args(["--zstd", "-xf"]).arg(archive).arg("-C").arg(env.work()).status().unwrap();
    assert!(status.success());
}

/// Runs a script of the repository on a snapshot.
fn script(program: &str, name: &str, snapshot: &Path) -> Output {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name);
    Output::of(Command::new(program).arg(path).arg(snapshot))
}

/// Checks a snapshot with other programs than ours: the manifest's digest, every package digest, and
/// everything by the auditor's script.
fn audit(digest: &str, path: &Path) -> Value {
    let bytes = fs::read(path.join(".snapshot.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(format!("sha256:{}", sha256(path.join(".snapshot.json"))), digest);
    assert_eq!(path.file_name().unwrap().to_str().unwrap(), &digest["sha256:".len()..]);
    let expected: String = (manifest["packages"].as_array().unwrap().iter())
        .map(|package| format!("{}  {}\n", text(&package["digest"]), text(&package["id"])))
        .collect();
    assert_eq!(script("python3", "package-digest.py", path).ok(), expected);
    assert_eq!(script("sh", "audit.sh", path).ok(), format!("matches {digest}\n"));
    manifest
}

#[test]
fn a_collection_with_stray_colons_freezes_whole() {
    let Some(corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
    let mut digests = Vec::new();
    for runner in Runner::available() {
        let env = environment(*runner);
        unpack(&env, &corpora.join("bioskills.tar.zst"));
        let mut sources = vec!["--source".to_owned(), "bioskills".to_owned()];
        let mut categories: Vec<_> = fs::read_dir(env.work().join("bioskills"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_dir() && !path.join("SKILL.md").exists())
            .collect();
        categories.sort_unstable();
        assert_eq!(categories.len(), 63);
        for category in categories {
            let name = category.file_name().unwrap().to_str().unwrap();
            sources.extend(["--source".to_owned(), format!("bioskills/{name}")]);
        }
        let with_sources = |arguments: &[&str]| {
            let sources = sources.iter().map(String::as_str);
            env.run(arguments.iter().copied().chain(sources).collect::<Vec<_>>())
        };

        let prepared = with_sources(&["prepare", "--all", "--json"]).json();
        assert_eq!(prepared["packages"].as_array().unwrap().len(), 562);
        let is_error = |one: &Value| one["severity"] == "error";
        for left in prepared["left_out"].as_array().unwrap() {
            assert!(!left["diagnostics"].as_array().unwrap().iter().any(is_error), "{left}");
        }

        let digest = text(&prepared["snapshot"]);
        let path = Path::new(prepared["path"].as_str().unwrap());
        audit(&digest, path);
        let verified = env.run(["verify", &digest, "--json"]).json();
        assert_eq!((&verified["packages"], &verified["files"]), (&562.into(), &prepared["files"]));

        let listed = with_sources(&["list", "--json"]).json();
        let mut recovered = Vec::new();
        for skill in listed["skills"].as_array().unwrap() {
            let diagnostics = skill["diagnostics"].as_array().unwrap().iter();
            for one in diagnostics.filter(|one| one["code"] == "fm-recovered") {
                assert_eq!(
                    (&one["severity"], &one["path"]),
                    (&"warning".into(), &"SKILL.md".into()),
                    "{skill}"
                );
                let category = text(&skill["source"]).replacen("bioskills/", "", 1);
                let place = (one["line"].as_u64().unwrap(), one["column"].as_u64().unwrap());
                recovered.push((category, text(&skill["directory"]), place.0, place.1));
            }
        }
        recovered.sort_unstable();
        let expected = NOT_YAML
            .map(|(category, name, line, column)| (category.to_owned(), name.to_owned(), line, column));
        assert_eq!(recovered, expected);

        // What the sandbox shows is what the authors wrote.
        let skills: BTreeMap<String, String> = (listed["skills"].as_array().unwrap().iter())
            .map(|skill| {
                let directory = Path::new(&text(&skill["source"])).join(text(&skill["directory"]));
                (text(&skill["id"]), fs::read_to_string(env.work().join(directory).join("SKILL.md")).unwrap())
            })
            .collect();
        assert_eq!(skills.len(), 562);
        let run = |command: &[&str]| {
            let sources = sources.iter().map(String::as_str);
            let launch = ["run", "--all"].into_iter().chain(sources).chain(["--"]);
            env.run(launch.chain(command.iter().copied()).collect::<Vec<_>>())
        };
        if env.run(["run", &digest, "--", "true"]).status == 0 {
            for (id, content) in skills.iter().skip(7).step_by(400) {
                assert_eq!(run(&["cat", &format!("$SKILLS_DIR/{id}/SKILL.md")]).ok(), content);
            }
            let all = "for skill in \"$SKILLS_DIR\"/*/SKILL.md; do cat \"$skill\"; done";
            let all = run(&["env", "LC_ALL=C", "sh", "-c", all]);
            assert!(all.ok() == in_c_order(&skills), "all files, one after another");
        } else {
            skillfreeze_testing::record_skip("nothing can be launched here");
        }
        digests.push(digest);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

/// The contents in the order in which a shell expands `*/SKILL.md`.
fn in_c_order(skills: &BTreeMap<String, String>) -> String {
    let mut ids: Vec<&String> = skills.keys().collect();
    ids.sort_unstable_by_key(|id| format!("{id}/"));
    ids.iter().map(|id| skills[*id].as_str()).collect()
}

#[test]
fn signed_packages_freeze_with_their_signatures() {
    let Some(corpora) = corpora() else { skip!("SKILLFREEZE_CORPORA is not set") };
    let mut digests = Vec::new();
    for runner in Runner::available() {
        let env = environment(*runner);
        unpack(&env, &corpora.join("nvidia-signed.tar.zst"));
        let prepared = env.run(["prepare", "--source", "nvidia-signed", "--json"]).json();
        assert_eq!(prepared["packages"].as_array().unwrap().len(), 70);
        assert_eq!(prepared["left_out"], Value::Array(Vec::new()));
        let digest = text(&prepared["snapshot"]);
        let manifest = audit(&digest, Path::new(prepared["path"].as_str().unwrap()));
        for package in manifest["packages"].as_array().unwrap() {
            let paths = crate::support::texts(&package["files"], "path");
            assert!(paths.contains(&"skill.oms.sig".to_owned()), "{paths:?}");
        }
        assert_eq!(env.run(["verify", &digest, "--json"]).json()["packages"], 70);
        digests.push(digest);
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]));
}

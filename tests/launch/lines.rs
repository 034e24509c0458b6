//! Status lines: their order, their content, and that an error is the last.

use serde_json::{Value, json};
use skillfreeze_testing::{file, set_mode};

use super::{Place, Way, events};
use crate::support::text;

#[test]
fn a_launch_tells_its_steps_in_order() {
    for place in Place::each_way() {
        let (output, lines) = place.run_with_lines(&[&place.digest, "--", "sh", "-c", "exit 3"]);
        assert_eq!(output.status, 3, "{output:#?}");
        let schema = "skillfreeze.status.v1";
        let bytes: u64 = ["SKILL.md", "scripts/go", "scripts/tool.py"]
            .map(|name| std::fs::metadata(place.snapshot.join("demo").join(name)).unwrap().len())
            .iter()
            .sum();
        let checked =
            |event| json!({"schema": schema, "event": event, "files": 3, "bytes": bytes, "faults": []});
        let (integrity, how) = (place.way().integrity(), place.way().how());
        let begun = [
            json!({"schema": schema, "event": "planned", "run": place.record()["id"],
                   "snapshot": place.digest, "integrity": integrity, "how": how, "scope": "sandbox"}),
            checked("verified"),
        ];
        let sealed = json!({"schema": schema, "event": "sealed", "files": 3, "bytes": bytes});
        let started = json!({"schema": schema, "event": "started"});
        let exited = json!({"schema": schema, "event": "exited", "status": 3});
        let opened = json!({"schema": schema, "event": "opened", "files": [], "complete": true});
        // What is sealed is hashed while it is; what is not is hashed again afterwards.
        let is_sealed = place.way() != Way::Bind;
        // Of what others can open too, nothing is told.
        let (sealed, opened) = (is_sealed.then_some(sealed), is_sealed.then_some(opened));
        let again = (!is_sealed).then(|| checked("re-verified"));
        let expected: Vec<Value> = begun
            .into_iter()
            .chain(sealed)
            .chain([started])
            .chain(opened)
            .chain([exited])
            .chain(again)
            .collect();
        assert_eq!(lines, expected);
        let launch = &place.record()["launch"];
        assert_eq!((&launch["integrity"], &launch["how"]), (&integrity.into(), &how.into()));

        let (_, lines) = place.run_with_lines(&[&place.digest, "--", "sh", "-c", "kill -9 $$"]);
        let killed = json!({"schema": schema, "event": "exited", "signal": 9});
        let last = lines.iter().rfind(|line| line["event"] != "re-verified");
        assert_eq!(last, Some(&killed));
    }
}

/// The lines and what stands on standard error say the same.
#[track_caller]
fn ends_with(place: &Place, arguments: &[&str], status: i32, expected: &[&str]) -> Value {
    let (output, lines) = place.run_with_lines(&[&["--json"], arguments].concat());
    let code = expected.last().unwrap();
    let error = output.fails(status, code);
    assert_eq!(events(&lines), expected, "{output:#?}");
    let last = lines.last().unwrap();
    assert_eq!(last["event"], "error");
    assert_eq!(last["message"], error["message"]);
    assert_eq!(last["schema"], "skillfreeze.status.v1");
    error
}

#[test]
fn an_error_is_the_last_line_however_early_it_comes() {
    for place in Place::each_way() {
        let digest = place.digest.as_str();
        let unknown = format!("sha256:{}", "0".repeat(64));
        let begun = place.way().begun();
        for (arguments, status, before, code) in [
            (&[&unknown, "--", "true"][..], 125, &[][..], "snapshot-unknown"),
            (&["sha256:nonsense", "--", "true"], 125, &[], "usage"),
            (&["--source", "none", "--", "true"], 125, &[], "root-absent"),
            (&["--source", "src", "-s", "none", "--", "true"], 125, &[], "selection-unknown"),
            (&["--source", "src", "-s", "!", "--", "true"], 125, &[], "reference"),
            (&[digest, "--workspace", "none", "--", "true"], 125, &[], "not-found"),
            (&[digest, "--record", "none/record", "--", "true"], 125, &[], "not-found"),
            (&[digest, "--bwrap", "none", "--", "true"], 125, &[], "bwrap-unusable"),
            (&[digest, "--keep-fd", "9", "--", "true"], 125, &[], "usage"),
            (&[digest, "--", "no-such-command"], 127, begun, "command-not-found"),
            (&[digest, "--", "/usr"], 126, begun, "command-not-executable"),
        ] {
            ends_with(&place, arguments, status, &[before, &[code]].concat());
        }
    }
}

#[test]
fn a_damaged_snapshot_is_told_with_every_fault() {
    for place in Place::each() {
        for name in ["SKILL.md", "scripts/tool.py"] {
            let path = place.snapshot.join("demo").join(name);
            set_mode(&path, 0o644);
            file(&path, "other");
            set_mode(&path, 0o444);
        }
        let error = ends_with(&place, &[&place.digest, "--", "true"], 125, &["integrity"]);
        let faults = error["details"]["faults"].as_array().unwrap();
        let mut paths: Vec<String> = faults.iter().map(|fault| text(&fault["path"])).collect();
        paths.dedup();
        assert_eq!(paths, ["demo/SKILL.md", "demo/scripts/tool.py"]);
    }
}

/// A caller that asked for lines where nobody listens must hear of it; one that stops listening must
/// not end the launch.
#[test]
fn a_descriptor_that_is_not_open_is_refused_and_one_that_closes_is_not_missed() {
    for place in Place::each() {
        place.run(&["--json", "--status-fd", "9"], &["true"]).fails(125, "usage");
        let mut run =
            place.env.command_of("sh", ["-c", r#"{ "$@" 3>&1 >&2; echo $? >ended; } | true"#, "sh"]);
        run.arg(place.env.program()).args(["run", "--status-fd", "3", &place.digest, "--"]);
        run.args(["sh", "-c", "sleep 0.2; exit 6"]);
        skillfreeze_testing::Output::of(&mut run).ok();
        assert_eq!(std::fs::read_to_string(place.work("ended")).unwrap(), "6\n");
    }
}

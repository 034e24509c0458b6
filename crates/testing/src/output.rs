//! What a run of the program gave.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use serde_json::Value;

/// The status and the output of a program that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The exit status, or 128 and the signal's number.
    pub status: i32,
    /// Standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// Standard error; what is not UTF-8 is replaced.
    pub stderr: String,
    /// Whether `--json` was among the arguments.
    json: bool,
    /// The command, for messages.
    command: String,
}

impl Output {
    /// Runs a command to its end, with nothing on standard input unless the command says otherwise.
    pub fn of(command: &mut Command) -> Self {
        let shown = format!("{command:?}");
        let json = command.get_args().any(|argument| argument == "--json");
        let output = command.output().unwrap_or_else(|error| panic!("{shown} does not start: {error}"));
        let signal = || output.status.signal().map_or(-1, |signal| 128 + signal);
        Self {
            status: output.status.code().unwrap_or_else(signal),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            json,
            command: shown,
        }
    }

    /// Asserts that the program succeeded; returns its standard output.
    #[track_caller]
    pub fn ok(&self) -> &str {
        assert_eq!(self.status, 0, "{self:#?}");
        &self.stdout
    }

    /// Asserts that the program succeeded; returns the JSON value on its standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        let parsed = serde_json::from_str(self.ok());
        assert!(parsed.is_ok(), "no JSON on standard output: {self:#?}");
        parsed.unwrap_or_default()
    }

    /// Asserts that the program failed with this status and, if it was asked for JSON, with an error
    /// object of this code as the last line of standard error, which is returned.
    #[track_caller]
    pub fn fails(&self, status: i32, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:#?}");
        if !self.json {
            return Value::Null;
        }
        let last_line = self.stderr.lines().next_back().unwrap_or_default();
        let error: Value = serde_json::from_str(last_line).unwrap_or_default();
        assert_eq!(error["schema"], "skillfreeze.error.v1", "{self:#?}");
        assert_eq!(error["code"], code, "{self:#?}");
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Output {
        Output::of(Command::new("sh").args(["-c", script, "--json"]))
    }

    #[test]
    fn tells_how_it_ended() {
        assert_eq!(shell("echo out").ok(), "out\n");
        assert_eq!(shell("kill -9 $$").status, 137);
        assert_eq!(shell("echo '{\"a\":1}'").json()["a"], 1);
        let failed =
            shell("echo talk >&2; echo '{\"schema\":\"skillfreeze.error.v1\",\"code\":\"c\"}' >&2; exit 4");
        assert_eq!(failed.fails(4, "c")["code"], "c");
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn another_code_is_noticed() {
        shell("echo '{\"schema\":\"skillfreeze.error.v1\",\"code\":\"c\"}' >&2; exit 4").fails(4, "d");
    }

    #[test]
    #[should_panic(expected = "assertion")]
    fn a_failure_without_an_error_object_is_noticed() {
        shell("exit 4").fails(4, "c");
    }
}

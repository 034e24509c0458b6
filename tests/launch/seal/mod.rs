//! `seal`: commands that bring their own sandbox, or none.

mod inside;
mod sandboxes;
mod signals;
mod start;
mod unchanged;

use std::ffi::OsStr;
use std::process::Command;

use skillfreeze_testing::Output;

use super::Place;

impl Place {
    /// `seal SNAPSHOT OPTIONS -- COMMAND`, not yet started.
    fn sealed<S: AsRef<OsStr>>(&self, options: &[&str], command: &[S]) -> Command {
        let mut seal = self.env.command(["seal", &self.digest]);
        seal.args(options).arg("--").args(command);
        seal
    }

    fn seal<S: AsRef<OsStr>>(&self, options: &[&str], command: &[S]) -> Output {
        Output::of(&mut self.sealed(options, command))
    }
}

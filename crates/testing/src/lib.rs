//! Test support for whole-program tests.
//!
//! A [`TestEnv`] runs the program as root or as an ordinary user with nothing of the caller's
//! environment; packages are built and trees compared with the standard library and the programs an
//! auditor has, never with the code under test. Helpers panic where a test would.
//!
//! ```no_run
//! use skillfreeze_testing::{Runner, TestEnv, package};
//!
//! for runner in Runner::available() {
//!     let env = TestEnv::new("/usr/bin/skillfreeze", *runner);
//!     package(env.work(), "demo");
//!     let listed = env.run(["list", "--source", ".", "--json"]).json();
//!     assert_eq!(listed["schema"], "skillfreeze.list.v1");
//!     env.run(["prepare", "--source", ".", "-s", "other", "--json"]).fails(4, "selection-unknown");
//! }
//! ```
#![forbid(unsafe_code)]
#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests make what they run on, read their own environment and fail by a panic"
)]

mod environment;
mod output;
mod package;
mod runner;
mod skip;
mod tree;

pub use environment::TestEnv;
pub use output::Output;
pub use package::{directory, file, package, set_mode};
pub use runner::Runner;
pub use skip::{corpora, record_skip};
pub use tree::{package_digest, sha256, tree};

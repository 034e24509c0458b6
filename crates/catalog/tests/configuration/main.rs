//! Configurations: what files say, alone and together, and what each may not say.
#![expect(clippy::unwrap_used, reason = "tests fail by unwrapping")]

mod meaning;
mod refusals;
mod support;

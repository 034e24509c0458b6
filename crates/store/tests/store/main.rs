//! The store from outside, on real directories.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests make and damage trees by path, and fail by unwrapping"
)]

mod add;
mod archive;
mod concurrency;
mod forms;
mod index;
mod inspect;
mod journal;
mod layout;
mod link_roots;
mod refusal;
mod snapshot;
mod support;

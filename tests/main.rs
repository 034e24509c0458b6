//! Whole-program tests: the program as its users run it.
#![expect(clippy::disallowed_methods, reason = "tests make and damage what the program runs on")]

mod support;

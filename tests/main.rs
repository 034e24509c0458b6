//! Whole-program tests: the program as its users run it.

//! The least that any program could do for the same work: what the benchmarks compare with.
//!
//! `floor heads DIR` finds every `SKILL.md` below a directory by two threads, opens it and reads its
//! first 4 KiB; a directory that holds one is not looked into further. It prints how many there are
//! and how many bytes were read.
#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "it measures bare calls, and prints")]

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

const THREADS: usize = 2;

/// How much of each file is read.
const HEAD_BYTES: usize = 4096;

/// What was found.
#[derive(Debug, Default)]
struct Heads {
    files: usize,
    bytes: usize,
}

fn main() -> io::Result<ExitCode> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match &arguments[..] {
        [verb, directory] if verb == Path::new("heads") => {
            let Heads { files, bytes } = heads(directory)?;
            println!("{files} files, {bytes} bytes");
            Ok(ExitCode::SUCCESS)
        }
        _ => {
            println!("usage: floor heads DIR");
            Ok(ExitCode::from(2))
        }
    }
}

/// Reads the heads of everything below a directory, whose children the threads share.
fn heads(directory: &Path) -> io::Result<Heads> {
    let mut all = Heads::default();
    let children = Mutex::new(subdirectories(directory, &mut all)?.into_iter());
    let work = || -> io::Result<Heads> {
        let mut found = Heads::default();
        loop {
            let child = children.lock().map_or(None, |mut children| children.next());
            let Some(child) = child else { return Ok(found) };
            walk(&child, &mut found)?;
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            let found = thread.join().map_err(|_| io::Error::other("a thread panicked"))??;
            all.files += found.files;
            all.bytes += found.bytes;
        }
        Ok(all)
    })
}

fn walk(directory: &Path, found: &mut Heads) -> io::Result<()> {
    for below in subdirectories(directory, found)? {
        walk(&below, found)?;
    }
    Ok(())
}

/// What to look into below a directory: nothing where it has a `SKILL.md`, which is read.
fn subdirectories(directory: &Path, found: &mut Heads) -> io::Result<Vec<PathBuf>> {
    let mut directories = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name() == "SKILL.md" {
            let mut head = [0; HEAD_BYTES];
            found.bytes += File::open(entry.path())?.read(&mut head)?;
            found.files += 1;
            return Ok(Vec::new());
        }
        if entry.file_type()?.is_dir() {
            directories.push(entry.path());
        }
    }
    Ok(directories)
}

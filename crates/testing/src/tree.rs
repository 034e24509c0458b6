//! What is in a directory, by other programs than ours.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package digest from its definition: a second implementation, in Python.
const PACKAGE_DIGEST: &str = r#"
import hashlib, os, re, sys
root, lines = os.fsencode(sys.argv[1]), []
for directory, below, files in os.walk(root):
    below[:] = [name for name in below if name not in (b".git", b"__MACOSX") and not name.startswith(b"._")]
    for name in files:
        if re.fullmatch(rb"\.git|\.DS_Store|Thumbs\.db|desktop\.ini|\._.*", name, re.S):
            continue
        path = os.path.join(directory, name)
        content, mode = open(path, "rb").read(), os.stat(path).st_mode
        lines.append((os.path.relpath(path, root), b"100755" if mode & 0o111 else b"100644", content))
listing = b"skillfreeze package v1\n"
for path, mode, content in sorted(lines):
    listing += b"%s %d %s %s\n" % (mode, len(content), hashlib.sha256(content).hexdigest().encode(), path)
print("sha256:" + hashlib.sha256(listing).hexdigest())
"#;

/// Computes a package's digest, `sha256:…`, without any code of the project.
///
/// It leaves out what a package leaves out, and refuses nothing that a package refuses.
pub fn package_digest(directory: impl AsRef<Path>) -> String {
    let output = Command::new("python3").args(["-c", PACKAGE_DIGEST]).arg(directory.as_ref()).output();
    let output = output.expect("`python3` is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Computes a file's digest, 64 hex digits, with `sha256sum`.
pub fn sha256(path: impl AsRef<Path>) -> String {
    sha256_each(&[path.as_ref()]).remove(0)
}

/// As [`sha256`], of many files with few processes.
fn sha256_each(paths: &[&Path]) -> Vec<String> {
    let mut digests = Vec::new();
    for some in paths.chunks(1000) {
        // Ended by NUL, names are not escaped.
        let output = Command::new("sha256sum").args(["--zero", "--"]).args(some).output();
        let output = output.expect("`sha256sum` is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let lines = output.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        digests.extend(lines.map(|line| String::from_utf8_lossy(&line[..64]).into_owned()));
    }
    assert_eq!(digests.len(), paths.len());
    digests
}

/// Describes a tree: a line `type mode size sha256 path` for each entry below `directory`, sorted by
/// the path's bytes, with `-` for what an entry does not have; a link's target follows its path.
///
/// Types are `f`, `d`, `l`, and `?` for the rest; what is not UTF-8 is escaped.
pub fn tree(directory: impl AsRef<Path>) -> String {
    let directory = directory.as_ref();
    let mut paths = Vec::new();
    collect(directory, &mut paths);
    let relative = |path: &Path| {
        path.strip_prefix(directory).unwrap_or(path).as_os_str().as_bytes().escape_ascii().to_string()
    };
    paths.sort_by(|first, second| first.as_os_str().as_bytes().cmp(second.as_os_str().as_bytes()));
    let files: Vec<&Path> = paths.iter().map(PathBuf::as_path).filter(|path| is_file(path)).collect();
    let mut digests = sha256_each(&files).into_iter();
    let mut lines = String::new();
    for path in &paths {
        let found = fs::symlink_metadata(path).expect("nothing else changes the tree");
        let kind = found.file_type();
        let mode = found.permissions().mode() & 0o7777;
        let path_text = relative(path);
        let line = if kind.is_file() {
            writeln!(lines, "f {mode:04o} {} {} {path_text}", found.len(), digests.next().unwrap_or_default())
        } else if kind.is_dir() {
            writeln!(lines, "d {mode:04o} - - {path_text}")
        } else if kind.is_symlink() {
            let target = fs::read_link(path).expect("nothing else changes the tree");
            writeln!(lines, "l - - - {path_text} -> {}", target.as_os_str().as_bytes().escape_ascii())
        } else {
            writeln!(lines, "? {mode:04o} - - {path_text}")
        };
        line.expect("memory does not fail");
    }
    lines
}

fn is_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

fn collect(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the directory is readable") {
        let entry = entry.expect("the directory is readable");
        paths.push(entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&entry.path(), paths);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{directory, file, package, set_mode};

    #[test]
    fn known_answers() {
        let temp = tempfile::tempdir().unwrap();
        let demo = package(temp.path(), "demo");
        file(demo.join("a/b"), "");
        file(demo.join("a-b"), "x");
        set_mode(demo.join("a-b"), 0o755);
        directory(demo.join("empty"));
        file(demo.join(".git/config"), "x");
        file(demo.join("._x"), "x");
        // `printf` and `sha256sum` by hand gave this.
        let nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(demo.join("a/b")), nothing);
        assert_eq!(
            package_digest(&demo),
            "sha256:832a53afda1123fab0d4071232ceade118e81881de2cac4b645c94385045bda5"
        );

        fs::remove_dir_all(demo.join(".git")).unwrap();
        fs::remove_file(demo.join("._x")).unwrap();
        std::os::unix::fs::symlink("a/b", demo.join("z")).unwrap();
        let skill = sha256(demo.join("SKILL.md"));
        let x = sha256(demo.join("a-b"));
        assert_eq!(
            tree(&demo),
            format!(
                "f 0644 39 {skill} SKILL.md\nd 0755 - - a\nf 0755 1 {x} a-b\nf 0644 0 {nothing} a/b\n\
                 d 0755 - - empty\nl - - - z -> a/b\n"
            )
        );
    }
}

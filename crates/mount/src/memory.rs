//! How much memory a launch may use: what the machine has available, and what control groups leave.
//!
//! Both versions of control groups are known. What a group has in its page cache counts as left, since the
//! kernel gives it up when the group needs memory; without that, a group that has read much would seem full.
//! Where something cannot be read, no limit is known of it.

use camino::{Utf8Path, Utf8PathBuf};

/// Where control groups are mounted.
const GROUPS: &str = "/sys/fs/cgroup";

/// The files of one version of control groups.
struct Version {
    /// How the version's line in `/proc/self/cgroup` goes on after its number.
    line: &'static str,
    /// Where its groups are, below the place of all.
    below: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The entries of `memory.stat` that the kernel can take back.
    reclaimable: &'static [&'static str],
}

const VERSIONS: [Version; 2] = [
    Version {
        line: ":",
        below: "",
        limit: "memory.max",
        used: "memory.current",
        reclaimable: &["inactive_file", "active_file", "slab_reclaimable"],
    },
    Version {
        line: "memory:",
        below: "memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        reclaimable: &["total_inactive_file", "total_active_file"],
    },
];

/// Bytes of memory that this process may use, if that is known, from the kernel's files, which `read` gives.
pub(crate) fn available(read: &dyn Fn(&Utf8Path) -> Option<String>) -> Option<u64> {
    let meminfo = read("/proc/meminfo".into())?;
    let kibibytes = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let available = kibibytes.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)?;
    let groups = read("/proc/self/cgroup".into()).unwrap_or_default();
    let left = VERSIONS.iter().filter_map(|version| left_in_groups(version, &groups, read));
    Some(left.fold(available, u64::min))
}

/// What the limits of a process's group and of those above it leave.
fn left_in_groups(
    version: &Version,
    groups: &str,
    read: &dyn Fn(&Utf8Path) -> Option<String>,
) -> Option<u64> {
    let group = groups.lines().find_map(|line| {
        let (_, line) = line.split_once(':')?;
        line.strip_prefix(version.line)?.strip_prefix('/')
    })?;
    let top = Utf8Path::new(GROUPS).join(version.below);
    let group = top.join(group);
    let above = group.ancestors().take_while(|above| above.starts_with(&top));
    above.filter_map(|group| left_in_group(version, group, read)).min()
}

fn left_in_group(
    version: &Version,
    group: &Utf8Path,
    read: &dyn Fn(&Utf8Path) -> Option<String>,
) -> Option<u64> {
    let number = |path: Utf8PathBuf| read(&path)?.trim().parse::<u64>().ok();
    let limit = number(group.join(version.limit))?;
    let used = number(group.join(version.used))?;
    let statistics = read(&group.join("memory.stat")).unwrap_or_default();
    let entries = statistics.lines().filter_map(|line| line.split_once(' '));
    let reclaimable = entries
        .filter(|(name, _)| version.reclaimable.contains(name))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .fold(0, u64::saturating_add);
    Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn of(files: &[(&str, &str)]) -> Option<u64> {
        available(&|path| files.iter().find(|(name, _)| path == *name).map(|(_, text)| (*text).to_owned()))
    }

    #[test]
    fn the_least_that_is_left_counts() {
        let machine = ("/proc/meminfo", "MemTotal: 9 kB\nMemAvailable:   102400 kB\n");
        let second = ("/proc/self/cgroup", "0::/a/b\n");
        let first = ("/proc/self/cgroup", "5:memory:/a\n4:cpu:/a\n0::/\n");
        for (files, left) in [
            (&[][..], None),
            (&[("/proc/meminfo", "MemTotal: 9 kB\n")], None),
            (&[("/proc/meminfo", "MemAvailable: x kB\n")], None),
            (&[machine], Some(100 * MIB)),
            // A group without a limit says `max`.
            (&[machine, second, ("/sys/fs/cgroup/a/b/memory.max", "max\n")], Some(100 * MIB)),
            (
                &[
                    machine,
                    second,
                    ("/sys/fs/cgroup/a/b/memory.max", "52428800\n"),
                    ("/sys/fs/cgroup/a/b/memory.current", "41943040\n"),
                ],
                Some(10 * MIB),
            ),
            // What is in the page cache can be had.
            (
                &[
                    machine,
                    second,
                    ("/sys/fs/cgroup/a/b/memory.max", "52428800\n"),
                    ("/sys/fs/cgroup/a/b/memory.current", "52428800\n"),
                    (
                        "/sys/fs/cgroup/a/b/memory.stat",
                        "anon 1\ninactive_file 10485760\nactive_file 5242880\nslab_reclaimable 5242880\n",
                    ),
                ],
                Some(20 * MIB),
            ),
            // A group above may leave less, down to nothing.
            (
                &[
                    machine,
                    second,
                    ("/sys/fs/cgroup/a/b/memory.max", "52428800\n"),
                    ("/sys/fs/cgroup/a/b/memory.current", "0\n"),
                    ("/sys/fs/cgroup/a/memory.max", "1048576\n"),
                    ("/sys/fs/cgroup/a/memory.current", "2097152\n"),
                ],
                Some(0),
            ),
            (
                &[
                    machine,
                    first,
                    ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "52428800\n"),
                    ("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "52428800\n"),
                    (
                        "/sys/fs/cgroup/memory/a/memory.stat",
                        "inactive_file 9\ntotal_inactive_file 5242880\ntotal_active_file 5242880\n",
                    ),
                ],
                Some(10 * MIB),
            ),
        ] {
            assert_eq!(of(files), left, "{files:?}");
        }
    }
}

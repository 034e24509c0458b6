"""Tries to get out of the sandbox, and prints what became of each attempt.

Runs inside, with the address of what listens on the host.
"""

import socket

PORT, ABSTRACT, STORE, *SOCKETS = sys.argv[1:]
SKILL = "/skills/demo/SKILL.md"
NEWNS, NEWUSER = 0x20000, 0x10000000
READ_ONLY, REMOUNT, BIND, MOVE, PTRACE_SEIZE = 1, 32, 4096, 8192, 0x4206
# The same on every architecture.
OPEN_TREE, MOUNT_SETATTR, OPEN_TREE_CLONE, AT_FDCWD = 428, 442, 1, -100


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(5)
        stream.connect(address)


def nested(flags):
    call("unshare", flags)
    call("mount", "none", "/skills", "tmpfs", 0, None)


def enter(path):
    call("setns", os.open(path, os.O_RDONLY), 0)


def is_open(number):
    try:
        os.fstat(number)
        return True
    except OSError:
        return False


# The first, before this script opens anything.
print("descriptors:", *filter(is_open, range(4096)))

# The control: without it, a script that fails at everything would pass.
attempt("read", open, SKILL)
attempt("write its own /tmp", open, "/tmp/own", "w")

attempt("write", os.open, SKILL, os.O_WRONLY)
attempt("append", os.open, SKILL, os.O_WRONLY | os.O_APPEND)
attempt("truncate on opening", os.open, SKILL, os.O_WRONLY | os.O_TRUNC)
attempt("truncate", os.truncate, SKILL, 0)
attempt("create", os.open, "/skills/demo/new", os.O_WRONLY | os.O_CREAT)
attempt("chmod", os.chmod, SKILL, 0o644)
attempt("chown", os.chown, SKILL, os.getuid(), os.getgid())
attempt("set times", os.utime, SKILL, (0, 0))
attempt("set an attribute", os.setxattr, SKILL, "user.x", b"x")
attempt("rename a file", os.rename, SKILL, "/skills/demo/other")
attempt("rename a package", os.rename, "/skills/demo", "/skills/other")
attempt("rename the mount", os.rename, "/skills", "/other")
attempt("unlink", os.unlink, SKILL)
attempt("rmdir", os.rmdir, "/skills")
attempt("mkdir", os.mkdir, "/skills/evil")
attempt("symbolic link", os.symlink, SKILL, "/skills/evil")
attempt("hard link within", os.link, SKILL, "/skills/evil")
attempt("hard link out", os.link, SKILL, "/tmp/evil")
attempt("mkfifo", os.mkfifo, "/skills/evil")

attempt("remount writable", call, "mount", "none", "/skills", None, REMOUNT | BIND, None)
attempt("remount the root writable", call, "mount", "none", "/", None, REMOUNT | BIND, None)
attempt("remount the superblock writable", call, "mount", "none", "/skills", None, REMOUNT, None)
attempt("remount the superblock as it is", call, "mount", "none", "/skills", None, REMOUNT | READ_ONLY, None)
attempt("move the mount", call, "mount", "/skills", "/tmp", None, MOVE, None)
attempt("clone the mount", call, "syscall", OPEN_TREE, AT_FDCWD, "/skills", OPEN_TREE_CLONE)
attempt("clear the mount's attributes", call, "syscall", MOUNT_SETATTR, AT_FDCWD, "/skills", 0, bytes([0] * 8 + [1] + [0] * 23), 32)
attempt("umount", call, "umount2", "/skills", 0)
attempt("umount lazily", call, "umount2", "/skills", 2)
attempt("mount over", call, "mount", "none", "/skills", "tmpfs", 0, None)
attempt("bind over", call, "mount", "/tmp", "/skills", None, BIND, None)
attempt("pivot the root", call, "pivot_root", "/tmp", "/tmp")
attempt("mount namespace", in_child, nested, NEWNS)
attempt("user namespace", in_child, nested, NEWUSER | NEWNS)
attempt("user namespace alone", in_child, call, "unshare", NEWUSER)
attempt("another root", os.chroot, "/tmp")
attempt("become root", os.setuid, 0)

attempt("write core_pattern", os.open, "/proc/sys/kernel/core_pattern", os.O_WRONLY)
attempt("write max_user_namespaces", os.open, "/proc/sys/user/max_user_namespaces", os.O_WRONLY)
attempt("write the system", os.open, "/usr/bin/evil", os.O_WRONLY | os.O_CREAT)
attempt("write /etc", os.open, "/etc/evil", os.O_WRONLY | os.O_CREAT)
attempt("write the root", os.mkdir, "/evil")
attempt("write /dev", os.open, "/dev/evil", os.O_WRONLY | os.O_CREAT)
attempt("make a device", os.mknod, "/tmp/evil-device", 0o60666, os.makedev(8, 0))

attempt("list the first process's descriptors", os.listdir, "/proc/1/fd")
attempt("leave by the first process's root", os.listdir, "/proc/1/root")
for namespace in ("mnt", "user", "pid"):
    attempt(f"enter the first process's {namespace} namespace", os.open, f"/proc/1/ns/{namespace}", os.O_RDONLY)
attempt("enter its own mount namespace", enter, "/proc/self/ns/mnt")
attempt("leave by its own root", os.stat, "/proc/self/root" + STORE)
attempt("change the program on the host", os.chmod, "/proc/1/exe", 0o700)
attempt("read the first process's environment", open, "/proc/1/environ")
attempt("write the first process's memory", os.open, "/proc/1/mem", os.O_RDWR)
attempt("trace the first process", call, "ptrace", PTRACE_SEIZE, 1, None, None)
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (1, os.getpid())]
print(f"processes of others: {len(others)}")

# A mount is listed with the directory that it shows of its file system.
listed = any("/".join(STORE.split("/")[-2:]) in open(f"/proc/self/{name}").read()
             for name in ("mountinfo", "mounts", "mountstats"))
print(f"the list of mounts names the store: {'yes' if listed else 'no'}")

for path in ("/etc/shadow", "/etc/ssh", STORE, "/root", "/home", "/run", "/var", "/sys", "/mnt", "/boot"):
    attempt("see " + ("the store" if path == STORE else path), os.stat, path)

for path in SOCKETS:
    attempt(f"connect to a socket in {os.path.dirname(path)}", connect, socket.AF_UNIX, path)
attempt("connect to an abstract socket", connect, socket.AF_UNIX, "\0" + ABSTRACT)
attempt("connect to the host's loopback", connect, socket.AF_INET, ("127.0.0.1", int(PORT)))

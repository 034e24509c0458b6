"""Tries the kernel's less common ways to change a mount, another process or the host, and prints what became
of each.

Runs inside, with a value that the caller's environment has and the command was not given, written backwards so
that only the lists of other processes could show it.
"""

import pathlib
import socket
import struct

SECRET = sys.argv[1][::-1]
SKILL = "/skills/demo/SKILL.md"
FIRST, EMPTY = 1, ctypes.c_char_p(None)
AT_FDCWD, AT_EMPTY_PATH, NEWUSER, NEWNS = -100, 0x1000, 0x10000000, 0x20000
SET_FLAG, RECONFIGURE, ATTRIBUTE_READ_ONLY = 0, 7, 1

# The same on every architecture since Linux 5.1, and those older.
NUMBERS = {"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fspick": 433, "pidfd_open": 434,
           "clone3": 435, "pidfd_getfd": 438, "mount_setattr": 442}
OLDER = {
    "x86_64": {"acct": 163, "swapon": 167, "reboot": 169, "init_module": 175, "kexec_load": 246, "perf_event_open": 298,
               "name_to_handle_at": 303, "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310,
               "process_vm_writev": 311, "kcmp": 312, "bpf": 321},
    "aarch64": {"acct": 89, "swapon": 224, "reboot": 142, "init_module": 105, "kexec_load": 104, "perf_event_open": 241,
                "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268, "process_vm_readv": 270,
                "process_vm_writev": 271, "kcmp": 272, "bpf": 280},
}
NUMBERS.update(OLDER[os.uname().machine])


def system(name, *arguments):
    """Makes a system call; its result is -1 where it fails."""
    arguments = [os.fsencode(a) if isinstance(a, str) else a for a in arguments]
    arguments = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *arguments)
    if result == -1:
        raise OSError(ctypes.get_errno(), name)
    return result


def reconfigure(flag):
    context = system("fspick", AT_FDCWD, "/skills", 0)
    system("fsconfig", context, SET_FLAG, flag, EMPTY, 0)
    system("fsconfig", context, RECONFIGURE, EMPTY, EMPTY, 0)


def set_attributes(target):
    # `struct mount_attr`: set, clear, propagation, user namespace.
    system("mount_setattr", AT_FDCWD, target, 0, struct.pack("=4Q", 0, ATTRIBUTE_READ_ONLY, 0, 0), 32)


def mount_elsewhere():
    tree = system("open_tree", AT_FDCWD, "/skills", 0)
    system("move_mount", tree, "", AT_FDCWD, "/tmp", 4)


def handle_of_the_skill():
    # `struct file_handle`: size, kind, bytes.
    handle, mount = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0) + bytes(128)), ctypes.c_int()
    system("name_to_handle_at", AT_FDCWD, SKILL, handle, ctypes.byref(mount), 0)
    return handle


def open_by_handle(flags):
    os.close(system("open_by_handle_at", os.open("/skills", os.O_RDONLY), handle_of_the_skill(), flags))


def memory_of_the_first(name):
    ours = ctypes.create_string_buffer(8)
    local = struct.pack("@PN", ctypes.addressof(ours), 8)
    remote = struct.pack("@PN", 0x400000, 8)
    system(name, FIRST, local, 1, remote, 1, 0)


def descriptor_of_the_first():
    os.close(system("pidfd_getfd", system("pidfd_open", FIRST, 0), 3, 0))


def namespaces_of_the_first(flags):
    system("setns", system("pidfd_open", FIRST, 0), flags)


def clone(flags):
    # `struct clone_args`: flags, three pointers, the signal at the end, and three more.
    arguments = struct.pack("=8Q", flags, 0, 0, 0, 17, 0, 0, 0)
    child = system("clone3", arguments, len(arguments))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def every_namespace():
    """What opening and entering each namespace that can be seen comes to; its own user namespace is one that
    it is in already."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*/ns/*"):
        try:
            in_child(lambda: system("setns", os.open(entry, os.O_RDONLY), 0))
            found.add(f"OK ({entry.name})")
        except OSError as error:
            found.add(errno.errorcode[error.errno])
    return " ".join(sorted(found))


def writable(top, skip=()):
    """The files below a directory that open for writing, and the directories in which one can be made."""
    files, directories = [], []
    for above, below, names in os.walk(top):
        below[:] = [name for name in below if os.path.join(above, name) not in skip]
        for name in names:
            try:
                os.close(os.open(os.path.join(above, name), os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
                files.append(os.path.join(above, name))
            except OSError:
                pass
        try:
            os.mkdir(os.path.join(above, ".new"))
            os.rmdir(os.path.join(above, ".new"))
            directories.append(above)
        except OSError:
            pass
    return files, directories


def show(what, found):
    print(f"{what}:", *sorted(found) or ["none"])


def refused(name, function, *arguments):
    """An attempt whose error depends on how the host is set up."""
    try:
        function(*arguments)
    except OSError:
        print(f"{name}: refused")
    else:
        print(f"{name}: OK")


# The controls: without them, a script whose calls are wrong would pass.
attempt("open itself", lambda: os.close(system("pidfd_open", os.getpid(), 0)))
attempt("compare with itself", system, "kcmp", os.getpid(), os.getpid(), 0, 1, 1)
attempt("clone a process", clone, 0)
attempt("learn a file's handle", handle_of_the_skill)

attempt("reconfigure the file system as writable", reconfigure, "rw")
attempt("reconfigure the file system as it is", reconfigure, "ro")
attempt("clear the mount's read-only attribute", set_attributes, "/skills")
attempt("clear the root's read-only attribute", set_attributes, "/")
attempt("move the open mount", mount_elsewhere)
attempt("open a new file system", system, "fsopen", "tmpfs", 0)
attempt("open a file by its handle", open_by_handle, os.O_RDWR)

attempt("read the first process's memory", memory_of_the_first, "process_vm_readv")
attempt("write the first process's memory", memory_of_the_first, "process_vm_writev")
attempt("take the first process's descriptor", descriptor_of_the_first)
attempt("compare with the first process", system, "kcmp", os.getpid(), FIRST, 0, 1, 1)
for name in ("map_files", "task/1/fd", "fdinfo"):
    attempt(f"list /proc/1/{name}", os.listdir, f"/proc/1/{name}")
for name in ("cwd", "exe"):
    attempt(f"follow /proc/1/{name}", os.stat, f"/proc/1/{name}")
for name in ("maps", "auxv", "stack", "syscall"):
    attempt(f"read /proc/1/{name}", open, f"/proc/1/{name}")
for name, flags in (("mount", NEWNS), ("user", NEWUSER), ("pid", 0x20000000), ("network", 0x40000000)):
    attempt(f"enter the first process's {name} namespace by its descriptor", in_child, namespaces_of_the_first, flags)
print("enter every namespace in sight:", every_namespace())
attempt("clone into a user namespace", clone, NEWUSER)
attempt("clone into a mount namespace", clone, NEWNS)

refused("load a module", system, "init_module", b"x", 1, "")
refused("load a kernel", system, "kexec_load", 0, 0, EMPTY, 0)
attempt("restart the machine", system, "reboot", 0xFEE1DEAD, 672274793, 0, EMPTY)
attempt("swap", system, "swapon", SKILL, 0)
attempt("account", system, "acct", "/tmp/account")
attempt("name the host", socket.sethostname, "evil")
attempt("list the kernel's programs", system, "bpf", 11, bytes(16), 16)
refused("watch the first process", system, "perf_event_open", struct.pack("=IIQ", 1, 112, 1) + bytes(96), FIRST, -1, -1, 0)
attempt("open the caller's terminal", os.open, "/dev/tty", os.O_RDWR)
refused("press a system request", os.open, "/proc/sysrq-trigger", os.O_WRONLY)

show("settings of the system that can be written", writable("/proc/sys")[0])
# Whoever may write to the last of these is told when the machine is short of something.
others = writable("/proc", ["/proc/sys", "/proc/pressure"])[0]
show("other files of /proc that can be written", [path for path in others if not path[6].isdigit()])
files, directories = writable("/", ["/proc", "/dev"])
show("files that can be written", files)
show("directories that can be written", directories)
show("devices", os.listdir("/dev"))
status = dict(line.split(":\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\t" in line)
show("no new privileges", status["NoNewPrivs"])
show("capabilities", {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")})

seen, told = 0, []
for kind in ("environ", "cmdline"):
    for entry in pathlib.Path("/proc").glob(f"[0-9]*/{kind}"):
        try:
            text = entry.read_bytes()
            seen += 1
            told += [str(entry)] if SECRET.encode() in text else []
        except OSError:
            pass
show("processes that show the caller's value", told if seen >= 3 else ["not seen"])

"""Tries from inside to get around Landlock, and prints each attempt that was not refused.

The arguments are paths that must not be opened. `MAIN` is the number of the program's process.
"""

import ctypes
import errno
import os
import resource
import signal
import socket
import sys

REFUSED = {errno.EACCES, errno.EPERM}
libc = ctypes.CDLL(None, use_errno=True)
main, inner = int(os.environ["MAIN"]), os.getppid()


def attempt(what, function, refused=REFUSED):
    try:
        result = function()
    except OSError as error:
        if error.errno not in refused:
            print(f"{what}: {error}")
        return
    print(f"{what} was not refused: {result!r}")


def call(number, *arguments):
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "syscall")


for path in sys.argv[1:]:
    attempt(f"open {path}", lambda: os.open(path, os.O_RDONLY))
helper = int(open(f"/proc/{inner}/stat").read().rpartition(")")[2].split()[1])
for name, process in (("main", main), ("helper", helper), ("inner", inner)):
    for file in ("environ", "mem", "maps", "fd/0", "root", "cwd"):
        path = f"/proc/{process}/{file}"
        attempt(f"{file} of {name}", lambda: os.close(os.open(path, os.O_RDONLY)))
    attempt(f"kill {name}", lambda: os.kill(process, 0))
    attempt(f"ptrace {name}", lambda: call({"x86_64": 101, "aarch64": 117}[os.uname().machine], 16, process, 0, 0))
    attempt(f"limit {name}", lambda: resource.prlimit(process, resource.RLIMIT_CPU, (1, 1)))
for thread in os.listdir(f"/proc/{inner}/task"):
    attempt("kill a thread of inner", lambda: call({"x86_64": 234, "aarch64": 131}[os.uname().machine], inner, int(thread), 9))
for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET, socket.AF_VSOCK):
    attempt(f"socket {family}", lambda: socket.socket(family, socket.SOCK_RAW if family == socket.AF_PACKET else socket.SOCK_STREAM))
attempt("datagram pair", lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
one, other = socket.socketpair()
one.send(b"x")
if other.recv(1) != b"x":
    print("a connected pair does not work")
attempt("io_uring_setup", lambda: call(425, 1, None))
attempt("user namespace", lambda: libc.unshare(0x10000000) and (_ for _ in ()).throw(OSError(ctypes.get_errno(), "unshare")))
attempt("mount", lambda: call({"x86_64": 165, "aarch64": 40}[os.uname().machine], b"none", b"/tmp", b"tmpfs", 0, None))
attempt("keys", lambda: call({"x86_64": 250, "aarch64": 219}[os.uname().machine], 0, -4, 1))
attempt("shared memory", lambda: call({"x86_64": 29, "aarch64": 194}[os.uname().machine], 1, 4096, 0o1777))
attempt("terminal", lambda: os.open("/dev/tty", os.O_RDWR), {errno.ENXIO, *REFUSED})
print("done", signal.SIGKILL.value)

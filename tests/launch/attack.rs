//! A hostile command: what it tries, and what the kernel answers.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use skillfreeze_testing::{record_skip, set_mode, skip, tree};

use super::{Place, Way};

const ATTACK: &str = concat!(include_str!("attempt.py"), include_str!("attack.py"));
const ESCAPE: &str = concat!(include_str!("attempt.py"), include_str!("escape.py"));

/// What every attempt but those on the network must come to.
const ANSWERS: &str = "\
descriptors: 0 1 2
read: OK
write its own /tmp: OK
write: EACCES
append: EACCES
truncate on opening: EROFS
truncate: EACCES
create: EROFS
chmod: EROFS
chown: EROFS
set times: EROFS
set an attribute: EROFS
rename a file: EROFS
rename a package: EROFS
rename the mount: EROFS
unlink: EROFS
rmdir: EROFS
mkdir: EROFS
symbolic link: EROFS
hard link within: EROFS
hard link out: EXDEV
mkfifo: EROFS
remount writable: EPERM
remount the root writable: EPERM
remount the superblock writable: EPERM
remount the superblock as it is: EPERM
move the mount: EPERM
clone the mount: EPERM
clear the mount's attributes: EPERM
umount: EPERM
umount lazily: EPERM
mount over: EPERM
bind over: EPERM
pivot the root: EPERM
mount namespace: EPERM
user namespace: ENOSPC
user namespace alone: ENOSPC
another root: EPERM
become root: EINVAL
write core_pattern: EACCES
write max_user_namespaces: EACCES
write the system: EROFS
write /etc: EROFS
write the root: EROFS
write /dev: EROFS
make a device: EPERM
list the first process's descriptors: EACCES
leave by the first process's root: EACCES
enter the first process's mnt namespace: EACCES
enter the first process's user namespace: EACCES
enter the first process's pid namespace: EACCES
enter its own mount namespace: EPERM
leave by its own root: ENOENT
change the program on the host: EACCES
read the first process's environment: EACCES
write the first process's memory: EACCES
trace the first process: EPERM
processes of others: 0
the list of mounts names the store: no
see /etc/shadow: ENOENT
see /etc/ssh: ENOENT
see the store: ENOENT
see /root: ENOENT
see /home: ENOENT
see /run: ENOENT
see /var: ENOENT
see /sys: ENOENT
see /mnt: ENOENT
see /boot: ENOENT
";

/// What the less common attempts must come to.
const ESCAPES: &str = "\
open itself: OK
compare with itself: OK
clone a process: OK
learn a file's handle: OK
reconfigure the file system as writable: EPERM
reconfigure the file system as it is: EPERM
clear the mount's read-only attribute: EPERM
clear the root's read-only attribute: EPERM
move the open mount: EPERM
open a new file system: EPERM
open a file by its handle: EPERM
read the first process's memory: EPERM
write the first process's memory: EPERM
take the first process's descriptor: EPERM
compare with the first process: EPERM
list /proc/1/map_files: EACCES
list /proc/1/task/1/fd: EACCES
list /proc/1/fdinfo: EACCES
follow /proc/1/cwd: EACCES
follow /proc/1/exe: EACCES
read /proc/1/maps: EACCES
read /proc/1/auxv: EACCES
read /proc/1/stack: EACCES
read /proc/1/syscall: EACCES
enter the first process's mount namespace by its descriptor: EPERM
enter the first process's user namespace by its descriptor: EPERM
enter the first process's pid namespace by its descriptor: EPERM
enter the first process's network namespace by its descriptor: EPERM
enter every namespace in sight: EINVAL EPERM
clone into a user namespace: ENOSPC
clone into a mount namespace: EPERM
load a module: refused
load a kernel: refused
restart the machine: EPERM
swap: EPERM
account: EPERM
name the host: EPERM
list the kernel's programs: EPERM
watch the first process: refused
open the caller's terminal: ENXIO
press a system request: refused
settings of the system that can be written: none
other files of /proc that can be written: none
files that can be written: none
directories that can be written: /skill-extensions /tmp /tmp/home
devices: core fd full null ptmx pts random shm stderr stdin stdout tty urandom zero
no new privileges: 1
capabilities: 0000000000000000
processes that show the caller's value: none
";

/// A socket that listens until it is dropped, and is removed then.
struct Listening {
    path: PathBuf,
    _listener: UnixListener,
}

impl Listening {
    fn at(path: PathBuf) -> Option<Self> {
        let listener = UnixListener::bind(&path).ok()?;
        // Anybody could connect who sees it.
        set_mode(&path, 0o777);
        UnixStream::connect(&path).unwrap();
        Some(Self { path, _listener: listener })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn answers(way: Way) -> String {
    match way {
        // Where the file system itself is read-only, that is the answer whatever the modes are.
        Way::Stage => ["write", "append", "truncate"].iter().fold(ANSWERS.to_owned(), |answers, name| {
            answers.replace(&format!("\n{name}: EACCES\n"), &format!("\n{name}: EROFS\n"))
        }),
        Way::MemoryFiles => ANSWERS.to_owned(),
        // What is mounted is in the store.
        Way::Bind => ANSWERS.replace("names the store: no", "names the store: yes"),
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode()
}

#[test]
fn nothing_that_a_command_tries_reaches_the_snapshot_or_the_host() {
    for place in Place::each_way() {
        let unique = format!("skillfreeze-{}-{}", std::process::id(), place.is_roots());
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port().to_string();
        let address = SocketAddr::from_abstract_name(&unique).unwrap();
        let _abstract = UnixListener::bind_addr(&address).unwrap();
        UnixStream::connect_addr(&address).unwrap();
        let beside = Listening::at(place.work("socket")).unwrap();
        let in_run = Listening::at(Path::new("/run").join(&unique));
        if in_run.is_none() {
            record_skip("no socket can be made in /run");
        }
        let sockets: Vec<&Listening> = [Some(&beside), in_run.as_ref()].into_iter().flatten().collect();
        let unreachable: String = sockets
            .iter()
            .map(|socket| {
                let above = socket.path.parent().unwrap().display();
                format!("connect to a socket in {above}: ENOENT\n")
            })
            .collect();

        let (frozen, program) = (tree(&place.snapshot), mode(place.env.program()));
        for (network, network_answer) in [("none", "ECONNREFUSED"), ("host", "OK")] {
            let options = ["--workspace", "ws", "--network", network];
            let mut command = place.command(&options, &["python3", "-c", ATTACK, &port, &unique]);
            command.arg(place.env.root()).args(sockets.iter().map(|socket| &socket.path));
            let output = skillfreeze_testing::Output::of(&mut command);
            let answers = answers(place.way());
            let expected = format!(
                "{answers}{unreachable}\
                 connect to an abstract socket: {network_answer}\n\
                 connect to the host's loopback: {network_answer}\n"
            );
            assert_eq!(output.ok(), expected, "network {network}: {output:#?}");
        }
        assert_eq!(tree(&place.snapshot), frozen);
        assert_eq!(mode(place.env.program()), program);
        place.verify();
    }
}

/// Neither by its open file system, nor by another process, nor by the kernel: and the caller's own values
/// are to be read nowhere.
#[test]
fn nothing_leads_out_of_the_sandbox() {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        skip!("the numbers of the system calls are known for x86_64 and aarch64 only");
    }
    for place in Place::each_way() {
        let secret = format!("secret-{}-{}", std::process::id(), place.is_roots());
        let backwards: String = secret.chars().rev().collect();
        let mut command = place.command(&[], &["python3", "-c", ESCAPE]);
        command.arg(backwards).env("TOKEN", secret);
        let output = skillfreeze_testing::Output::of(&mut command);
        assert_eq!(output.ok(), ESCAPES, "{output:#?}");
        place.verify();
    }
}

/// What a read-only bind of a socket would not prevent is prevented by refusing the bind.
#[test]
fn a_socket_of_the_host_cannot_be_bound() {
    for place in Place::each() {
        let socket = Listening::at(place.work("socket")).unwrap();
        for option in ["--bind", "--ro-bind"] {
            let path = socket.path.to_str().unwrap();
            place.run(&["--json", option, path], &["true"]).fails(125, "bind-special-file");
        }
    }
}

//! A hostile command: what it tries, and what the kernel answers.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use skillfreeze_testing::{record_skip, set_mode, tree};

use super::{Place, Way};

const ATTACK: &str = include_str!("attack.py");

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

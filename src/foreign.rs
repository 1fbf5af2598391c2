//! Somebody else's program at one end of a connection, watched from outside.
//!
//! The program runs in the lab of the thread that starts it (see [`sys::process`](crate::sys::process)); the other
//! end of its connection is a socket of ours, and its own socket is a duplicate: its options and its `TCP_INFO` are read
//! without its help.
//!
//! ```no_run
//! use smallwrites::foreign::{Foreign, Program, Talk};
//! use smallwrites::lab::{self, Conditions};
//!
//! lab::enter()?;
//! let message = Conditions::default().run(|lab| {
//!     let front = Foreign::listen(lab)?;
//!     let curl = Program::new("curl").args(["-s", "http://127.0.0.1:7007/"]);
//!     let curl = Foreign::start(&curl)?;
//!     let mut talk = Talk::new(&curl, curl.accept(&front)?)?;
//!     talk.hear(|bytes| bytes.ends_with(b"\r\n\r\n"))
//! })??;
//! assert_eq!(message.segments, Some(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod talk;

pub use talk::{Message, Talk};

use crate::exchange::Side;
use crate::lab::{self, Lab};
use crate::sys::process::{self, Process};
use crate::sys::{diag, transfer, transfer::Interest};
use socket2::Socket;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// No single wait for a program lasts longer. A machine under load takes seconds to start one.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Where a connection is awaited, by the program or by us: a lab has every port to itself.
pub const PORT: u16 = 7007;

/// Between two looks at something that the kernel does not wake anyone for.
const LOOK: Duration = Duration::from_millis(2);

/// `TCP_ESTABLISHED` and `TCP_LISTEN` (include/net/tcp_states.h).
const ESTABLISHED: u8 = 1;
const LISTENING: u8 = 10;

/// Why a program could not be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ForeignError {
    /// It is not installed.
    #[error("{0} is not installed: install it, or put it on the PATH")]
    Absent(String),
    /// It ended before it had done its part.
    #[error("{program} ended while {doing}; it said: {said}")]
    Ended {
        /// Which.
        program: String,
        /// What was awaited.
        doing: &'static str,
        /// Its output.
        said: String,
    },
    /// A wait lasted longer than [`DEADLINE`].
    #[error("{program}: nothing for {} s while {doing}; it said: {said}", DEADLINE.as_secs())]
    Deadline {
        /// Which.
        program: String,
        /// What was awaited.
        doing: &'static str,
        /// Its output.
        said: String,
    },
    /// It closed the connection in the middle of a message.
    #[error("{program} closed the connection after {bytes} bytes of a message; it said: {said}")]
    Closed {
        /// Which.
        program: String,
        /// Bytes of the message so far.
        bytes: usize,
        /// Its output.
        said: String,
    },
    /// A refusal of the kernel.
    #[error("cannot {doing}: {source}")]
    Call {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        source: io::Error,
    },
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    name: String,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

/// A running program; dropping it kills it and everything that it started.
#[derive(Debug)]
pub struct Foreign {
    name: String,
    process: Process,
}

impl Program {
    /// A program by its name, found by [`find`].
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), arguments: Vec::new(), environment: Vec::new() }
    }

    /// The same with more arguments.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// The same with a variable in its environment, which otherwise holds nothing but `PATH` and `HOME`.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }
}

impl Foreign {
    /// Starts a program in the calling thread's lab.
    ///
    /// # Errors
    ///
    /// Where it is not installed, or the kernel refuses it the namespaces of its own.
    pub fn start(program: &Program) -> Result<Self, ForeignError> {
        let Program { name, arguments, environment } = program;
        let path = find(name).ok_or_else(|| ForeignError::Absent(name.clone()))?;
        let mut command = Command::new(path);
        // What the machine's user has set up for it (proxies, start-up files) has no place in a claim.
        command.args(arguments).env_clear().env("PATH", search_path()).env("HOME", process::FOLDER);
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let process = Process::start(command).map_err(call(format!("start {name}")))?;
        Ok(Self { name: name.clone(), process })
    }

    /// A listening socket of ours on [`PORT`], for a program that connects.
    ///
    /// # Errors
    ///
    /// What the kernel says.
    pub fn listen(lab: &Lab) -> Result<Socket, ForeignError> {
        let listen = || {
            let socket = lab.socket(Side::Server)?;
            socket.bind(&SocketAddr::new(lab.address(), PORT).into())?;
            socket.listen(16)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        listen().map_err(call(format!("listen on port {PORT} of the lab")))
    }

    /// Our end of the connection that the program opens, non-blocking.
    ///
    /// # Errors
    ///
    /// Where it ends first, or opens none in time.
    pub fn accept(&self, front: &Socket) -> Result<Socket, ForeignError> {
        self.until("a connection of its own was awaited", Some(front), || match front.accept() {
            Ok((socket, _)) => socket.set_nonblocking(true).map(|()| Some(socket)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Our end of a connection to the program's [`PORT`], non-blocking, once it listens there.
    ///
    /// # Errors
    ///
    /// Where it ends first, or does not listen in time.
    pub fn connect(&self, lab: &Lab) -> Result<Socket, ForeignError> {
        let address = SocketAddr::new(lab.address(), PORT);
        self.until("its listening port was awaited", None, || {
            let listens = |socket: &diag::DiagSocket| socket.state == LISTENING && socket.local == address;
            Ok(diag::sockets(diag::Family::V4)?.iter().any(listens).then_some(()))
        })?;
        let connect = || {
            let socket = lab.socket(Side::Client)?;
            socket.connect(&address.into())?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        connect().map_err(call(format!("connect to {}", self.name)))
    }

    /// The program's own socket of a connection, given ours.
    ///
    /// # Errors
    ///
    /// Where no process of the lab comes to hold it in time, or may not be looked into.
    pub fn other_end(&self, ours: &Socket) -> Result<OwnedFd, ForeignError> {
        let ends = || Ok((ours.local_addr()?.as_socket(), ours.peer_addr()?.as_socket()));
        let (local, remote) = ends().map_err(call("read a connection's addresses".to_owned()))?;
        self.until("its end of the connection was looked for", None, || {
            Ok(held_sockets(|socket| Some(socket.local) == remote && Some(socket.remote) == local)?.pop())
        })
    }

    /// Sockets of open connections that processes of the calling thread's lab hold, chosen by their own port and
    /// their peer's.
    ///
    /// # Errors
    ///
    /// Where the lab's sockets cannot be listed, or a process may not be looked into.
    pub fn sockets(&self, which: impl Fn(u16, u16) -> bool) -> Result<Vec<OwnedFd>, ForeignError> {
        let chosen =
            |socket: &diag::DiagSocket| socket.state == ESTABLISHED && which(socket.local.port(), socket.remote.port());
        held_sockets(chosen).map_err(call(format!("look for sockets of {}", self.name)))
    }

    /// Waits until `ready` has an answer, looking again and again.
    ///
    /// # Errors
    ///
    /// Its own, or where the program ends first, or none comes in time.
    pub fn wait_for<T>(
        &self,
        doing: &'static str,
        mut ready: impl FnMut() -> Result<Option<T>, ForeignError>,
    ) -> Result<T, ForeignError> {
        // The error that ends the wait, beside the kernel's own.
        self.until(doing, None, || Ok(ready().transpose()))?
    }

    /// What it has written to its outputs.
    #[must_use]
    pub fn said(&self) -> String {
        self.process.output()
    }

    /// Waits until `ready` has an answer: woken by a socket where there is one to wait for, else by looking again.
    fn until<T>(
        &self,
        doing: &'static str,
        socket: Option<&Socket>,
        mut ready: impl FnMut() -> io::Result<Option<T>>,
    ) -> Result<T, ForeignError> {
        let started = Instant::now();
        loop {
            // Looked at before the answer: what it did last still counts.
            let ended = self.process.ends_within(Duration::ZERO).map_err(call(format!("wait for {}", self.name)))?;
            match ready() {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(call(format!("go on while {doing}"))(error)),
            }
            let (program, said) = (self.name.clone(), self.said());
            if ended {
                return Err(ForeignError::Ended { program, doing, said });
            }
            if started.elapsed() > DEADLINE {
                return Err(ForeignError::Deadline { program, doing, said });
            }
            let waited = match socket {
                Some(socket) => transfer::wait(&[(socket.as_fd(), Interest::READ)], Some(2 * LOOK)).map(|_| ()),
                None => self.process.ends_within(LOOK).map(|_| ()),
            };
            match waited {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return Err(call(format!("wait for {}", self.name))(error));
                }
                _ => {}
            }
        }
    }
}

/// Duplicates of the sockets of this thread's network namespace that fit and that another process holds.
fn held_sockets(fits: impl Fn(&diag::DiagSocket) -> bool) -> io::Result<Vec<OwnedFd>> {
    let sockets = diag::sockets(diag::Family::V4)?;
    // 0 until a program has accepted it.
    let inodes: Vec<u64> = sockets.iter().filter(|it| it.inode != 0 && fits(it)).map(|it| it.inode.into()).collect();
    if inodes.is_empty() { Ok(Vec::new()) } else { process::duplicate_sockets(&inodes) }
}

/// Where a program is: on the `PATH`, where daemons live, or where PostgreSQL keeps its own.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = search_path();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))));
    }
    folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Whether programs can be started and watched here, tried once.
///
/// # Errors
///
/// Why not, in words.
pub fn available() -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let attempt = || {
        lab::Conditions::default().run(|lab| {
            let front = Foreign::listen(lab).map_err(|error| error.to_string())?;
            // This very process's network namespace, a shell, and a descriptor of the shell's.
            let shell = Foreign::start(&Program::new("sh").args(["-c", "echo ready; exec sleep 60"]));
            let shell = shell.map_err(|error| error.to_string())?;
            drop(front);
            let looked = shell.until("its start was awaited", None, || {
                let seen = process::neighbours()?;
                seen.first().map(|id| process::duplicate(*id, 0)).transpose()
            });
            looked.map(|_| ()).map_err(|error| error.to_string())
        })
    };
    ANSWER.get_or_init(|| attempt().unwrap_or_else(|error| Err(error.to_string()))).clone()
}

fn search_path() -> std::ffi::OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for folder in ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/sbin"] {
        if !folders.iter().any(|known| known == Path::new(folder)) {
            folders.push(folder.into());
        }
    }
    // A folder with a separator in its name came from no PATH.
    std::env::join_paths(folders).unwrap_or(path)
}

fn call(doing: String) -> impl FnOnce(io::Error) -> ForeignError {
    move |source| ForeignError::Call { doing, source }
}

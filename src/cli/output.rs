//! Standard output, files and progress.

use super::{Status, Trouble};
use smallwrites::report::Style;
use smallwrites::sys::terminal;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Where a report goes, opened before anything runs.
#[derive(Debug)]
pub(super) enum Target {
    Standard,
    File(PathBuf, File),
}

/// Refuses to work for nobody.
pub(super) fn check() -> Result<(), Trouble> {
    if terminal::standard_output_was_open() {
        Ok(())
    } else {
        Err(Trouble::Usage("standard output is closed; give it somewhere to go, or use --out FILE".to_owned()))
    }
}

/// Writes to standard output.
pub(super) fn print(text: &str) -> Result<Status, Trouble> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map(|()| Status::Fine).map_err(|error| Trouble::Usage(format!("cannot write to standard output: {error}")))
}

/// One line on standard error, if anybody reads it.
pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "smallwrites: {text}");
}

impl Target {
    /// Opens it now, so that a bad path fails before the work and not after it.
    pub(super) fn open(path: Option<&Path>) -> Result<Self, Trouble> {
        let Some(path) = path else { return Ok(Self::Standard) };
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self::File(path.to_owned(), file))
    }

    pub(super) fn write(mut self, text: &str) -> Result<(), Trouble> {
        self.append(text)
    }

    /// Writes a part at once; more may follow.
    pub(super) fn append(&mut self, text: &str) -> Result<(), Trouble> {
        match self {
            Self::Standard => print(text).map(|_| ()),
            Self::File(path, file) => file.write_all(text.as_bytes()).map_err(|error| unwritable(path, &error)),
        }
    }

    pub(super) fn style(&self) -> Style {
        match self {
            Self::Standard if io::stdout().is_terminal() => Style {
                colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
                width: terminal::width(io::stdout()),
            },
            _ => Style::default(),
        }
    }
}

/// A baseline to be written. The old one stays until the new one is complete, so that a run that was cut off leaves
/// either and never a part.
#[derive(Debug)]
pub(super) struct Saved {
    path: PathBuf,
    /// Written first and renamed; `None` where the path is no ordinary file and is written as it is.
    beside: Option<PathBuf>,
    file: Option<File>,
}

impl Saved {
    pub(super) fn open(path: &Path) -> Result<Self, Trouble> {
        let ordinary = path.metadata().map_or(true, |entry| entry.is_file());
        let beside = ordinary.then(|| {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}.part", std::process::id()));
            PathBuf::from(name)
        });
        let file = File::create(beside.as_deref().unwrap_or(path)).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), beside, file: Some(file) })
    }

    pub(super) fn write(mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let path = self.path.clone();
        let mut write = || {
            if let Some(mut file) = self.file.take() {
                file.write_all(bytes)?;
            }
            match self.beside.take() {
                Some(beside) => std::fs::rename(&beside, &path).inspect_err(|_| drop(std::fs::remove_file(&beside))),
                None => Ok(()),
            }
        };
        write().map_err(|error| unwritable(&path, &error))
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            let _ = std::fs::remove_file(beside);
        }
    }
}

fn unwritable(path: &Path, error: &io::Error) -> Trouble {
    Trouble::Usage(format!("cannot write {}: {error}", path.display()))
}

/// A count of ended claims on standard error, on a terminal in place, elsewhere not at all.
#[derive(Debug)]
pub(super) struct Progress {
    shown: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { shown: io::stderr().is_terminal() }
    }

    pub(super) fn show(&self, text: &str) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    pub(super) fn clear(&self) {
        self.show("");
    }
}

//! Counters and sysctls of the network namespace this thread is in.
//!
//! Both live in `/proc`, and both have a trap. The counters must be read below
//! `/proc/thread-self`: `/proc/net` and `/proc/self/net` show the namespace of
//! the process's *main* thread. `/proc/sys/net` has no such form and follows
//! the calling thread by itself.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use super::{context, malformed};

const SNMP: &str = "/proc/thread-self/net/snmp";
const NETSTAT: &str = "/proc/thread-self/net/netstat";

/// One reading of the namespace's protocol counters.
///
/// The names are those of nstat(8): the group and the column, as
/// `TcpExtDelayedACKs`, `TcpOutSegs`, `TcpRetransSegs`. Which exist depends on
/// the kernel, so an absent one is `None` and not zero. A counter belongs to
/// the whole namespace: on loopback both ends of a connection add to it, and
/// outside a private namespace so does everything else.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::counters::Counters;
///
/// let before = Counters::read()?;
/// drop(std::net::TcpListener::bind("127.0.0.1:0")?);
/// let after = Counters::read()?;
/// assert!(after.get("TcpOutSegs") >= before.get("TcpOutSegs"));
/// assert_eq!(after.get("TcpExtNoSuchCounter"), None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    values: BTreeMap<String, u64>,
}

impl Counters {
    /// Reads `/proc/thread-self/net/snmp` and `netstat`.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or that is not pairs of lines.
    pub fn read() -> io::Result<Counters> {
        let mut values = BTreeMap::new();
        for path in [SNMP, NETSTAT] {
            let text = fs::read_to_string(path).map_err(|error| context(error, format!("read {path}")))?;
            parse(&text, &mut values).map_err(|error| context(error, format!("read {path}")))?;
        }
        Ok(Counters { values })
    }

    /// The value of one counter, `None` where this kernel has none by that
    /// name. The two columns that are negative limits (`TcpMaxConn`) are left
    /// out too.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(name).copied()
    }

    /// Every counter with its value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.values.iter().map(|(name, &value)| (name.as_str(), value))
    }

    /// What changed since `before`, unchanged ones left out, and so are names
    /// that only one of the two knows. Negative where a gauge (`TcpCurrEstab`)
    /// fell.
    pub fn since(&self, before: &Counters) -> BTreeMap<String, i64> {
        self.values
            .iter()
            .filter_map(|(name, &now)| {
                // Wrapping, so that a counter passing its end is still a small step.
                let step = now.wrapping_sub(before.get(name)?) as i64;
                (step != 0).then(|| (name.clone(), step))
            })
            .collect()
    }
}

impl<S: Into<String>> FromIterator<(S, u64)> for Counters {
    fn from_iter<I: IntoIterator<Item = (S, u64)>>(values: I) -> Counters {
        let values = values.into_iter().map(|(name, value)| (name.into(), value)).collect();
        Counters { values }
    }
}

/// The values of a few counters, in the order of `names`: what [`Counters`]
/// reads, but without building it, for a reading at each request.
///
/// Opens only the file or files the names are in and keeps its buffer, so the
/// kernel's own formatting is nearly all of the cost.
///
/// # Errors
///
/// A file that cannot be read or that is not pairs of lines.
///
/// # Examples
///
/// ```
/// use smallwrites::sys::counters::read_named;
///
/// let values = read_named(&["TcpExtDelayedACKs", "TcpExtNoSuchCounter"])?;
/// assert!(values[0].is_some());
/// assert_eq!(values[1], None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_named(names: &[&'static str]) -> io::Result<Vec<Option<u64>>> {
    thread_local! {
        static BUFFER: RefCell<String> = const { RefCell::new(String::new()) };
    }
    let in_netstat = |name: &&str| ["TcpExt", "IpExt", "MPTcpExt"].iter().any(|group| name.starts_with(group));
    let mut values = vec![None; names.len()];
    BUFFER.with_borrow_mut(|buffer| {
        for (path, wanted) in [(NETSTAT, names.iter().any(in_netstat)), (SNMP, !names.iter().all(in_netstat))] {
            if !wanted {
                continue;
            }
            buffer.clear();
            File::open(path)
                .and_then(|mut file| file.read_to_string(buffer))
                .map_err(|error| context(error, format!("read {path}")))?;
            pick(buffer, names, &mut values).map_err(|error| context(error, format!("read {path}")))?;
        }
        Ok(values)
    })
}

/// The counters of the namespace that it was opened in, whichever thread reads
/// them and wherever that thread is.
///
/// It keeps the two files of `/proc` open, so a reading costs little more than
/// the kernel's own formatting. It also keeps the namespace alive.
#[derive(Debug)]
pub struct Reader {
    snmp: File,
    netstat: File,
}

impl Reader {
    /// Opens the counters of the namespace that the thread is in.
    ///
    /// # Errors
    ///
    /// Where `/proc` is not mounted.
    ///
    /// # Examples
    ///
    /// ```
    /// use smallwrites::sys::counters::{Counters, Reader};
    ///
    /// let reader = Reader::open()?;
    /// assert!(reader.read()?.get("TcpExtDelayedACKs") >= Some(0));
    /// assert_eq!(reader.read_named(&["TcpExtNoSuchCounter"])?, [None]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn open() -> io::Result<Reader> {
        let open = |path| File::open(path).map_err(|error| context(error, format!("open {path}")));
        Ok(Reader { snmp: open(SNMP)?, netstat: open(NETSTAT)? })
    }

    /// All of them, as [`Counters::read`].
    ///
    /// # Errors
    ///
    /// A file that cannot be read or that is not pairs of lines.
    pub fn read(&self) -> io::Result<Counters> {
        let mut values = BTreeMap::new();
        for (path, file) in [(SNMP, &self.snmp), (NETSTAT, &self.netstat)] {
            with_text(file, |text| parse(text, &mut values)).map_err(|error| context(error, format!("read {path}")))?;
        }
        Ok(Counters { values })
    }

    /// A few of them, as [`read_named`].
    ///
    /// # Errors
    ///
    /// A file that cannot be read or that is not pairs of lines.
    pub fn read_named(&self, names: &[&'static str]) -> io::Result<Vec<Option<u64>>> {
        let in_netstat = |name: &&str| ["TcpExt", "IpExt", "MPTcpExt"].iter().any(|group| name.starts_with(group));
        let mut values = vec![None; names.len()];
        for (path, file, wanted) in
            [(NETSTAT, &self.netstat, names.iter().any(in_netstat)), (SNMP, &self.snmp, !names.iter().all(in_netstat))]
        {
            if wanted {
                with_text(file, |text| pick(text, names, &mut values))
                    .map_err(|error| context(error, format!("read {path}")))?;
            }
        }
        Ok(values)
    }
}

/// Calls with the whole of a file of `/proc` that the kernel writes in one go.
///
/// One read at offset 0 takes all of it: a second read by another thread would
/// begin anew in between, and its numbers might be of another length.
fn with_text(file: &File, take: impl FnOnce(&str) -> io::Result<()>) -> io::Result<()> {
    /// Both files have about 5 KiB.
    const LARGEST: usize = 32 * 1024;
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(LARGEST, 0);
        let length = file.read_at(buffer, 0)?;
        let text = std::str::from_utf8(&buffer[..length]).map_err(|_| malformed("counters that are no text"))?;
        if length == LARGEST || !text.ends_with('\n') {
            return Err(malformed(format!("counters of more than {length} bytes")));
        }
        take(text)
    })
}

/// The value of a sysctl by its dotted name, in this thread's namespace,
/// without the line end.
///
/// As in sysctl(8), a `/` in the name is a dot of the path, for a device
/// whose name holds one: `net.ipv4.conf.eth0/1.forwarding`.
///
/// # Errors
///
/// `NotFound` where this kernel or this namespace has none by that name.
///
/// # Examples
///
/// ```
/// let autocorking = smallwrites::sys::counters::sysctl("net.ipv4.tcp_autocorking")?;
/// assert!(autocorking == "0" || autocorking == "1");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn sysctl(name: &str) -> io::Result<String> {
    let path = sysctl_path(name)?;
    let mut value = fs::read_to_string(path).map_err(|error| context(error, format!("read sysctl {name}")))?;
    value.truncate(value.trim_end().len());
    Ok(value)
}

/// Sets a sysctl by its dotted name, in this thread's namespace.
///
/// # Errors
///
/// `NotFound` where there is none by that name, `PermissionDenied` without
/// `CAP_NET_ADMIN` over the namespace, `InvalidInput` for a value the kernel
/// refuses.
pub fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    let path = sysctl_path(name)?;
    // Not fs::write, which would ask to create and truncate a file of /proc.
    File::options()
        .write(true)
        .open(path)
        .and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()))
        .map_err(|error| {
            let remedy = match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    " (needs CAP_NET_ADMIN over the network namespace: run in a private one)"
                }
                _ => "",
            };
            context(error, format!("set sysctl {name} to {value:?}{remedy}"))
        })
}

/// Every readable `net.ipv4.tcp_*` of this thread's namespace, by dotted name.
///
/// The key of TCP Fast Open is left out: it is a secret, and a result file is
/// not.
///
/// # Errors
///
/// Where `/proc/sys/net/ipv4` itself cannot be listed.
pub fn tcp_sysctls() -> io::Result<BTreeMap<String, String>> {
    const DIRECTORY: &str = "/proc/sys/net/ipv4";
    let entries = fs::read_dir(DIRECTORY).map_err(|error| context(error, format!("list {DIRECTORY}")))?;
    let mut values = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(|error| context(error, format!("list {DIRECTORY}")))?;
        let Ok(file) = entry.file_name().into_string() else {
            continue;
        };
        if !file.starts_with("tcp_") || file == "tcp_fastopen_key" {
            continue;
        }
        let name = format!("net.ipv4.{file}");
        if let Ok(value) = sysctl(&name) {
            values.insert(name, value);
        }
    }
    Ok(values)
}

fn sysctl_path(name: &str) -> io::Result<PathBuf> {
    let path: String = name
        .chars()
        .map(|character| match character {
            '.' => '/',
            '/' => '.',
            other => other,
        })
        .collect();
    if path.split('/').any(|part| part.chars().all(|character| character == '.')) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a sysctl name: use the dotted form, net.ipv4.tcp_sack"),
        ));
    }
    Ok(PathBuf::from("/proc/sys").join(path))
}

/// Calls `each` for each pair of lines with the group's name, its columns and
/// their values.
fn groups<'a>(text: &'a str, mut each: impl FnMut(&'a str, &'a str, &'a str)) -> io::Result<()> {
    let mut lines = text.lines();
    while let Some(columns) = lines.next() {
        let values = lines.next().unwrap_or_default();
        match (columns.split_once(": "), values.split_once(": ")) {
            (Some((group, columns)), Some((same, values))) if group == same => {
                each(group, columns, values);
            }
            _ => return Err(malformed(format!("no line of values under {columns:?}"))),
        }
    }
    Ok(())
}

fn parse(text: &str, into: &mut BTreeMap<String, u64>) -> io::Result<()> {
    groups(text, |group, columns, values| {
        for (column, value) in columns.split(' ').zip(values.split(' ')) {
            if let Ok(value) = value.parse() {
                into.insert(format!("{group}{column}"), value);
            }
        }
    })
}

fn pick(text: &str, names: &[&str], into: &mut [Option<u64>]) -> io::Result<()> {
    groups(text, |group, columns, values| {
        if !names.iter().any(|name| name.starts_with(group)) {
            return;
        }
        for (column, value) in columns.split(' ').zip(values.split(' ')) {
            for (name, slot) in names.iter().zip(into.iter_mut()) {
                if name.strip_prefix(group) == Some(column) {
                    *slot = value.parse().ok();
                }
            }
        }
    })
}

#[cfg(test)]
mod tests;

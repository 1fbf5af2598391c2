//! What `ss -tni` itself prints during a stall, where it is installed: the same dump of `sock_diag`, in its words.

use crate::claims::Stage;
use crate::claims::stage::until;
use crate::exchange::{Side, Sides};
use crate::expect::{Failure, Kind};
use crate::foreign;
use crate::lab::Lab;
use crate::sys::options::{self, SocketOption};
use crate::sys::transfer::{self, Flags};
use std::io::{self, Read, Seek, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

const REQUESTS: u64 = 8;

/// A socket's lines in the output of `ss -tni`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Printed(String);

impl Printed {
    /// Of a pair `name:value`; `None` where it is not printed, as a count of 0 is not.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        let words = self.0.split_whitespace();
        words.filter_map(|word| word.split_once(':')).find(|(found, _)| *found == name)?.1.parse().ok()
    }

    /// Bytes that were written and not yet acknowledged.
    pub(super) fn send_queue(&self) -> Option<u64> {
        self.0.split_whitespace().nth(2)?.parse().ok()
    }

    /// The socket's in a whole output: the line with its addresses and the one below.
    fn find(output: &str, local: SocketAddr, remote: SocketAddr) -> Option<Self> {
        let (local, remote) = (local.to_string(), remote.to_string());
        let mut lines = output.lines().skip_while(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.get(3..5) != Some(&[local.as_str(), remote.as_str()])
        });
        Some(Self(format!("{} {}", lines.next()?, lines.next()?)))
    }
}

/// Judges what `ss` prints of one side in each stall of write-write-read, given the number of the request. Says in how
/// many requests it was there in time; `None` where it was in none, as where it is not installed.
pub(super) fn agrees(
    stage: &Stage<'_>,
    side: Side,
    fits: impl Fn(u64, &Printed) -> bool,
) -> Result<Option<String>, Failure> {
    let printed = stage.ask(in_stalls)?;
    let wrong = printed.iter().find(|(number, printed)| !fits(*number, &printed[side]));
    if let Some((number, printed)) = wrong {
        let because = "it prints what sock_diag answers";
        let saw = format!("request {number}: {}", printed[side].0);
        return Err(Failure::plain(Kind::Answer, "ss -tni shows what sock_diag lists", because, saw));
    }
    Ok((!printed.is_empty()).then(|| format!("ss -tni shows the same in {} of {REQUESTS} stalls", printed.len())))
}

/// What `ss` prints while the client's second write is held; requests in which it came too late to see that are left out.
fn in_stalls(lab: &Lab) -> io::Result<Vec<(u64, Sides<Printed>)>> {
    let Some(path) = foreign::find("ss") else { return Ok(Vec::new()) };
    let pair = lab.pair(&[])?;
    let addresses = (pair.client.local_addr()?.as_socket(), pair.server.local_addr()?.as_socket());
    let (Some(client), Some(server)) = addresses else { return Ok(Vec::new()) };
    let mut shown = Vec::new();
    for number in 1..=REQUESTS {
        options::set(&pair.server, SocketOption::QuickAck, 0)?;
        for _ in 0..2 {
            transfer::send(&pair.client, &[b'x'; 10], Flags::NONE)?;
        }
        let output = output_of(&path).unwrap_or_default();
        let found = Printed::find(&output, client, server).zip(Printed::find(&output, server, client));
        // Nothing held any more, or not said by this ss.
        if let Some((client, server)) = found.filter(|(client, _)| client.number("notsent").is_some()) {
            shown.push((number, Sides { client, server }));
        }
        (&pair.server).read_exact(&mut [0; 20])?;
        (&pair.server).write_all(&[b'x'; 20])?;
        (&pair.client).read_exact(&mut [0; 20])?;
    }
    Ok(shown)
}

/// What `ss -tni` prints in this thread's namespace; nothing where it takes too long.
fn output_of(path: &Path) -> io::Result<String> {
    let mut output = transfer::memory_file("ss", 0)?;
    let mut command = Command::new(path);
    command.arg("-tni").env_clear().stdin(Stdio::null()).stdout(output.try_clone()?).stderr(Stdio::null());
    let mut child = command.spawn()?;
    if until(|| child.try_wait()).is_err() {
        child.kill()?;
        child.wait()?;
        return Ok(String::new());
    }
    let mut text = Vec::new();
    output.rewind()?;
    output.read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
State Recv-Q Send-Q Local Address:Port Peer Address:Port
ESTAB 0      0          127.0.0.1:7000     127.0.0.1:40000
\t reno wscale:7,7 rto:204 rtt:0.1/0.05 ato:40 mss:32768 rcvmss:536 bytes_received:70
ESTAB 0      20         127.0.0.1:40000    127.0.0.1:7000
\t reno wscale:7,7 rto:204 bytes_sent:70 unacked:1 notsent:10 minrtt:0.02
";

    #[test]
    fn a_sockets_two_lines_are_read() {
        let [near, far] = ["127.0.0.1:40000", "127.0.0.1:7000"].map(|address| address.parse().unwrap());
        let client = Printed::find(OUTPUT, near, far).unwrap();
        let numbers = ["unacked", "notsent", "bytes_sent", "ato"].map(|name| client.number(name));
        assert_eq!((numbers, client.send_queue()), ([Some(1.0), Some(10.0), Some(70.0), None], Some(20)));
        let server = Printed::find(OUTPUT, far, near).unwrap();
        assert_eq!((server.number("ato"), server.send_queue()), (Some(40.0), Some(0)));
    }

    #[test]
    fn a_socket_that_is_not_listed_has_none() {
        let [near, far] = ["127.0.0.1:40001", "127.0.0.1:7000"].map(|address| address.parse().unwrap());
        assert_eq!(Printed::find(OUTPUT, near, far), None);
    }
}

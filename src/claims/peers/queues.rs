//! What sockets tell of their queues: what is left to read, what is not sent, and when data last came.

use crate::claims::article::answer;
use crate::claims::stage::{Judged, PATIENCE, until};
use crate::claims::{Claim, Control, Document, Evidence, Expected, Need, Scene, Stage, Twist};
use crate::expect::{Kind, expect};
use crate::lab::Lab;
use crate::observation::{Request, Socket, Write};
use crate::sys::messages::{self, Completion};
use crate::sys::options::{self, SocketOption};
use crate::sys::tcp_info::TcpInfo;
use crate::sys::transfer::{self, Flags, Interest};
use crate::verdict::was_late;
use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const SECTION: &str = "queues";

pub(super) static CLAIMS: &[Claim] = &[
    Claim {
        id: "one-zerocopy-byte-is-copied",
        document: Document::Beyond,
        section: SECTION,
        says: "a send of one byte with MSG_ZEROCOPY completes when it is acknowledged, on loopback as copied",
        expected: Expected::Holds,
        source: "skb_orphan_frags_rx, __msg_zerocopy_callback (SO_EE_CODE_ZEROCOPY_COPIED); packetdrill zerocopy/small",
        needs: &[],
        check: zero_copy,
        control: Control { breaks: "SO_ZEROCOPY is not set, so that the flag is ignored", twist: Twist::Check },
    },
    Claim {
        id: "notsent-lowat-delays-pollout",
        document: Document::Beyond,
        section: SECTION,
        says: "TCP_NOTSENT_LOWAT reads 0 until it is set, and no POLLOUT comes while unsent bytes reach the mark",
        expected: Expected::HoldsWithLimit(
            "POLLOUT is gone from half the mark on already, and a write that fits the last buffer is taken beyond the mark too",
        ),
        source: "tcp_stream_memory_free (notsent_bytes << wake), tcp_sendmsg_locked (asks where it needs a new buffer); packetdrill notsent_lowat/*",
        needs: &[],
        check: low_water,
        control: Control { breaks: "the mark is not set", twist: Twist::Check },
    },
    Claim {
        id: "notsent-lowat-sysctl-sets-the-mark",
        document: Document::Beyond,
        section: SECTION,
        says: "net.ipv4.tcp_notsent_lowat delays POLLOUT likewise where the option is not set",
        expected: Expected::Holds,
        source: "tcp_notsent_lowat; packetdrill notsent_lowat/notsent-lowat-sysctl",
        needs: &[Need::PrivateLab, Need::Sysctl(LOWAT)],
        check: |stage| {
            let mark = if stage.is_twisted() { "4294967295" } else { "1000" };
            let asked = stage.lab(|base| base.sysctl(LOWAT, mark), |lab| marks(lab, None))?;
            judged(asked.map_err(|error| answer("the question can be asked", "sockets of a lab", error.to_string()))?)
        },
        control: Control { breaks: "the sysctl's own default", twist: Twist::Check },
    },
    Claim {
        id: "blocking-read-returns-with-the-first-segment",
        document: Document::Beyond,
        section: SECTION,
        says: "a blocking read of more bytes returns with what one segment brought, for each segment anew",
        expected: Expected::Holds,
        source: "tcp_recvmsg_locked (sock_rcvlowat), tcp_data_ready; packetdrill blocking/blocking-read",
        needs: &[],
        check: blocking_read,
        control: Control { breaks: "SO_RCVLOWAT of two segments", twist: Twist::Check },
    },
    Claim {
        id: "unread-bytes-and-one-for-the-fin",
        document: Document::Beyond,
        section: SECTION,
        says: "SIOCINQ and TCP_INQ tell the bytes left to read, and TCP_INQ counts a FIN as one, read or not",
        expected: Expected::Holds,
        source: "tcp_inq, tcp_inq_hint (SOCK_DONE); packetdrill inq/client, ioctl/ioctl-siocinq-fin",
        needs: &[],
        check: unread,
        control: Control { breaks: "no FIN", twist: Twist::Check },
    },
    Claim {
        id: "last-data-recv-ages-until-data-comes",
        document: Document::Beyond,
        section: SECTION,
        says: "tcpi_last_data_recv grows with time and starts anew with each segment of data",
        expected: Expected::Holds,
        source: "tcp_event_data_recv (lrcvtime), tcp_get_info; packetdrill tcp_info/tcp-info-last_data_recv",
        needs: &[],
        check: last_data,
        control: Control { breaks: "no data in between", twist: Twist::Instead("C: W10 R1 R1 / S: R10 P120 W1 W1") },
    },
];

const LOWAT: &str = "net.ipv4.tcp_notsent_lowat";

fn zero_copy(stage: &Stage<'_>) -> Judged {
    let twisted = stage.is_twisted();
    let completion = stage.ask(|lab| {
        let pair = lab.pair(&[])?;
        options::set(&pair.client, SocketOption::ZeroCopy, i32::from(!twisted))?;
        transfer::send(&pair.client, b"x", Flags { zero_copy: true, ..Flags::NONE })?;
        until(|| Ok((options::unacknowledged(&pair.client)? == 0).then_some(())))?;
        // It waits for the socket's lock: the ACK has then been dealt with to its end.
        TcpInfo::read(&pair.client)?;
        messages::completion(&pair.client)
    })?;
    match completion {
        Some(Completion { first: 0, last: 0, copied: true }) => {
            Ok(Evidence::says("one completion once the byte is acknowledged, and it says copied", ""))
        }
        other => {
            let because = "what a socket of the same host gets has to be copied, and the error queue says so";
            Err(answer("a completion of send 0 that says copied", because, format!("{other:?}")))
        }
    }
}

fn low_water(stage: &Stage<'_>) -> Judged {
    let mark = if stage.is_twisted() { None } else { Some(1000) };
    let default = stage.ask(|lab| options::get(&lab.pair(&[])?.client, SocketOption::NotSentLowat))?;
    if default != 0 {
        return Err(answer("TCP_NOTSENT_LOWAT 0", "the sysctl's mark holds where it is 0", default.to_string()));
    }
    judged(stage.ask(|lab| marks(lab, mark))?).map(|evidence| evidence.and("TCP_NOTSENT_LOWAT reads 0 at first"))
}

/// Whether poll says POLLOUT, and whether a write is taken, with so many bytes unsent.
type Marks = Vec<(u32, bool, bool)>;

fn judged(marks: Marks) -> Judged {
    let expected = [(0, true, true), (400, true, true), (600, false, true), (1000, false, true)];
    if marks != expected {
        let because = "poll doubles the unsent bytes before it compares; a write asks only where it needs a new buffer";
        let saw = format!("unsent bytes, POLLOUT, a write taken: {marks:?}");
        return Err(answer(
            "with a mark of 1000 POLLOUT below 500 unsent bytes, and one byte taken always",
            because,
            saw,
        ));
    }
    let canonical =
        "with a mark of 1000: POLLOUT at 0 and 400 unsent bytes, none at 600 and 1000, where a byte is taken yet";
    Ok(Evidence::says(canonical, ""))
}

fn marks(lab: &Lab, mark: Option<i32>) -> io::Result<Marks> {
    [0, 400, 600, 1000].into_iter().map(|unsent| at_mark(lab, mark, unsent)).collect()
}

/// A cork keeps the bytes unsent until its timer takes them: what was seen with other bytes unsent does not count.
fn at_mark(lab: &Lab, mark: Option<i32>, unsent: u32) -> io::Result<(u32, bool, bool)> {
    until(|| {
        let pair = lab.pair(&[])?;
        if let Some(mark) = mark {
            options::set(&pair.client, SocketOption::NotSentLowat, mark)?;
        }
        options::set(&pair.client, SocketOption::Cork, 1)?;
        if unsent > 0 {
            transfer::send(&pair.client, &vec![b'x'; unsent as usize], Flags::NONE)?;
        }
        let writable = is_ready(&pair.client, Interest::WRITE)?;
        let taken = match transfer::send(&pair.client, b"x", Flags { dont_wait: true, ..Flags::NONE }) {
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => return Err(error),
        };
        let kept = options::not_sent(&pair.client)? == unsent + u32::from(taken);
        Ok(kept.then_some((unsent, writable, taken)))
    })
}

fn blocking_read(stage: &Stage<'_>) -> Judged {
    const SEGMENTS: usize = 8;
    let twisted = stage.is_twisted();
    // The control waits for what never comes.
    let patience = if twisted { Duration::from_millis(300) } else { PATIENCE };
    let counts = stage.ask(|lab| {
        let pair = lab.pair(&[])?;
        if twisted {
            options::set(&pair.server, SocketOption::ReceiveLowWater, 20)?;
        }
        let (told, counts) = mpsc::channel();
        let reader = pair.server;
        let client = pair.client;
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = transfer::receive(&reader, &mut bytes) {
                    let _ = told.send(count);
                }
            });
            let mut got = Vec::new();
            for _ in 0..SEGMENTS {
                transfer::send(&client, &[b'x'; 10], Flags::NONE)?;
                match counts.recv_timeout(patience) {
                    Ok(count) => got.push(count),
                    Err(_) => break,
                }
            }
            // Ends the reader too.
            drop(client);
            Ok(got)
        })
    })?;
    if counts != [10; SEGMENTS] {
        let because = "the reader is woken when SO_RCVLOWAT bytes are there, 1 by default, and takes what there is";
        return Err(answer("eight reads of 10 bytes each", because, format!("{counts:?}")));
    }
    Ok(Evidence::says("eight segments of 10 bytes, eight reads of 4096 that return 10", ""))
}

fn unread(stage: &Stage<'_>) -> Judged {
    let twisted = stage.is_twisted();
    let told = stage.ask(|lab| {
        let pair = lab.pair(&[])?;
        let (client, server) = (&pair.client, &pair.server);
        options::set(server, SocketOption::Inq, 1)?;
        let bytes = vec![b'x'; 10_000];
        let mut sent = 0;
        while sent < bytes.len() {
            sent += transfer::send(client, &bytes[sent..], Flags::NONE)?;
        }
        until(|| Ok((options::unread(server)? == 10_000).then_some(())))?;
        let mut told = vec![(0, None, options::unread(server)?)];
        let mut into = vec![0; 10_000];
        let mut read = |count: usize| {
            let (got, left) = messages::receive_and_ask(server, &mut into[..count])?;
            told.push((got, left, options::unread(server)?));
            io::Result::Ok(())
        };
        read(1000)?;
        if !twisted {
            client.shutdown(std::net::Shutdown::Write)?;
            // Acknowledged, it has been received.
            until(|| Ok((TcpInfo::read(client)?.state == Some(TCP_FIN_WAIT2)).then_some(())))?;
        }
        read(8000)?;
        read(1000)?;
        if !twisted {
            read(1000)?;
        }
        Ok(told)
    })?;
    let expected =
        [(0, None, 10_000), (1000, Some(9000), 9000), (8000, Some(1001), 1000), (1000, Some(1), 0), (0, Some(1), 0)];
    if told != expected {
        let because = "TCP_INQ is never 0 after a FIN, so that nobody stops reading before the end of the stream";
        let saw = format!("bytes read, TCP_INQ, SIOCINQ: {told:?}");
        return Err(answer(
            "both tell 9000, and after a FIN SIOCINQ 1000, 0 and 0 and TCP_INQ 1001, 1 and 1",
            because,
            saw,
        ));
    }
    Ok(Evidence::says(
        "of 10000 bytes both tell 9000; after a FIN SIOCINQ tells 1000 and 0, TCP_INQ 1001 and 1, at the end of the stream too",
        "",
    ))
}

/// `TCP_FIN_WAIT2` (include/net/tcp_states.h): the own FIN is acknowledged.
const TCP_FIN_WAIT2: u8 = 5;

fn last_data(stage: &Stage<'_>) -> Judged {
    const PAUSE_MS: u64 = 120;
    let seen = stage.play(Scene::of("C: W10 R1 W10 R1 / S: R10 P120 W1 R10 W1").requests(4))?;
    let jiffy = seen.environment.jiffy_us;
    let holds = "120 ms or more after a pause of 120 ms, and less time than passed since then once data came again";
    let judge = |request: &Request| {
        let mut writes = request.writes.iter().filter(|write| write.socket == Socket::Server);
        let (first, second) = (writes.next()?, writes.next()?);
        let age = |write: &Write| write.since_received_ms.map(|ms| u64::from(ms) * 1000);
        let (old, new) = (age(first)?, age(second)?);
        let passed = u64::try_from(second.at_us - first.at_us).ok()?;
        // The kernel counts jiffies that have begun.
        let fits = old + 2 * jiffy >= PAUSE_MS * 1000 && new <= passed + 2 * jiffy;
        let saw = || format!("{old} µs after the pause; {new} µs at the next write, {passed} µs later");
        (fits || !was_late(&seen, request)).then(|| if fits { Ok(()) } else { Err(saw()) })
    };
    let because = "tcpi_last_data_recv of the server as its writes return";
    Ok(expect(&seen).try_each(Kind::Answer, holds, because, judge)?.into())
}

fn is_ready(socket: impl AsFd, interest: Interest) -> io::Result<bool> {
    let ready = transfer::wait(&[(socket.as_fd(), interest)], Some(Duration::ZERO))?;
    Ok(ready.iter().any(|ready| ready.writable || ready.readable))
}

//! One netlink request and its answers, over a socket of its own.
//!
//! A netlink socket belongs to the namespace it was opened in, so each request
//! opens one: the request is then always about the namespace the calling
//! thread is in now.

use std::{io, time::Duration};

use netlink_packet_core::{NetlinkMessage, NetlinkPayload, NetlinkSerializable};
use netlink_sys::{Socket, SocketAddr};
use socket2::SockRef;

use super::malformed;

pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
pub(super) const NLM_F_DUMP: u16 = 0x300;
pub(super) const NLM_F_REPLACE: u16 = 0x100;
pub(super) const NLM_F_EXCL: u16 = 0x200;
pub(super) const NLM_F_CREATE: u16 = 0x400;

const NLM_F_DUMP_INTR: u16 = 0x10;
const NLM_F_CAPPED: u16 = 0x100;
const NLM_F_ACK_TLVS: u16 = 0x200;
const NLMSG_NOOP: u16 = 1;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLMSGERR_ATTR_MSG: u16 = 1;

const HEADER: usize = 16;

/// The kernel never puts more than 32 KiB into one datagram of a dump.
const DATAGRAM: usize = 64 * 1024;

/// The kernel answers inside the call that sends, so a wait this long means
/// that the answer is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Sends one message and calls `each` with the type and payload of every
/// answer until the kernel acknowledges (`NLM_F_ACK`) or ends the dump.
pub(super) fn request<M: NetlinkSerializable>(
    protocol: isize,
    message: impl Into<NetlinkPayload<M>>,
    flags: u16,
    mut each: impl FnMut(u16, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut message = NetlinkMessage::new(Default::default(), message.into());
    message.header.flags = NLM_F_REQUEST | flags;
    message.header.sequence_number = 1;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);

    let socket = Socket::new(protocol)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    SockRef::from(&socket).set_read_timeout(Some(PATIENCE))?;
    // Old kernels lack these; without them the error is only less worded.
    let _ = socket.set_ext_ack(true);
    let _ = socket.set_cap_ack(true);
    socket.send(&bytes, 0)?;

    let mut buffer = Vec::with_capacity(DATAGRAM);
    loop {
        buffer.clear();
        let length = socket.recv(&mut buffer, libc::MSG_TRUNC)?;
        if length > buffer.len() {
            return Err(malformed(format!("netlink answer of {length} bytes was cut short")));
        }
        if read_datagram(&buffer, &mut each)? {
            return Ok(());
        }
    }
}

/// Reads the messages of one datagram; true once the last one was seen.
fn read_datagram(mut bytes: &[u8], each: &mut impl FnMut(u16, &[u8]) -> io::Result<()>) -> io::Result<bool> {
    while !bytes.is_empty() {
        let (kind, flags, payload, rest) = split(bytes).ok_or_else(|| malformed("netlink answer with a bad length"))?;
        bytes = rest;
        if flags & NLM_F_DUMP_INTR != 0 && kind != NLMSG_ERROR {
            return Err(io::Error::new(
                io::ErrorKind::Interrupted,
                "the list changed while it was read: read it again",
            ));
        }
        match kind {
            NLMSG_NOOP => {}
            NLMSG_ERROR => return acknowledged(flags, payload).map(|()| true),
            NLMSG_DONE => {
                return match code(payload).unwrap_or(0) {
                    0 => Ok(true),
                    code => Err(io::Error::from_raw_os_error(-code)),
                };
            }
            kind => each(kind, payload)?,
        }
    }
    Ok(false)
}

/// Takes one message off: its type, its flags, its payload, and what follows.
fn split(bytes: &[u8]) -> Option<(u16, u16, &[u8], &[u8])> {
    let length = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
    let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
    let flags = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?);
    let payload = bytes.get(HEADER..length)?;
    let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, flags, payload, rest))
}

fn code(payload: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(payload.get(..4)?.try_into().ok()?))
}

/// `NLMSG_ERROR` is an acknowledgement when its code is zero. Otherwise the
/// kernel may say in words what it did not like, after the repeated request.
fn acknowledged(flags: u16, payload: &[u8]) -> io::Result<()> {
    let code = code(payload).ok_or_else(|| malformed("netlink error without a code"))?;
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(-code);
    let repeated = if flags & NLM_F_CAPPED != 0 {
        HEADER
    } else {
        let length = payload.get(4..8).and_then(|part| part.try_into().ok());
        length.map_or(HEADER, |length| u32::from_ne_bytes(length) as usize).next_multiple_of(4)
    };
    let words = (flags & NLM_F_ACK_TLVS != 0)
        .then(|| payload.get(4 + repeated..))
        .flatten()
        .and_then(|rest| attributes(rest).find(|(kind, _)| *kind == NLMSGERR_ATTR_MSG))
        .map(|(_, text)| String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
    Err(match words {
        Some(words) => super::context(error, format!("kernel says {words:?}")),
        None => error,
    })
}

/// The attributes of a message: type without its flag bits, and value. Ends at
/// the first that does not fit.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const TYPE_MASK: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?);
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind & TYPE_MASK, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, flags: u16, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn read(bytes: &[u8]) -> (io::Result<bool>, Vec<(u16, Vec<u8>)>) {
        let mut seen = Vec::new();
        let result = read_datagram(bytes, &mut |kind, payload| {
            seen.push((kind, payload.to_vec()));
            Ok(())
        });
        (result, seen)
    }

    #[test]
    fn a_dump_is_read_message_by_message() {
        let mut bytes = message(20, 2, b"abc");
        bytes.extend(message(20, 2, b"defgh"));
        let (result, seen) = read(&bytes);
        assert!(!result.unwrap(), "no end seen yet");
        assert_eq!(seen, [(20, b"abc".to_vec()), (20, b"defgh".to_vec())]);
        assert!(read(&message(NLMSG_DONE, 2, &0_i32.to_ne_bytes())).0.unwrap());
    }

    #[test]
    fn a_zero_code_acknowledges_and_another_is_its_errno() {
        assert!(read(&message(NLMSG_ERROR, 0, &[0; 20])).0.unwrap());
        let mut payload = (-libc::EPERM).to_ne_bytes().to_vec();
        payload.extend([0; 16]);
        let error = read(&message(NLMSG_ERROR, 0, &payload)).0.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        let done = message(NLMSG_DONE, 2, &(-libc::EBUSY).to_ne_bytes());
        assert_eq!(read(&done).0.unwrap_err().raw_os_error(), Some(libc::EBUSY));
    }

    #[test]
    fn the_kernels_words_are_kept() {
        let mut payload = (-libc::EINVAL).to_ne_bytes().to_vec();
        payload.extend([0; HEADER]);
        payload.extend(8_u16.to_ne_bytes());
        payload.extend(NLMSGERR_ATTR_MSG.to_ne_bytes());
        payload.extend(b"bad\0");
        let error = read(&message(NLMSG_ERROR, NLM_F_CAPPED | NLM_F_ACK_TLVS, &payload)).0.unwrap_err();
        assert!(error.to_string().contains("\"bad\""), "{error}");
        assert_eq!(super::super::errno(&error), Some(libc::EINVAL));
    }

    #[test]
    fn torn_answers_are_errors_and_interrupted_dumps_say_so() {
        let whole = message(20, 0, b"abcd");
        for length in 1..whole.len() {
            assert!(read(&whole[..length]).0.is_err(), "{length}");
        }
        let error = read(&message(20, NLM_F_DUMP_INTR, b"abcd")).0.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
    }

    #[test]
    fn attributes_stop_where_the_bytes_do() {
        let bytes = [5, 0, 1, 0, 9, 0, 0, 0, 8, 0, 2, 0x80, 1, 2, 3, 4, 200, 0, 3, 0];
        if cfg!(target_endian = "little") {
            let found: Vec<_> = attributes(&bytes).collect();
            assert_eq!(found, [(1, &[9][..]), (2, &[1, 2, 3, 4][..])]);
        }
        assert_eq!(attributes(&[0; 16]).count(), 0, "a length of zero must not loop");
    }
}

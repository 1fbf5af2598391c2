use std::{
    net::UdpSocket,
    time::{Instant, SystemTime},
};

use super::*;
use crate::sys::device::{self, tests::in_private_namespace};

fn lo_up() -> u32 {
    let lo = device::index_of("lo").unwrap();
    device::set_up(lo).unwrap();
    lo
}

/// Sends datagrams to a socket of this namespace and waits for them there,
/// so that they have passed the device.
fn datagrams(payloads: &[&[u8]]) {
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    for payload in payloads {
        sender.send_to(payload, receiver.local_addr().unwrap()).unwrap();
        receiver.recv(&mut [0; 2048]).unwrap();
    }
}

#[test]
fn each_frame_on_loopback_passes_twice_and_once_without_outgoing() {
    in_private_namespace(|| {
        let lo = lo_up();
        let mut both = Capture::open(lo, Settings::default()).unwrap();
        let settings = Settings { ignore_outgoing: true, ..Settings::default() };
        let mut incoming = Capture::open(lo, settings).unwrap();
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        datagrams(&[b"first", b"second one"]);
        let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();

        let frames = both.drain().unwrap();
        let directions: Vec<bool> = frames.iter().map(|frame| frame.outgoing).collect();
        assert_eq!(directions, [true, false, true, false]);
        let frames = incoming.drain().unwrap();
        assert_eq!(frames.len(), 2);
        for (frame, payload) in frames.iter().zip([&b"first"[..], b"second one"]) {
            // Ethernet 14, IPv4 20, UDP 8.
            assert_eq!(frame.wire_length, 42 + payload.len());
            assert_eq!(frame.bytes.len(), frame.wire_length);
            assert!(frame.bytes.ends_with(payload));
            assert!(!frame.outgoing);
            assert!((before..=after).contains(&frame.stamp), "{:?}", frame.stamp);
        }
        assert!(frames[0].stamp < frames[1].stamp);
        assert_eq!(incoming.next_frame().unwrap(), None);
        assert_eq!((both.dropped().unwrap(), incoming.dropped().unwrap()), (0, 0));
    });
}

#[test]
fn a_full_buffer_is_counted_and_the_count_stays() {
    in_private_namespace(|| {
        let lo = lo_up();
        let settings = Settings { ignore_outgoing: true, receive_buffer: 1 };
        let mut capture = Capture::open(lo, settings).unwrap();
        let payload = [0_u8; 1000];
        datagrams(&[&payload[..]; 50]);
        let dropped = capture.dropped().unwrap();
        assert!(dropped > 0);
        assert_eq!(capture.dropped().unwrap(), dropped, "reading clears it in the kernel");
        assert_eq!(capture.drain().unwrap().len() as u64 + dropped, 50);
    });
}

#[test]
fn a_device_that_is_down_or_absent_is_refused() {
    in_private_namespace(|| {
        let lo = device::index_of("lo").unwrap();
        let error = Capture::open(lo, Settings::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NetworkDown, "{error}");
        assert!(error.to_string().contains("bring it up"), "{error}");
        let error = Capture::open(9999, Settings::default()).unwrap_err();
        assert_eq!(crate::sys::errno(&error), Some(libc::ENODEV), "{error}");
    });
}

#[test]
fn loopback_leaves_the_checksum_undone() {
    in_private_namespace(|| {
        let lo = lo_up();
        let mut capture = Capture::open(lo, Settings::default()).unwrap();
        datagrams(&[b"x"]);
        let frames = capture.drain().unwrap();
        assert!(frames.iter().all(|frame| !frame.checksum_ready), "{frames:?}");
    });
}

#[test]
fn a_large_buffer_holds_a_burst() {
    in_private_namespace(|| {
        let lo = lo_up();
        let mut capture = Capture::open(lo, Settings::default()).unwrap();
        assert!(capture.receive_buffer().unwrap() > 100_000);
        let start = Instant::now();
        datagrams(&[&b"x"[..]; 100]);
        assert_eq!(capture.drain().unwrap().len(), 200, "after {:?}", start.elapsed());
        assert_eq!(capture.dropped().unwrap(), 0);
    });
}

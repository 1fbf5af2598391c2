use std::{
    io::{Read, Write},
    net::{Ipv6Addr, TcpListener, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use super::*;
use crate::sys::{clock, counters, namespace};

/// Runs in a thread with a network namespace of its own, or says why not.
pub(in crate::sys) fn in_private_namespace(body: impl FnOnce() + Send) {
    if !namespace::may_unshare_network() {
        eprintln!("not tested: no CAP_SYS_ADMIN and CAP_NET_ADMIN (try `unshare -Urn`)");
        return;
    }
    thread::scope(|scope| {
        let inside = scope.spawn(|| {
            namespace::enter_network_namespace().unwrap();
            body();
        });
        if let Err(panic) = inside.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn lo_up() -> u32 {
    let lo = index_of("lo").unwrap();
    set_up(lo).unwrap();
    lo
}

/// The median of nine exchanges after the first, each a write, a write, and
/// a one-byte answer: with delayed ACK and Nagle each waits.
fn median_exchange(address: IpAddr) -> Duration {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let answering = thread::spawn(move || {
        let mut request = [0; 2];
        while server.read_exact(&mut request).is_ok() {
            server.write_all(b"a").unwrap();
        }
    });
    let mut times = Vec::new();
    for _ in 0..10 {
        let start = Instant::now();
        client.write_all(b"1").unwrap();
        client.write_all(b"2").unwrap();
        client.read_exact(&mut [0]).unwrap();
        times.push(start.elapsed());
    }
    drop(client);
    answering.join().unwrap();
    times.remove(0);
    times.sort();
    times[times.len() / 2]
}

#[test]
fn loopback_comes_up_and_takes_an_mtu_and_an_address() {
    in_private_namespace(|| {
        let address: IpAddr = [10, 1, 2, 3].into();
        let lo = lo_up();
        assert!(TcpListener::bind((address, 0)).is_err());
        set_mtu(lo, 1500).unwrap();
        add_address(lo, address, 24).unwrap();
        let listener = TcpListener::bind((address, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mtu = crate::sys::tcp_info::TcpInfo::read(&client).unwrap().pmtu;
        assert_eq!(mtu, Some(1500));
        let again = add_address(lo, address, 24).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists, "{again}");
    });
}

#[test]
fn an_ipv6_address_is_usable_at_once() {
    in_private_namespace(|| {
        let lo = lo_up();
        let address: Ipv6Addr = "fd00::5".parse().unwrap();
        add_address(lo, address.into(), 64).unwrap();
        TcpListener::bind((address, 0)).unwrap();
    });
}

#[test]
fn an_absent_device_is_named_in_the_error() {
    let error = index_of("no-such-dev").unwrap_err();
    assert_eq!(crate::sys::errno(&error), Some(libc::ENODEV));
    assert!(error.to_string().contains("no-such-dev"));
}

fn quickack_ends_the_wait(address: IpAddr) {
    in_private_namespace(|| {
        lo_up();
        counters::set_sysctl("net.ipv4.tcp_congestion_control", "reno").unwrap();
        let delayed = median_exchange(address);
        let jiffy = clock::jiffy().unwrap();
        assert!(delayed >= Duration::from_millis(40) - jiffy, "{delayed:?}");
        let quick = RouteMetrics { quickack: true, ..RouteMetrics::default() };
        // Twice: the second must not undo the first.
        replace_local_route(address, &quick).unwrap();
        replace_local_route(address, &quick).unwrap();
        let at_once = median_exchange(address);
        assert!(at_once < Duration::from_millis(30), "{at_once:?}");
        replace_local_route(address, &RouteMetrics::default()).unwrap();
        let delayed = median_exchange(address);
        assert!(delayed >= Duration::from_millis(40) - jiffy, "{delayed:?}");
    });
}

#[test]
fn quickack_on_the_ipv4_route_ends_the_wait() {
    quickack_ends_the_wait(Ipv4Addr::LOCALHOST.into());
}

#[test]
fn quickack_on_the_ipv6_route_ends_the_wait() {
    quickack_ends_the_wait(Ipv6Addr::LOCALHOST.into());
}

#[test]
fn the_metrics_reach_new_connections() {
    in_private_namespace(|| {
        lo_up();
        let metrics = RouteMetrics { quickack: false, rto_min_ms: Some(500), initcwnd: Some(3) };
        replace_local_route(Ipv4Addr::LOCALHOST.into(), &metrics).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let info = crate::sys::tcp_info::TcpInfo::read(&client).unwrap();
        assert_eq!(info.snd_cwnd, Some(3));
        assert!(info.rto.unwrap() >= 500_000, "{:?}", info.rto);
    });
}

#[test]
fn a_replaced_route_keeps_the_source_address() {
    in_private_namespace(|| {
        lo_up();
        let address = Ipv4Addr::new(127, 0, 0, 5);
        replace_local_route(address.into(), &RouteMetrics::default()).unwrap();
        let listener = TcpListener::bind((address, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert_eq!(client.local_addr().unwrap().ip(), Ipv4Addr::LOCALHOST);
    });
}

#[test]
fn the_table_reads_as_ip_would_have_written_it() {
    in_private_namespace(|| {
        lo_up();
        let metrics = RouteMetrics { quickack: true, ..RouteMetrics::default() };
        replace_local_route(Ipv4Addr::LOCALHOST.into(), &metrics).unwrap();
        let Ok(shown) = Command::new("ip").args(["route", "show", "table", "local"]).output() else {
            eprintln!("not tested: no ip(8)");
            return;
        };
        let table = String::from_utf8(shown.stdout).unwrap();
        let row = table.lines().find(|row| row.starts_with("local 127.0.0.1 ")).unwrap();
        assert!(row.contains("quickack 1") && row.contains("src 127.0.0.1"), "{table}");
    });
}

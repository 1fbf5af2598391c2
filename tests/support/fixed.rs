//! An observation that never changes, for texts that are compared letter by letter.

use smallwrites::exchange::{Exchange, Sides, Step};
use smallwrites::observation::{
    Environment, Hold, Observation, Order, Receiver, Release, Request, Rule, SCHEMA, Socket, SocketSeen, Write,
};
use std::collections::BTreeMap;

/// Five requests of write-write-read as a kernel with a jiffy of 4 ms plays them: all but the first stall.
pub(crate) fn stalled() -> Observation {
    let latencies = [187, 43_912, 44_020, 47_304, 43_988];
    let requests = (1..).zip(latencies).map(|(number, latency_us)| {
        let stalls = number > 1;
        Request {
            number,
            latency_us,
            receivers: receivers(stalls),
            writes: vec![
                write(Socket::Client, 10, 0),
                write(Socket::Client, 10, if stalls { 10 } else { 0 }),
                write(Socket::Server, 20, 0),
            ],
            holds: if stalls { vec![hold(latency_us - 61)] } else { Vec::new() },
            data_segments: Sides { client: Some(2), server: Some(1) },
            bare_acks: Sides { client: Some(0), server: Some(u32::from(stalls)) },
            delayed_acks: Some(i64::from(stalls)),
            run_queue_us: Some(12),
            ..request()
        }
    });
    observation("C: W10 W10 R20 / S: R20 W20", requests.collect())
}

/// The same with `TCP_NODELAY`: no request stalls, though the receiver is in pingpong mode.
pub(crate) fn fine() -> Observation {
    let latencies = [172, 31, 28, 29, 35];
    let requests = (1..).zip(latencies).map(|(number, latency_us)| Request {
        number,
        latency_us,
        receivers: receivers(number > 1),
        writes: vec![write(Socket::Client, 10, 0), write(Socket::Client, 10, 0), write(Socket::Server, 20, 0)],
        data_segments: Sides { client: Some(2), server: Some(1) },
        bare_acks: Sides { client: Some(0), server: Some(0) },
        delayed_acks: Some(0),
        run_queue_us: Some(9),
        ..request()
    });
    observation("C: [nodelay] W10 W10 R20 / S: R20 W20", requests.collect())
}

fn observation(exchange: &str, requests: Vec<Request>) -> Observation {
    let exchange: Exchange = exchange.parse().expect("it is a valid exchange");
    let sum = |of: fn(&Request) -> Option<u32>| requests.iter().map(of).sum::<Option<u32>>();
    let socket = |data_segments, bare_acks| SocketSeen {
        nodelay: Some(false),
        cork: Some(false),
        quickack: Some(true),
        data_segments,
        bare_acks,
        retransmitted: Some(0),
        ..SocketSeen::default()
    };
    let sockets = Sides {
        client: socket(sum(|request| request.data_segments.client), sum(|request| request.bare_acks.client)),
        server: socket(sum(|request| request.data_segments.server), sum(|request| request.bare_acks.server)),
    };
    let delayed = requests.iter().filter_map(|request| request.delayed_acks).sum();
    let counters = [("TcpExtDelayedACKs", delayed), ("TcpExtTCPLossProbes", 0), ("TcpRetransSegs", 0)];
    Observation {
        schema: SCHEMA,
        exchange,
        order: Order::Ordered,
        fresh: false,
        environment: environment(),
        elapsed_us: requests.iter().map(|request| request.latency_us + 20).sum(),
        requests,
        sockets,
        relay: None,
        opened_us: vec![74],
        counters: Some(counters.map(|(name, change)| (name.to_owned(), change)).into()),
        cpu_us: Some(410),
        wire: None,
        frames: None,
    }
}

fn environment() -> Environment {
    Environment {
        place: "private namespace".to_owned(),
        family: "IPv4".to_owned(),
        kernel: "6.18.2".to_owned(),
        jiffy_us: 4_000,
        delayed_ack_us: 40_000,
        pingpong_threshold: Some(1),
        pinned: BTreeMap::from([("net.ipv4.tcp_congestion_control".to_owned(), "reno".to_owned())]),
    }
}

fn request() -> Request {
    Request {
        number: 0,
        at_us: 0,
        latency_us: 0,
        receivers: Sides::default(),
        writes: Vec::new(),
        holds: Vec::new(),
        blocked: None,
        listed: None,
        longest_step_us: None,
        relay: None,
        data_segments: Sides::default(),
        bare_acks: Sides::default(),
        delayed_acks: None,
        run_queue_us: None,
    }
}

fn receivers(pingpong: bool) -> Sides<Receiver> {
    let receiver = Receiver { pingpong: Some(pingpong), ato_us: Some(40_000) };
    Sides { client: Receiver { pingpong: Some(false), ..receiver }, server: receiver }
}

fn write(socket: Socket, bytes: u32, held: u32) -> Write {
    Write { at_us: 0, socket, bytes, held: Some(held), data_segments: None, since_received_ms: Some(0) }
}

fn hold(lasted_us: u64) -> Hold {
    Hold {
        at_us: 0,
        socket: Socket::Client,
        step: Step::Write(10),
        bytes: 10,
        unacked: Some(1),
        cwnd: Some(10),
        rule: Rule::Nagle,
        released_by: Release::DelayedAck,
        waited: true,
        lasted_us,
    }
}

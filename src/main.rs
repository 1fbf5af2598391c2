//! The command line.
use smallwrites::{lab::*, observation::*, play::*, verdict::*};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    enter()?;
    let args: Vec<String> = std::env::args().collect();
    let n: u32 = args.get(2).map_or(8, |n| n.parse().unwrap());
    let order = match args.get(3).map(String::as_str) {
        Some("turns") => Order::Turns,
        Some("free") => Order::Free,
        _ => Order::Ordered,
    };
    let mut c = Conditions::default();
    if args.iter().any(|a| a == "q") {
        c = c.quickack_route();
    }
    if args.iter().any(|a| a == "shared") {
        c = Conditions::shared();
    }
    if args.iter().any(|a| a == "t3") {
        c = c.sysctl("net.ipv4.tcp_pingpong_thresh", "3");
    }
    let seen = c.run(|lab| Play::new(args[1].parse().unwrap()).requests(n).order(order).run(lab))??;
    let v = Verdict::of(&seen);
    println!("{v}  stalled {:?} explained {:?}", v.stalled, v.explained);
    for c in &v.causes {
        println!("  {c}\n  -> {}", c.remedy());
    }
    println!(
        "{:?} segs {:?} {:?} delacks {:?}",
        seen.latencies_us(),
        seen.sockets.client.data_segments,
        seen.sockets.server.data_segments,
        seen.counter("TcpExtDelayedACKs")
    );
    if args.iter().any(|a| a == "v") {
        println!("{:#?}", seen.requests.iter().take(2).collect::<Vec<_>>());
        println!("{:?}", seen.environment);
    }
    Ok(())
}

//! One write and its reply, played in order `free`, beside two bare threads that do the same.

use crate::Ratio;
use smallwrites::exchange::Exchange;
use smallwrites::lab::{Conditions, Lab};
use smallwrites::observation::Order;
use smallwrites::play::Play;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

const REQUESTS: u32 = 4_000;
const ROUNDS: usize = 7;

pub(crate) fn run() -> Vec<Ratio> {
    let exchange: Exchange = "C: W20 R20 / S: R20 W20".parse().expect("one write and its reply");
    let play = Play::new(exchange).requests(REQUESTS).order(Order::Free);
    // In turn, so that whatever else the machine does meets both alike.
    let rounds: Vec<(f64, f64)> = Conditions::default()
        .run(|lab| {
            (0..ROUNDS)
                .map(|_| {
                    let bare = bare(lab).expect("two bare threads");
                    let played = play.run(lab).expect("an exchange").latencies_us();
                    // Whole microseconds are too coarse for a median of a few: the mean of the middle half is not.
                    (middle(played.into_iter().map(|us| us as f64).collect()), middle(bare))
                })
                .collect()
        })
        .expect("a lab");
    let mut ratios: Vec<f64> = rounds.iter().map(|(played, bare)| played / bare).collect();
    ratios.sort_by(f64::total_cmp);
    let ratio = ratios[ROUNDS / 2];
    let bare = rounds.iter().map(|(_, bare)| *bare).fold(f64::INFINITY, f64::min);
    vec![Ratio {
        name: "round trip, one write",
        measured: (format!("{:.2} us played", bare * ratio), bare * ratio),
        beside: (format!("{bare:.2} us bare, {ROUNDS} rounds"), bare),
        limit: 1.10,
    }]
}

/// The mean of the middle half of the samples.
fn middle(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let (from, to) = (samples.len() / 4, samples.len() * 3 / 4);
    samples[from..to].iter().sum::<f64>() / (to - from) as f64
}

fn bare(lab: &Lab) -> io::Result<Vec<f64>> {
    let listener = TcpListener::bind((lab.address(), 0))?;
    let address = listener.local_addr()?;
    let server = std::thread::spawn(move || -> io::Result<()> {
        let (mut socket, _) = listener.accept()?;
        let mut buffer = [0; 20];
        for _ in 0..REQUESTS {
            socket.read_exact(&mut buffer)?;
            socket.write_all(&buffer)?;
        }
        Ok(())
    });
    let mut socket = TcpStream::connect(address)?;
    let mut buffer = [0; 20];
    let mut samples = Vec::with_capacity(REQUESTS as usize);
    for _ in 0..REQUESTS {
        let started = Instant::now();
        socket.write_all(&buffer)?;
        socket.read_exact(&mut buffer)?;
        samples.push(started.elapsed().as_secs_f64() * 1e6);
    }
    server.join().map_err(|_| io::Error::other("the server's thread panicked"))??;
    Ok(samples)
}

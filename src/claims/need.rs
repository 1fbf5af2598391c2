//! What a place must have for a check, probed before anything runs.

use crate::foreign;
use crate::lab::{Conditions, Family, Lab, LabError, WireSpec};
use crate::sys::veth::TokenBucket;
use crate::sys::{counters, diag, options};
use std::net::{Ipv6Addr, TcpListener};
use std::time::Duration;

/// What a check needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A private network namespace: own counters, own settings.
    PrivateLab,
    /// IPv6 on the loopback.
    Ipv6,
    /// A sysctl that the kernel must have.
    Sysctl(&'static str),
    /// A wire between two namespaces: veth pairs and packet sockets.
    Wire,
    /// A wire with a token bucket at its end.
    Shaping,
    /// `sock_diag` for TCP.
    SocketDiag,
    /// MPTCP sockets that tell what they hold.
    Mptcp,
    /// A program that can be started and watched: see [`foreign`].
    Program(&'static str),
}

/// What is missing, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// What.
    pub reason: String,
    /// What to do.
    pub remedy: String,
}

/// What the place was found to have.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) private: Result<(), LabError>,
}

impl Need {
    pub(super) fn missing(self, place: &Place) -> Option<Missing> {
        let missing = |reason: String, remedy: &str| Some(Missing { reason, remedy: remedy.to_owned() });
        match (self, &place.private) {
            (Self::PrivateLab, Ok(())) => None,
            (Self::SocketDiag, _) => match diag::sockets(diag::Family::V4) {
                Ok(_) => None,
                Err(error) => missing(error.to_string(), "load tcp_diag, or use a kernel with CONFIG_INET_DIAG"),
            },
            (Self::Ipv6, private) => {
                let has = match private {
                    Ok(()) => Conditions { family: Family::V6, ..Conditions::default() }
                        .run(|lab| TcpListener::bind((lab.address(), 0)).is_ok())
                        .unwrap_or(false),
                    Err(_) => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok(),
                };
                if has { None } else { missing("needs IPv6 on the loopback".to_owned(), "enable IPv6 in the kernel") }
            }
            (_, Err(LabError::Refused(source))) => missing(
                format!("needs a private namespace: {source}"),
                "allow unprivileged user namespaces, run as root, or run under unshare -Urn",
            ),
            (_, Err(error)) => missing(format!("needs a private namespace: {error}"), "run under unshare -Urn"),
            (Self::Wire | Self::Shaping, Ok(())) => {
                let wire = Conditions::default().wire(WireSpec::new(Duration::ZERO));
                let wire = if self == Self::Shaping {
                    wire.shaping(TokenBucket { rate: 1_000_000, burst: 1600, limit: 1 << 20 })
                } else {
                    wire
                };
                let remedy = "load veth, af_packet and sch_tbf, or use a kernel with CONFIG_VETH, CONFIG_PACKET and CONFIG_NET_SCH_TBF";
                wire.run(|_| ()).err().and_then(|error| missing(error.to_string(), remedy))
            }
            (Self::Sysctl(name), Ok(())) if counters::sysctl(name).is_ok() => None,
            (Self::Sysctl(name), Ok(())) => missing(format!("this kernel has no {name}"), "use a kernel that has it"),
            (Self::Mptcp, Ok(())) => {
                let tells = |lab: &Lab| lab.pair(&[]).is_ok_and(|pair| options::not_sent(&pair.client).is_ok());
                match Conditions::default().mptcp().run(tells) {
                    Ok(true) => None,
                    _ => missing(
                        "this kernel has no MPTCP sockets that tell what they hold".to_owned(),
                        "use a kernel that has",
                    ),
                }
            }
            (Self::Program(name), Ok(())) if foreign::find(name).is_none() => {
                missing(format!("{name} is not installed"), "install it")
            }
            (Self::Program(name), Ok(())) => foreign::available().err().and_then(|error| {
                missing(
                    format!("needs to watch {name} in namespaces of its own: {error}"),
                    "run where user namespaces may be nested and /proc is mounted",
                )
            }),
        }
    }
}

//! What a place must have for a check, probed before anything runs.

use crate::exchange::Opt;
use crate::foreign;
use crate::kernel::Kernel;
use crate::lab::{Conditions, Family, Lab, LabError};
use crate::sys::{counters, options};
use std::net::{Ipv6Addr, TcpListener};

/// What a check needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A private network namespace: own counters, own settings.
    PrivateLab,
    /// IPv6 on the loopback.
    Ipv6,
    /// A sysctl that the kernel must have.
    Sysctl(&'static str),
    /// A socket option that the kernel must have.
    Option(Opt),
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
    pub(super) fn missing(self, place: &Place, kernel: &Kernel) -> Option<Missing> {
        let missing = |reason: String, remedy: &str| Some(Missing { reason, remedy: remedy.to_owned() });
        match (self, &place.private) {
            (Self::PrivateLab, Ok(())) => None,
            (Self::PrivateLab | Self::Sysctl(_) | Self::Mptcp | Self::Program(_), Err(LabError::Refused(source))) => {
                missing(
                    format!("needs a private namespace: {source}"),
                    "allow unprivileged user namespaces, run as root, or run under unshare -Urn",
                )
            }
            (Self::PrivateLab | Self::Sysctl(_) | Self::Mptcp | Self::Program(_), Err(error)) => {
                missing(format!("needs a private namespace: {error}"), "run under unshare -Urn")
            }
            (Self::Ipv6, private) => {
                let has = match private {
                    Ok(()) => Conditions { family: Family::V6, ..Conditions::default() }
                        .run(|lab| TcpListener::bind((lab.address(), 0)).is_ok())
                        .unwrap_or(false),
                    Err(_) => TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok(),
                };
                if has { None } else { missing("needs IPv6 on the loopback".to_owned(), "enable IPv6 in the kernel") }
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
            (Self::Option(Opt::DelackMax), _) if kernel.delack_max_us.is_some() => None,
            (Self::Option(option), _) => {
                missing(format!("this kernel has no socket option for {}", option.word()), "use a kernel that has it")
            }
            (Self::Program(name), Ok(())) => match foreign::available() {
                Err(error) => missing(
                    format!("needs to watch {name} in namespaces of its own: {error}"),
                    "run where user namespaces may be nested and /proc is mounted",
                ),
                Ok(()) if foreign::find(name).is_some() => None,
                Ok(()) => missing(format!("{name} is not installed"), "install it"),
            },
        }
    }
}

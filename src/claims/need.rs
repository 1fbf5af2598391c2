//! What a place must have for a check, probed before anything runs.

use crate::exchange::Opt;
use crate::kernel::Kernel;
use crate::lab::{Conditions, Family, LabError};
use crate::sys::counters;
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
    /// A program on the PATH.
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
            (Self::PrivateLab | Self::Sysctl(_), Err(LabError::Refused(source))) => missing(
                format!("needs a private namespace: {source}"),
                "allow unprivileged user namespaces, run as root, or run under unshare -Urn",
            ),
            (Self::PrivateLab | Self::Sysctl(_), Err(error)) => {
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
            (Self::Option(Opt::DelackMax), _) if kernel.delack_max_us.is_some() => None,
            (Self::Option(option), _) => {
                missing(format!("this kernel has no socket option for {}", option.word()), "use a kernel that has it")
            }
            (Self::Program(name), _) if on_path(name) => None,
            (Self::Program(name), _) => missing(format!("{name} is not installed"), "install it"),
        }
    }
}

fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

//! The fixes that people try, as changes of an exchange.

use super::{Exchange, MAX_BYTES, Opt, Script, Setting, Side, Step};
use std::fmt;

/// A change of an exchange that is meant to remove a stall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fix {
    /// `TCP_NODELAY` on the client.
    NoDelayClient,
    /// `TCP_NODELAY` on the server.
    NoDelayServer,
    /// `TCP_NODELAY` on both sides.
    NoDelayBoth,
    /// Every run of writes becomes one write, or several where one cannot be so long.
    OneWrite,
    /// Every run of writes is corked and uncorked.
    Cork,
    /// Every write of a run but the last carries `MSG_MORE`.
    MsgMore,
    /// `TCP_QUICKACK` set once, on both sides.
    QuickAckOnce,
    /// `TCP_QUICKACK` set before every read, on both sides.
    QuickAckEveryRead,
}

impl Fix {
    /// Every fix, in the order in which a table shows them.
    pub const ALL: [Self; 8] = [
        Self::OneWrite,
        Self::Cork,
        Self::MsgMore,
        Self::NoDelayClient,
        Self::NoDelayServer,
        Self::NoDelayBoth,
        Self::QuickAckOnce,
        Self::QuickAckEveryRead,
    ];

    /// The exchange with this fix applied.
    ///
    /// ```
    /// use smallwrites::exchange::{Exchange, Fix};
    ///
    /// let exchange: Exchange = "C: W10 W10 R20 / S: R20 W20".parse()?;
    /// assert_eq!(Fix::OneWrite.applied(&exchange).to_string(), "C: W20 R20 / S: R20 W20");
    /// assert_eq!(Fix::MsgMore.applied(&exchange).to_string(), "C: M10 W10 R20 / S: R20 W20");
    /// # Ok::<(), smallwrites::exchange::ParseError>(())
    /// ```
    #[must_use]
    pub fn applied(self, exchange: &Exchange) -> Exchange {
        let mut fixed = exchange.clone();
        match self {
            Self::NoDelayClient => fixed.with_option(&[Side::Client], Opt::NoDelay, 1),
            Self::NoDelayServer => fixed.with_option(&[Side::Server], Opt::NoDelay, 1),
            Self::NoDelayBoth => fixed.with_option(&Side::BOTH, Opt::NoDelay, 1),
            Self::QuickAckOnce => fixed.with_option(&Side::BOTH, Opt::QuickAck, 1),
            Self::OneWrite | Self::Cork | Self::MsgMore | Self::QuickAckEveryRead => {
                for side in Side::BOTH {
                    self.rewrite(fixed.script_mut(side));
                }
                fixed
            }
        }
    }

    fn rewrite(self, script: &mut Script) {
        if matches!(self, Self::OneWrite) {
            // A message written at once has nothing left to keep back.
            let forgets = |setting: &Setting| setting.option != Opt::Cork;
            script.bound.retain(forgets);
            script.listening.retain(forgets);
            script.opened.retain(forgets);
        }
        let mut out = Vec::new();
        let mut run = Vec::new();
        for step in script.unrolled() {
            match step {
                write if write.is_write() => run.push(write),
                // What stands inside a message does not end it for the one who writes it at once.
                Step::Set(Setting { option: Opt::Cork, .. })
                    if matches!(self, Self::OneWrite | Self::Cork | Self::MsgMore) => {}
                Step::Pause(us) if !run.is_empty() && matches!(self, Self::OneWrite) => out.push(Step::Pause(us)),
                step => {
                    self.flush(&mut run, &mut out);
                    if matches!((self, &step), (Self::QuickAckEveryRead, Step::Read(_))) {
                        out.push(Step::Set(Setting::new(Opt::QuickAck, 1)));
                    }
                    out.push(step);
                }
            }
        }
        self.flush(&mut run, &mut out);
        script.steps = out;
    }

    fn flush(self, run: &mut Vec<Step>, out: &mut Vec<Step>) {
        let writes = std::mem::take(run);
        if writes.is_empty() {
            return;
        }
        match self {
            Self::OneWrite => {
                let total: u64 = writes.iter().map(Step::written).sum();
                let longest = u64::from(MAX_BYTES);
                let whole = usize::try_from(total / longest).unwrap_or(usize::MAX);
                out.extend(std::iter::repeat_n(Step::Write(MAX_BYTES), whole));
                // One write even of nothing, but no empty one behind the others.
                if !total.is_multiple_of(longest) || whole == 0 {
                    out.push(Step::Write((total % longest) as u32));
                }
            }
            Self::Cork => {
                out.push(Step::Set(Setting::new(Opt::Cork, 1)));
                out.extend(writes);
                out.push(Step::Set(Setting::new(Opt::Cork, 0)));
            }
            Self::MsgMore => {
                let last = writes.len() - 1;
                out.extend(writes.into_iter().enumerate().map(|(i, write)| match write {
                    Step::Write(n) if i < last => Step::More(n),
                    Step::More(n) if i == last => Step::Write(n),
                    other => other,
                }));
            }
            _ => out.extend(writes),
        }
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NoDelayClient => "TCP_NODELAY, client",
            Self::NoDelayServer => "TCP_NODELAY, server",
            Self::NoDelayBoth => "TCP_NODELAY, both",
            Self::OneWrite => "one write",
            Self::Cork => "TCP_CORK",
            Self::MsgMore => "MSG_MORE",
            Self::QuickAckOnce => "TCP_QUICKACK once",
            Self::QuickAckEveryRead => "TCP_QUICKACK, every read",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fix_rewrites_both_sides() {
        let exchange: Exchange = "C: W10 W20 R9 / S: R30 W4 W5".parse().unwrap();
        let fixed = |fix: Fix| fix.applied(&exchange).to_string();
        assert_eq!(fixed(Fix::OneWrite), "C: W30 R9 / S: R30 W9");
        assert_eq!(fixed(Fix::Cork), "C: cork W10 W20 uncork R9 / S: R30 cork W4 W5 uncork");
        assert_eq!(fixed(Fix::MsgMore), "C: M10 W20 R9 / S: R30 M4 W5");
        assert_eq!(fixed(Fix::QuickAckEveryRead), "C: W10 W20 quickack R9 / S: quickack R30 W4 W5");
        assert_eq!(fixed(Fix::QuickAckOnce), "C: [quickack] W10 W20 R9 / S: [quickack] R30 W4 W5");
        assert_eq!(fixed(Fix::NoDelayServer), "C: W10 W20 R9 / S: [nodelay] R30 W4 W5");
    }

    #[test]
    fn a_forgotten_cork_or_flag_is_taken_back() {
        let exchange: Exchange = "C: M75 R80 / S: [cork] R75 W80".parse().unwrap();
        assert_eq!(Fix::OneWrite.applied(&exchange).to_string(), "C: W75 R80 / S: R75 W80");
        assert_eq!(Fix::MsgMore.applied(&exchange).client.to_string(), " W75 R80");
    }
}

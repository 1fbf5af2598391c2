//! Printing exchanges: the inverse of parsing.

use super::{Exchange, Opt, Relay, Script, Setting, Step};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Display, Formatter};

impl Display for Exchange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "C:{} / ", self.client)?;
        if let Some(relay) = &self.relay {
            write!(f, "relay:{relay} / ")?;
        }
        write!(f, "S:{}", self.server)
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        group(f, "bound", &self.bound)?;
        group(f, "listening", &self.listening)?;
        group(f, "", &self.opened)?;
        for step in &self.steps {
            write!(f, " {step}")?;
        }
        Ok(())
    }
}

impl Display for Relay {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        group(f, "C", &self.towards_client)?;
        group(f, "S", &self.towards_server)
    }
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match (self.option, self.value) {
            (Opt::Cork, 0) => f.write_str("uncork"),
            (option, 1) if option.is_switch() => f.write_str(option.word()),
            (option, value) => write!(f, "{}={value}", option.word()),
        }
    }
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(n) => write!(f, "W{n}"),
            Self::More(n) => write!(f, "M{n}"),
            Self::Record(n) => write!(f, "E{n}"),
            Self::Vector(parts) => write!(f, "V{}", joined(parts, "+")),
            Self::ZeroCopy(parts) => write!(f, "Z{}", joined(parts, "+")),
            Self::SendFile { length, beyond: 0 } => write!(f, "F{length}"),
            Self::SendFile { length, beyond } => write!(f, "F{length}+{beyond}"),
            Self::Read(n) => write!(f, "R{n}"),
            Self::Pause(us) if us % 1000 == 0 => write!(f, "P{}", us / 1000),
            Self::Pause(us) => write!(f, "P{us}us"),
            Self::Set(setting) => setting.fmt(f),
            Self::Shutdown => f.write_str("shutdown"),
            Self::Repeat(steps, times) => match steps.as_slice() {
                [single] if !matches!(single, Self::Repeat(..)) => write!(f, "{single}×{times}"),
                steps => write!(f, "({})×{times}", joined(steps, " ")),
            },
        }
    }
}

fn group(f: &mut Formatter<'_>, name: &str, settings: &[Setting]) -> fmt::Result {
    if settings.is_empty() { Ok(()) } else { write!(f, " {name}[{}]", joined(settings, " ")) }
}

fn joined<T: Display>(items: &[T], separator: &str) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(separator)
}

impl Serialize for Exchange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Exchange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

//! A capture as a file for Wireshark and tshark: pcapng (draft-ietf-opsawg-pcapng), with comments on the frames that
//! tell the story.

use super::Observation;
use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const END_OF_OPTIONS: u16 = 0;
const COMMENT: u16 = 1;
const INTERFACE_NAME: u16 = 2;
const APPLICATION: u16 = 4;
const RESOLUTION: u16 = 9;

const LINKTYPE_ETHERNET: u16 = 1;

impl Observation {
    /// Writes the captured frames as pcapng, times to the nanosecond.
    ///
    /// A frame's time is when it left its sender.
    ///
    /// # Errors
    ///
    /// `InvalidInput` where no capture was made, or the observation was read back from a record; else what writing says.
    pub fn write_pcapng(&self, mut out: impl Write) -> io::Result<()> {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, "no captured frames: play it with a capture");
        let frames = self.frames.as_ref().filter(|frames| frames.raw().len() == frames.len()).ok_or_else(missing)?;

        let mut section = Vec::new();
        section.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        section.extend([1, 0, 0, 0]);
        // The section's length is not given.
        section.extend((-1_i64).to_le_bytes());
        option(&mut section, APPLICATION, concat!("smallwrites ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(&mut section, COMMENT, format!("{}, {}", self.exchange, self.environment.place).as_bytes());
        option(&mut section, END_OF_OPTIONS, b"");
        block(&mut out, SECTION_HEADER, &section)?;

        let mut interface = Vec::new();
        interface.extend(LINKTYPE_ETHERNET.to_le_bytes());
        // Reserved, and no limit to a frame's length.
        interface.extend([0; 6]);
        option(&mut interface, INTERFACE_NAME, if self.wire.is_some() { b"wire" } else { b"lo" });
        option(&mut interface, RESOLUTION, &[9]);
        option(&mut interface, END_OF_OPTIONS, b"");
        block(&mut out, INTERFACE, &interface)?;

        let comments = self.comments();
        for (i, raw) in frames.raw().iter().enumerate() {
            let stamp = u64::try_from(raw.stamp.as_nanos()).unwrap_or(u64::MAX);
            let length = u32::try_from(raw.bytes.len()).unwrap_or(u32::MAX);
            let mut packet = Vec::with_capacity(raw.bytes.len() + 64);
            for word in [0, (stamp >> 32) as u32, stamp as u32, length, length] {
                packet.extend(word.to_le_bytes());
            }
            padded(&mut packet, &raw.bytes);
            let mut commented = false;
            for (_, comment) in comments.iter().filter(|(of, _)| *of == i) {
                option(&mut packet, COMMENT, comment.as_bytes());
                commented = true;
            }
            if commented {
                option(&mut packet, END_OF_OPTIONS, b"");
            }
            block(&mut out, ENHANCED_PACKET, &packet)?;
        }
        out.flush()
    }
}

/// A block: its type and length before and its length again after the body, which is a multiple of four bytes.
fn block(out: &mut impl Write, kind: u32, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 12).map_err(|_| io::Error::other("a block of more than 4 GiB"))?;
    out.write_all(&kind.to_le_bytes())?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(body)?;
    out.write_all(&length.to_le_bytes())
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

fn padded(body: &mut Vec<u8>, value: &[u8]) {
    body.extend(value);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::super::story::tests::observation;
    use super::*;

    /// Type and body of every block, both lengths checked.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap());
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let length = word(&bytes[4..]) as usize;
            assert!(length.is_multiple_of(4) && length >= 12, "{length}");
            assert_eq!(word(&bytes[length - 4..]) as usize, length);
            blocks.push((word(bytes), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        blocks
    }

    #[test]
    fn every_frame_is_a_block_and_the_story_is_in_comments() {
        let seen = observation();
        let mut file = Vec::new();
        seen.write_pcapng(&mut file).unwrap();
        let blocks = blocks(&file);
        let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(kinds, [SECTION_HEADER, INTERFACE, 6, 6, 6, 6, 6]);
        assert_eq!(blocks[0].1[..8], [0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0]);
        let word = |bytes: &[u8], i: usize| u32::from_le_bytes(bytes[4 * i..4 * i + 4].try_into().unwrap());
        for (i, raw) in seen.frames.as_ref().unwrap().raw().iter().enumerate() {
            let body = &blocks[2 + i].1;
            let stamp = u64::from(word(body, 1)) << 32 | u64::from(word(body, 2));
            assert_eq!(u128::from(stamp), raw.stamp.as_nanos());
            assert_eq!([word(body, 3), word(body, 4)], [raw.bytes.len() as u32; 2]);
            assert_eq!(&body[20..20 + raw.bytes.len()], raw.bytes);
            let options = &body[20 + raw.bytes.len().next_multiple_of(4)..];
            let comment = seen.comments().into_iter().find(|(of, _)| *of == i);
            match comment {
                Some((_, text)) => {
                    assert_eq!(options[..2], COMMENT.to_le_bytes());
                    assert_eq!(usize::from(u16::from_le_bytes([options[2], options[3]])), text.len());
                    assert_eq!(&options[4..4 + text.len()], text.as_bytes());
                    assert!(options.ends_with(&[0; 4]));
                }
                None => assert!(options.is_empty()),
            }
        }
    }

    #[test]
    fn without_raw_bytes_nothing_is_written() {
        let seen = observation();
        let read_back: Observation = serde_json::from_str(&serde_json::to_string(&seen).unwrap()).unwrap();
        assert_eq!(read_back, seen);
        let mut file = Vec::new();
        let error = read_back.write_pcapng(&mut file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(file.is_empty());
    }
}

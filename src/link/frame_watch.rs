//! Looks for header blocks that a client of HTTP/2 does not finish.

/// Follows the frames that a client sends (RFC 9113, section 4.1), of which it keeps nothing.
///
/// A header block lasts from the first bytes of a HEADERS frame to the last one of the frame with END_HEADERS. Until then
/// the client can say nothing else.
#[derive(Debug, Default)]
pub(super) struct FrameWatch {
    /// Bytes of the client's preface that have come.
    preface: usize,
    header: [u8; HEADER],
    /// How much of the frame's header has come.
    kept: usize,
    /// How much of the frame's payload is still to come.
    payload: usize,
    /// A header block has begun.
    open: bool,
    /// It ends with this frame.
    ends: bool,
}

const PREFACE: usize = 24;
const HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

impl FrameWatch {
    /// Takes note of what the client has sent. Whether it is within a header block is told to `block` when that changes.
    pub(super) fn came(&mut self, mut bytes: &[u8], mut block: impl FnMut(bool)) {
        let preface = bytes.len().min(PREFACE - self.preface);
        self.preface += preface;
        bytes = bytes.get(preface..).unwrap_or_default();
        while !bytes.is_empty() {
            if self.payload > 0 {
                let count = bytes.len().min(self.payload);
                self.payload -= count;
                bytes = bytes.get(count..).unwrap_or_default();
            } else {
                bytes = self.header(bytes, &mut block);
            }
            if self.payload == 0 && self.kept == 0 && std::mem::take(&mut self.ends) {
                self.open = false;
                block(false);
            }
        }
    }

    /// Takes the bytes of a frame's header, and gives back the rest.
    fn header<'b>(&mut self, bytes: &'b [u8], block: &mut impl FnMut(bool)) -> &'b [u8] {
        let count = bytes.len().min(HEADER - self.kept);
        let (header, rest) = bytes.split_at(count);
        for (place, byte) in self.header.iter_mut().skip(self.kept).zip(header) {
            *place = *byte;
        }
        self.kept += count;
        let [first, second, third, kind, flags, ..] = self.header;
        if self.kept > 3 && kind == HEADERS && !std::mem::replace(&mut self.open, true) {
            block(true);
        }
        if self.kept == HEADER {
            self.kept = 0;
            self.payload = usize::from(first) << 16 | usize::from(second) << 8 | usize::from(third);
            self.ends = self.open && matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS != 0;
        }
        rest
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = u32::try_from(payload).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        frame.extend(vec![b'x'; payload]);
        frame
    }

    /// What is told of these frames behind a preface, if they come in pieces of this size.
    fn told(frames: &[Vec<u8>], piece: usize) -> Vec<bool> {
        let mut watch = FrameWatch::default();
        let mut told = Vec::new();
        let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frames.concat()].concat();
        bytes.chunks(piece).for_each(|piece| watch.came(piece, |open| told.push(open)));
        told
    }

    proptest! {
        #[test]
        fn a_05_a_block_is_open_until_its_last_frame_is_whole(piece in 1_usize..60, size in 0_usize..40) {
            let settings = || frame(4, 0, 6);
            let data = || frame(0, 4, size);
            let whole = || frame(HEADERS, END_HEADERS, size);
            let begun = || frame(HEADERS, 0, size);
            let more = || frame(CONTINUATION, 0, size);
            let last = || frame(CONTINUATION, END_HEADERS, size);
            prop_assert_eq!(told(&[settings(), data()], piece), [false; 0]);
            prop_assert_eq!(told(&[settings(), whole(), data(), whole()], piece), [true, false, true, false]);
            prop_assert_eq!(told(&[begun(), more()], piece), [true]);
            prop_assert_eq!(told(&[begun(), more(), last(), data()], piece), [true, false]);
            let mut half = frame(HEADERS, END_HEADERS, size + 1);
            half.pop();
            prop_assert_eq!(told(&[settings(), half], piece), [true]);
        }
    }
}

//! Bodies in AWS event stream encoding.
use super::{super::frame, Mark};

/// A place in a body that is made of AWS frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frames {
    /// The prelude as far as it has come, and later the checksum at the end.
    kept: [u8; frame::PRELUDE],
    /// How many bytes of the frame have come.
    came: usize,
    /// How long the frame is, once its prelude has come.
    total: usize,
    /// Over what has come, without the checksum at the end.
    checksum: u32,
    lost: bool,
}

impl Frames {
    pub(super) fn is_lost(&self) -> bool {
        self.lost
    }

    pub(super) fn step(&mut self, bytes: &[u8]) -> (usize, Option<Mark>) {
        let mut at = 0;
        if self.lost || self.came < frame::PRELUDE && !self.take_prelude(bytes, &mut at) {
            return (bytes.len(), None);
        }
        let end_of_payload = self.total - frame::CHECKSUM;
        if self.came < end_of_payload {
            let part = &bytes[at..bytes.len().min(at + end_of_payload - self.came)];
            self.checksum = frame::checksum(self.checksum, part);
            self.came += part.len();
            at += part.len();
        }
        while self.came >= end_of_payload && self.came < self.total && at < bytes.len() {
            self.kept[self.came - end_of_payload] = bytes[at];
            self.came += 1;
            at += 1;
        }
        if self.came < self.total {
            return (bytes.len(), None);
        }
        let told = frame::number(&self.kept);
        let mark = if told == self.checksum { Mark::Event } else { Mark::Damaged };
        *self = Self::default();
        (at, Some(mark))
    }

    /// Takes bytes of the prelude. Whether it is complete now and makes sense.
    fn take_prelude(&mut self, bytes: &[u8], at: &mut usize) -> bool {
        let more = bytes.len().min(frame::PRELUDE - self.came);
        self.kept[self.came..self.came + more].copy_from_slice(&bytes[..more]);
        self.came += more;
        *at = more;
        if self.came < frame::PRELUDE {
            return false;
        }
        match frame::length(&self.kept) {
            Some(total) => {
                self.total = total;
                self.checksum = frame::checksum(0, &self.kept);
                true
            }
            None => {
                self.lost = true;
                false
            }
        }
    }
}

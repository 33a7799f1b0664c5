//! Room for what is read while much is being held.
use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Bytes, BytesMut};
use tokio::net::TcpStream;
use tokio_util::io::poll_read_buf;

use super::pump::READ_SIZE;

/// Blocks into which one piece is read behind the other, so that what is held takes hardly more memory than it is
/// long. A block is used again once all that was read into it is gone.
#[derive(Default)]
pub(super) struct Blocks {
    filling: Option<BytesMut>,
    /// The oldest first, which is the one that is free first.
    full: VecDeque<BytesMut>,
}

/// A block with less room than this is full, in bytes.
const LEAST_ROOM: usize = 1024;

impl Blocks {
    /// Reads what a socket has, as far as there is room in a block; nothing at the socket's end.
    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        socket: &mut TcpStream,
    ) -> Poll<io::Result<Bytes>> {
        if let Some(full) = self.filling.take_if(|block| block.capacity() < LEAST_ROOM) {
            self.full.push_back(full);
        }
        let next = || {
            let is_free = self.full.front_mut().is_some_and(|oldest| oldest.try_reclaim(READ_SIZE));
            let free = if is_free { self.full.pop_front() } else { None };
            free.unwrap_or_else(|| BytesMut::with_capacity(READ_SIZE))
        };
        let block = self.filling.get_or_insert_with(next);
        ready!(poll_read_buf(Pin::new(socket), cx, block))?;
        Poll::Ready(Ok(block.split().freeze()))
    }

    /// Whether the last piece has filled its block.
    pub(super) fn is_full(&self) -> bool {
        self.filling.as_ref().is_some_and(|block| block.capacity() < LEAST_ROOM)
    }

    /// Gives up all blocks.
    pub(super) fn clear(&mut self) {
        if self.filling.is_some() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::AsyncWriteExt as _;

    use super::{
        super::testing::{guarded, noise, pair},
        *,
    };

    #[tokio::test]
    async fn blocks_are_used_again_and_what_is_held_stays_as_it_was() {
        let sent = noise(3, 64 * READ_SIZE);
        let (mut near, mut far) = pair().await;
        let to_send = sent.clone();
        let sending = tokio::spawn(async move { near.write_all(&to_send).await });
        let mut blocks = Blocks::default();
        let (mut held, mut got) = (VecDeque::new(), Vec::new());
        let mut most = 0;
        while got.len() < sent.len() {
            // About eight blocks are held, as by a delay.
            let weight = held.iter().map(Bytes::len).sum::<usize>();
            if weight < 8 * READ_SIZE && got.len() + weight < sent.len() {
                held.push_back(guarded(poll_fn(|cx| blocks.poll_read(cx, &mut far))).await.unwrap());
            } else {
                got.extend_from_slice(&held.pop_front().unwrap());
            }
            most = most.max(blocks.full.len());
        }
        sending.await.unwrap().unwrap();
        assert!(got == sent);
        assert!(most <= 10, "{most}");
    }
}

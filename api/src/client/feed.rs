//! The live feed, read.
use aconite_dialects::{Decoder, Event, EventFormat};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::{ClientError, Result};

/// The largest event that is read.
const MAX_EVENT: usize = 1024 * 1024;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Live {
    /// What: `toxic.struck`, `chaos`, …; `missed` when the reader was too slow.
    pub event: String,
    /// The particulars.
    pub data: Value,
}

/// The live feed. Ends when it is dropped.
#[derive(Debug)]
pub struct Feed {
    body: Incoming,
    decoder: Decoder,
    authority: String,
}

impl Feed {
    pub(super) fn new(body: Incoming, authority: String) -> Self {
        Self { body, decoder: Decoder::new(EventFormat::Sse, MAX_EVENT), authority }
    }

    /// What happens next; `None` when the server ends the feed.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn next(&mut self) -> Result<Option<Live>> {
        loop {
            while let Some(piece) = self.decoder.next() {
                if let Some(live) = read(&piece) {
                    return Ok(Some(live));
                }
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.decoder.push(bytes);
                    }
                }
                Some(Err(source)) => {
                    return Err(ClientError::Http { authority: self.authority.clone(), source });
                }
            }
        }
    }
}

fn read(piece: &Event) -> Option<Live> {
    let data = serde_json::from_slice(&piece.data()).ok()?;
    Some(Live { event: piece.name()?.into_owned(), data })
}

//! How event and document toxics ride on bytes.
use aconite_dialects::{Decoder, Event, Framing, Meter};
use bytes::{Bytes, BytesMut};

use crate::{DocumentFilter, Moment, Schedule, StreamFilter};

/// Lets an event filter act on the bytes of a streamed body.
///
/// Events that the filter leaves alone pass byte for byte.
pub struct OnEvents {
    filter: Box<dyn StreamFilter<Event>>,
    decoder: Decoder,
    out: Schedule<Event>,
    /// Follows the event that was under way when the filter joined; none from its end on.
    joining: Option<Meter>,
    /// Follows what is sent, so that what the filter adds looks like it.
    sent: Meter,
}

impl OnEvents {
    /// Begins at the place in the stream that `at` has come to. If that is in the middle of an event, the rest of that
    /// event passes untouched, and the filter starts behind it. Events larger than `max_event` bytes pass untouched too.
    pub fn new(
        filter: Box<dyn StreamFilter<Event>>,
        framing: Framing,
        max_event: usize,
        at: Option<Meter>,
    ) -> Self {
        let decoder = match at {
            Some(meter) => Decoder::resume(framing, max_event, meter),
            None => Decoder::new(framing, max_event),
        };
        let joining = at.filter(|meter| !meter.at_boundary());
        let sent = at.unwrap_or_else(|| Meter::new(framing));
        Self { filter, decoder, out: Schedule::default(), joining, sent }
    }

    /// Hands what the filter has scheduled on as bytes.
    fn hand_on(&mut self, out: &mut Schedule<Bytes>) {
        out.adopt(&mut self.out, |event| {
            let raw = event.raw_at(&self.sent);
            self.sent.feed(&raw);
            raw
        });
    }

    fn run(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        let (oversize, damaged) = (self.decoder.oversize(), self.decoder.damaged());
        self.out.came = now;
        while let Some(piece) = self.decoder.next() {
            self.give(piece, now);
        }
        if self.decoder.oversize() > oversize {
            out.skip("event_too_large");
        }
        if self.decoder.damaged() > damaged {
            out.skip("event_damaged");
        }
        self.hand_on(out);
    }

    fn give(&mut self, piece: Event, now: Moment) {
        let Some(meter) = &mut self.joining else {
            if !self.out.is_over() {
                self.filter.on_item(piece, now, &mut self.out);
            }
            return;
        };
        meter.feed(piece.raw());
        let arrived = meter.at_boundary();
        self.out.send(now, piece);
        if arrived {
            self.joining = None;
            self.filter.on_start(now, &mut self.out);
        }
    }
}

impl StreamFilter<Bytes> for OnEvents {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if self.joining.is_none() {
            self.filter.on_start(now, &mut self.out);
            self.hand_on(out);
        }
    }

    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        self.decoder.push(item);
        self.run(now, out);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if let Some(tail) = self.decoder.finish() {
            self.give(tail, now);
        }
        if self.joining.is_none() {
            self.filter.on_end(now, &mut self.out);
        } else {
            self.out.end(now);
        }
        self.hand_on(out);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.out.wake = None;
        self.filter.on_wakeup(now, &mut self.out);
        self.hand_on(out);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if self.joining.is_none() {
            self.filter.on_stop(now, &mut self.out);
        }
        self.hand_on(out);
        if let Some(tail) = self.decoder.finish() {
            out.send(now, tail.into_raw());
        }
    }

    fn capacity(&self) -> usize {
        self.filter.capacity()
    }

    fn tally(&self) -> u64 {
        self.filter.tally()
    }

    fn resume(&mut self, tally: u64) {
        self.filter.resume(tally);
    }
}

/// Lets a document filter act on the bytes of a body: gathers them all, edits, sends on.
///
/// A body over the limit passes untouched, and the record says so.
pub struct Gather {
    filter: Box<dyn DocumentFilter>,
    limit: usize,
    held: BytesMut,
    given_up: bool,
}

impl Gather {
    /// Gathers at most `limit` bytes.
    pub fn new(filter: Box<dyn DocumentFilter>, limit: usize) -> Self {
        Self { filter, limit, held: BytesMut::new(), given_up: false }
    }

    fn let_go(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.given_up = true;
        if !self.held.is_empty() {
            out.send(now, self.held.split().freeze());
        }
    }
}

impl StreamFilter<Bytes> for Gather {
    fn on_item(&mut self, item: Bytes, now: Moment, out: &mut Schedule<Bytes>) {
        if self.given_up {
            out.send(now, item);
        } else if self.held.len() + item.len() > self.limit {
            out.skip("too_large");
            self.let_go(now, out);
            out.send(now, item);
        } else {
            self.held.extend_from_slice(&item);
        }
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        if !self.given_up {
            let body = self.held.split().freeze();
            match self.filter.edit(&body) {
                Ok(edited) => {
                    out.strike(now);
                    out.send(now, edited);
                }
                Err(reason) => {
                    out.skip(reason);
                    out.send(now, body);
                }
            }
        }
        out.end(now);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Bytes>) {
        self.let_go(now, out);
    }
}

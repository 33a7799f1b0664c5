//! How event toxics act on bytes.
use aconite_dialects::{Decoder, Event, EventFormat, Meter};
use bytes::Bytes;

use crate::{Moment, Schedule, StreamFilter};

/// Lets an event filter act on a streamed body, of which some may have been cut into events already.
///
/// Filters in a row share the decoding: the first one cuts bytes into events, the others are given these and only keep
/// their place, to go on by themselves should the first one be removed. Events that the filter leaves alone pass byte
/// for byte.
pub struct OnEvents {
    filter: Box<dyn StreamFilter<Event>>,
    decoder: Decoder,
    /// Follows the event that was under way when the filter joined; none from its end on.
    joining: Option<Meter>,
    /// Why an event could not be given to the filter. It says more than what the filter says of the others.
    missed: Option<&'static str>,
}

impl OnEvents {
    /// Begins at the place in the stream that `at` has come to. If that is in the middle of an event, the rest of that
    /// event passes untouched, and the filter starts behind it. Events larger than `max_event` bytes pass untouched too.
    pub fn new(
        filter: Box<dyn StreamFilter<Event>>,
        framing: EventFormat,
        max_event: usize,
        at: Option<Meter>,
    ) -> Self {
        let decoder = match at {
            Some(meter) => Decoder::resume(framing, max_event, meter),
            None => Decoder::new(framing, max_event),
        };
        let joining = at.filter(|meter| !meter.at_boundary());
        Self { filter, decoder, joining, missed: None }
    }

    fn tell(&self, out: &mut Schedule<Event>) {
        if let Some(reason) = self.missed {
            out.skip(reason);
        }
    }

    fn give(&mut self, piece: Event, now: Moment, out: &mut Schedule<Event>) {
        let Some(meter) = &mut self.joining else {
            if !out.is_over() {
                self.filter.on_item(piece, now, out);
            }
            return;
        };
        meter.feed(piece.raw());
        let arrived = meter.at_boundary();
        out.send(now, piece);
        if arrived {
            self.joining = None;
            self.filter.on_start(now, out);
        }
    }
}

impl StreamFilter<Event> for OnEvents {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.joining.is_none() {
            self.filter.on_start(now, out);
        }
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        let (oversize, damaged) = (self.decoder.oversize(), self.decoder.damaged());
        if item.is_undecoded() {
            self.decoder.push(item.into_raw());
            while let Some(piece) = self.decoder.next() {
                self.give(piece, now, out);
            }
        } else {
            if let Some(held) = self.decoder.follow(&item) {
                self.give(held, now, out);
            }
            self.give(item, now, out);
        }
        if self.decoder.oversize() > oversize {
            self.missed = Some("event_too_large");
        }
        if self.decoder.damaged() > damaged {
            self.missed = Some("event_damaged");
        }
        self.tell(out);
    }

    fn pass(&mut self, item: &Event, now: Moment) -> bool {
        let passes = item.is_event()
            && self.joining.is_none()
            && self.decoder.holds_nothing()
            && self.filter.pass(item, now);
        if passes {
            self.decoder.pass_event(item);
        }
        passes
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if let Some(tail) = self.decoder.finish() {
            self.give(tail, now, out);
        }
        if self.joining.is_none() {
            self.filter.on_end(now, out);
        } else {
            out.end(now);
        }
        self.tell(out);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.filter.on_wakeup(now, out);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Event>) {
        if self.joining.is_none() {
            self.filter.on_stop(now, out);
        }
        if let Some(begun) = self.decoder.finish() {
            out.send(now, Event::undecoded(begun.into_raw()));
        }
    }

    fn hand_over(&mut self) -> Option<Decoder> {
        Some(std::mem::take(&mut self.decoder))
    }

    fn take_over(&mut self, decoder: Decoder) {
        self.joining = decoder.inside();
        self.decoder = decoder;
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

/// Lets a filter act on the bytes of a body, of which some may have been cut into events already.
pub struct OnBytes {
    filter: Box<dyn StreamFilter<Bytes>>,
    out: Schedule<Bytes>,
    /// Follows what the filter is given, in a stream of events.
    at: Option<Meter>,
    /// What a predecessor had taken of an event that was not whole.
    begun: Option<Bytes>,
}

impl OnBytes {
    /// Begins at the place that `at` has come to in a stream of events.
    pub fn new(filter: Box<dyn StreamFilter<Bytes>>, at: Option<Meter>) -> Self {
        Self { filter, out: Schedule::default(), at, begun: None }
    }

    fn give(&mut self, item: Event, now: Moment) {
        if self.out.is_over() {
            return;
        }
        let raw = match &mut self.at {
            Some(at) => {
                let raw = item.raw_at(at);
                at.feed(&raw);
                raw
            }
            None => item.into_raw(),
        };
        self.filter.on_item(raw, now, &mut self.out);
    }
}

impl StreamFilter<Event> for OnBytes {
    fn on_start(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.filter.on_start(now, &mut self.out);
        if let Some(begun) = self.begun.take() {
            self.give(Event::undecoded(begun), now);
        }
        out.adopt(&mut self.out, Event::undecoded);
    }

    fn on_item(&mut self, item: Event, now: Moment, out: &mut Schedule<Event>) {
        self.give(item, now);
        out.adopt(&mut self.out, Event::undecoded);
    }

    fn on_end(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.filter.on_end(now, &mut self.out);
        out.adopt(&mut self.out, Event::undecoded);
    }

    fn on_wakeup(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.out.wake = None;
        self.filter.on_wakeup(now, &mut self.out);
        out.adopt(&mut self.out, Event::undecoded);
    }

    fn on_stop(&mut self, now: Moment, out: &mut Schedule<Event>) {
        self.filter.on_stop(now, &mut self.out);
        out.adopt(&mut self.out, Event::undecoded);
    }

    fn take_over(&mut self, mut decoder: Decoder) {
        self.begun = decoder.finish().map(Event::into_raw);
    }

    fn only_delays(&self) -> bool {
        self.filter.only_delays()
    }

    fn changes_length(&self) -> bool {
        self.filter.changes_length()
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

#[cfg(test)]
mod tests;

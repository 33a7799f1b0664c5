use std::cell::Cell;

use crate::Shape;

/// What can be asked about an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Question {
    Content = 1,
    Terminator = 2,
    Usage = 4,
    Failure = 8,
    ToolCall = 16,
}

/// What was found out about an event, by the shape of the stream that it was taken for.
#[derive(Clone, Debug, Default)]
pub(super) struct EventFacts {
    shape: Cell<Shape>,
    asked: Cell<u8>,
    yes: Cell<u8>,
}

impl EventFacts {
    pub(super) fn get(&self, shape: Shape, question: Question) -> Option<bool> {
        let bit = question as u8;
        (self.shape.get() == shape && self.asked.get() & bit != 0).then(|| self.yes.get() & bit != 0)
    }

    pub(super) fn put(&self, shape: Shape, question: Question, answer: bool) {
        let bit = question as u8;
        if self.shape.replace(shape) != shape {
            self.asked.set(0);
            self.yes.set(0);
        }
        self.asked.set(self.asked.get() | bit);
        if answer {
            self.yes.set(self.yes.get() | bit);
        }
    }
}

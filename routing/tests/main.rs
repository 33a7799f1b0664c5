//! The state machines from outside, as their owner uses them.

mod traces;

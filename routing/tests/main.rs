//! The state machines from outside, as their owner uses them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod breaker;
mod cooldown;
mod traces;

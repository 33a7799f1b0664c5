//! Toxics on the bytes of a connection.
mod bandwidth;
mod corrupt;
mod latency;
mod limit_data;
mod limit_time;
mod loss;
mod noop;
mod reset_peer;
mod slicer;
mod slow_close;
mod stall;
mod timeout;

pub use bandwidth::Bandwidth;
pub use corrupt::Corrupt;
pub use latency::Latency;
pub use limit_data::LimitData;
pub use limit_time::LimitTime;
pub use loss::Loss;
pub use noop::Noop;
pub use reset_peer::{EARLIEST_RESET, ResetPeer};
pub use slicer::Slicer;
pub use slow_close::SlowClose;
pub use stall::Stall;
pub use timeout::Timeout;

#[cfg(test)]
mod laws;
#[cfg(test)]
mod testing;

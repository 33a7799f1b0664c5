//! Whatever is relayed stays under control, every wait has a clock, and what was under way is written down.
mod draining;
mod http2;
mod relayed;
mod waiting;

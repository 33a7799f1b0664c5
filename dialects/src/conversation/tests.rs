//! What must hold for every format.

mod laws;
mod samples;

//! What must hold for every format.

mod corpus;
mod edges;
mod laws;
mod samples;

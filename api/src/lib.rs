//! The admin API: resources, routes, client. It does not know the proxy: the
//! proxy implements [`Control`].
mod control;
pub mod model;

pub use control::{Control, ControlError};

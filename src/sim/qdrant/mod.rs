//! Qdrant's REST API.
use super::{
    call::{Call, Unreadable},
    reply::Reply,
};
use http::StatusCode;
#[derive(Clone, Debug, Default)]
pub(super) struct Store(());
pub(super) fn answer(_: &Call, _: &Store) -> Reply {
    Reply::empty(StatusCode::NOT_FOUND)
}
pub(super) fn refuse(_: Unreadable) -> Reply {
    Reply::text(StatusCode::BAD_REQUEST, "x")
}

//! One endpoint: what it is called, takes, answers and does.
use std::sync::Arc;

use axum::{
    handler::Handler,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::{JsonSchema, Schema, SchemaGenerator};

/// The schema of a type.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

pub(super) struct Endpoint<C> {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    pub(super) summary: &'static str,
    pub(super) query: Option<SchemaOf>,
    pub(super) request: Option<Content>,
    pub(super) status: u16,
    /// Whether it can fail because something else has the name or the address.
    pub(super) conflicts: bool,
    pub(super) answer: Option<Content>,
    pub(super) handler: MethodRouter<Arc<C>>,
}

/// A body.
pub(super) enum Content {
    /// JSON of a schema.
    Json(SchemaOf),
    /// A merge patch (RFC 7396) of what has this schema.
    Patch(SchemaOf),
    /// What has this schema, but for members that it keeps if they are not given.
    Replacement(SchemaOf),
    /// Of a media type.
    Other(&'static str),
}

impl<C: Send + Sync + 'static> Endpoint<C> {
    pub(super) fn get<H: Handler<T, Arc<C>>, T: 'static>(
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new("get", MethodFilter::GET, path, summary, handler)
    }

    pub(super) fn post<H: Handler<T, Arc<C>>, T: 'static>(
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new("post", MethodFilter::POST, path, summary, handler)
    }

    pub(super) fn put<H: Handler<T, Arc<C>>, T: 'static>(
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new("put", MethodFilter::PUT, path, summary, handler)
    }

    pub(super) fn patch<H: Handler<T, Arc<C>>, T: 'static>(
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new("patch", MethodFilter::PATCH, path, summary, handler)
    }

    pub(super) fn delete<H: Handler<T, Arc<C>>, T: 'static>(
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self { status: 204, ..Self::new("delete", MethodFilter::DELETE, path, summary, handler) }
    }

    fn new<H: Handler<T, Arc<C>>, T: 'static>(
        method: &'static str,
        filter: MethodFilter,
        path: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        let handler = on(filter, handler);
        Self {
            method,
            path,
            summary,
            query: None,
            request: None,
            status: 200,
            conflicts: false,
            answer: None,
            handler,
        }
    }

    /// The query is of this type.
    pub(super) fn query<T: JsonSchema>(self) -> Self {
        Self { query: Some(T::json_schema), ..self }
    }

    /// The body is of this type.
    pub(super) fn takes<T: JsonSchema>(self) -> Self {
        Self { request: Some(Content::Json(SchemaGenerator::subschema_for::<T>)), ..self }
    }

    /// The body is a merge patch of this type.
    pub(super) fn takes_patch<T: JsonSchema>(self) -> Self {
        Self { request: Some(Content::Patch(SchemaGenerator::subschema_for::<T>)), ..self }
    }

    /// The body is of this type, in place of another one whose identity it keeps.
    pub(super) fn takes_replacement<T: JsonSchema>(self) -> Self {
        Self { request: Some(Content::Replacement(SchemaGenerator::subschema_for::<T>)), ..self }
    }

    /// It can fail because something else has the name or the address.
    pub(super) fn conflicts(self) -> Self {
        Self { conflicts: true, ..self }
    }

    /// The answer is of this type.
    pub(super) fn answers<T: JsonSchema>(self, status: u16) -> Self {
        Self { status, answer: Some(Content::Json(SchemaGenerator::subschema_for::<T>)), ..self }
    }

    /// The answer is of this media type.
    pub(super) fn sends(self, media_type: &'static str) -> Self {
        Self { answer: Some(Content::Other(media_type)), ..self }
    }
}

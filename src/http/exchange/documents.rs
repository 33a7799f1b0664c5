//! Documents are edited whole, before their head leaves: what no toxic changes keeps its length and its coding.
use std::sync::Arc;

use aconite_toxics::{BodyFilter, BodyForm, Direction, DocumentFilter, Instance, Level, Scope, StageId};
use bytes::Bytes;
use http::{HeaderMap, header};

use crate::{
    http::{
        body::{
            BodySource,
            buffered::{BufferedBody, DecodeError, Fill, decoded},
            governor::{Ready, concerns},
        },
        message::coding::Coded,
        ongoing::{Owner, Toxics},
    },
    plan::{Armed, Plan},
};

/// A body that has been through all toxics on documents.
pub(super) struct EditedBody {
    pub(super) source: BodySource,
    /// The toxics that were asked; in the body's lane they have nothing more to do.
    pub(super) asked: Vec<StageId>,
    /// Those that changed something.
    pub(super) struck: Vec<StageId>,
}

impl EditedBody {
    /// The toxics that were asked, as stages that have nothing to do.
    pub(super) fn stages(&self) -> impl Iterator<Item = Ready> {
        self.asked.iter().map(|id| (*id, None))
    }

    /// Makes a head tell of the body as it is now that it was changed.
    pub(super) fn describe(&self, headers: &mut HeaderMap) {
        headers.remove(header::CONTENT_ENCODING);
        match self.source.exact_size() {
            Some(length) => {
                headers.insert(header::CONTENT_LENGTH, length.into());
                headers.remove(header::TRANSFER_ENCODING);
            }
            None => {
                headers.remove(header::CONTENT_LENGTH);
            }
        }
    }
}

type Editor = (StageId, Box<dyn DocumentFilter>);

/// Lets the toxics on documents edit a body, one after the other, if it is a document of at most `max_edit_bytes`.
pub(super) async fn edit(
    party: &Owner,
    plan: &Plan,
    scope: &Scope,
    coded: Coded,
    source: BodySource,
) -> EditedBody {
    let toxics = party.toxics();
    let editors = editors(toxics, plan, scope);
    let asked: Vec<_> = editors.iter().map(|(id, _)| *id).collect();
    if editors.is_empty() {
        return EditedBody { source, asked, struck: Vec::new() };
    }
    let limit = party.ongoing().site.max_edit_bytes();
    let pass = |source, reason| {
        asked.iter().for_each(|id| toxics.passed_over(id.toxic, reason));
        EditedBody { source, asked: asked.clone(), struck: Vec::new() }
    };
    if source.exact_size().is_some_and(|length| length > limit as u64) {
        return pass(source, "too_large");
    }
    if coded == Coded::Unknown {
        return pass(source, "encoded");
    }
    let strict = scope.direction == Direction::Upstream && party.ongoing().http2;
    let mut held = BufferedBody::new(source, strict);
    let came = tokio::select! {
        came = held.fill(limit, |_| false) => came,
        () = toxics.gone(&asked) => Fill::Part,
    };
    let bytes = held.bytes();
    let plain = match (came, coded) {
        (Fill::Broken, _) => Err("incomplete"),
        (Fill::Part, _) if bytes.len() > limit => Err("too_large"),
        (Fill::Part, _) => Err("removed"),
        (Fill::All, Coded::By(coding)) => decoded(coding, bytes, limit).await.map_err(|error| match error {
            DecodeError::TooLarge => "too_large",
            DecodeError::Invalid => "encoded",
        }),
        (Fill::All, _) => Ok(bytes),
    };
    let held_source = |held| BodySource::Buffered(Box::new(held));
    match plain {
        Err(reason) => pass(held_source(held), reason),
        Ok(plain) => {
            let (edited, struck) = edited(party, editors, plain);
            let source = match edited {
                Some(edited) => held.replaced(edited),
                None => held_source(held),
            };
            EditedBody { source, asked, struck }
        }
    }
}

/// The toxics that edit documents and apply here.
fn editors(toxics: Toxics<'_>, plan: &Plan, scope: &Scope) -> Vec<Editor> {
    if scope.body != BodyForm::Document || !toxics.act_on_messages(plan) {
        return Vec::new();
    }
    let applies = |toxic: &&Arc<Armed>| {
        toxic.acts_on(Level::Document) && concerns(toxic, scope) && toxics.strikes(plan, toxic)
    };
    let start = |toxic: &Arc<Armed>| match toxic.start(scope, toxics.dice(toxic.id.toxic)?) {
        Instance::Body(BodyFilter::Document(editor)) => Some((toxic.id, editor)),
        _ => None,
    };
    toxics.all(plan).filter(applies).filter_map(start).collect()
}

/// What the editors make of a document, if they change it, and which of them do.
fn edited(party: &Owner, editors: Vec<Editor>, plain: Bytes) -> (Option<Bytes>, Vec<StageId>) {
    let (mut body, mut struck) = (plain, Vec::new());
    for (id, mut editor) in editors {
        match editor.edit(&body) {
            Ok(edited) => {
                body = edited;
                struck.push(id);
                party.toxics().struck(id.toxic, party.ongoing().now());
            }
            Err(reason) => party.toxics().passed_over(id.toxic, reason),
        }
    }
    ((!struck.is_empty()).then_some(body), struck)
}

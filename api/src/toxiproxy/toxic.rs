//! A toxic as Toxiproxy's clients send it.
use aconite_toxics::{Catalogue, Direction, ToxicSpec};
use http::StatusCode;
use serde_json::{Map, Value};

use super::{attributes, error_response::ErrorResponse, read::Object};

/// What a request says of a toxic.
pub(super) struct ToxicRequest {
    name: String,
    kind: String,
    stream: Option<String>,
    toxicity: Option<f32>,
    attributes: Map<String, Value>,
}

impl ToxicRequest {
    /// # Errors
    /// If the value is not an object, or a field has the wrong type.
    pub(super) fn read(value: Value) -> Result<Self, ErrorResponse> {
        let body = Object::new(value)?;
        let stream = body.text("stream")?;
        Ok(Self {
            name: body.text("name")?.unwrap_or_default(),
            kind: body.text("type")?.unwrap_or_default(),
            // noxious' client calls it so.
            stream: if stream.is_some() { stream } else { body.text("direction")? },
            toxicity: body.float("toxicity")?,
            attributes: body.object("attributes")?.unwrap_or_default(),
        })
    }

    /// The toxic to add, checked in Toxiproxy's order: stream, type, name, attributes.
    ///
    /// # Errors
    /// The first check that fails.
    pub(super) fn into_spec(
        self,
        catalogue: &Catalogue,
        taken: &[ToxicSpec],
    ) -> Result<ToxicSpec, ErrorResponse> {
        let stream = match self.stream.as_deref() {
            None => Direction::Downstream,
            Some(text) if text.eq_ignore_ascii_case("downstream") => Direction::Downstream,
            Some(text) if text.eq_ignore_ascii_case("upstream") => Direction::Upstream,
            Some(_) => {
                return Err(ErrorResponse::new(
                    StatusCode::BAD_REQUEST,
                    "stream was invalid, can be either upstream or downstream",
                ));
            }
        };
        let kind = catalogue.definition(&self.kind)?.kind;
        let name = match (self.name, self.stream) {
            (name, _) if !name.is_empty() => name,
            // The stream as the client spells it, which is how the client then asks for it.
            (_, Some(spelling)) => format!("{kind}_{spelling}"),
            (_, None) => format!("{kind}_downstream"),
        };
        if taken.iter().any(|toxic| toxic.name == name) {
            return Err(ErrorResponse::toxic_exists());
        }
        let mut spec = ToxicSpec::new(kind, Map::new());
        attributes::merge(&mut spec, &ToxicSpec::new(&self.kind, self.attributes), catalogue)?;
        spec.name = name;
        spec.stream = stream;
        spec.toxicity = self.toxicity.unwrap_or(1.0);
        spec.attributes = catalogue.parse(&spec)?.attributes();
        Ok(spec)
    }

    /// Puts this over a toxic; name, type and stream stay.
    ///
    /// # Errors
    /// If the attributes don't fit the type.
    pub(super) fn merge_into(
        self,
        mut spec: ToxicSpec,
        catalogue: &Catalogue,
    ) -> Result<ToxicSpec, ErrorResponse> {
        let given = ToxicSpec::new(&spec.kind, self.attributes);
        attributes::merge(&mut spec, &given, catalogue)?;
        spec.toxicity = self.toxicity.unwrap_or(spec.toxicity);
        spec.attributes = catalogue.parse(&spec)?.attributes();
        Ok(spec)
    }
}

/// The toxics that come with a proxy; `null` and `[]` are none.
///
/// # Errors
/// As for adding each.
pub(super) fn embedded(values: Vec<Value>, catalogue: &Catalogue) -> Result<Vec<ToxicSpec>, ErrorResponse> {
    values.into_iter().try_fold(Vec::new(), |mut toxics, value| {
        let toxic = ToxicRequest::read(value)?.into_spec(catalogue, &toxics)?;
        toxics.push(toxic);
        Ok(toxics)
    })
}

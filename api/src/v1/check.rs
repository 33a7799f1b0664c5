//! What must hold of a resource before the proxy is asked, so that the complaint can say where.
use aconite_toxics::{Catalogue, SpecError, ToxicSpec};

use crate::{ControlError, model::Protocol, model::ProxySpec};

/// A proxy, and all its toxics. Fills in the toxics' default names.
///
/// # Errors
/// The first thing that does not hold, its path beginning with `at`.
pub(super) fn proxy(spec: &mut ProxySpec, catalogue: &Catalogue, at: &str) -> Result<(), ControlError> {
    if spec.name.is_empty() {
        return Err(ControlError::invalid(format!("{at}name"), "a proxy needs a name"));
    }
    if spec.upstream.is_empty() && spec.protocol() != Protocol::Forward {
        return Err(ControlError::invalid(format!("{at}upstream"), "a proxy needs an upstream to lead to"));
    }
    if !spec.listen.is_empty() && !spec.listen.contains(':') {
        return Err(ControlError::Invalid {
            path: format!("{at}listen"),
            message: format!("`{}` has no port", spec.listen),
            hint: Some("write host:port; port 0 picks a free one".to_owned()),
        });
    }
    for index in 0..spec.toxics.len() {
        let (before, rest) = spec.toxics.split_at_mut(index);
        let Some(each) = rest.first_mut() else { break };
        let at = format!("{at}toxics[{index}].");
        toxic(each, catalogue, &at)?;
        if before.iter().any(|other| other.name == each.name) {
            let message = format!("another toxic of the proxy is named `{}` too", each.name);
            return Err(ControlError::invalid(format!("{at}name"), message));
        }
    }
    Ok(())
}

/// A toxic. Fills in its default name.
///
/// # Errors
/// The first thing that does not hold, its path beginning with `at`.
pub(super) fn toxic(spec: &mut ToxicSpec, catalogue: &Catalogue, at: &str) -> Result<(), ControlError> {
    if !(0.0..=1.0).contains(&spec.toxicity) {
        let message = format!("toxicity lies between 0 and 1, and {} does not", spec.toxicity);
        return Err(ControlError::invalid(format!("{at}toxicity"), message));
    }
    catalogue.parse(spec).map_err(|error| placed(error, at))?;
    if spec.name.is_empty() {
        *spec = spec.clone().named();
    }
    Ok(())
}

fn placed(error: SpecError, at: &str) -> ControlError {
    if at.is_empty() {
        return ControlError::Spec(error);
    }
    let message = error.to_string();
    match error {
        SpecError::UnknownType { nearest, .. } => ControlError::Invalid {
            path: format!("{at}type"),
            message,
            hint: Some(format!("the most similar types are `{}`", nearest.join("`, `"))),
        },
        SpecError::Attributes { path, .. } => ControlError::Invalid {
            hint: super::read::nearest(&message),
            path: format!("{at}{path}"),
            message,
        },
    }
}

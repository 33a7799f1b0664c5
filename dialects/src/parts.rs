//! Where the parts of chat responses are: the model's name, the usage, texts, tool calls.
//!
//! Each provider has them somewhere else; its [`Provider`] knows where. The same paths serve documents and the data of
//! events.

use crate::{
    content::{filled, kind},
    json::{Kind, Node},
    provider::Provider,
};

/// A part of a chat response or of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Part {
    /// The name of the model that answered: strings.
    Model,
    /// The usage: objects or numbers.
    Usage,
    /// Why the response ended: strings.
    Finish,
    /// What is said to the user: strings, in streams pieces of it, and repetitions of the whole.
    Text,
    /// The names of the tools that are called: strings.
    ToolName,
    /// The ids of calls of tools: strings.
    ToolId,
    /// The arguments of calls of tools: objects, strings with JSON, or in streams fragments of these.
    ToolArguments,
}

/// Paths to the parts: names separated by dots, with `[]` after a name for every item of a list. `TYPE:` before a path
/// restricts it to events of this `type`.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) model: &'static [&'static str],
    pub(crate) usage: &'static [&'static str],
    pub(crate) text: &'static [&'static str],
    pub(crate) tool_name: &'static [&'static str],
    pub(crate) tool_id: &'static [&'static str],
    pub(crate) tool_arguments: &'static [&'static str],
}

impl Parts {
    /// Nothing is known.
    pub(crate) const NONE: Self =
        Self { model: &[], usage: &[], text: &[], tool_name: &[], tool_id: &[], tool_arguments: &[] };
}

impl Provider {
    /// The values of a part in a response or the data of an event, in the order of its paths. Nulls, empty texts and empty
    /// containers are left out.
    pub fn find<'d>(&self, part: Part, root: Node<'d>) -> Vec<Node<'d>> {
        let paths = match part {
            Part::Model => self.parts.model,
            Part::Usage => self.parts.usage,
            Part::Finish => self.finish,
            Part::Text => self.parts.text,
            Part::ToolName => self.parts.tool_name,
            Part::ToolId => self.parts.tool_id,
            Part::ToolArguments => self.parts.tool_arguments,
        };
        let mut found = Vec::new();
        for path in paths {
            let path = match path.split_once(':') {
                Some((expected, path)) if kind(root) == expected => path,
                Some(_) => continue,
                None => path,
            };
            visit(root, path, &mut |node| found.push(node));
        }
        found.retain(|node| filled(Some(*node)));
        found
    }
}

/// Gives every node at a path: names separated by dots, `[]` after a name for every item of a list.
pub(crate) fn visit<'d>(node: Node<'d>, path: &str, give: &mut impl FnMut(Node<'d>)) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let Some(next) = node.get(name) else { return };
    let is_each = is_list && next.kind() == Kind::Array;
    let one = (!is_list).then_some(next);
    for node in is_each.then(|| next.children()).into_iter().flatten().chain(one) {
        match rest {
            Some(rest) => visit(node, rest, give),
            None => give(node),
        }
    }
}

#[cfg(test)]
mod tests;

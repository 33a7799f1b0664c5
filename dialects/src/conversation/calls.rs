//! Calls for formats that send each call whole.

use super::{Delta, Part, Request, Role, Stop, ToolCall, ToolResult};

/// Gathers the pieces of calls until something else follows.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<(usize, usize, ToolCall)>);

impl Calls {
    /// Takes a piece of a call. False if the step is something else.
    pub(super) fn push(&mut self, delta: &Delta) -> bool {
        match delta {
            Delta::ToolCall { choice, call, id, name, seal } => {
                let (id, name, seal) = (id.clone(), name.clone(), seal.clone());
                self.0.push((*choice, *call, ToolCall { id, name, arguments: String::new(), seal }));
                true
            }
            Delta::Arguments { choice, call, text } => {
                let of_call = |(of_choice, number, _): &&mut (usize, usize, ToolCall)| {
                    of_choice == choice && number == call
                };
                if let Some((_, _, begun)) = self.0.iter_mut().find(of_call) {
                    begun.arguments.push_str(text);
                }
                true
            }
            _ => false,
        }
    }

    /// The calls of a choice, in order.
    pub(super) fn take(&mut self, choice: usize) -> Vec<ToolCall> {
        let (taken, kept) = std::mem::take(&mut self.0).into_iter().partition(|(of, _, _)| *of == choice);
        self.0 = kept;
        let taken: Vec<(usize, usize, ToolCall)> = taken;
        taken.into_iter().map(|(_, _, call)| call).collect()
    }
}

/// Why an answer ends in a format whose calls are whole: one whose arguments are no object is left out.
pub(super) fn stop_of<'c>(stop: &Stop, mut calls: impl Iterator<Item = &'c ToolCall>) -> Stop {
    if *stop == Stop::ToolCalls && calls.any(|call| call.object().is_none()) {
        Stop::MalformedCall
    } else {
        stop.clone()
    }
}

/// The name of the tool that a result belongs to: formats that have no ids of calls need it.
pub(super) fn tool_name<'r>(request: &'r Request, result: &'r ToolResult) -> Option<&'r str> {
    let calls = request.turns.iter().filter(|turn| turn.role == Role::Assistant).flat_map(|turn| &turn.parts);
    let mut names = calls.filter_map(|part| match part {
        Part::ToolCall(call) if call.id == result.id => Some(call.name.as_str()),
        _ => None,
    });
    names.next_back().or(result.name.as_deref())
}

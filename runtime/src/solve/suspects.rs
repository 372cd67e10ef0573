//! Inputs with a value that is not finite, for the report of a solve that met one.
//!
//! They are no errors by themselves: outside a mask a vector may hold anything.

use std::collections::BTreeMap;

use super::outcome::{Outcome, Report};
use crate::backend::VectorRef;

/// Inputs in use that hold such a value, with its first place.
#[derive(Debug, Default)]
pub(super) struct Suspects(BTreeMap<String, usize>);

impl Suspects {
    /// Looks at an input that is about to be used. Memory of a device is taken as good.
    pub(super) fn look(&mut self, what: String, values: &VectorRef) {
        let first = match values {
            VectorRef::F64(values) => values.iter().position(|value| !value.is_finite()),
            VectorRef::F32(values) => values.iter().position(|value| !value.is_finite()),
            VectorRef::Device(_) => None,
        };
        match first {
            Some(first) => self.0.insert(what, first),
            None => self.0.remove(&what),
        };
    }

    /// Names them, where the solve met a value that is not finite: whatever the loop said of it came after.
    pub(super) fn explain(&self, report: &mut Report) {
        if report.outcome == Outcome::NotFinite && !self.0.is_empty() {
            let named = self.0.iter().map(|(what, first)| format!("{what} (element {first}, counted from 0)"));
            let named: Vec<String> = named.collect();
            report.detail = Some(format!("not finite from the beginning: {}", named.join(", ")));
        }
    }
}

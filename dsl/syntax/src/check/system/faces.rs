//! Numerical fluxes and exterior states.

use super::formula::{Degree, Place, Scope, Value};
use super::{Build, NAMED, algebra};
use crate::ast::{Documented, Entry, Expr as AstExpr, Item, Name, Part};
use crate::diagnostic::Diagnostic;
use crate::print;
use crate::program::system::{ExteriorState, Formula, NumericalFlux, Quantity, Rate, Side};
use crate::source::Span;

impl Build<'_> {
    /// All numerical fluxes.
    pub(super) fn fluxes(&mut self, item: &Item, parts: &[Documented<Part>], rates: &[Rate]) -> Vec<NumericalFlux> {
        let mut fluxes: Vec<NumericalFlux> = Vec::new();
        for part in parts {
            let Part::Flux(name, entries) = &part.kind else { continue };
            self.second(name, fluxes.iter().map(|flux| (flux.name.as_str(), flux.span)), "flux");
            fluxes.push(self.flux(name, &part.doc, entries, rates));
        }
        if fluxes.is_empty() {
            let message = format!("system `{}` has no `flux`", item.name.text);
            self.report("missing", item.name.span, message, "add `flux central { … }`");
        }
        fluxes
    }

    fn second<'n>(&mut self, name: &Name, mut known: impl Iterator<Item = (&'n str, Span)>, what: &str) {
        if let Some((_, first)) = known.find(|(known, _)| *known == name.text) {
            let error = Diagnostic::new("duplicate-name", name.span, format!("a second {what} `{}`", name.text));
            self.errors.push(error.note(first, "first one"));
        }
    }

    fn flux(&mut self, name: &Name, doc: &str, entries: &[Documented<Entry>], rates: &[Rate]) -> NumericalFlux {
        let place = Place { what: "`flux`", derivatives: false, position: false, time: false, ..NAMED };
        let mut values: Vec<Option<Formula>> = vec![None; rates.len()];
        let outer = self.table.lets.len();
        for entry in entries {
            match &entry.kind {
                Entry::Let(name, value) => self.local(name, value, place),
                Entry::Assign(field, value) => self.flux_of(field, value, place, &mut values),
                Entry::Exterior(field, _) => {
                    let message = format!("`exterior({})` is not set by a flux", field.text);
                    self.report("not-allowed", entry.span, message, "a `boundary` says what is outside");
                }
            }
        }
        self.table.lets.truncate(outer);
        for field in self.table.fields.clone() {
            let range = field.first..field.first + field.size;
            let moves = rates[range.clone()].iter().any(|rate| rate.terms.iter().any(|term| term.axis.is_some()));
            if moves && range.clone().any(|component| values[component].is_none()) {
                let message = format!("flux `{}` says nothing about `{}`", name.text, field.name);
                let help = format!("add `{} = …;`: its equation with `n` in place of the derivatives", field.name);
                self.report("missing", name.span, message, &help);
            }
        }
        NumericalFlux {
            name: name.text.clone(),
            doc: doc.to_string(),
            values: values.into_iter().map(|value| value.unwrap_or_else(algebra::zero)).collect(),
            text: entries.iter().map(|entry| print::entry(&entry.kind)).collect(),
            span: name.span,
        }
    }

    /// A named value of a block; it may hide nothing.
    fn local(&mut self, name: &Name, value: &AstExpr, place: Place) {
        let taken = self.places.iter().chain(self.table.lets.iter().map(|(name, _)| name));
        if let Some(first) = taken.into_iter().find(|known| known.text == name.text) {
            self.errors.push(crate::check::names::duplicate(name, first.span));
            return;
        }
        match Scope::new(&self.table, place, self.errors).value(value) {
            Some(_) => self.table.lets.push((name.clone(), value.clone())),
            None => self.table.broken.push(name.text.clone()),
        }
    }

    fn flux_of(&mut self, name: &Name, value: &AstExpr, place: Place, values: &mut [Option<Formula>]) {
        let Some(field) = self.field(name) else { return };
        let what = format!("the flux of `{}`", name.text);
        let Some(value) = Scope::new(&self.table, place, self.errors).sized(value, field.size, &what) else {
            return said(&field, values);
        };
        if value.degree != Degree::Linear && !value.parts.iter().all(algebra::is_zero) {
            let error = Diagnostic::new("not-linear", value.span, format!("{what} is not linear in the fields"));
            self.errors.push(error.label("holds a part without fields"));
        }
        self.assign(name, &field, value, values, "flux");
    }

    fn assign(&mut self, name: &Name, of: &Quantity, value: Value, values: &mut [Option<Formula>], what: &str) {
        for (slot, part) in values[of.first..of.first + of.size].iter_mut().zip(value.parts) {
            if slot.replace(part).is_some() {
                let error = Diagnostic::new("duplicate", name.span, format!("a second {what} of `{}`", name.text));
                self.errors.push(error);
                return;
            }
        }
    }

    /// All boundary conditions.
    pub(super) fn conditions(&mut self, parts: &[Documented<Part>]) -> Vec<ExteriorState> {
        let mut conditions: Vec<ExteriorState> = Vec::new();
        for part in parts {
            let Part::Boundary(name, entries) = &part.kind else { continue };
            self.second(name, conditions.iter().map(|known| (known.name.as_str(), known.span)), "boundary condition");
            conditions.push(self.condition(name, &part.doc, entries));
        }
        conditions
    }

    fn condition(&mut self, name: &Name, doc: &str, entries: &[Documented<Entry>]) -> ExteriorState {
        let place = Place { what: "`boundary`", derivatives: false, exterior: false, ..NAMED };
        let count = |list: &[Quantity]| list.iter().map(|quantity| quantity.size).sum::<usize>();
        let mut fields: Vec<Option<Formula>> = vec![None; count(&self.table.fields)];
        let mut materials: Vec<Option<Formula>> = vec![None; count(&self.table.materials)];
        let outer = self.table.lets.len();
        for entry in entries {
            match &entry.kind {
                Entry::Let(name, value) => self.local(name, value, place),
                Entry::Exterior(of, value) => self.exterior(of, value, place, &mut fields, &mut materials),
                Entry::Assign(field, _) => {
                    let message = format!("a boundary condition says what `exterior({})` is", field.text);
                    let help = format!("write `exterior({}) = …;`", field.text);
                    self.report("not-allowed", entry.span, message, &help);
                }
            }
        }
        self.table.lets.truncate(outer);
        for field in self.table.fields.clone() {
            if fields[field.first..field.first + field.size].iter().any(Option::is_none) {
                let message = format!("boundary `{}` says nothing about `{}`", name.text, field.name);
                let help = format!("add `exterior({0}) = {0};` if it is the same on both sides", field.name);
                self.report("missing", name.span, message, &help);
            }
        }
        let inside = |material| Formula::Material(Side::Interior, material);
        ExteriorState {
            name: name.text.clone(),
            doc: doc.to_string(),
            fields: fields.into_iter().map(|value| value.unwrap_or_else(algebra::zero)).collect(),
            materials: (0..).zip(materials).map(|(number, value)| value.unwrap_or_else(|| inside(number))).collect(),
            text: entries.iter().map(|entry| print::entry(&entry.kind)).collect(),
            span: name.span,
        }
    }

    fn exterior(
        &mut self,
        name: &Name,
        value: &AstExpr,
        place: Place,
        fields: &mut [Option<Formula>],
        materials: &mut [Option<Formula>],
    ) {
        let material = self.table.materials.iter().find(|material| material.name == name.text).cloned();
        let what = format!("`exterior({})`", name.text);
        if let Some(material) = material {
            let place = Place { fields: false, position: false, time: false, ..place };
            if let Some(value) = Scope::new(&self.table, place, self.errors).sized(value, material.size, &what) {
                self.assign(name, &material, value, materials, "exterior value");
            }
            return;
        }
        let Some(field) = self.field(name) else { return };
        match Scope::new(&self.table, place, self.errors).sized(value, field.size, &what) {
            Some(value) => self.assign(name, &field, value, fields, "exterior value"),
            None => said(&field, fields),
        }
    }
}

/// Something was said about a quantity, though it made no sense.
fn said(quantity: &Quantity, values: &mut [Option<Formula>]) {
    for slot in &mut values[quantity.first..quantity.first + quantity.size] {
        slot.get_or_insert_with(algebra::zero);
    }
}

//! Systems and time steps as text.

use super::{defaults, doc, expression};
use crate::ast::{Documented, Entry, Part, Quantity, Stage};

/// The statements of a system.
pub(super) fn parts(out: &mut String, parts: &[Documented<Part>]) {
    for part_ in parts {
        doc(out, &part_.doc, 1);
        match &part_.kind {
            Part::Flux(name, list) => braced(out, &format!("flux {}", name.text), list),
            Part::Boundary(name, list) => braced(out, &format!("boundary {}", name.text), list),
            simple => out.push_str(&format!("    {}\n", part(simple))),
        }
    }
}

/// The stages of a time step.
pub(super) fn stages(out: &mut String, stages: &[Documented<Stage>]) {
    for stage in stages {
        doc(out, &stage.doc, 1);
        braced(out, &format!("stage {}", expression(&stage.kind.time)), &stage.kind.updates);
    }
}

fn braced(out: &mut String, head: &str, list: &[Documented<Entry>]) {
    out.push_str(&format!("    {head} {{\n"));
    for entry_ in list {
        doc(out, &entry_.doc, 2);
        out.push_str(&format!("        {}\n", entry(&entry_.kind)));
    }
    out.push_str("    }\n");
}

/// A statement of a system with its `;`; of one with a block, its head.
pub fn part(part: &Part) -> String {
    match part {
        Part::Mesh(name) => format!("mesh {};", name.text),
        Part::Order(name, default) => format!("order {};", defaults(&[(name.clone(), default.clone())])),
        Part::Field(list) => format!("field {};", quantities(list)),
        Part::Material(list) => format!("material {};", quantities(list)),
        Part::Param(list) => format!("param {};", quantities(list)),
        Part::Let(name, value) => format!("let {} = {};", name.text, expression(value)),
        Part::Ddt(name, value) => format!("ddt {} = {};", name.text, expression(value)),
        Part::Source(name, value) => format!("source {} = {};", name.text, expression(value)),
        Part::Flux(name, _) => format!("flux {}", name.text),
        Part::Boundary(name, _) => format!("boundary {}", name.text),
        Part::Step(name) => format!("step {};", name.text),
    }
}

fn quantities(list: &[Quantity]) -> String {
    let one = |quantity: &Quantity| {
        let size = quantity.size.as_ref().map(|size| format!("[{}]", expression(size))).unwrap_or_default();
        let default = quantity.default.as_ref().map(|value| format!(" = {}", expression(value))).unwrap_or_default();
        format!("{}{size}{default}", quantity.name.text)
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A statement of a flux or boundary condition.
pub fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Let(name, value) => format!("let {} = {};", name.text, expression(value)),
        Entry::Assign(name, value) => format!("{} = {};", name.text, expression(value)),
        Entry::Exterior(name, value) => format!("exterior({}) = {};", name.text, expression(value)),
    }
}

//! Systems: fields, equations, numerical fluxes, boundary conditions; and the time steps and problems of systems.

mod algebra;
mod faces;
mod formula;
mod run;
mod soundness;
mod step;

use crate::ast::{self, Documented, Expr as AstExpr, Item, Name, Part};
use crate::check::names::{duplicate, reserved};
use crate::check::number::{number, whole};
use crate::check::operator::unknown_word;
use crate::diagnostic::Diagnostic;
use crate::print;
use crate::program::system::{Quantity, Rate, System};
use crate::source::Span;
use formula::{Degree, OPERATIONS, Place, Scope, Table};

pub use run::run;
pub use soundness::growth;
pub use step::time_step;

/// Highest polynomial order.
pub const HIGHEST_ORDER: u64 = 9;

/// Most components of a system's fields: kernels keep them in registers.
const MOST_COMPONENTS: usize = 64;

/// Everything may be read: a named value is checked for itself, and again where it is used.
const NAMED: Place = Place {
    what: "`let`",
    fields: true,
    derivatives: true,
    materials: true,
    face: true,
    exterior: true,
    position: true,
    time: true,
};

/// A keyword and which statements it begins.
type Kind = (&'static str, fn(&Part) -> bool);

/// A system being checked.
pub struct Build<'e> {
    /// What is declared.
    pub table: Table,
    /// Where names were declared.
    places: Vec<Name>,
    /// Where errors go.
    pub errors: &'e mut Vec<Diagnostic>,
}

/// Checks a system; what it returns is only good if nothing was reported.
pub fn system(item: &Item, parts: &[Documented<Part>], errors: &mut Vec<Diagnostic>) -> Option<System> {
    let before = errors.len();
    let mut build = Build { table: Table::default(), places: Vec::new(), errors };
    build.once(item, parts);
    build.declare(parts);
    let rates = build.rates(item, parts);
    let fluxes = build.fluxes(item, parts, &rates);
    let conditions = build.conditions(parts);
    let text = parts.iter().filter(|part| matches!(part.kind, Part::Ddt(..) | Part::Source(..) | Part::Let(..)));
    let order = build.order(parts);
    let system = System {
        name: item.name.text.clone(),
        doc: item.doc.clone(),
        span: item.name.span,
        order,
        fields: build.table.fields,
        materials: build.table.materials,
        params: build.table.params,
        rates,
        fluxes,
        conditions,
        step: parts.iter().find_map(|part| match &part.kind {
            Part::Step(name) => Some(name.text.clone()),
            _ => None,
        }),
        text: text.map(|part| print::part(&part.kind)).collect(),
    };
    if errors.len() > before {
        return None;
    }
    soundness::check(&system, parts, errors);
    Some(system)
}

impl Build<'_> {
    fn report(&mut self, code: &'static str, span: Span, message: impl Into<String>, help: &str) {
        self.errors.push(Diagnostic::new(code, span, message).help(help));
    }

    /// `mesh` and a `field` must stand; `mesh`, `order` and `step` at most once.
    fn once(&mut self, item: &Item, parts: &[Documented<Part>]) {
        let kinds: [Kind; 3] = [
            ("mesh", |part| matches!(part, Part::Mesh(_))),
            ("order", |part| matches!(part, Part::Order(..))),
            ("step", |part| matches!(part, Part::Step(_))),
        ];
        for (keyword, is) in kinds {
            let mut found = parts.iter().filter(|part| is(&part.kind));
            let first = found.next().map(|part| part.span);
            for second in found {
                let error = Diagnostic::new("duplicate", second.span, format!("a second `{keyword}`"));
                self.errors.push(error.note(first.unwrap_or_default(), "first one"));
            }
            if keyword == "mesh" && first.is_none() {
                let message = format!("system `{}` has no `mesh`", item.name.text);
                self.report("missing", item.name.span, message, "add `mesh tetrahedra;`");
            }
        }
        for part in parts {
            if let Part::Mesh(kind) = &part.kind
                && kind.text != "tetrahedra"
            {
                self.errors.push(unknown_word(kind, "a kind of mesh", &["tetrahedra"]));
            }
        }
        if !parts.iter().any(|part| matches!(part.kind, Part::Field(_))) {
            let message = format!("system `{}` has no `field`", item.name.text);
            self.report("missing", item.name.span, message, "add `field u;`");
        }
    }

    fn order(&mut self, parts: &[Documented<Part>]) -> Option<(String, Option<u32>)> {
        let (name, default) = parts.iter().find_map(|part| match &part.kind {
            Part::Order(name, default) => Some((name, default)),
            _ => None,
        })?;
        let default = default.as_ref().and_then(|value| whole(value, "the order", 1..=HIGHEST_ORDER, self.errors));
        Some((name.text.clone(), default.map(|order| order as u32)))
    }

    fn declare(&mut self, parts: &[Documented<Part>]) {
        for part in parts {
            match &part.kind {
                Part::Field(list) => self.quantities(list, &part.doc, |table| &mut table.fields, false),
                Part::Material(list) => self.quantities(list, &part.doc, |table| &mut table.materials, true),
                Part::Param(list) => self.quantities(list, &part.doc, |table| &mut table.params, true),
                Part::Order(name, _) => self.name(name),
                _ => {}
            }
        }
        let components: usize = self.table.fields.iter().map(|field| field.size).sum();
        if components > MOST_COMPONENTS {
            let span = self.table.fields.last().map_or(Span::default(), |field| field.span);
            let message = format!("the fields have {components} components; there can be {MOST_COMPONENTS}");
            self.errors.push(Diagnostic::new("too-large", span, message));
        }
        for part in parts {
            if let Part::Let(name, value) = &part.kind {
                self.name(name);
                let good = Scope::new(&self.table, NAMED, self.errors).value(value).is_some();
                match good {
                    true => self.table.lets.push((name.clone(), value.clone())),
                    false => self.table.broken.push(name.text.clone()),
                }
            }
        }
    }

    /// Takes a name; an error if it is taken or the language's.
    fn name(&mut self, name: &Name) {
        let own = matches!(name.text.as_str(), "n" | "x" | "y" | "z" | "t")
            || OPERATIONS.iter().any(|(operation, _)| *operation == name.text);
        let error = reserved(name).or_else(|| {
            own.then(|| {
                let message = format!("`{}` has a meaning of its own in a system", name.text);
                Diagnostic::new("reserved-name", name.span, message).label("choose another name")
            })
        });
        self.errors.extend(error);
        match self.places.iter().find(|first| first.text == name.text) {
            Some(first) => self.errors.push(duplicate(name, first.span)),
            None => self.places.push(name.clone()),
        }
    }

    fn quantities(
        &mut self,
        list: &[ast::Quantity],
        doc: &str,
        of: fn(&mut Table) -> &mut Vec<Quantity>,
        defaults: bool,
    ) {
        for quantity in list {
            self.name(&quantity.name);
            let size = match &quantity.size {
                None => Some(1),
                Some(size) => self.size(size),
            };
            let Some(size) = size else {
                self.table.broken.push(quantity.name.text.clone());
                continue;
            };
            let default = quantity.default.as_ref().and_then(|value| match defaults {
                true => self.numbers(value, size),
                false => {
                    let help = "its values at the start are `initial` in a problem";
                    self.report("bad-declaration", value.span, "a field has no default", help);
                    None
                }
            });
            let list = of(&mut self.table);
            let first = list.last().map_or(0, |last| last.first + last.size);
            let (name, doc, span) = (quantity.name.text.clone(), doc.to_string(), quantity.name.span);
            list.push(Quantity { name, doc, size, first, default, span });
        }
    }

    fn size(&mut self, size: &AstExpr) -> Option<usize> {
        let value = number(size, self.errors)?;
        if value == 3.0 {
            return Some(3);
        }
        let message = format!("a vector has 3 components, not {value}");
        self.report("shape", size.span, message, "write `E[3]`, or several numbers: `a, b`");
        None
    }

    /// A number, or a list of three for a vector.
    fn numbers(&mut self, value: &AstExpr, size: usize) -> Option<Vec<f64>> {
        numbers(value, size, self.errors)
    }

    /// Equations and sources of every component.
    fn rates(&mut self, item: &Item, parts: &[Documented<Part>]) -> Vec<Rate> {
        let components: usize = self.table.fields.iter().map(|field| field.size).sum();
        let mut rates = vec![Rate::default(); components];
        let mut seen: Vec<(&str, Span)> = Vec::new();
        for part in parts {
            let (name, value) = match &part.kind {
                Part::Ddt(name, value) => (name, value),
                Part::Source(name, value) => {
                    self.source(name, value, &mut rates);
                    continue;
                }
                _ => continue,
            };
            if let Some((_, first)) = seen.iter().find(|(known, _)| *known == name.text) {
                let error = Diagnostic::new("duplicate", part.span, format!("a second equation for `{}`", name.text));
                self.errors.push(error.note(*first, "first one"));
            }
            seen.push((&name.text, part.span));
            self.equation(name, value, &mut rates);
        }
        for field in self.table.fields.clone() {
            if !seen.iter().any(|(name, _)| *name == field.name) {
                let message = format!("system `{}` has no equation for `{}`", item.name.text, field.name);
                self.report("missing", field.span, message, &format!("add `ddt {} = …;`", field.name));
            }
        }
        rates
    }

    /// The field a statement is about.
    fn field(&mut self, name: &Name) -> Option<Quantity> {
        let found = self.table.fields.iter().find(|field| field.name == name.text).cloned();
        if found.is_none() && !self.table.broken.contains(&name.text) {
            let fields: Vec<&str> = self.table.fields.iter().map(|field| field.name.as_str()).collect();
            self.errors.push(unknown_word(name, "a field of the system", &fields));
        }
        found
    }

    fn equation(&mut self, name: &Name, value: &AstExpr, rates: &mut [Rate]) -> Option<()> {
        let field = self.field(name)?;
        let place = Place { what: "`ddt`", face: false, exterior: false, ..NAMED };
        let what = format!("the rate of `{}`", name.text);
        let value = Scope::new(&self.table, place, self.errors).sized(value, field.size, &what)?;
        for (place, part) in value.parts.iter().enumerate() {
            let rate = &mut rates[field.first + place];
            let mut rest = algebra::zero();
            algebra::terms(part, &crate::program::system::Formula::Number(1.0), &mut rate.terms, &mut rest);
            rate.terms.retain(|term| !algebra::is_zero(&term.coefficient));
            add_source(rate, rest);
            let varies = |f: &crate::program::system::Formula| {
                use crate::program::system::Formula::{Position, Time};
                matches!(f, Position(_) | Time)
            };
            if rate.terms.iter().any(|term| term.coefficient.any(&varies)) {
                let message = format!("a coefficient in the equation of `{}` varies in space or time", name.text);
                let error = Diagnostic::new("varies", value.span, message);
                self.errors.push(error.help("declare a `material`: it is constant on each element"));
                return None;
            }
        }
        Some(())
    }

    fn source(&mut self, name: &Name, value: &AstExpr, rates: &mut [Rate]) -> Option<()> {
        let field = self.field(name)?;
        let place =
            Place { what: "`source`", fields: false, derivatives: false, face: false, exterior: false, ..NAMED };
        let what = format!("the source of `{}`", name.text);
        let value = Scope::new(&self.table, place, self.errors).sized(value, field.size, &what)?;
        debug_assert_eq!(value.degree, Degree::Constant, "a source reads no fields");
        for (place, part) in value.parts.into_iter().enumerate() {
            add_source(&mut rates[field.first + place], part);
        }
        Some(())
    }
}

fn add_source(rate: &mut Rate, more: crate::program::system::Formula) {
    let source = algebra::plus(rate.source.take().unwrap_or_else(algebra::zero), more);
    rate.source = (!algebra::is_zero(&source)).then_some(source);
}

/// A number, or a list of three for a vector; none after an error.
pub fn numbers(value: &AstExpr, size: usize, errors: &mut Vec<Diagnostic>) -> Option<Vec<f64>> {
    match (&value.kind, size) {
        (ast::ExprKind::List(parts), 3) if parts.len() == 3 => {
            let values: Vec<Option<f64>> = parts.iter().map(|part| number(part, errors)).collect();
            values.into_iter().collect()
        }
        (ast::ExprKind::List(_), _) | (_, 3) => {
            let message = format!("this is not {}", formula::shape(size));
            let help = if size == 3 { "write `[1, 0, 0]`" } else { "write one number" };
            errors.push(Diagnostic::new("shape", value.span, message).help(help));
            None
        }
        _ => number(value, errors).map(|number| vec![number]),
    }
}

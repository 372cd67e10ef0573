//! Operators: grid, parameters, arrays, named values, fluxes, rows, claims.

use crate::ast::{Clause, Documented, Expr as AstExpr, Item, Name, Position};
use crate::check::expression::{LetInfo, Place, Scope, Typed};
use crate::check::names::{Names, Symbol, count};
use crate::check::number::number;
use crate::check::{boundary, extent, reading};
use crate::diagnostic::{Diagnostic, closest};
use crate::print;
use crate::program::{
    Applied, Axis, Centring, Claim, Data, Expr, Fact, Flux, Let, NullSpace, Operator, Outside, Param,
};
use crate::source::Span;

/// A keyword, whether it must stand, and which statements it begins.
type Kind = (&'static str, bool, fn(&Clause) -> bool);

/// An operator being checked.
pub struct Build<'e> {
    /// What is known of it.
    pub operator: Operator,
    /// Its names.
    pub names: Names,
    /// One entry per named value.
    pub lets: Vec<LetInfo>,
    /// Where errors go.
    pub errors: &'e mut Vec<Diagnostic>,
}

/// Checks an operator; what it returns is only good if nothing was reported.
pub fn operator(item: &Item, clauses: &[Documented<Clause>], errors: &mut Vec<Diagnostic>) -> Option<Operator> {
    let mut build = Build {
        operator: blank(&item.name.text, &item.doc, item.name.span),
        names: Names::default(),
        lets: Vec::new(),
        errors,
    };
    build.once(item, clauses);
    build.grid(clauses)?;
    build.announce(clauses);
    for clause in clauses {
        build.definition(clause);
    }
    for clause in clauses {
        build.conclusion(clause);
    }
    boundary::boundary(&mut build, clauses);
    extent::extents(&build.operator, build.errors);
    Some(build.operator)
}

/// An operator of which nothing is known yet.
pub fn blank(name: &str, doc: &str, span: Span) -> Operator {
    Operator {
        name: name.to_string(),
        doc: doc.to_string(),
        span,
        centring: Centring::Cells,
        axes: Vec::new(),
        params: Vec::new(),
        data: Vec::new(),
        lets: Vec::new(),
        fluxes: Vec::new(),
        unknowns: Vec::new(),
        apply: Vec::new(),
        boundary: Vec::new(),
        mask: None,
        nullspace: None,
        claims: Vec::new(),
    }
}

impl Build<'_> {
    /// `grid` and `apply` exactly once; `mask` and `nullspace` at most once.
    fn once(&mut self, item: &Item, clauses: &[Documented<Clause>]) {
        let kinds: [Kind; 4] = [
            ("grid", true, |clause| matches!(clause, Clause::Grid(..))),
            ("apply", true, |clause| matches!(clause, Clause::Apply(..))),
            ("mask", false, |clause| matches!(clause, Clause::Mask(..))),
            ("nullspace", false, |clause| matches!(clause, Clause::Nullspace(..))),
        ];
        for (keyword, needed, is) in kinds {
            let mut found = clauses.iter().filter(|clause| is(&clause.kind));
            let first = found.next().map(|clause| clause.span);
            if needed && first.is_none() {
                let message = format!("operator `{}` has no `{keyword}`", item.name.text);
                let help = if keyword == "grid" { "add `grid cells [i: nx, j: ny];`" } else { "add `apply u => …;`" };
                self.errors.push(Diagnostic::new("missing", item.name.span, message).help(help));
            }
            for second in found {
                let error = Diagnostic::new("duplicate", second.span, format!("a second `{keyword}`"));
                self.errors.push(error.note(first.unwrap_or_default(), "first one"));
            }
        }
    }

    fn grid(&mut self, clauses: &[Documented<Clause>]) -> Option<()> {
        let (centring, axes, span) = clauses.iter().find_map(|clause| match &clause.kind {
            Clause::Grid(centring, axes) => Some((centring, axes, clause.span)),
            _ => None,
        })?;
        match centring.text.as_str() {
            "cells" => self.operator.centring = Centring::Cells,
            "nodes" => self.operator.centring = Centring::Nodes,
            _ => self.errors.push(unknown_word(centring, "a kind of grid", &["cells", "nodes"])),
        }
        if axes.is_empty() || axes.len() > 3 {
            let error = Diagnostic::new("bad-grid", span, format!("a grid has 1 to 3 axes, not {}", axes.len()));
            self.errors.push(error);
            return None;
        }
        for (position, (letter, size)) in axes.iter().enumerate() {
            self.names.declare(letter, Symbol::Letter(position), self.errors);
            self.names.declare(size, Symbol::Size(position), self.errors);
            let axis = Axis { letter: letter.text.clone(), size: size.text.clone(), span: letter.span.to(size.span) };
            self.operator.axes.push(axis);
        }
        Some(())
    }

    /// Names that stand further down, and the unknowns, which every definition may read.
    fn announce(&mut self, clauses: &[Documented<Clause>]) {
        for clause in clauses {
            match &clause.kind {
                Clause::Param(params) => params.iter().for_each(|(name, _)| self.names.announce(name)),
                Clause::Data(name, ..) | Clause::Let(name, ..) | Clause::Flux(name, ..) => self.names.announce(name),
                Clause::Apply(unknowns, _) if self.operator.unknowns.is_empty() => {
                    for (position, unknown) in unknowns.iter().enumerate() {
                        self.names.declare(unknown, Symbol::Unknown(position), self.errors);
                        self.operator.unknowns.push(unknown.text.clone());
                    }
                }
                _ => {}
            }
        }
    }

    fn definition(&mut self, clause: &Documented<Clause>) {
        match &clause.kind {
            Clause::Param(params) => {
                params.iter().for_each(|(name, default)| self.param(name, default.as_ref(), &clause.doc))
            }
            Clause::Data(name, axes, outside) => self.data(name, axes, outside.as_ref(), &clause.doc),
            Clause::Let(name, axes, value) => {
                self.named_value(name, axes.as_deref(), value, print::clause(&clause.kind))
            }
            Clause::Flux(name, axes, value) => self.flux(name, axes, value, print::clause(&clause.kind)),
            _ => {}
        }
    }

    fn conclusion(&mut self, clause: &Documented<Clause>) {
        match &clause.kind {
            Clause::Mask(value) => {
                let place = Place { what: "`mask`", half: None, unknowns: false, fluxes: false, data: true };
                self.operator.mask = self.value(place, value).map(|typed| typed.expr);
            }
            Clause::Apply(unknowns, rows) => self.apply(unknowns, rows, clause.span),
            Clause::Nullspace(name) => match name.text.as_str() {
                "constant" => self.operator.nullspace = Some(NullSpace::Constant),
                "none" => self.operator.nullspace = Some(NullSpace::None),
                _ => self.errors.push(unknown_word(name, "a null space", &["constant", "none"])),
            },
            Clause::Claim(facts) => facts.iter().for_each(|fact| self.claim(fact)),
            _ => {}
        }
    }

    /// An expression in the given place.
    pub fn value(&mut self, place: Place, value: &AstExpr) -> Option<Typed> {
        let (operator, names, lets) = (&self.operator, &self.names, self.lets.as_slice());
        Scope { operator, names, lets, place, errors: self.errors }.value(value)
    }

    fn param(&mut self, name: &Name, default: Option<&AstExpr>, doc: &str) {
        self.names.declare(name, Symbol::Param(self.operator.params.len()), self.errors);
        let default = default.and_then(|value| number(value, self.errors));
        self.operator.params.push(Param { name: name.text.clone(), doc: doc.to_string(), default, span: name.span });
    }

    /// Axes and half axis of a declaration's brackets; errors are recorded.
    fn declared_axes(&mut self, at: &[Position]) -> Option<([bool; 3], Option<usize>)> {
        let (mut axes, mut half) = ([false; 3], None);
        for position in at {
            let place = Place { what: "a declaration", half: None, unknowns: false, fluxes: false, data: false };
            let (operator, names, lets) = (&self.operator, &self.names, self.lets.as_slice());
            let axis = reading::axis(&mut Scope { operator, names, lets, place, errors: self.errors }, position)?;
            let error = match position.halves {
                _ if axes[axis] => "the letter is given twice",
                0 => "",
                1 if half.is_some() => "a value lives on faces along one axis at most",
                1 => {
                    half = Some(axis);
                    ""
                }
                _ => "a value is declared at its point, `k`, or on the faces above it, `k+1/2`",
            };
            if !error.is_empty() {
                self.errors.push(Diagnostic::new("bad-declaration", position.span, error));
                return None;
            }
            axes[axis] = true;
        }
        Some((axes, half))
    }

    fn data(&mut self, name: &Name, at: &[Position], outside: Option<&Name>, doc: &str) {
        self.names.declare(name, Symbol::Broken, self.errors);
        let outside = match outside.map(|mode| mode.text.as_str()) {
            None => Outside::Error,
            Some("mirror") => Outside::Mirror,
            Some("clamp") => Outside::Clamp,
            Some("periodic") => Outside::Periodic,
            Some("zero") => Outside::Zero,
            Some(_) => {
                let modes = ["mirror", "clamp", "periodic", "zero"];
                self.errors.extend(outside.map(|mode| unknown_word(mode, "a rule outside", &modes)));
                Outside::Zero
            }
        };
        let Some((listed, half)) = self.declared_axes(at) else { return };
        let axes: Vec<usize> = (0..3).filter(|&axis| listed[axis]).collect();
        if axes.is_empty() {
            let error = Diagnostic::new("bad-declaration", name.span, format!("the array `{}` has no axes", name.text));
            self.errors.push(error.help("a single number is a `param`"));
            return;
        }
        self.names.redefine(&name.text, Symbol::Data(self.operator.data.len()));
        let (name, doc, span) = (name.text.clone(), doc.to_string(), name.span);
        self.operator.data.push(Data { name, doc, axes, half, outside, span });
    }

    fn named_value(&mut self, name: &Name, at: Option<&[Position]>, value: &AstExpr, text: String) {
        let declared = self.declared_axes(at.unwrap_or(&[]));
        let half = declared.and_then(|(_, half)| half);
        let place = Place { what: "`let`", half, unknowns: true, fluxes: false, data: true };
        let typed = self.value(place, value);
        self.names.declare(name, Symbol::Broken, self.errors);
        let (Some((listed, half)), Some(typed)) = (declared, typed) else { return };
        let points = at.unwrap_or(&[]).iter().any(|position| position.halves == 0);
        if points && !self.covered(name, listed, &typed) {
            return;
        }
        let union = |a: [bool; 3], b: [bool; 3]| std::array::from_fn(|axis| a[axis] || b[axis]);
        let faces = std::array::from_fn(|axis| half == Some(axis));
        self.names.redefine(&name.text, Symbol::Let(self.operator.lets.len()));
        self.lets.push(LetInfo { axes: union(listed, typed.depends), data: typed.data });
        self.operator.lets.push(Let {
            name: name.text.clone(),
            half,
            depends: union(typed.depends, faces),
            on_unknown: typed.unknown,
            value: typed.expr,
            text,
            span: name.span,
        });
    }

    /// Whether the listed letters cover what the value depends on. Brackets with a face alone say where a value lives,
    /// not how far it extends.
    fn covered(&mut self, name: &Name, listed: [bool; 3], typed: &Typed) -> bool {
        let missing = (0..self.operator.axes.len()).find(|&axis| typed.depends[axis] && !listed[axis]);
        let Some(axis) = missing else { return true };
        let letter = &self.operator.axes[axis].letter;
        let error =
            Diagnostic::new("wrong-axis", typed.expr.span, format!("`{}` depends on `{letter}` too", name.text))
                .label(format!("varies along `{letter}`"))
                .note(name.span, "declared without it")
                .help(format!("add `{letter}` to the brackets, or leave the brackets out"));
        self.errors.push(error);
        false
    }

    fn flux(&mut self, name: &Name, at: &[Position], value: &AstExpr, text: String) {
        let declared = self.declared_axes(at);
        let axis = declared.and_then(|(_, half)| half);
        if declared.is_some() && (axis.is_none() || at.len() != 1) {
            let letter = self.operator.axes.first().map_or("i", |axis| axis.letter.as_str());
            let error = Diagnostic::new("bad-declaration", name.span, "a flux lives on the faces along one axis");
            self.errors.push(error.help(format!("write `flux {}[{letter}+1/2] = …;`", name.text)));
            self.names.declare(name, Symbol::Broken, self.errors);
            return;
        }
        let place = Place { what: "`flux`", half: axis, unknowns: true, fluxes: false, data: true };
        let typed = self.value(place, value);
        self.names.declare(name, Symbol::Broken, self.errors);
        let (Some(axis), Some(typed)) = (axis, typed) else { return };
        self.names.redefine(&name.text, Symbol::Flux(self.operator.fluxes.len()));
        self.operator.fluxes.push(Flux { name: name.text.clone(), axis, value: typed.expr, text, span: name.span });
    }

    fn apply(&mut self, unknowns: &[Name], rows: &[AstExpr], span: Span) {
        if unknowns.len() != rows.len() {
            let unknowns = count(unknowns.len(), "unknown");
            let rows = count(rows.len(), "row");
            self.errors.push(Diagnostic::new("arguments", span, format!("`apply` has {unknowns} and {rows}")));
        }
        for (unknown, row) in unknowns.iter().zip(rows) {
            let place = Place { what: "`apply`", half: None, unknowns: true, fluxes: true, data: true };
            let Some(typed) = self.value(place, row) else { continue };
            if !typed.unknown {
                let message = format!("the row of `{}` depends on no unknown", unknown.text);
                let error =
                    Diagnostic::new("no-unknown", row.span, message).note(unknown.span, "unknown declared here");
                self.errors.push(error.help("a constant right side belongs into `rhs` of the problem"));
            }
            let text = format!("{};", print::apply(std::slice::from_ref(unknown), std::slice::from_ref(row)));
            self.operator.apply.push(Applied { value: typed.expr, text, span: row.span });
        }
    }

    fn claim(&mut self, name: &Name) {
        let Some(facts) = facts(name) else {
            self.errors.push(unknown_word(name, "a property", &FACTS));
            return;
        };
        for fact in facts {
            match self.operator.claims.iter().find(|claim| claim.fact == fact) {
                Some(first) => {
                    let error =
                        Diagnostic::new("duplicate", name.span, "claimed twice").note(first.span, "first claim");
                    self.errors.push(error);
                }
                None => self.operator.claims.push(Claim { fact, span: name.span }),
            }
        }
    }
}

/// Names of properties.
pub const FACTS: [&str; 4] = ["symmetric", "positive_definite", "spd", "m_matrix"];

/// The properties a word stands for.
pub fn facts(name: &Name) -> Option<Vec<Fact>> {
    Some(match name.text.as_str() {
        "symmetric" => vec![Fact::Symmetric],
        "positive_definite" => vec![Fact::PositiveDefinite],
        "spd" => vec![Fact::Symmetric, Fact::PositiveDefinite],
        "m_matrix" => vec![Fact::MMatrix],
        _ => return None,
    })
}

/// The error for a word that is not among the possible ones.
pub fn unknown_word(name: &Name, what: &str, words: &[&str]) -> Diagnostic {
    let list: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    let help = match closest(&name.text, words.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None if list.is_empty() => "there is none".to_string(),
        None => format!("one of {}", list.join(", ")),
    };
    Diagnostic::new("unknown-word", name.span, format!("`{}` is not {what}", name.text)).help(help)
}

/// A literal zero, for places that need some expression after an error.
pub fn zero(span: Span) -> Expr {
    Expr { kind: crate::program::ExprKind::Number(0.0), span }
}

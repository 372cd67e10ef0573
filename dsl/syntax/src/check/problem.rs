//! Problems: every size, parameter and array bound, a solver chosen.

use crate::ast::{Argument, Documented, Expr as AstExpr, ExprKind as Ast, Item, Name, Setting};
use crate::check::Declared;
use crate::check::array::{Known, Wanted};
use crate::check::expression::{Place, Scope};
use crate::check::names::{Names, Symbol, count};
use crate::check::number::{number, whole};
use crate::check::operator::unknown_word;
use crate::constant;
use crate::diagnostic::{Diagnostic, closest};
use crate::library;
use crate::program::{Expr, ExprKind, Operator, Precision, Preconditioner, Problem, Source};
use crate::source::Span;

/// Deepest nesting of inner solvers.
const DEEPEST: usize = 8;
/// Rows of the largest block that block Jacobi inverts.
const MOST_BLOCK: u64 = 32;
/// Words for preconditioners.
const PRECONDITIONERS: [&str; 6] = ["identity", "jacobi", "line", "block_jacobi", "ssor", "inner"];

/// A problem being checked.
struct Build<'a> {
    item: &'a Item,
    settings: &'a [Documented<Setting>],
    declared: &'a mut Declared,
    errors: &'a mut Vec<Diagnostic>,
}

/// A solver with its parameters.
type Chosen = (usize, Vec<f64>);

/// Checks a problem; none after an error.
pub fn problem(
    item: &Item,
    settings: &[Documented<Setting>],
    declared: &mut Declared,
    errors: &mut Vec<Diagnostic>,
) -> Option<Problem> {
    let mut build = Build { item, settings, declared, errors };
    build.duplicates();
    let bound = build.operator();
    let solver = match build.needed("solver", "solver cg;") {
        Some(value) => build.solver(value),
        None => None,
    };
    let numbers = build.numbers();
    let (index, operator, sizes, params) = bound?;
    let known = Known::of(&operator);
    let data = build.data(&operator, &known);
    let rhs = match build.needed("rhs", "rhs random(seed = 1);") {
        Some(value) => build.components("the right-hand side", value, &operator, &known),
        None => None,
    };
    let zero = Source::Expr(Expr { kind: ExprKind::Number(0.0), span: item.name.span });
    let guess = match build.find("guess") {
        Some(value) => build.components("the guess", value, &operator, &known),
        None => Some(vec![zero; operator.unknowns.len()]),
    };
    let preconditioner = match build.find("preconditioner") {
        Some(value) => build.preconditioner(value, &operator, solver.as_ref().map(|chosen| chosen.0), 0),
        None => Some(Preconditioner::Identity),
    };
    let ((solver, solver_params), (tolerance, iterations, precision)) = (solver?, numbers?);
    Some(Problem {
        name: item.name.text.clone(),
        doc: item.doc.clone(),
        span: item.name.span,
        operator: index,
        sizes,
        params,
        data: data?,
        rhs: rhs?,
        guess: guess?,
        solver,
        solver_params,
        preconditioner: preconditioner?,
        preconditioner_span: build.find("preconditioner").map_or(item.name.span, |value| value.span),
        tolerance,
        iterations,
        precision,
    })
}

impl<'a> Build<'a> {
    fn report(&mut self, code: &'static str, span: Span, message: impl Into<String>) {
        self.errors.push(Diagnostic::new(code, span, message));
    }

    fn find(&self, key: &str) -> Option<&'a AstExpr> {
        self.settings.iter().find(|setting| setting.kind.key.text == key).map(|setting| &setting.kind.value)
    }

    fn needed(&mut self, key: &str, example: &str) -> Option<&'a AstExpr> {
        let found = self.find(key);
        if found.is_none() {
            let message = format!("problem `{}` has no `{key}`", self.item.name.text);
            self.errors.push(Diagnostic::new("missing", self.item.name.span, message).help(format!("add `{example}`")));
        }
        found
    }

    fn duplicates(&mut self) {
        for (position, setting) in self.settings.iter().enumerate() {
            let same = |other: &&Documented<Setting>| {
                other.kind.key.text == setting.kind.key.text
                    && other.kind.name.as_ref().map(|name| &name.text)
                        == setting.kind.name.as_ref().map(|name| &name.text)
            };
            if let Some(first) = self.settings[..position].iter().find(same) {
                let name = setting.kind.name.as_ref().map(|name| format!(" {}", name.text)).unwrap_or_default();
                let message = format!("a second `{}{name}`", setting.kind.key.text);
                self.errors.push(Diagnostic::new("duplicate", setting.span, message).note(first.span, "first one"));
            }
        }
    }

    /// The operator with its sizes and parameters.
    fn operator(&mut self) -> Option<(usize, Operator, Vec<usize>, Vec<Expr>)> {
        let value = self.needed("operator", "operator name(nx = 64, ny = 64);")?;
        let (name, arguments) = self.named(value, "an operator")?;
        let Some(&index) = self.declared.operator_names.get(&name.text) else {
            let mut known: Vec<&str> = self.declared.operator_names.keys().map(String::as_str).collect();
            known.sort_unstable();
            let near = closest(&name.text, known).map(|near| format!("did you mean `{near}`?"));
            let error = Diagnostic::new("unknown-name", name.span, format!("there is no operator `{}`", name.text));
            self.errors.push(error.help_if(near));
            return None;
        };
        let operator = self.declared.operators.get(index)?.clone()?;
        let before = self.errors.len();
        let sizes = self.sizes(&operator, &name, arguments);
        let params = self.params(&operator, &name, arguments);
        self.known_arguments(&operator, arguments);
        let (sizes, params) = (sizes?, params?);
        constant::points(&sizes, value.span, self.errors);
        self.finite(&operator, &sizes, &params);
        (self.errors.len() == before).then_some((index, operator, sizes, params))
    }

    /// `name` or `name(…)`.
    fn named(&mut self, value: &'a AstExpr, what: &str) -> Option<(Name, &'a [Argument])> {
        match &value.kind {
            Ast::Name(text) => Some((Name { text: text.clone(), span: value.span }, &[])),
            Ast::Call(name, arguments) => Some((name.clone(), arguments)),
            _ => {
                self.report("type", value.span, format!("expected the name of {what}"));
                None
            }
        }
    }

    fn argument(arguments: &'a [Argument], name: &str) -> Option<&'a Argument> {
        arguments.iter().find(|argument| argument.name.as_ref().is_some_and(|known| known.text == name))
    }

    fn sizes(&mut self, operator: &Operator, name: &Name, arguments: &'a [Argument]) -> Option<Vec<usize>> {
        let sizes: Vec<Option<usize>> =
            operator.axes.iter().map(|axis| self.size(&axis.size, name, arguments)).collect();
        sizes.into_iter().collect()
    }

    fn size(&mut self, size: &str, name: &Name, arguments: &'a [Argument]) -> Option<usize> {
        let Some(argument) = Self::argument(arguments, size) else {
            let error =
                Diagnostic::new("missing", name.span, format!("the size `{size}` of `{}` is not given", name.text));
            self.errors.push(error.help(format!("write `{}({size} = 64, …)`", name.text)));
            return None;
        };
        let value = number(&argument.value, self.errors)?;
        match constant::size(value) {
            Ok(size) => Some(size),
            Err(why) => {
                let error = Diagnostic::new("bad-size", argument.value.span, format!("`{size}` cannot be {value}"));
                self.errors.push(error.label(why));
                None
            }
        }
    }

    /// One expression per parameter; each may read sizes and the parameters before it.
    fn params(&mut self, operator: &Operator, name: &Name, arguments: &'a [Argument]) -> Option<Vec<Expr>> {
        let mut names = Names::default();
        for (index, axis) in operator.axes.iter().enumerate() {
            names.declare(&Name { text: axis.size.clone(), span: axis.span }, Symbol::Size(index), &mut Vec::new());
        }
        let given = |argument: &Argument| {
            let name = argument.name.clone()?;
            Some((operator.params.iter().position(|param| param.name == name.text)?, name))
        };
        arguments.iter().filter_map(given).for_each(|(_, name)| names.announce(&name));
        let mut params: Vec<Option<Expr>> =
            operator.params.iter().map(|param| param.default.map(|value| literal(value, param.span))).collect();
        let mut broken = false;
        for argument in arguments {
            let Some((index, name)) = given(argument) else { continue };
            let place = Place { what: "a parameter", half: None, unknowns: false, fluxes: false, data: false };
            let mut scope = Scope { operator, names: &names, lets: &[], place, errors: self.errors };
            let typed = scope.value(&argument.value);
            broken |= typed.is_none();
            params[index] = typed.map(|typed| typed.expr).or(Some(literal(0.0, argument.value.span)));
            names.declare(&name, Symbol::Param(index), &mut Vec::new());
        }
        for (param, _) in operator.params.iter().zip(&params).filter(|(_, value)| value.is_none()) {
            let message = format!("the parameter `{}` of `{}` is not given", param.name, name.text);
            let error = Diagnostic::new("missing", name.span, message).note(param.span, "declared without a default");
            self.errors.push(error.help(format!("write `{}({} = …)`", name.text, param.name)));
        }
        if broken { None } else { params.into_iter().collect() }
    }

    /// Reports arguments that are unnamed, unknown or given twice.
    fn known_arguments(&mut self, operator: &Operator, arguments: &[Argument]) {
        let sizes = operator.axes.iter().map(|axis| axis.size.as_str());
        let known: Vec<&str> = sizes.chain(operator.params.iter().map(|param| param.name.as_str())).collect();
        let unnamed = "write `name = value` for each size and parameter";
        self.arguments(arguments, &known, &format!("`{}` has no size or parameter", operator.name), unnamed);
    }

    fn arguments(&mut self, arguments: &[Argument], known: &[&str], unknown: &str, unnamed: &str) {
        for (position, argument) in arguments.iter().enumerate() {
            let Some(name) = &argument.name else {
                let error = Diagnostic::new("arguments", argument.value.span, "this argument has no name");
                self.errors.push(error.help(unnamed));
                continue;
            };
            if !known.contains(&name.text.as_str()) {
                let near = closest(&name.text, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                let error = Diagnostic::new("unknown-name", name.span, format!("{unknown} `{}`", name.text));
                self.errors.push(error.help_if(near));
            }
            let twice = |other: &&Argument| other.name.as_ref().is_some_and(|other| other.text == name.text);
            if let Some(first) = arguments[..position].iter().find(twice) {
                let first = first.name.as_ref().map_or(first.value.span, |name| name.span);
                let error = Diagnostic::new("duplicate", name.span, format!("`{}` is given twice", name.text));
                self.errors.push(error.note(first, "first time"));
            }
        }
    }

    fn finite(&mut self, operator: &Operator, sizes: &[usize], params: &[Expr]) {
        let mut known: Vec<Option<f64>> = params.iter().map(|_| None).collect();
        for _ in 0..params.len() {
            for (index, param) in
                params.iter().enumerate().filter(|(index, _)| known[*index].is_none()).collect::<Vec<_>>()
            {
                known[index] = constant::evaluate(param, &constant::Values { sizes, params: &known, letters: None });
            }
            if known.iter().all(Option::is_some) {
                break;
            }
        }
        for (index, value) in known.iter().enumerate() {
            let Some(value) = value.filter(|value| !value.is_finite()) else { continue };
            let message = format!("the parameter `{}` is not finite", operator.params[index].name);
            self.errors
                .push(Diagnostic::new("bad-number", params[index].span, message).label(format!("this is {value}")));
        }
    }

    /// Tolerance, iteration limit and precision, given or not.
    fn numbers(&mut self) -> Option<(f64, u32, Precision)> {
        let tolerance = self.find("tolerance").map_or(Some(1e-8), |value| self.tolerance(value));
        let iterations = self
            .find("iterations")
            .map_or(Some(1000), |value| whole(value, "the number of iterations", 1..=u64::from(u32::MAX), self.errors));
        let precision = self.find("precision").map_or(Some(Precision::F64), |value| self.precision(value));
        Some((tolerance?, u32::try_from(iterations?).ok()?, precision?))
    }

    fn tolerance(&mut self, value: &AstExpr) -> Option<f64> {
        let tolerance = number(value, self.errors)?;
        if tolerance < 0.0 {
            self.report("bad-number", value.span, "a tolerance is not negative");
        }
        Some(tolerance)
    }

    fn precision(&mut self, value: &AstExpr) -> Option<Precision> {
        match &value.kind {
            Ast::Name(name) if name == "f64" => Some(Precision::F64),
            Ast::Name(name) if name == "f32" => Some(Precision::F32),
            Ast::Name(name) if name == "mixed" => Some(Precision::Mixed),
            Ast::Name(name) => {
                self.errors.push(unknown_word(
                    &Name { text: name.clone(), span: value.span },
                    "a precision",
                    &["f32", "f64", "mixed"],
                ));
                None
            }
            _ => {
                self.report("type", value.span, "a precision is `f32`, `f64` or `mixed`");
                None
            }
        }
    }

    fn data(&mut self, operator: &Operator, known: &Known<'_>) -> Option<Vec<Source>> {
        for setting in self.settings {
            let Some(name) = &setting.kind.name else { continue };
            if operator.data.iter().all(|data| data.name != name.text) {
                let near = closest(&name.text, operator.data.iter().map(|data| data.name.as_str()));
                let near = near.map(|near| format!("did you mean `{near}`?"));
                let message = format!("`{}` has no array `{}`", operator.name, name.text);
                self.errors.push(Diagnostic::new("unknown-name", name.span, message).help_if(near));
            }
        }
        let sources: Vec<Option<Source>> = operator.data.iter().map(|data| self.array(data, known)).collect();
        sources.into_iter().collect()
    }

    fn array(&mut self, data: &crate::program::Data, known: &Known<'_>) -> Option<Source> {
        let named =
            |setting: &&Documented<Setting>| setting.kind.name.as_ref().is_some_and(|name| name.text == data.name);
        let Some(setting) = self.settings.iter().find(named) else {
            let message = format!("problem `{}` gives no array `{}`", self.item.name.text, data.name);
            let error = Diagnostic::new("missing", self.item.name.span, message).note(data.span, "declared here");
            self.errors.push(error.help(format!("add `data {} = …;`", data.name)));
            return None;
        };
        let wanted = Wanted { what: &format!("`{}`", data.name), axes: &data.axes, half: data.half };
        known.source(&wanted, &setting.kind.value, self.errors)
    }

    /// One source per unknown.
    fn components(
        &mut self,
        what: &str,
        value: &AstExpr,
        operator: &Operator,
        known: &Known<'_>,
    ) -> Option<Vec<Source>> {
        let parts = match &value.kind {
            Ast::Tuple(parts) => parts.as_slice(),
            _ => std::slice::from_ref(value),
        };
        if parts.len() != operator.unknowns.len() {
            let unknowns = count(operator.unknowns.len(), "unknown");
            let message = format!("{what} has {}, the operator {unknowns}", count(parts.len(), "part"));
            let error = Diagnostic::new("arguments", value.span, message);
            self.errors.push(error.help("write one part for each unknown: `(…, …)`"));
            return None;
        }
        let axes: Vec<usize> = (0..operator.axes.len()).collect();
        let wanted = Wanted { what, axes: &axes, half: None };
        let sources: Vec<Option<Source>> = parts.iter().map(|part| known.source(&wanted, part, self.errors)).collect();
        sources.into_iter().collect()
    }

    /// A solver of the file or the library, with its parameters.
    fn solver(&mut self, value: &'a AstExpr) -> Option<Chosen> {
        let (name, arguments) = self.named(value, "a solver")?;
        let index = self.solver_index(&name)?;
        let solver = self.declared.solvers.get(index)?.clone()?;
        let known: Vec<&str> = solver.params.iter().map(|param| param.name.as_str()).collect();
        self.arguments(
            arguments,
            &known,
            &format!("solver `{}` has no parameter", solver.name),
            "write `name = value` for each parameter",
        );
        let mut params = Vec::new();
        for param in &solver.params {
            match (Self::argument(arguments, &param.name), param.default) {
                (Some(argument), _) => params.push(number(&argument.value, self.errors)),
                (None, Some(default)) => params.push(Some(default)),
                (None, None) => {
                    let message = format!("the parameter `{}` of solver `{}` is not given", param.name, solver.name);
                    self.report("missing", name.span, message);
                    params.push(None);
                }
            }
        }
        Some((index, params.into_iter().collect::<Option<_>>()?))
    }

    fn solver_index(&mut self, name: &Name) -> Option<usize> {
        if let Some(&index) = self.declared.solver_names.get(&name.text) {
            return Some(index);
        }
        let Some(solver) = library::solver(&name.text) else {
            let mut known: Vec<&str> = self.declared.solver_names.keys().map(String::as_str).collect();
            known.sort_unstable();
            for name in library::names() {
                known.push(name);
            }
            let near = closest(&name.text, known);
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!(
                    "the library has {}",
                    library::names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                ),
            };
            let error = Diagnostic::new("unknown-name", name.span, format!("there is no solver `{}`", name.text));
            self.errors.push(error.help(help));
            return None;
        };
        let index = self.declared.solvers.len();
        self.declared.solvers.push(Some(solver));
        self.declared.solver_names.insert(name.text.clone(), index);
        Some(index)
    }

    fn preconditioner(
        &mut self,
        value: &'a AstExpr,
        operator: &Operator,
        solver: Option<usize>,
        depth: usize,
    ) -> Option<Preconditioner> {
        let (name, arguments) = self.named(value, "a preconditioner")?;
        let found = match (name.text.as_str(), arguments) {
            ("identity", []) => Preconditioner::Identity,
            ("jacobi", []) => Preconditioner::Jacobi,
            ("line", [Argument { name: None, value }]) => Preconditioner::Line(self.letter(value, operator)?),
            ("block_jacobi", [Argument { name: None, value }]) => {
                let size = whole(value, "the number of rows of a block", 1..=MOST_BLOCK, self.errors)?;
                Preconditioner::BlockJacobi(u32::try_from(size).ok()?)
            }
            ("ssor", []) => Preconditioner::Ssor(1.0),
            ("ssor", [Argument { name: None, value }]) => Preconditioner::Ssor(self.relaxation(value)?),
            ("inner", _) => self.inner(&name, arguments, operator, depth)?,
            ("block_jacobi" | "ssor", _) => {
                let help = if name.text == "ssor" { "write `ssor` or `ssor(1.2)`" } else { "write `block_jacobi(4)`" };
                let message = format!("`{}` takes a number", name.text);
                self.errors.push(Diagnostic::new("arguments", value.span, message).help(help));
                return None;
            }
            ("identity" | "jacobi", _) => {
                self.report("arguments", value.span, format!("`{}` takes no arguments", name.text));
                return None;
            }
            ("line", _) => {
                self.errors
                    .push(Diagnostic::new("arguments", value.span, "`line` takes a letter").help("write `line(k)`"));
                return None;
            }
            _ => {
                self.errors.push(unknown_word(&name, "a preconditioner", &PRECONDITIONERS));
                return None;
            }
        };
        let taken = solver.and_then(|solver| self.declared.solvers.get(solver)?.as_ref());
        if let Some(solver) = taken.filter(|solver| solver.operators.len() < 2 && found != Preconditioner::Identity) {
            let message = format!("solver `{}` takes no preconditioner", solver.name);
            let error = Diagnostic::new("no-preconditioner", value.span, message);
            self.errors.push(error.help("a solver that does names a second operator: `solver s(A: any, M: any)`"));
        }
        Some(found)
    }

    /// A factor of over-relaxation: the sweeps converge for none outside (0, 2) (Kahan 1958).
    fn relaxation(&mut self, value: &'a AstExpr) -> Option<f64> {
        let factor = number(value, self.errors)?;
        if factor > 0.0 && factor < 2.0 {
            return Some(factor);
        }
        let error =
            Diagnostic::new("bad-number", value.span, "the factor of `ssor` is between 0 and 2, neither of them");
        self.errors.push(error.help("write `ssor(1.2)`"));
        None
    }

    fn letter(&mut self, value: &AstExpr, operator: &Operator) -> Option<usize> {
        let letters: Vec<&str> = operator.axes.iter().map(|axis| axis.letter.as_str()).collect();
        let found = match &value.kind {
            Ast::Name(name) => letters.iter().position(|letter| letter == name),
            _ => None,
        };
        if found.is_none() {
            let error = Diagnostic::new("wrong-axis", value.span, "`line` takes a letter of the grid");
            self.errors.push(error.help(format!("one of {}", letters.join(", "))));
        }
        found
    }

    /// `inner(solver(…), iterations = 4, preconditioner = jacobi)`
    fn inner(
        &mut self,
        name: &Name,
        arguments: &'a [Argument],
        operator: &Operator,
        depth: usize,
    ) -> Option<Preconditioner> {
        if depth >= DEEPEST {
            self.report("too-deep", name.span, format!("inner solvers are nested more than {DEEPEST} deep"));
            return None;
        }
        let [Argument { name: None, value }, rest @ ..] = arguments else {
            let error = Diagnostic::new("arguments", name.span, "`inner` takes a solver first");
            self.errors.push(error.help("write `inner(chebyshev, iterations = 4)`"));
            return None;
        };
        self.arguments(rest, &["iterations", "preconditioner"], "`inner` has no argument", "write `iterations = 4`");
        let chosen = self.solver(value);
        let iterations = match Self::argument(rest, "iterations") {
            Some(argument) => {
                whole(&argument.value, "the number of inner iterations", 1..=u64::from(u32::MAX), self.errors)
            }
            None => {
                let error = Diagnostic::new("missing", name.span, "`inner` needs a number of iterations");
                self.errors.push(error.help("write `inner(chebyshev, iterations = 4)`"));
                None
            }
        };
        let inner = match Self::argument(rest, "preconditioner") {
            Some(argument) => {
                self.preconditioner(&argument.value, operator, chosen.as_ref().map(|chosen| chosen.0), depth + 1)
            }
            None => Some(Preconditioner::Identity),
        };
        let (solver, params) = chosen?;
        let (iterations, preconditioner) = (u32::try_from(iterations?).ok()?, Box::new(inner?));
        Some(Preconditioner::Inner { solver, params, iterations, preconditioner })
    }
}

fn literal(value: f64, span: Span) -> Expr {
    Expr { kind: ExprKind::Number(value), span }
}

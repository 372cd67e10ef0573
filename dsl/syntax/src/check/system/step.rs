//! Time steps: registers and stages, and whether they are consistent.

use crate::ast::{Binary, Documented, Entry, Expr, ExprKind as Ast, Item, Stage as AstStage, Unary};
use crate::check::number::number;
use crate::diagnostic::Diagnostic;
use crate::program::system::{Stage, TimeStep, Update};
use crate::source::Span;

/// Most registers and stages.
const MOST: usize = 32;

/// How far a consistent step may be from u + dt, for coefficients written with many digits.
const TOLERANCE: f64 = 1e-9;

/// A linear combination of registers and `dt*rate`.
#[derive(Default)]
struct Combination {
    terms: Vec<(usize, f64)>,
    rate: f64,
}

struct Build<'e> {
    registers: Vec<String>,
    set: Vec<bool>,
    errors: &'e mut Vec<Diagnostic>,
}

/// Checks a time step; what it returns is only good if nothing was reported.
pub fn time_step(item: &Item, stages: &[Documented<AstStage>], errors: &mut Vec<Diagnostic>) -> Option<TimeStep> {
    let before = errors.len();
    let mut build = Build { registers: vec!["u".to_string()], set: vec![true], errors };
    let checked: Vec<Option<Stage>> = stages.iter().map(|stage| build.stage(&stage.kind)).collect();
    if stages.is_empty() || stages.len() > MOST || build.registers.len() > MOST {
        let message = format!("a step has 1 to {MOST} stages and at most as many registers");
        build.errors.push(Diagnostic::new("bad-step", item.name.span, message));
    }
    let step = TimeStep {
        name: item.name.text.clone(),
        doc: item.doc.clone(),
        registers: build.registers,
        stages: checked.into_iter().collect::<Option<_>>()?,
        span: item.name.span,
    };
    if errors.len() == before {
        consistency(&step, stages, errors);
    }
    Some(step)
}

/// For u' = 1, dt = 1 and u = 0 at first, every state is the time of its stage, and the last one is 1.
fn consistency(step: &TimeStep, stages: &[Documented<AstStage>], errors: &mut Vec<Diagnostic>) {
    let mut values = vec![0.0; step.registers.len()];
    for (stage, place) in step.stages.iter().zip(stages) {
        if (values[0] - stage.time).abs() > TOLERANCE {
            let message = format!("the time of this stage is {}, that of its state is {}", stage.time, values[0]);
            errors.push(Diagnostic::new("inconsistent-step", place.kind.time.span, message));
            return;
        }
        for update in &stage.updates {
            let sum: f64 = update.terms.iter().map(|(register, factor)| factor * values[*register]).sum();
            values[update.register] = sum + update.rate;
        }
    }
    if (values[0] - 1.0f64).abs() > TOLERANCE {
        let message =
            format!("step `{}` is not consistent: with a rate of 1 it advances u by {}*dt", step.name, values[0]);
        errors.push(Diagnostic::new("inconsistent-step", step.span, message));
    }
}

impl Build<'_> {
    fn fail<T>(&mut self, span: Span, message: &str, help: &str) -> Option<T> {
        self.errors.push(Diagnostic::new("bad-step", span, message).help(help));
        None
    }

    fn stage(&mut self, stage: &AstStage) -> Option<Stage> {
        let time = number(&stage.time, self.errors);
        let updates: Vec<Option<Update>> = stage.updates.iter().map(|update| self.update(update)).collect();
        Some(Stage { time: time?, updates: updates.into_iter().collect::<Option<_>>()? })
    }

    fn update(&mut self, entry: &Documented<Entry>) -> Option<Update> {
        let Entry::Assign(name, value) = &entry.kind else {
            return self.fail(entry.span, "a stage holds assignments only", "write `u = u + dt*rate;`");
        };
        if matches!(name.text.as_str(), "dt" | "rate" | "t" | "pi") {
            return self.fail(name.span, &format!("`{}` cannot be assigned", name.text), "choose another name");
        }
        let combination = self.combination(value, 1.0)?;
        let register = self.registers.iter().position(|known| *known == name.text).unwrap_or_else(|| {
            self.registers.push(name.text.clone());
            self.set.push(false);
            self.registers.len() - 1
        });
        self.set[register] = true;
        Some(Update { register, terms: combination.terms, rate: combination.rate })
    }

    /// `factor` times an expression.
    fn combination(&mut self, expr: &Expr, factor: f64) -> Option<Combination> {
        match &expr.kind {
            Ast::Name(name) if name == "rate" || name == "dt" => {
                self.fail(expr.span, "the rate stands with the step of time", "write `dt*rate`")
            }
            Ast::Name(name) => match self.registers.iter().position(|known| known == name) {
                Some(register) if self.set[register] => {
                    Some(Combination { terms: vec![(register, factor)], rate: 0.0 })
                }
                _ => {
                    let help = "assign it first; registers do not live on from step to step";
                    self.fail(expr.span, &format!("`{name}` is read before it has a value"), help)
                }
            },
            Ast::Unary(Unary::Neg, inner) => self.combination(inner, -factor),
            Ast::Binary(operator @ (Binary::Add | Binary::Sub), left, right) => {
                let left = self.combination(left, factor);
                let right = self.combination(right, if *operator == Binary::Add { factor } else { -factor });
                Some(sum(left?, right?))
            }
            Ast::Binary(Binary::Mul, left, right) if is_step(left, right) => {
                Some(Combination { terms: Vec::new(), rate: factor })
            }
            Ast::Binary(Binary::Mul, left, right) if is_number(left) => {
                let scale = number(left, self.errors)?;
                self.combination(right, factor * scale)
            }
            // `a*dt*rate` is read from the left: (a*dt)*rate.
            Ast::Binary(Binary::Mul, left, right) if is_name(right, "rate") => match &left.kind {
                Ast::Binary(Binary::Mul, scale, dt) if is_name(dt, "dt") && is_number(scale) => {
                    let scale = number(scale, self.errors)?;
                    Some(Combination { terms: Vec::new(), rate: factor * scale })
                }
                _ => self.fail(expr.span, "the rate stands with the step of time", "write `dt*rate`"),
            },
            Ast::Binary(Binary::Mul, left, right) if is_number(right) => {
                let scale = number(right, self.errors)?;
                self.combination(left, factor * scale)
            }
            Ast::Binary(Binary::Div, left, right) if is_number(right) => {
                let scale = number(right, self.errors)?;
                self.combination(left, factor / scale)
            }
            _ => {
                let help = "write sums of registers and `dt*rate` with numbers as factors";
                self.fail(expr.span, "this is not a linear combination", help)
            }
        }
    }
}

fn is_name(expr: &Expr, wanted: &str) -> bool {
    matches!(&expr.kind, Ast::Name(name) if name == wanted)
}

fn is_step(left: &Expr, right: &Expr) -> bool {
    is_name(left, "dt") && is_name(right, "rate")
}

fn is_number(expr: &Expr) -> bool {
    match &expr.kind {
        Ast::Number(..) => true,
        Ast::Name(name) => name == "pi",
        Ast::Unary(Unary::Neg, inner) => is_number(inner),
        Ast::Binary(operator, left, right) => {
            matches!(operator, Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
                && is_number(left)
                && is_number(right)
        }
        Ast::Call(_, arguments) => arguments.iter().all(|argument| is_number(&argument.value)),
        _ => false,
    }
}

fn sum(mut left: Combination, right: Combination) -> Combination {
    for (register, factor) in right.terms {
        match left.terms.iter_mut().find(|(known, _)| *known == register) {
            Some((_, known)) => *known += factor,
            None => left.terms.push((register, factor)),
        }
    }
    Combination { terms: left.terms, rate: left.rate + right.rate }
}

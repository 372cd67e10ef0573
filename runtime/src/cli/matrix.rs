//! A system with a matrix from a file: what `--matrix` and its companions mean.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kernelwright_codegen::format::{Basis, Stored};
use kernelwright_codegen::math::{Fact, KnownFact, Standing};
use kernelwright_syntax::library;
use kernelwright_syntax::program::{Format, Outcome, Precision, Solver, Statement, StatementKind};
use serde_json::{Value, json};

use super::args::{FormatArgs, ProgramArgs};
use super::failure::Failure;
use super::out::Out;
use super::progress::seconds;
use crate::backend::open::{Choice, open};
use crate::backend::{Arithmetic, Backend, Target};
use crate::cache::Cache;
use crate::load::{Loaded, load};
use crate::matrix::statistics::Statistics;
use crate::matrix::triplets::believe;
use crate::matrix::{Csr, Matrix, file};
use crate::solve::Error;
use crate::sparse::choice::{self, Ranking};
use crate::sparse::cost::{Cost, bytes_of};
use crate::sparse::known;
use crate::sparse::measured::{self, Trial};
use crate::sparse::system::{self, Choices};
use crate::tune::known_product::{self, KnownProduct};
use crate::tune::store::Store;

/// Tolerance and iterations of a system, where the command line says nothing.
const TOLERANCE: f64 = 1e-8;
const ITERATIONS: u32 = 10_000;

/// Where a system is to be solved: what formats are ranked for, and how they are measured if at all.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// Nothing runs; a choice by measurement is refused.
    Nowhere(Target),
    /// A back end; choices of earlier tunes are used there, or are not.
    Backend(Choice, bool),
}

/// A chosen format and why.
pub(super) struct Chosen {
    pub(super) format: Format,
    why: String,
    trials: Vec<Trial>,
    ranking: Option<Ranking>,
    /// The choice of an earlier tune that this is.
    pub(super) known: Option<KnownProduct>,
}

impl Chosen {
    /// Of what an earlier tune chose, the variant does not hold any more.
    pub(super) fn only_format(&mut self) {
        (self.known, self.why) = (None, "the format of an earlier tune".to_string());
    }
}

/// A matrix that is ready to be solved with.
pub(super) struct System {
    name: String,
    matrix: Matrix,
    pub(super) stored: Stored,
    pub(super) facts: Vec<KnownFact>,
    pub(super) choices: Choices,
    chosen: Chosen,
    conversion_seconds: f64,
}

/// Reads the matrix and brings it to a format; returns it with the program that solves it.
pub(super) fn system(args: &ProgramArgs, path: &Path, place: Place) -> Result<(Loaded, System), Failure> {
    let matrix = read(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let facts = known::facts(&Statistics::of(&matrix.csr));
    let declarations = args.matrix.format.formats.as_deref().map(load).transpose()?;
    let choices = choices(args, &name, &matrix.csr, &facts, declarations.as_ref());
    let loaded = system::program(matrix.csr.rows(), &choices, declarations.as_ref())?;
    let products = f64::from(ITERATIONS);
    let (given, basis) = (&args.matrix.format, Basis::Permuted);
    let chosen = format(&matrix.csr, given, declarations.as_ref(), choices.precision, place, products, basis)?;
    let begin = Instant::now();
    let stored = system::convert(&matrix.csr, &chosen.format, &loaded.program)?;
    let conversion_seconds = begin.elapsed().as_secs_f64();
    Ok((loaded, System { name, matrix, stored, facts, choices, chosen, conversion_seconds }))
}

/// Reads a matrix to multiply with, and says what was noticed. Readers need memory for rows only; vectors have an element
/// for every column too.
pub(super) fn read(path: &Path) -> Result<Matrix, Failure> {
    let matrix = file::read(path).map_err(Failure::Input)?;
    believe_columns(path, &matrix.csr)?;
    matrix.notes().iter().for_each(|note| eprintln!("note: {note}"));
    Ok(matrix)
}

/// Refuses columns that the entries do not speak for.
pub(super) fn believe_columns(path: &Path, matrix: &Csr) -> Result<(), Failure> {
    let believed = believe("columns", matrix.columns(), matrix.entries());
    believed.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

fn choices(
    args: &ProgramArgs,
    name: &str,
    matrix: &Csr,
    facts: &[KnownFact],
    declarations: Option<&Loaded>,
) -> Choices {
    let given = &args.matrix;
    let refuted = |fact: Fact| facts.iter().any(|known| known.fact == fact && known.standing == Standing::Refuted);
    let solver = given.solver.clone().unwrap_or_else(|| {
        let name = match (refuted(Fact::Symmetric), refuted(Fact::PositiveDefinite)) {
            (true, _) => "bicgstab",
            (false, true) => "minres",
            (false, false) => "pcg",
        };
        name.to_string()
    });
    let preconditioner = given.preconditioner.clone().unwrap_or_else(|| {
        let declared = declared(&solver, declarations).filter(|solver| solver.operators.len() > 1);
        let fits = declared.is_some_and(|solver| diagonal_fits(matrix, takes_any_sign(&solver)));
        if fits { "jacobi" } else { "identity" }.to_string()
    });
    Choices {
        name: name.to_string(),
        solver,
        preconditioner,
        tolerance: TOLERANCE,
        against: given.relative_to.map(Into::into).unwrap_or_default(),
        iterations: ITERATIONS,
        precision: args.precision.unwrap_or(Precision::F64),
        restart: given.restart_every,
    }
}

/// The declaration of a solver that is named with its parameters.
fn declared(solver: &str, declarations: Option<&Loaded>) -> Option<Solver> {
    let name = solver.split('(').next().unwrap_or_default().trim();
    let own = declarations.and_then(|loaded| loaded.program.solvers.iter().find(|solver| solver.name == name).cloned());
    own.or_else(|| library::solver(name))
}

/// Whether a solver runs with a preconditioner of any sign: it requires nothing of its second operator, has no outcome for
/// an indefinite one, but ends by itself where the iteration breaks down.
fn takes_any_sign(solver: &Solver) -> bool {
    let ends = |outcome: Outcome| solver.body.iter().any(|statement| may_end(statement, outcome));
    solver.operators.get(1).is_some_and(|operator| operator.requires.is_empty())
        && !ends(Outcome::IndefinitePreconditioner)
        && ends(Outcome::Breakdown)
}

/// Whether a statement, or one within it, requires something else than an outcome.
fn may_end(statement: &Statement, outcome: Outcome) -> bool {
    let any = |body: &[Statement]| body.iter().any(|statement| may_end(statement, outcome));
    match &statement.kind {
        StatementKind::Require(_, named) => *named == outcome,
        StatementKind::If(_, then, other) => any(then) || any(other),
        StatementKind::Every(_, body) | StatementKind::Repeat(_, body) => any(body),
        _ => false,
    }
}

/// Whether jacobi can be used unasked: nowhere zero, and positive for a solver that needs that of it.
fn diagonal_fits(matrix: &Csr, any_sign: bool) -> bool {
    matrix.is_square()
        && (0..matrix.rows()).all(|row| matrix.get(row, row).is_some_and(|d| d > 0.0 || (any_sign && d != 0.0)))
}

/// Chooses a format; `products` is how many products the choice has to pay for the conversion, `basis` that of
/// the columns.
pub(super) fn format(
    matrix: &Csr,
    args: &FormatArgs,
    declarations: Option<&Loaded>,
    precision: Precision,
    place: Place,
    products: f64,
    basis: Basis,
) -> Result<Chosen, Failure> {
    let all = choice::formats(declarations.map(|loaded| &loaded.program));
    if args.format != "auto" && args.format != "measure" {
        let format = named(&all, &args.format)?;
        return Ok(Chosen { format, why: "as asked for".to_string(), trials: Vec::new(), ranking: None, known: None });
    }
    if let (Place::Backend(backend, true), "auto") = (place, args.format.as_str())
        && let Some(known) = known_product(matrix, &all, precision, backend)?
    {
        let (format, why) = (known.format.clone(), known.text());
        return Ok(Chosen { format, why, trials: Vec::new(), ranking: None, known: Some(known) });
    }
    let ranking = choice::rank(matrix, &all, precision, target(place)?, basis);
    let (best, why) = ranking.best().map_err(Failure::Input)?;
    let mut chosen = Chosen { format: best.format.clone(), why, trials: Vec::new(), ranking: None, known: None };
    if args.format == "measure" {
        let Place::Backend(backend, _) = place else {
            return Err(Failure::Usage(
                "--format measure needs a back end; solve, bench and spmv have one".to_string(),
            ));
        };
        let (best, trials) = measured::best(matrix, &ranking, precision, products, &mut || backend_of(backend))?;
        let name = &trials[best].format;
        if let Some(candidate) = ranking.candidates.iter().find(|candidate| candidate.format.name == *name) {
            chosen.format = candidate.format.clone();
        }
        chosen.why = format!("the fastest of {} for {products:.0} products, conversion included", trials.len());
        chosen.trials = trials;
    }
    chosen.ranking = Some(ranking);
    Ok(chosen)
}

/// A format by name, or a shape of one.
pub(super) fn named(all: &[Format], name: &str) -> Result<Format, Failure> {
    choice::named(all, name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|format| format.name.as_str()).collect();
        Failure::Usage(format!("no format is called `{name}`; there are auto, measure, {}", names.join(", ")))
    })
}

/// What an earlier tune chose for a product, if there is anything.
fn known_product(
    matrix: &Csr,
    all: &[Format],
    precision: Precision,
    backend: Choice,
) -> Result<Option<KnownProduct>, Failure> {
    let store = Store::of_user();
    if store.is_empty() {
        return Ok(None);
    }
    // In mixed precision the loop is in f32.
    let precision = if precision == Precision::Mixed { Precision::F32 } else { precision };
    let (known, notices) = known_product::find(store, matrix, all, precision, backend_of(backend)?.as_ref());
    notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    Ok(known)
}

/// Opens a back end.
pub(super) fn backend_of(choice: Choice) -> Result<Box<dyn Backend>, Error> {
    Ok(open(choice, Arithmetic::default(), &Arc::new(Cache::of_user()))?.backend)
}

fn target(place: Place) -> Result<Target, Failure> {
    match place {
        Place::Nowhere(target) | Place::Backend(Choice::Interp(target), _) => Ok(target),
        Place::Backend(Choice::Cuda(_), _) => Ok(Target::Cuda),
        Place::Backend(Choice::Host, _) => Ok(Target::Host),
        Place::Backend(Choice::Auto, _) => Ok(backend_of(Choice::Auto)?.target()),
    }
}

impl Chosen {
    /// Lines for people, below a title.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("  chosen      {}", self.why)];
        for trial in &self.trials {
            let (name, time) = (&trial.format, seconds(trial.product_seconds));
            let conversion = seconds(trial.conversion_seconds);
            lines.push(format!("              {name}: {time} a product, converted in {conversion}"));
        }
        lines
    }

    /// The same for programs.
    pub(super) fn object(&self) -> Value {
        let ranking = self.ranking.as_ref();
        let ranked = ranking.map(|ranking| {
            let one = |candidate: &choice::Candidate| {
                json!({
                    "format": candidate.format.name,
                    "predicted_seconds": candidate.seconds,
                    "product_bytes": candidate.cost.product_bytes,
                })
            };
            ranking.candidates.iter().map(one).collect::<Vec<_>>()
        });
        let refused = ranking.map(|ranking| {
            ranking.refused.iter().map(|(name, why)| json!({ "format": name, "why": why })).collect::<Vec<_>>()
        });
        json!({ "why": self.why, "tuned": self.known, "measured": self.trials, "ranked": ranked, "refused": refused })
    }
}

impl System {
    /// The choice of an earlier tune that is in use.
    pub(super) fn known(&self) -> Option<&KnownProduct> {
        self.chosen.known.as_ref()
    }

    /// The right-hand side where none is given, and the solution that it has, if that is known: the file's own, else the
    /// sums of rows, whose solution is all ones.
    pub(super) fn right_hand_side(&self) -> (Vec<f64>, Option<Vec<f64>>) {
        let vectors = &self.matrix.vectors;
        match vectors.right_hand_sides.first() {
            Some(rhs) => (rhs.clone(), vectors.solutions.first().cloned()),
            None => {
                let ones = vec![1.0; self.matrix.csr.columns()];
                (self.matrix.csr.multiply(&ones), Some(ones))
            }
        }
    }

    /// The guess of the file.
    pub(super) fn guess(&self) -> Option<Vec<f64>> {
        self.matrix.vectors.guesses.first().cloned()
    }

    /// The tolerance as the solver takes it; `given` is that of the command line.
    pub(super) fn tolerance(&self, given: Option<f64>, rhs: &[f64], guess: Option<&[f64]>) -> f64 {
        let choices = Choices { tolerance: given.unwrap_or(self.choices.tolerance), ..self.choices.clone() };
        system::tolerance(&choices, &self.matrix.csr, rhs, guess)
    }

    fn cost(&self) -> Cost {
        Cost::of(&self.stored.layout, self.choices.precision)
    }

    /// What is solved with, for people.
    pub(super) fn text(&self, out: &mut Out) -> Result<(), Failure> {
        let csr = &self.matrix.csr;
        let Choices { solver, preconditioner, .. } = &self.choices;
        out.line(format!(
            "  matrix      {}: {} rows, {} entries; {solver}, {preconditioner}",
            self.name,
            csr.rows(),
            csr.entries()
        ))?;
        out.line(format!("  format      {}", storage(&self.chosen.format.name, &self.cost())))?;
        self.chosen.lines().iter().try_for_each(|line| out.line(line))?;
        for companion in &self.stored.companions {
            let (name, format) = (companion.of.name(), &companion.layout.format.name);
            let megabytes = companion.layout.bytes(bytes_of(self.choices.precision)) as f64 / 1e6;
            let products = companion.of.products();
            out.line(format!(
                "  beside      {name}: {megabytes:.2} MB in {format}, {products} products an application"
            ))?;
        }
        out.line(format!("  conversion  {}", seconds(self.conversion_seconds)))
    }

    /// What is solved with, for programs.
    pub(super) fn object(&self) -> Value {
        json!({
            "file": self.name,
            "form": self.matrix.form,
            "rows": self.matrix.csr.rows(),
            "entries": self.matrix.csr.entries(),
            "solver": self.choices.solver,
            "preconditioner": self.choices.preconditioner,
            "restart": self.choices.restart,
            "format": self.chosen.format.name,
            "cost": self.cost(),
            "choice": self.chosen.object(),
            "companions": self.stored.companions.iter().map(|companion| json!({
                "name": companion.of.name(),
                "format": companion.layout.format.name,
                "bytes": companion.layout.bytes(bytes_of(self.choices.precision)),
                "products": companion.of.products(),
            })).collect::<Vec<_>>(),
            "conversion_seconds": self.conversion_seconds,
        })
    }
}

/// A format's storage in a line.
pub(super) fn storage(name: &str, cost: &Cost) -> String {
    format!(
        "{name}: {:.2} bytes an entry, padding {:.1} %, {:.1} % of ELLPACK's storage",
        cost.bytes_per_entry,
        100.0 * cost.padding,
        100.0 * cost.against_ellpack
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bicgstab_of_the_library_gets_a_diagonal_of_any_sign_unasked() {
        let any_sign = |name: &&str| library::solver(name).is_some_and(|solver| takes_any_sign(&solver));
        assert_eq!(library::names().filter(any_sign).collect::<Vec<_>>(), ["bicgstab"]);
    }

    #[test]
    fn a_solver_of_one_s_own_is_judged_by_what_it_declares() {
        let renamed = |from: &str, to: &str| {
            let text =
                library::text(from).expect("a solver").replace(&format!("solver {from}("), &format!("solver {to}("));
            crate::load::from_text("own.kw", text).expect("a program")
        };
        for (from, to, expected) in [("bicgstab", "mine", true), ("pcg_flexible", "bicgstab", false)] {
            let own = renamed(from, to);
            let solver = declared(&format!("{to}()"), Some(&own)).expect("declared");
            assert_eq!(takes_any_sign(&solver), expected, "{from} under the name of {to}");
        }
    }
}

//! The program that solves with a matrix: solver, preconditioner and test as the language has them, on an operator that is
//! the matrix.
//!
//! The program declares a problem on an operator of the same number of points; [`Builder::stored`](crate::solve::Builder)
//! then puts the matrix in its place. So solvers, preconditioners and their parameters are written as in any problem, and
//! a program's own solvers may be used.

use kernelwright_codegen::format::{self, Basis, Options, Stored, companion};
use kernelwright_syntax::diagnostic::Diagnostic;
use kernelwright_syntax::program::{
    Format, Precision, Preconditioner, Program, Scalar, Solver, Statement, StatementKind, VarId, Vector,
};

use crate::load::{LoadError, Loaded, from_text};
use crate::matrix::Csr;
use crate::solve::Error;

/// What a matrix is solved with.
#[derive(Debug, Clone, PartialEq)]
pub struct Choices {
    /// Name in reports.
    pub name: String,
    /// A solver with its parameters, `pcg`, `chebyshev(lower = 0.1)`.
    pub solver: String,
    /// A preconditioner, `jacobi`, `block_jacobi(4)`, `ssor(1.2)`, `inner(chebyshev, iterations = 4)`.
    pub preconditioner: String,
    /// Bound of the residual's norm, relative to what [`Choices::against`] says.
    pub tolerance: f64,
    /// What the tolerance is relative to.
    pub against: Against,
    /// Iteration limit.
    pub iterations: u32,
    /// Precision of vectors and values.
    pub precision: Precision,
    /// The residual is computed anew, b - A x, every so many iterations; directions are kept.
    pub restart: Option<u32>,
}

/// What a tolerance is relative to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Against {
    /// |r| <= tolerance |b|.
    #[default]
    RightHandSide,
    /// |r| <= tolerance |b - A x0|.
    FirstResidual,
    /// |r| <= tolerance.
    Nothing,
}

/// Name of the operator in the program.
const OPERATOR: &str = "matrix_from_file";

/// The program, with one problem; `declarations` is a program whose solvers and formats are known too.
///
/// # Errors
/// A solver or preconditioner that does not exist or fit.
pub fn program(rows: usize, choices: &Choices, declarations: Option<&Loaded>) -> Result<Loaded, Error> {
    if rows == 0 {
        return Err(Error::Input("a matrix without rows is no system of equations".to_string()));
    }
    for (option, text) in [("--solver", &choices.solver), ("--preconditioner", &choices.preconditioner)] {
        if !is_call(text) {
            let text = format!("{option} `{text}`: a name is expected, with parameters in brackets if there are any");
            return Err(Error::Usage(text));
        }
    }
    let precision = choices.precision.word();
    let own = declarations.map_or("", |loaded| loaded.text.as_str());
    let Choices { solver, preconditioner, tolerance, iterations, .. } = choices;
    let text = format!(
        "{own}\noperator {OPERATOR} {{\n    grid cells [row: rows];\n    apply u => u;\n    boundary row: no_flux;\n}}\n\
         problem {OPERATOR} {{\n    operator {OPERATOR}(rows = {rows});\n    rhs 0;\n    solver {solver};\n    \
         preconditioner {preconditioner};\n    tolerance {tolerance:?};\n    iterations {iterations};\n    \
         precision {precision};\n}}\n"
    );
    let mut loaded = from_text("command line", text).map_err(|error| Error::Input(said(&error)))?;
    let number = loaded.program.problems.iter().position(|problem| problem.name == OPERATOR);
    let number = number.ok_or_else(|| Error::Internal("the problem of a matrix is missing".to_string()))?;
    loaded.program.problems.swap(0, number);
    if let Some(own) = declarations {
        // Lines of its solvers are those of its text.
        loaded.program.file.clone_from(&own.program.file);
    }
    loaded.program.problems.truncate(1);
    let problem = &mut loaded.program.problems[0];
    problem.name = choices.name.clone();
    if has_lines(&problem.preconditioner) {
        return Err(Error::Input("the preconditioner `line` is for grids; a matrix has no lines".to_string()));
    }
    let solver = &mut loaded.program.solvers[problem.solver];
    if choices.against != Against::RightHandSide {
        make_absolute(&mut solver.body);
    }
    if let Some(every) = choices.restart {
        restart(solver, every)?;
    }
    Ok(loaded)
}

/// What is wrong with the solver or preconditioner asked for: without places, which are of a text that nobody wrote.
fn said(error: &LoadError) -> String {
    let LoadError::Program(diagnostics) = error else { return error.to_string() };
    let one = |wrong: &Diagnostic| match &wrong.help {
        Some(help) => format!("{} ({help})", wrong.message),
        None => wrong.message.clone(),
    };
    diagnostics.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Whether a text can only be read as one expression: it is put into a program.
fn is_call(text: &str) -> bool {
    let depth = text.chars().try_fold(0_u32, |depth, c| match c {
        '(' => Some(depth + 1),
        ')' => depth.checked_sub(1),
        ';' | '{' | '}' | '[' | ']' | '"' | '\n' => None,
        _ => Some(depth),
    });
    depth == Some(0) && !text.contains("//") && !text.contains("/*") && !text.trim().is_empty()
}

fn has_lines(preconditioner: &Preconditioner) -> bool {
    match preconditioner {
        Preconditioner::Line(_) => true,
        Preconditioner::Inner { preconditioner, .. } => has_lines(preconditioner),
        _ => false,
    }
}

/// The bound of the test becomes the tolerance itself.
fn make_absolute(body: &mut [Statement]) {
    for statement in body {
        if let StatementKind::Converge { bound, .. } = &mut statement.kind {
            *bound = Scalar::Tolerance;
            statement.text = statement.text.split("<=").next().unwrap_or_default().to_string() + "<= tolerance;";
        }
    }
}

/// Before the test, every so many iterations, the residual is computed anew (Osés Villanueva et al. 2013, algorithm 2).
fn restart(solver: &mut Solver, every: u32) -> Result<(), Error> {
    let residual = solver.body.iter().find_map(|statement| match &statement.kind {
        StatementKind::Residual(variable, value) => Some((*variable, value.clone(), statement.clone())),
        _ => None,
    });
    let Some((variable, value, place)) = residual else {
        return Err(Error::Input(format!("the solver {} declares no residual to compute anew", solver.name)));
    };
    if every == 0 || !insert(&mut solver.body, every, variable, &value, &place) {
        let name = &solver.name;
        return Err(Error::Input(format!("the residual of {name} cannot be computed anew every {every} iterations")));
    }
    Ok(())
}

/// Inserts before each check within a loop; says whether there was one.
fn insert(body: &mut [Statement], every: u32, variable: VarId, value: &Vector, place: &Statement) -> bool {
    let mut found = false;
    for statement in body {
        if let StatementKind::Repeat(_, inner) = &mut statement.kind {
            let carried = |s: &Statement| matches!(s.kind, StatementKind::AssignVector(to, _) if to == variable);
            if let Some(at) = inner.iter().position(|s| matches!(s.kind, StatementKind::Check))
                && inner[..at].iter().any(carried)
            {
                let text = place.text.strip_prefix("residual ").unwrap_or(&place.text).to_string();
                let anew = StatementKind::AssignVector(variable, value.clone());
                let anew = Statement { kind: anew, text, span: place.span };
                let kind = StatementKind::Every(every, vec![anew]);
                inner.insert(at, Statement { kind, text: format!("every {every}"), span: place.span });
                found = true;
            }
            found |= insert(inner, every, variable, value, place);
        }
    }
    found
}

/// Brings a square matrix to a format for the loop of a program's first problem: rows and columns move together, and the
/// diagonal, what else the preconditioner needs and, for loops that multiply with it, the transpose are stored beside it.
///
/// # Errors
/// A matrix that is not square or that the format cannot store; a preconditioner that divides by the diagonal with a zero
/// there, whose row is named, or that inverts a singular block, whose first row is named (rows count from 1).
pub fn convert(matrix: &Csr, format: &Format, program: &Program) -> Result<Stored, Error> {
    let problem = &program.problems[0];
    let preconditioner = &problem.preconditioner;
    if !matrix.is_square() {
        let (rows, columns) = (matrix.rows(), matrix.columns());
        return Err(Error::Input(format!(
            "a system has as many equations as unknowns, this matrix is {rows} x {columns}"
        )));
    }
    let diagonal = companion::reads_diagonal(preconditioner);
    let options = Options { basis: Basis::Permuted, diagonal };
    let mut stored = format::store(format, &matrix.view(), options).map_err(|error| Error::Input(error.to_string()))?;
    if let Some(row) = stored.zero_diagonal {
        let (row, name) = (row + 1, word(preconditioner));
        return Err(Error::Input(format!("{name} divides by the diagonal, which is zero or not stored in row {row}")));
    }
    companion::add(&mut stored, &matrix.view(), preconditioner).map_err(|error| Error::Input(error.to_string()))?;
    if program.solvers[problem.solver].transposes() || transposes(program, preconditioner) {
        companion::add_transpose(&mut stored, &matrix.view()).map_err(|error| Error::Input(error.to_string()))?;
    }
    Ok(stored)
}

/// Whether an inner solver multiplies with the transpose.
fn transposes(program: &Program, preconditioner: &Preconditioner) -> bool {
    match preconditioner {
        Preconditioner::Inner { solver, preconditioner, .. } => {
            program.solvers[*solver].transposes() || transposes(program, preconditioner)
        }
        _ => false,
    }
}

/// The word of the language for what divides by the diagonal.
fn word(preconditioner: &Preconditioner) -> &'static str {
    match preconditioner {
        Preconditioner::Ssor(_) => "ssor",
        Preconditioner::Inner { preconditioner, .. } => word(preconditioner),
        _ => "jacobi",
    }
}

/// The tolerance as the program takes it, for a right-hand side and a guess.
pub fn tolerance(choices: &Choices, matrix: &Csr, rhs: &[f64], guess: Option<&[f64]>) -> f64 {
    match (choices.against, guess) {
        (Against::FirstResidual, Some(guess)) => {
            let product = matrix.multiply(guess);
            choices.tolerance * norm(rhs.iter().zip(product).map(|(b, p)| b - p))
        }
        (Against::FirstResidual, None) => choices.tolerance * norm(rhs.iter().copied()),
        _ => choices.tolerance,
    }
}

/// The Euclidean norm, scaled so that squares do not overflow or vanish.
fn norm(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    if largest == 0.0 || !largest.is_finite() {
        return largest;
    }
    largest * values.map(|value| (value / largest).powi(2)).sum::<f64>().sqrt()
}

//! How a solve went: closing lines for people, an object for programs.

use serde_json::{Value, json};

use super::failure::Failure;
use super::out::Out;
use super::progress::seconds;
use super::table::columns;
use crate::pipeline::element_of;
use crate::solve::{Outcome, Report, Solver, Stages};
use kernelwright_syntax::program::Precision;

/// The closing table.
pub(super) fn text(out: &mut Out, solver: &Solver, report: &Report) -> Result<(), Failure> {
    let problem = solver.problem();
    let sizes: Vec<String> = problem.sizes.iter().map(usize::to_string).collect();
    let (name, precision) = (&problem.name, problem.precision.word());
    let (grid, device) = (sizes.join(" x "), solver.engine().describe());
    out.line(format!("{name}: {}, {precision}, {grid}, {device}", solver.engine().program().name))?;
    let rows = vec![
        vec!["  outcome".to_string(), sentence(report)],
        vec!["  residual".to_string(), residuals(report)],
        vec!["  time".to_string(), times(report)],
    ];
    columns(&rows).iter().try_for_each(|line| out.line(line))?;
    if let Some(traffic) = report.traffic.filter(|_| report.iterations > 0) {
        let fraction = match traffic.fraction_of_copy {
            Some(fraction) => format!(", {:.0} % of a copy", 100.0 * fraction),
            None => String::new(),
        };
        let speed = traffic.bytes_per_second / 1e9;
        let words = (100.0 * traffic.words).round() / 100.0;
        out.line(format!("  traffic   {words} words per point and iteration, {speed:.1} GB/s{fraction}"))?;
    }
    if let Some(detail) = &report.detail {
        out.line(format!("  {detail}"))?;
    }
    Ok(())
}

fn sentence(report: &Report) -> String {
    let n = report.iterations;
    let iterations = if n == 1 { "1 iteration".to_string() } else { format!("{n} iterations") };
    match report.outcome {
        Outcome::Converged => format!("converged after {iterations}"),
        Outcome::AttainableAccuracy => {
            format!("attainable accuracy reached after {iterations}; the tolerance was not met")
        }
        Outcome::IterationLimit => format!("iteration limit: not converged after {iterations}"),
        Outcome::IndefiniteOperator => format!("the operator is not positive definite (iteration {n})"),
        Outcome::IndefinitePreconditioner => format!("the preconditioner is not positive definite (iteration {n})"),
        Outcome::Breakdown => format!("breakdown after {iterations}"),
        Outcome::Diverged => format!("diverged after {iterations}"),
        Outcome::Incompatible => "no solution exists".to_string(),
        Outcome::NotFinite => format!("a value became infinite or undefined (iteration {n})"),
        Outcome::Interrupted => format!("interrupted after {iterations}"),
    }
}

fn residuals(report: &Report) -> String {
    if report.history.is_empty() {
        return "never measured".to_string();
    }
    let mut text = match report.truth {
        Some(truth) => format!("true {truth:.3e}, recursive {:.3e}", report.recursive),
        None => format!("recursive {:.3e}", report.recursive),
    };
    text.push_str(&format!(", bound {:.3e}", report.bound));
    if let Some(attainable) = report.attainable {
        text.push_str(&format!(", rounding {attainable:.1e}"));
    }
    text
}

fn times(report: &Report) -> String {
    let [compile, setup, solve] =
        [report.timings.compile, report.timings.setup, report.timings.solve].map(|time| time.as_secs_f64());
    let each = if report.iterations > 0 {
        format!(" ({} an iteration)", seconds(solve / f64::from(report.iterations)))
    } else {
        String::new()
    };
    format!("compile {}, set up {}, solve {}{each}", seconds(compile), seconds(setup), seconds(solve))
}

/// The object of `--json`; numbers that are not finite become null.
pub(super) fn object(solver: &Solver, report: &Report) -> Value {
    let problem = solver.problem();
    let traffic = report.traffic.map(|traffic| {
        json!({
            "words_per_point_and_iteration": traffic.words,
            "bytes_per_second": traffic.bytes_per_second,
            "fraction_of_copy": traffic.fraction_of_copy,
        })
    });
    json!({
        "problem": problem.name,
        "schedule": solver.engine().program().name,
        "backend": solver.engine().describe(),
        "precision": problem.precision.word(),
        "sizes": problem.sizes,
        "outcome": report.outcome.name(),
        "converged": report.outcome.is_converged(),
        "detail": report.detail,
        "iterations": report.iterations,
        "residual": {
            "true": report.truth,
            "recursive": report.recursive,
            "attainable": report.attainable,
            "bound": report.bound,
        },
        "restarts": report.restarts,
        "seconds": {
            "compile": report.timings.compile.as_secs_f64(),
            "stages": stages(&report.timings.stages),
            "setup": report.timings.setup.as_secs_f64(),
            "solve": report.timings.solve.as_secs_f64(),
        },
        "traffic": traffic,
        "tuned": solver.tuned(),
        "notices": solver.notices(),
        "history": report.history,
    })
}

/// Stages of compiling, in seconds.
pub(super) fn stages(stages: &Stages) -> Value {
    json!({
        "plan": stages.plan.as_secs_f64(),
        "map": stages.map.as_secs_f64(),
        "verify": stages.backend.verify.as_secs_f64(),
        "print": stages.backend.print.as_secs_f64(),
        "build": stages.backend.build.as_secs_f64(),
        "load": stages.backend.load.as_secs_f64(),
        "allocate": stages.allocate.as_secs_f64(),
    })
}

/// Bytes of a word of the vectors that a loop moves.
pub(super) fn word_bytes(precision: Precision) -> f64 {
    element_of(precision).bytes() as f64
}

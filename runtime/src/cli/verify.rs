//! `verify`: probe an operator on a small grid; systems are looked at elsewhere.

use std::fs::File;
use std::io::BufWriter;

use kernelwright_codegen::math::{KnownFact, Standing};
use kernelwright_codegen::math_eval::{Evaluator, Matrix};
use kernelwright_syntax::program::{Fact, NullSpace, Problem, Program};
use serde_json::{Value, json};

use super::args::VerifyArgs;
use super::failure::{Failure, WRONG_INPUT};
use super::matrix::Place;
use super::out::Out;
use super::table::columns;
use super::{Source, choose, march, source, systems};
use crate::backend::Target;
use crate::inputs::sources::Context;
use crate::load::Loaded;
use crate::outputs::matrix;
use crate::pipeline;
use crate::probe::Findings;

/// Size of an axis by number of axes, where the user does not set it: a dense matrix is looked at.
const SMALL: [usize; 3] = [64, 16, 7];
/// Largest number of unknowns of a probe.
const LARGEST: usize = 1500;

pub(super) fn run(args: &VerifyArgs, out: &mut Out) -> Result<u8, Failure> {
    let source = source(&args.program, Place::Nowhere(Target::Host))?;
    if source.system.is_some() {
        return Err(Failure::Usage("a program's operator is probed; `info` looks at matrices".to_string()));
    }
    if let Some(run) = march::chosen(&source.loaded, args.program.problem.as_deref())? {
        return systems::verify(&source.loaded, run, args, out);
    }
    let (problem, loaded) = (small(&source, args)?, &source.loaded);
    let operator = pipeline::operator(&loaded.program, &problem)?;
    let unknowns = problem.sizes.iter().product::<usize>() * operator.rows.len();
    if unknowns > LARGEST {
        let text = format!("{unknowns} unknowns are too many to probe (at most {LARGEST}); set smaller sizes");
        return Err(Failure::Usage(text));
    }
    let (params, data) = inputs(loaded, &problem)?;
    let evaluator = Evaluator::new(&operator, &params, &data).map_err(|error| Failure::Internal(error.to_string()))?;
    if let Some(text) = not_finite(&evaluator) {
        return Err(Failure::Input(format!("problem `{}`: {text}", problem.name)));
    }
    let matrix = evaluator.matrix();
    let findings = Findings::of(&matrix);
    let facts = pipeline::facts(loaded, &problem, &operator)?;
    let refuted = refuted(&loaded.program, &problem, &findings);
    if let Some(path) = &args.out {
        save(path, &matrix, &loaded.program, &problem)?;
    }
    text(out, &loaded.program, &problem, &findings, &facts, &|n| evaluator.name(n))?;
    let declared = loaded.program.operators[problem.operator].nullspace == Some(NullSpace::Constant);
    let null_space = declared.then(|| not_in_null_space(&evaluator)).flatten();
    let claims = refuted.iter().map(|fact| format!("the operator is claimed {}", fact_name(*fact)));
    claims.chain(null_space.clone()).try_for_each(|text| out.line(format!("REFUTED: {text}")))?;
    let mut object = object(&loaded.program, &problem, &findings, &facts, &refuted);
    object["null_space_refuted"] = json!(null_space.is_some());
    out.object(&object)?;
    Ok(if refuted.is_empty() && null_space.is_none() { 0 } else { WRONG_INPUT })
}

/// The problem with small sizes, but for those the user sets.
fn small(source: &Source, args: &VerifyArgs) -> Result<Problem, Failure> {
    let (_, problem) = choose(source, &args.program).chosen()?;
    let axes = &source.loaded.program.operators[problem.operator].axes;
    let mut builder = choose(source, &args.program);
    for (axis, size) in axes.iter().zip(&problem.sizes) {
        let set = args.program.set.iter().any(|(name, _)| *name == axis.size);
        let small = SMALL[axes.len().clamp(1, 3) - 1];
        if !set && *size > small {
            builder = builder.set(&axis.size, small as f64);
        }
    }
    Ok(builder.chosen()?.1)
}

/// Parameters and arrays of a problem.
pub(super) fn inputs(loaded: &Loaded, problem: &Problem) -> Result<(Vec<f64>, Vec<Vec<f64>>), Failure> {
    let params = problem.parameters();
    let operator = &loaded.program.operators[problem.operator];
    let context = Context { operator, problem, params: &params, folder: &loaded.folder };
    let data: Result<Vec<Vec<f64>>, String> = (0..operator.data.len()).map(|n| context.data(n)).collect();
    Ok((params.clone(), data.map_err(Failure::Input)?))
}

/// The first row with a coefficient or source that is not finite, if there is one.
pub(super) fn not_finite(evaluator: &Evaluator) -> Option<String> {
    let first = |values: &[f64]| values.iter().position(|value| !value.is_finite());
    let ones = vec![1.0; evaluator.unknowns()];
    if let Some(row) = first(&evaluator.magnitude(&ones)) {
        return Some(format!("a coefficient in the row of {} is not finite", evaluator.name(row)));
    }
    let row = first(&evaluator.affine_part())?;
    Some(format!("what the row of {} adds to the right-hand side is not finite", evaluator.name(row)))
}

/// How constants fail to be in the null space, if they do.
pub(super) fn not_in_null_space(evaluator: &Evaluator) -> Option<String> {
    let points = evaluator.points();
    let inside = |n: usize| if evaluator.active()[n % points] { 1.0 } else { 0.0 };
    let ones: Vec<f64> = (0..evaluator.unknowns()).map(inside).collect();
    let (rows, scale) = (evaluator.linear(&ones), evaluator.magnitude(&ones));
    let largest = scale.iter().copied().fold(0.0, f64::max);
    let row = rows.iter().position(|value| value.abs() > 1e-10 * largest)?;
    let name = evaluator.name(row);
    Some(format!("`nullspace constant` is declared, but the row of {name} does not map constants to zero"))
}

/// Claims that the numbers contradict.
fn refuted(program: &Program, problem: &Problem, findings: &Findings) -> Vec<Fact> {
    let claims = program.operators[problem.operator].claims.iter().map(|claim| claim.fact);
    let wrong = |fact: &Fact| match fact {
        Fact::Symmetric => !findings.is_symmetric(),
        Fact::PositiveDefinite => !findings.is_positive(),
        Fact::MMatrix => false,
    };
    claims.filter(wrong).collect()
}

fn save(path: &std::path::Path, matrix: &Matrix, program: &Program, problem: &Problem) -> Result<(), Failure> {
    let operator = &program.operators[problem.operator];
    let axes = operator.axes.iter().zip(&problem.sizes);
    let sizes: Vec<String> = axes.map(|(axis, size)| format!("{} = {size}", axis.size)).collect();
    let comment = [
        format!("operator {}, problem {}, {}", operator.name, problem.name, sizes.join(", ")),
        "rows and columns: one component after another, axis 0 fastest".to_string(),
    ];
    let write = || matrix::write(BufWriter::new(File::create(path)?), matrix, &comment);
    write().map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

fn text(
    out: &mut Out,
    program: &Program,
    problem: &Problem,
    findings: &Findings,
    facts: &[KnownFact],
    name: &dyn Fn(usize) -> String,
) -> Result<(), Failure> {
    let sizes: Vec<String> = problem.sizes.iter().map(usize::to_string).collect();
    out.line(format!("{} on a grid of {}", program.operators[problem.operator].name, sizes.join(" x ")))?;
    let (defect, row, column) = findings.asymmetry;
    let symmetry = if findings.is_symmetric() {
        format!("symmetric (largest defect {defect:.1e})")
    } else {
        format!("not symmetric: defect {defect:.3e} between {} and {}", name(row), name(column))
    };
    let (low, high) = findings.eigenvalues;
    let part = if findings.is_symmetric() { "" } else { " (of the symmetric part)" };
    let kernel = if findings.constants_vanish() { "constants" } else { "constants are not in it" };
    let mut rows = vec![
        vec!["  unknowns".to_string(), format!("{}, {} entries", findings.unknowns, findings.entries)],
        vec!["  symmetry".to_string(), symmetry],
        vec!["  eigenvalues".to_string(), format!("{low:.6e} … {high:.6e}{part}")],
        vec!["  null space".to_string(), kernel.to_string()],
    ];
    if findings.is_positive() && !findings.constants_vanish() {
        rows.push(vec!["  condition".to_string(), format!("{:.3e}", high / low)]);
    }
    for fact in facts {
        rows.push(vec![format!("  {}", fact_name(fact.fact)), format!("{}: {}", standing(fact.standing), fact.why)]);
    }
    columns(&rows).iter().try_for_each(|line| out.line(line))
}

fn object(program: &Program, problem: &Problem, findings: &Findings, facts: &[KnownFact], refuted: &[Fact]) -> Value {
    json!({
        "operator": program.operators[problem.operator].name,
        "problem": problem.name,
        "sizes": problem.sizes,
        "unknowns": findings.unknowns,
        "entries": findings.entries,
        "symmetric": findings.is_symmetric(),
        "asymmetry": findings.asymmetry.0,
        "eigenvalues": [findings.eigenvalues.0, findings.eigenvalues.1],
        "positive": findings.is_positive(),
        "constants_in_null_space": findings.constants_vanish(),
        "facts": facts_json(facts),
        "refuted": refuted.iter().map(|fact| fact_name(*fact)).collect::<Vec<_>>(),
    })
}

/// Facts as a list of objects.
pub(super) fn facts_json(facts: &[KnownFact]) -> Value {
    let one = |fact: &KnownFact| json!({ "fact": fact_name(fact.fact), "standing": standing(fact.standing), "why": fact.why });
    Value::Array(facts.iter().map(one).collect())
}

/// The word of the language.
pub(super) fn fact_name(fact: Fact) -> &'static str {
    match fact {
        Fact::Symmetric => "symmetric",
        Fact::PositiveDefinite => "positive_definite",
        Fact::MMatrix => "m_matrix",
    }
}

/// For people.
pub(super) fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Proved => "proved",
        Standing::ToTest => "to be tested",
        Standing::Tested => "tested",
        Standing::Assumed => "assumed",
        Standing::Refuted => "refuted",
    }
}

//! Random operators applied once: u := f - A u - g, against the assembled matrix.

use kernelwright_syntax::program::Precision;
use kernelwright_tests::oracle::{Assembled, Instance};
use kernelwright_tests::random;

use crate::Case;
use crate::run::{Given, How, instance, load, roundoff, solve};
use crate::solved::VARIANTS;

/// A loop of one step that leaves the residual in u.
const ONCE: &str = "
solver once(A: any) {
    residual r = f - A*u;
    converge when norm(r) <= 0;
    repeat {
        u = r;
        check;
    }
}
";

/// `count` random operators, in the two precisions by turns.
pub fn cases(count: u64) -> Vec<Case> {
    (0..count)
        .map(|seed| {
            let precision = if seed.is_multiple_of(2) { Precision::F64 } else { Precision::F32 };
            Case {
                name: format!("applied/random_{seed}_{precision:?}").to_lowercase(),
                run: Box::new(move |choice| {
                    let variant = VARIANTS[seed as usize / 2 % VARIANTS.len()];
                    applied(&text(seed), seed, &How { precision, schedule: None, choice, variant })
                }),
            }
        })
        .collect()
}

/// A random operator with the loop above.
pub fn text(seed: u64) -> String {
    let program = random::operator(seed);
    let program = program.replacen("    boundary", "    nullspace none;\n    boundary", 1);
    program.replace("solver richardson;\n    iterations 3;", "solver once;\n    iterations 1;") + ONCE
}

fn applied(text: &str, seed: u64, how: &How) -> Result<(), String> {
    let loaded = load(text)?;
    let problem = &loaded.program.problems[0];
    let mut instance = instance(&loaded, problem);
    let given = Given::random(&instance, seed + 1000);
    instance.data = given.data.clone();
    let expected = instance.assemble();
    let found = solve(&loaded, &given, how).map_err(|error| format!("{error}\n{text}"))?;
    compare(&instance, &expected, &given, &found.values, how.precision).map_err(|error| format!("{error}\n{text}"))
}

/// Every row within (number of operations) * roundoff * (sum of absolute values of what was added).
fn compare(
    instance: &Instance,
    expected: &Assembled,
    given: &Given,
    found: &[f64],
    precision: Precision,
) -> Result<(), String> {
    let product = expected.matrix.times(&given.guess);
    let size: Vec<f64> = given.guess.iter().map(|v| v.abs()).collect();
    let size = expected.magnitude.times(&size);
    let operations = instance.operations() as f64;
    for row in 0..found.len() {
        let exact = given.rhs[row] - product[row] - expected.affine[row];
        let scale = given.rhs[row].abs() + size[row] + expected.affine_magnitude[row];
        let bound = operations * roundoff(precision) * scale + f64::MIN_POSITIVE;
        let error = (found[row] - exact).abs();
        if error.is_nan() || error > bound {
            return Err(format!("row {row}: {} instead of {exact}, off by {error:e}, bound {bound:e}", found[row]));
        }
    }
    Ok(())
}

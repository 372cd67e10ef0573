//! Solves a program from a file and looks at the report.

use kernelwright::load::load;
use kernelwright::solve::{Inputs, Solver};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = load(&kernelwright_examples::program("poisson_3d.kw"))?;
    let mut solver = Solver::builder(&program).set("nx", 32.0).set("ny", 32.0).set("nz", 32.0).compile()?;
    let solution = solver.solve(&Inputs::new())?;
    let report = &solution.report;
    println!("{} after {} iterations", report.outcome.name(), report.iterations);
    println!("residual: claimed {:.3e}, true {:.3e}", report.recursive, report.truth.unwrap_or(f64::NAN));
    println!("largest value: {:.6}", solution.values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    Ok(())
}

//! Runs the suite on a back end: `kernelwright-suite [cuda|host|interp] [filter]`; `kernelwright-suite cuda measure-dg …`
//! prints how fast discontinuous Galerkin stages are.

use std::process::ExitCode;

use kernelwright::backend::open::Choice;
use kernelwright_suite::run_all;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "cuda".into());
    let filter = arguments.next().unwrap_or_default();
    let choice: Choice = match name.parse() {
        Ok(choice) => choice,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    if filter == "measure-dg" {
        let rest: Vec<String> = arguments.collect();
        return match kernelwright_suite::galerkin::measure(choice, &rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let outcomes = run_all(&kernelwright_suite::cases(100), choice, &filter);
    for outcome in &outcomes {
        if let Err(error) = &outcome.result {
            println!("FAILED {}\n{error}", outcome.name);
        }
    }
    let passed = outcomes.iter().filter(|outcome| outcome.result.is_ok()).count();
    let failed = outcomes.len() - passed;
    println!("{passed} passed, {failed} failed on {name}");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

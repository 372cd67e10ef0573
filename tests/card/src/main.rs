//! Runs the suite on a back end: `kernelwright-suite [cuda|host|interp] [filter]`.

use std::process::ExitCode;

use kernelwright::backend::open::Choice;

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
    let (mut passed, mut failed) = (0, 0);
    for case in kernelwright_suite::cases(60) {
        if !case.name.contains(&filter) {
            continue;
        }
        match (case.run)(choice) {
            Ok(()) => passed += 1,
            Err(error) => {
                failed += 1;
                println!("FAILED {}\n{error}", case.name);
            }
        }
    }
    println!("{passed} passed, {failed} failed on {name}");
    if failed == 0 && passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

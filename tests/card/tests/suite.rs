//! The suite on the back ends of every machine.

use kernelwright::backend::open::Choice;

#[track_caller]
fn all_pass(choice: Choice, random: u64) {
    let cases = kernelwright_suite::cases(random);
    let failures: Vec<String> = cases
        .iter()
        .filter_map(|case| (case.run)(choice).err().map(|error| format!("{}\n{error}", case.name)))
        .collect();
    assert!(failures.is_empty(), "{} of {} failed\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

#[test]
fn host() {
    all_pass(Choice::Host, 150);
}

#[test]
fn interp() {
    all_pass(Choice::Interp, 60);
}

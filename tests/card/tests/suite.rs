//! The suite on the back ends of every machine.

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright_suite::run_all;

#[track_caller]
fn all_pass(choice: Choice, random: u64) {
    let outcomes = run_all(&kernelwright_suite::cases(random), choice, "");
    let mut slowest: Vec<_> = outcomes.iter().collect();
    slowest.sort_by_key(|outcome| std::cmp::Reverse(outcome.time));
    for outcome in slowest.iter().take(5) {
        println!("{:8.2} s  {}", outcome.time.as_secs_f64(), outcome.name);
    }
    // Of all tests of the process so far.
    let counters = kernelwright_suite::run::cache().counters();
    println!("{} units compiled, {} taken from other cases", counters.misses, counters.hits);
    let failed = outcomes.iter().filter_map(|outcome| Some((&outcome.name, outcome.result.as_ref().err()?)));
    let failures: Vec<String> = failed.map(|(name, error)| format!("{name}\n{error}")).collect();
    assert!(failures.is_empty(), "{} of {} failed\n{}", failures.len(), outcomes.len(), failures.join("\n\n"));
}

#[test]
fn host() {
    all_pass(Choice::Host, 40);
}

/// CUDA kernels without a card: what the interpreter accepts has no races and reads nothing outside.
#[test]
fn interpreted_cuda() {
    all_pass(Choice::Interp(Target::Cuda), 40);
}

#[test]
fn interpreted_host() {
    all_pass(Choice::Interp(Target::Host), 20);
}

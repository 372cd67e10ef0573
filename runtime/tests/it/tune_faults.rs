//! Faults in the middle of a tune: candidates, formats and schedules that fail cost themselves, never the tune.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kernelwright::backend::build::{Build, Stop};
use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::shared::Shared;
use kernelwright::backend::{BackendError, Target};
use kernelwright::matrix::kinds;
use kernelwright::solve::{Error, Solver};
use kernelwright::tune::matrix::Asked;
use kernelwright::tune::record::Verdict;
use kernelwright::tune::store::Store;
use kernelwright::tune::strategy::Choice;
use kernelwright::tune::{self, Ended, Options, Progress, Report};
use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_syntax::library;
use kernelwright_syntax::program::Precision;

use crate::cli::folder;
use crate::fake::Faulty;
use crate::tune_search::{PLATE, loaded};

fn faulty(target: Target) -> Faulty {
    Faulty::new(Box::new(InterpBackend::new(InterpOptions { target, ..InterpOptions::default() })))
}

fn few(count: usize) -> Options {
    Options { budget: None, count: Some(count), ..Options::default() }
}

/// Tunes the product of a small matrix among three formats, two of them with columns of 16 bits.
fn tuned(device: Faulty, place: &Path, options: &Options) -> Result<Report, Error> {
    let kind = kinds::all(0.0001).into_iter().find(|kind| kind.name == "samg-like").unwrap();
    let formats = ["csr_delta", "sell_delta", "csr"].map(|name| library::format(name).unwrap()).to_vec();
    let matrix = kind.build();
    let asked = Asked { name: "A".to_string(), matrix: &matrix, formats, precision: Precision::F64 };
    let watch: &mut dyn FnMut(&Progress) -> ControlFlow<()> = &mut |_| ControlFlow::Continue(());
    let (report, backend) =
        tune::matrix::tune(&asked, Box::new(Shared::new(Box::new(device))), Store::at(place), options, watch)?;
    assert_eq!((backend.counters().buffers, backend.counters().modules), (0, 0), "left behind");
    Ok(report)
}

fn short_columns(kernel: &Kernel) -> bool {
    kernel.buffers.iter().any(|buffer| buffer.element == Element::U16)
}

#[test]
fn formats_that_fail_are_recorded_and_the_others_are_tuned() {
    let place = folder("tune_fault_formats");
    for compiles in [false, true] {
        let mut device = faulty(Target::Cuda);
        if compiles {
            device.breaks = Box::new(short_columns);
        } else {
            device.refuses = Box::new(short_columns);
        }
        let report = tuned(device, &place, &Options { fresh: true, ..few(2) }).unwrap();
        let failed: Vec<&str> = report
            .schedules
            .iter()
            .filter(|trial| trial.seconds.is_none())
            .map(|trial| trial.schedule.as_str())
            .collect();
        assert!(failed.contains(&"csr_delta") && failed.contains(&"sell_delta"), "{failed:?}");
        assert_eq!((report.best.schedule.as_str(), report.default.schedule.as_str()), ("csr", "csr"));
        let reasons = report.schedules.iter().filter(|trial| !trial.reason.is_empty());
        let expected = if compiles { "an illegal address" } else { "a fault" };
        reasons.for_each(|trial| assert!(trial.reason.contains(expected), "{}", trial.reason));
    }
    let mut device = faulty(Target::Cuda);
    device.refuses = Box::new(|kernel| kernel.name == "product");
    let error = tuned(device, &place, &Options { fresh: true, ..few(2) }).unwrap_err().to_string();
    assert!(["csr", "csr_delta", "sell_delta"].iter().all(|name| error.contains(name)), "{error}");
}

#[test]
fn candidates_that_break_never_win_and_one_that_takes_the_device_along_is_left_out_next_time() {
    let place = folder("tune_fault_candidates");
    let wide = |kernel: &Kernel| kernel.name == "product" && kernel.lanes[0] != 256;
    let mut device = faulty(Target::Cuda);
    device.breaks = Box::new(wide);
    let report = tuned(device, &place, &Options { fresh: true, ..few(30) }).unwrap();
    let trials = || report.kernels.iter().flat_map(|kernel| &kernel.searched.trials);
    let broken = trials().filter(|trial| trial.reason.contains("cannot run: an illegal address")).count();
    assert!(broken > 2, "{report:?}");
    assert!(trials().all(|trial| (trial.verdict == Verdict::Failed) == trial.seconds.is_none()));
    // One that takes the device along ends the tune, and is left out by the next.
    let place = folder("tune_fault_fatal");
    let narrow = |kernel: &Kernel| kernel.name == "product" && kernel.lanes[0] == 64;
    for ends in 1..=2 {
        let device = Faulty { breaks: Box::new(narrow), fatal: true, ..faulty(Target::Cuda) };
        let error = tuned(device, &place, &few(60)).unwrap_err().to_string();
        assert!(error.contains("the device failed under product of"), "{error}");
        let records = Store::at(&place).read_all();
        let fatal: BTreeSet<&str> = records
            .iter()
            .filter(|record| record.reason.starts_with("the device failed") && record.verdict == Verdict::Failed)
            .map(|record| record.code.as_str())
            .collect();
        assert!(fatal.len() == ends && !fatal.contains(""), "each is met once: {fatal:?}");
    }
}

#[test]
fn a_schedule_that_cannot_run_costs_itself_and_times_of_schedules_are_remembered() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program).tuned_in(folder("tune_fault_schedule"));
    // The first module is that of the planner's choice.
    let (mut device, mut first) = (faulty(Target::Host), true);
    device.refuses = Box::new(move |_| std::mem::take(&mut first));
    let watch: &mut dyn FnMut(&Progress) -> ControlFlow<()> = &mut |_| ControlFlow::Continue(());
    let (report, _) = builder.tune_on(Box::new(device), &few(0), watch).unwrap();
    assert!(report.schedules[0].reason.contains("a fault"), "{:?}", report.schedules);
    assert_eq!(report.default.schedule, report.schedules[1].schedule);
    let again = builder.tune_on(Box::new(faulty(Target::Host)), &few(0), watch).unwrap().0;
    assert_eq!(again.default.schedule, report.schedules[0].schedule, "what failed for itself is tried again");
    let known = again.schedules.iter().filter(|trial| trial.remembered).count();
    let timed = report.schedules.iter().filter(|trial| trial.seconds.is_some()).count();
    assert_eq!((known, again.remembered), (timed, timed));
    for (now, before) in again.schedules[1..].iter().zip(&report.schedules[1..]) {
        let (now, before) = (now.seconds.unwrap_or(0.0), before.seconds.unwrap_or(0.0));
        assert!((now - before).abs() <= 1e-9 * before, "{now} and {before}");
    }
    let mut none = faulty(Target::Host);
    none.refuses = Box::new(|_| true);
    let error = builder.tune_on(Box::new(none), &Options { fresh: true, ..few(0) }, watch).err().expect("nothing runs");
    assert!(error.to_string().contains("no schedule can be run"), "{error}");
}

/// Compiles until it is asked to end; what is loaded whole is compiled by the back end itself.
struct Endless;

impl Build for Endless {
    fn build(&self, _: &[Kernel], stop: &Stop) -> Result<Vec<u8>, BackendError> {
        while !stop.asked() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(BackendError::Device("asked to end".to_string()))
    }

    fn warm(&self, _: &[Kernel], _: &Stop) -> Result<(), BackendError> {
        Ok(())
    }

    fn beside(&self) -> bool {
        true
    }
}

#[test]
fn a_compilation_that_takes_forever_holds_nobody_up() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program).schedule("statement").tuned_in(folder("tune_fault_endless"));
    let device = Faulty { builder: Some(Arc::new(Endless)), ..faulty(Target::Host) };
    let options = Options { count: None, ..few(0) };
    // Asked as soon as candidates are on their way; when time is over the same happens.
    let mut watch = |progress: &Progress| match progress.space {
        0 | 1 => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    };
    let (report, _) = builder.tune_on(Box::new(device), &options, &mut watch).unwrap();
    assert_eq!((report.ended, report.failed), (Ended::Interrupted, 0));
    assert!(report.candidates > 0 && report.best.seconds > 0.0, "{report:?}");
}

/// Every launch takes as long as a kernel on a grid: hundreds of candidates would take half a minute. Twice the budget
/// leaves a busy machine some room.
#[test]
fn a_budget_holds_on_a_slow_device_and_with_a_compiler_that_never_ends() {
    let program = loaded(PLATE);
    let budget = Duration::from_secs(2);
    let slow = || Faulty { pause: Duration::from_micros(300), ..faulty(Target::Cuda) };
    let stuck = || Faulty { builder: Some(Arc::new(Endless)), ..faulty(Target::Cuda) };
    for (name, device) in [("slow", slow()), ("stuck", stuck())] {
        let builder = Solver::builder(&program).tuned_in(folder(&format!("tune_fault_{name}")));
        let options = Options { budget: Some(budget), count: None, strategy: Choice::Exhaustive, ..few(0) };
        let begin = Instant::now();
        let watch: &mut dyn FnMut(&Progress) -> ControlFlow<()> = &mut |_| ControlFlow::Continue(());
        let (report, _) = builder.tune_on(Box::new(device), &options, watch).unwrap();
        assert!(begin.elapsed() < 2 * budget, "{name}: {:?}", begin.elapsed());
        assert_eq!(report.ended, Ended::Budget, "{name}");
        assert!(report.best.seconds > 0.0 && report.default.seconds > 0.0);
    }
    // What was used up before the tune began counts.
    let builder = Solver::builder(&program).tuned_in(folder("tune_fault_since"));
    let since = Instant::now().checked_sub(2 * budget);
    let options = Options { budget: Some(budget), since, count: None, ..few(0) };
    let (report, _) = builder.tune_on(Box::new(slow()), &options, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((report.ended, report.candidates), (Ended::Budget, 0));
}

//! The tuner as a library: what it proves, what it remembers, what it leaves behind.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernelwright::backend::host::{HostBackend, HostOptions};
use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::shared::Shared;
use kernelwright::backend::{Backend, Counters, Target};
use kernelwright::cache::Cache;
use kernelwright::load::{Loaded, from_text};
use kernelwright::march::{Bound, Changes};
use kernelwright::matrix::{Csr, kinds};
use kernelwright::pipeline;
use kernelwright::solve::{Builder, Inputs, Solver};
use kernelwright::sparse::product::convert;
use kernelwright::tune::bench::{Bench, Inputs as Numbers, Step};
use kernelwright::tune::exact;
use kernelwright::tune::known_product;
use kernelwright::tune::matrix::Asked;
use kernelwright::tune::record::Verdict;
use kernelwright::tune::store::Store;
use kernelwright::tune::strategy::Choice;
use kernelwright::tune::{self, Ended, Options, Progress, Report};
use kernelwright_codegen::kernel::{Expr, Kernel, Op, Space, Stmt, Type};
use kernelwright_codegen::module::Module;
use kernelwright_syntax::library;
use kernelwright_syntax::program::Precision;

use crate::cli::folder;

const LINE: &str = "
operator chain {
    grid cells [i: ni];
    param shift = 0.5;
    flux X[i+1/2] = (2 + sin(i))*(u[i+1] - u);
    apply u => shift*u - div(X);
    boundary i: no_flux;
    claim symmetric, positive_definite;
}
problem main { operator chain(ni = 300); rhs random(seed = 1); solver cg; tolerance 1e-8; iterations 400; }
";

pub const PLATE: &str = "
operator plate {
    grid cells [i: ni, j: nj];
    flux X[i+1/2] = (2 + sin(i))*(u[i+1] - u);
    flux Y[j+1/2] = (1 + j)*(u[j+1] - u);
    apply u => u - div(X) - div(Y);
    boundary i, j: no_flux;
    claim symmetric, positive_definite;
}
problem main {
    operator plate(ni = 12, nj = 8); rhs random(seed = 1); solver pcg; preconditioner line(j);
    tolerance 1e-8; iterations 200;
}
";

pub fn loaded(text: &str) -> Loaded {
    from_text("case.kw", text.to_string()).unwrap()
}

fn interpreter(target: Target) -> Box<dyn Backend> {
    Box::new(InterpBackend::new(InterpOptions { target, ..InterpOptions::default() }))
}

fn everything() -> Options {
    Options { budget: None, strategy: Choice::Exhaustive, fresh: true, ..Options::default() }
}

fn tune(builder: &Builder, target: Target, options: &Options) -> Report {
    builder.tune_on(interpreter(target), options, &mut |_| ControlFlow::Continue(())).unwrap().0
}

#[test]
fn memory_and_handles_stay_flat_over_a_thousand_candidates() {
    let program = loaded(LINE);
    let builder = Solver::builder(&program).schedule("statement").tuned_in(folder("tune_flat"));
    let shared = Shared::new(interpreter(Target::Cuda));
    let (mut looked_at, mut most) = (0, Counters::default());
    let (mut first, mut rounds) = (None, 0);
    while looked_at < 1000 {
        let watched = shared.clone();
        let result = builder.tune_on(Box::new(shared.clone()), &everything(), &mut |_| {
            let now = watched.counters();
            most.buffers = most.buffers.max(now.buffers);
            most.bytes = most.bytes.max(now.bytes);
            most.modules = most.modules.max(now.modules);
            ControlFlow::Continue(())
        });
        let (report, _) = result.unwrap();
        looked_at += report.candidates;
        rounds += 1;
        let now = shared.counters();
        assert_eq!((now.buffers, now.bytes, now.modules), (0, 0, 0), "left behind after {looked_at} candidates");
        let peak = *first.get_or_insert(most);
        assert_eq!(most, peak, "more than in the first round, after {looked_at} candidates");
        assert!(report.candidates > 100, "a round has only {} candidates", report.candidates);
        let fence = |word: &str| ("fence".to_string(), word.to_string());
        let both = ["own", "last"].map(|word| report.finalists.iter().any(|one| one.variant.contains(&fence(word))));
        assert_eq!(both, [true; 2], "{:?} {:?}", report.finalists, report.notices);
    }
    assert!(rounds > 1 && most.modules < 100, "{rounds} rounds, {most:?}");
}

#[test]
fn a_tune_is_remembered_and_used() {
    let program = loaded(PLATE);
    let place = folder("tune_used");
    let builder = Solver::builder(&program).tuned_in(&place);
    let options = Options { strategy: Choice::Guided, ..everything() };
    let report = tune(&builder, Target::Host, &options);
    assert_eq!((report.ended, report.remembered), (Ended::Complete, 0));
    assert!(report.candidates > 0 && report.best.seconds <= 1.02 * report.default.seconds, "{report:?}");
    for kernel in &report.kernels {
        assert!(kernel.searched.trials.iter().all(|trial| trial.verdict != Verdict::Failed), "{kernel:?}");
    }
    // Times of schedules are remembered as well, so that the same ones go on.
    let again = tune(&builder, Target::Host, &Options { fresh: false, ..options });
    assert!(again.schedules.iter().all(|trial| trial.remembered), "{again:?}");
    assert!(
        again.kernels.iter().any(|kernel| kernel.searched.trials.iter().any(|trial| trial.remembered)),
        "{again:?}"
    );

    let mut tuned = builder.compile_on(interpreter(Target::Host)).unwrap();
    let known = tuned.tuned().expect("the choice is used").clone();
    assert!(known.exact && known.schedule == again.best.schedule && known.variant == again.best.variant);
    assert!(tuned.notices().iter().any(|notice| notice.contains("tuned") && notice.contains(&known.from)));
    let plain = builder.clone().untuned().compile_on(interpreter(Target::Host)).unwrap();
    assert!(plain.tuned().is_none());
    let explicit = builder.clone().variant("tile", "4x1").compile_on(interpreter(Target::Host)).unwrap();
    assert!(explicit.tuned().is_none(), "what is asked for wins");
    // Sizes of the same class: the choice is only a good guess there, and says so.
    let near = builder.clone().set("ni", 14.0).compile_on(interpreter(Target::Host)).unwrap();
    assert!(near.tuned().is_some_and(|known| !known.exact));
    let far = builder.clone().set("ni", 90.0).compile_on(interpreter(Target::Host)).unwrap();
    assert!(far.tuned().is_none());
    assert!(tuned.solve(&Inputs::new()).unwrap().report.outcome.is_converged());
}

#[test]
fn only_the_kernels_that_are_asked_for_are_searched() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program).schedule("statement").tuned_in(folder("tune_kernel"));
    let named = |name: &str| Options { kernels: vec![name.to_string()], count: Some(3), ..everything() };
    let all = tune(&builder, Target::Host, &everything()).kernels;
    let name = &all.last().expect("kernels").searched.kernel;
    let kernels = tune(&builder, Target::Host, &named(name)).kernels;
    assert!(all.len() > 1 && kernels.len() == 1 && kernels[0].searched.kernel == *name, "{kernels:?}");
    let watch: tune::Watch = &mut |_| ControlFlow::Continue(());
    let error = builder.tune_on(interpreter(Target::Host), &named("none_such"), watch).err().expect("an error");
    let text = error.to_string();
    assert!(text.contains("no kernel is called `none_such`") && text.contains(name.as_str()), "{text}");
}

#[test]
fn a_choice_that_no_longer_holds_is_left_with_a_notice() {
    let program = loaded(PLATE);
    let place = folder("tune_stale");
    let builder = Solver::builder(&program).tuned_in(&place);
    tune(&builder, Target::Host, &Options { count: Some(2), strategy: Choice::Guided, ..everything() });
    let file = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
    let mut choice = kernelwright::tune::store::Store::at(&place).read_all().pop().unwrap();
    let sound = choice.clone();
    let mut stale = |change: &dyn Fn(&mut kernelwright::tune::record::Record)| {
        change(&mut choice);
        std::fs::write(&file, choice.line() + "\n").unwrap();
        let solver = builder.compile_on(interpreter(Target::Host)).unwrap();
        assert!(solver.tuned().is_none());
        solver.notices().join("; ")
    };
    assert!(stale(&|record| record.code = "0".repeat(32)).contains("other code is generated now"));
    assert!(stale(&|record| record.schedule = "none_such".into()).contains("no schedule is called `none_such`"));
    let wrong = stale(&|record| {
        record.schedule = "statement".into();
        record.variant = vec![("nothing.tile".into(), "4x1".into())];
    });
    assert!(wrong.contains("no kernel"), "{wrong}");
    // An earlier choice that holds is used instead, and the later one spoken of.
    let line = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, sound.line() + "\n" + &line).unwrap();
    let solver = builder.compile_on(interpreter(Target::Host)).unwrap();
    let used = solver.tuned().expect("the earlier choice");
    assert!((&used.schedule, &used.variant) == (&sound.schedule, &sound.variant));
    assert!(solver.notices().iter().any(|notice| notice.contains("no kernel")), "{:?}", solver.notices());
}

#[test]
fn a_record_from_elsewhere_starts_no_more_threads_than_there_are() {
    let program = loaded(PLATE);
    let place = folder("tune_threads");
    let builder = Solver::builder(&program).tuned_in(&place);
    let cache = Arc::new(Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels")));
    let host = || -> Box<dyn Backend> {
        let options = HostOptions { threads: Some(2), cache: Some(cache.clone()), ..HostOptions::default() };
        Box::new(HostBackend::new(options).expect("tests need a C compiler"))
    };
    let none = Options { budget: Some(std::time::Duration::ZERO), ..everything() };
    builder.tune_on(host(), &none, &mut |_| ControlFlow::Continue(())).unwrap();
    let file = std::fs::read_dir(&place).unwrap().next().unwrap().unwrap().path();
    let mut choice = kernelwright::tune::store::Store::at(&place).read_all().pop().unwrap();
    for (recorded, used) in [(0, 1), (2, 2), (64, 2)] {
        choice.threads = Some(recorded);
        std::fs::write(&file, choice.line() + "\n").unwrap();
        let solver = builder.compile_on(host()).unwrap();
        assert!(solver.tuned().is_some());
        assert_eq!(solver.engine().threads(), Some(used), "{recorded} recorded");
    }
}

#[test]
fn budgets_and_interrupts_end_a_tune_with_a_choice() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program).tuned_in(folder("tune_ends"));
    let one = Options { count: Some(1), strategy: Choice::Random, ..everything() };
    let counted = tune(&builder, Target::Host, &one);
    assert_eq!((counted.ended, counted.candidates), (Ended::Count, 1));
    let none = Options { budget: Some(std::time::Duration::ZERO), ..everything() };
    let late = tune(&builder, Target::Host, &none);
    assert_eq!((late.ended, late.candidates), (Ended::Budget, 0));
    assert_eq!(late.best.schedule, late.default.schedule);
    let stopped = builder.tune_on(interpreter(Target::Host), &everything(), &mut |_| ControlFlow::Break(()));
    assert_eq!(stopped.unwrap().0.ended, Ended::Interrupted);
}

/// Changes the value of every store to a global buffer.
fn change(statements: &mut [Stmt], kernel: &[Space], how: &dyn Fn(&Expr) -> Expr) {
    for statement in statements {
        match statement {
            Stmt::Store { buffer, value, .. } if kernel[buffer.0] == Space::Global => *value = how(value),
            Stmt::For { body, .. } => change(body, kernel, how),
            Stmt::If { then, otherwise, .. } => {
                change(then, kernel, how);
                change(otherwise, kernel, how);
            }
            _ => {}
        }
    }
}

/// Takes the stores to global buffers away.
fn skip(statements: &mut Vec<Stmt>, kernel: &[Space]) {
    let stores = |s: &Stmt| matches!(s, Stmt::Store { buffer, .. } if kernel[buffer.0] == Space::Global);
    statements.retain(|statement| !stores(statement));
    for statement in statements {
        match statement {
            Stmt::For { body, .. } => skip(body, kernel),
            Stmt::If { then, otherwise, .. } => {
                skip(then, kernel);
                skip(otherwise, kernel);
            }
            _ => {}
        }
    }
}

fn altered(module: &Module, how: impl Fn(&mut Kernel)) -> Module {
    let mut module = module.clone();
    module.kernels.iter_mut().for_each(how);
    module
}

fn spaces(kernel: &Kernel) -> Vec<Space> {
    kernel.buffers.iter().map(|buffer| buffer.space).collect()
}

/// What is stored, times a factor.
fn scaled(module: &Module, factor: f64) -> Module {
    altered(module, |kernel| {
        let spaces = spaces(kernel);
        let number = Box::new(Expr::Real(factor, Type::F64));
        let how = |value: &Expr| Expr::Binary(Op::Mul, Box::new(value.clone()), number.clone());
        change(&mut kernel.body, &spaces, &how);
    })
}

#[test]
fn a_default_that_leaves_no_numbers_is_no_reference() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program);
    let (_, problem) = builder.chosen().unwrap();
    let planned = builder.plan().unwrap();
    let loops = &planned.plan().program;
    let module = pipeline::module(loops, Target::Host, problem.precision, 100, &[]).unwrap();
    let module = scaled(&module, f64::NAN);
    let inputs = Numbers { params: problem.parameters(), data: Vec::new() };
    for number in 0..loops.sweeps.len() {
        let step = Step::Sweep(number);
        let mut backend = interpreter(Target::Host);
        let mut bench = Bench::new(backend.as_mut(), loops, &module, step, &inputs).unwrap();
        let handles = backend.compile(&step.kernels(&module)).unwrap();
        let reference = bench.candidate(backend.as_mut(), module.clone(), handles).unwrap();
        assert!(bench.establish(backend.as_mut(), &reference).is_err(), "{}", step.name(loops));
        bench.discard(backend.as_mut(), reference);
        bench.close(backend.as_mut());
        assert_eq!((backend.counters().buffers, backend.counters().modules), (0, 0));
    }
}

#[test]
fn kernels_that_are_slightly_wrong_or_write_too_little_fail_their_proofs() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program);
    let (_, problem) = builder.chosen().unwrap();
    let planned = builder.plan().unwrap();
    let loops = &planned.plan().program;
    let module = pipeline::module(loops, Target::Host, problem.precision, 100, &[]).unwrap();
    let inputs = Numbers { params: problem.parameters(), data: Vec::new() };
    let silent = altered(&module, |kernel| {
        let spaces = spaces(kernel);
        skip(&mut kernel.body, &spaces);
    });
    for number in 0..loops.sweeps.len() {
        let step = Step::Sweep(number);
        let mut backend = interpreter(Target::Host);
        let backend = backend.as_mut();
        let mut bench = Bench::new(backend, loops, &module, step, &inputs).unwrap();
        let load = |backend: &mut dyn Backend, bench: &Bench, module: &Module| {
            let handles = backend.compile(&step.kernels(module)).unwrap();
            bench.candidate(backend, module.clone(), handles).unwrap()
        };
        let reference = load(backend, &bench, &module);
        bench.establish(backend, &reference).unwrap();
        assert_eq!(bench.prove(backend, &reference).unwrap(), Ok(()));
        for wrong in [&scaled(&module, 1.0 + 1e-9), &scaled(&module, -1.0), &silent] {
            let candidate = load(backend, &bench, wrong);
            assert!(bench.prove(backend, &candidate).unwrap().is_err(), "{}", step.name(loops));
            bench.discard(backend, candidate);
        }
        let same = exact::left(loops, &module, step, &[]).unwrap();
        assert_eq!(exact::equal(&same, &same), Ok(()));
        let wrong = exact::left(loops, &scaled(&module, 1.0 + 1e-15), step, &[]).unwrap();
        assert!(exact::equal(&wrong, &same).is_err(), "{}", step.name(loops));
        bench.discard(backend, reference);
        bench.close(backend);
        assert_eq!((backend.counters().buffers, backend.counters().modules), (0, 0));
    }
}

#[test]
fn tuning_while_compiling_uses_what_it_finds() {
    let program = loaded(PLATE);
    let builder = Solver::builder(&program).tuned_in(folder("tune_builder"));
    let builder = builder.tune(std::time::Duration::from_secs(2));
    let mut solver = builder.compile_on(interpreter(Target::Host)).unwrap();
    assert!(solver.tuned().is_some());
    assert!(solver.solve(&Inputs::new()).unwrap().report.outcome.is_converged());
}

/// Tunes a product on an interpreter; the store is a folder.
fn tuned_product(matrix: &Csr, formats: &[&str], target: Target, place: &std::path::Path, options: &Options) -> Report {
    let formats = formats.iter().map(|name| library::format(name).unwrap()).collect();
    let asked = Asked { name: "A".to_string(), matrix, formats, precision: Precision::F64 };
    let watch: &mut dyn FnMut(&Progress) -> ControlFlow<()> = &mut |_| ControlFlow::Continue(());
    let shared = Shared::new(interpreter(target));
    let (report, backend) =
        tune::matrix::tune(&asked, Box::new(shared.clone()), Store::at(place), options, watch).unwrap();
    let left = backend.counters();
    assert_eq!((left.buffers, left.bytes, left.modules), (0, 0, 0), "left behind");
    report
}

#[test]
fn products_of_a_matrix_are_tuned_proven_and_found_again() {
    let built = |name: &str, scale: f64| kinds::all(scale).into_iter().find(|kind| kind.name == name).unwrap().build();
    let matrix = built("samg-like", 0.0001);
    let place = folder("tune_product");
    let options = Options { strategy: Choice::Guided, count: Some(24), ..everything() };
    let report = tuned_product(&matrix, &["csr", "sell_c_sigma"], Target::Cuda, &place, &options);
    let names: Vec<&str> = report.schedules.iter().map(|trial| trial.schedule.as_str()).collect();
    assert!(names.contains(&"csr") && names.contains(&"sell_c_sigma"), "{names:?}");
    assert!(report.schedules.iter().all(|trial| trial.reason.is_empty()), "{:?}", report.schedules);
    assert!(!report.kernels.is_empty() && report.candidates > 10, "{report:?}");
    for kernel in &report.kernels {
        let wrong = kernel.searched.trials.iter().find(|trial| trial.verdict == Verdict::Failed);
        assert!(wrong.is_none(), "{}: {wrong:?}", kernel.schedule);
    }
    let formats = || kernelwright::sparse::choice::formats(None);
    let find = |matrix: &Csr, precision| {
        known_product::find(Store::at(&place), matrix, &formats(), precision, interpreter(Target::Cuda).as_ref()).0
    };
    let known = find(&matrix, Precision::F64).expect("the choice is found");
    assert!(known.exact && known.format.name == report.best.schedule && known.variant == report.best.variant);
    let stored = convert(&matrix, &known.format).unwrap();
    known.holds(&stored, Precision::F64, interpreter(Target::Cuda).as_ref()).unwrap();
    assert!(find(&matrix, Precision::F32).is_none() && find(&built("poisson7", 0.0001), Precision::F64).is_none());
    let near = find(&built("samg-like", 0.000102), Precision::F64).expect("a matrix of its class");
    assert!(!near.exact && near.text().contains("of its class"));
    // One format: chunks of other heights and other windows are tried beside it.
    let report = tuned_product(&matrix, &["sell_c_sigma"], Target::Host, &place, &options);
    let shapes = ["sell_c_sigma", "sell_c_sigma/64", "sell_c_sigma/window=none"];
    let tried = |name: &&str| report.schedules.iter().any(|trial| trial.schedule == *name && trial.reason.is_empty());
    assert!(shapes.iter().all(tried), "{:?}", report.schedules);
}

const WAVES: &str = "
problem dg {
    system maxwell(N = 1); mesh box(n = 1);
    initial E = [0, 0, sin(pi*x)*sin(pi*y)]; initial H = 0;
    boundary all: pec;
    until 1;
}
";

#[test]
fn element_kernels_are_tuned_proven_and_found_again() {
    let program = loaded(WAVES);
    let bound = |order: f64| {
        let changes = Changes { set: vec![("N".to_string(), order)], ..Changes::default() };
        Bound::new(&program, 0, &changes).unwrap()
    };
    let place = folder("tune_elements");
    let tuned = bound(1.0);
    for target in [Target::Cuda, Target::Host] {
        let shared = Shared::new(interpreter(target));
        let options = Options { strategy: Choice::Guided, count: Some(6), ..everything() };
        let watch: &mut dyn FnMut(&Progress) -> ControlFlow<()> = &mut |_| ControlFlow::Continue(());
        let (report, backend) =
            tune::system::tune(&tuned, Box::new(shared.clone()), Store::at(&place), &options, watch).unwrap();
        let left = backend.counters();
        assert_eq!((left.buffers, left.bytes, left.modules), (0, 0, 0), "left behind");
        let searched = &report.kernels[0].searched;
        assert!(searched.trials.len() > 3, "{searched:?}");
        let failed = searched.trials.iter().find(|trial| trial.verdict == Verdict::Failed);
        assert!(failed.is_none(), "{failed:?}");

        let (mut again, mut other) = (bound(1.0), bound(2.0));
        let (known, notices) = tune::system::apply(Store::at(&place), &mut again, interpreter(target).as_ref());
        let known = known.unwrap_or_else(|| panic!("{notices:?}"));
        assert!(known.exact && again.variant == report.best.variant, "{known:?}");
        assert!(tune::system::apply(Store::at(&place), &mut other, interpreter(target).as_ref()).0.is_none());
        assert!(other.variant.is_empty());
    }
}

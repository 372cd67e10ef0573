//! `tune --compare`: what searches chose, as several stores have it, in turns.

use std::ops::ControlFlow;
use std::path::PathBuf;

use kernelwright::backend::interp::{InterpBackend, InterpOptions};
use kernelwright::backend::shared::Shared;
use kernelwright::backend::{Backend, Target};
use kernelwright::solve::Solver;
use kernelwright::tune::record::{Kind, Record, Verdict};
use kernelwright::tune::store::Store;
use kernelwright::tune::strategy::Choice;
use kernelwright::tune::{self, Options, Recorded};
use serde_json::Value;

use crate::cli::{Ran, command, file, folder};
use crate::tune_search::{PLATE, loaded};

/// A program, what a search over its kernels recorded, and stores made of that.
struct Place {
    folder: PathBuf,
    program: String,
    records: Vec<Record>,
    kernel: String,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = folder(name);
        let program = loaded(PLATE);
        let builder = Solver::builder(&program).schedule("statement").tuned_in(folder.join("tuned"));
        let options = Options { budget: None, strategy: Choice::Exhaustive, ..Options::default() };
        builder.tune_on(interpreter(), &options, &mut |_| ControlFlow::Continue(())).unwrap();
        let records = Store::at(folder.join("tuned")).read_all();
        let winners: Vec<&Record> = records.iter().filter(|record| record.kind == Kind::Winner).collect();
        assert!(winners.len() > 1, "a winner for each kernel: {winners:?}");
        // The kernel with the most candidates.
        let count = |kernel: &str| records.iter().filter(|record| record.kernel == kernel).count();
        let kernel = winners.iter().max_by_key(|record| count(&record.kernel)).unwrap().kernel.clone();
        let program = file(&folder, "plate.kw", PLATE);
        Place { folder, program, records, kernel }
    }

    /// Measured candidates of the kernel, the default first.
    fn measured(&self) -> Vec<&Record> {
        let timed = |record: &&Record| record.kind == Kind::Kernel && record.verdict == Verdict::Timed;
        self.records.iter().filter(timed).filter(|record| record.kernel == self.kernel).collect()
    }

    /// A file with a search that chose what was measured.
    fn store(&self, name: &str, chosen: &Record) -> String {
        let path = self.folder.join(name);
        Store::export(&[Record { kind: Kind::Winner, ..chosen.clone() }], &path).unwrap();
        path.display().to_string()
    }

    #[track_caller]
    fn compare(&self, stores: &[&str], more: &[&str]) -> Ran {
        let stores = stores.iter().flat_map(|store| ["--compare", store]);
        let args = ["tune", &self.program, "--backend", "interp"].into_iter().chain(stores).chain(more.iter().copied());
        let output = command(&args.collect::<Vec<_>>()).env("KERNELWRIGHT_TUNED", self.folder.join("own")).output();
        let output = output.unwrap();
        let ran = Ran {
            status: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }
}

fn interpreter() -> Box<dyn Backend> {
    Box::new(InterpBackend::new(InterpOptions { target: Target::Host, ..InterpOptions::default() }))
}

/// The stores that hold a variant, and the variant.
type Held = (Vec<String>, Vec<(String, String)>);

/// Who holds each rival of the only kernel.
fn rivals(object: &Value) -> Vec<Held> {
    let kernels = object["kernels"].as_array().expect("kernels");
    assert_eq!(kernels.len(), 1, "{object}");
    let read = |rival: &Value| {
        let of = |key: &str| rival[key].clone();
        (serde_json::from_value(of("stores")).unwrap(), serde_json::from_value(of("variant")).unwrap())
    };
    kernels[0]["rivals"].as_array().expect("rivals").iter().map(read).collect()
}

#[test]
fn stores_that_hold_different_variants_meet_the_default() {
    let place = Place::new("tune_compare");
    let [default, first, second, ..] = place.measured()[..] else { panic!("few candidates of {}", place.kernel) };
    let (a, b, c) = (place.store("a", first), place.store("b", second), place.store("c", first));
    let ran = place.compare(&[&a, &b, &c], &["--json"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    let object = ran.json();
    let expected = [
        (Vec::new(), default.variant.clone()),
        (vec![a.clone(), c.clone()], first.variant.clone()),
        (vec![b.clone()], second.variant.clone()),
    ];
    assert_eq!(rivals(&object), expected);
    let kernel = &object["kernels"][0];
    assert_eq!(kernel["kernel"], place.kernel);
    for rival in kernel["rivals"].as_array().unwrap() {
        let samples = rival["samples"].as_array().unwrap();
        assert!(samples.len() > 1 && kernel["turns"].as_u64() == Some(samples.len() as u64), "{rival}");
        let best = &rival["over"][usize::try_from(kernel["best"].as_u64().unwrap()).unwrap()];
        let [low, high] = [0, 1].map(|at| best["quartiles"][at].as_f64().unwrap());
        assert!((low..=high).contains(&best["median"].as_f64().unwrap()), "{rival}");
    }
    let text = place.compare(&[&a, &b, &c], &["--kernel", &place.kernel]).out;
    assert!(text.contains(&format!("  {a}, {c} ")) && text.contains("\n  default "), "{text}");
    assert!(text.contains(&format!("{a} over {b}: ")) && text.contains(&format!("{b} over {c}: ")), "{text}");
    assert!(text.contains(&format!("{a} over {c}: the same kernel")), "{text}");
    assert!(!place.folder.join("own").exists(), "a comparison records nothing");
}

#[test]
fn the_last_search_of_a_folder_counts_and_the_default_may_be_it() {
    let place = Place::new("tune_compare_folder");
    let [default, first, ..] = place.measured()[..] else { panic!("few candidates of {}", place.kernel) };
    let folder = place.folder.join("two searches");
    let mut store = Store::at(&folder);
    [first, default].iter().for_each(|chosen| store.append(&Record { kind: Kind::Winner, ..(*chosen).clone() }));
    let name = folder.display().to_string();
    let object = place.compare(&[&name], &["--json"]).json();
    assert_eq!(rivals(&object), [(vec![name.clone()], default.variant.clone())]);
}

#[test]
fn stores_that_cannot_be_read_or_hold_nothing_for_the_program_are_named() {
    let place = Place::new("tune_compare_wrong");
    let [_, first, ..] = place.measured()[..] else { panic!("few candidates of {}", place.kernel) };
    let sound = place.store("sound", first);
    let missing = place.folder.join("missing").display().to_string();
    let ran = place.compare(&[&sound, &missing], &[]);
    assert!(ran.status == 1 && ran.err.contains(&missing), "{}", ran.err);
    let text = file(&place.folder, "text", "a line of something else\n");
    let ran = place.compare(&[&text], &[]);
    assert!(ran.status == 1 && ran.err.contains(&text) && ran.err.contains("no line of it is a record"), "{}", ran.err);

    let other = place.store("other", &Record { key: "0".repeat(32), ..first.clone() });
    let ran = place.compare(&[&sound, &other], &["--json"]);
    assert!(ran.status == 0 && ran.err.contains(&format!("{other}: nothing in it applies")), "{}", ran.err);
    assert_eq!(rivals(&ran.json())[1], (vec![sound.clone()], first.variant.clone()));
    let ran = place.compare(&[&other], &[]);
    assert!(ran.status == 1 && ran.err.contains(&format!("{other}: nothing in it applies")), "{}", ran.err);
    let ran = place.compare(&[&sound], &["--set", "ni=30"]);
    assert!(ran.status == 1 && ran.err.contains("nothing in it applies"), "other sizes: {}", ran.err);
    let stale = place.store("stale", &Record { code: "0".repeat(32), ..first.clone() });
    let ran = place.compare(&[&sound, &stale], &["--json"]);
    assert!(ran.err.contains(&format!("{stale}: {}: other code is generated now", place.kernel)), "{}", ran.err);
    assert_eq!(rivals(&ran.json()).len(), 2, "the stale one is left out");
    assert_eq!(place.compare(&[&sound], &["--exhaustive"]).status, 2);
}

#[test]
fn a_comparison_gives_everything_back() {
    let place = Place::new("tune_compare_flat");
    let program = loaded(PLATE);
    let builder = Solver::builder(&program);
    let shared = Shared::new(interpreter());
    let stores = [Recorded { store: "all".to_string(), records: place.records.clone() }];
    let options = Options { budget: None, ..Options::default() };
    let watch: tune::Watch = &mut |_| ControlFlow::Continue(());
    let (comparison, backend) = tune::compare(&builder, Box::new(shared.clone()), &stores, &options, watch).unwrap();
    let winners = place.records.iter().filter(|record| record.kind == Kind::Winner).count();
    assert!(comparison.kernels.len() == winners && comparison.notices.is_empty(), "{comparison:?}");
    for kernel in &comparison.kernels {
        let held = kernel.held_by("all").expect("every kernel is held");
        assert!(kernel.rivals[held].seconds.is_some(), "{kernel:?}");
    }
    let left = backend.counters();
    assert_eq!((left.buffers, left.bytes, left.modules), (0, 0, 0), "left behind");
}

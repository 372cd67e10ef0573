//! Programs that the language allows and the compiler refuses: `check` says so, as `solve` would, with the text beside
//! the program. `BLESS=1` rewrites the texts.

use std::path::{Path, PathBuf};

use kernelwright::load::{Loaded, load};
use kernelwright::march::{Bound, Changes};
use kernelwright::pipeline::diagnose;
use kernelwright::solve::Solver;

use crate::cli::run;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs/refused")
}

fn programs() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut programs: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "kw")).collect();
    programs.sort();
    programs
}

/// Names of problems that cannot be prepared for a solve.
fn refused_by_solve(loaded: &Loaded) -> Vec<String> {
    let program = &loaded.program;
    let names = program.problems.iter().map(|problem| problem.name.clone());
    let mut refused: Vec<String> =
        names.filter(|name| Solver::builder(loaded).problem(name).plan_to_run().is_err()).collect();
    let runs = program.runs.iter().enumerate();
    let unbound = runs.filter(|(number, _)| Bound::new(loaded, *number, &Changes::default()).is_err());
    refused.extend(unbound.map(|(_, run)| run.name.clone()));
    refused
}

#[test]
fn what_solve_refuses_is_refused_by_check_with_the_expected_text() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut wrong = Vec::new();
    let programs = programs();
    assert!(programs.len() > 3);
    for path in &programs {
        let mut loaded = load(&path.to_string_lossy()).unwrap_or_else(|error| panic!("{error}"));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Paths differ from machine to machine.
        loaded.program.file = name.clone();
        let diagnostics = diagnose::program(&loaded);
        assert_eq!(diagnostics.len(), refused_by_solve(&loaded).len(), "{name}: {diagnostics}");
        let (found, beside) = (diagnostics.to_string(), path.with_extension("stderr"));
        if bless {
            std::fs::write(&beside, &found).unwrap();
        } else if std::fs::read_to_string(&beside).unwrap_or_default() != found {
            wrong.push(format!("{name}:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "different text (BLESS=1 rewrites it):\n{}", wrong.join("\n"));
}

#[test]
fn the_command_says_it_of_every_problem_and_ends_with_one() {
    let path = folder().join("preconditioners_of_matrices.kw").display().to_string();
    let ran = run(&["check", &path, "--json"]);
    let list = ran.json()["files"][0]["diagnostics"].as_array().cloned().unwrap_or_default();
    assert_eq!((ran.status, list.len()), (1, 2), "{}", ran.err);
    assert!(list.iter().all(|one| one["line"].as_u64() > Some(0) && one["help"].is_string()), "{list:?}");
    assert!(ran.err.contains("^"), "the place is quoted: {}", ran.err);
}

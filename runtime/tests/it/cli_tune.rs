//! `tune` as users see it, and what may happen to its store.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::cli::{Ran, command, file, folder};

const PLATE: &str = "
operator plate {
    grid cells [i: ni, j: nj];
    flux X[i+1/2] = u[i+1] - u;
    flux Y[j+1/2] = (1 + j)*(u[j+1] - u);
    apply u => u - div(X) - div(Y);
    boundary i, j: no_flux;
    claim symmetric, positive_definite;
}
problem main { operator plate(ni = 16, nj = 12); rhs random(seed = 1); solver cg; tolerance 1e-6; iterations 200; }
";

/// A program and a store of its own.
struct Place {
    program: String,
    store: PathBuf,
}

impl Place {
    fn new(name: &str) -> Place {
        let folder = folder(name);
        Place { program: file(&folder, "plate.kw", PLATE), store: folder.join("tuned") }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("KERNELWRIGHT_TUNED", &self.store);
        command
    }

    #[track_caller]
    fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().expect("the command starts");
        let text = |bytes| String::from_utf8(bytes).expect("output is text");
        let status = output.status.code().expect("no signal");
        let ran = Ran { status, out: text(output.stdout), err: text(output.stderr) };
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran
    }

    fn args<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["tune", &self.program, "--backend", "interp", "--schedule", "statement"], more].concat()
    }

    #[track_caller]
    fn tune(&self, more: &[&str]) -> Ran {
        let ran = self.run(&self.args(more));
        assert_eq!(ran.status, 0, "{}", ran.err);
        ran
    }

    fn start(&self, more: &[&str]) -> Child {
        let mut command = self.command(&self.args(more));
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command starts")
    }

    /// The only file of the store.
    fn file(&self) -> Option<PathBuf> {
        std::fs::read_dir(&self.store).ok()?.next()?.ok().map(|entry| entry.path())
    }

    fn lines(&self) -> usize {
        self.file().and_then(|file| std::fs::read_to_string(file).ok()).map_or(0, |text| text.lines().count())
    }
}

#[test]
fn a_tune_shows_what_it_did_and_solve_uses_it() {
    let place = Place::new("cli_tune");
    let plot = Path::new(&place.program).with_file_name("tune.svg");
    let shown = plot.display().to_string();
    let ran = place.tune(&["--count", "3", "--plot", &shown, "--json"]);
    let report = ran.json();
    assert_eq!(report["candidates"], 3);
    assert!(report["best"]["seconds"].as_f64().is_some_and(|time| time > 0.0), "{report}");
    let picture = std::fs::read_to_string(plot).expect("the picture");
    assert!(picture.starts_with("<svg") && picture.contains("<circle"));
    let solve = ["solve", &place.program, "--backend", "interp"];
    let solved = place.run(&[&solve[..], &["--json"]].concat());
    let notes = solved.json()["notices"].to_string();
    assert!(solved.status == 0 && notes.contains("tuned: schedule"), "{notes}");
    let plain = place.run(&[&solve[..], &["--json", "--untuned"]].concat());
    assert!(!plain.json()["notices"].to_string().contains("tuned: schedule"));
    let text = place.run(&["tune", "--show"]);
    assert!(text.out.contains("1 choices") && text.out.contains("plate"), "{}", text.out);
}

#[test]
fn choices_travel_as_files() {
    let place = Place::new("cli_tune_export");
    place.tune(&["--count", "1"]);
    let team = Path::new(&place.program).with_file_name("team.jsonl").display().to_string();
    assert_eq!(place.run(&["tune", "--export", &team]).status, 0);
    let other = Place { program: place.program.clone(), store: place.store.with_file_name("other") };
    let taken = other.run(&["tune", "--import", &team, "--json"]).json();
    assert!(taken["taken"].as_u64().is_some_and(|count| count > 2), "{taken}");
    let again = other.run(&["tune", "--import", &team, "--json"]).json();
    assert_eq!(again["taken"], 0);
    let solved = other.run(&["solve", &other.program, "--backend", "interp"]);
    assert!(solved.err.contains("tuned: schedule"), "{}", solved.err);
    assert_eq!(place.run(&["tune", "--import", "none.jsonl"]).status, 1);
    let other_file = file(&folder("tune_import_other"), "other.jsonl", "a line of something else\n");
    let ran = place.run(&["tune", "--import", &other_file]);
    assert!(ran.status == 1 && ran.err.contains("no line of it is a record"), "{}", ran.err);
    assert_eq!(place.run(&["tune"]).status, 2);
}

/// Killed in the middle, a tune goes on where it was.
#[test]
fn a_killed_tune_is_resumed() {
    let place = Place::new("cli_tune_kill");
    let mut child = place.start(&["--exhaustive"]);
    let begin = Instant::now();
    // A schedule, and of a kernel the default and a candidate or two.
    while place.lines() < 4 && begin.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    let before = place.lines();
    assert!(before >= 4, "nothing was measured");
    let report = place.tune(&["--exhaustive", "--json"]).json();
    assert!(report["remembered"].as_u64().is_some_and(|count| count > 1), "{report}");
    assert_eq!((&report["ended"], &report["schedules"][0]["remembered"]), (&"complete".into(), &true.into()));
}

#[test]
fn two_tunes_at_once_share_a_store() {
    let place = Place::new("cli_tune_two");
    let children = [place.start(&["--exhaustive"]), place.start(&["--exhaustive"])];
    for mut child in children {
        assert!(child.wait().expect("it ends").success());
    }
    let shown = place.run(&["tune", "--show", "--json"]);
    let records = shown.json()["records"].as_array().map_or(0, Vec::len);
    assert_eq!((records, shown.err.as_str()), (place.lines(), ""), "every line is sound");
    assert_eq!(shown.json()["records"].to_string().matches("\"choice\"").count(), 2);
}

#[test]
fn a_truncated_store_and_one_of_another_version_are_passed_over() {
    let place = Place::new("cli_tune_damage");
    place.tune(&["--count", "2"]);
    let file = place.file().expect("a file");
    let whole = std::fs::read_to_string(&file).expect("text");
    std::fs::write(&file, &whole[..whole.len() - 40]).expect("a file");
    let ran = place.tune(&["--count", "1"]);
    assert!(ran.err.contains("1 of its lines are damaged"), "{}", ran.err);
    let other = whole.replace("{\"format\":1,", "{\"format\":99,");
    std::fs::write(&file, &other).expect("a file");
    let ran = place.tune(&["--count", "1"]);
    assert!(ran.err.contains("of another version"), "{}", ran.err);
    // Nothing was lost or changed.
    assert!(std::fs::read_to_string(&file).expect("text").starts_with(&other));
}

#[cfg(unix)]
#[test]
fn a_full_disk_and_a_store_that_cannot_be_written_are_notices() {
    let place = Place::new("cli_tune_full");
    place.tune(&["--count", "1"]);
    let file = place.file().expect("a file");
    std::fs::remove_file(&file).expect("a file");
    std::os::unix::fs::symlink("/dev/full", &file).expect("a link");
    let ran = place.tune(&["--count", "1"]);
    let told = ran.err.matches("cannot be written").count();
    assert_eq!(told, 1, "said once: {}", ran.err);
    let nowhere = Place { store: PathBuf::from("/proc/none"), ..Place::new("cli_tune_nowhere") };
    let ran = nowhere.tune(&["--count", "1"]);
    assert!(ran.err.contains("cannot be written") && ran.out.contains("not kept"), "{}{}", ran.out, ran.err);
    // Made read-only: an error for most, of no effect for root; a tune in either case.
    let mut rights = std::fs::metadata(&place.store).expect("a folder").permissions();
    std::fs::remove_file(&file).expect("a link");
    rights.set_readonly(true);
    std::fs::set_permissions(&place.store, rights.clone()).expect("rights");
    place.tune(&["--count", "1"]);
    #[allow(clippy::permissions_set_readonly_false, reason = "the folder is to be removed by the next run")]
    rights.set_readonly(false);
    std::fs::set_permissions(&place.store, rights).expect("rights");
}

#[test]
fn a_tuned_product_is_used_by_spmv_and_solve() {
    let place = Place::new("cli_tune_product");
    let entries: String = (1..=40)
        .flat_map(|row| {
            let beside = (row > 1).then(|| format!("{row} {} -1\n", row - 1));
            [Some(format!("{row} {row} 4\n")), beside].into_iter().flatten()
        })
        .collect();
    let text = format!("%%MatrixMarket matrix coordinate real symmetric\n40 40 79\n{entries}");
    let folder = Path::new(&place.program).parent().expect("a folder");
    let matrix = file(folder, "A.mtx", &text);
    let ran = place.run(&["tune", "--matrix", &matrix, "--backend", "interp", "--count", "4"]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(ran.out.contains("Formats under the default variant") && ran.out.contains("  format "), "{}", ran.out);
    for args in [vec!["spmv", &matrix], vec!["solve", "--matrix", &matrix]] {
        let run = |more: &[&str]| place.run(&[args.as_slice(), &["--backend", "interp"], more].concat());
        let used = run(&[]);
        assert_eq!(used.status, 0, "{}", used.err);
        assert!(used.out.contains("tuned: format "), "{}", used.out);
        for other in [&["--untuned"][..], &["--format", "csr"], &["--variant", "row_lanes=1"]] {
            let ran = run(other);
            assert!(ran.status == 0 && !ran.out.contains("tuned: format "), "{other:?}: {}{}", ran.out, ran.err);
        }
    }
    let neither = place.run(&["tune", &place.program, "--matrix", &matrix]);
    assert_eq!(neither.status, 2, "{}", neither.err);
}

/// A matrix that takes longer to be made than the budget: nothing can end that, but the process.
#[test]
fn a_budget_ends_what_cannot_be_ended() {
    let place = Place::new("cli_tune_deadline");
    let begin = Instant::now();
    let large = ["tune", "--kind", "poisson7", "--scale", "0.5", "--backend", "interp", "--budget", "0.2", "--json"];
    let ran = place.run(&large);
    assert!(ran.status == 1 && ran.err.contains("the budget of 0.2 s is used up"), "{}{}", ran.out, ran.err);
    assert!(begin.elapsed() < Duration::from_secs(20) && ran.json()["error"].is_object(), "{}", ran.out);
}

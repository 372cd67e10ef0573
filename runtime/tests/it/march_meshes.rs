//! Meshes from files in runs: order and orientation of elements do not matter; the command writes what is asked for.

use kernelwright::march::{Bound, Changes, Events, Marcher};
use kernelwright::mesh::{Cuboid, Family, Raw};
use kernelwright::solve::Error;

use crate::cli::{example, file, folder, run};
use crate::march::{host, program};
use crate::mesh_write::{Form, v4};

/// Values of all probes at the end.
#[derive(Default)]
struct LastProbes(Vec<f64>);

impl Events for LastProbes {
    fn probe(&mut self, _: f64, probes: &[(String, Vec<f64>)]) -> Result<(), Error> {
        self.0 = probes.iter().flat_map(|(_, values)| values.clone()).collect();
        Ok(())
    }
}

/// Elements in another order, some turned inside out, nodes renumbered.
fn shuffled(mut raw: Raw) -> Raw {
    let mut state = 1u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    for last in (1..raw.tetrahedra.len()).rev() {
        raw.tetrahedra.swap(last, below(last + 1));
    }
    for element in &mut raw.tetrahedra {
        (0..4).for_each(|place| element.nodes.swap(place, below(4)));
    }
    raw.nodes.reverse();
    raw
}

#[test]
fn order_and_orientation_of_elements_do_not_matter() {
    let folder = folder("march_meshes");
    let text =
        "problem p { system maxwell(N = 3); initial E = [y*y, sin(3*x), z*x]; initial H = [1, x*y, 0]; until 0.2;
        material epsilon(\"box\") = 2; boundary x_low, x_high: absorbing; boundary all: pec;
        probe a = [0.3, 0.31, 0.22]; probe b = [0.71, 0.2, 0.93]; }";
    let loaded = program(text);
    let raw = Cuboid::unit(2).family(Family::Centred).raw();
    let mut results = Vec::new();
    for (name, raw) in [("plain.msh", raw.clone()), ("shuffled.msh", shuffled(raw))] {
        let path = folder.join(name);
        std::fs::write(&path, v4(&raw, Form::Binary)).unwrap();
        let bound = Bound::new(&loaded, 0, &Changes { mesh: Some(path), ..Changes::default() }).unwrap();
        assert!(bound.materials.iter().all(|own| own == &[2.0, 1.0]));
        let mut probes = LastProbes::default();
        Marcher::new(&bound, 0.01).unwrap().run(host(&bound).as_mut(), None, &mut probes).unwrap();
        results.push(probes.0);
    }
    assert_eq!(results[0].len(), 12);
    for (a, b) in results[0].iter().zip(&results[1]) {
        assert!((a - b).abs() < 1e-12, "{results:?}");
    }
}

#[test]
fn the_command_writes_series_probes_and_checkpoints() {
    let folder = folder("march_command");
    let at = |name: &str| folder.join(name).display().to_string();
    let (series, probes, checkpoint) = (at("fields.pvd"), at("probes.csv"), at("checkpoint"));
    let cavity = example("cavity.kw");
    let common = ["solve", &cavity, "--set", "N=3", "--json"];
    let more = ["--out", &series, "--probes", &probes, "--checkpoint", &checkpoint];
    let ran = run(&[&common[..], &more[..]].concat());
    assert_eq!(ran.status, 0, "{}", ran.err);
    let report = ran.json();
    assert_eq!((report["outcome"].as_str(), report["time"].as_f64()), (Some("finished"), Some(0.5)));
    assert!(report["errors"]["E_z"]["error"].as_f64().unwrap() < 0.02, "{report}");
    let list = std::fs::read_to_string(&series).unwrap();
    assert_eq!(list.matches("<DataSet").count(), 6, "{list}");
    let grid = std::fs::read(folder.join("fields_0005.vtu")).unwrap();
    let head = String::from_utf8_lossy(&grid[..2000]).into_owned();
    assert!(head.contains("NumberOfPoints=\"960\" NumberOfCells=\"48\""), "{head}");
    assert!(head.contains("Name=\"E\" NumberOfComponents=\"3\"") && head.contains("Name=\"epsilon\""), "{head}");
    let table = std::fs::read_to_string(&probes).unwrap();
    assert!(table.starts_with("time,centre.E_x,centre.E_y,centre.E_z,centre.H_x"), "{table}");
    let last: Vec<f64> = table.lines().last().unwrap().split(',').map(|word| word.parse().unwrap()).collect();
    let exact = (2f64.sqrt() * std::f64::consts::PI * 0.5).cos();
    assert!((last[3] - exact).abs() < 0.05, "{last:?}");
    // The end is a checkpoint too: nothing is left to do.
    let again = run(&[&common[..], &["--restart", &checkpoint]].concat());
    assert_eq!(again.status, 0, "{}", again.err);
    assert_eq!(again.json()["energy"]["end"], report["energy"]["end"]);
}

#[test]
fn a_restart_continues_the_series() {
    let folder = folder("march_series");
    let at = |name: &str| folder.join(name).display().to_string();
    let (series, checkpoint) = (at("fields.pvd"), at("checkpoint"));
    let cavity = example("cavity.kw");
    let common = ["solve", &cavity, "--set", "N=1", "--out", &series, "--checkpoint", &checkpoint];
    let first = run(&[&common[..], &["--set", "until=0.3"]].concat());
    assert_eq!(first.status, 0, "{}", first.err);
    let list = std::fs::read_to_string(&series).unwrap();
    let before = std::fs::read(folder.join("fields_0001.vtu")).unwrap();
    let second = run(&[&common[..], &["--restart", &checkpoint]].concat());
    assert_eq!(second.status, 0, "{}", second.err);
    let longer = std::fs::read_to_string(&series).unwrap();
    // The last time of the first run is the `until` it was given; those before are multiples of the step.
    let end = list.find("fields_0002.vtu").unwrap();
    assert_eq!(list.matches("<DataSet").count(), 4, "{list}");
    assert_eq!(longer.matches("<DataSet").count(), 6, "{longer}");
    assert!(longer.starts_with(&list[..end]) && longer.contains("fields_0005.vtu"), "{longer}");
    assert!(std::fs::read(folder.join("fields_0001.vtu")).unwrap() == before);
}

/// A checkpoint counts whole steps: the shorter step at an end between two of them is made again, and nothing goes back.
#[test]
fn a_restart_goes_on_from_whole_steps() {
    let folder = folder("march_whole_steps");
    let at = |name: &str| folder.join(name).display().to_string();
    let cavity = example("cavity.kw");
    let until = |until: &str, checkpoint: &str, more: &[&str]| {
        let until = format!("until={until}");
        let args = ["solve", &cavity, "--set", "N=1", "--set", &until, "--checkpoint", checkpoint];
        run(&[&args[..], more].concat())
    };
    let (whole, parts) = (at("whole"), at("parts"));
    for ran in [until("0.4", &whole, &[]), until("0.337", &parts, &[]), until("0.4", &parts, &["--restart", &parts])] {
        assert_eq!(ran.status, 0, "{}", ran.err);
    }
    assert!(std::fs::read(&whole).unwrap() == std::fs::read(&parts).unwrap());
    let back = until("0.2", &parts, &["--restart", &parts]);
    assert!(back.status == 1 && back.err.contains("the checkpoint was made after"), "{}", back.err);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let folder = folder("march_refused");
    let cavity = example("cavity.kw");
    for (args, expected) in [
        (vec!["--plot", "a.svg"], "--plot is for problems of operators"),
        (vec!["--out", "a.npy"], "as a series .pvd"),
        (vec!["--set", "nothing=1"], "has no `nothing` to set"),
        (vec!["--mesh", "nowhere.msh"], "nowhere.msh"),
        (vec!["--variant", "fusion=four", "--backend", "host"], "is no part of a variant"),
    ] {
        let ran = run(&[&["solve", cavity.as_str()], args.as_slice()].concat());
        assert!(ran.status != 0 && ran.err.contains(expected), "{args:?}: {}", ran.err);
    }
    let ran = run(&["bench", "dg", "--set", "N=2.5"]);
    assert!(ran.status == 2 && ran.err.contains("`N` must be a whole number"), "{}", ran.err);
    let ran = run(&["solve", &example("poisson_2d.kw"), "--mesh", "a.msh"]);
    assert!(ran.status == 2 && ran.err.contains("for problems of systems"), "{}", ran.err);
    let both = file(
        &folder,
        "both.kw",
        "problem a { system advection; initial u = 0; until 1; } problem b { system advection; initial u = 0; until 1; }",
    );
    let ran = run(&["solve", &both]);
    assert!(ran.status == 2 && ran.err.contains("choose one with --problem: a, b"), "{}", ran.err);
}

#[test]
fn real_meshes_run() {
    let Some(data) = std::env::var_os("KERNELWRIGHT_DATA").map(std::path::PathBuf::from) else {
        eprintln!("skipped: KERNELWRIGHT_DATA is not set");
        return;
    };
    let loaded = program(
        "problem p { system maxwell(N = 2); initial E = [y, x, 1]; initial H = 0; boundary all: pec; until 0.02; }",
    );
    for name in ["cube_750_tets.v22.msh", "nested_cubes_520_tets.v22.msh"] {
        let bound = Bound::new(&loaded, 0, &Changes { mesh: Some(data.join(name)), ..Changes::default() }).unwrap();
        let longest = crate::march::spectrum(&bound).step(kernelwright::march::reach(&bound.system.step));
        let marcher = Marcher::new(&bound, longest).unwrap();
        let report = marcher.run(host(&bound).as_mut(), None, &mut ()).unwrap();
        assert!(report.energy[1] <= report.energy[0] && report.energy[1] > 0.0, "{name}: {report:?}");
    }
}

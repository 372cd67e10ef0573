//! Commands that look at problems of systems.

use serde_json::Value;

use crate::cli::{Ran, example, file, folder, run};

fn good(args: &[&str]) -> Ran {
    let ran = run(args);
    assert_eq!(ran.status, 0, "{args:?}: {}", ran.err);
    ran
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn ir_prints_equations_and_kernels() {
    let cavity = example("cavity.kw");
    let math = good(&["ir", &cavity, "--stage", "math"]).out;
    for part in ["ddt E_x = ", "n.F*[H_z] = ", "boundary pec", "step lserk4", "(conserved inside elements)"] {
        assert!(math.contains(part), "{part} is missing in\n{math}");
    }
    assert!(good(&["ir", &cavity, "--stage", "program"]).out.contains("problem cavity {"));
    for target in ["cuda", "host"] {
        let args = ["ir", cavity.as_str(), "--stage", "kernel", "--target", target, "--set", "N=1", "--set", "n=1"];
        let kernels = good(&args).out;
        assert!(kernels.contains("stage") && kernels.lines().count() > 100, "{kernels}");
        assert_eq!(good(&args).out, kernels);
    }
    let ran = run(&["ir", &cavity, "--stage", "loops"]);
    assert!(ran.status == 2 && ran.err.contains("program, math and kernel"), "{}", ran.err);
    // Without any problem the equations are there all the same.
    let system = "system s { mesh tetrahedra; order N = 1; field u; ddt u = -dx(u);
        flux f { u = -n[x]*average(u); } step ssp3; }";
    let alone = file(&folder("cli_systems_ir"), "alone.kw", system);
    assert!(good(&["ir", &alone, "--stage", "math"]).out.contains("ddt u = "));
}

#[test]
fn emit_prints_sources_without_a_mesh() {
    let text = "problem p { system acoustics(N = 2); initial p = x; initial v = 0; material rho(\"wood\") = 2;
        boundary all: wall; until 1; }";
    let program = file(&folder("cli_systems_emit"), "p.kw", text);
    for (target, word) in [("cuda", "__global__"), ("host", "double")] {
        let ran = good(&["emit", &program, "--target", target, "--precision", "f64"]);
        assert!(ran.out.contains(word) && ran.err.contains("stands for the mesh"), "{}", ran.err);
        assert!(!ran.out.contains("float"), "{target}");
    }
    let ran = run(&["emit", &program, "--target", "cuda", "--schedule", "statement"]);
    assert!(ran.status == 2 && ran.err.contains("fusion="), "{}", ran.err);
}

#[test]
fn explain_counts_every_fusion() {
    let cavity = example("cavity.kw");
    let set = ["--set", "N=2", "--set", "n=2", "--bandwidth", "100", "--precision", "f64"];
    let text = good(&[&["explain", cavity.as_str()], &set[..]].concat()).out;
    for part in ["*   one", "FLOPs/byte", "Kernels of a step", "Storage", "stage"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    let found = good(&[&["explain", cavity.as_str(), "--variant", "fusion=two", "--json"], &set[..]].concat()).json();
    assert_eq!((&found["fusion"], &found["values_per_element"]), (&"two".into(), &60.into()));
    let fusions = found["fusions"].as_array().unwrap();
    let bytes: Vec<f64> = fusions.iter().map(|fusion| number(&fusion["bytes_per_element"])).collect();
    // The state and a register, read and written; cut once, the state again and the rate twice; cut again, all of that
    // again, geometry too. What else there is are faces, materials and gradients.
    let once = 4.0 * 8.0 * 60.0;
    assert!(bytes[0] > 0.9 * once && bytes[0] < once + 9.0 * 8.0 + 150.0, "{bytes:?}");
    assert_eq!(bytes[1] - bytes[0], 3.0 * 8.0 * 60.0);
    assert_eq!(bytes[2] - bytes[1], 3.0 * 8.0 * 60.0 + 9.0 * 8.0);
    for (fusion, kernels) in fusions.iter().zip([2, 3, 4]) {
        let list = fusion["kernels"].as_array().unwrap();
        assert!(list.len() >= kernels, "{fusion}");
        let elements = found["elements"].as_f64().unwrap();
        let expected = number(&fusion["bytes_per_element"]) * elements / 100e9;
        assert!((number(&fusion["predicted_seconds"]) / expected - 1.0).abs() < 1e-12);
        assert_eq!(fusion["flops_per_element"], fusions[0]["flops_per_element"]);
    }
}

#[test]
fn verify_measures_the_radius_on_a_small_mesh() {
    let pulse = "problem p { system acoustics(N = 1); mesh box(n = 9, periodic = [x, y, z]); initial p = 0; initial v = 0; until 1; }";
    let program = file(&folder("cli_systems_verify"), "p.kw", pulse);
    let verify = |args: &[&str]| good(&[&["verify", program.as_str(), "--json"], args].concat()).json();
    let (one, two) = (verify(&["--set", "n=1"]), verify(&[]));
    assert_eq!((&one["elements"], &two["elements"]), (&6.into(), &48.into()));
    assert!(two["flux_defect"].as_array().unwrap().iter().all(|defect| number(defect) < 1e-12));
    assert_eq!(two["hyperbolic"]["standing"], "proved");
    // Half the width, twice the radius: power iterations settle to 2e-3.
    let ratio = number(&two["spectral_radius"]) / number(&one["spectral_radius"]);
    assert!((ratio - 2.0).abs() < 0.1, "{ratio}");
    assert!(number(&two["dt"]) * number(&two["spectral_radius"]) > 2.5);
    // Twice the stiffness and a quarter of the density: waves are sqrt(8) times as fast.
    let fast = pulse.replace("initial p", "material K = 2; material rho = 0.25; initial p");
    let program = file(&folder("cli_systems_fast"), "p.kw", &fast);
    let fast = good(&["verify", &program, "--json"]).json();
    let ratio = number(&fast["spectral_radius"]) / number(&two["spectral_radius"]);
    assert!((ratio - 8f64.sqrt()).abs() < 0.1, "{ratio}");
    let text = good(&["verify", &example("elastic.kw"), "--set", "N=1"]).out;
    assert!(text.contains("tested: waves") && text.contains("consistent"), "{text}");
}

#[test]
fn wrong_systems_are_reported_by_all() {
    let wrong = "system s { mesh tetrahedra; order N = 1; field u; ddt u = -dx(u);
        flux f { u = -2*n[x]*average(u); } step lserk4; }
        problem p { system s; initial u = x; until 1; }";
    let program = file(&folder("cli_systems_wrong"), "p.kw", wrong);
    for command in
        [&["check"][..], &["verify"], &["explain"], &["ir", "--stage", "math"], &["emit", "--target", "host"]]
    {
        let ran = run(&[command, &[program.as_str()]].concat());
        assert!(ran.status == 1 && ran.err.contains("not consistent"), "{command:?}: {}", ran.err);
    }
}

#[test]
fn check_and_list_know_systems() {
    let elastic = good(&["check", &example("elastic.kw")]).out;
    assert!(elastic.contains("1 system") && elastic.contains("1 problem"), "{elastic}");
    let listed = good(&["list", "--json"]).json();
    let names = |of: &str| -> Vec<String> {
        let list = listed[of].as_array().unwrap().clone();
        list.iter().map(|one| one["name"].as_str().unwrap().to_string()).collect()
    };
    for system in ["advection", "acoustics", "maxwell"] {
        assert!(names("systems").contains(&system.to_string()), "{listed}");
    }
    assert!(names("steps").contains(&"lserk4".to_string()) && names("steps").len() >= 2, "{listed}");
}

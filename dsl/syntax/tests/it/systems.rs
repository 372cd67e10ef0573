//! Systems, time steps and their problems: what a declaration means, and the library of them.

use kernelwright_syntax::program::system::{Formula, Known, MeshSource, Run, System, TimeStep};
use kernelwright_syntax::program::{Precision, Program};
use kernelwright_syntax::{compile, growth, library};

fn program(text: &str) -> Program {
    compile("s.kw", text).unwrap_or_else(|errors| panic!("{errors}"))
}

fn system(statements: &str) -> System {
    program(&format!("system s {{ mesh tetrahedra; {statements} }}")).systems.remove(0)
}

fn run(statements: &str) -> Run {
    program(&format!("problem p {{ {statements} }}")).runs.remove(0)
}

/// The matrix of coefficients of derivatives along an axis.
fn matrix(system: &System, axis: usize, known: &Known<'_>) -> Vec<Vec<f64>> {
    let row = |rate: &kernelwright_syntax::program::system::Rate| {
        let mut row = vec![0.0; system.rates.len()];
        for term in rate.terms.iter().filter(|term| term.axis == Some(axis)) {
            row[term.component] += term.coefficient.evaluate(known);
        }
        row
    };
    system.rates.iter().map(row).collect()
}

#[test]
fn every_system_of_the_library_checks() {
    for name in library::system_names() {
        let system = library::system(name).unwrap_or_else(|| panic!("{name} does not check"));
        assert_eq!(system.name, name);
        assert!(!system.doc.is_empty(), "{name} says nothing about itself");
        let fluxes: Vec<&str> = system.fluxes.iter().map(|flux| flux.name.as_str()).collect();
        assert_eq!(fluxes, ["upwind", "central"], "{name}");
    }
    assert!(library::system("cg").is_none());
}

#[test]
fn maxwell_has_the_matrices_of_the_curls() {
    let maxwell = library::system("maxwell").unwrap();
    assert_eq!(maxwell.components(), ["E_x", "E_y", "E_z", "H_x", "H_y", "H_z"]);
    let materials = [2.0, 4.0];
    let known = Known { materials: [&materials; 2], ..Known::default() };
    // Levi-Civita: (curl H)_i = sum e_iak dH_k/dx_a.
    for axis in 0..3 {
        let found = matrix(&maxwell, axis, &known);
        for i in 0..3 {
            for k in 0..3 {
                let sign = ((axis as i32 - i as i32) * (k as i32 - axis as i32) * (i as i32 - k as i32)) as f64 / 2.0;
                let e = if i != axis && k != axis && i != k { -sign } else { 0.0 };
                assert_eq!(found[i][3 + k], e / 2.0, "E_{i} H_{k} along {axis}");
                assert_eq!(found[3 + i][k], -e / 4.0, "H_{i} E_{k} along {axis}");
                assert_eq!((found[i][k], found[3 + i][3 + k]), (0.0, 0.0));
            }
        }
    }
}

#[test]
fn vectors_are_taken_apart_and_terms_collected() {
    let text = "field u, v[3]; param a = 2, b[3] = [1, 2, 3]; material k[3] = [4, 5, 6];
                let twice = 2*v;
                ddt u = div(twice) - dot(b, grad(u))*a + dx(u)*a - u/4 + sin(t) + x;
                ddt v = [k[y]*dx(u), 0, 0];   source v = [0, t, 1];
                flux central { let s = average(v); u = 2*dot(n, s) - a*dot(b, n)*average(u) + a*n[x]*average(u);
                               v = [k[y]*n[x]*average(u), 0, 0]; }";
    let system = system(text);
    let known = Known {
        params: &[2.0, 1.0, 2.0, 3.0],
        materials: [&[4.0, 5.0, 6.0]; 2],
        position: [0.5, 0.0, 0.0],
        time: 1.0,
        ..Known::default()
    };
    assert_eq!(matrix(&system, 0, &known)[0], [0.0, 2.0, 0.0, 0.0]);
    assert_eq!(matrix(&system, 2, &known)[0], [-6.0, 0.0, 0.0, 2.0]);
    assert_eq!(matrix(&system, 0, &known)[1], [5.0, 0.0, 0.0, 0.0]);
    let zeroth: Vec<f64> =
        system.rates[0].terms.iter().filter(|t| t.axis.is_none()).map(|t| t.coefficient.evaluate(&known)).collect();
    assert_eq!(zeroth, [-0.25]);
    let sources: Vec<Option<f64>> =
        system.rates.iter().map(|rate| rate.source.as_ref().map(|source| source.evaluate(&known))).collect();
    assert_eq!(sources, [Some(1f64.sin() + 0.5), None, Some(1.0), Some(1.0)]);
}

#[test]
fn sides_choose_what_is_read() {
    let text = "field u; material a = 1; let au = a*u;  ddt u = -dx(au);
                flux f { u = -n[x]*(average(au) + 3*jump(a)*average(u) + jump(u)); }
                boundary b { exterior(u) = 2*u + x + t; exterior(a) = 7*a; }";
    let system = system(text);
    let known = Known {
        materials: [&[2.0], &[4.0]],
        components: [&[10.0], &[100.0]],
        normal: [0.5, 0.0, 0.0],
        position: [1.0, 0.0, 0.0],
        time: 3.0,
        ..Known::default()
    };
    let expected = -0.5 * (0.5 * (20.0 + 400.0) + 3.0 * (2.0 - 4.0) * 0.5 * 110.0 + (10.0 - 100.0));
    assert_eq!(system.fluxes[0].values[0].evaluate(&known), expected);
    let condition = &system.conditions[0];
    assert_eq!((condition.fields[0].evaluate(&known), condition.materials[0].evaluate(&known)), (24.0, 14.0));
}

#[test]
fn systems_that_are_not_hyperbolic_are_found() {
    let acoustics = library::system("acoustics").unwrap();
    let direction = [0.6, 0.0, 0.8];
    assert_eq!(growth(&acoustics, &[], &[1.0, 1.0], direction), None);
    assert_eq!(growth(&acoustics, &[], &[1e-3, 5e3], direction), None);
    assert_eq!(growth(&acoustics, &[], &[1.0, -1.0], direction), Some("a complex wave speed"));
    // Units are nobody's concern: water and its sound, glass and light, each in SI.
    assert_eq!(growth(&acoustics, &[], &[1e3, 2.2e9], direction), None);
    let maxwell = library::system("maxwell").unwrap();
    assert_eq!(growth(&maxwell, &[], &[8.854e-12, 5e-5], direction), None);
    assert_eq!(growth(&maxwell, &[], &[8.854e-12, -5e-5], direction), Some("a complex wave speed"));
    // A tracer that a heavy flow drives, and is not driven by, still lacks an eigenvector if it moves with the waves.
    let driven = |speed: &str| {
        let text = format!(
            "field a, p, q; param k = 1e9; ddt a = -{speed}*dx(a) - k*dx(p); ddt p = -dx(q); ddt q = -dx(p);
                            flux f {{ a = -{speed}*n[x]*average(a) - k*n[x]*average(p); p = -n[x]*average(q);
                                      q = -n[x]*average(p); }}"
        );
        compile("driven.kw", &format!("system s {{ mesh tetrahedra; {text} }}")).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(driven("0.5"), Ok(()));
    assert!(driven("1").unwrap_err().contains("too few waves"));
    // A Jordan block: p is driven by the gradient of a field that does not move.
    let text = "system s { mesh tetrahedra; field p, q; ddt p = dx(q) + dx(p); ddt q = dx(q);
                flux f { p = n[x]*average(q + p); q = n[x]*average(q); } }";
    let error = compile("jordan.kw", text).unwrap_err().to_string();
    assert!(error.contains("too few waves"), "{error}");
}

/// One step of u' = rate from u = 1, dt = 1.
fn advance(step: &TimeStep, rate: impl Fn(f64, f64) -> f64) -> f64 {
    let mut registers = vec![0.0; step.registers.len()];
    registers[0] = 1.0;
    for stage in &step.stages {
        let slope = rate(registers[0], stage.time);
        for update in &stage.updates {
            let sum: f64 = update.terms.iter().map(|(register, factor)| factor * registers[*register]).sum();
            registers[update.register] = sum + update.rate * slope;
        }
    }
    registers[0]
}

#[test]
fn time_steps_of_the_library_have_their_order() {
    for (name, order, stages) in [("lserk4", 4, 5), ("ssprk3", 3, 3), ("rk4", 4, 4)] {
        let step = library::step(name).unwrap_or_else(|| panic!("{name} does not check"));
        assert_eq!(step.stages.len(), stages);
        // u' = z u: the series of exp(z) up to the order; the first difference falls like z^(order + 1).
        let error = |z: f64| (advance(&step, |u, _| z * u) - z.exp()).abs();
        let rate = (error(0.1) / error(0.05)).log2();
        assert!((rate - f64::from(order + 1)).abs() < 0.2, "{name}: {rate}");
        // u' = 4 t^3: times of stages.
        let power = |p: i32| advance(&step, |_, t| f64::from(p + 1) * t.powi(p)) - 1.0;
        (0..order).for_each(|p| assert!((power(p) - 1.0).abs() < 1e-9, "{name}: t^{p} gives {}", power(p)));
    }
    assert_eq!(library::step_names().count(), 3);
}

#[test]
fn steps_are_read_as_combinations() {
    let text = "step s { stage 0 { k = 2*dt*rate; u = (u + k)/2 + u/2 - (-k)*0; } }";
    let step = program(text).steps.remove(0);
    assert_eq!(step.registers, ["u", "k"]);
    let update = &step.stages[0].updates;
    assert_eq!((update[0].terms.as_slice(), update[0].rate), (&[] as &[_], 2.0));
    assert_eq!((update[1].terms.as_slice(), update[1].rate), ([(0, 1.0), (1, 0.5)].as_slice(), 0.0));
}

#[test]
fn a_problem_binds_everything() {
    let run = run("system maxwell(N = 3); flux central; step ssprk3;
                   mesh box(nx = 2, ny = 3, nz = 4, high = [1, 2, 3], periodic = [y], cut = centred);
                   material epsilon = 1 + x; material epsilon(\"glass\", 7) = 2.25;
                   initial E = [0, sin(pi*x), 0]; initial H = 0; exact E = [0, cos(t), 0];
                   boundary x_low, \"outer wall\": pec; boundary all: absorbing;
                   until 2*pi; every 0.5; probe middle = [0.5, 0.5, 0.5]; precision f32;");
    assert_eq!((run.order, run.precision, run.until, run.every), (3, Precision::F32, std::f64::consts::TAU, Some(0.5)));
    let mesh = MeshSource::Box {
        cells: [2, 3, 4],
        low: [0.0; 3],
        high: [1.0, 2.0, 3.0],
        periodic: [false, true, false],
        centred: true,
    };
    assert_eq!(run.mesh, Some(mesh));
    assert_eq!(run.materials[0].regions, ["glass", "7"]);
    let known = Known { position: [0.5, 0.0, 0.0], ..Known::default() };
    assert_eq!(run.materials[1].value.evaluate(&known), 1.5);
    assert_eq!(run.initial[1].evaluate(&known), 1.0);
    assert_eq!(run.exact.iter().map(Option::is_some).collect::<Vec<_>>(), [true, true, true, false, false, false]);
    let tags: Vec<(&str, usize)> = run.boundaries.iter().map(|(tag, condition)| (tag.as_str(), *condition)).collect();
    assert_eq!(tags, [("x_low", 0), ("outer wall", 0), ("*", 2)]);
    assert_eq!(run.probes, [("middle".to_string(), [0.5; 3])]);
    assert!(matches!(run.initial[0], Formula::Number(_)));
}

#[test]
fn order_flux_and_step_have_defaults() {
    let program = program("problem p { system advection(c = [0, 2, 0]); initial u = x; until 1; }");
    let run = &program.runs[0];
    assert_eq!((run.order, run.flux, run.params.as_slice()), (4, 0, &[0.0, 2.0, 0.0] as &[_]));
    assert_eq!((program.systems[0].name.as_str(), program.steps[0].name.as_str()), ("advection", "lserk4"));
}

//! Systems in time: convergence, what is conserved, restarts, and everything that can be refused.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::{Loaded, from_text, load};
use kernelwright::march::{
    Bound, Changes, Checkpoint, DirectEngine, Engine, Events, Marcher, Outcome, Progress, Report, Spectrum, engine,
    linear_part, reach,
};
use kernelwright::solve::Error;

use crate::cli::example;

pub fn program(text: &str) -> Loaded {
    from_text("m.kw", text.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn bound(text: &str) -> Bound {
    Bound::new(&program(text), 0, &Changes::default()).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(text: &str) -> String {
    match Bound::new(&program(text), 0, &Changes::default()) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

/// Generated kernels on the host.
pub fn host(bound: &Bound) -> Box<dyn Engine + '_> {
    let cache = Arc::new(Cache::at(concat!(env!("CARGO_TARGET_TMPDIR"), "/kernels")));
    engine::open(bound, &bound.system, Choice::Host, &cache).unwrap_or_else(|error| panic!("{error}")).engine
}

pub fn spectrum(bound: &Bound) -> Spectrum {
    let linear = linear_part(&bound.system);
    if linear == bound.system {
        return Spectrum::measure(bound, host(bound).as_mut()).unwrap();
    }
    Spectrum::measure(bound, &mut DirectEngine::new(bound, &linear)).unwrap()
}

/// Runs a problem.
fn march(bound: &Bound, events: &mut dyn Events) -> Report {
    let longest = spectrum(bound).step(reach(&bound.system.step));
    let marcher = Marcher::new(bound, longest).unwrap();
    marcher.run(host(bound).as_mut(), None, events).unwrap()
}

/// Largest L2 error of all components that have an exact solution.
fn error(text: &str) -> f64 {
    let bound = bound(text);
    let report = march(&bound, &mut ());
    assert_eq!(report.outcome, Outcome::Finished);
    assert_eq!(report.time, bound.run.until);
    report.errors.iter().flatten().map(|(error, _)| *error).fold(0.0, f64::max)
}

const CAVITY: &str = "initial E = [0, 0, sin(pi*x)*sin(pi*y)]; initial H = 0;
    exact E = [0, 0, sin(pi*x)*sin(pi*y)*cos(sqrt(2)*pi*t)];
    exact H = [-sin(pi*x)*cos(pi*y)*sin(sqrt(2)*pi*t)/sqrt(2), cos(pi*x)*sin(pi*y)*sin(sqrt(2)*pi*t)/sqrt(2), 0];
    boundary all: pec; until 0.3;";
const SOUND: &str = "initial p = sin(2*pi*x); initial v = [sin(2*pi*x), 0, 0]; material rho = 1;
    exact p = sin(2*pi*(x - t)); exact v = [sin(2*pi*(x - t)), 0, 0]; until 0.3;";
const TRANSPORT: &str = "initial u = sin(2*pi*(x + y)); exact u = sin(2*pi*(x + y - 0.7*t)); until 0.3;";

/// The rate of convergence from n to 2 n cubes.
fn rate(problem: &dyn Fn(u32) -> String, n: u32) -> f64 {
    (error(&problem(n)) / error(&problem(2 * n))).log2()
}

/// Maxwell's equations in a cavity: every order, two fluxes, two families of meshes.
#[test]
fn errors_fall_like_h_to_the_order_plus_one() {
    // From order 8 on the error of the time step, of fourth order, shows before that of the elements.
    let cases = [(1, 4), (2, 3), (3, 2), (4, 2), (5, 2), (6, 1), (7, 1)];
    for (order, n) in cases {
        for (flux, cut) in [("upwind", "diagonal"), ("upwind", "centred"), ("central", "diagonal")] {
            // Not all of them: every case is compiled for two meshes.
            if (cut == "centred" && order != 2 && order != 4) || (flux == "central" && order > 3) {
                continue;
            }
            let cavity = |n| {
                format!(
                    "problem p {{ system maxwell(N = {order}); flux {flux}; mesh box(n = {n}, cut = {cut}); {CAVITY} }}"
                )
            };
            let found = rate(&cavity, n);
            // Central fluxes lose up to one order at odd N; the coarsest meshes are not in the asymptotic range.
            let least = f64::from(order) + if flux == "upwind" { 0.6 } else { -0.2 };
            assert!(found > least, "{flux} {cut}, order {order}: {found}");
        }
    }
}

#[test]
fn kernels_agree_with_the_reference_evaluation() {
    for name in ["cavity.kw", "room.kw", "elastic.kw", "inflow.kw"] {
        let bound = Bound::new(&load(&example(name)).unwrap(), 0, &Changes::default()).unwrap();
        let state = kernelwright::inputs::random::fill(5, 0, bound.len());
        let mut results = Vec::new();
        for mut engine in [host(&bound), Box::new(DirectEngine::new(&bound, &bound.system))] {
            let mut rate = vec![0.0; bound.len()];
            engine.load(&state).unwrap();
            engine.rate(0.3, &mut rate).unwrap();
            engine.advance(0.3, 1e-3, 3).unwrap();
            let mut after = vec![0.0; bound.len()];
            engine.store(&mut after).unwrap();
            results.push((rate, after));
        }
        let scale = results[1].0.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let differ = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        // Sums of some hundred terms, rounded in another order.
        assert!(differ(&results[0].0, &results[1].0) < 1e-12 * scale, "{name}: rates");
        assert!(differ(&results[0].1, &results[1].1) < 1e-14 * scale, "{name}: states");
    }
}

#[test]
fn sound_and_transport_converge_on_periodic_boxes() {
    let sound = |n: u32| {
        format!(
            "problem p {{ system acoustics(N = 2); mesh box(nx = {}, ny = 1, nz = 1, high = [1, 0.5, 0.5], periodic = [x, y, z]); {SOUND} }}",
            2 * n
        )
    };
    let found = rate(&sound, 2);
    assert!(found > 2.7, "sound: {found}");
    let transport = |n| {
        format!(
            "problem p {{ system advection(N = 3, c = [0.2, 0.5, 0]); mesh box(nx = {n}, ny = {n}, nz = 1, cut = centred, periodic = [x, y, z]); {TRANSPORT} }}"
        )
    };
    let found = rate(&transport, 2);
    assert!(found > 3.6, "transport: {found}");
}

#[test]
fn the_examples_have_small_errors() {
    let limits = [("cavity.kw", 2e-3), ("elastic.kw", 6e-2), ("inflow.kw", 2e-2)];
    for (name, limit) in limits {
        let loaded = load(&example(name)).unwrap();
        let bound = Bound::new(&loaded, 0, &Changes::default()).unwrap();
        let report = march(&bound, &mut ());
        assert_eq!(report.outcome, Outcome::Finished, "{name}");
        let largest = report.errors.iter().flatten().map(|(error, _)| *error).fold(0.0, f64::max);
        assert!(largest < limit && largest > 0.0, "{name}: {largest}");
    }
}

/// c dt / r of the largest stable step of the scheme of five stages, on Kuhn tetrahedra with upwind Maxwell.
#[test]
fn the_spectrum_is_that_of_the_literature() {
    for (order, expected) in [(1, 1.06), (2, 0.66), (3, 0.46), (4, 0.32)] {
        let bound = bound(&format!("problem p {{ system maxwell(N = {order}); mesh box(n = 2); {CAVITY} }}"));
        let spectrum = spectrum(&bound);
        let radius = (0..bound.elements()).map(|e| bound.mesh.inscribed_radius(e)).fold(f64::INFINITY, f64::min);
        let found = 4.66 / spectrum.radius / radius;
        assert!((found / expected - 1.0).abs() < 0.12, "order {order}: {found}, {spectrum:?}");
        assert!(spectrum.decay > 0.5, "upwind fluxes decay: {spectrum:?}");
    }
}

/// Energies on the way.
#[derive(Default)]
struct Energies(Vec<f64>);

impl Events for Energies {
    fn progress(&mut self, progress: &Progress) -> Result<ControlFlow<()>, Error> {
        self.0.push(progress.energy);
        Ok(ControlFlow::Continue(()))
    }
}

#[test]
fn upwind_fluxes_lose_energy_and_central_ones_keep_it() {
    let problems = [
        (
            "maxwell(N = 2)",
            "initial E = [y, sin(5*x), z*x]; initial H = [1, x*y, 0]; material epsilon = if x > 0.5 { 3 } else { 1 }; boundary all: pec;",
        ),
        (
            "acoustics(N = 2)",
            "initial p = exp(-9*sqr(x)); initial v = [y*z, 0, 1]; material rho = 1 + x; boundary x_low: free; boundary all: wall;",
        ),
    ];
    for (system, rest) in problems {
        for flux in ["upwind", "central"] {
            let bound = bound(&format!(
                "problem p {{ system {system}; flux {flux}; mesh box(n = 1, cut = centred); {rest} until 2; }}"
            ));
            let mut energies = Energies::default();
            // The time step itself loses energy, as its fifth power.
            let longest = spectrum(&bound).step(reach(&bound.system.step)) / if flux == "central" { 8.0 } else { 1.0 };
            let marcher = Marcher::new(&bound, longest).unwrap();
            let report = marcher.run(host(&bound).as_mut(), None, &mut energies).unwrap();
            assert_eq!(report.outcome, Outcome::Finished);
            let start = report.energy[0];
            let all: Vec<f64> = std::iter::once(start).chain(energies.0).collect();
            let worst = all.windows(2).map(|pair| pair[1] / pair[0] - 1.0).fold(f64::NEG_INFINITY, f64::max);
            assert!(worst <= 1e-12, "{system} {flux}: {worst}, {all:?}");
            let kept = report.energy[1] / start;
            if flux == "central" {
                assert!((kept - 1.0).abs() < 1e-3, "{system}: {kept}");
            } else {
                assert!(kept > 0.01 && kept < 0.9999, "{system}: {kept}");
            }
        }
    }
}

#[test]
fn energy_never_grows_in_ten_thousand_steps() {
    let bound = bound(
        "problem p { system maxwell(N = 3); mesh box(n = 1); initial E = [y, sin(5*x), z*x]; initial H = [1, x*y, 0];
        boundary all: pec; until 1; }",
    );
    let dt = spectrum(&bound).step(reach(&bound.system.step));
    let mut engine = host(&bound);
    engine.load(&bound.initial).unwrap();
    let mut energies = vec![engine.energy().unwrap().unwrap()];
    for look in 0..100 {
        engine.advance(f64::from(look) * 100.0 * dt, dt, 100).unwrap();
        energies.push(engine.energy().unwrap().unwrap());
    }
    assert!(energies.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-12)), "{energies:?}");
    assert!(energies[100] > 1e-3 * energies[0], "constant modes stay: {energies:?}");
}

#[test]
fn a_free_stream_is_preserved() {
    let problems = [
        ("advection(N = 3, c = [0.3, 0.4, 0.5])", "initial u = 2;"),
        ("maxwell(N = 2)", "initial E = [1, 2, 3]; initial H = [-1, 0.5, 7];"),
        ("acoustics(N = 4)", "initial p = 1; initial v = [1, 2, 3]; material rho = 2;"),
    ];
    for (system, rest) in problems {
        let text = format!(
            "problem p {{ system {system}; mesh box(nx = 2, ny = 1, nz = 1, periodic = [x, y, z]); {rest} until 0.2; }}"
        );
        let bound = bound(&text);
        let marcher = Marcher::new(&bound, spectrum(&bound).step(reach(&bound.system.step))).unwrap();
        let mut last = Last::default();
        marcher.run(host(&bound).as_mut(), None, &mut last).unwrap();
        let largest = last.0.iter().zip(&bound.initial).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(largest < 1e-11, "{system}: {largest}");
    }
}

/// The last output.
#[derive(Default)]
struct Last(Vec<f64>);

impl Events for Last {
    fn output(&mut self, _: f64, state: &[f64]) -> Result<(), Error> {
        self.0 = state.to_vec();
        Ok(())
    }
}

#[test]
fn boxes_one_element_wide_are_as_good_as_wide_ones() {
    let text = |wide: u32| {
        format!("problem p {{ system advection(N = 3, c = [0, 1, 0]); mesh box(nx = {wide}, ny = 3, nz = {wide}, high = [{wide}, 3, {wide}], periodic = [x, y, z]);
        initial u = sin(2*pi*y/3); exact u = sin(2*pi*(y - t)/3); until 1; }}")
    };
    let (narrow, wide) = (error(&text(1)), error(&text(2)));
    // The same error per volume: the solution does not depend on x and z.
    assert!((wide / narrow / 2.0 - 1.0).abs() < 1e-6, "{narrow} {wide}");
}

/// Everything that a run tells.
#[derive(Default)]
struct Record {
    checkpoints: Vec<Checkpoint>,
    states: Vec<(f64, Vec<f64>)>,
    probes: Vec<(f64, Vec<f64>)>,
    stop_at: Option<u64>,
}

impl Events for Record {
    fn progress(&mut self, progress: &Progress) -> Result<ControlFlow<()>, Error> {
        let stop = self.stop_at.is_some_and(|step| progress.step >= step);
        Ok(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn output(&mut self, time: f64, state: &[f64]) -> Result<(), Error> {
        self.states.push((time, state.to_vec()));
        Ok(())
    }

    fn probe(&mut self, time: f64, probes: &[(String, Vec<f64>)]) -> Result<(), Error> {
        self.probes.push((time, probes.iter().flat_map(|(_, values)| values.clone()).collect()));
        Ok(())
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), Error> {
        self.checkpoints.push(checkpoint);
        Ok(())
    }
}

const PULSE: &str =
    "problem p { system acoustics(N = 2); mesh box(n = 1, cut = centred); initial p = exp(-9*sqr(x)); initial v = 0;
    boundary all: wall; until 1; every 0.3; probe a = [0.3, 0.3, 0.3]; probe corner = [1, 1, 1]; }";

#[test]
fn a_restarted_run_gives_the_same_bits() {
    let bound = bound(PULSE);
    let marcher = Marcher::new(&bound, spectrum(&bound).step(reach(&bound.system.step))).unwrap();
    let mut whole = Record::default();
    marcher.run(host(&bound).as_mut(), None, &mut whole).unwrap();
    let times: Vec<f64> = whole.states.iter().map(|(time, _)| *time).collect();
    assert_eq!(times.len(), 5, "{times:?}");
    let mut first = Record { stop_at: Some(marcher.steps / 3), ..Record::default() };
    let report = marcher.run(host(&bound).as_mut(), None, &mut first).unwrap();
    assert_eq!(report.outcome, Outcome::Interrupted);
    // Through a file, as the command does it.
    let path = crate::cli::folder("checkpoints").join("c");
    first.checkpoints.last().unwrap().write(&path).unwrap();
    let from = Checkpoint::read(&path, &bound).unwrap();
    assert_eq!(Some(&from), first.checkpoints.last());
    let marcher = Marcher::new(&bound, from.dt).unwrap();
    let mut second = Record::default();
    marcher.run(host(&bound).as_mut(), Some(from), &mut second).unwrap();
    assert_eq!(second.states.last(), whole.states.last());
    assert_eq!(second.probes[..], whole.probes[whole.probes.len() - second.probes.len()..]);
    // A checkpoint of something else is refused, and so is half of one.
    let other = super::march::bound(&PULSE.replace("N = 2", "N = 1"));
    assert!(Checkpoint::read(&path, &other).unwrap_err().to_string().contains("belongs to another"));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
    assert!(Checkpoint::read(&path, &bound).unwrap_err().to_string().contains("breaks off"));
}

#[test]
fn a_restart_keeps_the_steps() {
    let text = "problem p { system advection(N = 1); mesh box(n = 1, periodic = [x, y, z]); initial u = x; until 2; every 1; }";
    let other = bound(&text.replace("every 1", "every 0.95"));
    let bound = bound(text);
    for n in 1..200 {
        let marcher = Marcher::new(&bound, 1.0 / (f64::from(n) - 0.5)).unwrap();
        assert_eq!(marcher.dt, 1.0 / f64::from(n));
        assert_eq!(Marcher::new(&bound, marcher.dt).unwrap().dt, marcher.dt, "{n} steps");
    }
    let mut first = Record::default();
    Marcher::new(&bound, 0.1).unwrap().run(host(&bound).as_mut(), None, &mut first).unwrap();
    let from = first.checkpoints[0].clone();
    let marcher = Marcher::new(&other, from.dt).unwrap();
    let error = marcher.run(host(&other).as_mut(), Some(from), &mut ()).unwrap_err().to_string();
    assert!(error.contains("made with steps of 1e-1"), "{error}");
}

/// The system's own numbers are fine where those of some sample points are not.
#[test]
fn roots_of_parameters_are_not_judged_where_they_are_not_real() {
    bound(
        "system s { mesh tetrahedra; order N = 1; field u; param beta = 0.3; let gamma = 1/sqrt(1 - sqr(beta));
            ddt u = -gamma*dx(u); flux f { u = -gamma*n[x]*average(u); } step lserk4; }
        problem p { system s; mesh box(n = 1, periodic = [x, y, z]); initial u = x; until 1; }",
    );
}

#[test]
fn errors_of_an_unstable_run_are_those_of_its_last_state() {
    let (problem, _probes) = PULSE.split_once("until").unwrap();
    let bound = bound(&format!("{problem} until 40; exact p = 0; exact v = [0, 0, 0]; }}"));
    let longest = 2.0 * spectrum(&bound).step(reach(&bound.system.step));
    let report = Marcher::new(&bound, longest).unwrap().run(host(&bound).as_mut(), None, &mut ()).unwrap();
    assert_eq!(report.outcome, Outcome::Unstable);
    let squares: f64 = report.errors.iter().flatten().map(|(error, _)| error * error).sum();
    assert!((squares / report.energy[1] - 1.0).abs() < 1e-6, "{squares}, {report:?}");
}

#[test]
fn a_step_that_is_too_long_is_unstable_not_nan() {
    let bound = bound(&PULSE.replace("until 1", "until 40").replace("every 0.3;", ""));
    let longest = 2.0 * spectrum(&bound).step(reach(&bound.system.step));
    let marcher = Marcher::new(&bound, longest).unwrap();
    let report = marcher.run(host(&bound).as_mut(), None, &mut ()).unwrap();
    assert_eq!(report.outcome, Outcome::Unstable);
}

/// Energies that grow for a reason: an inflow into an empty box, a term that makes a field grow, a source in units of its own.
#[test]
fn what_is_fed_or_grows_by_itself_is_not_unstable() {
    let transport = |more: &str, problem: &str| {
        format!(
            "system s {{ mesh tetrahedra; field u; param b[3] = [1, 0, 0]; ddt u = -dot(b, grad(u)) {more};
                flux f {{ let s = dot(b, n); u = -(s*average(u) + abs(s)/2*jump(u)); }}
                boundary inflow {{ exterior(u) = if dot(b, n) < 0 {{ 1 }} else {{ u }}; }} step rk4; }}
            problem p {{ system s; order 1; {problem} }}"
        )
    };
    let periodic = "mesh box(n = 1, periodic = [x, y, z]);";
    let cases = [
        transport("", "mesh box(n = 1); boundary all: inflow; initial u = 0; until 10; exact u = 1;"),
        transport("+ 3*u", &format!("{periodic} initial u = 1; until 6; every 0.05; exact u = exp(3*t);")),
        transport("- 3*u", &format!("{periodic} initial u = 1; until 6; every 0.05; exact u = exp(-3*t);")),
        transport("+ 1e12*cos(t)", &format!("{periodic} initial u = 0; until 1; every 0.05; exact u = 1e12*sin(t);")),
    ];
    for text in cases {
        let bound = bound(&text);
        let linear = linear_part(&bound.system);
        let spectrum = Spectrum::measure(&bound, &mut DirectEngine::new(&bound, &linear)).unwrap();
        let marcher = Marcher::new(&bound, spectrum.step(reach(&bound.system.step))).unwrap();
        let report = marcher.run(&mut DirectEngine::new(&bound, &bound.system), None, &mut ()).unwrap();
        let (error, norm) = report.errors[0].unwrap();
        assert_eq!(report.outcome, Outcome::Finished, "{text}");
        assert!(error < 1e-2 * norm, "{error} of {norm}: {text}");
    }
    // Without the inflow the same growth is an instability.
    let still = transport("", &format!("{periodic} initial u = x; until 400;"));
    let bound = bound(&still);
    let marcher = Marcher::new(&bound, 1.0).unwrap();
    let report = marcher.run(&mut DirectEngine::new(&bound, &bound.system), None, &mut ()).unwrap();
    assert_eq!(report.outcome, Outcome::Unstable);
    let error = Marcher::new(&bound, 0.0).err().unwrap().to_string();
    assert!(error.contains("time step `rk4` amplifies waves"), "{error}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let start = "initial p = 0; initial v = 0; until 1;";
    let cases = [
        (
            format!("system acoustics; mesh box(n = 1); {start}"),
            "boundaries of the mesh without a condition: `x_low` (2 faces)",
        ),
        (format!("system acoustics; {start}"), "has no mesh: give one with --mesh"),
        (format!("system acoustics; mesh file(\"nowhere.msh\"); {start}"), "nowhere.msh"),
        (
            format!("system acoustics; mesh box(n = 1, periodic = [x, y, z]); material K = -1; {start}"),
            "not hyperbolic on element",
        ),
        (
            format!("system acoustics; mesh box(n = 1, periodic = [x, y, z]); material K = 1/(x - x); {start}"),
            "material `K` is",
        ),
        (
            "system acoustics; mesh box(n = 1, periodic = [x, y, z]); initial p = log(x - 2); initial v = 0; until 1;"
                .into(),
            "initial values are not finite",
        ),
    ];
    let still = bound(
        "problem p { system advection(c = [0, 0, 0]); mesh box(n = 1, periodic = [x, y, z]);
                       initial u = x; until 1; }",
    );
    let error = Spectrum::measure(&still, &mut DirectEngine::new(&still, &still.system)).unwrap_err().to_string();
    assert!(error.contains("nothing moves"), "{error}");
    for (statements, expected) in cases {
        let found = refused(&format!("problem p {{ {statements} }}"));
        assert!(found.contains(expected), "{found}");
    }
    let bound = bound(&PULSE.replace("[1, 1, 1]", "[1, 1, 1.01]"));
    let error = Marcher::new(&bound, 0.01).err().unwrap().to_string();
    assert!(error.contains("probe `corner`") && error.contains("outside"), "{error}");
}

#[test]
fn numbers_can_be_set_from_outside() {
    let loaded =
        program("problem p { system advection; mesh box(n = 1, periodic = [x, y, z]); initial u = x; until 1; }");
    let with = |name: &str, value: f64| {
        Bound::new(&loaded, 0, &Changes { set: vec![(name.to_string(), value)], ..Changes::default() })
    };
    assert_eq!(with("N", 2.0).unwrap().element.order, 2);
    assert_eq!(with("ny", 3.0).unwrap().elements(), 18);
    assert_eq!(with("c_y", 5.0).unwrap().run.params, [1.0, 5.0, 0.0]);
    assert_eq!(with("until", 3.0).unwrap().run.until, 3.0);
    for (name, value) in [("N", 10.0), ("N", 1.5), ("n", 0.0), ("until", -1.0), ("q", 1.0)] {
        assert!(with(name, value).is_err(), "{name} = {value}");
    }
}

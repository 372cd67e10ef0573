//! Convergence of every order, for three systems and two families of meshes.
//!
//! The exact solutions are linear in time, which Runge-Kutta schemes follow exactly: of the time step's error only that of
//! the elements' error is left, so that orders beyond the step's own show with its usual length. They come about by
//! sources, and have a phase, so that meshes and waves share no symmetry. The reference evaluation computes; kernels are held
//! against it elsewhere.

use kernelwright::march::{DirectEngine, Marcher, Outcome};

use crate::march::bound;

/// A system of the library with sources, and its exact solution.
struct Wave {
    system: &'static str,
    name: &'static str,
    sources: &'static str,
    exact: &'static str,
}

const WAVES: [Wave; 3] = [
    Wave {
        system: include_str!("../../../dsl/syntax/src/library/advection.kw"),
        name: "advection",
        sources: "source u = sin(2*pi*x + 0.7) + (1 + t)*2*pi*c[x]*cos(2*pi*x + 0.7);",
        exact: "u = (1 + t)*sin(2*pi*x + 0.7);",
    },
    Wave {
        system: include_str!("../../../dsl/syntax/src/library/acoustics.kw"),
        name: "acoustics",
        sources: "source p = sin(2*pi*x + 0.7) - (1 + t)*2*pi*sin(2*pi*x + 0.7);
            source v = [cos(2*pi*x + 0.7) + (1 + t)*2*pi*cos(2*pi*x + 0.7), 0, 0];",
        exact: "p = (1 + t)*sin(2*pi*x + 0.7); v = [(1 + t)*cos(2*pi*x + 0.7), 0, 0];",
    },
    Wave {
        system: include_str!("../../../dsl/syntax/src/library/maxwell.kw"),
        name: "maxwell",
        sources: "source E = [0, 0, sin(2*pi*x + 0.7) + (1 + t)*2*pi*sin(2*pi*x + 0.7)];
            source H = [0, cos(2*pi*x + 0.7) - (1 + t)*2*pi*cos(2*pi*x + 0.7), 0];",
        exact: "E = [0, 0, (1 + t)*sin(2*pi*x + 0.7)]; H = [0, (1 + t)*cos(2*pi*x + 0.7), 0];",
    },
];

/// Largest error of a component on a row of n cubes with joined sides.
fn error(wave: &Wave, order: u32, n: u32, cut: &str) -> f64 {
    let Wave { system, name, sources, exact } = wave;
    let system = system.replace("step lserk4;", &format!("{sources}\n    step lserk4;"));
    let prefixed = |word: &str| -> String {
        let parts = exact.split_inclusive(';').filter(|part| !part.trim().is_empty());
        parts.map(|part| format!("{word} {} ", part.trim())).collect()
    };
    let (initial, exact) = (prefixed("initial").replace("(1 + t)*", ""), prefixed("exact"));
    // Long enough for several steps on the coarser mesh.
    let (side, until) = (1.0 / f64::from(n), 0.25 / f64::from(order + 1));
    let bound = bound(&format!(
        "{system} problem p {{ system {name}(N = {order}); {initial} {exact} until {until};
        mesh box(nx = {n}, ny = 1, nz = 1, high = [1, {side}, {side}], periodic = [x, y, z], cut = {cut}); }}"
    ));
    // Well within the limit, which is about 1.6 for Maxwell's equations on diagonally cut cubes.
    let part = if cut == "diagonal" { 0.8 } else { 0.5 };
    let marcher = Marcher::new(&bound, part * side / f64::from((order + 1).pow(2))).unwrap();
    let report = marcher.run(&mut DirectEngine::new(&bound, &bound.system), None, &mut ()).unwrap();
    assert_eq!(report.outcome, Outcome::Finished);
    report.errors.iter().flatten().map(|(error, _)| *error).fold(0.0, f64::max)
}

/// On rows of n and of m cubes, for all systems and both families. Upwind fluxes give h^(N+1) here and h^(N+1/2) at worst
/// (Johnson and Pitkaranta, Math. Comp. 46, 1986): what falls more slowly is wrong.
fn converges(cases: &[(u32, (u32, u32))]) {
    for &(order, (n, m)) in cases {
        for (wave, cut) in WAVES.iter().flat_map(|wave| ["diagonal", "centred"].map(|cut| (wave, cut))) {
            let errors = [n, m].map(|n| error(wave, order, n, cut));
            let found = (errors[0] / errors[1]).ln() / (f64::from(m) / f64::from(n)).ln();
            assert!(found > f64::from(order) + 0.6, "{} {cut}, order {order}: {found}, {errors:?}", wave.name);
        }
    }
}

#[test]
fn low_orders_converge() {
    converges(&[(1, (4, 8)), (2, (4, 8)), (3, (3, 6))]);
}

#[test]
fn middle_orders_converge() {
    converges(&[(4, (2, 4)), (5, (2, 3)), (6, (1, 2))]);
}

/// One wave in a cube is resolved there, to 1e-3 at order 7 and 1e-4 at order 9.
#[test]
fn high_orders_converge() {
    converges(&[(7, (1, 2)), (8, (1, 2)), (9, (1, 2))]);
}

//! Random programs and the examples: the same matrix as the oracle's, the same from terms, and no fact that is not so.

use std::path::Path;

use kernelwright_codegen::facts;
use kernelwright_codegen::lower::lower;
use kernelwright_codegen::math::{Data, Fact, Standing};
use kernelwright_codegen::math_eval::Evaluator;
use kernelwright_syntax::compile;
use kernelwright_syntax::program::{Operator, Program};
use kernelwright_tests::random::{Random, operator};

use crate::{couplings, matrices};

fn program(text: &str) -> Program {
    compile("random.kw", text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn sizes(program: &Program) -> Vec<u64> {
    program.problems[0].sizes.iter().map(|&n| n as u64).collect()
}

fn arrays(op: &kernelwright_codegen::math::Operator, sizes: &[u64], random: &mut Random) -> Vec<Vec<f64>> {
    let len = |d: &Data| d.axes.iter().map(|&a| sizes[a] as usize + usize::from(d.half == Some(a))).product();
    op.data.iter().map(|d| random.vector(len(d)).iter().map(|v| 1.5 + v).collect()).collect()
}

/// Every fact that is claimed to hold does, on this very grid.
fn sound(source: &Operator, sizes: &[u64], params: &[f64]) {
    let op = lower(source, sizes).unwrap();
    let data = arrays(&op, sizes, &mut Random::new(3));
    let wanted = [Fact::Symmetric, Fact::PositiveDefinite, Fact::MMatrix];
    let probe = facts::probe(&op, params, &data).unwrap();
    let known = facts::test(source, &op, &wanted, params, &data).unwrap();
    for (early, late) in facts::establish(&op, &wanted).iter().zip(&known) {
        for fact in [early, late] {
            let holds = probe.holds(fact.fact);
            match fact.standing {
                Standing::Proved | Standing::Tested => assert!(holds.is_ok(), "{fact:?}: {holds:?}\n{probe:?}"),
                Standing::Refuted => assert!(holds.is_err(), "{fact:?}: {holds:?}\n{probe:?}"),
                Standing::ToTest | Standing::Assumed => {}
            }
        }
        assert_ne!(late.standing, Standing::ToTest);
    }
    let evaluator = Evaluator::new(&op, params, &data).unwrap();
    let (ones, matrix) = (vec![1.0; evaluator.unknowns()], evaluator.matrix());
    if op.nullspace {
        let (sums, scale) = (evaluator.linear(&ones), evaluator.magnitude(&ones));
        assert!(sums.iter().zip(&scale).all(|(s, m)| s.abs() <= 1e-12 * m), "{sums:?}");
    }
    let magnitude = evaluator.magnitude(&ones);
    for (r, row) in couplings::matrix(&op, &evaluator, |_, _| true).iter().enumerate() {
        let inside = |unknown: usize| evaluator.active()[unknown % evaluator.points()];
        for c in (0..evaluator.unknowns()).filter(|c| inside(r) && inside(*c)) {
            let (a, b) = (row.get(&c).copied().unwrap_or(0.0), matrix.at(r, c));
            assert!((a - b).abs() <= 1e-12 * magnitude[r].max(1e-300), "({r}, {c}): {a} from terms, {b}");
        }
    }
}

#[test]
fn random_programs_have_the_oracles_matrix() {
    for seed in 0..300 {
        let text = operator(seed);
        let program = program(&text);
        println!("{seed}\n{text}");
        matrices::check(&program.operators[0], &sizes(&program), &[1.25, 0.25]);
    }
}

#[test]
fn facts_of_random_programs_are_so() {
    for seed in 0..200 {
        let text = operator(seed);
        let program = program(&text);
        let sizes: Vec<u64> = sizes(&program).iter().map(|n| (*n).min(5)).collect();
        println!("{seed}\n{text}");
        sound(&program.operators[0], &sizes, &[1.25, 0.25]);
    }
}

/// Symmetric more often than random programs: fluxes and point forms with coefficients that agree, or nearly so.
#[test]
fn facts_of_nearly_symmetric_programs_are_so() {
    let mut proved = 0;
    for seed in 0..150 {
        let mut r = Random::new(seed);
        let rules = ["no_flux", "periodic", "dirichlet(0)"];
        let (x, y) = (*r.pick(&rules), *r.pick(&rules));
        let w = *r.pick(&["1", "2 + i", "2 + j", "(2 + i) * (1 + j)", "a"]);
        let factor = *r.pick(&["", "a * ", "(1 + i) * ", "(1 + j) * "]);
        let mass = *r.pick(&["0 * u", "b * u", "u", "(i - 2) * u"]);
        let far = *r.pick(&[
            "",
            " - c * u[j+2] - c[j-2] * u[j-2]",
            " - c * (u[j+1] - u) - c[j-1] * (u[j-1] - u)",
            " - c * u[i+1, j-1] - c[i-1, j+1] * u[i-1, j+1]",
        ]);
        let c = *r.pick(&["1", "1 + j", "1 + i"]);
        let centring = *r.pick(&["cells", "nodes"]);
        let text = format!(
            "operator op {{ grid {centring} [i: ni, j: nj]; param a, b;
                let w = {w}; let c = 0 * (i + j) + {c};
                flux X[i+1/2] = w * (u[i+1] - u);
                apply u => {mass} - {factor}div(X){far};
                boundary i: {x}; boundary j: {y}; }}
             problem main {{ operator op(ni = 4, nj = 5, a = 1, b = 1); rhs random(seed = 1); solver richardson; }}"
        );
        println!("{seed}\n{text}");
        let program = program(&text);
        for sizes in [[4, 5], [1, 2], [2, 1], [3, 3]] {
            sound(&program.operators[0], &sizes, &[1.25, 0.25]);
        }
        let op = lower(&program.operators[0], &[4, 5]).unwrap();
        proved += usize::from(facts::establish(&op, &[Fact::Symmetric])[0].standing == Standing::Proved);
    }
    assert!((20..130).contains(&proved), "{proved} of 150");
}

#[test]
fn examples_are_lowered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/programs");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "kw"));
    assert!(!files.is_empty());
    files.sort();
    for file in files {
        let program = program(&std::fs::read_to_string(&file).unwrap());
        for op in &program.operators {
            let sizes: Vec<u64> = op.axes.iter().map(|_| 4).collect();
            let params: Vec<f64> = op.params.iter().map(|p| p.default.unwrap_or(0.5)).collect();
            println!("{}: {}", file.display(), op.name);
            matrices::check(op, &sizes, &params);
            sound(op, &sizes, &params);
        }
    }
}

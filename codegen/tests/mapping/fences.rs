//! Scalar programs: order, status word, history, predicates; tables.

use kernelwright_codegen::kernel::Element;
use kernelwright_codegen::loops::*;
use kernelwright_codegen::map::{Finish, Target, Variant};
use kernelwright_codegen::math_eval::Evaluator;
use kernelwright_codegen::module::Arg;
use kernelwright_syntax::program::{CompareOp, Outcome};

use crate::support::*;

const ALPHA: ScalarId = ScalarId(5);
const BETA: ScalarId = ScalarId(6);

fn case() -> Case {
    let text = "operator plain { grid cells [i: nx]; apply u => 2*u - u[i+1] - u[i-1]; boundary i: dirichlet(0); }
problem main { operator plain(nx = 70); rhs random(seed = 1); solver richardson; iterations 3; }
";
    Case::parse(text, 1)
}

fn assign(scalar: ScalarId, value: ScalarExpr) -> ScalarStmt {
    ScalarStmt::Assign { scalar, value, text: "scalar = value".into() }
}

fn scalar(s: ScalarId) -> ScalarExpr {
    ScalarExpr::Scalar(s)
}

/// `alpha = norm(u)^2; check alpha <= tolerance; require alpha > 1; beta = 7`.
fn program(case: &Case) -> Program {
    let mut build = Build::new(&case.op, &["u", "w"]);
    build.program.sums = vec![SumKind::Add];
    build.program.requires =
        vec![RequireInfo { outcome: Outcome::Breakdown, text: "require alpha > 1".into(), line: 1 }];
    build.sweep("norms", Granule::Point, vec![value("u", load(0))], vec![store(0, 1)], vec![sum(0, 0, Some(0))]);
    let positive = ScalarCondition::Compare(CompareOp::Gt, scalar(ALPHA), ScalarExpr::Number(1.0));
    let statements = vec![
        assign(ALPHA, ScalarExpr::Sum(SumId(0))),
        ScalarStmt::Check { measure: scalar(ALPHA), bound: scalar(ScalarId::TOLERANCE) },
        ScalarStmt::Require { number: 0, condition: positive },
        assign(BETA, ScalarExpr::Number(7.0)),
    ];
    build.program.fences.push(Fence { name: "test_norm".into(), statements, predicate: None });
    build.program
}

fn check(u: f64, tolerance: f64, status: [i64; 2], beta: f64) {
    let case = case();
    let program = program(&case);
    for target in [Target::Cuda, Target::Host] {
        let mut machine = Machine::new(&case, &program, target, Element::F64, None);
        machine.write(0, &vec![u; case.len()]);
        machine.set_scalars(&[tolerance, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        machine.sweep(0);
        machine.fence(0);
        assert_eq!(machine.status(), status, "{}", machine.text(target));
        assert_eq!(machine.scalar(6), beta);
        if u.is_finite() {
            let total = 70.0 * u * u;
            close("measure", &[machine.scalar(2)], &[total], |_| 1e-12 * total, String::new);
            close("history", &machine.history()[2..3], &[total], |_| 1e-12 * total, String::new);
            assert_eq!(machine.history()[3], -1.0);
        }
        // Once the status is raised, nothing happens any more.
        let before = machine.read(1);
        machine.write(0, &vec![u + 1.0; case.len()]);
        machine.sweep(0);
        assert_eq!(machine.read(1) == before || u.is_nan(), status[0] != 0);
    }
}

#[test]
fn statements_run_until_one_raises() {
    check(1.0, 0.5, [0, 0], 7.0);
    check(0.25, 8.0, [i64::from(status::CONVERGED), 2], 0.0);
    check(0.1, 1e-9, [i64::from(status::REQUIRE), 2], 0.0);
}

#[test]
fn sums_that_are_not_finite_are_reported() {
    check(f64::INFINITY, 1.0, [i64::from(status::NOT_FINITE), 2], 0.0);
}

/// The same, done by every block of a sweep that follows and stores `beta*u`.
#[test]
fn every_block_of_the_next_sweep_runs_the_statements() {
    let case = case();
    let mut program = program(&case);
    let mut build = Build::new(&case.op, &["u", "w"]);
    let scaled = PointExpr::Binary(BinaryOp::Mul, PointExpr::Scalar(BETA).into(), PointExpr::Value(ValueId(0)).into());
    let values = vec![value("u", load(0)), value("w", ValueKind::Map(scaled))];
    build.sweep("after", Granule::Point, values, vec![store(1, 1)], vec![]);
    program.sweeps.append(&mut build.program.sweeps);
    let [first, fence, after] = [Control::Sweep(SweepId(0)), Control::Fence(FenceId(0)), Control::Sweep(SweepId(1))];
    program.body = vec![first, fence, after];
    let small = Variant { block: Some([32, 1]), chunk: Some(1), ..Variant::default() };
    let cases = [
        (1.0, 0.5, [0, 0]),
        (0.25, 8.0, [i64::from(status::CONVERGED), 2]),
        (0.1, 1e-9, [i64::from(status::REQUIRE), 2]),
        (f64::INFINITY, 1.0, [i64::from(status::NOT_FINITE), 2]),
    ];
    for (u, tolerance, raised) in cases {
        let [expected, found] = [Finish::Own, Finish::Next].map(|fence| {
            let variant = Variant { fence: Some(fence), ..small.clone() };
            let mut machine = Machine::new(&case, &program, Target::Cuda, Element::F64, Some(variant));
            machine.write(0, &vec![u; case.len()]);
            machine.write(1, &vec![5.0; case.len()]);
            machine.set_scalars(&[tolerance, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0]);
            machine.sweep(0);
            machine.fence(0);
            machine.sweep(1);
            machine
        });
        assert_eq!(found.module.fences[0].len(), 0, "{}", found.text(Target::Cuda));
        assert!(found.module.kernels[1].grid[0] > 1, "one block shows nothing");
        assert_eq!(found.status(), raised);
        let all = |m: &Machine| ((0..7).map(|s| m.scalar(s)).collect::<Vec<_>>(), m.history(), m.read(1));
        assert_eq!(format!("{:?}", all(&found)), format!("{:?}", all(&expected)), "{}", found.text(Target::Cuda));
    }
}

#[test]
fn a_predicate_skips_sweeps_and_fences() {
    let case = case();
    let mut program = program(&case);
    program.sweeps[0].predicate = Some(BETA);
    program.fences[0].predicate = Some(BETA);
    for target in [Target::Cuda, Target::Host] {
        for (beta, written) in [(0.0, 5.0), (1.0, 3.0)] {
            let mut machine = Machine::new(&case, &program, target, Element::F64, None);
            machine.write(0, &vec![3.0; case.len()]);
            machine.write(1, &vec![5.0; case.len()]);
            machine.set_scalars(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, beta]);
            machine.sweep(0);
            machine.fence(0);
            assert_eq!(machine.read(1), vec![written; case.len()]);
            assert_eq!(machine.scalar(2) != 0.0, beta != 0.0);
        }
    }
}

#[test]
fn tables_of_random_operators() {
    let mut checked = 0;
    for seed in 0..60 {
        let case = Case::random(seed);
        let reference = Evaluator::new(&case.op, &case.params, &case.data).unwrap();
        // A sweep that reads all it can.
        let mut build = Build::new(&case.op, &["u", "q", "g", "d"]);
        let values = vec![
            value("u", load(0)),
            value("q", ValueKind::Apply(ValueId(0))),
            value("g", ValueKind::AffinePart),
            value("d", ValueKind::Diagonal(ValueId(0))),
        ];
        build.sweep("all", Granule::Point, values, vec![store(1, 1), store(2, 2), store(3, 3)], vec![]);
        for (target, precision) in ENGINES {
            let machine = Machine::new(&case, &build.program, target, precision, None);
            let set = |table: &usize| machine.module.setup.iter().any(|l| l.args.contains(&Arg::Module(*table)));
            let tables: Vec<usize> = (0..case.op.tables.len()).filter(set).collect();
            checked += tables.len();
            for table in tables {
                let want = reference.table(table);
                let eps = 8.0 * epsilon(precision);
                close("table", &machine.table(table), want, |n| eps * want[n].abs(), || machine.text(target));
            }
        }
    }
    assert!(checked > 400, "only {checked} tables were set up");
}

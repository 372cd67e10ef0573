//! Limits, arguments, host access to memory, and the field modulo p.

use kernelwright_codegen::interp::*;
use kernelwright_codegen::kernel::*;

use crate::interp_support::*;

fn counting(blocks: u64, trips: E) -> Kernel {
    let mut b = Builder::new("counting", blocks, 32);
    let n = b.input("n", Element::I64, 1);
    let sum = b.declare("sum", Type::Int, load(n, 0));
    b.repeat(0, trips, |b, _| b.assign(sum, var(sum) + 1));
    let mut kernel = b.finish();
    kernel.index = IndexWidth::I64;
    kernel
}

#[test]
fn refuses_large_kernels_before_and_during() {
    let mut bench = Bench::<f64>::new();
    let n = bench.ints(Element::I64, &[1 << 40]);
    let options = Options { max_steps: 1_000_000, ..Options::default() };
    let mut refusal = |kernel: &Kernel| match launch(kernel, &[n], &mut bench.0, &options) {
        Err(InterpError::TooLarge { started, steps, limit: 1_000_000, .. }) if steps > 1_000_000 => started,
        other => panic!("{other:?}"),
    };
    assert!(!refusal(&counting(1 << 50, int(1))));
    assert!(!refusal(&counting(1, int(1 << 30))));
    assert!(refusal(&counting(1, load(BufferId(0), 0))));
    let mut b = Builder::new("large", 1 << 16, 32);
    b.private("held", Element::F64, 64);
    b.grid_barrier();
    let error = launch(&b.finish(), &[], &mut Memory::new(Native), &Options::default()).unwrap_err();
    assert!(matches!(error, InterpError::TooMuchMemory { words, .. } if words == (64 * 32) << 16), "{error}");
    let text = launch(&counting(1, int(1 << 30)), &[n], &mut bench.0, &options).unwrap_err().to_string();
    assert!(text.starts_with("kernel `counting` needs at least 68719476768 lane steps"), "{text}");
}

#[test]
fn arguments_are_checked() {
    let mut b = Builder::new("copy", 1, 4);
    let (u, v) = (b.input("u", Element::F64, 4), b.output("v", Element::F64, 4));
    b.store(v, lane(), load(u, lane()));
    let kernel = b.finish();
    let mut bench = Bench::<f64>::new();
    let good = bench.reals(&[0.0; 4]);
    let (short, single) = (bench.reals(&[0.0; 3]), bench.empty(Element::F32, 4));
    let mut error = |args: &[BufferHandle]| match launch(&kernel, args, &mut bench.0, &Options::default()) {
        Err(InterpError::Argument(text)) => text,
        other => panic!("{other:?}"),
    };
    assert_eq!(error(&[good]), "kernel `copy`: 1 arguments for 2 global buffers");
    assert_eq!(error(&[good, short]), "kernel `copy`: `v` needs 4 elements, not 3");
    assert_eq!(error(&[good, single]), "kernel `copy`: `v` has F64 elements, not F32");
    assert_eq!(error(&[good, good]), "kernel `copy`: `u` and `v` are one buffer, and written");
    let mut memory = bench.0;
    memory.free(short);
    assert!(matches!(memory.reals(short), Err(InterpError::Argument(_))));
    assert!(matches!(memory.write(good, &[0.0; 5]), Err(InterpError::Argument(_))));
}

#[test]
fn ill_formed_kernels_are_errors() {
    let mut b = Builder::new("ill", 1, 4);
    b.comment("adds a real to an integer");
    b.set("sum", Type::Int, lane() + real(1.0, Type::F64));
    match Prepared::new(&b.finish()) {
        Err(InterpError::Malformed { place, .. }) => assert_eq!(place, "body[1]"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn bounds_of_loops_stay() {
    let bound = |load_bound: bool| {
        let mut b = Builder::new("moving", 1, 1);
        let count = b.global("count", Element::I32, 1);
        let limit = b.declare("limit", Type::Int, 3);
        let to = if load_bound { load(count, 0) } else { var(limit) };
        b.repeat(0, to, |b, n| if load_bound { b.store(count, 0, n) } else { b.assign(limit, n) });
        b.finish()
    };
    for kernel in [bound(true), bound(false)] {
        let error = Prepared::new(&kernel).unwrap_err().to_string();
        assert_eq!(
            error,
            "kernel `moving` is not well formed at body[1]: a loop whose bound reads what its body changes"
        );
    }
}

/// status[0] = 1 where the measure is within the bound.
fn status_kernel() -> Kernel {
    let mut b = Builder::new("test", 1, 1);
    let measure = b.input("measure", Element::F64, 2);
    let status = b.global("status", Element::I32, 1);
    let runs = b.output("runs", Element::I32, 1);
    b.push(Stmt::ExitIf(compare(Cmp::Ne, load(status, 0), 0).0));
    b.store(runs, 0, 1);
    b.when(compare(Cmp::Le, load(measure, 0), load(measure, 1)), |b| b.store(status, 0, 1));
    b.when(E(Expr::Not(Box::new(compare(Cmp::Gt, load(measure, 0), load(measure, 1)).0))), |b| {
        b.store(status, 0, 16);
    });
    b.finish()
}

#[test]
fn tests_of_a_loop_can_be_overridden() {
    let run = |compare: CompareMode, measure: [f64; 2], frozen: bool| {
        let mut memory = Memory::new(Modular { compare });
        let buffers = [(Element::F64, 2), (Element::I32, 1), (Element::I32, 1)];
        let args = buffers.map(|(element, len)| memory.allocate(element, len));
        memory.write(args[0], &measure).unwrap();
        memory.clear(args[1]).unwrap();
        memory.freeze(args[1], frozen).unwrap();
        launch(&status_kernel(), &args, &mut memory, &Options::default()).unwrap();
        memory.ints(args[1]).unwrap()[0]
    };
    let orders = [[1.0, 2.0], [2.0, 1.0]];
    assert_eq!(orders.map(|measure| run(CompareMode::LeftLarger, measure, false)), [0, 0]);
    assert_eq!(orders.map(|measure| run(CompareMode::By(|cmp, _, _| cmp == Cmp::Gt), measure, false)), [0, 0]);
    // Of a total order exactly one holds; equal residues always meet the bound.
    let mut hashed = orders.map(|measure| run(CompareMode::Hash, measure, false));
    hashed.sort();
    assert_eq!(hashed, [0, 16]);
    assert_eq!(run(CompareMode::Hash, [3.0, 3.0], false), 16);
    assert_eq!(run(CompareMode::LeftLarger, [3.0, 3.0], false), 16);
    assert_eq!(run(CompareMode::Hash, [3.0, 3.0], true), 0);
}

#[test]
fn constants_are_exact_modulo_p() {
    let field = Modular::default();
    let constant = |value| field.constant(value, Precision::F64).unwrap();
    let p = (1u64 << 61) - 1;
    assert_eq!(constant(-3.0), Residue::new(p - 3));
    assert_eq!(constant(0.75) * constant(4.0), Residue::new(3));
    assert_eq!(constant(2f64.powi(61)), Residue::ONE);
    assert_eq!(constant(5e-324) * constant(2f64.powi(1000)) * constant(2f64.powi(74)), Residue::ONE);
    // 0.1 is the f64 next to it, not a tenth: m / 2^55.
    assert_eq!(constant(0.1) * constant(2f64.powi(55)), Residue::new(3_602_879_701_896_397));
    assert_ne!(constant(0.1) * constant(10.0), Residue::ONE);
    assert_eq!(field.constant(f64::INFINITY, Precision::F64), None);
    assert_eq!(Residue::signed(i64::MIN) + Residue::signed(i64::MAX), Residue::signed(-1));
}

#[test]
fn functions_are_uninterpreted_modulo_p() {
    let field = Modular::default();
    let call = |function, args: &[Residue]| field.call(function, args, Precision::F32).unwrap();
    let mut rng = Rng(1);
    for _ in 0..100 {
        let (a, b, c) = (Residue::random(&mut rng), Residue::random(&mut rng), Residue::random(&mut rng));
        assert_eq!(call(Math::Fma, &[a, b, c]), a * b + c);
        assert_eq!(a * a.inverse().unwrap(), Residue::ONE);
        assert_eq!(call(Math::Pow, &[a, Residue::signed(-2)]) * a * a, Residue::ONE);
        assert_eq!(call(Math::Abs, &[a]), call(Math::Abs, &[-a]));
        assert_eq!(call(Math::Exp, &[a]), call(Math::Exp, &[a]));
        assert_ne!(call(Math::Exp, &[a]), call(Math::Log, &[a]));
        assert_ne!(call(Math::Pow, &[a, b]), call(Math::Pow, &[b, a]));
        let max = |a, b| field.binary(Op::Max, a, b, Precision::F32).unwrap();
        assert_eq!(max(a, max(b, c)), max(max(c, a), b));
        assert_eq!(field.compare(Cmp::Lt, a, b), field.compare(Cmp::Gt, b, a));
        assert_ne!(field.compare(Cmp::Lt, a, b), field.compare(Cmp::Ge, a, b));
    }
}

#[test]
fn positions_in_three_dimensions() {
    let mut b = Builder::new("positions", 2, 3);
    b.kernel.grid = [2, 3, 2];
    b.kernel.lanes = [3, 2, 2];
    let out = b.output("out", Element::I32, 144);
    let at = |n| E(Expr::Block(n));
    let lane_at = |n| E(Expr::Lane(n));
    let thread = b.set("thread", Type::Int, (lane_at(2) * 2 + lane_at(1)) * 3 + lane_at(0));
    let number = b.set("number", Type::Int, (at(2) * 3 + at(1)) * 2 + at(0));
    b.store(out, number.clone() * 12 + thread.clone(), at(1) * 100 + lane_at(2) * 10 + lane_at(1));
    let mut bench = Bench::<f64>::new();
    let out = bench.empty(Element::I32, 144);
    bench.launch(&b.finish(), &[out]);
    let expected = (0..144).map(|n| n / 12 / 2 % 3 * 100 + n % 12 / 6 * 10 + n / 3 % 2);
    assert_eq!(bench.0.ints(out).unwrap(), expected.collect::<Vec<i64>>());
}

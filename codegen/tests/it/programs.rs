//! A program all the way to kernels: verified, printed and compiled.

use kernelwright_codegen::kernel::{Element, Kernel};
use kernelwright_codegen::kernel_verify::verify_all;
use kernelwright_codegen::map::{Options, Target, Variant, map};
use kernelwright_codegen::plan::schedule::{Arithmetic, Order, Schedule};
use kernelwright_codegen::{apply, lower, print, trace};
use kernelwright_syntax::program::{Precision, Problem, Program};

use crate::c_program::compile;

fn kernels(program: &Program, problem: &Problem, target: Target, precision: Precision) -> Vec<Kernel> {
    let sizes: Vec<u64> = problem.sizes.iter().map(|&size| size as u64).collect();
    let operator = lower::lower(&program.operators[problem.operator], &sizes).expect("examples lower");
    let graph = trace::trace(trace::Input {
        operator: &operator,
        solvers: &program.solvers,
        solver: problem.solver,
        preconditioner: &problem.preconditioner,
        precision,
    });
    let graph = graph.expect("examples trace");
    let loops = apply::apply(&graph, &in_order()).expect("program order is legal");
    let precision = if precision == Precision::F32 { Element::F32 } else { Element::F64 };
    let options = Options { target, precision, history_len: 100, variant: Variant::default() };
    map(&loops, &options).expect("examples map").kernels
}

fn in_order() -> Schedule {
    Schedule {
        name: "fused".to_owned(),
        order: Order::Fused,
        main: None,
        recovered: None,
        predicted: None,
        arithmetic: Arithmetic::Same,
    }
}

#[test]
fn a_program_becomes_valid_kernels() {
    let text = include_str!("../../../examples/programs/poisson_2d.kw");
    let program = kernelwright_syntax::compile("poisson_2d.kw", text).expect("examples are correct");
    let problem = &program.problems[0];
    for precision in [Precision::F32, Precision::F64] {
        for target in [Target::Cuda, Target::Host] {
            let kernels = kernels(&program, problem, target, precision);
            let label = format!("{}_{precision:?}_{target:?}", problem.name);
            if let Err(errors) = verify_all(&kernels) {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                panic!("{label}:\n{}", errors.join("\n"));
            }
            compile(&format!("{label}.o"), &print::c(&kernels), &["-c"]);
            let cuda = print::cuda_with_lines(&kernels);
            let names: Vec<&str> = cuda.functions.iter().map(|mark| mark.text.as_str()).collect();
            assert_eq!(names, kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>());
        }
    }
}

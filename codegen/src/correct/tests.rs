//! The residual program of every solver of the library, and the kernels that move vectors.

use kernelwright_syntax::program::Preconditioner;

use super::transfer::Transfer;
use super::*;
use crate::loops::{Control, ScalarStmt};
use crate::map::Target;
use crate::math::{Rule, TableExpr};
use crate::plan::cases::Case;

#[test]
fn every_library_solver_has_a_residual_program_without_its_loop() {
    for name in kernelwright_syntax::library::names() {
        for case in [
            Case::library(name, Preconditioner::Line(2)),
            Case::library(name, Preconditioner::Identity).singular(),
            Case::library(name, Preconditioner::Jacobi).boundary_values(),
        ] {
            let (program, kept) = residual(&case.graph()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(program.body.is_empty() && !program.residual.is_empty(), "{name}");
            let owned = program.vectors.len();
            assert!(owned <= 4, "{name}: f, rhs, u and r, not the loop's vectors: {owned}");
            let Some(Control::Sweep(first)) = program.residual.first() else { panic!("{name}: a sweep comes first") };
            let stores = &program.sweeps[first.0].stores;
            assert!(stores.iter().any(|store| store.to.vector == kept), "{name}: the residual is stored");
            let raises = |s: &ScalarStmt| matches!(s, ScalarStmt::Check { .. } | ScalarStmt::Require { .. });
            assert!(!program.fences.iter().flat_map(|f| &f.statements).any(raises), "{name}");
        }
    }
}

#[test]
fn corrections_have_no_boundary_values() {
    let case = Case::library("cg", Preconditioner::Identity).boundary_values();
    let operator = homogeneous(&case.operator);
    assert!(crate::math_verify::verify(&operator).is_ok());
    assert_eq!(operator.tables.len(), case.operator.tables.len() + 1, "the old table may serve coefficients too");
    for rule in operator.boundary.iter().flatten() {
        if let Rule::Dirichlet(table) = rule {
            assert_eq!(operator.tables[*table].value, TableExpr::Number(0.0));
        }
    }
}

#[test]
fn corrections_have_no_sources() {
    let plain = Case::library("cg", Preconditioner::Identity).operator;
    let with = Case::library("cg", Preconditioner::Identity).source().operator;
    assert_ne!(with.rows, plain.rows);
    assert_eq!(homogeneous(&with).rows, plain.rows, "the residual has the row's constant in it already");
    assert_eq!(homogeneous(&plain).rows, plain.rows);
}

#[test]
fn transfers_are_well_formed_at_every_length() {
    for target in [Target::Host, Target::Cuda] {
        for len in [1, 255, 256, 257, 1 << 14, (1 << 14) + 1, 1 << 33] {
            let kernels = [Transfer::Assign, Transfer::Add, Transfer::Clear].map(|t| t.kernel(target, len));
            crate::kernel_verify::verify_all(&kernels).unwrap_or_else(|e| panic!("{target:?} {len}: {e:?}"));
        }
    }
}

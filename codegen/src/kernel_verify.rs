//! The verifier: what it accepts, the printers and the interpreter can handle without checks.
//!
//! Run after every pass. [`verify`] reports all violations of the invariants at the top of [`kernel`](crate::kernel)
//! at once, each with the place and the text of the statement. Beyond those invariants it refuses
//! - blocks, grids, shared memory and launch bounds that no device has, and positions that the index width cannot hold;
//! - indices known to lie outside of a buffer, wide accesses known not to be aligned, and division by zero, as far as
//!   constants tell;
//! - vector loops that are more than independent iterations with sums: see [`reduction`](crate::kernel_walk::reduction).
//!
//! What depends on data (bounds, initialisation, conflicts between lanes) is for the interpreter. The analysis of
//! [uniformity](uniform) assumes that there are no conflicts: then lanes that load one element between the same two
//! barriers load the same value.

mod body;
mod header;
mod residue;
#[cfg(test)]
mod tests;
mod types;
mod uniform;

use std::borrow::Borrow;

use crate::kernel::{BufferId, Expr, Kernel, Stmt, VarId};
use crate::kernel_text::headline;
use crate::kernel_walk::{each_expr, each_stmt};

/// Bytes of shared memory a block may have on any device we print for.
pub const MAX_SHARED_BYTES: u64 = 227 * 1024;
/// Shared memory that arrays declared in a kernel may take; more has to be asked for at launch.
pub const STATIC_SHARED_BYTES: u64 = 48 << 10;

/// A violated invariant: a bug of the pass before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelError {
    /// Name of the kernel.
    pub kernel: String,
    /// The statement, as path and text: ``body[3].then[0] `z[i] = x` ``; or the part of the header.
    pub at: String,
    /// What is wrong.
    pub why: String,
}

impl std::fmt::Display for KernelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kernel {}, {}: {}", self.kernel, self.at, self.why)
    }
}

impl std::error::Error for KernelError {}

/// Checks one kernel.
pub fn verify(kernel: &Kernel) -> Result<(), Vec<KernelError>> {
    let mut report = Report { kernel, errors: Vec::new() };
    header::check(&mut report);
    // Everything else looks ids up.
    if ids_in_range(&mut report) {
        body::check(&mut report);
    }
    if report.errors.is_empty() { Ok(()) } else { Err(report.errors) }
}

/// Checks kernels that are to be printed into one source: each one, and that their names differ.
pub fn verify_all<K: Borrow<Kernel>>(kernels: &[K]) -> Result<(), Vec<KernelError>> {
    let kernels: Vec<&Kernel> = kernels.iter().map(Borrow::borrow).collect();
    let mut errors: Vec<KernelError> = kernels.iter().filter_map(|kernel| verify(kernel).err()).flatten().collect();
    for (n, kernel) in kernels.iter().enumerate() {
        if kernels[..n].iter().any(|other| other.name == kernel.name) {
            let why = "another kernel of the same source has this name".to_owned();
            errors.push(KernelError { kernel: kernel.name.clone(), at: "name".to_owned(), why });
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Errors so far.
struct Report<'a> {
    kernel: &'a Kernel,
    errors: Vec<KernelError>,
}

impl Report<'_> {
    fn error(&mut self, at: impl Into<String>, why: impl Into<String>) {
        self.errors.push(KernelError { kernel: self.kernel.name.clone(), at: at.into(), why: why.into() });
    }
}

/// Checks that ids name something.
fn ids_in_range(report: &mut Report<'_>) -> bool {
    let kernel = report.kernel;
    let before = report.errors.len();
    let bad_var = |var: &VarId| var.0 >= kernel.vars.len();
    let bad_buffer = |buffer: &BufferId| buffer.0 >= kernel.buffers.len();
    let quoted = |stmt: &Stmt| format!("`{}`", headline(kernel, stmt));
    each_stmt(&kernel.body, &mut |stmt| {
        let assigned = match stmt {
            Stmt::Assign(var, _) => Some(*var),
            _ => None,
        };
        let summed = match stmt {
            Stmt::For { kind, .. } => crate::kernel_walk::simd_sums(kind),
            _ => &[],
        };
        let mut vars = stmt.declares().into_iter().chain(assigned).chain(summed.iter().copied());
        if let Some(var) = vars.find(bad_var) {
            report.error(quoted(stmt), format!("there is no variable {}", var.0));
        }
        let loaded = match stmt {
            Stmt::LoadWide { buffer, .. } => Some(*buffer),
            _ => None,
        };
        if let Some(buffer) = stmt.stores_to().into_iter().chain(loaded).find(bad_buffer) {
            report.error(quoted(stmt), format!("there is no buffer {}", buffer.0));
        }
    });
    each_expr(&kernel.body, &mut |expr| match expr {
        Expr::Var(var) if bad_var(var) => report.error("body", format!("there is no variable {}", var.0)),
        Expr::Load(buffer, _) if bad_buffer(buffer) => report.error("body", format!("there is no buffer {}", buffer.0)),
        _ => {}
    });
    report.errors.len() == before
}

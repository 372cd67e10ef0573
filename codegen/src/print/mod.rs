//! Printers: verified kernels as CUDA C++ ([`cuda`]) and as C11 ([`c`]).
//!
//! Only what [`verify`](crate::kernel_verify::verify) accepts is to be printed (names unique among the kernels of one
//! source, too: [`verify_all`](crate::kernel_verify::verify_all)); printing cannot fail. The text depends on the
//! kernels alone.
//!
//! # Arithmetic
//! - Expressions group exactly as in the IR; the types of operands are those of the IR (no `double` literal in `float`
//!   arithmetic). Whether `a * b + c` is contracted is left to the compiler's options.
//! - `Min` and `Max` of reals are `fmin` and `fmax`: where one operand is NaN the result is the other one, and of two
//!   zeros either may come out. A maximum in which NaN wins is written with comparisons.
//! - `IsFinite` gives the real number one or zero.
//!
//! # Calling a kernel
//! CUDA: the function has C linkage and one pointer argument per global buffer, in order; the block is
//! `lanes[0] × lanes[1] × lanes[2]` threads; [`dynamic_shared_bytes`] are to be given at launch; kernels that
//! [wait for the grid](crate::kernel::Kernel::waits_for_grid) are launched cooperatively, and no two launches of one
//! such kernel may overlap.
//!
//! C: `void NAME(long long block_x, long long block_y, long long block_z, void *const *buffers)` runs one block;
//! `buffers` holds one pointer per global buffer, in order. Blocks may run at the same time on several threads. A
//! kernel that waits for the grid has no C text (its source is an `#error`).
//!
//! Both: within one launch all buffers are distinct memory (pointers are `restrict`), aligned to 16 bytes or better.

mod body;
mod c;
mod choice;
mod cuda;
pub(crate) mod expr;
mod lanes;
mod numbers;
pub mod reserved;
mod writer;

pub use cuda::dynamic_shared_bytes;
pub use writer::{Mark, Printed};

use std::borrow::Borrow;

use crate::kernel::Kernel;

/// CUDA C++ source without includes, for NVRTC.
pub fn cuda<K: Borrow<Kernel>>(kernels: &[K]) -> String {
    cuda_with_lines(kernels).text
}

/// As [`cuda`], with the place of every function and statement.
pub fn cuda_with_lines<K: Borrow<Kernel>>(kernels: &[K]) -> Printed {
    cuda::print(&borrowed(kernels))
}

/// C11 source for the host's compiler; wants `-fopenmp-simd` for vector loops.
pub fn c<K: Borrow<Kernel>>(kernels: &[K]) -> String {
    c_with_lines(kernels).text
}

/// As [`c`], with the place of every function and statement.
pub fn c_with_lines<K: Borrow<Kernel>>(kernels: &[K]) -> Printed {
    c::print(&borrowed(kernels))
}

fn borrowed<K: Borrow<Kernel>>(kernels: &[K]) -> Vec<&Kernel> {
    kernels.iter().map(Borrow::borrow).collect()
}

/// The comment above a function.
fn header(out: &mut writer::Writer, kernel: &Kernel) {
    for line in &kernel.doc {
        out.comment(line);
    }
    let [gx, gy, gz] = kernel.grid;
    let [lx, ly, lz] = kernel.lanes;
    let lanes = if kernel.lane_count() == 1 { String::new() } else { format!(" of {lx} x {ly} x {lz} lanes") };
    out.comment(&format!("{gx} x {gy} x {gz} blocks{lanes}"));
}

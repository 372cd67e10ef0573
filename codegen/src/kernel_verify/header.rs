//! Checks of everything but the statements: names, sizes, memory.

use super::{MAX_SHARED_BYTES, Report};
use crate::kernel::{IndexWidth, Kernel, MULTIPROCESSOR_LANES, Space};
use crate::kernel_walk::Usage;
use crate::print::reserved::{is_identifier, is_library_function, is_reserved};

pub(super) fn check(report: &mut Report<'_>) {
    names(report);
    launch(report);
    buffers(report);
}

fn names(report: &mut Report<'_>) {
    let kernel = report.kernel;
    name(report, "name", &kernel.name);
    if is_library_function(&kernel.name) {
        report.error("name", format!("`{}` is a function of the C library", kernel.name));
    }
    let buffers = kernel.buffers.iter().map(|buffer| ("buffer", &buffer.name));
    let vars = kernel.vars.iter().map(|var| ("variable", &var.name));
    let mut seen = vec![&kernel.name];
    for (kind, of) in buffers.chain(vars) {
        let at = format!("{kind} {of}");
        name(report, &at, of);
        if seen.contains(&of) {
            report.error(at, "the name is taken by another variable, buffer or the kernel");
        } else {
            seen.push(of);
        }
    }
}

fn name(report: &mut Report<'_>, at: &str, name: &str) {
    if !is_identifier(name) {
        report.error(at, format!("`{name}` is not an identifier in C and CUDA C++"));
    } else if is_reserved(name) {
        report.error(at, format!("`{name}` has a meaning of its own in C or CUDA C++"));
    }
}

fn launch(report: &mut Report<'_>) {
    let kernel = report.kernel;
    let lanes = kernel.lane_count();
    if lanes == 0 || lanes > 1024 {
        report.error("lanes", format!("a block has {lanes} lanes; 1 to 1024 are possible"));
    } else if kernel.lanes[2] > 64 {
        report.error("lanes", format!("a block has {} lanes along z; at most 64 are possible", kernel.lanes[2]));
    }
    // Host kernels have no limits along y and z, but positions must fit the index.
    let across = if lanes > 1 { 65_535 } else { position_limit(kernel) };
    for (axis, limit) in [position_limit(kernel).min(i32::MAX as u64), across, across].into_iter().enumerate() {
        let blocks = kernel.grid[axis];
        if blocks == 0 || blocks > limit {
            report.error("grid", format!("{blocks} blocks along axis {axis}; 1 to {limit} are possible"));
        }
    }
    if let Some(resident) = kernel.resident_blocks
        && (resident == 0 || u64::from(resident).saturating_mul(lanes) > u64::from(MULTIPROCESSOR_LANES))
    {
        let text = format!("{resident} blocks of {lanes} lanes; a multiprocessor holds {MULTIPROCESSOR_LANES} lanes");
        report.error("resident blocks", text);
    }
    if let Some(width) = kernel.simd_width
        && (!width.is_power_of_two() || width > 64)
    {
        report.error("vector loops", format!("{width} iterations side by side; a power of two up to 64 is possible"));
    }
}

fn position_limit(kernel: &Kernel) -> u64 {
    match kernel.index {
        IndexWidth::I32 => i32::MAX as u64,
        IndexWidth::I64 => i64::MAX as u64,
    }
}

fn buffers(report: &mut Report<'_>) {
    let kernel = report.kernel;
    let usage = Usage::of(kernel);
    let mut shared = 0u64;
    for (n, buffer) in kernel.buffers.iter().enumerate() {
        let at = format!("buffer {}", buffer.name);
        if buffer.extent == 0 && buffer.space != Space::Global {
            report.error(&at, "an array has at least one element");
        }
        if buffer.extent > position_limit(kernel) {
            report.error(&at, format!("{} elements need 64-bit indices", buffer.extent));
        }
        if buffer.space == Space::Shared {
            if kernel.lane_count() == 1 {
                report.error(&at, "a kernel of one lane has no shared buffers");
            }
            let id = crate::kernel::BufferId(n);
            if usage.accessed(id) {
                shared = shared.saturating_add(kernel.buffer_bytes(id)).saturating_add(15) / 16 * 16;
            }
        }
    }
    if shared > MAX_SHARED_BYTES {
        report.error("buffers", format!("{shared} bytes of shared memory; {MAX_SHARED_BYTES} are possible"));
    }
}

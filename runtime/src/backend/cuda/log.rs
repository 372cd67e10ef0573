//! What the assembler reports about kernels (`--ptxas-options=-v`).

use serde::Serialize;

/// Resources of a kernel, as the assembler counts them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Resources {
    /// Name of the kernel.
    pub kernel: String,
    /// Registers a lane.
    pub registers: u32,
    /// Bytes of the stack frame: private arrays that are indexed, and spills.
    pub stack_bytes: u32,
    /// Bytes of spilled registers stored.
    pub spill_stores: u32,
    /// Bytes of spilled registers loaded.
    pub spill_loads: u32,
    /// Bytes of static shared memory a block.
    pub shared_bytes: u32,
}

/// Reads the resources of all kernels, in order, from a log.
pub fn resources(log: &str) -> Vec<Resources> {
    let mut all: Vec<Resources> = Vec::new();
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or_default().to_owned();
            all.push(Resources { kernel, ..Resources::default() });
        }
        let Some(last) = all.last_mut() else { continue };
        for (place, unit) in [
            (&mut last.stack_bytes, "bytes stack frame"),
            (&mut last.spill_stores, "bytes spill stores"),
            (&mut last.spill_loads, "bytes spill loads"),
            (&mut last.registers, "registers"),
            (&mut last.shared_bytes, "bytes smem"),
        ] {
            if let Some(number) = number_before(line, unit) {
                *place = number;
            }
        }
    }
    all
}

/// The number right before a unit.
fn number_before(line: &str, unit: &str) -> Option<u32> {
    let (before, _) = line.split_once(unit)?;
    before.split_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_per_kernel() {
        let log = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 12 registers, used 1 barriers, 16 bytes cumulative stack size, 1024 bytes smem
ptxas info    : Compile time = 0.000 ms
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Used 255 registers, 384 bytes cmem[0]";
        let first = Resources {
            kernel: "first".to_owned(),
            registers: 12,
            stack_bytes: 16,
            spill_stores: 8,
            spill_loads: 12,
            shared_bytes: 1024,
        };
        let second = Resources { kernel: "second".to_owned(), registers: 255, ..Resources::default() };
        assert_eq!(resources(log), [first, second]);
        assert_eq!(resources("no kernels here: 12 registers"), []);
    }
}

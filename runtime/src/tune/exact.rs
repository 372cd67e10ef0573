//! Equality with the default where nothing is rounded.
//!
//! In the integers modulo a prime a candidate must leave exactly what the default leaves, at sizes that make blocks,
//! segments and tiles end in odd places. The interpreter also finds what no kernel may do: readings outside a buffer or
//! of what was never written, and accesses whose order nothing decides. This needs no device and no compiler, and so
//! runs in the threads that compile.

use std::collections::BTreeMap;

use kernelwright_codegen::format::Contents;
use kernelwright_codegen::interp::{BufferHandle, Memory, Modular, Options, Prepared, Residue};
use kernelwright_codegen::kernel::{Element, Kernel, Space};
use kernelwright_codegen::loops::{Program, SumKind};
use kernelwright_codegen::module::{Arg, Module};

use super::bench::Step;
use crate::inputs::random;

/// What a step leaves: by argument, the elements; of sums, the total.
type Left = BTreeMap<String, Vec<i64>>;

/// Runs a step of a module; what it leaves. `data` holds the arrays of a stored matrix, if the operator is one: its
/// integers as they are, for every value that is not zero a random residue.
///
/// # Errors
/// What the kernels do that they may not, with the place.
pub fn left(program: &Program, module: &Module, step: Step, data: &[Contents]) -> Result<Left, String> {
    let mut memory = Memory::new(Modular::default());
    let mut buffers: BTreeMap<String, BufferHandle> = BTreeMap::new();
    let mut written = BTreeMap::new();
    for launch in step.launches(module) {
        let kernel = &module.kernels[launch.kernel];
        let mut args = Vec::new();
        let global = kernel.buffers.iter().filter(|buffer| buffer.space == Space::Global);
        for (arg, buffer) in launch.args.iter().zip(global) {
            let name = name_of(program, module, *arg);
            let handle = match buffers.get(&name) {
                Some(handle) => *handle,
                None => fill(&mut memory, (program, module, step, data), *arg, buffer.element, buffer.extent)?,
            };
            buffers.insert(name.clone(), handle);
            if !buffer.access.is_read() {
                written.insert(name, (*arg, handle));
            }
            args.push(handle);
        }
        run(kernel, &args, &mut memory)?;
    }
    let mut left = Left::new();
    for (name, (arg, handle)) in written {
        if let Some(values) = result(&memory, program, module, arg, handle)? {
            left.insert(name, values);
        }
    }
    Ok(left)
}

/// Holds what a candidate leaves against what the default leaves.
///
/// # Errors
/// What differs first.
pub fn equal(candidate: &Left, default: &Left) -> Result<(), String> {
    for (name, expected) in default {
        let Some(found) = candidate.get(name) else { return Err(format!("{name} is not written")) };
        if let Some(at) = found.iter().zip(expected).position(|(a, b)| a != b) {
            let wrong = found.iter().zip(expected).filter(|(a, b)| a != b).count();
            return Err(format!("{wrong} of {} elements of {name} differ, the first at {at}", expected.len()));
        }
    }
    Ok(())
}

fn run(kernel: &Kernel, args: &[BufferHandle], memory: &mut Memory<Modular>) -> Result<(), String> {
    let prepared = Prepared::new(kernel).map_err(|error| error.to_string())?;
    prepared.launch(args, memory, &Options::default()).map(|_| ()).map_err(|error| error.to_string())
}

/// The name of an argument that two modules of a program share.
fn name_of(program: &Program, module: &Module, arg: Arg) -> String {
    match arg {
        Arg::Vector(version) => {
            let vector = &program.vectors[version.vector.0];
            format!("{} ({} ahead)", vector.name, version.ahead % vector.versions.max(1))
        }
        Arg::Module(number) => format!("buffer {}", module.buffers[number].name),
        Arg::Data(number) => format!("data {}", program.operator.data[number].name),
        other => format!("{other:?}"),
    }
}

/// A buffer with random contents that depend on the argument alone; empty where a sweep must write before it reads.
fn fill(
    memory: &mut Memory<Modular>,
    (program, module, step, data): (&Program, &Module, Step, &[Contents]),
    arg: Arg,
    element: Element,
    extent: u64,
) -> Result<BufferHandle, String> {
    let handle = memory.allocate(element, extent as usize);
    let text = |error: kernelwright_codegen::interp::InterpError| error.to_string();
    let scratch = matches!(arg, Arg::Module(number) if number >= program.operator.tables.len());
    if scratch && matches!(step, Step::Sweep(_)) {
        return Ok(handle);
    }
    let stored = if let Arg::Data(number) = arg { data.get(number) } else { None };
    match (arg, stored) {
        (Arg::Status, _) => memory.write_ints(handle, &vec![0; extent as usize]).map_err(text)?,
        (_, Some(contents)) if !matches!(contents, Contents::Real(_)) => {
            let numbers: Vec<i64> = (0..contents.len()).map(|at| contents.real(at) as i64).collect();
            memory.write_ints(handle, &numbers).map_err(text)?;
        }
        _ => {
            let name = name_of(program, module, arg);
            let digest = blake3::hash(name.as_bytes());
            let seed = digest.as_bytes()[..8].iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            let numbers = random::fill(seed, 0, extent as usize);
            let mut values: Vec<Residue> = numbers.iter().map(|x| Residue::new((x + 0.5).to_bits())).collect();
            if let Some(contents) = stored {
                // Cells without an entry are not always read.
                let cells = values.iter_mut().enumerate().filter(|(at, _)| contents.real(*at) == 0.0);
                cells.for_each(|(_, value)| *value = Residue::ZERO);
            }
            if arg == Arg::Scalars {
                // The iteration is an index.
                values[kernelwright_codegen::loops::ScalarId::ITERATION.0] = Residue::new(1);
            }
            memory.write_reals(handle, &values).map_err(text)?;
        }
    }
    Ok(handle)
}

/// What counts of a written buffer: not scratch, and of sums only the total. A maximum depends on an order, which
/// residues do not have.
fn result(
    memory: &Memory<Modular>,
    program: &Program,
    module: &Module,
    arg: Arg,
    handle: BufferHandle,
) -> Result<Option<Vec<i64>>, String> {
    let text = |error: kernelwright_codegen::interp::InterpError| error.to_string();
    if arg == Arg::Status {
        return memory.ints(handle).map(|words| Some(words.to_vec())).map_err(text);
    }
    let Arg::Module(number) = arg else {
        let values = memory.reals(handle).map_err(text)?;
        return Ok(Some(values.iter().map(|value| value.value() as i64).collect()));
    };
    let sums = (0..program.sums.len()).map(kernelwright_codegen::loops::SumId);
    let sum = sums.into_iter().find(|sum| module.partial_sums(*sum) == Some(number));
    match sum.map(|sum| program.sums[sum.0]) {
        Some(SumKind::Add) => {
            if !memory.initialised(handle).map_err(text)?.iter().all(|set| *set) {
                return Err("a partial sum is not written".to_string());
            }
            let values = memory.reals(handle).map_err(text)?;
            let total = values.iter().fold(Residue::ZERO, |total, part| total + *part);
            Ok(Some(vec![total.value() as i64]))
        }
        _ => Ok(None),
    }
}

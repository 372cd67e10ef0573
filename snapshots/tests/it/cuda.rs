//! Generated CUDA, compiled by NVRTC for the architectures that matter; no device is needed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernelwright::backend::cuda::log::Resources;
use kernelwright::backend::cuda::{MOST_SPILLED, compile_kernels};
use kernelwright::backend::{Arithmetic, BackendError, Target};
use kernelwright_snapshots::cases::cases;
use kernelwright_snapshots::galerkin;
use kernelwright_snapshots::sources::{Unit, units};

const ARCHITECTURES: [u32; 3] = [80, 90, 100];
/// The one that schedules which only run when asked for are compiled for, unless [`EVERYTHING`] is set.
const MAIN: u32 = 90;
/// Environment variable that has every source compiled for every architecture, which takes minutes longer.
const EVERYTHING: &str = "KERNELWRIGHT_EVERY_ARCHITECTURE";

/// What became of a unit on an architecture.
struct Compiled {
    unit: usize,
    architecture: u32,
    log: String,
    resources: Vec<Resources>,
}

fn compile(units: &[Unit]) -> Vec<Compiled> {
    let everything = std::env::var_os(EVERYTHING).is_some();
    let all = (0..units.len()).flat_map(|unit| ARCHITECTURES.map(|architecture| (unit, architecture)));
    let jobs: Vec<(usize, u32)> =
        all.filter(|&(unit, architecture)| everything || units[unit].usual || architecture == MAIN).collect();
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(&(unit, architecture)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let compiled = compile_kernels(&units[unit].kernels, architecture, Arithmetic::Contracted);
            let compiled =
                compiled.unwrap_or_else(|error| panic!("{} for sm_{architecture}: {error}", units[unit].name));
            let (log, resources) = (compiled.log, compiled.resources);
            done.lock().unwrap().push(Compiled { unit, architecture, log, resources });
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|one| (one.unit, one.architecture));
    done
}

/// Whether the log says more than what kernels use.
fn complaint(line: &str) -> bool {
    line.contains("warning") || line.contains("error")
}

#[test]
fn every_source_is_compiled_without_a_warning_or_a_large_spill() {
    if let Err(BackendError::Unavailable(why)) = compile_kernels(&[], ARCHITECTURES[0], Arithmetic::Contracted) {
        println!("skipped: {why}");
        return;
    }
    let mut units = units(Target::Cuda);
    units.extend(galerkin::units(Target::Cuda));
    // Shapes away from the default: the golden texts hold one of each.
    units.extend(cases().into_iter().filter(|case| case.name.ends_with(".cu")).filter_map(Unit::of));
    let (mut complaints, mut spills) = (Vec::new(), Vec::new());
    println!("{:32} {:>6} {:>8} {:>14}", "unit", "sm", "kernels", "most registers");
    for one in compile(&units) {
        let (name, architecture) = (&units[one.unit].name, one.architecture);
        let most = one.resources.iter().map(|kernel| kernel.registers).max().unwrap_or(0);
        println!("{name:32} {architecture:>6} {:>8} {most:>14}", one.resources.len());
        assert_eq!(
            one.resources.len(),
            units[one.unit].kernels.len(),
            "{name}: the log tells of every kernel\n{}",
            one.log
        );
        complaints.extend(one.log.lines().filter(|line| complaint(line)).map(|line| format!("{name}: {line}")));
        for kernel in one.resources.iter().filter(|kernel| kernel.spill_stores + kernel.spill_loads > 0) {
            let (kernel, stores, loads) = (kernel.kernel.as_str(), kernel.spill_stores, kernel.spill_loads);
            println!("{name}, sm_{architecture}: {kernel} stores {stores} B, loads {loads} B");
            if stores.max(loads) > MOST_SPILLED {
                spills.push(format!("{name}, sm_{architecture}: {kernel}"));
            }
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(spills.is_empty(), "registers are spilled:\n{}", spills.join("\n"));
}

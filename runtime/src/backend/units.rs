//! Units: the kernels of a program divided into sources that are compiled at the same time.
//!
//! A downstream compiler uses one core for a source, and takes longer for the kernels of one solver than anybody wants
//! to wait. The division depends on the kernels and on a number of units, never on time; every unit is kept in the
//! cache by itself.

use std::time::{Duration, Instant};

use super::{BackendError, Counters, blame, verified};
use kernelwright_codegen::kernel::Kernel;
use kernelwright_codegen::kernel_walk::each_stmt;
use kernelwright_codegen::print::Printed;
use serde::Serialize;

/// Most units of one call: beyond it the longest kernel alone decides.
const MOST: usize = 8;
/// Statements that are worth a unit of their own; a compiler's start costs about as much.
const WORTH: usize = 60;

/// Where the time of [`Backend::compile`](super::Backend::compile) went, summed over its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CompileTimes {
    /// Checking the kernels.
    pub verify: Duration,
    /// Writing the sources.
    pub print: Duration,
    /// From sources to machine code: the downstream compiler, or the cache.
    pub build: Duration,
    /// Loading machine code.
    pub load: Duration,
}

impl CompileTimes {
    /// What was added since an earlier state.
    pub fn since(self, before: CompileTimes) -> CompileTimes {
        CompileTimes {
            verify: self.verify.saturating_sub(before.verify),
            print: self.print.saturating_sub(before.print),
            build: self.build.saturating_sub(before.build),
            load: self.load.saturating_sub(before.load),
        }
    }
}

/// A source with the kernels in it, by number.
pub(super) struct Unit {
    pub(super) kernels: Vec<usize>,
    pub(super) names: Vec<String>,
    pub(super) source: Printed,
}

impl Unit {
    /// Name of the unit's file in a log.
    pub(super) fn name(&self) -> &str {
        self.names.first().map_or("unit", String::as_str)
    }
}

/// Numbers of a unit's kernels, and their machine code.
pub(super) type Image = (Vec<usize>, Vec<u8>);

/// Machine code of a unit, and whether it was compiled now.
pub(super) struct Built {
    pub(super) image: Vec<u8>,
    pub(super) compiled: bool,
}

/// Divides kernels into units and has each verified, printed and built, all at the same time in threads of their own.
/// The first error in order of the units is the error.
pub(super) fn build<'k>(
    kernels: &'k [Kernel],
    printer: impl Fn(&[&'k Kernel]) -> Printed + Sync,
    counters: &mut Counters,
    times: &mut CompileTimes,
    one: impl Fn(&Unit) -> Result<Built, BackendError> + Sync,
) -> Result<Vec<Image>, BackendError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let weights: Vec<usize> = kernels.iter().map(weight).collect();
    let divided = divide(&weights, cores.min(MOST));
    let work = |numbers: &Vec<usize>| make(kernels, numbers, &printer, &one);
    let made: Vec<_> = match &divided[..] {
        [numbers] => vec![work(numbers)],
        _ => std::thread::scope(|scope| {
            let threads: Vec<_> = divided.iter().map(|numbers| scope.spawn(|| work(numbers))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(died()))).collect()
        }),
    };
    let made = made.into_iter().collect::<Result<Vec<Made>, BackendError>>()?;
    // They ran side by side: the longest is what was waited for.
    let longest = |of: fn(&CompileTimes) -> Duration| made.iter().map(|made| of(&made.times)).max().unwrap_or_default();
    times.verify += longest(|times| times.verify);
    times.print += longest(|times| times.print);
    times.build += longest(|times| times.build);
    made.iter().for_each(|made| counters.count_unit(made.built.compiled));
    Ok(made.into_iter().map(|made| (made.unit.kernels, made.built.image)).collect())
}

/// A unit with its machine code, and how long that took.
struct Made {
    unit: Unit,
    built: Built,
    times: CompileTimes,
}

fn make<'k>(
    kernels: &'k [Kernel],
    numbers: &[usize],
    printer: impl Fn(&[&'k Kernel]) -> Printed,
    one: impl Fn(&Unit) -> Result<Built, BackendError>,
) -> Result<Made, BackendError> {
    let own: Vec<&'k Kernel> = numbers.iter().map(|&number| &kernels[number]).collect();
    let begin = Instant::now();
    verified(&own)?;
    let verify = begin.elapsed();
    let begin = Instant::now();
    let names = own.iter().map(|kernel| kernel.name.clone()).collect();
    let unit = Unit { source: printer(&own), names, kernels: numbers.to_vec() };
    let print = begin.elapsed();
    let begin = Instant::now();
    let built = one(&unit).map_err(|error| blame::name_kernel(error, &unit.source))?;
    let times = CompileTimes { verify, print, build: begin.elapsed(), load: Duration::ZERO };
    Ok(Made { unit, built, times })
}

/// Verifies, prints and builds kernels as one unit, in this thread; its machine code.
pub(super) fn build_one<'k>(
    kernels: &'k [Kernel],
    printer: impl Fn(&[&'k Kernel]) -> Printed,
    one: impl Fn(&Unit) -> Result<Vec<u8>, BackendError>,
) -> Result<Vec<u8>, BackendError> {
    let all: Vec<usize> = (0..kernels.len()).collect();
    let compile = |unit: &Unit| Ok(Built { image: one(unit)?, compiled: true });
    make(kernels, &all, printer, compile).map(|made| made.built.image)
}

fn died() -> BackendError {
    BackendError::Device("a thread that compiled kernels ended early".to_owned())
}

/// What a kernel costs a compiler, roughly.
fn weight(kernel: &Kernel) -> usize {
    let mut statements = 1;
    each_stmt(&kernel.body, &mut |_| statements += 1);
    statements
}

/// Numbers of the kernels of each unit, ascending: the heaviest first to where least is.
fn divide(weights: &[usize], most: usize) -> Vec<Vec<usize>> {
    let units = (weights.iter().sum::<usize>() / WORTH).clamp(1, most.max(1));
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|&number| std::cmp::Reverse(weights[number]));
    let mut loads = vec![(0, Vec::new()); units];
    for number in order {
        let least = (0..units).min_by_key(|&unit| loads[unit].0).expect("invariant: there is a unit");
        loads[least].0 += weights[number];
        loads[least].1.push(number);
    }
    let mut units: Vec<Vec<usize>> = loads.into_iter().map(|(_, numbers)| numbers).filter(|n| !n.is_empty()).collect();
    units.iter_mut().for_each(|numbers| numbers.sort_unstable());
    units.sort();
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_in_one_unit_and_loads_are_even() {
        let weights = [300, 10, 280, 40, 40, 40, 5, 5, 5, 200];
        let units = divide(&weights, 4);
        assert_eq!(units.len(), 4);
        let mut all: Vec<usize> = units.concat();
        all.sort_unstable();
        assert_eq!(all, (0..weights.len()).collect::<Vec<_>>());
        let loads: Vec<usize> = units.iter().map(|unit| unit.iter().map(|&n| weights[n]).sum()).collect();
        assert_eq!(*loads.iter().max().expect("units"), 300);
        assert_eq!(units, divide(&weights, 4));
    }

    #[test]
    fn small_programs_are_one_unit() {
        assert_eq!(divide(&[10, 20, 5], 8), [[0, 1, 2]]);
        assert_eq!(divide(&[], 8), Vec::<Vec<usize>>::new());
        assert_eq!(divide(&[500], 8), [[0]]);
    }
}

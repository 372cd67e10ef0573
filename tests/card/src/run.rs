//! Runs a program's text on a back end, with everything given.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use kernelwright::backend::open::Choice;
use kernelwright::cache::Cache;
use kernelwright::load::{Loaded, from_text};
use kernelwright::solve::{Inputs, Solution, Solver};
use kernelwright_syntax::program::{Precision, Problem};
use kernelwright_tests::oracle::Instance;
use kernelwright_tests::random::Random;

/// Arrays for one run, exact in f32.
pub struct Given {
    /// One per data array.
    pub data: Vec<Vec<f64>>,
    /// Right-hand side.
    pub rhs: Vec<f64>,
    /// Initial guess.
    pub guess: Vec<f64>,
    /// Unknowns outside the mask, where both vectors are zero here and not a number when they are handed over.
    pub outside: Vec<bool>,
}

impl Given {
    /// Random arrays that fit.
    pub fn random(instance: &Instance, seed: u64) -> Given {
        let mut random = Random::new(seed);
        let mut exact = |n: usize| random.vector(n).iter().map(|v| f64::from(*v as f32)).collect::<Vec<f64>>();
        let shapes = (0..instance.operator.data.len()).map(|d| instance.data_shape(d).iter().product());
        let data: Vec<Vec<f64>> = shapes.map(&mut exact).collect();
        let filled = Instance { data: data.clone(), ..instance.clone() };
        let outside: Vec<bool> = (0..instance.unknowns()).map(|unknown| !filled.takes_part(unknown)).collect();
        let mut inside = || {
            let values = exact(instance.unknowns());
            values.iter().zip(&outside).map(|(value, outside)| if *outside { 0.0 } else { *value }).collect()
        };
        let (rhs, guess) = (inside(), inside());
        Given { data, rhs, guess, outside }
    }

    /// A vector with values outside the mask that nothing may read.
    fn poisoned(&self, values: &[f64]) -> Vec<f64> {
        values.iter().zip(&self.outside).map(|(value, outside)| if *outside { f64::NAN } else { *value }).collect()
    }
}

/// Where cases keep what is compiled: equal sources of several cases are compiled once, and what an earlier version left
/// on a disk is not what is tested.
pub fn cache() -> Arc<Cache> {
    static CACHE: LazyLock<Arc<Cache>> = LazyLock::new(|| Arc::new(Cache::in_memory()));
    CACHE.clone()
}

/// A text as a loaded program.
pub fn load(text: &str) -> Result<Loaded, String> {
    from_text("case.kw", text.to_string()).map_err(|error| format!("{error}\n{text}"))
}

/// The first problem's operator, without data.
pub fn instance<'a>(loaded: &'a Loaded, problem: &Problem) -> Instance<'a> {
    let params = problem.parameters();
    let operator = &loaded.program.operators[problem.operator];
    Instance { operator, sizes: problem.sizes.clone(), params, data: Vec::new() }
}

/// How to run.
#[derive(Debug, Clone)]
pub struct How {
    /// Precision of vectors.
    pub precision: Precision,
    /// Schedule by name; the planner's choice if none.
    pub schedule: Option<String>,
    /// Back end.
    pub choice: Choice,
    /// Parts of the variant of the kernels, keys and values.
    pub variant: &'static [(&'static str, &'static str)],
}

/// Solves the program's problem with everything given.
pub fn solve(loaded: &Loaded, given: &Given, how: &How) -> Result<Solution, String> {
    let mut builder = Solver::builder(loaded).precision(how.precision).backend(how.choice).cache(cache());
    if let Some(schedule) = &how.schedule {
        builder = builder.schedule(schedule);
    }
    for (key, value) in how.variant {
        builder = builder.variant(*key, *value);
    }
    let mut solver = builder.compile().map_err(|error| error.to_string())?;
    let names: Vec<String> = solver.operator().data.iter().map(|data| data.name.clone()).collect();
    let (rhs, guess) = (given.poisoned(&given.rhs), given.poisoned(&given.guess));
    let mut inputs = Inputs::new().rhs(&rhs).guess(&guess);
    for (name, values) in names.iter().zip(&given.data) {
        inputs = inputs.data(name, values);
    }
    solver.solve(&inputs).map_err(|error| error.to_string())
}

/// Names of the schedules of a problem; they are the same for all targets.
pub fn schedules(loaded: &Loaded) -> Result<Vec<String>, String> {
    // All back ends ask, and planning takes longer than solving.
    static KNOWN: Mutex<BTreeMap<String, Vec<String>>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(names) = known().get(&loaded.text) {
        return Ok(names.clone());
    }
    let planned = Solver::builder(loaded).plan().map_err(|error| error.to_string())?;
    let names: Vec<String> = planned.plans.iter().map(|plan| plan.schedule.name.clone()).collect();
    known().insert(loaded.text.clone(), names.clone());
    Ok(names)
}

/// Unit roundoff of the solution and its true residual.
pub fn roundoff(precision: Precision) -> f64 {
    match precision {
        Precision::F32 => f64::from(f32::EPSILON) / 2.0,
        Precision::F64 | Precision::Mixed => f64::EPSILON / 2.0,
    }
}

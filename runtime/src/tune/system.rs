//! Systems of conservation laws: their element kernels are searched, whole steps decide, and the choice is found again.

use std::time::Instant;

use kernelwright_codegen::galerkin::mesh::Face;
use kernelwright_codegen::galerkin::module::Module;
use kernelwright_codegen::galerkin::text;
use serde::Serialize;

use super::clock;
use super::element::{ElementSearch, parts};
use super::known::{choices, gain};
use super::race::{self, Searched};
use super::record::{About, Record};
use super::report::{Finalist, KernelReport, Nouns, Report};
use super::session::{Session, Subject};
use super::store::Store;
use super::turns::turns;
use super::workshop::Workshop;
use super::{Options, Watch, key, space};
use crate::backend::Backend;
use crate::backend::shared::Shared;
use crate::march::{self, Bound, Engine, KernelEngine, options};
use crate::solve::Error;

/// What a candidate must have passed, part of every key.
const VERIFICATION: &str = "dense matrices on few elements, rounding at the exact ones";
/// Seconds of a sample, if steps are short.
const SAMPLE: f64 = 2e-3;
/// Length of a timed step: nothing may grow, whatever the system and its units.
const DT: f64 = 0.0;
/// The word that stands for the schedule in records.
const STEP: &str = "step";

/// Tunes the element kernels of a problem on a back end, which is given back.
///
/// # Errors
/// A system that cannot be mapped, and a back end that fails. Trouble with a candidate or with the store is none.
pub fn tune(
    bound: &Bound,
    backend: Box<dyn Backend>,
    store: Store,
    asked: &Options,
    watch: Watch,
) -> Result<(Report, Box<dyn Backend>), Error> {
    let begin = Instant::now();
    let backend = Shared::new(backend);
    let default = Bound { variant: Vec::new(), threads: None, ..bound.clone() };
    let purpose = options(&default, &default.system, backend.target())?.purpose(&default.system);
    let (family, structure) = (family(&default, &backend), structure(&default));
    let about = About {
        operator: default.system.name.clone(),
        solver: format!("order {}", default.element.order),
        sizes: vec![default.elements()],
        class: class(&default),
        structure: structure.clone(),
        precision: format!("{:?}", default.run.precision).to_lowercase(),
        device: backend.describe(),
    };
    let key = key::hash(&[&family, &structure, &space::text(parts(&purpose))]);
    let workshop = Workshop::with(&backend).map_err(Error::Internal)?;
    let subject = Subject { key, family, about };
    let mut session = Session::new(backend, asked.clone(), workshop, store, subject, (watch, begin));
    let copy = session.copy_bandwidth()?;
    let search = ElementSearch::new(&mut session, &default)?;
    let asked = race::Asked { schedule: STEP, ..race::Asked::default() };
    let searched = race::search(&mut session, search, &asked)?;
    session.limit(session.budget.until());
    let mut notices = Vec::new();
    let (finalists, best) = finals(&mut session, &default, &searched, &mut notices)?;
    let chosen = with(&default, &finalists[best].variant);
    session.choose((&finalists[0], &finalists[best]), code(&chosen, &session.backend())?, copy);
    let kernels = vec![KernelReport { schedule: STEP.to_string(), weight: 1.0, searched }];
    let real = purpose.precision.bytes();
    let about = (copy, default.len() as u64, real);
    let mut report = session.report(default.run.name.clone(), Vec::new(), kernels, (finalists, best), about);
    report.nouns = Nouns { choices: "", choice: "kernels of a", whole: "Steps", one: STEP };
    Ok(session.end(report, notices))
}

/// A problem under another variant.
fn with(bound: &Bound, variant: &[(String, String)]) -> Bound {
    Bound { variant: variant.to_vec(), ..bound.clone() }
}

/// The default, the best of the search and the last choice in turns: finalists, and the best by number.
fn finals(
    session: &mut Session<'_>,
    default: &Bound,
    searched: &Searched,
    notices: &mut Vec<String>,
) -> Result<(Vec<Finalist>, usize), Error> {
    let alone = searched.trials.first().and_then(|trial| trial.seconds).filter(|_| !session.loads());
    if let Some(seconds) = alone {
        // There is no time for steps in turns: the default, by the time of its kernels.
        let module = march::module(default, session.target)?;
        let (schedule, words) = (STEP.to_string(), words(&module));
        let finalist = Finalist { schedule, words, variant: Vec::new(), threads: None, seconds, spread: 0.0 };
        return Ok((vec![finalist], 0));
    }
    let mut wanted = vec![Vec::new()];
    if searched.best != 0 {
        wanted.push(searched.trials[searched.best].variant.clone());
    }
    // The last choice was proven as the code that it was then.
    let proven =
        |last: &&Record| code(&with(default, &last.variant), &session.backend()).is_ok_and(|now| now == last.code);
    let last = session.last_choice().filter(proven).map(|last| last.variant.clone());
    wanted.extend(last.filter(|last| !wanted.contains(last)));
    let (mut engines, mut first) = (Vec::new(), None);
    for variant in wanted {
        if !engines.is_empty() && !session.loads() {
            notices.push("a finalist was left out: there was no time to load it".to_string());
            break;
        }
        let begin = Instant::now();
        match engine(default, &variant, session) {
            Ok(engine) => {
                session.budget.loaded(begin.elapsed());
                engines.push((variant, engine));
            }
            Err(error) => {
                notices.push(format!("a finalist cannot be run: {error}"));
                first.get_or_insert(error);
            }
        }
    }
    if let (true, Some(error)) = (engines.is_empty(), first) {
        return Err(error);
    }
    let result = meet(session, &mut engines, notices);
    engines.into_iter().for_each(|(_, engine)| engine.close());
    result
}

/// Words that a step moves for each value.
fn words(module: &Module) -> f64 {
    let real = module.buffers[module.state[0]].element.bytes();
    module.model.bytes * module.model.stages as f64 / real as f64
}

fn engine(default: &Bound, variant: &[(String, String)], session: &Session<'_>) -> Result<KernelEngine, Error> {
    let bound = with(default, variant);
    let mut engine = KernelEngine::new(&bound, &bound.system, Box::new(session.backend()))?;
    engine.load(&bound.initial)?;
    engine.advance(0.0, DT, 2)?;
    Ok(engine)
}

/// Seconds of a step.
fn sample(engine: &mut KernelEngine) -> Result<f64, Error> {
    engine.time_steps(SAMPLE)
}

/// A variant with its engine.
type Rival = (Vec<(String, String)>, KernelEngine);

/// Samples in turns and chooses.
fn meet(
    session: &mut Session<'_>,
    engines: &mut Vec<Rival>,
    notices: &mut Vec<String>,
) -> Result<(Vec<Finalist>, usize), Error> {
    let samples = turns(
        session,
        engines,
        |(_, engine)| sample(engine),
        |(_, engine), error| {
            notices.push(format!("a finalist drops out: {error}"));
            engine.close();
        },
    )?;
    let best = clock::choose(&samples, |number| (engines[number].0.len(), number));
    let finalist = |(number, (variant, engine)): (usize, &Rival)| {
        let (seconds, spread) = clock::summary(&samples[number]);
        let words = words(engine.module());
        let (schedule, variant) = (STEP.to_string(), variant.clone());
        Finalist { schedule, words, variant, threads: None, seconds, spread }
    };
    let mut all: Vec<Finalist> = engines.iter().enumerate().map(finalist).collect();
    let engine = &mut engines[best].1;
    if let Some((threads, seconds)) = session.threads(all[best].seconds, &mut || sample(engine))? {
        (all[best].threads, all[best].seconds) = (Some(threads), seconds);
    }
    Ok((all, best))
}

/// Hash of all that measurements of a system depend on, but for mesh and candidates.
pub fn family(bound: &Bound, backend: &dyn Backend) -> String {
    let (system, order) = (text::print(&bound.system), bound.element.order.to_string());
    let what = ["element kernels", &system, &order];
    key::family_with(&what, VERIFICATION, bound.run.precision, backend.target(), &backend.identity())
}

/// Hash of a mesh: which faces meet, and which lie on boundaries. Coordinates and materials do not count.
fn structure(bound: &Bound) -> String {
    let mut hasher = blake3::Hasher::new();
    for face in bound.plain.faces.iter().flatten() {
        let word = match *face {
            Face::Shared { element, face, .. } => (u64::from(element) << 8) | u64::from(face),
            Face::Boundary(number) => (1 << 60) | u64::from(number),
        };
        hasher.update(&word.to_le_bytes());
    }
    hasher.finalize().to_hex()[..32].to_string()
}

/// The class of a mesh: the number of its elements, rounded to a power of two.
fn class(bound: &Bound) -> String {
    format!("{} elements", (bound.elements() as f64).log2().round().exp2())
}

/// Hash of the code of all kernels.
fn code(bound: &Bound, backend: &dyn Backend) -> Result<String, Error> {
    let module = march::module(bound, backend.target())?;
    Ok(key::code(backend.target(), &module.kernels))
}

/// A choice of an earlier tune.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownShapes {
    /// Parts of the variant.
    pub variant: Vec<(String, String)>,
    /// Threads, where they were chosen.
    pub threads: Option<usize>,
    /// Whether it was tuned for this mesh, not only for another of its class.
    pub exact: bool,
    /// In words.
    pub text: String,
}

/// Has a problem use what an earlier tune chose for it on a back end: for its mesh, else for one of its class; the last
/// choice, if it holds now. Returns the choice, and what the user should know.
pub fn apply(mut store: Store, bound: &mut Bound, backend: &dyn Backend) -> (Option<KnownShapes>, Vec<String>) {
    let records = store.read(&family(bound, backend));
    let mut notices = store.take_notices();
    if records.is_empty() {
        return (None, notices);
    }
    let (own, class) = (structure(bound), class(bound));
    let exact = |record: &Record| record.about.structure == own;
    let held = choices(&records, exact, |record| record.about.class == class).into_iter().find(|record| {
        let why = match code(&with(bound, &record.variant), backend) {
            Ok(code) if !exact(record) || code == record.code => return true,
            Ok(_) => "other code is generated now; tune again".to_string(),
            Err(error) => error.to_string(),
        };
        notices.push(format!("what was tuned is not used: {why}"));
        false
    });
    let Some(record) = held else { return (None, notices) };
    let exact = exact(record);
    (bound.variant, bound.threads) = (record.variant.clone(), record.threads);
    let near = if exact { "" } else { " for another mesh of its class" };
    let parts: Vec<String> = record.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let variant = if parts.is_empty() { "the default variant".to_string() } else { parts.join(" ") };
    let place = store.directory().map(|place| place.display().to_string()).unwrap_or_default();
    let text = format!("tuned{near}: {variant} (from {place}{})", gain(record.seconds, record.default_seconds));
    let (variant, threads) = (record.variant.clone(), record.threads);
    (Some(KnownShapes { variant, threads, exact, text }), notices)
}

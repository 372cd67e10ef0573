//! Products with a sparse matrix: the format it is stored in, and the variant of the product's kernel.
//!
//! Formats take the place of schedules: those that are predicted to be near the best are converted to, held against a
//! product in f64 and timed under the default variant; the nearest go on, with chunks of other heights. Then the kernel
//! of each is searched like any sweep. A choice holds for one structure; the values of the entries do not matter.

use std::sync::mpsc::Receiver;
use std::time::Instant;

use kernelwright_codegen::format::{Basis, Stored};
use kernelwright_codegen::map::Variant;
use kernelwright_syntax::program::{Format, Precision};

use super::bench::{Inputs, Step};
use super::budget::Act;
use super::clock;
use super::race::{self, Searched};
use super::record::{About, Kind, Verdict};
use super::report::{Finalist, KernelReport, Nouns, Report, ScheduleTrial};
use super::session::{Session, Stage, Subject};
use super::step::{Entry, Mapping, StepSearch};
use super::store::Store;
use super::strategy::Choice;
use super::structure::{self, small};
use super::turns::{ROUNDS, turns};
use super::workshop::Workshop;
use super::{Options, Watch, key};
use crate::backend::shared::Shared;
use crate::backend::{Backend, Target};
use crate::matrix::Csr;
use crate::pipeline::{self, history_len};
use crate::solve::Error;
use crate::sparse::bench::Reference;
use crate::sparse::choice::{self, Ranking, shapes};
use crate::sparse::cost::{Cost, bytes_of};
use crate::sparse::product::{self, Product, convert};

/// Formats that are timed under the default variant, and that go on from there.
const FORMATS: [usize; 2] = [4, 3];
/// Formats predicted to be slower than this are not timed; measured to be slower, they do not go on.
const NEAR: [f64; 2] = [4.0, 1.3];
/// Share of a budget after which no further format is timed.
const FIRST: f64 = 0.4;
/// Samples of a format under the default variant.
const REPEATS: usize = 3;
/// What is searched in the program of a product.
const PRODUCT: Step = Step::Sweep(0);

/// A matrix whose product is tuned.
pub struct Asked<'m> {
    /// Its name in reports.
    pub name: String,
    /// The matrix.
    pub matrix: &'m Csr,
    /// Formats that may be chosen.
    pub formats: Vec<Format>,
    /// Precision of values and vectors.
    pub precision: Precision,
}

/// Tunes a product on a back end, which is given back.
///
/// # Errors
/// A matrix that no format can store, and a back end that fails. Trouble with a candidate or with the store is none.
pub fn tune(
    asked: &Asked,
    backend: Box<dyn Backend>,
    store: Store,
    options: &Options,
    watch: Watch,
) -> Result<(Report, Box<dyn Backend>), Error> {
    let begin = Instant::now();
    let ranking = choice::rank(asked.matrix, &asked.formats, asked.precision, backend.target(), Basis::Given);
    ranking.best().map_err(Error::Input)?;
    let session = session(asked, Shared::new(backend), store, options, (watch, begin))?;
    let mapping = mapping(asked.precision, session.target);
    let reference = Reference::of(asked.matrix);
    let mut tuner = MatrixTuner { asked, session, mapping, reference, trials: Vec::new(), notices: Vec::new() };
    let copy = tuner.session.copy_bandwidth()?;
    let mut near = tuner.formats(&ranking)?;
    let kernels = tuner.kernels(&mut near)?;
    let finals = tuner.finals(&mut near, &kernels)?;
    tuner.finish(copy, kernels, finals)
}

fn session<'w>(
    asked: &Asked,
    backend: Shared,
    store: Store,
    options: &Options,
    watch: (Watch<'w>, Instant),
) -> Result<Session<'w>, Error> {
    let Asked { matrix, precision, .. } = asked;
    let structure = structure::hash_of(matrix);
    let family = structure::family(*precision, &backend);
    let names: Vec<&str> = asked.formats.iter().map(|format| format.name.as_str()).collect();
    let about = About {
        operator: asked.name.clone(),
        solver: "product".to_string(),
        sizes: vec![matrix.rows(), matrix.columns(), matrix.entries()],
        class: structure::class(matrix),
        structure: structure.clone(),
        precision: format!("{precision:?}").to_lowercase(),
        device: backend.describe(),
    };
    let key = structure::key(&family, &structure, &names);
    let workshop = Workshop::with(&backend).map_err(Error::Internal)?;
    Ok(Session::new(backend, options.clone(), workshop, store, Subject { family, key, about }, watch))
}

struct MatrixTuner<'m, 'w> {
    asked: &'m Asked<'m>,
    session: Session<'w>,
    mapping: Mapping,
    reference: Reference,
    trials: Vec<ScheduleTrial>,
    notices: Vec<String>,
}

/// Parts of a variant with their values.
type Parts = Vec<(String, String)>;

/// A format on its way.
struct Entered {
    format: Format,
    /// The matrix in it, and the hash of the product's code under the default variant.
    stored: Result<(Stored, String), Error>,
    /// Its time, or why it failed, if an earlier tune measured this code.
    known: Option<Result<f64, String>>,
    /// Its compilation.
    ready: Option<Receiver<()>>,
}

/// A format that goes on, with the matrix in it.
struct Near {
    format: Format,
    stored: Stored,
    seconds: f64,
}

/// What met in the final; the first is the default.
struct Final {
    all: Vec<Finalist>,
    best: usize,
    /// Hash of the code of the best.
    code: String,
}

impl MatrixTuner<'_, '_> {
    /// Times formats under the default variant. Those that go on, with the first choice that can be used first.
    fn formats(&mut self, ranking: &Ranking) -> Result<Vec<Near>, Error> {
        let exhaustive = self.session.options.strategy == Choice::Exhaustive;
        let limit = NEAR[0] * ranking.candidates[0].seconds;
        let few = |(number, candidate): &(usize, &choice::Candidate)| {
            exhaustive || (*number < FORMATS[0] && candidate.seconds <= limit)
        };
        let all = || ranking.candidates.iter().enumerate();
        let formats = |(_, candidate): (usize, &choice::Candidate)| candidate.format.clone();
        let mut near = Vec::new();
        self.try_formats(all().filter(few).map(formats).collect(), &mut near)?;
        for other in all().filter(|one| !few(one)).map(formats) {
            // One that can be used has to be there in any case.
            if near.is_empty() {
                self.try_formats(vec![other], &mut near)?;
            }
        }
        let fastest = near.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).map(|near| near.format.clone());
        self.try_formats(fastest.iter().flat_map(shapes).collect(), &mut near)?;
        if near.is_empty() {
            let reasons: Vec<String> =
                self.trials.iter().map(|trial| format!("{}: {}", trial.schedule, trial.reason)).collect();
            return Err(Error::Input(format!("no format can be used\n{}", reasons.join("\n"))));
        }
        Ok(thinned(near))
    }

    /// Times formats, while there is time or none can be used yet; their kernels are compiled side by side before.
    fn try_formats(&mut self, formats: Vec<Format>, near: &mut Vec<Near>) -> Result<(), Error> {
        let mut entered = Vec::new();
        for format in formats {
            if (near.is_empty() && entered.is_empty()) || !self.late() {
                entered.push(self.enter(format));
            }
        }
        if !self.session.workshop.beside() {
            // Where compiling disturbs measuring, it is done before.
            entered.iter_mut().for_each(|one| self.wait(one));
        }
        for mut one in entered {
            if near.is_empty() || !self.late() {
                self.wait(&mut one);
                self.try_format(one, near)?;
            }
        }
        self.session.workshop.drop_all();
        Ok(())
    }

    fn late(&self) -> bool {
        let budget = &self.session.budget;
        self.session.over() || !budget.fits_share(budget.takes(Act::Convert) + budget.load(), FIRST)
    }

    /// Converts to a format and has its product compiled, unless its time is known.
    fn enter(&mut self, format: Format) -> Entered {
        let stored = self.stored(&format);
        let mut entered = Entered { format, stored, known: None, ready: None };
        if let Ok((stored, code)) = &entered.stored {
            let known = self.session.recall(Kind::Iteration, &entered.format.name, code);
            entered.known = known.map(|record| record.seconds.ok_or_else(|| record.reason.clone()));
            let (program, precision, target) = (product::program(stored), self.asked.precision, self.session.target);
            entered.ready = entered.known.is_none().then(|| {
                self.session.workshop.run(move |build, stop| {
                    // What cannot be mapped or compiled shows when it is loaded.
                    let module = pipeline::module(&program, target, precision, 1, &[]).ok();
                    let _ = build.zip(module).map(|(build, module)| build.warm(&module.kernels, stop));
                })
            });
        }
        entered
    }

    fn wait(&mut self, one: &mut Entered) {
        if let Some(ready) = one.ready.take() {
            self.session.wait(&ready, self.session.budget.ready_until(), &Stage::named(&one.format.name));
        }
    }

    /// Times a format. One that fails is recorded with the reason.
    fn try_format(&mut self, one: Entered, near: &mut Vec<Near>) -> Result<(), Error> {
        let Entered { format, stored, known, .. } = one;
        let name = format.name.clone();
        let mut record = self.session.record(Kind::Iteration, &name);
        let remembered = known.is_some();
        let (mut words, mut answers) = (0.0, Ok(()));
        let result = match stored {
            Err(error) => Err(error.to_string()),
            Ok((stored, code)) => {
                words = self.words(&stored);
                record.code = code;
                let mut time = |tuner: &mut Self| match tuner.time_format(&stored) {
                    Ok(seconds) => Ok(seconds),
                    Err(error) => {
                        let (reason, state) = tuner.excuse(&name, error);
                        answers = state;
                        Err(reason)
                    }
                };
                let seconds = known.unwrap_or_else(|| time(self));
                if let Ok(seconds) = seconds {
                    near.push(Near { format, stored, seconds });
                }
                seconds
            }
        };
        let (seconds, reason) = (result.as_ref().ok().copied(), result.err().unwrap_or_default());
        record.verdict = if seconds.is_some() { Verdict::Timed } else { Verdict::Failed };
        (record.seconds, record.reason) = (seconds, reason.clone());
        if !remembered {
            self.session.store.append(&record);
        }
        self.session.show(&Stage { looked_at: 1, best: seconds, ..Stage::named(&name) });
        self.trials.push(ScheduleTrial { schedule: name, words, seconds, reason, remembered });
        answers
    }

    /// A reason for records, and an error where the device no longer answers.
    fn excuse(&mut self, what: &str, error: Error) -> (String, Result<(), Error>) {
        match error {
            Error::Backend(error) => self.session.excuse(what, &error),
            error => (error.to_string(), Ok(())),
        }
    }

    /// The matrix in a format, and the hash of the product's code under the default variant.
    fn stored(&mut self, format: &Format) -> Result<(Stored, String), Error> {
        let begin = Instant::now();
        let stored = convert(self.asked.matrix, format)?;
        self.session.budget.learn(Act::Convert, begin.elapsed());
        let code = code(&stored, &self.mapping, &[]).map_err(Error::Internal)?;
        Ok((stored, code))
    }

    fn time_format(&mut self, stored: &Stored) -> Result<f64, Error> {
        let mut product = self.product(stored, &[])?;
        let begin = Instant::now();
        let seconds = product.time(REPEATS);
        self.session.budget.learn(Act::Sample, begin.elapsed());
        product.into_backend();
        seconds
    }

    /// A product under a variant, held against one in f64.
    fn product(&mut self, stored: &Stored, variant: &[(String, String)]) -> Result<Product, Error> {
        let begin = Instant::now();
        let mut product = Product::compile(stored, self.asked.precision, variant, Box::new(self.session.backend()))?;
        let y = product.multiply(&self.reference.x);
        let fault = y.map(|y| self.reference.fault(self.asked.matrix, &y, self.asked.precision));
        match fault {
            Ok(None) => {
                self.session.budget.loaded(begin.elapsed());
                Ok(product)
            }
            Ok(Some(why)) => {
                product.into_backend();
                Err(Error::Internal(why))
            }
            Err(error) => {
                product.into_backend();
                Err(error)
            }
        }
    }

    /// Words that a product moves for each row.
    fn words(&self, stored: &Stored) -> f64 {
        let cost = Cost::of(&stored.layout, self.asked.precision);
        cost.product_bytes as f64 / (self.asked.matrix.rows().max(1) as u64 * bytes_of(self.asked.precision)) as f64
    }

    /// Searches the kernel of every format that went on.
    fn kernels(&mut self, near: &mut [Near]) -> Result<Vec<KernelReport>, Error> {
        let small = small(self.asked.matrix);
        self.session.limit(self.session.budget.search_until());
        let mut reports = Vec::new();
        let count = near.len();
        for (number, one) in near.iter_mut().enumerate() {
            if !self.session.opens() {
                break;
            }
            let begun = Some(Instant::now());
            let left = self.session.budget.left();
            let until = left.map(|time| Instant::now() + time / (count - number) as u32);
            // Where a product like this one was fastest, this one may be as well.
            let others = reports.iter().map(|report: &KernelReport| &report.searched).filter(|other| other.best != 0);
            let seeds = others.map(|other| other.trials[other.best].variant.clone()).collect();
            let (schedule, small) = (one.format.name.clone(), small.as_slice());
            match self.search(one, small, &race::Asked { schedule: &schedule, until, seeds, begun }) {
                Ok(Some(searched)) => {
                    reports.push(KernelReport { schedule: one.format.name.clone(), weight: 1.0, searched });
                }
                Ok(None) => {}
                Err(error) if !self.session.answers() => return Err(error),
                Err(why) => self.notices.push(format!("{} is not tuned: {why}", one.format.name)),
            }
        }
        Ok(reports)
    }

    fn search(&mut self, near: &mut Near, small: &[Csr], asked: &race::Asked) -> Result<Option<Searched>, Error> {
        let program = product::program(&near.stored);
        if self.mapping.parts(&program, PRODUCT).is_empty() {
            return Ok(None);
        }
        let stored = small.iter().map(|matrix| convert(matrix, &near.format));
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let small = stored.into_iter().map(|stored| (product::program(&stored), stored.contents)).collect();
        // They may be large: lent, not copied.
        let inputs = Inputs { params: Vec::new(), data: std::mem::take(&mut near.stored.contents) };
        let (step, mapping) = (PRODUCT, self.mapping.clone());
        let entry = Entry { program: &program, inputs: &inputs, small, step, mapping };
        let found =
            StepSearch::new(&mut self.session, entry).and_then(|search| race::search(&mut self.session, search, asked));
        near.stored.contents = inputs.data;
        found.map(Some)
    }

    /// The default, the tuned formats and the last choice in turns.
    fn finals(&mut self, near: &mut Vec<Near>, kernels: &[KernelReport]) -> Result<Final, Error> {
        if !self.session.loads() {
            return self.default_alone(&near[0]);
        }
        let mut wanted = vec![(0, Vec::new())];
        for (number, one) in near.iter().enumerate() {
            let report = kernels.iter().find(|report| report.schedule == one.format.name);
            let best = report.map(|report| &report.searched).filter(|searched| searched.best != 0);
            wanted.push((number, best.map_or(Vec::new(), |searched| searched.trials[searched.best].variant.clone())));
        }
        self.session.limit(self.session.budget.until());
        wanted.extend(self.last(near));
        let mut products: Vec<(usize, Parts, Product)> = Vec::new();
        let mut first = None;
        for (number, variant) in wanted {
            let known = products.iter().any(|(other, own, _)| (*other, own) == (number, &variant));
            if known {
                continue;
            }
            if !products.is_empty() && !self.session.loads() {
                let name = &near[number].format.name;
                self.notices.push(format!("{name} was left out of the final: there was no time to load it"));
                continue;
            }
            match self.product(&near[number].stored, &variant) {
                Ok(product) => products.push((number, variant, product)),
                Err(error) => {
                    self.notices.push(format!("{} drops out: {error}", near[number].format.name));
                    first.get_or_insert(error);
                }
            }
        }
        if let (true, Some(error)) = (products.is_empty(), first) {
            return Err(error);
        }
        let result = self.meet(near, &mut products);
        products.into_iter().for_each(|(_, _, product)| drop(product.into_backend()));
        result
    }

    /// The default by its first times, where there is no time for a final.
    fn default_alone(&self, near: &Near) -> Result<Final, Error> {
        let (schedule, words) = (near.format.name.clone(), self.words(&near.stored));
        let seconds = near.seconds;
        let finalist = Finalist { schedule, words, variant: Vec::new(), threads: None, seconds, spread: 0.0 };
        let code = code(&near.stored, &self.mapping, &[]).map_err(Error::Internal)?;
        Ok(Final { all: vec![finalist], best: 0, code })
    }

    /// The choice of the tune before, its format among the others.
    fn last(&mut self, near: &mut Vec<Near>) -> Option<(usize, Parts)> {
        let last = self.session.last_choice()?;
        let (name, variant) = (last.schedule.clone(), last.variant.clone());
        let number = match near.iter().position(|one| one.format.name == name) {
            Some(known) => known,
            None if !self.session.loads() || !self.session.fits(self.session.budget.takes(Act::Convert)) => {
                return None;
            }
            None => {
                let format = choice::named(&self.asked.formats, &name)?;
                let stored = convert(self.asked.matrix, &format).ok()?;
                near.push(Near { format, stored, seconds: f64::INFINITY });
                near.len() - 1
            }
        };
        Some((number, variant))
    }

    /// Samples in turns and chooses.
    fn meet(&mut self, near: &[Near], products: &mut Vec<(usize, Parts, Product)>) -> Result<Final, Error> {
        let notices = &mut self.notices;
        let samples = turns(
            &mut self.session,
            products,
            |(_, _, product)| product.time(1),
            |(number, _, product), error| {
                notices.push(format!("{} drops out: {error}", near[number].format.name));
                product.into_backend();
            },
        )?;
        // Of those that are not told apart the one that changes least.
        let best = clock::choose(&samples, |number| (products[number].1.len(), number));
        let finalist = |(number, (place, variant, _)): (usize, &(usize, Parts, Product))| {
            let (seconds, spread) = clock::summary(&samples[number]);
            let near = &near[*place];
            let (schedule, words) = (near.format.name.clone(), self.words(&near.stored));
            Finalist { schedule, words, variant: variant.clone(), threads: None, seconds, spread }
        };
        let mut all: Vec<Finalist> = products.iter().enumerate().map(finalist).collect();
        let product = &mut products[best].2;
        let mut sample = || product.time(ROUNDS.div_ceil(2));
        if let Some((threads, seconds)) = self.session.threads(all[best].seconds, &mut sample)? {
            (all[best].threads, all[best].seconds) = (Some(threads), seconds);
        }
        let code = code(&near[products[best].0].stored, &self.mapping, &all[best].variant).map_err(Error::Internal)?;
        Ok(Final { all, best, code })
    }

    fn finish(
        self,
        copy: Option<f64>,
        kernels: Vec<KernelReport>,
        finals: Final,
    ) -> Result<(Report, Box<dyn Backend>), Error> {
        let MatrixTuner { asked, mut session, trials, notices, .. } = self;
        let Final { all, best, code } = finals;
        session.choose((&all[0], &all[best]), code, copy);
        let about = (copy, asked.matrix.rows() as u64, bytes_of(asked.precision));
        let mut report = session.report(asked.name.clone(), trials, kernels, (all, best), about);
        report.nouns = Nouns { choices: "Formats", choice: "format", whole: "Products", one: "a product" };
        Ok(session.end(report, notices))
    }
}

/// How products are mapped.
pub(super) fn mapping(precision: Precision, target: Target) -> Mapping {
    Mapping { target: target.into(), precision, history_len: history_len(1) }
}

/// Formats that go on: the first, and the fastest beside it.
fn thinned(mut near: Vec<Near>) -> Vec<Near> {
    let default = near.remove(0);
    let least = near.iter().map(|one| one.seconds).fold(default.seconds, f64::min);
    near.retain(|one| one.seconds <= NEAR[1] * least);
    near.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    near.truncate(FORMATS[1] - 1);
    near.insert(0, default);
    near
}

/// Hash of the code of a product under a variant.
///
/// # Errors
/// A variant that cannot be mapped.
pub(super) fn code(stored: &Stored, mapping: &Mapping, parts: &[(String, String)]) -> Result<String, String> {
    let program = product::program(stored);
    let mut variant = Variant::for_space(mapping.target, &program.operator.space);
    parts.iter().try_for_each(|(key, value)| variant.set(key, value))?;
    let module = mapping.module(&program, PRODUCT, Some(&variant))?;
    Ok(key::code(mapping.target, &PRODUCT.kernels(&module)))
}

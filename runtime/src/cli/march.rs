//! `solve` for problems of systems: march in time, write what is asked for, tell how it went.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kernelwright_syntax::program::Precision;
use serde_json::{Value, json};

use super::args::{RunArgs, SolveArgs};
use super::arrays::failed;
use super::failure::{Failure, NOT_CONVERGED};
use super::out::Out;
use super::progress::interrupt_flag;
use super::progress::{Line, seconds};
use super::table::columns;
use crate::backend::Arithmetic;
use crate::backend::open::{Choice, open};
use crate::cache::Cache;
use crate::load::Loaded;
use crate::march::{
    Bound, Changes, Checkpoint, Events, Made, Marcher, Outcome, Progress, Report, Spectrum, engine, linear_part, reach,
};
use crate::outputs::vtu;
use crate::solve::Error;
use crate::tune;
use crate::tune::store::Store;
use crate::tune::system::KnownShapes;

/// The number of the problem of a system that is meant; none if it is one of an operator.
pub(super) fn chosen(loaded: &Loaded, name: Option<&str>) -> Result<Option<usize>, Failure> {
    let program = &loaded.program;
    match name {
        Some(name) => Ok(program.runs.iter().position(|run| run.name == name)),
        None if program.runs.is_empty() => Ok(None),
        None if program.runs.len() + program.problems.len() == 1 => Ok(Some(0)),
        None => {
            let names = program.problems.iter().map(|problem| problem.name.as_str());
            let names: Vec<&str> = names.chain(program.runs.iter().map(|run| run.name.as_str())).collect();
            Err(Failure::Usage(format!("several problems; choose one with --problem: {}", names.join(", "))))
        }
    }
}

/// Options that a problem of an operator does not have.
pub(super) fn refuse_for_operators(args: &SolveArgs) -> Result<(), Failure> {
    let matrix = &args.run.compile.program.matrix;
    let of_matrices = [("--format", matrix.format.format != "auto"), ("--formats", matrix.format.formats.is_some())];
    if let Some((option, _)) = of_matrices.iter().find(|(_, given)| *given && matrix.matrix.is_none()) {
        return Err(Failure::Usage(format!("{option} is for --matrix; a problem of a program stores no matrix")));
    }
    let given = [
        ("--mesh", args.mesh.is_some()),
        ("--probes", args.probes.is_some()),
        ("--checkpoint", args.checkpoint.is_some()),
        ("--restart", args.restart.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(Failure::Usage(format!("{option} is for problems of systems; this one is of an operator")))
        }
        None => Ok(()),
    }
}

fn refuse_for_systems(args: &SolveArgs) -> Result<(), Failure> {
    let given = [
        ("--rhs", args.rhs.is_some()),
        ("--guess", args.guess.is_some()),
        ("--history", args.history.is_some()),
        ("--plot", args.plot.is_some()),
        ("--tolerance", args.run.tolerance.is_some()),
        ("--iterations", args.run.iterations.is_some()),
        ("--schedule", args.run.compile.schedule.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((option, _)) => {
            Err(Failure::Usage(format!("{option} is for problems of operators; this one is of a system")))
        }
        None => Ok(()),
    }
}

/// Runs a problem of a system.
pub(super) fn run(loaded: &Loaded, run: usize, args: &SolveArgs, out: &mut Out) -> Result<u8, Failure> {
    refuse_for_systems(args)?;
    let mut series = args.out.as_deref().map(Series::new).transpose()?;
    let program = &args.run.compile.program;
    let changes = Changes {
        mesh: args.mesh.clone(),
        set: program.set.clone(),
        precision: program.precision,
        variant: args.run.compile.variant.clone(),
        ..Changes::default()
    };
    let mut bound = Bound::new(loaded, run, &changes)?;
    bound.notes.iter().for_each(|note| eprintln!("note: {note}"));
    let tuned = known(&mut bound, &args.run)?;
    let from = args.restart.as_deref().map(|path| Checkpoint::read(path, &bound)).transpose()?;
    let cache = Arc::new(Cache::of_user());
    let mut made = engine::open(&bound, &bound.system, args.run.backend, &cache)?;
    made.notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    let spectrum = measure(&bound, &mut made, args.run.backend, &cache)?;
    // A run goes on with the steps it began with.
    let longest = from.as_ref().map_or_else(|| spectrum.step(reach(&bound.system.step)), |from| from.dt);
    let marcher = Marcher::new(&bound, longest)?;
    marcher.note(longest).iter().for_each(|note| eprintln!("note: {note}"));
    if let (Some(series), Some(from)) = (&mut series, &from) {
        series.written = marcher.outputs(from.step).into_iter().zip((0..).map(|number| series.name(number))).collect();
    }
    let mut files = Files {
        bound: &bound,
        series,
        probes: args
            .probes
            .as_deref()
            .map(|path| probe_file(path, &bound, from.as_ref().map(|from| from.step as f64 * from.dt)))
            .transpose()?,
        checkpoint: args.checkpoint.clone(),
        line: Line::new(),
        stop: interrupt_flag(),
    };
    let report = marcher.run(made.engine.as_mut(), from, &mut files)?;
    files.line.finish();
    made.engine.notices().iter().for_each(|notice| eprintln!("note: {notice}"));
    let how = How { bound: &bound, spectrum, device: made.engine.describe(), report, tuned };
    how.text(out)?;
    out.object(&how.object())?;
    Ok(if how.report.outcome == Outcome::Finished { 0 } else { NOT_CONVERGED })
}

/// Has a problem use what an earlier tune chose for it, unless something else is asked for.
pub(super) fn known(bound: &mut Bound, args: &RunArgs) -> Result<Option<KnownShapes>, Failure> {
    let store = Store::of_user();
    if args.untuned || !args.compile.variant.is_empty() || store.is_empty() {
        return Ok(None);
    }
    let opened = open(args.backend, Arithmetic::Contracted, &Arc::new(Cache::of_user()))?;
    let (known, notices) = tune::system::apply(store, bound, opened.backend.as_ref());
    notices.iter().for_each(|notice| eprintln!("note: {notice}"));
    Ok(known)
}

/// The spectrum, with the engine itself where the system is linear, else with one for its linear part.
fn measure(bound: &Bound, made: &mut Made<'_>, choice: Choice, cache: &Arc<Cache>) -> Result<Spectrum, Failure> {
    let linear = linear_part(&bound.system);
    if linear == bound.system {
        return Ok(Spectrum::measure(bound, made.engine.as_mut())?);
    }
    let mut other = engine::open(bound, &linear, choice, cache)?;
    Ok(Spectrum::measure(bound, other.engine.as_mut())?)
}

/// Files of fields.
struct Series {
    path: PathBuf,
    /// Whether there is one file for each output, and a list of them.
    many: bool,
    /// Times and names of all outputs, those before a restart too.
    written: Vec<(f64, String)>,
    points: Vec<[f64; 3]>,
}

impl Series {
    fn new(path: &Path) -> Result<Series, Failure> {
        let many = match path.extension().and_then(|ending| ending.to_str()) {
            Some("pvd") => true,
            Some("vtu") => false,
            _ => {
                let message = format!("{}: a system's fields are written as .vtu, or as a series .pvd", path.display());
                return Err(Failure::Usage(message));
            }
        };
        Ok(Series { path: path.to_path_buf(), many, written: Vec::new(), points: Vec::new() })
    }

    /// Name of an output's file.
    fn name(&self, number: usize) -> String {
        let stem = self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{stem}_{number:04}.vtu")
    }

    fn write(&mut self, bound: &Bound, time: f64, state: &[f64]) -> Result<(), Error> {
        let name = self.name(self.written.len());
        let path = if self.many { self.path.with_file_name(&name) } else { self.path.clone() };
        let wrong = |error: std::io::Error| Error::Input(format!("{}: {error}", path.display()));
        let file = File::create(&path).map_err(wrong)?;
        let order = bound.element.order;
        let weights: Vec<[f64; 4]> =
            vtu::lattice(order).iter().map(|index| index.map(|i| i as f64 / order as f64)).collect();
        if self.points.is_empty() {
            let of = |element| weights.iter().map(move |at| (element, *at)).collect::<Vec<_>>();
            let all = (0..bound.elements()).flat_map(of);
            self.points = all.map(|(element, at)| bound.place(element, at)).collect();
        }
        let regions = bound.mesh.regions.iter().map(|region| f64::from(*region)).collect();
        let mut cells = vec![("region".to_string(), regions)];
        for (number, name) in bound.system.materials.iter().enumerate() {
            cells.push((name.clone(), bound.materials.iter().map(|own| own[number]).collect()));
        }
        let grid = vtu::Grid { points: &self.points, order, cells: &cells };
        vtu::write(BufWriter::new(file), &grid, &fields(bound, &weights, state)).map_err(wrong)?;
        self.written.push((time, name));
        if self.many {
            let there = |(_, name): &&(f64, String)| self.path.with_file_name(name).exists();
            let listed: Vec<_> = self.written.iter().filter(there).cloned().collect();
            vtu::series(&self.path, &listed).map_err(wrong)?;
        }
        Ok(())
    }
}

/// Values of all fields at the points of the lattice.
fn fields(bound: &Bound, weights: &[[f64; 4]], state: &[f64]) -> Vec<vtu::Field> {
    let interpolation = bound.element.interpolation(weights);
    let one = |field: &kernelwright_syntax::program::system::Quantity| {
        let mut values = vec![0.0; bound.elements() * weights.len() * field.size];
        for component in 0..field.size {
            for element in 0..bound.elements() {
                let first = bound.first(field.first + component, element);
                let found = interpolation.apply(&state[first..first + bound.nodes()]);
                for (point, value) in found.into_iter().enumerate() {
                    values[(element * weights.len() + point) * field.size + component] = value;
                }
            }
        }
        vtu::Field { name: field.name.clone(), components: field.size, values }
    };
    bound.source.fields.iter().map(one).collect()
}

/// The table of probes, with its head; on a restart it is continued behind what was known at that time.
fn probe_file(path: &Path, bound: &Bound, restarted: Option<f64>) -> Result<BufWriter<File>, Failure> {
    let open = || -> std::io::Result<BufWriter<File>> {
        if let Some(time) = restarted.filter(|_| path.exists()) {
            let text = std::fs::read_to_string(path)?;
            let mut file = File::options().write(true).open(path)?;
            file.set_len(known_until(&text, time) as u64)?;
            file.seek(SeekFrom::End(0))?;
            return Ok(BufWriter::new(file));
        }
        let mut file = BufWriter::new(File::create(path)?);
        write!(file, "time")?;
        for (name, _) in &bound.run.probes {
            bound.system.components.iter().try_for_each(|component| write!(file, ",{name}.{component}"))?;
        }
        writeln!(file)?;
        Ok(file)
    };
    open().map_err(|error| failed(path, &error))
}

/// Length of the part of a table of probes, whose lines begin with a time, that was written up to a time.
fn known_until(text: &str, time: f64) -> usize {
    let late = |line: &&str| line.split(',').next().and_then(|at| at.parse::<f64>().ok()).is_some_and(|at| at > time);
    text.split_inclusive('\n').take_while(|line| !late(line)).map(str::len).sum()
}

/// Everything that happens on the way.
struct Files<'b> {
    bound: &'b Bound,
    series: Option<Series>,
    probes: Option<BufWriter<File>>,
    checkpoint: Option<PathBuf>,
    line: Line,
    stop: Arc<AtomicBool>,
}

impl Events for Files<'_> {
    fn progress(&mut self, progress: &Progress) -> Result<ControlFlow<()>, Error> {
        self.line.show(|| {
            let Progress { step, steps, time, energy, elapsed } = *progress;
            let rest = elapsed.as_secs_f64() / step.max(1) as f64 * (steps - step) as f64;
            format!("step {step} of {steps}   t = {time:.4}   energy {energy:.6e}   about {} left", seconds(rest))
        });
        let stop = self.stop.load(Ordering::Relaxed);
        Ok(if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn output(&mut self, time: f64, state: &[f64]) -> Result<(), Error> {
        match &mut self.series {
            // One file holds the last state.
            Some(series) if series.many || time >= self.bound.run.until => series.write(self.bound, time, state),
            _ => Ok(()),
        }
    }

    fn probe(&mut self, time: f64, probes: &[(String, Vec<f64>)]) -> Result<(), Error> {
        let Some(file) = &mut self.probes else { return Ok(()) };
        let mut write = || {
            write!(file, "{time}")?;
            probes.iter().flat_map(|(_, values)| values).try_for_each(|value| write!(file, ",{value:e}"))?;
            writeln!(file)?;
            file.flush()
        };
        write().map_err(|error: std::io::Error| Error::Input(format!("the table of probes: {error}")))
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<(), Error> {
        let Some(path) = &self.checkpoint else { return Ok(()) };
        checkpoint.write(path).map_err(|error| Error::Input(format!("{}: {error}", path.display())))
    }
}

/// How a run went.
struct How<'b> {
    bound: &'b Bound,
    spectrum: Spectrum,
    device: String,
    report: Report,
    tuned: Option<KnownShapes>,
}

impl How<'_> {
    /// Values updated per second and stage.
    fn speed(&self) -> f64 {
        let stages = self.bound.system.step.stages.len() as f64 * self.report.made as f64;
        self.bound.len() as f64 * stages / self.report.seconds[0].max(1e-12)
    }

    fn text(&self, out: &mut Out) -> Result<(), Failure> {
        let (bound, report) = (self.bound, &self.report);
        let flux = &bound.source.fluxes[bound.run.flux].name;
        let precision = if bound.run.precision == Precision::F32 { "f32" } else { "f64" };
        out.line(format!(
            "{}: {} ({flux}, {}), order {}, {precision}, {} elements, {} values, {}",
            bound.run.name,
            bound.system.name,
            bound.system.step.name,
            bound.element.order,
            bound.elements(),
            bound.len(),
            self.device
        ))?;
        let ended = match report.outcome {
            Outcome::Finished => "finished",
            Outcome::Unstable => "unstable: the energy grew beyond what the system can do,",
            Outcome::Interrupted => "interrupted",
        };
        let Report { step, time, dt, energy, .. } = *report;
        let mut rows = vec![
            vec!["  outcome".to_string(), format!("{ended} after {step} steps, t = {time:?}")],
            vec!["  step".to_string(), format!("dt = {dt:.4e}, spectral radius {:.4e}", self.spectrum.radius)],
            vec!["  energy".to_string(), format!("{:.10e} at the start, {:.10e} at the end", energy[0], energy[1])],
        ];
        rows.extend(self.tuned.iter().map(|tuned| vec!["  kernels".to_string(), tuned.text.clone()]));
        for (name, error) in bound.system.components.iter().zip(&report.errors) {
            if let Some((error, norm)) = error {
                rows.push(vec![
                    "  error".to_string(),
                    format!("{name}: {error:.3e} in L2, the exact one has {norm:.3e}"),
                ]);
            }
        }
        let each = report.seconds[0] / report.made.max(1) as f64;
        let speed = format!("{} a step, {:.4} GDOF/s and stage", seconds(each), self.speed() / 1e9);
        rows.push(vec!["  time".to_string(), format!("{}, {speed}", seconds(report.seconds[1]))]);
        columns(&rows).iter().try_for_each(|line| out.line(line))
    }

    fn object(&self) -> Value {
        let (bound, report) = (self.bound, &self.report);
        let errors: serde_json::Map<String, Value> = bound
            .system
            .components
            .iter()
            .zip(&report.errors)
            .filter_map(|(name, error)| Some((name.clone(), error.as_ref()?)))
            .map(|(name, (error, norm))| (name, json!({ "error": error, "norm": norm })))
            .collect();
        json!({
            "problem": bound.run.name,
            "system": bound.system.name,
            "flux": bound.source.fluxes[bound.run.flux].name,
            "step": bound.system.step.name,
            "order": bound.element.order,
            "elements": bound.elements(),
            "values": bound.len(),
            "device": self.device,
            "tuned": self.tuned,
            "outcome": match report.outcome {
                Outcome::Finished => "finished",
                Outcome::Unstable => "unstable",
                Outcome::Interrupted => "interrupted",
            },
            "steps": report.step,
            "time": report.time,
            "dt": report.dt,
            "spectral_radius": self.spectrum.radius,
            "energy": { "start": report.energy[0], "end": report.energy[1] },
            "errors": errors,
            "seconds": { "stepping": report.seconds[0], "all": report.seconds[1] },
            "dof_per_second_and_stage": self.speed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_probes_goes_on_where_the_checkpoint_was_made() {
        let table = "time,a.p\n0,1e0\n0.5,2e0\n1,3e0\n1.2,4e0\n";
        let kept = |time: f64| &table[..known_until(table, time)];
        assert_eq!(kept(1.0), "time,a.p\n0,1e0\n0.5,2e0\n1,3e0\n");
        assert_eq!((kept(2.0), kept(-1.0)), (table, "time,a.p\n"));
    }
}

//! Looking at problems of systems: `ir` and `verify`.

use kernelwright_codegen::galerkin::energy::{self, Energy};
use kernelwright_codegen::galerkin::hyperbolic::{Verdict, judge};
use kernelwright_codegen::galerkin::lower::lower;
use kernelwright_codegen::galerkin::text;
use kernelwright_codegen::galerkin::verify::consistency;
use serde_json::json;

use super::args::{CompileArgs, IrArgs, ProgramArgs, Stage, VerifyArgs};
use super::failure::Failure;
use super::out::Out;
use super::table::columns;
use crate::load::Loaded;
use crate::march::{Bound, Changes, DirectEngine, Engine, Extent, Reach, Spectrum, linear_part, module, reach};

/// A problem of a system, bound for being looked at. Notes go to standard error.
pub(super) fn bind(
    loaded: &Loaded,
    run: usize,
    program: &ProgramArgs,
    variant: &[(String, String)],
    extent: Extent,
) -> Result<Bound, Failure> {
    let (set, precision) = (program.set.clone(), program.precision);
    let bound = Bound::new(loaded, run, &Changes { mesh: None, set, precision, variant: variant.to_vec(), extent })?;
    bound.notes.iter().for_each(|note| eprintln!("note: {note}"));
    Ok(bound)
}

/// Options that say nothing about a system.
pub(super) fn refuse_schedule(args: &CompileArgs) -> Result<(), Failure> {
    match args.schedule {
        Some(_) => Err(Failure::Usage(
            "--schedule is for problems of operators; stages of a system are fused by --variant fusion=one|two|three"
                .to_string(),
        )),
        None => Ok(()),
    }
}

/// Whether a program is nothing but systems, without a problem.
pub(super) fn only(loaded: &Loaded) -> bool {
    let program = &loaded.program;
    !program.systems.is_empty() && program.runs.is_empty() && program.problems.is_empty()
}

/// A stage's result for a problem of a system.
pub(super) fn ir(loaded: &Loaded, run: usize, args: &IrArgs) -> Result<String, Failure> {
    refuse_schedule(&args.compile)?;
    let bind = |extent| bind(loaded, run, &args.compile.program, &args.compile.variant, extent);
    match args.stage {
        // The mesh does not matter; it need not be there.
        Stage::Math => {
            let system = bind(Extent::Small)?.system;
            Ok(text::print(&system) + &energy_line(&energy::derive(&system), &system))
        }
        Stage::Kernel => {
            let module = module(&bind(Extent::OwnOrBox)?, args.target.into())?;
            let kernels: Vec<String> = module.kernels.iter().map(|kernel| kernel.to_string()).collect();
            Ok(kernels.join("\n"))
        }
        Stage::Program | Stage::Graph | Stage::Schedule | Stage::Loops => Err(Failure::Usage(
            "the kernels of a system come from its equations: its stages are program, math and kernel".to_string(),
        )),
    }
}

/// The equations of all systems of a program that has no problem: each with its first flux and the first time step.
pub(super) fn equations(loaded: &Loaded) -> Result<String, Failure> {
    let program = &loaded.program;
    let step = program.steps.first().cloned().or_else(|| kernelwright_syntax::library::step("lserk4"));
    let step = step.ok_or_else(|| Failure::Internal("the library has no time step".to_string()))?;
    let all: Vec<String> = program.systems.iter().map(|system| text::print(&lower(system, 0, &step))).collect();
    Ok(all.join("\n"))
}

fn energy_line(energy: &Energy, system: &kernelwright_codegen::galerkin::system::System) -> String {
    let weights = energy.weights.iter().zip(&system.components);
    let terms: Vec<String> =
        weights.map(|(weight, name)| format!("{} * {name}^2", text::expr(system, weight))).collect();
    let conserved = if energy.symmetric { "conserved inside elements" } else { "not conserved" };
    format!("  energy = {} ({conserved})\n", terms.join(" + "))
}

/// What `verify` finds.
struct Found<'b> {
    bound: &'b Bound,
    /// Largest relative difference of numerical and physical flux, by component.
    consistency: Vec<f64>,
    verdict: Verdict,
    energy: Energy,
    spectrum: Spectrum,
    reach: Reach,
    order: usize,
}

/// Looks at a system and its discretisation on a small mesh.
pub(super) fn verify(loaded: &Loaded, run: usize, args: &VerifyArgs, out: &mut Out) -> Result<u8, Failure> {
    if args.out.is_some() {
        return Err(Failure::Usage("--out is for operators; the matrix of a system is never made".to_string()));
    }
    let bound = bind(loaded, run, &args.program, &[], Extent::Small)?;
    let linear = linear_part(&bound.system);
    let mut engine = DirectEngine::new(&bound, &linear);
    let found = Found {
        consistency: consistency(&bound.system),
        verdict: judge(&bound.system),
        energy: energy::derive(&bound.system),
        spectrum: Spectrum::measure(&bound, &mut engine as &mut dyn Engine)?,
        reach: reach(&bound.system.step),
        order: bound.system.step.linear_order(),
        bound: &bound,
    };
    found.text(out)?;
    out.object(&found.object())?;
    Ok(0)
}

impl Found<'_> {
    fn dt(&self) -> f64 {
        self.spectrum.step(self.reach)
    }

    fn defect(&self) -> f64 {
        self.consistency.iter().copied().fold(0.0, f64::max)
    }

    fn hyperbolicity(&self) -> String {
        match self.verdict {
            Verdict::Symmetric => "proved: the weights of the energy symmetrise the system".to_string(),
            Verdict::Bounded(growth) => format!("tested: waves of sample directions grow by {growth:.3} at most"),
            Verdict::Grows(_) | Verdict::Undefined => "refuted".to_string(),
        }
    }

    fn text(&self, out: &mut Out) -> Result<(), Failure> {
        let (bound, system) = (self.bound, &self.bound.system);
        let flux = &bound.source.fluxes[bound.run.flux].name;
        out.line(format!(
            "{}: {} ({flux}, {}), order {}, on {} elements, {} values",
            bound.run.name,
            system.name,
            system.step.name,
            bound.element.order,
            bound.elements(),
            bound.len()
        ))?;
        let energy = energy_line(&self.energy, system);
        let Spectrum { radius, decay, iterations } = self.spectrum;
        let Reach { real, half_disc } = self.reach;
        let rows = [
            ("flux", format!("consistent: equal sides give the physical flux to {:.1e}", self.defect())),
            ("hyperbolic", self.hyperbolicity()),
            ("energy", energy.trim().trim_start_matches("energy = ").to_string()),
            ("spectral radius", format!("{radius:.6e} after {iterations} iterations, decay of its mode {decay:.2}")),
            ("time step", format!("order {}; stable to -{real:.3} and in a half disc of {half_disc:.3}", self.order)),
            ("dt", format!("{:.6e}, {:.3} over the radius", self.dt(), self.dt() * radius)),
        ];
        let rows: Vec<Vec<String>> = rows.map(|(name, text)| vec![format!("  {name}"), text]).to_vec();
        columns(&rows).iter().try_for_each(|line| out.line(line))
    }

    fn object(&self) -> serde_json::Value {
        let (bound, system) = (self.bound, &self.bound.system);
        let (standing, growth) = match self.verdict {
            Verdict::Symmetric => ("proved", None),
            Verdict::Bounded(growth) => ("tested", Some(growth)),
            Verdict::Grows(_) | Verdict::Undefined => ("refuted", None),
        };
        let weights: Vec<String> = self.energy.weights.iter().map(|weight| text::expr(system, weight)).collect();
        json!({
            "problem": bound.run.name,
            "system": system.name,
            "flux": bound.source.fluxes[bound.run.flux].name,
            "order": bound.element.order,
            "elements": bound.elements(),
            "values": bound.len(),
            "flux_defect": self.consistency,
            "hyperbolic": { "standing": standing, "growth": growth },
            "energy": { "conserved": self.energy.symmetric, "weights": weights },
            "spectral_radius": self.spectrum.radius,
            "decay": self.spectrum.decay,
            "step": {
                "name": system.step.name,
                "order": self.order,
                "real": self.reach.real,
                "half_disc": self.reach.half_disc,
            },
            "dt": self.dt(),
        })
    }
}

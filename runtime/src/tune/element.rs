//! Element kernels of a discontinuous Galerkin system as something to search: all kernels of a step, under one variant.
//!
//! # Proof
//! The interpreter runs a candidate on a few elements and holds rates and a step against the evaluation with dense
//! matrices. At the sizes asked for, a random state takes two steps on the device, everything else being NaN before,
//! and rates, states and energy are held against the default's. What rounding explains is not guessed: the reference is
//! evaluated again from a state perturbed by a few roundoffs; the largest change of each component, times 32, and 16
//! roundoffs of its size are allowed.

use std::cell::RefCell;
use std::sync::Arc;

use kernelwright_codegen::galerkin::direct::Direct;
use kernelwright_codegen::galerkin::map::{Fusion, Home, Options, Purpose, Variant, map};
use kernelwright_codegen::galerkin::mesh::{Face, Mesh};
use kernelwright_codegen::galerkin::module::Module;
use kernelwright_codegen::galerkin::reference::node_count;
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::kernel::{self, Kernel};
use kernelwright_codegen::map::{Part, Target};

use super::proof::{MARGIN, PERTURBED, ROUNDOFFS};
use super::session::Session;
use super::space::{Shapes, Space};
use super::strategy::Points;
use super::tunable::{Launches, Proof, Tunable};
use crate::backend::interp::{InterpBackend, InterpOptions};
use crate::backend::{Backend, BackendError, KernelHandle};
use crate::inputs::random;
use crate::march::{Bound, Engine, KernelEngine, options, shapes};
use crate::solve::Error;

/// Elements of the small mesh: fewer than a block has, and odd.
const FEW: usize = 5;
/// The part of a state that a step should change it by.
const CHANGE: f64 = 0.05;

/// What a candidate leaves, on the host: the rate, the state after some steps, and the energy, which dense matrices do not
/// know.
#[derive(Clone)]
struct Left {
    rate: Vec<f64>,
    state: Vec<f64>,
    energy: Option<f64>,
}

/// What the reference left, and by how much each component may differ.
struct Reference {
    left: Left,
    rate: Vec<f64>,
    state: Vec<f64>,
    energy: f64,
}

/// The order of a state: nodes within components within elements.
#[derive(Clone, Copy)]
struct Order {
    components: usize,
    nodes: usize,
}

impl Order {
    fn component(self, at: usize) -> usize {
        at / self.nodes % self.components
    }

    /// Largest difference of two states, and largest value of the first, by component; infinite where one is no number.
    fn compare(self, a: &[f64], b: &[f64]) -> Vec<(f64, f64)> {
        let mut found = vec![(0.0f64, 0.0f64); self.components];
        for (at, (a, b)) in a.iter().zip(b).enumerate() {
            let (largest, size) = &mut found[self.component(at)];
            let difference = (a - b).abs();
            *largest = largest.max(if difference.is_nan() { f64::INFINITY } else { difference });
            *size = size.max(a.abs());
        }
        found
    }

    /// What may differ between states of a reference and what is computed in another order.
    fn tolerances(self, state: &[f64], perturbed: &[f64], roundoff: f64) -> Vec<f64> {
        let allowed = |(response, size): (f64, f64)| MARGIN * response + ROUNDOFFS * roundoff * size;
        self.compare(state, perturbed).into_iter().map(allowed).collect()
    }

    fn agrees(self, what: &str, expected: &[f64], found: &[f64], tolerances: &[f64]) -> Result<(), String> {
        for (component, (largest, _)) in self.compare(expected, found).into_iter().enumerate() {
            let tolerance = tolerances[component];
            if largest > tolerance {
                return Err(format!(
                    "component {component} of the {what} is off by {largest:.2e}, rounding explains {tolerance:.2e}"
                ));
            }
        }
        Ok(())
    }
}

impl Reference {
    /// From what the reference left, and left from a perturbed state.
    fn of(order: Order, left: Left, perturbed: &Left, roundoff: f64) -> Reference {
        let rate = order.tolerances(&left.rate, &perturbed.rate, roundoff);
        let state = order.tolerances(&left.state, &perturbed.state, roundoff);
        let energy = left
            .energy
            .zip(perturbed.energy)
            .map_or(0.0, |(energy, other)| MARGIN * (energy - other).abs() + ROUNDOFFS * roundoff * energy.abs());
        Reference { left, rate, state, energy }
    }

    fn agrees(&self, order: Order, found: &Left) -> Result<(), String> {
        order.agrees("rate", &self.left.rate, &found.rate, &self.rate)?;
        order.agrees("state", &self.left.state, &found.state, &self.state)?;
        if let Some(expected) = self.left.energy {
            let energy = found.energy.unwrap_or(f64::NAN);
            let off = (energy - expected).abs();
            if off.is_nan() || off > self.energy {
                return Err(format!("the energy is {energy:e} instead of {expected:e} ± {:.1e}", self.energy));
            }
        }
        Ok(())
    }

    fn is_finite(&self) -> bool {
        self.rate.iter().chain(&self.state).chain([&self.energy]).all(|tolerance| tolerance.is_finite())
    }
}

/// A system on a few elements, with what it must do there.
struct Small {
    system: System,
    mesh: Mesh,
    params: Vec<f64>,
    materials: Vec<Vec<f64>>,
    order: Order,
    start: Vec<f64>,
    dt: f64,
    reference: Reference,
}

impl Small {
    /// The first elements of a mesh; what lies beyond them is a boundary or, where there are none, the element itself.
    fn new(bound: &Bound, precision: kernel::Element) -> Small {
        let few = FEW.min(bound.plain.elements.len());
        let conditions = bound.system.boundaries.len() as u32;
        let cut = |element: usize, place: usize| match bound.plain.faces[element][place] {
            Face::Shared { element: other, .. } if other as usize >= few && conditions > 0 => {
                Face::Boundary((element + place) as u32 % conditions)
            }
            Face::Shared { element: other, .. } if other as usize >= few => {
                Face::Shared { element: element as u32, face: place as u8, corners: [0, 1, 2] }
            }
            face => face,
        };
        let faces = (0..few).map(|element| [0, 1, 2, 3].map(|place: usize| cut(element, place))).collect();
        let (elements, regions) = (bound.plain.elements[..few].to_vec(), bound.plain.regions[..few].to_vec());
        let mesh = Mesh { vertices: bound.plain.vertices.clone(), elements, faces, regions };
        let (system, params) = (bound.system.clone(), bound.run.params.clone());
        let materials = bound.materials[..few].to_vec();
        let order = order_of(bound);
        let start = random::fill(21, 0, few * order.components * order.nodes);
        let direct = Direct::new(&system, &mesh, bound.element.clone(), params.clone(), materials.clone());
        let dt = step(&start, &direct.rate(&start, 0.0));
        let left = |start: &[f64]| left_by_matrices(&direct, system.step.registers.len(), start, dt);
        let roundoff = roundoff_of(precision);
        let reference = Reference::of(order, left(&start), &left(&perturbed(&start, roundoff)), roundoff);
        Small { system, mesh, params, materials, order, start, dt, reference }
    }

    /// Holds kernels on a back end against the dense matrices.
    fn proves(&self, options: &Options, backend: Box<dyn Backend>) -> Result<(), String> {
        let text = |error: Error| error.to_string();
        let module = map(&self.system, &self.mesh, options).map_err(|error| error.to_string())?;
        let problem = (&self.system, self.params.as_slice(), self.materials.as_slice());
        let mut engine = KernelEngine::load_module(problem, module, backend).map_err(text)?;
        let left = left_by(&mut engine, &self.start, self.dt, 1);
        engine.close();
        self.reference.agrees(self.order, &left.map_err(text)?)
    }
}

/// What the evaluation with dense matrices leaves after a step.
fn left_by_matrices(direct: &Direct, registers: usize, start: &[f64], dt: f64) -> Left {
    let mut all = vec![vec![0.0; start.len()]; registers];
    all[0].copy_from_slice(start);
    direct.advance(&mut all, 0.0, dt);
    Left { rate: direct.rate(start, 0.0), state: all.swap_remove(0), energy: None }
}

/// What an engine leaves after some steps; all that it must write is no number before.
fn left_by(engine: &mut KernelEngine, start: &[f64], dt: f64, steps: u64) -> Result<Left, Error> {
    let (mut rate, mut state) = (vec![0.0; start.len()], vec![0.0; start.len()]);
    engine.poison()?;
    engine.load(start)?;
    engine.rate(0.0, &mut rate)?;
    engine.poison()?;
    engine.load(start)?;
    engine.advance(0.0, dt, steps)?;
    engine.store(&mut state)?;
    Ok(Left { rate, state, energy: engine.energy()? })
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// A step that changes a state noticeably, and not much.
fn step(state: &[f64], rate: &[f64]) -> f64 {
    let rate = largest(rate);
    if rate > 0.0 && rate.is_finite() { CHANGE * largest(state) / rate } else { CHANGE }
}

fn perturbed(state: &[f64], roundoff: f64) -> Vec<f64> {
    let noise = random::fill(77, 0, state.len());
    state.iter().zip(noise).map(|(x, e)| x * (1.0 + 2.0 * PERTURBED * roundoff * e)).collect()
}

fn roundoff_of(precision: kernel::Element) -> f64 {
    if precision == kernel::Element::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON }
}

fn order_of(bound: &Bound) -> Order {
    Order { components: bound.system.components.len(), nodes: bound.nodes() }
}

/// The kernels of a system on a mesh with their candidates.
pub struct ElementSearch<'b> {
    bound: &'b Bound,
    options: Options,
    space: Space<Variant>,
    small: Arc<Small>,
    start: Vec<f64>,
    dt: f64,
    reference: Option<Reference>,
    bytes: u64,
    backend: crate::backend::shared::Shared,
}

/// An engine with its kernels.
pub struct Candidate {
    engine: RefCell<KernelEngine>,
    kernels: Vec<KernelHandle>,
}

impl<'b> ElementSearch<'b> {
    /// Prepares the search; the default on a few elements, run by the device, must do what the dense matrices do.
    ///
    /// # Errors
    /// A system that cannot be mapped, a device that fails, or a default that is wrong.
    pub fn new(session: &mut Session<'_>, bound: &'b Bound) -> Result<ElementSearch<'b>, Error> {
        let options = options(bound, &bound.system, session.target)?;
        let small = Small::new(bound, options.precision);
        if !small.reference.is_finite() {
            return Err(Error::Internal("a random state has no rate".to_string()));
        }
        let backend = session.backend();
        let wrong = |why| Error::Internal(format!("the default element kernels fail their proof: {why}"));
        if backend.small_problems_only().is_none() {
            small.proves(&options, Box::new(backend.clone())).map_err(wrong)?;
        }
        let model = map(&bound.system, &bound.plain, &options).map_err(|error| Error::Input(error.to_string()))?.model;
        let bytes = (model.bytes * model.values as f64 * model.stages as f64) as u64;
        let shapes = ElementShapes { purpose: options.purpose(&bound.system) };
        let space = Space::new(&shapes, options.variant, parts(&shapes.purpose));
        let start = random::fill(23, 0, bound.len());
        let small = Arc::new(small);
        Ok(ElementSearch { bound, options, space, small, start, dt: CHANGE, reference: None, bytes, backend })
    }

    fn options(&self, number: usize) -> Options {
        Options { variant: self.space.variants[number], ..self.options.clone() }
    }

    fn left(&self, candidate: &Candidate, start: &[f64]) -> Result<Left, BackendError> {
        left_by(&mut candidate.engine.borrow_mut(), start, self.dt, 2).map_err(device)
    }
}

/// Errors of an engine, which are those of its device.
fn device(error: Error) -> BackendError {
    match error {
        Error::Backend(error) => error,
        other => BackendError::Device(other.to_string()),
    }
}

impl Tunable for ElementSearch<'_> {
    type Mapped = Module;
    type Candidate = Candidate;

    fn name(&self) -> &str {
        &self.bound.system.name
    }

    fn points(&self) -> &Points {
        &self.space.points
    }

    fn parts(&self, number: usize) -> Vec<(String, String)> {
        self.space.parts(number)
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn map(&self, number: usize) -> Result<(Vec<Kernel>, Module), String> {
        let module = map(&self.bound.system, &self.bound.plain, &self.options(number));
        let module = module.map_err(|error| error.to_string())?;
        Ok((module.kernels.clone(), module))
    }

    fn proof(&self, number: usize) -> Proof {
        let (small, options) = (self.small.clone(), self.options(number));
        let target = self.backend.target();
        Box::new(move || {
            let interpreter = InterpBackend::new(InterpOptions { target, ..InterpOptions::default() });
            small.proves(&options, Box::new(interpreter))
        })
    }

    fn load(&self, _: &mut dyn Backend, mapped: Module, kernels: Vec<KernelHandle>) -> Result<Candidate, BackendError> {
        let problem = (&self.bound.system, self.bound.run.params.as_slice(), self.bound.materials.as_slice());
        let engine = KernelEngine::loaded(problem, mapped, kernels.clone(), Box::new(self.backend.clone()));
        engine.map(|engine| Candidate { engine: RefCell::new(engine), kernels }).map_err(device)
    }

    fn kernels<'c>(&self, candidate: &'c Candidate) -> &'c [KernelHandle] {
        &candidate.kernels
    }

    fn establish(&mut self, _: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        let mut rate = vec![0.0; self.start.len()];
        {
            let mut engine = candidate.engine.borrow_mut();
            engine.load(&self.start).and_then(|()| engine.rate(0.0, &mut rate)).map_err(device)?;
        }
        self.dt = step(&self.start, &rate);
        let roundoff = roundoff_of(self.options.precision);
        let left = self.left(candidate, &self.start)?;
        let again = self.left(candidate, &perturbed(&self.start, roundoff))?;
        let reference = Reference::of(order_of(self.bound), left, &again, roundoff);
        if !reference.is_finite() {
            return Err(BackendError::Device("the default kernels leave what is no number".to_string()));
        }
        self.reference = Some(reference);
        Ok(())
    }

    fn prove(&self, _: &mut dyn Backend, candidate: &Candidate) -> Result<Result<(), String>, BackendError> {
        let Some(reference) = &self.reference else { return Ok(Err("there is no reference".to_string())) };
        Ok(reference.agrees(order_of(self.bound), &self.left(candidate, &self.start)?))
    }

    /// One for each place that the state may be in.
    fn sets(&self) -> usize {
        2
    }

    fn reset(&self, _: &mut dyn Backend, candidate: &Candidate) -> Result<(), BackendError> {
        let mut engine = candidate.engine.borrow_mut();
        // So short a step that nothing grows however often it is made.
        engine.load(&self.start).and_then(|()| engine.advance(0.0, 0.0, 0)).map_err(device)
    }

    fn launches(&self, candidate: &Candidate, set: usize) -> Launches {
        candidate.engine.borrow().step_launches(set % 2)
    }

    fn discard(&self, _: &mut dyn Backend, candidate: Candidate) {
        candidate.engine.into_inner().close();
    }

    fn close(self, _: &mut dyn Backend) {}
}

/// The parts of a variant with the values worth trying.
pub(super) fn parts(purpose: &Purpose) -> Vec<Part> {
    let fusion = Part::new("fusion", ["one", "two", "three"]);
    let geometry = Part::new("geometry", ["stored", "vertices"]);
    match purpose.target {
        Target::Host => {
            vec![fusion, Part::new("parallel", [4, 8, 16, 32]), Part::new("inline", [1, 2, 4, 8]), geometry]
        }
        Target::Cuda => {
            let nodes = node_count(purpose.order);
            let mut side_by_side: Vec<usize> = [64, 96, 128, 192, 256, 384].map(|lanes| (lanes / nodes).max(1)).into();
            side_by_side.dedup();
            vec![
                fusion,
                Part::new("parallel", side_by_side),
                Part::new("inline", [1, 2, 4]),
                Part::new("rows", [1, 2]),
                Part::new("sequential", [1, 2, 4]),
                Part::new("fields", ["shared", "cache"]),
                Part::new("matrices", ["cache", "shared"]),
                geometry,
                Part::new("unroll", [1, 2]),
                Part::new("gather", [1, 2, 4]),
                Part::new("prefetch", ["no", "yes"]),
                Part::new("symmetric", ["no", "yes"]),
                Part::new("turns", ["no", "yes"]),
                Part::new("resident", [0, 2]),
            ]
        }
    }
}

struct ElementShapes {
    purpose: Purpose,
}

impl Shapes for ElementShapes {
    type Variant = Variant;

    fn value(&self, variant: &Variant, key: &str) -> String {
        shapes::value(variant, key)
    }

    fn with(&self, mut variant: Variant, key: &str, value: &str) -> Option<Variant> {
        shapes::change(&mut variant, key, value).ok().map(|()| variant)
    }

    fn sensible(&self, variant: &Variant, default: &Variant, _: &[Part]) -> bool {
        // Several microblocks a block only pay for what is copied once for all of them.
        let sequential = variant.matrices == Home::Shared || variant.sequential == default.sequential;
        sequential && variant.check(&self.purpose).is_ok()
    }

    /// Vectors that pass through memory once more with every kernel of a stage, and lanes that idle.
    fn expected(&self, variant: &Variant) -> f64 {
        let kernels = match variant.fusion {
            Fusion::One => 1.0,
            Fusion::Two => 1.4,
            Fusion::Three => 1.8,
        };
        if self.purpose.target == Target::Host {
            return kernels;
        }
        let lanes = variant.lanes(self.purpose.order) * variant.parallel as usize;
        let idle = lanes.next_multiple_of(32) as f64 / lanes.max(1) as f64;
        kernels * idle * (1.0 + 0.05 * (lanes as f64 / 192.0).log2().abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Target as Runs;
    use crate::load::from_text;
    use crate::march::Changes;

    const WAVES: &str = "
problem dg {
    system maxwell(N = 1); mesh box(n = 1);
    initial E = [0, 0, sin(pi*x)*sin(pi*y)]; initial H = 0;
    boundary all: pec; until 1;
}";

    #[test]
    fn kernels_that_are_slightly_wrong_fail_on_few_elements() {
        let loaded = from_text("waves.kw", WAVES.to_string()).expect("a program");
        let bound = Bound::new(&loaded, 0, &Changes::default()).expect("a problem");
        for target in [Runs::Cuda, Runs::Host] {
            let options = options(&bound, &bound.system, target).expect("shapes");
            let interpreter = || {
                Box::new(InterpBackend::new(InterpOptions { target, ..InterpOptions::default() })) as Box<dyn Backend>
            };
            let mut small = Small::new(&bound, options.precision);
            small.proves(&options, interpreter()).expect("the default is right");
            let size = largest(&small.reference.left.rate);
            small.reference.left.rate[17] +=
                if options.precision == kernel::Element::F32 { 1e-3 } else { 1e-11 } * size;
            let why = small.proves(&options, interpreter()).expect_err("it is wrong");
            assert!(why.contains("of the rate is off"), "{why}");
            small.reference.left.state[3] = f64::NAN;
            assert!(small.proves(&options, interpreter()).is_err());
        }
    }

    #[test]
    fn every_value_of_every_part_is_one_that_can_be_set() {
        for target in [Target::Cuda, Target::Host] {
            let purpose = Purpose { target, precision: kernel::Element::F32, order: 3, components: 6 };
            let shapes = ElementShapes { purpose };
            let default = Variant::default_for(&purpose);
            for part in parts(&purpose) {
                for value in &part.values {
                    let variant = shapes.with(default, part.key, value).expect("a value of the part");
                    assert_eq!(shapes.value(&variant, part.key), *value);
                }
            }
            let space = Space::new(&shapes, default, parts(&purpose));
            assert!(space.variants[0] == default && space.variants.len() > 20);
        }
    }
}

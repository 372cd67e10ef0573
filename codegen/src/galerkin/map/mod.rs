//! Mapping: a system on a mesh becomes kernels of a target with their buffers and launches.
//!
//! Modules in reading order: [`variant`] says what shapes there are; [`forms`] makes the equations ready; [`context`] and
//! [`tables`] lay out the buffers; [`gpu`] and [`host`] write element kernels out of [`faces`], [`rates`] and [`update`];
//! [`sums`] the energy; [`writer`] and [`expression`] write statements; [`model`] counts.

mod context;
mod expression;
mod faces;
mod forms;
mod gpu;
mod symmetric;
mod host;
mod model;
mod rates;
mod sums;
mod tables;
mod update;
mod variant;
mod writer;

use super::mesh::{Mesh, MeshError};
use super::module::{Launch, Module};
use super::reference::{Element, ElementError};
use super::system::System;
use super::verify::{SystemError, verify};
use crate::kernel::{self, Kernel};

use context::Context;
use update::Pattern;
use writer::Made;

pub use crate::map::Target;
pub use variant::{Fusion, Geometry, Home, Purpose, Variant};

/// How a system is mapped.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What for.
    pub target: Target,
    /// Element type of the state: `F32` or `F64`.
    pub precision: kernel::Element,
    /// Polynomial degree.
    pub order: usize,
    /// Shapes of blocks.
    pub variant: Variant,
}

impl Options {
    /// Options with the variant to begin with.
    pub fn new(target: Target, precision: kernel::Element, order: usize, system: &System) -> Options {
        let purpose = Purpose { target, precision, order, components: system.components.len() };
        Options { target, precision, order, variant: Variant::default_for(&purpose) }
    }

    /// What the variant is for.
    pub fn purpose(&self, system: &System) -> Purpose {
        let Options { target, precision, order, .. } = *self;
        Purpose { target, precision, order, components: system.components.len() }
    }
}

/// Why a system was not mapped.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MapError {
    /// States are real.
    #[error("states of {0:?} are not supported: choose f32 or f64")]
    Precision(kernel::Element),
    /// A system that is not well formed.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    System(Vec<SystemError>),
    /// A mesh that is not.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// An order there is no element for.
    #[error(transparent)]
    Order(#[from] ElementError),
    /// A shape that no kernel can have.
    #[error("the variant cannot be used: {0}")]
    Variant(String),
    /// Something that is not supported.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A broken invariant.
    #[error("internal error while mapping: {0}")]
    Internal(String),
}

/// Maps a system on a mesh to kernels.
pub fn map(system: &System, mesh: &Mesh, options: &Options) -> Result<Module, MapError> {
    if !matches!(options.precision, kernel::Element::F32 | kernel::Element::F64) {
        return Err(MapError::Precision(options.precision));
    }
    verify(system).map_err(MapError::System)?;
    mesh.verify(system.boundaries.len())?;
    let element = Element::new(options.order)?;
    options.variant.check(&options.purpose(system))?;
    let cx = Context::new(system, mesh, &element, options)?;
    Ok(Assembly::new(&cx).module())
}

/// What a kernel does of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts<'p> {
    /// Derivatives, geometry, sources.
    volume: bool,
    /// Fluxes and their lift.
    surface: bool,
    /// Assignments of the time step; without them the rate is stored.
    update: Option<&'p Pattern>,
    /// Where a rate without update goes.
    rate: usize,
}

impl Parts<'_> {
    fn name(&self) -> &'static str {
        match (self.volume, self.surface, self.update.is_some()) {
            (true, true, true) => "stage",
            (true, true, false) => "rate",
            (true, false, _) => "volume",
            _ => "surface",
        }
    }

    /// Buffers that it writes.
    fn stored(&self, cx: &Context<'_>) -> Vec<usize> {
        match self.update {
            Some(pattern) => pattern.writes().into_iter().map(|r| cx.target(r)).chain([cx.ids.state[1]]).collect(),
            None => vec![self.rate],
        }
    }
}

/// Kernels so far.
struct Assembly<'c, 'a> {
    cx: &'c Context<'a>,
    kernels: Vec<Kernel>,
    /// Arguments of the kernels, by symbolic buffers.
    args: Vec<Vec<usize>>,
    /// Kernels of stages, by the pattern of their assignments.
    stages: Vec<(Pattern, usize)>,
}

impl<'c, 'a> Assembly<'c, 'a> {
    fn new(cx: &'c Context<'a>) -> Assembly<'c, 'a> {
        Assembly { cx, kernels: Vec::new(), args: Vec::new(), stages: Vec::new() }
    }

    fn module(mut self) -> Module {
        let cx = self.cx;
        let ids = &cx.ids;
        let rate_output = ids.rate.unwrap_or(ids.state[1]);
        let one = cx.variant().fusion == Fusion::One;
        let before = if one { Vec::new() } else { self.rate_kernels(rate_output) };
        let mut step = [Vec::new(), Vec::new()];
        let clock = self.add(sums::clock(cx));
        for (parity, launches) in step.iter_mut().enumerate() {
            for number in 0..cx.system.step.stages.len() {
                let now = if one { (parity + number) % 2 } else { 0 };
                launches.extend(before.iter().map(|&kernel| self.launch(kernel, now, number)));
                let stage = self.stage_kernel(number);
                launches.push(self.launch(stage, now, number));
            }
            launches.push(self.launch(clock, 0, 0));
        }
        let rate_kernels = if one { self.rate_kernels(rate_output) } else { before };
        let rate: Vec<Launch> = rate_kernels.iter().map(|&kernel| self.launch(kernel, 0, 0)).collect();
        let (partial, total) = (self.add(sums::partial(cx)), self.add(sums::total(cx)));
        let prepare: Vec<Launch> = match cx.options.target {
            Target::Cuda => gpu::prepare(cx).map(|made| self.add(made)).map(|kernel| self.launch(kernel, 0, 0)),
            Target::Host => None,
        }
        .into_iter()
        .collect();
        let energy = [0, 1].map(|parity| vec![self.launch(partial, parity, 0), self.launch(total, parity, 0)]);
        Module {
            kernels: self.kernels,
            buffers: cx.buffers.clone(),
            layout: cx.layout,
            state: ids.state,
            registers: ids.registers[1..].to_vec(),
            params: ids.params,
            materials: ids.materials,
            clock: ids.clock,
            prepare,
            step,
            rate,
            rate_output,
            energy,
            energy_output: ids.energy,
            energy_conserved: cx.energy.symmetric,
            model: model::model(cx),
        }
    }

    /// Adds a kernel under a name that no other has.
    fn add(&mut self, (mut kernel, args): Made) -> usize {
        let wanted = kernel.name.clone();
        let mut number = 2;
        while self.kernels.iter().any(|k| k.name == kernel.name) {
            kernel.name = format!("{wanted}_{number}");
            number += 1;
        }
        self.kernels.push(kernel);
        self.args.push(args);
        self.kernels.len() - 1
    }

    fn element_kernel(&mut self, parts: Parts<'_>) -> usize {
        let made = match self.cx.options.target {
            Target::Cuda => gpu::kernel(self.cx, parts),
            Target::Host => host::kernel(self.cx, parts),
        };
        self.add(made)
    }

    /// Kernels that store the rate.
    fn rate_kernels(&mut self, rate: usize) -> Vec<usize> {
        let parts = |volume, surface| Parts { volume, surface, update: None, rate };
        match self.cx.variant().fusion {
            Fusion::Three => vec![self.element_kernel(parts(true, false)), self.element_kernel(parts(false, true))],
            _ => vec![self.element_kernel(parts(true, true))],
        }
    }

    /// The kernel that ends a stage: all of it, or the update.
    fn stage_kernel(&mut self, number: usize) -> usize {
        let pattern = Pattern::of(&self.cx.system.step.stages[number]);
        if let Some((_, kernel)) = self.stages.iter().find(|(p, _)| *p == pattern) {
            return *kernel;
        }
        let kernel = match self.cx.variant().fusion {
            Fusion::One => {
                let rate = self.cx.ids.state[1];
                self.element_kernel(Parts { volume: true, surface: true, update: Some(&pattern), rate })
            }
            _ => self.add(update::kernel(self.cx, &pattern)),
        };
        self.stages.push((pattern, kernel));
        kernel
    }

    /// A launch at a parity and stage.
    fn launch(&self, kernel: usize, parity: usize, stage: usize) -> Launch {
        let ids = &self.cx.ids;
        let actual = |id: usize| {
            if id == ids.stages[0] {
                ids.stages[stage]
            } else if id == ids.state[0] {
                ids.state[parity]
            } else if id == ids.state[1] {
                ids.state[1 - parity]
            } else {
                id
            }
        };
        Launch { kernel, args: self.args[kernel].iter().map(|&id| actual(id)).collect() }
    }
}

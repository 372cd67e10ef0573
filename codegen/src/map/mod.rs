//! Mapping: sweeps and fences become kernels of a target.
//!
//! Every kernel is made by *evaluation at a position* ([`eval`]): a value of a sweep, asked for at a point named by
//! index expressions and their ranges, becomes an expression over loads; where a reading could leave the grid, the
//! boundary rule is resolved from the ranges, and no test remains that cannot fail. What is bound to a name goes to the
//! outermost block where it is known ([`builder`]), so nothing is hoisted by hand.
//!
//! Modules in reading order: [`point`] (with [`march`], and [`staged`] or [`held`] with its [`tile`]) and [`line`] (with [`line_plan`]) lay a sweep out over lanes, blocks and loops; [`sums`], [`fence`] and [`lead`]
//! finish reductions; on rows of a matrix, [`matrix`] lays a sweep out, [`slots`] walks a row, slot by slot or in [`groups`], [`balanced`] cuts products by entries, tile after tile in [`cut`]; [`setup`] evaluates tables; [`eval`], [`rows`], [`reading`], [`coefficients`], [`position`] and [`images`]
//! evaluate; [`landing`], [`factors`] and [`elimination`] build and solve the systems along lines, [`partition`] and [`separators`] solve them with several lanes a line; [`builder`], [`fold`], [`tidy`] and
//! [`names`] write kernels.

mod ahead;
mod along;
mod balanced;
pub(crate) mod builder;
mod coefficients;
mod columns;
mod context;
mod cut;
mod elimination;
mod eval;
mod factors;
mod fence;
pub(crate) mod fold;
mod groups;
mod held;
mod images;
mod landing;
mod lead;
mod line;
mod line_plan;
mod march;
mod matrix;
mod names;
mod partition;
mod parts;
mod point;
mod position;
mod reading;
mod rows;
mod scalars;
mod separators;
mod setup;
mod slots;
mod staged;
mod strips;
mod sums;
mod tidy;
mod tile;
mod variant;
mod wide;

use std::collections::BTreeMap;

use crate::kernel::{Element, Kernel};
use crate::loops::{Granule, Program, SweepId, ValueKind};
use crate::module::{Arg, Launch, Module};

use context::Context;
pub use parts::{Part, Work};
pub use variant::{Finish, Variant};

/// What kernels are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// Lanes are threads of a GPU.
    Cuda,
    /// One lane a block; inner loops that vectorise.
    Host,
}

/// How a program is mapped.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What for.
    pub target: Target,
    /// Element type of vectors, tables and data: `F32` or `F64`.
    pub precision: Element,
    /// Number of measures that the history holds.
    pub history_len: u64,
    /// Shapes of blocks and tiles.
    pub variant: Variant,
}

/// Why a program was not mapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// Vectors are real; the text names what was asked for.
    #[error("vectors of {0:?} are not supported: choose f32 or f64")]
    Precision(Element),
    /// A shape that no kernel can have.
    #[error("the variant cannot be used: {0}")]
    Variant(String),
    /// A program outside what the mapping understands.
    #[error("not supported yet: {0}")]
    Unsupported(String),
    /// A broken invariant of the program: a bug of an earlier stage.
    #[error("internal error while mapping: {0}")]
    Internal(String),
}

/// Variants of single kernels, by the names of sweeps and fences; all others have that of the [`Options`].
pub type Own = BTreeMap<String, Variant>;

/// Maps a program to kernels.
pub fn map(program: &Program, options: &Options) -> Result<Module, MapError> {
    map_each(program, options, &Own::new())
}

/// Maps a program to kernels, some of which have a variant of their own.
pub fn map_each(program: &Program, options: &Options, own: &Own) -> Result<Module, MapError> {
    mapped(program, options, own, None)
}

/// Maps one sweep of a program, which may have a variant of its own, with the setup of the tables that it reads; all
/// other sweeps and all fences have no launches then. It is the kernel that [`map_each`] makes where no fence is finished
/// by a sweep's last block.
pub fn map_sweep(program: &Program, options: &Options, own: &Own, sweep: SweepId) -> Result<Module, MapError> {
    mapped(program, options, own, Some(sweep))
}

fn mapped(program: &Program, options: &Options, own: &Own, only: Option<SweepId>) -> Result<Module, MapError> {
    let mut of = BTreeMap::new();
    for (name, variant) in own {
        variant.check()?;
        of.insert(name.as_str(), Options { variant: variant.clone(), ..options.clone() });
    }
    let mut context = Context::new(program, options)?;
    let last = options.target == Target::Cuda
        && options.variant.fence != Some(Finish::Own)
        && program.operator.space.rows().is_none();
    let mut leading = lead::leaders(program, options);
    let mut closing = if last { fence::followers(program) } else { BTreeMap::new() };
    if options.variant.fence == Some(Finish::Next) {
        closing.retain(|_, fence| !leading.values().any(|led| led == fence));
    }
    if !closing.is_empty() || !leading.is_empty() {
        context.arrivals = context.buffer("arrivals".into(), Element::I32, 1);
    }
    let mut sweeps = Vec::new();
    for number in 0..program.sweeps.len() {
        let sweep = &program.sweeps[number];
        if only.is_some_and(|only| only.0 != number) {
            sweeps.push(Vec::new());
            continue;
        }
        context.options = of.get(sweep.name.as_str()).unwrap_or(options);
        let width = context.options.variant.width.filter(|_| options.target == Target::Host);
        let side_by_side = |(kernel, args): context::Made| (Kernel { simd_width: width, ..kernel }, args);
        if program.operator.space.rows().is_some() {
            let made = matrix::kernels(&mut context, SweepId(number))?;
            sweeps.push(made.into_iter().map(side_by_side).collect());
            continue;
        }
        if context.options.variant.fence == Some(Finish::Own) {
            closing.remove(&SweepId(number));
        }
        context.closing = closing.get(&SweepId(number)).copied();
        // The sweeps before are mapped, and have settled who finishes their sums.
        leading.retain(|sweep, fence| {
            sweep.0 != number
                || !closing.values().any(|closed| closed == fence) && lead::worth(&context, options, *fence)
        });
        context.leading = leading.get(&SweepId(number)).copied();
        let solves = sweep.values.iter().any(|v| matches!(v.kind, ValueKind::Solve(..)));
        let made = match sweep.granule {
            Granule::Line(axis) if solves => line::kernel(&mut context, SweepId(number), axis)?,
            _ => point::kernel(&mut context, SweepId(number))?,
        };
        if context.closing.is_none() {
            closing.remove(&SweepId(number));
        }
        sweeps.push(vec![side_by_side(made)]);
    }
    // What no sweep reads is not set up: values of a side that only the affine part would read, say.
    let reads = |table: usize| sweeps.iter().flatten().any(|(_, args)| args.contains(&Arg::Module(table)));
    let mut output = Output::default();
    for made in setup::tables(&context, &reads)? {
        let launch = output.launch(made);
        output.setup.push(launch);
    }
    for made in sweeps {
        let launches = made.into_iter().map(|made| output.launch(made)).collect();
        output.sweeps.push(launches);
    }
    (context.closing, context.leading) = (None, None);
    for (number, fence) in program.fences.iter().enumerate() {
        let done = |number: usize| closing.values().chain(leading.values()).any(|done| done.0 == number);
        if only.is_some() || done(number) {
            output.fences.push(Vec::new());
            continue;
        }
        context.options = of.get(fence.name.as_str()).unwrap_or(options);
        let made = fence::kernel(&context, fence)?;
        let launch = output.launch(made);
        output.fences.push(vec![launch]);
    }
    Ok(Module {
        kernels: output.kernels,
        setup: output.setup,
        sweeps: output.sweeps,
        fences: output.fences,
        buffers: context.buffers,
        vector_len: context.points * context.grid.components as u64,
        real: options.precision,
    })
}

/// Kernels made so far and their launches.
#[derive(Default)]
struct Output {
    kernels: Vec<Kernel>,
    setup: Vec<Launch>,
    sweeps: Vec<Vec<Launch>>,
    fences: Vec<Vec<Launch>>,
}

impl Output {
    /// Adds a kernel, under a name that no other has, with its launch.
    fn launch(&mut self, (mut kernel, args): context::Made) -> Launch {
        let wanted = kernel.name.clone();
        let mut number = 2;
        while self.kernels.iter().any(|k| k.name == kernel.name) {
            kernel.name = format!("{wanted}_{number}");
            number += 1;
        }
        self.kernels.push(kernel);
        Launch { kernel: self.kernels.len() - 1, args }
    }
}

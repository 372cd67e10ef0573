//! What all kernels of a module share: sizes, buffers with their contents, the prepared system.

use super::forms::{Forms, prepare};
use super::symmetric::Split;
use super::tables;
use super::variant::{Fusion, Geometry, Variant};
use super::{MapError, Options, Target};
use crate::galerkin::energy::{Energy, derive};
use crate::galerkin::mesh::Mesh;
use crate::galerkin::module::{Buffer, Contents, Layout};
use crate::galerkin::reference::Element;
use crate::galerkin::system::{Boundary, Expr, Side, System};
use crate::kernel::{self, IndexWidth, Type};

/// Numbers of buffers. `state[0]` stands for the state that a kernel reads and `state[1]` for the one it writes, `stages[0]`
/// for the coefficients of its stage: launches put the right ones in.
#[derive(Debug, Default)]
pub(super) struct Ids {
    pub state: [usize; 2],
    pub registers: Vec<usize>,
    pub rate: Option<usize>,
    pub stages: Vec<usize>,
    pub clock: usize,
    pub params: Option<usize>,
    pub materials: Option<usize>,
    pub derivative: usize,
    pub lift: usize,
    pub mass: usize,
    pub face_nodes: usize,
    pub met_nodes: usize,
    pub neighbour: usize,
    pub joint: usize,
    pub gradients: usize,
    /// Slots of faces, `[microblock][slot][face]`, and records of elements, if they are prepared.
    pub face_values: Option<usize>,
    pub element_values: Option<usize>,
    pub vertex_ids: usize,
    pub vertices: usize,
    pub places: usize,
    pub face_corners: usize,
    pub measure: usize,
    pub partial: usize,
    pub energy: usize,
}

/// Sizes of kernels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Nodes of an element, of a face, of all faces.
    pub nodes: usize,
    pub face_nodes: usize,
    pub all_face_nodes: usize,
    pub components: usize,
    /// Nodes of a lane, lanes of an element, and their product: rows of the matrices.
    pub rows: usize,
    pub lanes: usize,
    pub all_rows: usize,
    /// Elements of a lane, side by side, in sequence.
    pub inline: usize,
    pub parallel: usize,
    pub sequential: usize,
    /// Elements of a microblock.
    pub microblock: usize,
    /// Elements of a vector access, and the nodes rounded up to it.
    pub wide: usize,
    pub wide_nodes: usize,
    /// Places of a row of shared fields and of shared fluxes, and columns of the matrices that multiply them.
    pub row: usize,
    pub flux_row: usize,
    pub columns: usize,
    pub flux_columns: usize,
    pub elements: usize,
    pub padded: usize,
}

/// Shared by all kernels.
pub(super) struct Context<'a> {
    pub system: &'a System,
    pub options: &'a Options,
    pub element: &'a Element,
    pub forms: Forms,
    pub energy: Energy,
    pub shape: Shape,
    pub layout: Layout,
    pub buffers: Vec<Buffer>,
    pub ids: Ids,
    /// Parts that are worked on instead of nodal values.
    pub split: Option<Split>,
    pub real: Type,
    pub index: IndexWidth,
}

impl<'a> Context<'a> {
    pub fn new(
        system: &'a System,
        mesh: &Mesh,
        element: &'a Element,
        options: &'a Options,
    ) -> Result<Context<'a>, MapError> {
        let shape = shape(system, mesh, element, options);
        let host = options.target == Target::Host;
        let layout = Layout {
            elements: shape.elements,
            padded: shape.padded,
            pack: shape.parallel,
            components: shape.components,
            nodes: shape.nodes,
            interleaved: host,
        };
        let real = options.precision.value_type();
        let mut forms = prepare(system);
        for axis in 0..3 {
            let normal = Expr::Normal(axis);
            let read = boundary_exprs(system).any(|e| e.any(|e| *e == normal));
            if read && !forms.face_slots.contains(&normal) {
                forms.face_slots.push(normal);
            }
        }
        let mut context = Context {
            system,
            options,
            element,
            forms,
            energy: derive(system),
            shape,
            layout,
            buffers: Vec::new(),
            ids: Ids::default(),
            split: None,
            real,
            index: IndexWidth::I32,
        };
        context.state_buffers();
        context.prepared_buffers();
        context.scalar_buffers();
        tables::reference(&mut context);
        tables::mesh(&mut context, mesh)?;
        if context.buffers.iter().any(|buffer| buffer.len > i32::MAX as u64) {
            context.index = IndexWidth::I64;
        }
        Ok(context)
    }

    pub fn variant(&self) -> &Variant {
        &self.options.variant
    }

    /// Adds a buffer.
    pub fn add(&mut self, name: &str, element: kernel::Element, len: usize, contents: Contents) -> usize {
        self.buffers.push(Buffer { name: name.to_owned(), element, len: len as u64, contents });
        self.buffers.len() - 1
    }

    /// Adds a buffer that never changes.
    pub fn constant(&mut self, name: &str, element: kernel::Element, values: Vec<f64>) -> usize {
        self.add(name, element, values.len(), Contents::Values(values))
    }

    /// The buffer that a register's new value goes to.
    pub fn target(&self, register: usize) -> usize {
        if register == 0 { self.ids.state[1] } else { self.ids.registers[register] }
    }

    /// Element type of offsets.
    pub fn integer(&self) -> kernel::Element {
        if self.index == IndexWidth::I64 { kernel::Element::I64 } else { kernel::Element::I32 }
    }

    /// Whether positions are read anywhere.
    pub fn reads_position(&self) -> bool {
        let sources = self.system.rates.iter().filter_map(|rate| rate.source.as_ref());
        sources.chain(boundary_exprs(self.system)).any(|e| e.any(|e| matches!(e, Expr::Position(_))))
    }

    fn state_buffers(&mut self) {
        let (len, real) = (self.layout.len(), self.options.precision);
        let first = self.add("state", real, len, Contents::Zeros);
        let in_place = self.variant().fusion != Fusion::One;
        let second = if in_place { first } else { self.add("state_next", real, len, Contents::Zeros) };
        self.ids.state = [first, second];
        self.ids.registers = vec![first];
        for name in self.system.step.registers.clone().iter().skip(1) {
            let register = self.add(name, real, len, Contents::Zeros);
            self.ids.registers.push(register);
        }
        self.ids.rate = in_place.then(|| self.add("rate", real, len, Contents::Zeros));
    }

    /// What is computed once for faces and elements.
    fn prepared_buffers(&mut self) {
        if self.variant().geometry != Geometry::Faces {
            return;
        }
        let (padded, real) = (self.shape.padded, self.options.precision);
        let slots = 4 * self.forms.face_slots.len() * padded;
        if slots > 0 {
            self.ids.face_values = Some(self.add("face_values", real, slots, Contents::Zeros));
        }
        let records = self.record() * padded;
        self.ids.element_values = Some(self.add("element_values", real, records, Contents::Zeros));
    }

    /// Numbers of an element in its record: gradients, then slots.
    pub fn record(&self) -> usize {
        (9 + self.forms.element_slots.len()).next_multiple_of(self.shape.wide)
    }

    fn scalar_buffers(&mut self) {
        let f64_ = kernel::Element::F64;
        self.ids.clock = self.add("clock", f64_, 4, Contents::Zeros);
        let system = self.system;
        let count = |stage: &crate::galerkin::step::Stage| {
            1 + stage.updates.iter().map(|update| update.terms.len() + 1).sum::<usize>()
        };
        let longest = system.step.stages.iter().map(count).max().unwrap_or(1);
        for (number, stage) in system.step.stages.iter().enumerate() {
            let mut values = vec![stage.time];
            for update in &stage.updates {
                values.extend(update.terms.iter().map(|&(_, factor)| factor));
                values.push(update.rate);
            }
            // Kernels are made for one stage and launched for others.
            values.resize(longest, 0.0);
            let id = self.constant(&format!("stage_{number}"), f64_, values);
            self.ids.stages.push(id);
        }
        if !system.params.is_empty() {
            self.ids.params = Some(self.add("params", f64_, system.params.len(), Contents::Zeros));
        }
        if !system.materials.is_empty() {
            let len = system.materials.len() * self.shape.padded;
            self.ids.materials = Some(self.add("materials", self.options.precision, len, Contents::Zeros));
        }
        let partials = match self.options.target {
            Target::Host => self.shape.padded / self.shape.parallel,
            Target::Cuda => self.shape.padded / self.shape.microblock,
        };
        self.ids.partial = self.add("partial_energy", f64_, partials, Contents::Zeros);
        self.ids.energy = self.add("energy", f64_, 1, Contents::Zeros);
    }

    /// Boundaries whose exterior value of a component is not simply the interior's.
    pub fn changes(boundary: &Boundary, component: usize) -> Option<&Expr> {
        boundary.components.get(component).filter(|e| **e != Expr::Component(Side::Interior, component))
    }

    /// Components whose derivatives are needed.
    pub fn differentiated(&self, component: usize) -> bool {
        let groups = self.forms.rates.iter().flatten();
        groups.flat_map(|group| &group.terms).any(|&(_, c, axis)| c == component && axis.is_some())
    }

    /// Whether vertices are read.
    pub fn reads_vertices(&self) -> bool {
        self.reads_position() || self.variant().geometry == Geometry::Vertices
    }
}

/// All expressions of boundary conditions.
fn boundary_exprs(system: &System) -> impl Iterator<Item = &Expr> {
    system.boundaries.iter().flat_map(|boundary| boundary.components.iter().chain(&boundary.materials))
}

fn shape(system: &System, mesh: &Mesh, element: &Element, options: &Options) -> Shape {
    let variant = &options.variant;
    let host = options.target == Target::Host;
    let (inline, parallel) = (variant.inline as usize, variant.parallel as usize);
    let sequential = if host { 1 } else { variant.sequential as usize };
    let microblock = if host { parallel } else { inline * parallel };
    let wide = 16 / options.precision.bytes() as usize;
    let nodes = element.node_count();
    let all_face_nodes = 4 * element.face_node_count();
    let wide_nodes = nodes.next_multiple_of(wide);
    let lanes = variant.lanes(element.order);
    let (mut row, mut flux_row, mut columns, mut flux_columns) =
        (wide_nodes, all_face_nodes, wide_nodes, all_face_nodes);
    if let Some(split) = Split::of(variant, element.order, wide).filter(|_| !host) {
        (row, columns) = (split.nodes.width, split.nodes.longest);
        (flux_row, flux_columns) = (split.faces.width, split.faces.longest);
    }
    Shape {
        nodes,
        face_nodes: element.face_node_count(),
        all_face_nodes,
        components: system.components.len(),
        rows: variant.rows as usize,
        lanes,
        all_rows: lanes * variant.rows as usize,
        inline,
        parallel,
        sequential,
        microblock,
        wide,
        wide_nodes,
        row,
        flux_row,
        columns,
        flux_columns,
        elements: mesh.elements.len(),
        padded: mesh.elements.len().next_multiple_of(microblock * sequential),
    }
}

//! Shapes of element kernels.
//!
//! On a GPU a block works on *microblocks* of `parallel * inline` elements, `sequential` of them one after another (the
//! w_p, w_i and w_s of Klöckner et al., 2009, section 4): a lane is one node of `parallel` elements side by side, and holds
//! the sums of `inline` elements in registers, so that a loaded matrix entry is used for all their components. On the
//! host a block is a pack of `parallel` elements, one per SIMD lane, and `inline` nodes share a load of the field.

use super::symmetric::{self, Split};
use super::{MapError, Target};
use crate::galerkin::reference::symmetry::Parts;
use crate::galerkin::reference::{face_node_count, node_count};
use crate::kernel::Element;
use crate::kernel_verify::MAX_SHARED_BYTES;

/// Lanes of a warp, and warps that the registers of a multiprocessor (65,536 of them) would do for if each lane had one;
/// they are given out to four groups of warps.
const WARP: usize = 32;
const WARPS_AT_ONE_REGISTER: usize = 65_536 / WARP;

/// A shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variant {
    /// Kernels of a stage.
    pub fusion: Fusion,
    /// Elements side by side (w_p); on the host: SIMD lanes.
    pub parallel: u32,
    /// Elements of a lane (w_i); on the host: nodes at once.
    pub inline: u32,
    /// Nodes of a lane on a GPU: a value from shared memory is used for so many rows.
    pub rows: u32,
    /// Microblocks of a block, one after another (w_s).
    pub sequential: u32,
    /// Where the fields of the own elements are read from.
    pub fields: Home,
    /// Where the matrices are read from.
    pub matrices: Home,
    /// Where geometry comes from.
    pub geometry: Geometry,
    /// Unrolling of the loops over nodes, in vector accesses; 0: completely.
    pub unroll: u32,
    /// Unrolling of the loop over face nodes: how many gathers of a lane are in flight.
    pub gather: u32,
    /// Work on even and odd parts of the fields, on which matrices are blocks of a quarter of the rows and columns.
    pub symmetric: bool,
    /// The derivatives along the three reference coordinates one after the other: a third of their sums in registers at a
    /// time. By parts each reads other values anyway; nodal values are read three times.
    pub turns: bool,
    /// Load the registers of the time step before the long loops rather than after.
    pub prefetch: bool,
    /// Blocks that a multiprocessor should hold at least.
    pub resident: Option<u32>,
}

/// Kernels of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fusion {
    /// Volume, surface and update in one, from one copy of the state to the other.
    One,
    /// Volume and surface, then the update in place.
    Two,
    /// Volume, surface, update.
    Three,
}

/// Lanes rounded up to an even number. Two neighbouring lanes that read the same words of shared memory get them in half the
/// passes, but only if all pairs of a warp do: elements, and kinds of parts, therefore begin at an even lane.
pub(super) fn pairs(lanes: usize) -> usize {
    lanes.next_multiple_of(2)
}

/// A memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Home {
    /// Copied to shared memory first.
    Shared,
    /// Read from global memory, through the first-level cache.
    Cache,
}

/// Where geometry comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Geometry {
    /// Three gradients an element, computed in f64.
    Stored,
    /// Recomputed from the vertices in every stage, in the working precision.
    Vertices,
    /// Gradients, and with them all that is the same for a face or an element (normals, what fluxes make of materials),
    /// computed once when materials and parameters are known. For a GPU.
    Faces,
}

/// What a variant is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    /// Target.
    pub target: Target,
    /// Precision of the state.
    pub precision: Element,
    /// Polynomial degree.
    pub order: usize,
    /// Components of the system.
    pub components: usize,
}

impl Variant {
    /// The variant to begin with.
    pub fn default_for(purpose: &Purpose) -> Variant {
        let base = Variant {
            fusion: Fusion::One,
            parallel: if purpose.precision == Element::F64 { 8 } else { 16 },
            inline: 2,
            rows: 1,
            sequential: 1,
            fields: Home::Shared,
            matrices: Home::Cache,
            geometry: Geometry::Stored,
            unroll: 1,
            gather: 2,
            symmetric: false,
            turns: false,
            prefetch: false,
            resident: None,
        };
        match purpose.target {
            // Twelve sums of derivatives in registers.
            Target::Host => Variant { inline: 4, ..base },
            Target::Cuda => Variant::for_gpu(base, purpose),
        }
    }

    /// Sums of derivatives of a lane (three a component and element) stay well below the registers a lane can have. A block
    /// has some 128 to 256 lanes, as few of them as possible idle in the last warp, or one element with many nodes.
    fn for_gpu(base: Variant, purpose: &Purpose) -> Variant {
        let nodes = node_count(purpose.order);
        let double = purpose.precision == Element::F64;
        // Where arithmetic is the limit, a quarter of the multiplications pays (measured in docs/performance.md).
        let symmetric = purpose.order >= 5;
        let sums = if symmetric { 128 } else { 48 } / if double { 2 } else { 1 };
        let fit = (sums / (3 * purpose.components)).clamp(1, 4) as u32;
        let inline = match fit {
            _ if symmetric => fit.min(1 + u32::from(double || purpose.order >= 7)),
            3 => 2,
            n => n,
        };
        let idle = |parallel: &usize| {
            let lanes = parallel * nodes;
            // In percent of the lanes; small differences do not count.
            (lanes.next_multiple_of(32) - lanes) * 100 / lanes / 2
        };
        let most = if nodes > 64 { 1 } else { 256 / nodes };
        let range = (128 / nodes).clamp(1, most)..=most;
        let parallel = range.min_by_key(idle).unwrap_or(1) as u32;
        // What faces share is worth a table where a multiprocessor holds few blocks, whose lanes would wait for those that
        // compute it; elements of fewer nodes read more than they save (measured there, too).
        let geometry = match (purpose.order, double) {
            (4 | 5, false) | (3 | 4 | 6, true) => Geometry::Faces,
            _ => Geometry::Stored,
        };
        let mut variant = Variant { parallel, inline, symmetric, geometry, ..base };
        // Two rows share what they read, where their sums fit; by parts in blocks of one element, whose few warps wait
        // little at barriers. At order 6, whose kinds of parts do not fill them, one row is faster (measured there, too).
        let inline = if symmetric && double { 1 } else { inline };
        let fits = 6 * purpose.components * inline as usize <= if double { 40 } else { 80 };
        match purpose.order {
            4 if !double && fits => variant.rows = 2,
            5 | 7.. if fits => (variant.rows, variant.parallel, variant.inline) = (2, 1, inline),
            _ => {}
        }
        // Six warps and two elements a lane: with 96 registers there are three such blocks, with a few more only two.
        if symmetric && !double && variant.rows == 1 && inline == 2 && (nodes * parallel as usize).div_ceil(WARP) == 6 {
            variant.resident = Some(3);
        }
        while variant.parallel > 1 && variant.shared_bytes(purpose) > MAX_SHARED_BYTES / 2 {
            variant.parallel -= 1;
        }
        while variant.inline > 1 && variant.shared_bytes(purpose) > MAX_SHARED_BYTES {
            variant.inline /= 2;
        }
        variant
    }

    /// The default first, then what a tuner should try: the default with other values along one axis or two.
    pub fn candidates(purpose: &Purpose) -> Vec<Variant> {
        let base = Variant::default_for(purpose);
        let mut list = vec![base];
        match purpose.target {
            Target::Host => list.extend([1, 2, 8].map(|inline| Variant { inline, ..base })),
            Target::Cuda => list.extend(Variant::gpu_candidates(&base, node_count(purpose.order))),
        }
        let mut tried: Vec<Variant> = Vec::new();
        list.retain(|variant| {
            let new = !tried.contains(variant) && variant.check(purpose).is_ok();
            tried.push(*variant);
            new
        });
        list
    }

    fn gpu_candidates(base: &Variant, nodes: usize) -> Vec<Variant> {
        let mut list = Vec::new();
        for rows in [1, 2] {
            for inline in [1, 2, 4] {
                for lanes in [96, 112, 192, 224, 448] {
                    let parallel = (rows as usize * lanes / nodes).max(1) as u32;
                    list.push(Variant { rows, inline, parallel, ..*base });
                }
            }
        }
        list.extend([1, 4].map(|gather| Variant { gather, ..*base }));
        list.extend([2, 4].map(|unroll| Variant { unroll, ..*base }));
        list.push(Variant { prefetch: true, ..*base });
        list.push(Variant { turns: !base.turns, ..*base });
        // Registers that a lane may have at most, as blocks that a multiprocessor should hold then.
        let warps = (base.parallel as usize * nodes / base.rows as usize).div_ceil(WARP);
        let resident = |registers: usize| (WARPS_AT_ONE_REGISTER / registers / 4 * 4 / warps) as u32;
        let resident = [64, 80, 96, 128].map(resident).into_iter().filter(|blocks| *blocks > 0);
        list.extend(resident.map(|blocks| Variant { resident: Some(blocks), ..*base }));
        for (rows, inline) in [(1, 2), (2, 1), (2, 2), (1, 1)] {
            for lanes in [112, 224] {
                let parallel = (rows as usize * lanes / nodes).max(1) as u32;
                list.push(Variant { symmetric: !base.symmetric, rows, inline, parallel, ..*base });
            }
        }
        list.extend(
            [Geometry::Stored, Geometry::Faces, Geometry::Vertices].map(|geometry| Variant { geometry, ..*base }),
        );
        list.push(Variant { matrices: Home::Shared, sequential: 4, ..*base });
        list.push(Variant { fields: Home::Cache, symmetric: false, ..*base });
        list.extend([Fusion::Two, Fusion::Three].map(|fusion| Variant { fusion, ..*base }));
        list
    }

    /// Elements of a microblock on a GPU.
    pub fn microblock(&self) -> usize {
        self.parallel as usize * self.inline as usize
    }

    /// Lanes of an element on a GPU.
    pub fn lanes(&self, order: usize) -> usize {
        let rows = self.rows.max(1) as usize;
        match self.symmetric {
            true => symmetric::lanes(&Parts::of_nodes(order, 1), rows),
            false => pairs(node_count(order).div_ceil(rows)),
        }
    }

    /// Shared memory of a block for fields, fluxes and (if they are there) matrices, without the small records.
    pub fn shared_bytes(&self, purpose: &Purpose) -> u64 {
        let nodes = node_count(purpose.order);
        let wide = 16 / purpose.precision.bytes() as usize;
        let (mut row, mut faces) = (nodes + 4, 4 * face_node_count(purpose.order));
        let (mut columns, mut face_columns) = (row, faces);
        if let Some(split) = Split::of(self, purpose.order, wide) {
            (row, columns) = (split.nodes.width, split.nodes.longest);
            (faces, face_columns) = (split.faces.width, split.faces.longest);
        }
        let field = if self.fields == Home::Shared { row } else { 0 };
        let per_element = purpose.components * (faces + field) + 48;
        let rows = self.lanes(purpose.order) * self.rows.max(1) as usize;
        let matrices = if self.matrices == Home::Shared { (3 * columns + face_columns) * rows } else { 0 };
        (self.microblock() * per_element + matrices) as u64 * purpose.precision.bytes()
    }

    /// Checks that blocks of this shape can exist.
    ///
    /// # Errors
    /// A shape that no block can have.
    pub fn check(&self, purpose: &Purpose) -> Result<(), MapError> {
        let refuse = |why: String| Err(MapError::Variant(why));
        if [self.parallel, self.inline, self.rows, self.sequential].contains(&0) {
            return refuse("every extent is at least 1".into());
        }
        // All of them become statements or blocks of a kernel.
        let limits = [
            ("inline", self.inline, 64),
            ("sequential", self.sequential, 1024),
            ("unroll", self.unroll, 1024),
            ("gather", self.gather, 1024),
        ];
        if let Some((name, value, most)) = limits.into_iter().find(|(_, value, most)| value > most) {
            return refuse(format!("{name} of {value}, more than {most}"));
        }
        if purpose.target == Target::Host {
            return match self.geometry {
                Geometry::Faces => refuse("the host stores nothing for faces".into()),
                _ if self.parallel > 64 => refuse(format!("{} SIMD lanes", self.parallel)),
                _ => Ok(()),
            };
        }
        let nodes = node_count(purpose.order);
        if self.rows as usize > nodes {
            return refuse(format!("{} rows a lane of {nodes} nodes", self.rows));
        }
        if self.symmetric && self.fields != Home::Shared {
            return refuse("parts of fields are formed in shared memory".into());
        }
        // The energy has a lane a node.
        let lanes = self.lanes(purpose.order).max(nodes) * self.parallel as usize;
        if lanes > 1024 {
            return refuse(format!("a block of {lanes} lanes"));
        }
        let bytes = self.shared_bytes(purpose);
        if bytes > MAX_SHARED_BYTES {
            return refuse(format!("{bytes} bytes of shared memory a block"));
        }
        Ok(())
    }
}

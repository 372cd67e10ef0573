//! A problem of a system, bound: mesh read, materials and conditions assigned, initial values evaluated.

use std::path::{Path, PathBuf};

use kernelwright_codegen::galerkin::lower::lower;
use kernelwright_codegen::galerkin::mesh::{Face, Mesh as Plain};
use kernelwright_codegen::galerkin::reference::Element;
use kernelwright_codegen::galerkin::system::System;
use kernelwright_codegen::galerkin::verify::verify;
use kernelwright_syntax::growth;
use kernelwright_syntax::program::Precision;
use kernelwright_syntax::program::system::{self as syntax, Formula, Known, MeshSource, Run};

use crate::load::Loaded;
use crate::mesh::{Behind, Cuboid, Family, Mesh, read};
use crate::solve::Error;

/// What is changed in a problem from outside.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    /// A mesh file instead of the problem's mesh.
    pub mesh: Option<PathBuf>,
    /// The order by its name, components of parameters, `nx`, `ny`, `nz`, `n` of a box, `until`.
    pub set: Vec<(String, f64)>,
    /// Precision instead of the problem's.
    pub precision: Option<Precision>,
    /// Parts of the variant of the kernels, instead of the default's.
    pub variant: Vec<(String, String)>,
    /// Which mesh.
    pub extent: Extent,
}

/// Which mesh a problem is bound to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// Its own.
    #[default]
    Own,
    /// Its own; where it names none, a small box with joined sides.
    OwnOrBox,
    /// Its own box with few cubes; where its mesh comes from elsewhere, a small box with joined sides.
    Small,
}

/// A problem with everything that it needs.
#[derive(Debug, Clone)]
pub struct Bound {
    /// The problem.
    pub run: Run,
    /// The system as checked.
    pub source: syntax::System,
    /// The system for kernels, with the problem's flux and time step.
    pub system: System,
    /// The mesh with its names.
    pub mesh: Mesh,
    /// The mesh for kernels; boundaries are the system's.
    pub plain: Plain,
    /// The reference element.
    pub element: Element,
    /// One number per material, for each element.
    pub materials: Vec<Vec<f64>>,
    /// Values at the start: `values[(element * components + component) * nodes + node]`.
    pub initial: Vec<f64>,
    /// Parts of the variant of the kernels that are not the default's.
    pub variant: Vec<(String, String)>,
    /// Threads that run the kernels, where they are not all.
    pub threads: Option<usize>,
    /// What a user should know.
    pub notes: Vec<String>,
}

impl Bound {
    /// Binds problem number `run` of a program.
    ///
    /// # Errors
    /// A mesh that cannot be read, boundaries without condition, materials that make no sense, wrong changes.
    pub fn new(loaded: &Loaded, run: usize, changes: &Changes) -> Result<Bound, Error> {
        let run =
            loaded.program.runs.get(run).ok_or_else(|| Error::Usage(format!("there is no problem number {run}")))?;
        let mut run = run.clone();
        let source = loaded.program.systems[run.system].clone();
        for (name, value) in &changes.set {
            set(&mut run, &source, name, *value)?;
        }
        run.precision = changes.precision.unwrap_or(run.precision);
        if run.precision == Precision::Mixed {
            return Err(Error::Usage("a system computes in f32 or f64; mixed is for solvers".to_string()));
        }
        let system = lower(&source, run.flux, &loaded.program.steps[run.step]);
        verify(&system).map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Error::Input(lines.join("\n"))
        })?;
        let stands_in = changes.mesh.is_none() && stand_in(&mut run, changes);
        let mut mesh = mesh(&run, &loaded.folder, changes.mesh.as_deref())?;
        let element = Element::new(run.order as usize).map_err(|error| Error::Input(error.to_string()))?;
        let mut notes = mesh.notes.clone();
        if stands_in {
            notes.push(format!("a periodic box of {} elements stands for the mesh", mesh.elements.len()));
            spread_regions(&run, &mut mesh);
        }
        let plain = plain(&run, &source, &mesh, &mut notes)?;
        plain.verify(system.boundaries.len()).map_err(|error| Error::Internal(error.to_string()))?;
        let materials = materials(&run, &source, &mesh, &mut notes)?;
        hyperbolic(&run, &source, &mesh, &materials)?;
        let (variant, initial, threads) = (changes.variant.clone(), Vec::new(), None);
        let mut bound =
            Bound { run, source, system, mesh, plain, element, materials, initial, variant, threads, notes };
        bound.initial = bound.nodal(&bound.run.initial.iter().map(Some).collect::<Vec<_>>(), 0.0);
        // What begins on another mesh need not make sense on this one.
        match stands_in || bound.initial.iter().all(|value| value.is_finite()) {
            true => Ok(bound),
            false => Err(Error::Input(format!("{}: the initial values are not finite everywhere", bound.run.name))),
        }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.mesh.elements.len()
    }

    /// Nodes of an element.
    pub fn nodes(&self) -> usize {
        self.element.node_count()
    }

    /// Number of values of a state.
    pub fn len(&self) -> usize {
        self.system.components.len() * self.elements() * self.nodes()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where the values of a component on an element begin.
    pub fn first(&self, component: usize, element: usize) -> usize {
        (element * self.system.components.len() + component) * self.nodes()
    }

    /// A point of an element by its barycentric coordinates.
    pub fn place(&self, element: usize, weights: [f64; 4]) -> [f64; 3] {
        let corners = self.mesh.corners(element);
        std::array::from_fn(|axis| (0..4).map(|corner| weights[corner] * corners[corner][axis]).sum())
    }

    /// Values of formulas at all nodes; zero where there is none.
    pub fn nodal(&self, formulas: &[Option<&Formula>], time: f64) -> Vec<f64> {
        let mut values = vec![0.0; self.len()];
        for (component, formula) in formulas.iter().enumerate() {
            let Some(formula) = formula else { continue };
            for element in 0..self.elements() {
                let first = self.first(component, element);
                for (node, weights) in self.element.nodes.iter().enumerate() {
                    values[first + node] = self.value(formula, element, self.place(element, *weights), time);
                }
            }
        }
        values
    }

    /// The value of a formula at a point of an element.
    pub fn value(&self, formula: &Formula, element: usize, position: [f64; 3], time: f64) -> f64 {
        let own = self.materials[element].as_slice();
        let known = Known { params: &self.run.params, materials: [own; 2], position, time, ..Known::default() };
        formula.evaluate(&known)
    }
}

/// Sets a number of a problem by its name.
fn set(run: &mut Run, system: &syntax::System, name: &str, value: f64) -> Result<(), Error> {
    let whole = |low: f64, high: f64| {
        let good = value.fract() == 0.0 && (low..=high).contains(&value);
        let why = || Error::Input(format!("`{name}` cannot be {value}: it is a whole number from {low} to {high}"));
        if good { Ok(value as u32) } else { Err(why()) }
    };
    if system.order.as_ref().is_some_and(|(order, _)| order == name) || name == "order" {
        run.order = whole(1.0, 9.0)?;
        return Ok(());
    }
    if let Some(param) = system.param_names().iter().position(|param| param == name) {
        run.params[param] = value;
        return Ok(());
    }
    match (name, &mut run.mesh) {
        ("until", _) if value > 0.0 && value.is_finite() => run.until = value,
        ("until", _) => return Err(Error::Input(format!("`until` cannot be {value}: the end of time is above zero"))),
        ("n", Some(MeshSource::Box { cells, .. })) => *cells = [whole(1.0, 4096.0)? as usize; 3],
        ("nx" | "ny" | "nz", Some(MeshSource::Box { cells, .. })) => {
            cells[usize::from(name.as_bytes()[1] - b'x')] = whole(1.0, 4096.0)? as usize;
        }
        _ => {
            let order = system.order.iter().map(|(name, _)| name.clone());
            let known: Vec<String> = order.chain(system.param_names()).collect();
            let known = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!(
                "problem `{}` has no `{name}` to set; there are {known}, `n`, `nx`, `ny`, `nz` of a box and `until`",
                run.name
            );
            return Err(Error::Usage(message));
        }
    }
    Ok(())
}

/// Cubes along each axis of a small box.
const SMALL: usize = 2;

/// Makes the mesh small, as is asked for; whether another one takes its place.
fn stand_in(run: &mut Run, changes: &Changes) -> bool {
    match (changes.extent, &mut run.mesh) {
        (Extent::Own, _) | (Extent::OwnOrBox, Some(_)) => false,
        (Extent::Small, Some(MeshSource::Box { cells, .. })) => {
            for (count, axis) in cells.iter_mut().zip(["nx", "ny", "nz"]) {
                if !changes.set.iter().any(|(name, _)| name == "n" || name == axis) {
                    *count = (*count).min(SMALL);
                }
            }
            false
        }
        (_, mesh) => {
            let (low, high) = ([0.0; 3], [1.0; 3]);
            *mesh = Some(MeshSource::Box { cells: [SMALL; 3], low, high, periodic: [true; 3], centred: false });
            true
        }
    }
}

/// Gives the elements of a box the regions that the materials name, in turn.
fn spread_regions(run: &Run, mesh: &mut Mesh) {
    let mut names: Vec<String> = run.materials.iter().flat_map(|value| value.regions.clone()).collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        let count = names.len() as u32;
        mesh.region_names = names;
        mesh.regions.iter_mut().zip((0..count).cycle()).for_each(|(region, number)| *region = number);
    }
}

fn mesh(run: &Run, folder: &Path, other: Option<&Path>) -> Result<Mesh, Error> {
    let read = |path: &Path| read(path).map_err(|error| Error::Input(format!("{}: {error}", path.display())));
    match (other, &run.mesh) {
        (Some(path), _) => read(path),
        (None, Some(MeshSource::File(path))) => read(&folder.join(path)),
        (None, Some(MeshSource::Box { cells, low, high, periodic, centred })) => {
            let family = if *centred { Family::Centred } else { Family::Kuhn };
            let cuboid = Cuboid { cells: *cells, low: *low, high: *high, periodic: *periodic, family };
            let mesh = cuboid.mesh().map_err(|error| Error::Input(error.to_string()))?;
            // How a built-in mesh is turned is nobody's concern.
            Ok(Mesh { notes: Vec::new(), ..mesh })
        }
        (None, None) => Err(Error::Input(format!(
            "problem `{}` has no mesh: give one with --mesh, or `mesh box(n = 8);`",
            run.name
        ))),
    }
}

/// The mesh for kernels: boundary tags become the conditions that the problem gives them.
fn plain(run: &Run, system: &syntax::System, mesh: &Mesh, notes: &mut Vec<String>) -> Result<Plain, Error> {
    let counts = mesh.boundary_faces();
    let find = |tag: &str| run.boundaries.iter().find(|(known, _)| known == tag).map(|(_, condition)| *condition);
    let mut conditions = Vec::new();
    let mut missing = Vec::new();
    for (name, count) in mesh.boundary_names.iter().zip(&counts) {
        match find(name).or_else(|| find("*")) {
            Some(condition) => conditions.push(condition as u32),
            None => {
                conditions.push(0);
                if *count > 0 {
                    missing.push(format!("`{name}` ({count} faces)"));
                }
            }
        }
    }
    if !missing.is_empty() {
        let known: Vec<&str> = system.conditions.iter().map(|condition| condition.name.as_str()).collect();
        let message = format!(
            "{}: boundaries of the mesh without a condition: {}; add `boundary all: …;` with one of {}",
            run.name,
            missing.join(", "),
            known.join(", ")
        );
        return Err(Error::Input(message));
    }
    for (tag, _) in run.boundaries.iter().filter(|(tag, _)| tag != "*" && !mesh.boundary_names.contains(tag)) {
        notes.push(format!("the mesh has no boundary `{tag}`"));
    }
    let face = |behind: &Behind| match *behind {
        Behind::Element { element, face, corners } => Face::Shared { element, face, corners },
        Behind::Boundary(boundary) => Face::Boundary(conditions[boundary as usize]),
    };
    Ok(Plain {
        vertices: mesh.vertices.clone(),
        elements: mesh.elements.clone(),
        faces: mesh.faces.iter().map(|four| [0, 1, 2, 3].map(|place: usize| face(&four[place]))).collect(),
        regions: mesh.regions.clone(),
    })
}

/// One number per material and element: of the region if it has one, of all, or the default.
fn materials(run: &Run, system: &syntax::System, mesh: &Mesh, notes: &mut Vec<String>) -> Result<Vec<Vec<f64>>, Error> {
    let regions = run.materials.iter().flat_map(|value| &value.regions);
    let mut unknown: Vec<&String> = regions.filter(|region| !mesh.region_names.contains(region)).collect();
    unknown.sort();
    unknown.dedup();
    notes.extend(unknown.into_iter().map(|region| format!("the mesh has no region `{region}`")));
    let names = system.material_names();
    let defaults: Vec<Option<f64>> = system
        .materials
        .iter()
        .flat_map(|material| (0..material.size).map(|c| material.default.as_ref().map(|default| default[c])))
        .collect();
    let mut all = Vec::with_capacity(mesh.elements.len());
    for element in 0..mesh.elements.len() {
        let region = &mesh.region_names[mesh.regions[element] as usize];
        let position = mesh.centre(element);
        let mut own = Vec::with_capacity(names.len());
        for (number, name) in names.iter().enumerate() {
            let fits = |value: &&syntax::MaterialValue| {
                value.material == number && (value.regions.is_empty() || value.regions.contains(region))
            };
            let known = Known { params: &run.params, position, ..Known::default() };
            let value = run.materials.iter().find(fits).map(|value| value.value.evaluate(&known)).or(defaults[number]);
            match value {
                Some(value) if value.is_finite() => own.push(value),
                Some(value) => {
                    let tag = mesh.tags[element];
                    return Err(Error::Input(format!(
                        "material `{name}` is {value} on element {tag} (region `{region}`)"
                    )));
                }
                None => {
                    let help = format!("add `material {name} = …;`");
                    return Err(Error::Input(format!("material `{name}` has no value in region `{region}`; {help}")));
                }
            }
        }
        all.push(own);
    }
    Ok(all)
}

/// Directions in which hyperbolicity is tested with the problem's own numbers.
const DIRECTIONS: [[f64; 3]; 3] = [[1.0, 0.0, 0.0], [0.36, 0.48, 0.8], [-0.48, 0.6, 0.64]];

/// Most different sets of materials that are tested.
const MOST: usize = 256;

fn hyperbolic(run: &Run, system: &syntax::System, mesh: &Mesh, materials: &[Vec<f64>]) -> Result<(), Error> {
    let mut seen: Vec<&Vec<f64>> = Vec::new();
    for (element, own) in materials.iter().enumerate() {
        if seen.len() >= MOST || seen.last().is_some_and(|last| *last == own) || seen.contains(&own) {
            continue;
        }
        seen.push(own);
        for normal in DIRECTIONS {
            if let Some(why) = growth(system, &run.params, own, normal) {
                let names = system.material_names();
                let list: Vec<String> =
                    names.iter().zip(own).map(|(name, value)| format!("{name} = {value}")).collect();
                let tag = mesh.tags[element];
                let message = format!(
                    "system `{}` is not hyperbolic on element {tag}{}{}: {why}",
                    system.name,
                    if list.is_empty() { "" } else { " with " },
                    list.join(", ")
                );
                return Err(Error::Input(message));
            }
        }
    }
    Ok(())
}

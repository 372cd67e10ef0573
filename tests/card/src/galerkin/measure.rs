//! How fast stages are: Maxwell in a box, for every order the default shape and some others.

use std::collections::BTreeMap;

use kernelwright::backend::Target;
use kernelwright::backend::open::Choice;
use kernelwright_codegen::galerkin::evaluate::Samples;
use kernelwright_codegen::galerkin::map::{Geometry, Home, Options, Target as MapTarget, Variant};
use kernelwright_codegen::galerkin::mesh::{FACE_VERTICES, Face, Mesh, six_volumes};
use kernelwright_codegen::galerkin::reference::{MAX_ORDER, node_count};
use kernelwright_codegen::kernel::Element;

use super::engine::{Engine, device};
use super::systems;

/// Which variants of an order are timed.
type Wanted = fn(usize, &Variant) -> bool;

/// What the bandwidth and arithmetic of the roof are: an H200.
const BYTES_PER_SECOND: f64 = 4.3e12;
const FLOPS_PER_SECOND: [f64; 2] = [67e12, 34e12];

/// Prints a table. Arguments: orders (`3` or `2-6`; all without), `f32` or `f64` (both), `default` for one shape an order,
/// `symmetric` for that one and those that work on even and odd parts, `faces` or
/// `stored` for all shapes with geometry from there, `cells=N` for a box of N^3 cells of six tetrahedra.
pub fn measure(choice: Choice, arguments: &[String]) -> Result<(), String> {
    let mut orders = 1..=9;
    let mut precisions = vec![Element::F32, Element::F64];
    let mut geometry = None;
    let (mut wanted, mut cells): (fn(usize, &Variant) -> bool, _) = (|_, _| true, None);
    for argument in arguments {
        let range = argument.split_once('-').unwrap_or((argument, argument));
        match (argument.as_str(), range.0.parse::<usize>(), range.1.parse::<usize>()) {
            ("f32", ..) => precisions = vec![Element::F32],
            ("f64", ..) => precisions = vec![Element::F64],
            ("default", ..) => wanted = |number, _| number == 0,
            ("faces", ..) => geometry = Some(Geometry::Faces),
            ("stored", ..) => geometry = Some(Geometry::Stored),
            ("symmetric", ..) => wanted = |number, variant| number == 0 || variant.symmetric,
            (_, Ok(first), Ok(last)) if last <= MAX_ORDER => orders = first..=last,
            (text, ..) => {
                let number = text.strip_prefix("cells=").and_then(|n| n.parse().ok());
                cells = Some(number.ok_or_else(|| format!("`{text}` is no order, precision or number of cells"))?);
            }
        }
    }
    println!("order precision shape GDOF/s of-roof GB/s TFLOP/s registers shared local blocks/SM");
    for order in orders {
        // 162,000 tetrahedra up to order 5, 48,000 above.
        let mesh = cube(cells.unwrap_or(if order <= 5 { 30 } else { 20 }));
        for &precision in &precisions {
            one_order(choice, &mesh, order, precision, (wanted, geometry))?;
        }
    }
    Ok(())
}

fn one_order(
    choice: Choice,
    mesh: &Mesh,
    order: usize,
    precision: Element,
    (wanted, geometry): (Wanted, Option<Geometry>),
) -> Result<(), String> {
    let system = systems::maxwell(1.0);
    let mut backend = device(choice)?;
    let target = if backend.target() == Target::Cuda { MapTarget::Cuda } else { MapTarget::Host };
    let base = Options::new(target, precision, order, &system);
    let len = mesh.elements.len() * 6 * node_count(order);
    let state = Samples::new(1).many(len, -1.0, 1.0);
    let materials = vec![vec![1.0; mesh.elements.len()]; 2];
    let variants = Variant::candidates(&base.purpose(&system)).into_iter().enumerate();
    for (_, variant) in variants.filter(|(number, variant)| wanted(*number, variant)) {
        let variant = Variant { geometry: geometry.unwrap_or(variant.geometry), ..variant };
        let options = Options { variant, ..base.clone() };
        let mut engine = match Engine::on(backend, &system, mesh, &options) {
            Ok(engine) => engine,
            Err((same, error)) => {
                println!("{order} {precision:?} {}: {}", shape(&variant), error.lines().next().unwrap_or_default());
                backend = same;
                continue;
            }
        };
        // A step so small that nothing grows.
        engine.begin(&[], &materials, [0.0, 1e-6], &state)?;
        let seconds = engine.seconds(5)?;
        let model = engine.module.model;
        let rate = model.values as f64 / seconds;
        let roof = model.roof(BYTES_PER_SECOND, FLOPS_PER_SECOND[usize::from(precision == Element::F64)]);
        let info = engine.info().map_or(String::new(), |info| {
            format!("{} {} {} {}", info.registers, info.shared_bytes, info.local_bytes, info.blocks_per_multiprocessor)
        });
        println!(
            "{order} {precision:?} {} {:.2} {:.3} {:.0} {:.2} {info}",
            shape(&variant),
            rate / 1e9,
            rate / roof,
            rate * model.bytes / 1e9,
            rate * model.flops / 1e12
        );
        backend = engine.close();
    }
    Ok(())
}

fn shape(v: &Variant) -> String {
    let letter = |home: Home| if home == Home::Shared { "s" } else { "c" };
    format!(
        "{:?}/p{}i{}r{}s{}/f{}m{}/{:?}/u{}g{}{}{}{}",
        v.fusion,
        v.parallel,
        v.inline,
        v.rows,
        v.sequential,
        letter(v.fields),
        letter(v.matrices),
        v.geometry,
        v.unroll,
        v.gather,
        if v.symmetric { "/symmetric" } else { "" },
        if v.prefetch { "/prefetch" } else { "" },
        v.resident.map_or(String::new(), |n| format!("/resident{n}"))
    )
}

/// A cube of cells of six tetrahedra each, perfectly conducting.
fn cube(cells: usize) -> Mesh {
    let point = |at: [usize; 3]| at[0] + (cells + 1) * (at[1] + (cells + 1) * at[2]);
    let place = |n: usize| n as f64 / cells as f64;
    let count = (cells + 1) * (cells + 1) * (cells + 1);
    let vertices: Vec<[f64; 3]> = (0..count)
        .map(|v| [place(v % (cells + 1)), place(v / (cells + 1) % (cells + 1)), place(v / (cells + 1) / (cells + 1))])
        .collect();
    let mut elements = Vec::new();
    for cell in 0..cells * cells * cells {
        let corner = [cell % cells, cell / cells % cells, cell / cells / cells];
        for path in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut at = corner;
            let mut element = [point(at) as u32; 4];
            for (n, axis) in path.into_iter().enumerate() {
                at[axis] += 1;
                element[n + 1] = point(at) as u32;
            }
            if six_volumes(&element.map(|v| vertices[v as usize])) < 0.0 {
                element.swap(2, 3);
            }
            elements.push(element);
        }
    }
    let faces = connect(&elements);
    let regions = vec![0; elements.len()];
    Mesh { vertices, elements, faces, regions }
}

/// Faces with the same three vertices meet.
fn connect(elements: &[[u32; 4]]) -> Vec<[Face; 4]> {
    let corners = |e: usize, f: usize| FACE_VERTICES[f].map(|v| elements[e][v]);
    let mut faces = vec![[Face::Boundary(0); 4]; elements.len()];
    let mut open: BTreeMap<[u32; 3], (usize, usize)> = BTreeMap::new();
    for e in 0..elements.len() {
        for f in 0..4 {
            let own = corners(e, f);
            let mut key = own;
            key.sort_unstable();
            let Some((other, face)) = open.remove(&key) else {
                open.insert(key, (e, f));
                continue;
            };
            let theirs = corners(other, face);
            let meet = |a: [u32; 3], b: [u32; 3]| a.map(|v| b.iter().position(|w| *w == v).unwrap_or(0) as u8);
            faces[e][f] = Face::Shared { element: other as u32, face: face as u8, corners: meet(own, theirs) };
            faces[other][face] = Face::Shared { element: e as u32, face: f as u8, corners: meet(theirs, own) };
        }
    }
    faces
}

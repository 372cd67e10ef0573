//! What is the same for a whole face or element: geometry, materials, and what is computed of them.

use super::context::Context;
use super::expression::write;
use super::forms::{Leaf, Meaning};
use super::tables::{JOINTS, PERMUTATIONS};
use super::variant::Geometry;
use super::writer::{At, Writer};
use crate::galerkin::system::{Expr as SystemExpr, Side};
use crate::kernel::{Cmp, Expr, Math, Stmt};
use crate::map::fold::{self, add, int, mul, neg, real, sub};

/// A face of an element, as expressions.
pub(super) struct FaceAt {
    pub at: At,
    /// Number of the face, 0 to 3.
    pub face: Expr,
}

/// A face's connection.
pub(super) struct Link {
    /// The neighbour, or the element itself at a boundary.
    pub neighbour: Expr,
    /// Face and permutation of the neighbour.
    pub joint: Expr,
    /// 0 for a shared face, else one more than the boundary.
    pub tag: Expr,
}

/// Loads a face's connection.
pub(super) fn link(w: &mut Writer<'_, '_>, face: &FaceAt) -> Link {
    let index = w.of_element(&face.at, face.face.clone(), 4);
    let index = w.b.bind("place", index);
    let neighbour = w.load(w.cx.ids.neighbour, index.clone());
    let joint = w.load(w.cx.ids.joint, index);
    let (neighbour, joint) = (w.b.bind("neighbour", neighbour), w.b.bind("joint", joint));
    let (tag, code) = (fold::div(joint.clone(), int(JOINTS as i64)), fold::rem(joint, int(JOINTS as i64)));
    Link { neighbour, joint: w.b.bind("joint_code", code), tag: w.b.bind("tag", tag) }
}

/// Index of the first node of a link in `met_nodes`.
pub(super) fn first_met(w: &mut Writer<'_, '_>, link: &Link) -> Expr {
    debug_assert!(4 * PERMUTATIONS.len() <= JOINTS);
    let per_face = w.shape().face_nodes as i64;
    w.b.bind("first_met", mul(link.joint.clone(), int(per_face)))
}

/// `-grad(l_f)`, the outer normal with the face's scale as its length.
pub(super) fn outward(w: &mut Writer<'_, '_>, face: &FaceAt) -> [Expr; 3] {
    match w.cx.variant().geometry {
        Geometry::Stored | Geometry::Faces => stored(w, face),
        Geometry::Vertices => from_vertices(w, face),
    }
}

/// The stored gradients are those of l1, l2, l3; that of l0 is minus their sum.
fn stored(w: &mut Writer<'_, '_>, face: &FaceAt) -> [Expr; 3] {
    [0, 1, 2].map(|axis: i64| {
        let gradient = |w: &mut Writer<'_, '_>, row: Expr| {
            let index = w.of_element(&face.at, add(mul(row, int(3)), int(axis)), 9);
            w.load(w.cx.ids.gradients, index)
        };
        let sum = (0..3).map(|row| gradient(w, int(row))).reduce(add).expect("three rows");
        let own = neg(gradient(w, sub(face.face.clone(), int(1))));
        let first = fold::compare(Cmp::Eq, face.face.clone(), int(0));
        w.b.bind(["outward_x", "outward_y", "outward_z"][axis as usize], fold::select(first, sum, own))
    })
}

/// The face's area vector over three times the element's volume.
fn from_vertices(w: &mut Writer<'_, '_>, face: &FaceAt) -> [Expr; 3] {
    let mut corner = |corner: Expr| {
        let vertex = w.vertex(&face.at, &corner);
        [0, 1, 2].map(|axis: i64| {
            let value = w.load(w.cx.ids.vertices, add(mul(vertex.clone(), int(3)), int(axis)));
            w.b.bind("corner", value)
        })
    };
    let apex = corner(face.face.clone());
    let of_face = |w: &mut Writer<'_, '_>, n: i64| {
        let index = add(mul(face.face.clone(), int(3)), int(n));
        let local = w.load(w.cx.ids.face_corners, index);
        let vertex = w.vertex(&face.at, &local);
        [0, 1, 2].map(|axis: i64| {
            let value = w.load(w.cx.ids.vertices, add(mul(vertex.clone(), int(3)), int(axis)));
            w.b.bind("corner", value)
        })
    };
    let (a, b, c) = (of_face(w, 0), of_face(w, 1), of_face(w, 2));
    let edge = |w: &mut Writer<'_, '_>, to: &[Expr; 3], from: &[Expr; 3]| {
        [0, 1, 2].map(|axis: usize| w.b.bind("edge", sub(to[axis].clone(), from[axis].clone())))
    };
    let (u, v, h) = (edge(w, &b, &a), edge(w, &c, &a), edge(w, &a, &apex));
    let area = [0, 1, 2].map(|axis: usize| {
        let (i, j) = ((axis + 1) % 3, (axis + 2) % 3);
        w.b.bind("area", sub(mul(u[i].clone(), v[j].clone()), mul(u[j].clone(), v[i].clone())))
    });
    let volume = (0..3).map(|axis| mul(area[axis].clone(), h[axis].clone())).reduce(add).expect("three axes");
    let volume = w.b.bind("six_volumes", volume);
    [0, 1, 2].map(|axis: usize| {
        let value = w.quotient(area[axis].clone(), volume.clone());
        w.b.bind(["outward_x", "outward_y", "outward_z"][axis], value)
    })
}

/// Computes the face's slots from its outward vector and the materials on both sides.
pub(super) fn slots(w: &mut Writer<'_, '_>, face: &FaceAt, link: &Link, outward: &[Expr; 3]) -> Vec<Expr> {
    let cx = w.cx;
    if cx.forms.face_slots.is_empty() {
        return Vec::new();
    }
    let square = outward.iter().map(|a| mul(a.clone(), a.clone())).reduce(add).expect("three axes");
    let length = w.b.bind("scale", Expr::Call(Math::Sqrt, vec![square]));
    let inverse = w.quotient(real(1.0, cx.real), length.clone());
    let inverse = w.b.bind("inverse_scale", inverse);
    let normal: Vec<Expr> = outward
        .iter()
        .zip(["n_x", "n_y", "n_z"])
        .map(|(a, name)| w.b.bind(name, mul(a.clone(), inverse.clone())))
        .collect();
    let exterior = exterior_materials(w, face, link);
    let leaves = |w: &mut Writer<'_, '_>, e: &SystemExpr| match e {
        SystemExpr::Normal(3) => length.clone(),
        SystemExpr::Normal(axis) => normal[*axis].clone(),
        SystemExpr::Material(Side::Interior, n) => w.material(*n, &face.at.element),
        SystemExpr::Material(Side::Exterior, n) => exterior[*n].clone().expect("exterior materials that are read"),
        SystemExpr::Param(n) => w.param(*n),
        _ => real(0.0, cx.real),
    };
    cx.forms.face_slots.iter().map(|slot| write(w, cx.real, &leaves, slot)).collect()
}

/// Materials of the other side, where slots read them: the neighbour's or what a boundary says.
fn exterior_materials(w: &mut Writer<'_, '_>, face: &FaceAt, link: &Link) -> Vec<Option<Expr>> {
    let cx = w.cx;
    (0..cx.system.materials.len())
        .map(|n| {
            let read = SystemExpr::Material(Side::Exterior, n);
            cx.forms.face_slots.iter().any(|slot| slot.any(|e| *e == read)).then(|| exterior_material(w, face, link, n))
        })
        .collect()
}

fn exterior_material(w: &mut Writer<'_, '_>, face: &FaceAt, link: &Link, n: usize) -> Expr {
    let cx = w.cx;
    let id = cx.ids.materials.expect("a system with materials has a buffer of them");
    let value = w.load(id, add(link.neighbour.clone(), int((n * cx.shape.padded) as i64)));
    let same = SystemExpr::Material(Side::Interior, n);
    let changed = |(_, boundary): &(usize, &crate::galerkin::system::Boundary)| boundary.materials[n] != same;
    let changes: Vec<_> = cx.system.boundaries.iter().enumerate().filter(changed).collect();
    if changes.is_empty() {
        return w.b.bind(&format!("exterior_{}", cx.system.materials[n]), value);
    }
    let var = w.b.declare(&format!("exterior_{}", cx.system.materials[n]), value);
    for (number, boundary) in changes {
        let here = fold::compare(Cmp::Eq, link.tag.clone(), int(number as i64 + 1));
        w.when(here, |w| {
            let leaves = |w: &mut Writer<'_, '_>, e: &SystemExpr| material_leaf(w, &face.at, e);
            let value = write(w, cx.real, &leaves, &boundary.materials[n]);
            w.b.push(Stmt::Assign(var, value));
        });
    }
    Expr::Var(var)
}

/// Leaves of coefficients: interior materials and parameters.
fn material_leaf(w: &mut Writer<'_, '_>, at: &At, e: &SystemExpr) -> Expr {
    match e {
        SystemExpr::Material(Side::Interior, n) => w.material(*n, &at.element),
        SystemExpr::Param(n) => w.param(*n),
        _ => real(0.0, w.cx.real),
    }
}

/// Computes the element's slots.
pub(super) fn element_slots(w: &mut Writer<'_, '_>, at: &At) -> Vec<Expr> {
    let cx: &Context<'_> = w.cx;
    let leaves = |w: &mut Writer<'_, '_>, e: &SystemExpr| material_leaf(w, at, e);
    cx.forms.element_slots.iter().map(|slot| write(w, cx.real, &leaves, slot)).collect()
}

/// The exterior value that a boundary gives a component.
pub(super) fn boundary_value(
    w: &mut Writer<'_, '_>,
    e: &SystemExpr,
    at: &At,
    node: &Expr,
    interior: &dyn Fn(&mut Writer<'_, '_>, usize) -> Expr,
    slot: &dyn Fn(&mut Writer<'_, '_>, usize) -> Expr,
) -> Expr {
    let cx = w.cx;
    let leaves = |w: &mut Writer<'_, '_>, e: &SystemExpr| match e {
        SystemExpr::Component(_, c) => interior(w, *c),
        SystemExpr::Normal(_) => {
            let number = cx.forms.face_slots.iter().position(|slot| slot == e);
            slot(w, number.expect("normals that boundaries read are slots"))
        }
        SystemExpr::Position(axis) => w.position(at, node, *axis),
        SystemExpr::Time => w.time(),
        other => material_leaf(w, at, other),
    };
    write(w, cx.real, &leaves, e)
}

/// The correction of a component at a face node, from the traces and slots that corrections read.
pub(super) fn correction(
    w: &mut Writer<'_, '_>,
    component: usize,
    traces: &[(Trace, Expr)],
    slots: &[(usize, Expr)],
) -> Expr {
    let cx = w.cx;
    let leaf = Leaf::of(cx.system);
    let trace = |wanted: Trace| traces.iter().find(|(t, _)| *t == wanted).expect("all traces were read").1.clone();
    let leaves = |w: &mut Writer<'_, '_>, e: &SystemExpr| match (leaf.meaning(e), e) {
        (Some(Meaning::Jump(c)), _) => trace(Trace::Jump(c)),
        (Some(Meaning::FaceSlot(n)), _) => slots.iter().find(|(s, _)| *s == n).expect("all slots were read").1.clone(),
        (None, SystemExpr::Component(Side::Interior, c)) => trace(Trace::Interior(*c)),
        (None, SystemExpr::Component(Side::Exterior, c)) => trace(Trace::Exterior(*c)),
        (None, SystemExpr::Param(n)) => w.param(*n),
        _ => real(0.0, cx.real),
    };
    write(w, cx.real, &leaves, &cx.forms.corrections[component])
}

/// Slots that corrections read.
pub(super) fn slots_read(cx: &Context<'_>) -> Vec<usize> {
    let leaf = Leaf::of(cx.system);
    let reads = |n: &usize| {
        let slot = |e: &SystemExpr| matches!(leaf.meaning(e), Some(Meaning::FaceSlot(m)) if m == *n);
        cx.forms.corrections.iter().any(|c| c.any(slot))
    };
    (0..cx.forms.face_slots.len()).filter(reads).collect()
}

/// A value at a face node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Trace {
    Interior(usize),
    Exterior(usize),
    Jump(usize),
}

/// What the corrections read.
pub(super) fn traces(cx: &Context<'_>) -> Vec<Trace> {
    let leaf = Leaf::of(cx.system);
    let mut list = Vec::new();
    for correction in &cx.forms.corrections {
        correction.visit(&mut |e| {
            list.extend(match (leaf.meaning(e), e) {
                (Some(Meaning::Jump(c)), _) => Some(Trace::Jump(c)),
                (None, SystemExpr::Component(Side::Interior, c)) => Some(Trace::Interior(*c)),
                (None, SystemExpr::Component(Side::Exterior, c)) => Some(Trace::Exterior(*c)),
                _ => None,
            });
        });
    }
    list.sort_unstable();
    list.dedup();
    list
}

//! What is the same for a face or an element, computed once: a lane a face of the mesh. Stages then copy it
//! ([`Geometry::Faces`](crate::galerkin::map::variant::Geometry)).

use super::surface::element_record;
use crate::galerkin::map::context::Context;
use crate::galerkin::map::faces::{self, FaceAt};
use crate::galerkin::map::writer::{At, Made, Writer};
use crate::kernel::{Cmp, Expr};
use crate::map::fold::{self, add, int, mul, real};

/// Lanes of a block.
const LANES: usize = 128;

/// The kernel, where anything is prepared.
pub(in super::super) fn kernel(cx: &Context<'_>) -> Option<Made> {
    let records = cx.ids.element_values?;
    let s = cx.shape;
    let stored: Vec<usize> = cx.ids.face_values.into_iter().chain([records]).collect();
    let mut w = Writer::new(cx, "faces", &stored);
    let number = w.b.bind("face", add(mul(Expr::Block(0), int(LANES as i64)), Expr::Lane(0)));
    let there = fold::compare(Cmp::Lt, number.clone(), int(4 * s.padded as i64));
    w.when(there, |w| {
        let element = w.b.bind("element", fold::div(number.clone(), int(4)));
        let side = w.b.bind("side", fold::rem(number, int(4)));
        let at = FaceAt { at: At::element(element.clone()), face: side };
        let outward = faces::outward(w, &at);
        if let Some(to) = cx.ids.face_values {
            slots(w, &at, &outward, to);
        }
        let first = mul(element, int(cx.record() as i64));
        let put = |w: &mut Writer<'_, '_>, index: Expr, value: Expr| w.store(records, index, value);
        element_record(w, &at, &first, outward, &put);
        // Records are copied whole.
        let pads = 9 + cx.forms.element_slots.len()..cx.record();
        let zero = fold::compare(Cmp::Eq, at.face.clone(), int(0));
        if !pads.is_empty() {
            w.when(zero, |w| pads.for_each(|n| put(w, add(first.clone(), int(n as i64)), real(0.0, cx.real))));
        }
    });
    Some(w.finish((4 * s.padded).div_ceil(LANES), [LANES as u32, 1, 1]))
}

/// The slots of a microblock's faces lie together, one slot of all faces after the other.
fn slots(w: &mut Writer<'_, '_>, at: &FaceAt, outward: &[Expr; 3], to: usize) {
    let (microblock, count) = (w.shape().microblock as i64, w.cx.forms.face_slots.len() as i64);
    let link = faces::link(w, at);
    let slots = faces::slots(w, at, &link, outward);
    let block = fold::div(at.at.element.clone(), int(microblock));
    let inner = fold::rem(at.at.element.clone(), int(microblock));
    let first = add(mul(block, int(4 * microblock * count)), add(mul(inner, int(4)), at.face.clone()));
    let first = w.b.bind("place", first);
    for (n, slot) in slots.into_iter().enumerate() {
        w.store(to, add(first.clone(), int(n as i64 * 4 * microblock)), slot);
    }
}

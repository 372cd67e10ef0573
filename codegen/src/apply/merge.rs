//! Fences that follow one another at once become one: a launch and a kernel less each.
//!
//! Precondition: every fence stands in one place. The statements run in the same order; one that raises the status ends
//! the fence, as it would have made the next one do nothing.

use crate::loops::{Control, Fence, FenceId, Program};

/// Merges in all sections and drops the fences that are then used nowhere.
pub(super) fn fences(program: &mut Program) {
    let Program { prepare, start, body, residual, finish, fences, .. } = program;
    let mut gone = vec![false; fences.len()];
    for section in [&mut *prepare, start, body, residual, finish] {
        merge(section, fences, &mut gone);
    }
    let mut kept = 0;
    let mut number = Vec::with_capacity(gone.len());
    for gone in &gone {
        number.push(FenceId(kept));
        kept += usize::from(!gone);
    }
    let mut old = gone.iter();
    fences.retain(|_| old.next() == Some(&false));
    for section in [prepare, start, body, residual, finish] {
        renumber(section, &number);
    }
}

fn merge(section: &mut Vec<Control>, fences: &mut [Fence], gone: &mut [bool]) {
    let mut out: Vec<Control> = Vec::with_capacity(section.len());
    for mut control in std::mem::take(section) {
        match &mut control {
            Control::Loop { body, .. } => merge(body, fences, gone),
            Control::Every { body, otherwise, .. } => {
                merge(body, fences, gone);
                merge(otherwise, fences, gone);
            }
            Control::Sweep(_) | Control::Fence(_) | Control::Rotate(_) => {}
        }
        if let (Some(&Control::Fence(before)), &Control::Fence(next)) = (out.last(), &control)
            && fences[before.0].predicate.is_none()
            && fences[next.0].predicate.is_none()
        {
            let more = std::mem::take(&mut fences[next.0].statements);
            fences[before.0].statements.extend(more);
            gone[next.0] = true;
            continue;
        }
        out.push(control);
    }
    *section = out;
}

fn renumber(section: &mut [Control], number: &[FenceId]) {
    for control in section {
        match control {
            Control::Fence(id) => *id = number[id.0],
            Control::Loop { body, .. } => renumber(body, number),
            Control::Every { body, otherwise, .. } => {
                renumber(body, number);
                renumber(otherwise, number);
            }
            Control::Sweep(_) | Control::Rotate(_) => {}
        }
    }
}

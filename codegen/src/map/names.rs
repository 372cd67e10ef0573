//! Names of generated variables: from the program where there is one, by role where there is none.

use std::collections::{BTreeMap, BTreeSet};

use crate::print::reserved::{is_library_function, is_reserved};

/// Hands out identifiers that are unique in a kernel.
#[derive(Default)]
pub(crate) struct Namer {
    taken: BTreeSet<String>,
    /// Numbers below these are in use after a name.
    next: BTreeMap<String, usize>,
}

impl Namer {
    /// Reserves a name.
    pub(crate) fn take(&mut self, name: &str) {
        self.taken.insert(name.to_string());
    }

    /// The wanted name, numbered if it is in use.
    pub(crate) fn fresh(&mut self, wanted: &str) -> String {
        let mut base = cleaned(wanted);
        if is_reserved(&base) {
            base.push_str("_value");
        }
        if self.taken.insert(base.clone()) {
            return base;
        }
        let number = self.next.entry(base.clone()).or_insert(2);
        loop {
            let name = format!("{base}_{number}");
            *number += 1;
            if self.taken.insert(name.clone()) {
                return name;
            }
        }
    }
}

/// A name that a kernel can have.
pub(crate) fn of_kernel(wanted: &str) -> String {
    let name = cleaned(wanted);
    if is_reserved(&name) || is_library_function(&name) { format!("{name}_kernel") } else { name }
}

/// Characters that a name keeps: compilers and file systems (a kernel's name is a file's) have limits near 255.
const LONGEST: usize = 160;

/// A valid identifier near the wanted one: letters, digits and single underscores, not starting with either of the
/// last two, not longer than compilers take.
fn cleaned(wanted: &str) -> String {
    let mut out = String::new();
    for c in wanted.chars().take(LONGEST) {
        let c = if c.is_ascii_alphanumeric() { c } else { '_' };
        if c != '_' || !out.ends_with('_') {
            out.push(c);
        }
    }
    let trimmed = out.trim_matches('_');
    if trimmed.starts_with(|c: char| c.is_ascii_alphabetic()) { trimmed.to_string() } else { format!("v{trimmed}") }
}

/// Suffix that names a displacement: `_east` for one step along the first axis, `_k2` or `_km2` for longer ones,
/// several joined; empty at the point itself.
pub(crate) fn displacement(letters: &[&str], offsets: &[i64]) -> String {
    let moved: Vec<usize> = (0..offsets.len()).filter(|&a| offsets[a] != 0).collect();
    let mut out = String::new();
    for &axis in &moved {
        out.push('_');
        if offsets[axis].abs() == 1 {
            out.push_str(step_name(axis, offsets[axis]));
        } else {
            out.push_str(letters[axis]);
            if offsets[axis] < 0 {
                out.push('m');
            }
            out.push_str(&offsets[axis].abs().to_string());
        }
    }
    out
}

/// Name of one step along an axis.
pub(crate) fn step_name(axis: usize, sign: i64) -> &'static str {
    const NAMES: [[&str; 2]; 3] = [["west", "east"], ["south", "north"], ["below", "above"]];
    NAMES[axis][usize::from(sign > 0)]
}

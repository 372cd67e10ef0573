//! Programs declared in Rust sources: the macro registers them, the command finds them by name.

/// A program declared with the macro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registered {
    /// Name of the handle's type or module.
    pub name: &'static str,
    /// The program's text.
    pub source: &'static str,
    /// The Rust source it stands in, for messages.
    pub file: &'static str,
}

#[doc(hidden)]
pub use inventory;

inventory::collect!(Registered);

/// All registered programs of this binary, by name; the order of linking does not show.
pub fn programs() -> Vec<&'static Registered> {
    let mut all: Vec<&Registered> = inventory::iter::<Registered>.into_iter().collect();
    all.sort_by_key(|program| (program.name, program.file));
    all
}

//! What earlier tunes chose for the product of a matrix.

use kernelwright_codegen::format::Stored;
use kernelwright_syntax::program::{Format, Precision};
use serde::Serialize;

use super::known::{choices, gain, set_threads};
use super::matrix::{code, mapping};
use super::record::{Kind, Record};
use super::store::Store;
use super::structure;
use crate::backend::{Backend, BackendError};
use crate::matrix::Csr;
use crate::sparse::choice::named;

/// A choice of an earlier tune.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownProduct {
    /// The format.
    #[serde(skip)]
    pub format: Format,
    /// Parts of the variant of the product's kernel.
    pub variant: Vec<(String, String)>,
    /// Threads, where they were chosen.
    pub threads: Option<usize>,
    /// Where it was found.
    pub from: String,
    /// Whether it was tuned for this structure, not only for another of its class.
    pub exact: bool,
    /// Seconds of a product then.
    pub seconds: Option<f64>,
    /// The same of the default.
    pub default_seconds: Option<f64>,
    /// Hash of the code that was measured.
    #[serde(skip)]
    code: String,
}

/// The choice for a matrix on a back end, among some formats and their shapes: of its structure, else of its class, the
/// last one; with what the user should know.
pub fn find(
    mut store: Store,
    matrix: &Csr,
    formats: &[Format],
    precision: Precision,
    backend: &dyn Backend,
) -> (Option<KnownProduct>, Vec<String>) {
    let records = store.read(&structure::family(precision, backend));
    let mut notices = Vec::new();
    if !records.iter().any(|record| record.kind == Kind::Choice) {
        return (None, store.take_notices());
    }
    let (own, class) = (structure::hash_of(matrix), structure::class(matrix));
    let exact = |record: &Record| record.about.structure == own;
    let from = store.directory().map(|place| place.display().to_string()).unwrap_or_default();
    let known = choices(&records, exact, |record| record.about.class == class).into_iter().find_map(|record| {
        let format = named(formats, &record.schedule);
        if format.is_none() {
            notices.push(format!("what was tuned is not used: there is no format {} any more", record.schedule));
        }
        Some(KnownProduct {
            format: format?,
            variant: record.variant.clone(),
            threads: record.threads,
            from: from.clone(),
            exact: exact(record),
            seconds: record.seconds,
            default_seconds: record.default_seconds,
            code: record.code.clone(),
        })
    });
    notices.extend(store.take_notices());
    (known, notices)
}

impl KnownProduct {
    /// Checks that the variant can be mapped and, for the structure it was tuned for, that the code of the product is the
    /// code that was proven and timed.
    ///
    /// # Errors
    /// Why it does not hold.
    pub fn holds(&self, stored: &Stored, precision: Precision, backend: &dyn Backend) -> Result<(), String> {
        let now = code(stored, &mapping(precision, backend.target()), &self.variant)?;
        if self.exact && now != self.code {
            return Err("other code is generated now; tune again".to_string());
        }
        Ok(())
    }

    /// Has the back end use the threads that were chosen; a record may come from elsewhere.
    ///
    /// # Errors
    /// A system that has no threads left.
    pub fn set_threads(&self, backend: &mut dyn Backend) -> Result<(), BackendError> {
        set_threads(self.threads, backend)
    }

    /// For people.
    pub fn text(&self) -> String {
        let gain = gain(self.seconds, self.default_seconds);
        let near = if self.exact { "" } else { " for another matrix of its class" };
        let parts: Vec<String> = self.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let variant = if parts.is_empty() { "the default variant".to_string() } else { parts.join(" ") };
        format!("tuned{near}: format {}, {variant} (from {}{gain})", self.format.name, self.from)
    }
}

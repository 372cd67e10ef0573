//! A product of a stored matrix with a vector: compiled once, run and timed many times.

use std::sync::Arc;

use kernelwright_codegen::format::{self, Basis, Options, Stored};
use kernelwright_codegen::loops::{
    Control, Granule, Program, Role, ScalarId, Store, Sweep, SweepId, Value, ValueId, ValueKind, Vector, VectorId,
    Version,
};
use kernelwright_syntax::program::{Format, Precision};

use crate::backend::Backend;
use crate::matrix::Csr;
use crate::pipeline;
use crate::solve::{Engine, Error};

/// Brings a matrix to a format for products alone: rows may move, columns do not.
///
/// # Errors
/// A matrix that the format cannot store.
pub fn convert(matrix: &Csr, format: &Format) -> Result<Stored, Error> {
    let options = Options { basis: Basis::Given, diagonal: false };
    format::store(format, &matrix.view(), options).map_err(|error| Error::Input(error.to_string()))
}

/// `y = A x` on a back end.
pub struct Product {
    engine: Engine,
    rows: usize,
    columns: usize,
    /// Row r of the result is row `order[r]` of the matrix.
    order: Option<Arc<[u64]>>,
}

impl Product {
    /// Compiles for a layout and brings the arrays to the back end.
    ///
    /// # Errors
    /// What the compiler or the back end reports.
    pub fn compile(
        stored: &Stored,
        precision: Precision,
        variant: &[(String, String)],
        backend: Box<dyn Backend>,
    ) -> Result<Product, Error> {
        let program = program(stored);
        let module = pipeline::module(&program, backend.target(), precision, 1, variant)?;
        let mut engine = Engine::new(program, module, backend, 1)?;
        let mut arrays = stored.contents.iter().enumerate();
        if let Err(error) = arrays.try_for_each(|(number, contents)| engine.set_contents(number, contents)) {
            engine.into_backend();
            return Err(error);
        }
        let order = stored.order.as_deref().map(Arc::from);
        Ok(Product { engine, rows: stored.layout.rows as usize, columns: stored.layout.columns as usize, order })
    }

    /// Multiplies: `x` has an element for every column, the result one for every row.
    ///
    /// # Errors
    /// A wrong length, a back end that fails.
    pub fn multiply(&mut self, x: &[f64]) -> Result<Vec<f64>, Error> {
        self.set_operand(x)?;
        self.engine.run_section(&[Control::Sweep(SweepId(0))])?;
        self.result()
    }

    /// Sets `x`.
    ///
    /// # Errors
    /// As [`Product::multiply`].
    pub fn set_operand(&mut self, x: &[f64]) -> Result<(), Error> {
        if x.len() != self.columns {
            let text = format!("a vector of {} elements for a matrix of {} columns", x.len(), self.columns);
            return Err(Error::Input(text));
        }
        // Vectors are as long as rows and columns ask for.
        let mut padded = x.to_vec();
        padded.resize(self.engine.vector_len(), 0.0);
        self.engine.set_rhs(&padded)?;
        // What a product leaves out shows.
        self.engine.set_guess(&vec![f64::NAN; padded.len()])
    }

    /// Seconds of one product on the device, by the median of `repeats` times of several products each.
    ///
    /// # Errors
    /// A back end that fails.
    pub fn time(&mut self, repeats: usize) -> Result<f64, Error> {
        self.engine.time_section(&[Control::Sweep(SweepId(0))], repeats)
    }

    /// The product of the operand that was set last, in the order of the matrix.
    ///
    /// # Errors
    /// A back end that fails.
    pub fn result(&mut self) -> Result<Vec<f64>, Error> {
        let mut values = vec![0.0; self.engine.vector_len()];
        self.engine.read_solution(&mut values)?;
        if let Some(order) = &self.order {
            let moved = values.clone();
            order.iter().zip(moved).for_each(|(row, value)| values[*row as usize] = value);
        }
        values.truncate(self.rows);
        Ok(values)
    }

    /// What a copy reaches on the back end, in bytes a second.
    ///
    /// # Errors
    /// A back end that fails.
    pub fn copy_bandwidth(&mut self) -> Result<Option<f64>, Error> {
        self.engine.copy_bandwidth()
    }

    /// Gives back all buffers and kernels, and the back end for the next one.
    pub fn into_backend(self) -> Box<dyn Backend> {
        self.engine.into_backend()
    }
}

/// One sweep: the product, nothing else.
pub fn program(stored: &Stored) -> Program {
    let at = |vector: usize| Version { vector: VectorId(vector), ahead: 0 };
    let value = |name: &str, kind: ValueKind, text: Option<&str>| Value {
        name: name.to_string(),
        kind,
        text: text.map(str::to_string),
    };
    let vector = |name: &str, role: Role| Vector { name: name.to_string(), role, versions: 1 };
    let sweep = Sweep {
        name: "product".to_string(),
        text: vec!["y = A*x".to_string()],
        granule: Granule::Point,
        values: vec![
            value("x", ValueKind::Load(at(0)), None),
            value("y", ValueKind::Apply(ValueId(0)), Some("y = A*x")),
        ],
        stores: vec![Store { value: ValueId(1), to: at(1) }],
        sums: Vec::new(),
        predicate: None,
    };
    let scalars = ["tolerance", "iteration", "measure", "bound", "attainable"];
    debug_assert_eq!(scalars.len(), ScalarId::RESERVED);
    Program {
        name: format!("product {}", stored.layout.format.name),
        operator: format::operator("A", &stored.layout, Vec::new()),
        vectors: vec![vector("x", Role::Rhs), vector("y", Role::Solution)],
        scalars: scalars.map(str::to_string).to_vec(),
        solver_params: Vec::new(),
        sums: Vec::new(),
        sweeps: vec![sweep],
        fences: Vec::new(),
        requires: Vec::new(),
        prepare: Vec::new(),
        start: vec![Control::Sweep(SweepId(0))],
        body: Vec::new(),
        residual: Vec::new(),
        finish: Vec::new(),
    }
}

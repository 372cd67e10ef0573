//! What holds a state and advances it.

use std::sync::Arc;

use kernelwright_codegen::galerkin::direct::Direct;
use kernelwright_codegen::galerkin::system::System;

use super::{Bound, KernelEngine};
use crate::backend::Arithmetic;
use crate::backend::open::Choice;
use crate::cache::Cache;
use crate::solve::Error;

/// A state of a system on a mesh. States are `values[(element * components + component) * nodes + node]`, in f64 whatever
/// the engine computes in.
pub trait Engine {
    /// What it runs on, for people.
    fn describe(&self) -> String;

    /// Sets the state.
    ///
    /// # Errors
    /// A failing back end.
    fn load(&mut self, state: &[f64]) -> Result<(), Error>;

    /// Reads the state.
    ///
    /// # Errors
    /// A failing back end.
    fn store(&mut self, state: &mut [f64]) -> Result<(), Error>;

    /// Advances by `steps` steps of `dt`, step k at `time + k * dt`; returns when they are made.
    ///
    /// # Errors
    /// A failing back end.
    fn advance(&mut self, time: f64, dt: f64, steps: u64) -> Result<(), Error>;

    /// Reads the right-hand side at the state and a time.
    ///
    /// # Errors
    /// A failing back end.
    fn rate(&mut self, time: f64, rate: &mut [f64]) -> Result<(), Error>;

    /// The energy of the state, if it can be had without reading the state.
    ///
    /// # Errors
    /// A failing back end.
    fn energy(&mut self) -> Result<Option<f64>, Error> {
        Ok(None)
    }

    /// What the user should know; each notice is given once.
    fn notices(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// The reference evaluation: dense matrices in f64 on one core.
pub struct DirectEngine<'b> {
    direct: Direct<'b>,
    registers: Vec<Vec<f64>>,
}

impl<'b> DirectEngine<'b> {
    /// An engine for a system (the problem's own, or one made of it) on the problem's mesh.
    pub fn new(bound: &'b Bound, system: &'b System) -> DirectEngine<'b> {
        let direct =
            Direct::new(system, &bound.plain, bound.element.clone(), bound.run.params.clone(), bound.materials.clone());
        let registers = vec![vec![0.0; direct.len()]; system.step.registers.len()];
        DirectEngine { direct, registers }
    }
}

impl Engine for DirectEngine<'_> {
    fn describe(&self) -> String {
        "reference evaluation".to_string()
    }

    fn load(&mut self, state: &[f64]) -> Result<(), Error> {
        self.registers[0].copy_from_slice(state);
        Ok(())
    }

    fn store(&mut self, state: &mut [f64]) -> Result<(), Error> {
        state.copy_from_slice(&self.registers[0]);
        Ok(())
    }

    fn advance(&mut self, time: f64, dt: f64, steps: u64) -> Result<(), Error> {
        for step in 0..steps {
            self.direct.advance(&mut self.registers, time + step as f64 * dt, dt);
        }
        Ok(())
    }

    fn rate(&mut self, time: f64, rate: &mut [f64]) -> Result<(), Error> {
        rate.copy_from_slice(&self.direct.rate(&self.registers[0], time));
        Ok(())
    }
}

/// The engine of a problem, and what a user should know about it.
pub struct Made<'b> {
    /// The engine.
    pub engine: Box<dyn Engine + 'b>,
    /// What a user should know.
    pub notices: Vec<String>,
}

/// Makes an engine for a system (the problem's own, or its linear part) on the problem's mesh; compiled kernels are kept in a
/// cache.
///
/// # Errors
/// A back end that is not there or cannot run it.
pub fn open<'b>(bound: &'b Bound, system: &'b System, choice: Choice, cache: &Arc<Cache>) -> Result<Made<'b>, Error> {
    let opened = crate::backend::open::open(choice, Arithmetic::Contracted, cache)?;
    let engine = Box::new(KernelEngine::new(bound, system, opened.backend)?);
    Ok(Made { engine, notices: opened.notices })
}

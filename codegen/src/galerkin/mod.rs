//! Discontinuous Galerkin systems on tetrahedra: from the equations to fused element kernels.
//!
//! Modules in the order of the data: [`system`] is the contract with the language (a linear hyperbolic system with its
//! numerical flux, boundaries and time step), [`step`] the time step as data, [`mesh`] the contract with whoever reads
//! meshes; [`verify`], [`text`] and [`evaluate`] check, print and evaluate systems.

pub mod system;
pub mod step;
pub mod mesh;
pub mod evaluate;
pub mod verify;
pub mod text;

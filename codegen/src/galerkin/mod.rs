//! Discontinuous Galerkin systems on tetrahedra: from the equations to fused element kernels.
//!
//! Modules in the order of the data: [`system`] is the contract with the language (a linear hyperbolic system with its
//! numerical flux, boundaries and time step), [`step`] the time step as data, [`mesh`] the contract with whoever reads
//! meshes; [`verify`], [`text`] and [`evaluate`] check, print and evaluate systems, [`energy`] finds what they conserve,
//! [`hyperbolic`] tests the speeds of waves.
//! [`mod@reference`] is the reference element of an order; [`map`](map::map) makes a [`module`] of kernels. [`lower`] comes
//! from the language, [`direct`] evaluates a system on a mesh with dense matrices.

pub mod system;
pub mod step;
pub mod mesh;
pub mod evaluate;
pub mod verify;
pub mod text;
pub mod energy;
pub mod hyperbolic;
pub mod reference;
pub mod map;
pub mod module;
pub mod lower;
pub mod direct;

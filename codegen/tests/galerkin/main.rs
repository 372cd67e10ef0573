//! Discontinuous Galerkin systems: the contract, the reference element and the kernels.

mod systems;
mod meshes;
mod oracle;
mod machine;
mod contract;
mod element;
mod kernels;

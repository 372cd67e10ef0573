//! What the compiler makes of the example programs, as texts.
//!
//! [`cases`](cases::cases) are the golden texts, one file each under `cases/`; [`sources`] are all sources that the
//! real compilers must accept. To add a shape of kernels, add a line to [`cases::AXES`].

pub mod build;
pub mod cases;
pub mod galerkin;
pub mod matrices;
pub mod sources;

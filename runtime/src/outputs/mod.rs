//! Results as files: .npy, .vti for ParaView, the history as .csv, the convergence plot as .svg.

pub mod history;
pub mod matrix;
pub mod plot;
pub mod vti;
pub mod vtu;

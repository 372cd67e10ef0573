//! kernelwright: the facade library.

//! Tests of the compiler through its public interface.

mod c_program;
mod kernel_samples;
mod printing;
mod programs;

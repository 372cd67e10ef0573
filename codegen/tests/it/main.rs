//! Tests of the compiler through its public interface.

mod kernel_samples;
mod printing;

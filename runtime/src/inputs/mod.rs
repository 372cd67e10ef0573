//! Arrays from outside: expressions, random numbers, .npy files.

pub mod npy;
pub mod random;

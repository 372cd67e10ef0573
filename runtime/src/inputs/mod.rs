//! Arrays from outside: expressions, random numbers, .npy files.

pub mod evaluate;
pub mod npy;
pub mod random;
pub mod sources;

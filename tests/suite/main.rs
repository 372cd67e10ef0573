//! The suite: programs × schedules × precisions × back ends against the oracle, and the invariants of the sources.

mod tidy;

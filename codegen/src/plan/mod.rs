//! Plan: schedules for a graph.

pub mod schedule;

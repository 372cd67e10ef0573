//! What a launch did, counted.

/// Counts of a launch. Only what active lanes did counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Per buffer of the kernel.
    pub buffers: Vec<BufferStats>,
    /// Bytes of loads from and stores to global buffers, every access counted.
    pub global_bytes: u64,
    /// Bytes of the distinct elements loaded from and of those stored to global buffers: what has to move at least.
    pub distinct_bytes: u64,
    /// Operations on reals: arithmetic, minimum and maximum, functions; 2 for a fused multiply-add.
    pub flops: u64,
    /// Divisions among them.
    pub divisions: u64,
    /// Functions among them, without `Fma`, `Abs` and `IsFinite`.
    pub calls: u64,
    /// Barriers, counted per block.
    pub barriers: u64,
    /// Instructions of the interpreter times active lanes.
    pub lane_steps: u64,
}

/// Accesses to a buffer, counted in elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferStats {
    /// Loads.
    pub loads: u64,
    /// Stores (dropped ones too), including atomic operations.
    pub stores: u64,
    /// Different elements loaded (global buffers only).
    pub distinct_loads: u64,
    /// Different elements stored (global buffers only).
    pub distinct_stores: u64,
}

//! What a stored matrix costs: bytes an entry, padding, storage against ELLPACK, vectors that travel.

use kernelwright_codegen::format::Layout;
use kernelwright_syntax::program::Precision;
use serde::Serialize;

use crate::pipeline::element_of;

/// Bytes of an element of a vector; in mixed precision, of the vectors of the loop.
pub fn bytes_of(precision: Precision) -> u64 {
    element_of(precision).bytes()
}

/// Costs of a matrix in a format.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Entries of the matrix.
    pub entries: u64,
    /// Cells that are stored: entries and padding.
    pub cells: u64,
    /// Bytes of all arrays.
    pub stored_bytes: u64,
    /// Bytes of a product: what is read of the matrix, and both vectors, each element once.
    pub product_bytes: u64,
    /// Bytes of the arrays for each entry.
    pub bytes_per_entry: f64,
    /// Padding as a part of the entries.
    pub padding: f64,
    /// Stored bytes as a part of those of ELLPACK, which pads every row to the longest.
    pub against_ellpack: f64,
}

impl Cost {
    /// Costs of a layout for vectors of a precision.
    pub fn of(layout: &Layout, precision: Precision) -> Cost {
        let real = bytes_of(precision);
        let stored_bytes = layout.bytes(real);
        // ELLPACK stores a value and a 32-bit column in every cell.
        let ellpack = (layout.size * layout.longest * (real + 4)).max(1);
        Cost {
            entries: layout.entries,
            cells: layout.cells,
            stored_bytes,
            product_bytes: layout.read_bytes(real) + 2 * layout.size * real,
            bytes_per_entry: layout.bytes_per_entry(real),
            padding: layout.padding_overhead(),
            against_ellpack: stored_bytes as f64 / ellpack as f64,
        }
    }

    /// What is saved of ELLPACK's storage: the data reduction of Kreutzer et al. 2012, table I.
    pub fn data_reduction(&self) -> f64 {
        1.0 - self.against_ellpack
    }
}

/// Bytes a second over PCIe, where nothing better is known: 16 lanes of the fifth generation, as transfers reach it.
pub const PCIE: f64 = 50e9;

/// A product whose operand comes from the host and whose result goes back there, after Kreutzer et al. 2012,
/// section II-C.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Travel {
    /// Seconds of the two transfers.
    pub transfer_seconds: f64,
    /// Their part of the time of transfers and product.
    pub penalty: f64,
    /// Rows shorter than this on average lose more than half of the time to transfers, if vectors are read once.
    pub half_below: f64,
    /// Rows longer than this on average lose less than a tenth.
    pub tenth_above: f64,
}

impl Travel {
    /// For vectors of `size` elements of so many bytes, a product of `seconds`, and bandwidths of PCIe and of the
    /// device's memory.
    pub fn of(size: u64, real: u64, seconds: f64, pcie: f64, memory: f64) -> Travel {
        let transfer_seconds = (2 * size * real) as f64 / pcie;
        // T_MVM = real N / B (N_nzr (1 + 4/real + alpha) + 2) with 4 bytes a column, T_PCI = 2 real N / B_PCI.
        // With alpha = 1/N_nzr, T_MVM = n T_PCI where N_nzr (1 + 4/real) + 3 = 2 n B / B_PCI.
        let rows = |n: f64| ((2.0 * n * memory / pcie - 3.0) / (1.0 + 4.0 / real as f64)).max(0.0);
        Travel {
            transfer_seconds,
            penalty: transfer_seconds / (transfer_seconds + seconds),
            half_below: rows(1.0),
            tenth_above: rows(10.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Travel;

    #[test]
    fn the_estimate_gives_the_row_lengths_of_the_paper() {
        // B_GPU = 20 B_PCI and alpha = 1/N_nzr, f64: 25 and 266 entries a row.
        let travel = Travel::of(1000, 8, 1e-6, 1e9, 20e9);
        assert!((travel.half_below - 25.0).abs() < 0.5, "{travel:?}");
        assert!((travel.tenth_above - 266.0).abs() < 2.0, "{travel:?}");
        assert!((travel.transfer_seconds - 16e-6).abs() < 1e-12);
        assert!((travel.penalty - 16.0 / 17.0).abs() < 1e-12);
    }
}

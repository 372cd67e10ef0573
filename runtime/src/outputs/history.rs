//! The history of a solve as comma-separated values.

use std::io::{self, Write};

/// One line per check: iteration and measure, with 17 significant digits.
pub fn write(mut target: impl Write, history: &[f64]) -> io::Result<()> {
    writeln!(target, "iteration,measure")?;
    for (iteration, measure) in history.iter().enumerate() {
        writeln!(target, "{iteration},{measure:.16e}")?;
    }
    target.flush()
}

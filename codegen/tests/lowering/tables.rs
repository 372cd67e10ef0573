//! What becomes a table.

use kernelwright_codegen::lower::lower;
use kernelwright_codegen::math_text::dump;

use crate::operators::*;

#[test]
fn pressure_correction_is_split_by_axes() {
    let op = lower(&pressure_correction(), &[8, 8, 16]).unwrap();
    println!("{}", dump(&op));
}

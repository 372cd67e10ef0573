//! Pictures of a matrix as SVG: the spy plot and the histogram of row lengths.

use std::fmt::Write;

use super::Csr;
use super::statistics::{Bin, Statistics};
use crate::outputs::vti::escape;

/// Cells along the longer side of a spy plot; a smaller matrix has a cell for every place.
const CELLS: usize = 240;
/// Length of the longer side.
const SIDE: f64 = 600.0;
/// Colours of cells: of the entries that a full cell has, up to 1/64, 1/16, 1/4, and above.
const SHADES: [&str; 4] = ["#a8c5e8", "#6aa0d8", "#3a78c0", "#1a4480"];

/// Where the entries stand; large matrices are drawn by cells, the darker the fuller.
pub fn spy(matrix: &Csr, title: &str) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw_spy(&mut out, matrix, title);
    out
}

fn draw_spy(out: &mut String, matrix: &Csr, title: &str) -> std::fmt::Result {
    let longer = matrix.rows().max(matrix.columns()).max(1);
    // Rows and columns of a cell.
    let each = longer.div_ceil(CELLS);
    let unit = SIDE / longer.div_ceil(each) as f64;
    let place = |count: usize| (count.div_ceil(each) as f64 * unit).max(1.0);
    let (width, height) = (place(matrix.columns()), place(matrix.rows()));
    open(out, width.max(360.0) + 40.0, height + 84.0, title)?;
    writeln!(out, "<g transform=\"translate(20 44)\" fill=\"none\">")?;
    writeln!(out, "<rect width=\"{width:.1}\" height=\"{height:.1}\" stroke=\"#222\"/>")?;
    writeln!(out, "<g transform=\"scale({unit:.6})\" stroke-width=\"1\">")?;
    let runs = runs(matrix, each);
    for (shade, runs) in SHADES.iter().zip(&runs).filter(|(_, runs)| !runs.is_empty()) {
        write!(out, "<path stroke=\"{shade}\" d=\"")?;
        for run in runs {
            write!(out, "M{} {}.5h{}", run.column, run.row, run.length)?;
        }
        writeln!(out, "\"/>")?;
    }
    writeln!(out, "</g></g>")?;
    let cells = if each > 1 { format!("; a cell has {each} x {each} places") } else { String::new() };
    let text = format!("{} x {}, {} entries{cells}", matrix.rows(), matrix.columns(), matrix.entries());
    writeln!(out, "<text x=\"20\" y=\"{:.1}\">{text}</text>", height + 68.0)?;
    writeln!(out, "</svg>")
}

/// Neighbouring cells of one shade.
struct Run {
    row: usize,
    column: usize,
    length: usize,
}

/// Runs by shade.
fn runs(matrix: &Csr, each: usize) -> [Vec<Run>; SHADES.len()] {
    let mut runs = [const { Vec::new() }; SHADES.len()];
    let mut counts = vec![0usize; matrix.columns().div_ceil(each)];
    let full = (each * each) as f64;
    for first in (0..matrix.rows()).step_by(each) {
        counts.fill(0);
        for row in first..(first + each).min(matrix.rows()) {
            matrix.row(row).for_each(|(column, _)| counts[column / each] += 1);
        }
        let row = first / each;
        let mut column = 0;
        for cells in counts.chunk_by(|a, b| shade(*a, full) == shade(*b, full)) {
            if let Some(shade) = shade(cells[0], full) {
                runs[shade].push(Run { row, column, length: cells.len() });
            }
            column += cells.len();
        }
    }
    runs
}

fn shade(count: usize, full: f64) -> Option<usize> {
    let share = count as f64 / full;
    (count > 0).then(|| [1.0 / 64.0, 1.0 / 16.0, 1.0 / 4.0].iter().filter(|bound| share > **bound).count())
}

/// Number of rows over their length.
pub fn histogram(statistics: &Statistics, title: &str) -> String {
    let mut out = String::new();
    let _ = draw_histogram(&mut out, statistics, title);
    out
}

fn draw_histogram(out: &mut String, statistics: &Statistics, title: &str) -> std::fmt::Result {
    const AREA: [f64; 4] = [70.0, 700.0, 52.0, 330.0];
    let [left, right, top, bottom] = AREA;
    let bins = &statistics.row_lengths.histogram;
    let most = bins.iter().map(|bin| bin.rows).max().unwrap_or(0).max(1) as f64;
    let step = (right - left) / bins.len().max(1) as f64;
    open(out, 720.0, 390.0, title)?;
    for (n, bin) in bins.iter().enumerate() {
        let x = left + n as f64 * step;
        let height = (bottom - top) * bin.rows as f64 / most;
        write!(out, "<rect x=\"{:.1}\" y=\"{:.1}\" ", x + 0.1 * step, bottom - height)?;
        writeln!(out, "width=\"{:.1}\" height=\"{height:.1}\" fill=\"#3a78c0\">", 0.8 * step)?;
        writeln!(out, "<title>{} rows with {} entries</title></rect>", bin.rows, lengths(bin))?;
    }
    // At most about twelve labels.
    let every = bins.len().div_ceil(12).max(1);
    for (n, bin) in bins.iter().enumerate().step_by(every) {
        let x = left + (n as f64 + 0.5) * step;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>", bottom + 20.0, lengths(bin))?;
    }
    writeln!(out, "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#222\"/>")?;
    for (y, rows) in [(bottom, 0.0), (top, most)] {
        writeln!(out, "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{rows}</text>", left - 8.0, y + 5.0)?;
    }
    let middle = (left + right) / 2.0;
    writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">entries in a row</text>", bottom + 46.0)?;
    writeln!(out, "</svg>")
}

/// `3` or `4–7`.
pub fn lengths(bin: &Bin) -> String {
    if bin.from == bin.to { bin.from.to_string() } else { format!("{}–{}", bin.from, bin.to) }
}

fn open(out: &mut String, width: f64, height: f64, title: &str) -> std::fmt::Result {
    write!(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.1} {height:.1}\" ")?;
    write!(out, "width=\"{width:.1}\" height=\"{height:.1}\" font-family=\"Helvetica, Arial, sans-serif\" ")?;
    writeln!(out, "font-size=\"13\" fill=\"#222\">")?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>")?;
    writeln!(out, "<text x=\"20\" y=\"28\" font-size=\"16\" font-weight=\"600\">{}</text>", escape(title))
}

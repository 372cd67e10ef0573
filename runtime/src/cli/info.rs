//! `info`: what a matrix looks like.

use std::path::Path;

use serde_json::{Value, json};

use super::args::InfoArgs;
use super::failure::Failure;
use super::out::Out;
use super::table::labelled;
use crate::matrix::statistics::{Comparison, Diagonal, RowLengths, Statistics};
use crate::matrix::{Matrix, drawing, file};

pub(super) fn run(args: &InfoArgs, out: &mut Out) -> Result<u8, Failure> {
    let matrix = file::read(&args.file).map_err(Failure::Input)?;
    let statistics = Statistics::of(&matrix.csr);
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    if let Some(path) = &args.spy {
        save(path, &drawing::spy(&matrix.csr, &name))?;
    }
    if let Some(path) = &args.histogram {
        save(path, &drawing::histogram(&statistics, &name))?;
    }
    text(out, &name, &matrix, &statistics)?;
    out.object(&object(&name, &matrix, &statistics))?;
    Ok(0)
}

fn save(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text).map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
}

fn text(out: &mut Out, name: &str, matrix: &Matrix, statistics: &Statistics) -> Result<(), Failure> {
    out.line(format!("{name}: {}", matrix.form))?;
    let rows = rows(matrix, statistics);
    labelled(&rows).iter().try_for_each(|line| out.line(line))?;
    out.line("\nentries in a row")?;
    bars(&statistics.row_lengths).iter().try_for_each(|line| out.line(line))
}

/// A part in percent, with the digits that tell something.
fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    if percent == 0.0 || percent >= 0.1 { format!("{percent:.2} %") } else { format!("{percent:.2e} %") }
}

/// What is found, by name.
fn rows(matrix: &Matrix, statistics: &Statistics) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut row = |what: &str, text: String| rows.push((format!("  {what}"), text));
    if let Some(title) = &matrix.title {
        row("title", title.clone());
    }
    let (entries, density) = (statistics.entries, percent(statistics.density()));
    row("size", format!("{} x {}, {entries} entries ({density})", statistics.rows, statistics.columns));
    row("row lengths", row_lengths(&statistics.row_lengths));
    row("bandwidth", format!("{} below, {} above", statistics.bandwidth.lower, statistics.bandwidth.upper));
    if let Some([low, high]) = statistics.magnitudes {
        row("magnitudes", format!("{low:.3e} … {high:.3e}"));
    }
    if let Some(comparison) = &statistics.symmetry {
        let largest = statistics.magnitudes.map_or(0.0, |range| range[1]);
        row("symmetry", symmetry(comparison, largest));
    }
    if let Some(found) = &statistics.diagonal {
        row("diagonal", diagonal(found, statistics.rows));
    }
    if let Some(blocks) = &statistics.blocks {
        let (size, fill) = (blocks.size, 100.0 * blocks.fill);
        row("blocks", format!("dense blocks of {size} x {size}, {fill:.0} % full"));
    }
    for (what, vectors) in vectors(matrix) {
        if vectors > 0 {
            row(what, vectors.to_string());
        }
    }
    matrix.notes().into_iter().for_each(|note| row("note", note));
    rows
}

fn row_lengths(lengths: &RowLengths) -> String {
    let RowLengths { min, mean, max, deviation, .. } = lengths;
    let mut text = format!("{min} … {max}, {mean:.2} on average, standard deviation {deviation:.2}");
    if let (empty, Some(first)) = (lengths.empty, lengths.first_empty) {
        text.push_str(&format!("; {empty} empty, the first is row {first}"));
    }
    text
}

/// `largest` is the largest magnitude of the matrix.
fn symmetry(comparison: &Comparison, largest: f64) -> String {
    // What rounding in the program that wrote the matrix explains, with room for long sums.
    const ROUNDING: f64 = 1e-12;
    let Comparison { unmatched, defect, place, skew_defect } = comparison;
    match place {
        None if *unmatched == 0 => "symmetric".to_string(),
        None => format!("symmetric, but for {unmatched} stored zeros without a stored mirror"),
        Some(_) if *skew_defect == 0.0 => "skew-symmetric".to_string(),
        Some([row, column]) => {
            let pattern = match unmatched {
                0 => "the pattern is symmetric".to_string(),
                n => format!("{n} entries have no stored mirror"),
            };
            let verdict = if *defect <= ROUNDING * largest { "symmetric up to rounding" } else { "not symmetric" };
            format!("{verdict}: {pattern}; largest difference {defect:.3e}, at row {row}, column {column}")
        }
    }
}

fn diagonal(diagonal: &Diagonal, rows: usize) -> String {
    let places = [
        (diagonal.missing, diagonal.first_missing, "without one"),
        (diagonal.zero, diagonal.first_zero, "where it is zero"),
        (diagonal.negative, diagonal.first_negative, "where it is negative"),
    ];
    let mut parts = Vec::new();
    for (count, first, what) in places {
        if let Some(first) = first {
            let rows = if count == 1 { "row" } else { "rows" };
            parts.push(format!("{count} {rows} {what} (first: row {first})"));
        }
    }
    if parts.is_empty() {
        parts.push("positive".to_string());
    }
    format!("{}; dominant in {} of {rows} rows", parts.join(", "), diagonal.dominant)
}

fn vectors(matrix: &Matrix) -> [(&'static str, usize); 3] {
    let vectors = &matrix.vectors;
    [
        ("right-hand sides", vectors.right_hand_sides.len()),
        ("guesses", vectors.guesses.len()),
        ("solutions", vectors.solutions.len()),
    ]
}

/// The histogram as lines of text.
fn bars(lengths: &RowLengths) -> Vec<String> {
    const WIDTH: usize = 50;
    let most = lengths.histogram.iter().map(|bin| bin.rows).max().unwrap_or(0).max(1);
    let shown = lengths.histogram.iter().filter(|bin| bin.rows > 0);
    let rows: Vec<(String, String)> = shown
        .map(|bin| {
            // What exists is visible.
            let length = (bin.rows as f64 / most as f64 * WIDTH as f64).round().max(1.0) as usize;
            let count = format!("{} {}", "█".repeat(length), bin.rows);
            (format!("  {:>9}", drawing::lengths(bin)), count)
        })
        .collect();
    labelled(&rows)
}

fn object(name: &str, matrix: &Matrix, statistics: &Statistics) -> Value {
    let mut object = json!({
        "file": name,
        "form": matrix.form,
        "title": matrix.title,
        "stored_symmetry": matrix.symmetry.name(),
        "stored_entries": matrix.stored,
        "duplicates": matrix.duplicates,
        "explicit_zeros": matrix.zeros,
        "upper_triangle": matrix.upper,
        "statistics": statistics,
        "notes": matrix.notes(),
    });
    object["statistics"]["density"] = json!(statistics.density());
    if let Some(diagonal) = &statistics.diagonal {
        object["statistics"]["diagonal"]["positive"] = json!(diagonal.is_positive());
    }
    for (what, count) in vectors(matrix) {
        object["vectors"][what] = json!(count);
    }
    object
}

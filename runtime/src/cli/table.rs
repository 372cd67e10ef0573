//! Text in columns.

/// Lines of cells, each column as wide as its widest cell; columns of numbers, but for a title, are set to the right.
pub(super) fn columns(rows: &[Vec<String>]) -> Vec<String> {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> = (0..count).map(|column| width(column).unwrap_or(0)).collect();
    let number = |cell: &String| cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '.');
    let below = if rows.len() > 1 { &rows[1..] } else { rows };
    let numbers = |column: usize| below.iter().filter_map(|row| row.get(column)).all(|c| c.is_empty() || number(c));
    let right: Vec<bool> = (0..count).map(numbers).collect();
    rows.iter().map(|row| line(row, &widths, &right)).collect()
}

fn line(row: &[String], widths: &[usize], right: &[bool]) -> String {
    let mut out = String::new();
    for ((cell, width), right) in row.iter().zip(widths).zip(right) {
        if !out.is_empty() {
            out.push_str("  ");
        }
        let space = " ".repeat(width - cell.chars().count());
        if *right { out.extend([space.as_str(), cell]) } else { out.extend([cell, space.as_str()]) }
    }
    out.trim_end().to_string()
}

/// Names and what stands for them, both to the left.
pub(super) fn labelled(rows: &[(String, String)]) -> Vec<String> {
    let width = rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    rows.iter().map(|(name, text)| format!("{name:<width$}  {text}").trim_end().to_string()).collect()
}

/// A quantity of bytes for people.
pub(super) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

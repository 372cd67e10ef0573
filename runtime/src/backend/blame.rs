//! Which kernel a compiler's log complains about.

use super::BackendError;

/// Names the kernel in a compiler's refusal; other errors pass.
pub fn name_kernel(error: BackendError, source: &str, kernels: &[&str]) -> BackendError {
    match error {
        BackendError::Compile { language, log } => {
            BackendError::Compile { language, log: explain(&log, source, kernels) }
        }
        other => other,
    }
}

/// Prepends the first error's kernel and source line to a log. Both compilers' forms of a place are understood:
/// `file.c:12:3: error: …` and `file.cu(12): error: …`. Kernels are recognised by their functions' names.
fn explain(log: &str, source: &str, kernels: &[&str]) -> String {
    let Some(number) = log.lines().filter(|line| line.contains("error")).find_map(place) else { return log.to_owned() };
    let lines: Vec<&str> = source.lines().collect();
    let Some(text) = number.checked_sub(1).and_then(|index| lines.get(index)) else { return log.to_owned() };
    let before = lines[..number].iter().rev();
    let kernel = before.filter_map(|line| kernels.iter().find(|name| defines(line, name))).next();
    let kernel = kernel.map_or_else(String::new, |name| format!(" in kernel {name}"));
    format!("error{kernel}, line {number}: {}\n{log}", text.trim())
}

/// Line number of a message.
fn place(message: &str) -> Option<usize> {
    let (before, _) = message.split_once("error")?;
    let numbers = before.split([':', '(', ')']).map(str::trim);
    numbers.filter_map(|text| text.parse().ok()).next()
}

/// Whether a line opens a function: its name as a whole word, then a parenthesis.
fn defines(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let starts = !line[..at].chars().next_back().is_some_and(word);
        starts && line[at + name.len()..].trim_start().starts_with('(')
    })
}

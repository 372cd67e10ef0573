//! Which kernel and statement a compiler's log complains about.

use super::BackendError;
use kernelwright_codegen::print::Printed;

/// Puts the kernel and the statement of the first error before the log of a refusal; other errors pass.
pub fn name_kernel(error: BackendError, source: &Printed) -> BackendError {
    match error {
        BackendError::Compile { language, log } => BackendError::Compile { language, log: explain(log, source) },
        other => other,
    }
}

fn explain(log: String, source: &Printed) -> String {
    let Some(number) = log.lines().filter(|line| line.contains("error")).find_map(place) else { return log };
    let Some(text) = number.checked_sub(1).and_then(|index| source.text.lines().nth(index)) else { return log };
    let place = match source.locate(number) {
        Some((kernel, Some(statement))) => format!(" in kernel {kernel}, computing `{statement}`"),
        Some((kernel, None)) => format!(" in kernel {kernel}"),
        None => String::new(),
    };
    format!("error{place}, line {number}: {}\n{log}", text.trim())
}

/// Line number of a message: `file.c:12:3: error: …` or `file.cu(12): error: …`.
fn place(message: &str) -> Option<usize> {
    let (before, _) = message.split_once("error")?;
    before.split([':', '(', ')']).find_map(|text| text.trim().parse().ok())
}

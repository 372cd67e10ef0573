//! `doctor`: what was found on this machine, what not, and what would help.

use serde_json::json;

use super::failure::Failure;
use super::out::Out;
use crate::doctor::Report;

pub(super) fn run(out: &mut Out) -> Result<u8, Failure> {
    let report = Report::collect();
    out.line(report.to_string().trim_end())?;
    out.object(&json!(report))?;
    Ok(0)
}

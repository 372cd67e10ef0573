//! The search as a picture: time against candidate, kernel by kernel, with the time that the copy bandwidth allows.

use std::fmt::Write;

use super::record::Verdict;
use super::report::{KernelReport, Report};
use crate::outputs::vti::escape;

const WIDTH: f64 = 760.0;
/// Height of a kernel's panel, and of the headline.
const PANEL: f64 = 200.0;
const HEAD: f64 = 56.0;
/// Left and right of the plotted area; top and bottom within a panel.
const AREA: [f64; 4] = [92.0, 740.0, 26.0, 160.0];
const DOT: &str = "#1a5fb4";
const BEST: &str = "#26a269";
const BAD: &str = "#c01c28";

/// The document.
pub fn svg(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut out, report);
    out
}

fn draw(out: &mut String, report: &Report) -> std::fmt::Result {
    let height = HEAD + PANEL * report.kernels.len().max(1) as f64;
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\" fill=\"#222\">"
    )?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>")?;
    let sizes: Vec<String> = report.sizes.iter().map(usize::to_string).collect();
    let title = format!(
        "{}: {} in {}, {:.2} x the default",
        report.problem,
        sizes.join(" x "),
        report.precision,
        report.gain()
    );
    writeln!(out, "<text x=\"16\" y=\"24\" font-size=\"16\" font-weight=\"600\">{}</text>", escape(&title))?;
    writeln!(out, "<text x=\"16\" y=\"42\" fill=\"#666\">{}</text>", escape(&report.device))?;
    for (number, kernel) in report.kernels.iter().enumerate() {
        writeln!(out, "<g transform=\"translate(0 {})\">", HEAD + PANEL * number as f64)?;
        panel(out, report, kernel)?;
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")
}

/// Seconds to places, logarithmically.
struct Scale {
    low: f64,
    high: f64,
    last: f64,
}

impl Scale {
    fn of(kernel: &KernelReport, floor: Option<f64>) -> Scale {
        let times = kernel.searched.trials.iter().filter_map(|trial| trial.seconds).chain(floor);
        let times: Vec<f64> = times.filter(|time| time.is_finite() && *time > 0.0).collect();
        let low = times.iter().copied().fold(f64::INFINITY, f64::min);
        let high = times.iter().copied().fold(0.0, f64::max);
        let (low, high) = if low < high { (low / 1.1, high * 1.1) } else { (low.min(1.0) / 2.0, high.max(1e-9) * 2.0) };
        Scale { low, high, last: kernel.searched.trials.len().saturating_sub(1).max(1) as f64 }
    }

    fn x(&self, number: usize) -> f64 {
        AREA[0] + 8.0 + (AREA[1] - AREA[0] - 16.0) * number as f64 / self.last
    }

    fn y(&self, seconds: f64) -> f64 {
        let share = (seconds / self.low).ln() / (self.high / self.low).ln();
        AREA[3] - (AREA[3] - AREA[2]) * share
    }
}

fn panel(out: &mut String, report: &Report, kernel: &KernelReport) -> std::fmt::Result {
    let [left, right, top, bottom] = AREA;
    let searched = &kernel.searched;
    let floor = report.copy_bandwidth.map(|copy| searched.bytes as f64 / copy);
    let scale = Scale::of(kernel, floor);
    let (default, best) = searched.seconds();
    let title = format!("{} ({:.2} x)", searched.kernel, default / best);
    writeln!(out, "<text x=\"{left}\" y=\"14\" font-weight=\"600\">{}</text>", escape(&title))?;
    writeln!(out, "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#222\"/>")?;
    for seconds in ticks(&scale) {
        let y = scale.y(seconds);
        writeln!(out, "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e3e3e3\"/>")?;
        let (x, y, text) = (left - 8.0, y + 4.0, time(seconds));
        writeln!(out, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{text}</text>")?;
    }
    writeln!(out, "<text x=\"{right}\" y=\"{}\" text-anchor=\"end\">candidate</text>", bottom + 18.0)?;
    if let Some(floor) = floor {
        let y = scale.y(floor);
        writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{BAD}\" stroke-dasharray=\"6 4\"/>"
        )?;
        let text = "roofline: its vectors at copy bandwidth";
        writeln!(out, "<text x=\"{right}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{BAD}\">{text}</text>", y - 5.0)?;
    }
    points(out, kernel, &scale)
}

fn points(out: &mut String, kernel: &KernelReport, scale: &Scale) -> std::fmt::Result {
    let mut best = f64::INFINITY;
    let mut stairs = String::new();
    for (number, trial) in kernel.searched.trials.iter().enumerate() {
        let variant: Vec<String> = trial.variant.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let variant = escape(&variant.join(" "));
        let x = scale.x(number);
        let Some(seconds) = trial.seconds.filter(|time| time.is_finite() && *time > 0.0) else {
            let reason = escape(&trial.reason);
            let (y, from, to) = (AREA[3] - 6.0, x - 3.0, x + 3.0);
            writeln!(
                out,
                "<path d=\"M{from:.1} {y}l6 6M{to:.1} {y}l-6 6\" stroke=\"{BAD}\"><title>{variant}: {reason}</title></path>"
            )?;
            continue;
        };
        let y = scale.y(seconds);
        if trial.verdict == Verdict::Timed && seconds < best {
            best = seconds;
        }
        let pen = if stairs.is_empty() { 'M' } else { 'L' };
        write!(stairs, "{pen}{x:.1} {:.1}", scale.y(best.min(scale.high)))?;
        let (colour, radius) = if number == kernel.searched.best { (BEST, 5.0) } else { (DOT, 2.5) };
        let time = time(seconds);
        writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" fill=\"{colour}\"><title>{variant}: {time}</title></circle>"
        )?;
    }
    writeln!(out, "<path d=\"{stairs}\" fill=\"none\" stroke=\"{BEST}\" stroke-opacity=\"0.6\"/>")
}

/// Times of one significant digit within the scale, at most about five.
fn ticks(scale: &Scale) -> Vec<f64> {
    let first = scale.low.log10().floor() as i32;
    let last = scale.high.log10().ceil() as i32;
    let all = (first..=last).flat_map(|decade| [1.0, 1.5, 2.0, 3.0, 5.0, 7.0].map(|digit| digit * 10f64.powi(decade)));
    let all: Vec<f64> = all.filter(|time| (scale.low..=scale.high).contains(time)).collect();
    let every = all.len().div_ceil(5).max(1);
    all.into_iter().step_by(every).collect()
}

fn time(seconds: f64) -> String {
    match seconds {
        t if t < 1e-3 => format!("{:.3} µs", t * 1e6).replace(".000", ""),
        t if t < 1.0 => format!("{:.3} ms", t * 1e3).replace(".000", ""),
        t => format!("{t:.2} s"),
    }
}

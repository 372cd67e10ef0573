//! The convergence plot: measure over iterations on a logarithmic scale, with the bound, as SVG.

use std::fmt::Write;

use super::vti::escape;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// Left, right, top and bottom of the plotted area.
const AREA: [f64; 4] = [78.0, 700.0, 48.0, 388.0];
/// More points than this are thinned out: the plot has about as many pixels.
const POINTS: usize = 2000;

/// What is drawn.
pub struct Convergence<'v> {
    /// Headline.
    pub title: &'v str,
    /// Measure at iterations 0, 1, …
    pub history: &'v [f64],
    /// The bound of the test.
    pub bound: f64,
    /// Measure of the true residual at the end, if known.
    pub truth: Option<f64>,
}

/// The document.
pub fn svg(plot: &Convergence) -> String {
    let scale = Scale::of(plot);
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = draw(&mut out, plot, &scale);
    out
}

/// From measures and iterations to places.
struct Scale {
    /// Decades shown: 10^low at the bottom, 10^high at the top.
    low: i32,
    high: i32,
    /// Iteration at the right end.
    last: f64,
}

impl Scale {
    fn of(plot: &Convergence) -> Scale {
        let shown = plot.history.iter().copied().chain([plot.bound]).chain(plot.truth);
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in shown.filter(|value| value.is_finite() && *value > 0.0) {
            low = low.min(value.log10());
            high = high.max(value.log10());
        }
        if low > high {
            (low, high) = (-1.0, 0.0);
        }
        let (low, mut high) = (low.floor() as i32, high.ceil() as i32);
        if high == low {
            high += 1;
        }
        Scale { low, high, last: plot.history.len().saturating_sub(1).max(1) as f64 }
    }

    fn x(&self, iteration: f64) -> f64 {
        AREA[0] + (AREA[1] - AREA[0]) * iteration / self.last
    }

    fn y(&self, measure: f64) -> f64 {
        let share = (measure.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        AREA[3] - (AREA[3] - AREA[2]) * share
    }
}

fn draw(out: &mut String, plot: &Convergence, scale: &Scale) -> std::fmt::Result {
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">"
    )?;
    writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>")?;
    writeln!(
        out,
        "<text x=\"{}\" y=\"28\" font-size=\"16\" font-weight=\"600\">{}</text>",
        AREA[0],
        escape(plot.title)
    )?;
    axes(out, scale)?;
    bound(out, plot, scale)?;
    curve(out, plot, scale)?;
    if let Some(truth) = plot.truth.filter(|truth| truth.is_finite() && *truth > 0.0) {
        let (x, y) = (scale.x(plot.history.len().saturating_sub(1) as f64), scale.y(truth));
        writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"#fff\" stroke=\"#1a5fb4\" stroke-width=\"2\">"
        )?;
        writeln!(out, "<title>true residual {truth:.3e}</title></circle>")?;
    }
    writeln!(out, "</svg>")
}

fn axes(out: &mut String, scale: &Scale) -> std::fmt::Result {
    let [left, right, top, bottom] = AREA;
    // At most about ten labels: every decade, or every second, fifth …
    let every = ((scale.high - scale.low) + 9) / 10;
    for decade in (scale.low..=scale.high).filter(|decade| (decade - scale.low) % every == 0) {
        let y = scale.y(10f64.powi(decade));
        writeln!(out, "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e3e3e3\"/>")?;
        writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">10<tspan dy=\"-5\" font-size=\"10\">{decade}</tspan></text>",
            left - 8.0,
            y + 5.0
        )?;
    }
    for tick in ticks(scale.last) {
        let x = scale.x(tick);
        writeln!(out, "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{}\" stroke=\"#222\"/>", bottom + 5.0)?;
        writeln!(out, "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{tick}</text>", bottom + 20.0)?;
    }
    writeln!(out, "<path d=\"M{left} {top}V{bottom}H{right}\" fill=\"none\" stroke=\"#222\"/>")?;
    let (middle, centre) = ((left + right) / 2.0, (top + bottom) / 2.0);
    writeln!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">iteration</text>", HEIGHT - 12.0)?;
    writeln!(
        out,
        "<text transform=\"translate(20 {centre}) rotate(-90)\" text-anchor=\"middle\">measure of the residual</text>"
    )
}

/// Round iteration numbers from 0 to `last`, about eight of them.
fn ticks(last: f64) -> Vec<f64> {
    let rough = last / 8.0;
    let power = 10f64.powf(rough.max(1.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough).unwrap_or(power);
    (0..).map(|n| f64::from(n) * step).take_while(|tick| *tick <= last).collect()
}

fn bound(out: &mut String, plot: &Convergence, scale: &Scale) -> std::fmt::Result {
    if !(plot.bound.is_finite() && plot.bound > 0.0) {
        return Ok(());
    }
    let y = scale.y(plot.bound);
    writeln!(
        out,
        "<line x1=\"{}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#c01c28\" stroke-dasharray=\"6 4\"/>",
        AREA[0], AREA[1]
    )?;
    writeln!(
        out,
        "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#c01c28\">tolerance {:.3e}</text>",
        AREA[1],
        y - 6.0,
        plot.bound
    )
}

fn curve(out: &mut String, plot: &Convergence, scale: &Scale) -> std::fmt::Result {
    let every = plot.history.len().div_ceil(POINTS).max(1);
    let last = plot.history.len().saturating_sub(1);
    let mut pen = 'M';
    write!(out, "<path fill=\"none\" stroke=\"#1a5fb4\" stroke-width=\"2\" stroke-linejoin=\"round\" d=\"")?;
    for (iteration, measure) in plot.history.iter().enumerate() {
        if iteration % every != 0 && iteration != last {
            continue;
        }
        // A zero or a value that is not finite has no place on the scale: the line breaks there.
        if !(measure.is_finite() && *measure > 0.0) {
            pen = 'M';
            continue;
        }
        write!(out, "{pen}{:.1} {:.1}", scale.x(iteration as f64), scale.y(*measure))?;
        pen = 'L';
    }
    writeln!(out, "\"/>")
}

//! Files of results.

use kernelwright::inputs::npy::Float;
use kernelwright::outputs::plot::{Convergence, svg};
use kernelwright::outputs::vti::{At, Field, write};

fn image(at: At, extents: [usize; 3], fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, at, extents, fields, Float::F32).expect("memory takes it");
    bytes
}

#[test]
fn cells_and_points_have_their_extents() {
    let field = Field { name: "u", values: &[1.0; 6] };
    let cells = String::from_utf8_lossy(&image(At::Cells, [3, 2, 1], &[field])).into_owned();
    assert!(cells.contains("WholeExtent=\"0 3 0 2 0 1\"") && cells.contains("<CellData>"), "{cells}");
    let field = Field { name: "u", values: &[1.0; 6] };
    let points = String::from_utf8_lossy(&image(At::Points, [3, 2, 1], &[field])).into_owned();
    assert!(points.contains("WholeExtent=\"0 2 0 1 0 0\"") && points.contains("<PointData>"), "{points}");
}

#[test]
fn arrays_lie_where_their_offsets_say() {
    let fields = [Field { name: "u", values: &[1.0, 2.0] }, Field { name: "a<b", values: &[3.0, 4.0] }];
    let bytes = image(At::Cells, [2, 1, 1], &fields);
    let start = bytes.windows(4).position(|w| w == b"   _").expect("an appended block") + 4;
    let text = String::from_utf8_lossy(&bytes[..start]).into_owned();
    assert!(text.contains("Name=\"a&lt;b\" format=\"appended\" offset=\"16\""), "{text}");
    for (offset, values) in [(0, [1f32, 2.0]), (16, [3.0, 4.0])] {
        let block = &bytes[start + offset..];
        assert_eq!(block[..8], 8u64.to_le_bytes());
        assert_eq!(block[8..16], values.map(f32::to_le_bytes).concat()[..]);
    }
}

#[test]
fn plots_of_odd_histories_stay_inside_the_picture() {
    let long: Vec<f64> = (0..100_000).map(|n| 10f64.powf(-f64::from(n) / 1e4)).collect();
    let histories: [&[f64]; 6] = [&[], &[0.0], &[1.0], &[1.0, f64::NAN, 0.1], &[1e300, 1e-300], &long];
    for history in histories {
        let plot = svg(&Convergence { title: "a < b", history, bound: 1e-6, truth: Some(2e-6) });
        assert!(plot.starts_with("<svg") && plot.trim_end().ends_with("</svg>") && plot.contains("a &lt; b"));
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
        assert!(plot.len() < 80_000, "{} bytes for {} values", plot.len(), history.len());
    }
}

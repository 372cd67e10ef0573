//! VTK image data (.vti): values on a regular grid, as ParaView reads them.
//!
//! The file is XML with one appended block of raw binary: for every array its length in bytes (64 bits), then the
//! elements, little endian, x fastest. That is the memory order of vectors, axis 0 being x. Spacing is one: a
//! program's geometry is in its coefficients, not in its index space.

use std::io::{self, Write};

use crate::inputs::npy::Float;

/// What the values of an image belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// `n` cells along an axis.
    Cells,
    /// `n` points along an axis.
    Points,
}

/// A named array of one value per cell or point.
pub struct Field<'v> {
    /// Name, shown by ParaView.
    pub name: &'v str,
    /// Values, x fastest.
    pub values: &'v [f64],
}

/// Writes an image with `extents` cells or points along x, y, z (1 for absent axes).
pub fn write(mut target: impl Write, at: At, extents: [usize; 3], fields: &[Field], float: Float) -> io::Result<()> {
    let (section, last) = match at {
        At::Cells => ("CellData", extents),
        At::Points => ("PointData", extents.map(|n| n.saturating_sub(1))),
    };
    let (kind, width) = match float {
        Float::F32 => ("Float32", 4),
        Float::F64 => ("Float64", 8),
    };
    let extent = format!("0 {} 0 {} 0 {}", last[0], last[1], last[2]);
    writeln!(target, "<?xml version=\"1.0\"?>")?;
    writeln!(
        target,
        "<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\" header_type=\"UInt64\">"
    )?;
    writeln!(target, "  <ImageData WholeExtent=\"{extent}\" Origin=\"0 0 0\" Spacing=\"1 1 1\">")?;
    writeln!(target, "    <Piece Extent=\"{extent}\">")?;
    writeln!(target, "      <{section}>")?;
    let mut offset = 0;
    for field in fields {
        let name = escape(field.name);
        writeln!(
            target,
            "        <DataArray type=\"{kind}\" Name=\"{name}\" format=\"appended\" offset=\"{offset}\"/>"
        )?;
        offset += 8 + width * field.values.len();
    }
    writeln!(target, "      </{section}>\n    </Piece>\n  </ImageData>")?;
    write!(target, "  <AppendedData encoding=\"raw\">\n   _")?;
    for field in fields {
        target.write_all(&((width * field.values.len()) as u64).to_le_bytes())?;
        for chunk in field.values.chunks(1 << 14) {
            let bytes: Vec<u8> = match float {
                Float::F32 => chunk.iter().flat_map(|value| (*value as f32).to_le_bytes()).collect(),
                Float::F64 => chunk.iter().flat_map(|value| value.to_le_bytes()).collect(),
            };
            target.write_all(&bytes)?;
        }
    }
    write!(target, "\n  </AppendedData>\n</VTKFile>\n")?;
    target.flush()
}

/// Text as it may stand in an attribute.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

//! Shapes of element kernels, changed by words: `fusion=two`, `parallel=8`.

use kernelwright_codegen::galerkin::map::{Fusion, Geometry, Home, Variant};

/// What can be changed, and to what.
const KEYS: &str = "fusion=one|two|three, parallel, inline, rows, sequential, unroll, gather, resident=N, \
                    fields|matrices=shared|cache, geometry=stored|vertices|faces, \
                    prefetch|symmetric|turns=yes|no";

/// The value of a part of a variant, as [`change`] reads it; empty if there is no such part.
pub fn value(variant: &Variant, key: &str) -> String {
    let home = |home: Home| if home == Home::Shared { "shared" } else { "cache" };
    let flag = |on: bool| if on { "yes" } else { "no" };
    match key {
        "fusion" => match variant.fusion {
            Fusion::One => "one".to_string(),
            Fusion::Two => "two".to_string(),
            Fusion::Three => "three".to_string(),
        },
        "parallel" => variant.parallel.to_string(),
        "inline" => variant.inline.to_string(),
        "rows" => variant.rows.to_string(),
        "sequential" => variant.sequential.to_string(),
        "unroll" => variant.unroll.to_string(),
        "gather" => variant.gather.to_string(),
        "resident" => variant.resident.unwrap_or(0).to_string(),
        "fields" => home(variant.fields).to_string(),
        "matrices" => home(variant.matrices).to_string(),
        "geometry" => match variant.geometry {
            Geometry::Stored => "stored",
            Geometry::Vertices => "vertices",
            Geometry::Faces => "faces",
        }
        .to_string(),
        "prefetch" => flag(variant.prefetch).to_string(),
        "symmetric" => flag(variant.symmetric).to_string(),
        "turns" => flag(variant.turns).to_string(),
        _ => String::new(),
    }
}

/// Changes one part of a variant.
///
/// # Errors
/// A part or value that does not exist.
pub fn change(variant: &mut Variant, key: &str, value: &str) -> Result<(), String> {
    let wrong = || format!("`{key}={value}` is no part of a variant; there are {KEYS}");
    let number = || value.parse::<u32>().map_err(|_| wrong());
    let home = || match value {
        "shared" => Ok(Home::Shared),
        "cache" => Ok(Home::Cache),
        _ => Err(wrong()),
    };
    let flag = || match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(wrong()),
    };
    match key {
        "fusion" => {
            variant.fusion = match value {
                "one" => Fusion::One,
                "two" => Fusion::Two,
                "three" => Fusion::Three,
                _ => return Err(wrong()),
            }
        }
        "parallel" => variant.parallel = number()?,
        "inline" => variant.inline = number()?,
        "rows" => variant.rows = number()?,
        "sequential" => variant.sequential = number()?,
        "unroll" => variant.unroll = number()?,
        "gather" => variant.gather = number()?,
        "resident" => variant.resident = Some(number()?).filter(|blocks| *blocks > 0),
        "fields" => variant.fields = home()?,
        "matrices" => variant.matrices = home()?,
        "geometry" => {
            variant.geometry = match value {
                "stored" => Geometry::Stored,
                "vertices" => Geometry::Vertices,
                "faces" => Geometry::Faces,
                _ => return Err(wrong()),
            }
        }
        "prefetch" => variant.prefetch = flag()?,
        "symmetric" => variant.symmetric = flag()?,
        "turns" => variant.turns = flag()?,
        _ => return Err(wrong()),
    }
    Ok(())
}
